"""Changes elsewhere that fall between a decision here and its transaction, made certain: they happen just before it."""

import errno
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
import trio

from memfs.model import ids
from memfs.model.errors import MemoryChanged, PreconditionFailed
from memfs.model.mutations import Applied, Create, Mutation, Update
from memfs.model.records import Actor
from memfs.vfs import StaleEntry, StaleInode
from memfs.workspace import AttachedStore
from tests.vfs.harness import SAVE, UPDATE, WRITE, Files, in_trio, on_mock_clock, policy, refused

SOMEBODY = Actor("user_actor", "somebody")
FAR_FUTURE_NS = 13_600_000_000 * 10**9


class Interrupted(AttachedStore):
    """A store in which something happens elsewhere just before the next commit of ours."""

    before: Callable[[], object] | None = None

    def commit(self, mutations: Sequence[Mutation]) -> Applied:
        before, self.before = self.before, None
        if before is not None:
            before()
        return super().commit(mutations)


@contextmanager
def just_before_the_next_commit(files: Files, action: Callable[[], object]) -> Iterator[None]:
    """Let something happen elsewhere when this filesystem commits next."""
    store = files.fs.store
    store.__class__ = Interrupted
    assert isinstance(store, Interrupted)
    store.before = action
    yield
    assert store.before is None, "nothing was committed"


def move(files: Files, path: str, new_path: str) -> None:
    """Somebody else renames a memory."""
    memory = files.workspace.memories.get(files.store.id, path)
    files.workspace.memories.apply(files.store.id, [Update(memory.id, path=new_path)], SOMEBODY)


@in_trio
async def test_7_a_memory_renamed_elsewhere_while_it_is_saved_here(files: Files) -> None:
    await files.write("/a", "one\n")
    with just_before_the_next_commit(files, lambda: move(files, "/a", "/moved")):
        await files.write("/a", "two\n")
    await files.fs.refresh()
    assert not files.exists("/a")
    assert await files.read("/moved") == "two\n"
    await files.write("/a", "another\n")
    assert await files.read("/moved") == "two\n"


@in_trio
async def test_4_a_memory_renamed_elsewhere_while_it_is_saved_atomically_here(files: Files) -> None:
    await files.write("/a", "one\n")
    await files.write("/a.tmp", "two\n")
    with just_before_the_next_commit(files, lambda: move(files, "/a", "/moved")):
        await files.rename("/a.tmp", "/a")
    await files.fs.refresh()
    assert await files.read("/a") == "two\n"
    assert not files.exists("/moved")


@in_trio
async def test_12_a_memory_renamed_elsewhere_while_its_mode_is_changed_here(files: Files) -> None:
    await files.write("/a", "one\n")
    with just_before_the_next_commit(files, lambda: move(files, "/a", "/moved")):
        await files.fs.set_attributes(files.node("/a").inode, mode=0o600)
    await files.fs.refresh()
    assert not files.exists("/a")
    assert files.node("/moved").mode == 0o600


@pytest.mark.parametrize("end", ["flush", "fsync"])
@in_trio
async def test_2_a_text_whose_name_was_taken_by_a_directory_elsewhere_is_not_lost_silently(
    files: Files, other: Files, end: str
) -> None:
    handle = await files.open("/p", SAVE)
    files.fs.write(handle.number, 0, b"A")
    await other.fs.refresh()
    await other.mkdir("/p")
    await other.write("/p/x", "B")
    with refused(errno.ESTALE):
        await getattr(files.fs, end)(handle.number)
    await files.fs.release(handle.number)


@in_trio
async def test_2_the_same_just_before_the_commit(files: Files, other: Files) -> None:
    handle = await files.open("/p", SAVE)
    files.fs.write(handle.number, 0, b"A")

    def take_the_name() -> None:
        files.workspace.memories.apply(files.store.id, [Create(ids.new_id(ids.MEMORY), "/p/x", b"B")], SOMEBODY)

    with just_before_the_next_commit(files, take_the_name), refused(errno.ESTALE):
        await files.fs.flush(handle.number)
    await files.fs.release(handle.number)
    await other.fs.refresh()
    assert await other.read("/p/x") == "B"


@in_trio
async def test_12_times_that_the_database_cannot_hold_are_cut_to_those_it_can(files: Files) -> None:
    handle = await files.open("/m", SAVE)
    files.fs.write(handle.number, 0, b"abc")
    await files.fs.set_attributes(handle.node.inode, mtime_ns=FAR_FUTURE_NS, atime_ns=-FAR_FUTURE_NS)
    await files.close(handle)
    await files.mkdir("/d")
    await files.fs.set_attributes(files.node("/d").inode, mtime_ns=FAR_FUTURE_NS)
    await files.rename("/d", "/e")
    assert files.node("/m").mtime_ns == files.node("/e").mtime_ns == 2**63 - 1


@in_trio
async def test_8_appends_go_to_the_end_also_where_the_kernel_does_not_know_it(files: Files, other: Files) -> None:
    """A handle that could be mapped, too: only what lies within the size that the kernel knows is written in place."""
    await files.write("/f", "aaa\n")
    files.file("/f").kernel_size = 4  # as a stat would have told it
    await other.fs.refresh()
    await other.write("/f", "bbb\n", WRITE | os.O_APPEND)
    handle = await files.open("/f", UPDATE | os.O_APPEND)
    files.fs.write(handle.number, 4, b"ccc\n")
    files.fs.write(handle.number, 0, b"A")  # a mapping's page
    await files.close(handle)
    assert await files.read("/f") == "Aaa\nbbb\nccc\n"


@in_trio
async def test_8_an_append_after_the_file_shrank_elsewhere_leaves_no_hole(files: Files, other: Files) -> None:
    await files.write("/f", "x" * 100)
    files.file("/f").kernel_size = 100
    await other.fs.refresh()
    await other.write("/f", "x\n")
    handle = await files.open("/f", UPDATE | os.O_APPEND)
    files.fs.write(handle.number, 100, b"y\n")
    await files.close(handle)
    assert await files.read("/f") == "x\ny\n"


async def chmod(files: Files, path: str) -> None:
    """Make a file private."""
    await files.fs.set_attributes(files.node(path).inode, mode=0o600)


async def move_directory(files: Files, path: str) -> None:
    """Rename the directory of a file."""
    await files.rename(path.rpartition("/")[0], "/moved")


async def move_file(files: Files, path: str) -> None:
    """Rename a file."""
    await files.rename(path, "/moved")


@pytest.mark.parametrize("change", [chmod, move_file, move_directory])
@in_trio
async def test_8_a_text_saved_elsewhere_while_only_a_name_or_a_mode_is_changed_here(
    files: Files, other: Files, change: Callable[[Files, str], Awaitable[None]]
) -> None:
    """It is seen as what it is, somebody else's text: who reads goes on in the old one, the kernel is told, and who
    opens the file starts from the new one.
    """
    await files.mkdir("/d")
    await files.write("/d/f", "one\n")
    await other.fs.refresh()
    reader = await files.open("/d/f", pid=1)
    node = reader.node
    with just_before_the_next_commit(files, lambda: trio.from_thread.run(other.write, "/d/f", "one\ntwo\n")):
        await change(files, "/d/f")
    assert files.get(reader) == b"one\n"
    assert node.head is not None
    assert node.size == node.head.size == 4
    assert not node.attached
    await files.close(reader)
    memory = files.workspace.versions.list(files.store.id)[0]
    path = memory.path
    assert path is not None
    late = await files.open(path, pid=2)
    assert files.get(late) == b"one\ntwo\n"
    await files.close(late)
    late = await files.open(path, SAVE, pid=2)
    files.put(late, 0, "one\n")  # who has seen the line and takes it out means it
    await files.close(late)
    assert await files.read(path) == "one\n"


@in_trio
async def test_12_a_mode_given_elsewhere_while_a_text_is_saved_here(files: Files, other: Files) -> None:
    await files.write("/a", "one\n")
    await other.fs.refresh()
    with just_before_the_next_commit(files, lambda: trio.from_thread.run(chmod, other, "/a")):
        await files.write("/a", "two\n")
    assert StaleInode(files.node("/a").inode) in files.fs.tree.stale
    await files.write("/a", "three\n")
    await other.fs.refresh()
    assert files.node("/a").mode == other.node("/a").mode == 0o600


GIVEN_NS = 5 * 10**9


async def save_with_a_time(files: Files, path: str) -> None:
    """What ``cp -p`` does."""
    await files.write(path, "theirs\n")
    await give_a_time(files, path)


async def give_a_time(files: Files, path: str) -> None:
    """``touch -d``."""
    await files.fs.set_attributes(files.node(path).inode, mtime_ns=GIVEN_NS)


@pytest.mark.parametrize("theirs", [save_with_a_time, give_a_time])
@pytest.mark.parametrize("change", [chmod, move_file, move_directory])
@in_trio
async def test_12_a_time_given_elsewhere_while_only_a_name_or_a_mode_is_changed_here(
    files: Files,
    other: Files,
    change: Callable[[Files, str], Awaitable[None]],
    theirs: Callable[[Files, str], Awaitable[None]],
) -> None:
    """Neither sets a time: what this mount believed it to be must not come back."""
    await files.mkdir("/d")
    await files.write("/d/f", "ours\n")
    await other.fs.refresh()
    inode = files.node("/d/f").inode
    with just_before_the_next_commit(files, lambda: trio.from_thread.run(theirs, other, "/d/f")):
        await change(files, "/d/f")
    assert StaleInode(inode) in files.fs.tree.stale
    await files.fs.refresh()
    await other.fs.refresh()
    path = files.workspace.versions.list(files.store.id)[0].path
    assert path is not None
    assert files.node(path).mtime_ns == other.node(path).mtime_ns == GIVEN_NS


@in_trio
async def test_12_a_mode_given_elsewhere_while_a_time_is_given_here(files: Files, other: Files) -> None:
    await files.write("/a", "one\n")
    await other.fs.refresh()
    with just_before_the_next_commit(files, lambda: trio.from_thread.run(chmod, other, "/a")):
        await give_a_time(files, "/a")
    await other.fs.refresh()
    for each in (files, other):
        assert (each.node("/a").mode, each.node("/a").mtime_ns) == (0o600, GIVEN_NS)


@in_trio
async def test_12_a_rename_moves_no_time_of_a_text_that_came_without_one(files: Files) -> None:
    """By the API; a new version has a later time."""
    files.workspace.memories.create(files.store.id, "/a", b"one\n", SOMEBODY)
    await files.fs.refresh()
    before = files.node("/a").mtime_ns
    await files.rename("/a", "/b")
    assert files.node("/b").mtime_ns == before
    move(files, "/b", "/c")
    await files.fs.refresh()
    assert files.node("/c").mtime_ns == before


@pytest.mark.parametrize("theirs", ["in place", "by rename"])
@pytest.mark.parametrize("reading", [False, True], ids=["closed", "open"])
@in_trio
async def test_4_a_memory_saved_elsewhere_just_before_it_is_moved_over_another_here(
    files: Files, other: Files, theirs: str, reading: bool
) -> None:
    """What was saved goes along, and the kernel, which moves the name by itself, is told what is there."""
    await files.write("/a", "old\n")
    await files.write("/b", "b\n")
    await other.fs.refresh()
    reader = await files.open("/a") if reading else None

    async def save() -> None:
        if theirs == "in place":
            await other.write("/a", "new\n")
        else:
            await other.write("/.tmp.a", "new\n")
            await other.rename("/.tmp.a", "/a")

    moved = files.node("/a")
    with just_before_the_next_commit(files, lambda: trio.from_thread.run(save)):
        await files.rename("/a", "/b")
    assert await files.read("/b") == "new\n"
    assert files.history()[-3:] == ["modified /a new", "deleted /a", "modified /b new"]
    if files.node("/b") is not moved:
        assert StaleEntry(1, b"b") in files.fs.tree.stale
    if reader is not None:
        assert files.get(reader) in (b"old\n", b"new\n")
        await files.close(reader)


@pytest.mark.parametrize("when", ["before", "just before"])
@in_trio
async def test_4_the_same_where_it_is_written_here_too(files: Files, other: Files, when: str) -> None:
    """Both edits are in what is moved."""
    await files.write("/a", "one\ntwo\n")
    await files.write("/b", "b\n")
    await other.fs.refresh()
    handle = await files.open("/a", UPDATE)
    files.put(handle, 0, "ONE")
    if when == "before":
        await other.write("/a", "one\nTWO\n")
        await files.rename("/a", "/b")
    else:
        with just_before_the_next_commit(files, lambda: trio.from_thread.run(other.write, "/a", "one\nTWO\n")):
            await files.rename("/a", "/b")
    await files.close(handle)
    assert await files.read("/b") == "ONE\nTWO\n"
    assert not files.exists("/a")


@pytest.mark.parametrize("theirs", ["moved", "deleted"])
@in_trio
async def test_4_a_memory_that_is_gone_when_it_is_moved_over_another_here(files: Files, theirs: str) -> None:
    """The name is not there any more; what was moved stays where it is now."""
    await files.write("/a", "a\n")
    await files.write("/b", "b\n")

    def take_away() -> None:
        if theirs == "moved":
            move(files, "/a", "/moved")
        else:
            files.workspace.memories.delete(files.store.id, "/a", SOMEBODY)

    with just_before_the_next_commit(files, take_away), refused(errno.ENOENT if theirs == "moved" else errno.ESTALE):
        await files.rename("/a", "/b")
    await files.fs.refresh()
    assert await files.names() == (["b", "moved"] if theirs == "moved" else ["b"])
    assert await files.read("/b") == "b\n"


@in_trio
async def test_4_with_the_policy_fail_nothing_is_moved(files: Files, other: Files) -> None:
    policy(files, "fail")
    await files.write("/a", "one\n")
    await files.write("/b", "b\n")
    handle = await files.open("/a", UPDATE)
    files.put(handle, 0, "ONE")
    await other.fs.refresh()
    await other.write("/a", "two\n")
    with pytest.raises(MemoryChanged):
        await files.rename("/a", "/b")
    with pytest.raises(MemoryChanged):
        await files.close(handle)
    assert await files.read("/a") == "two\n"
    assert await files.read("/b") == "b\n"


@pytest.mark.parametrize("ours", ["make", "remove"])
@on_mock_clock
async def test_4_a_memory_saved_elsewhere_while_it_is_set_aside_here_and_a_directory_takes_its_place(
    files: Files, other: Files, ours: str
) -> None:
    """It is kept: only what is as it was when it was set aside is removed with it."""
    await files.mkdir("/d")
    await files.write("/d/a", "a\n")
    await files.rename("/d/a", "/d/a~")
    await other.fs.refresh()
    with (
        just_before_the_next_commit(files, lambda: trio.from_thread.run(other.write, "/d/a", "new\n")),
        pytest.raises(PreconditionFailed),
    ):
        await (files.mkdir("/d/a") if ours == "make" else _removed(files))
    assert await files.read("/d/a") == "new\n"


async def _removed(files: Files) -> None:
    await files.unlink("/d/a~")
    await files.rmdir("/d")


@pytest.mark.parametrize("change", ["write", "append", "truncate"])
@in_trio
async def test_8_what_is_written_to_a_memory_that_was_deleted_elsewhere_is_not_lost_silently(
    files: Files, other: Files, change: str
) -> None:
    """It can go nowhere: it is no new memory (DESIGN.md 5), and nobody would ever see it."""
    await files.write("/a", "one\n")
    handle = await files.open("/a", UPDATE | (os.O_APPEND if change == "append" else 0))
    await other.fs.refresh()
    await other.unlink("/a")
    await files.fs.refresh()
    assert files.get(handle) == b"one\n"
    with refused(errno.ESTALE):
        if change == "truncate":
            await files.fs.set_attributes(handle.node.inode, size=0, handle=handle.number)
        else:
            files.put(handle, 4, "two\n")
    await files.close(handle)
    assert files.history() == ["created /a one", "deleted /a"]
