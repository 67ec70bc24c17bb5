"""Renames: moves, atomic saves, backups, exchanges, directories (DESIGN.md 4, 13)."""

import errno
import itertools
import os

import pytest
from trio import current_time as now

from memfs.model.errors import ContentNotText, PathTooLong
from memfs.model.mutations import Create
from memfs.vfs.asides import ASIDE_SECONDS
from tests.vfs.harness import SAVE, UPDATE, WRITE, Files, in_trio, jump, on_mock_clock, refused

# The matrix


async def make(files: Files, kind: str, name: str) -> str:
    """Make something to rename, or nothing, and return its path."""
    path = f"/{name}~" if kind == "scratch" else f"/{name}"
    if kind in ("memory", "scratch"):
        await files.write(path, f"text of {name}")
    elif kind == "new":
        handle = await files.open(path, SAVE)
        files.put(handle, 0, f"text of {name}")
    elif kind in ("empty directory", "directory"):
        await files.mkdir(path)
        if kind == "directory":
            await files.write(f"{path}/x", f"text of {name}/x")
    return path


SOURCES = ["memory", "scratch", "new", "empty directory", "directory"]
TARGETS = [*SOURCES, "nothing"]


def expected_errno(source: str, target: str, *, noreplace: bool) -> int:
    """What rename(2) answers."""
    if noreplace and target != "nothing":
        return errno.EEXIST
    if "directory" in source:
        if target == "directory":
            return errno.ENOTEMPTY
        if target in ("memory", "scratch", "new"):
            return errno.ENOTDIR
    elif "directory" in target:
        return errno.EISDIR
    return 0


@pytest.mark.parametrize("noreplace", [False, True], ids=["replace", "noreplace"])
@pytest.mark.parametrize("source, target", list(itertools.product(SOURCES, TARGETS)))
@in_trio
async def test_4_rename_of_anything_onto_anything(files: Files, source: str, target: str, noreplace: bool) -> None:
    old, new = await make(files, source, "old"), await make(files, target, "new")
    below = "/x" if source == "directory" else ""
    number = expected_errno(source, target, noreplace=noreplace)
    if number:
        with refused(number):
            await files.rename(old, new, noreplace=noreplace)
        assert files.exists(old)
        assert files.exists(new)
    else:
        inode = files.node(old).inode
        await files.rename(old, new, noreplace=noreplace)
        assert not files.exists(old)
        assert files.node(new).inode == inode
        if source != "empty directory":
            assert await files.read(new + below) == f"text of old{below}"
    # The fixture checks the tree against the store.


@pytest.mark.parametrize("one, two", list(itertools.product(SOURCES, SOURCES)))
@in_trio
async def test_4_exchange_of_anything_with_anything(files: Files, one: str, two: str) -> None:
    old, new = await make(files, one, "old"), await make(files, two, "new")
    inodes = files.node(old).inode, files.node(new).inode
    if "scratch" in (one, two):
        with refused(errno.EINVAL):
            await files.rename(old, new, exchange=True)
        inodes = inodes[1], inodes[0]
    else:
        await files.rename(old, new, exchange=True)
    assert (files.node(new).inode, files.node(old).inode) == inodes


@in_trio
async def test_4_exchange_needs_both_names(files: Files) -> None:
    await files.write("/a", "text")
    with refused(errno.ENOENT):
        await files.rename("/a", "/b", exchange=True)
    with refused(errno.ENOENT):
        await files.fs.rename(1, b"b", 1, b"a", noreplace=False, exchange=False)


@in_trio
async def test_4_rename_onto_itself_does_nothing(files: Files) -> None:
    await files.write("/a", "text")
    await files.rename("/a", "/a")
    assert files.history() == ["created /a text"]
    with refused(errno.EEXIST):
        await files.rename("/a", "/a", noreplace=True)


@in_trio
async def test_4_a_directory_is_not_moved_below_itself(files: Files) -> None:
    await files.mkdir("/d")
    await files.mkdir("/d/e")
    with refused(errno.EINVAL):
        await files.rename("/d", "/d/e/f")
    with refused(errno.EINVAL):
        await files.rename("/d", "/d/e", exchange=True)
    with refused(errno.EINVAL):
        await files.rename("/d/e", "/d", exchange=True)


# Files


@in_trio
async def test_4_a_rename_keeps_the_id_and_writes_modified(files: Files) -> None:
    await files.write("/a", "text")
    memory_id = files.file("/a").memory_id
    await files.rename("/a", "/b")
    assert files.file("/b").memory_id == memory_id
    assert files.history("/b") == ["created /a text", "modified /b text"]


@in_trio
async def test_4_a_rename_over_a_memory_continues_the_target(files: Files) -> None:
    await files.write("/a", "old")
    await files.write("/b", "new")
    target = files.file("/a").memory_id
    inode = files.node("/b").inode
    await files.rename("/b", "/a")
    assert files.file("/a").memory_id == target
    assert files.node("/a").inode == inode
    assert files.history() == ["created /a old", "created /b new", "deleted /b", "modified /a new"]


@in_trio
async def test_4_an_atomic_save_is_one_version(files: Files) -> None:
    await files.write("/a", "old")
    await files.write("/a.tmp", "new")
    await files.rename("/a.tmp", "/a")
    assert files.history() == ["created /a old", "modified /a new"]
    await files.write("/a.tmp", "new")
    await files.rename("/a.tmp", "/a")
    assert files.history() == ["created /a old", "modified /a new"]


@in_trio
async def test_4_an_atomic_save_of_a_new_memory(files: Files) -> None:
    await files.write("/a.tmp", "new")
    await files.rename("/a.tmp", "/a")
    assert files.history() == ["created /a new"]


@in_trio
async def test_4_an_atomic_save_while_the_source_is_open(files: Files) -> None:
    # As GLib does it: written, synced, renamed, closed.
    await files.write("/a", "old")
    handle = await files.open("/.goutputstream-ABC123", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    files.put(handle, 0, "new")
    await files.fs.fsync(handle.number)
    await files.rename("/.goutputstream-ABC123", "/a")
    await files.close(handle)
    assert files.history() == ["created /a old", "modified /a new"]


@in_trio
async def test_4_what_is_written_after_the_rename_is_the_next_version(files: Files) -> None:
    await files.write("/a", "old")
    handle = await files.open("/a.tmp", SAVE)
    files.put(handle, 0, "new")
    await files.rename("/a.tmp", "/a")
    files.put(handle, 3, "er")
    await files.close(handle)
    assert files.history() == ["created /a old", "modified /a new", "modified /a newer"]


@in_trio
async def test_5_a_replaced_file_that_is_open_keeps_its_bytes_and_never_comes_back(files: Files) -> None:
    await files.write("/a", "old")
    handle = await files.open("/a", UPDATE)
    files.put(handle, 0, "OLD")
    await files.write("/a.tmp", "new")
    await files.rename("/a.tmp", "/a")
    files.put(handle, 3, "!")
    assert files.get(handle) == b"OLD!"
    await files.close(handle)
    assert await files.read("/a") == "new"
    assert files.history() == ["created /a old", "modified /a new"]


@in_trio
async def test_4_a_rename_while_written_takes_the_text_along(files: Files) -> None:
    await files.write("/a", "old")
    handle = await files.open("/a", WRITE)
    files.put(handle, 0, "new")
    await files.rename("/a", "/b")
    await files.close(handle)
    assert files.history() == ["created /a old", "modified /b new"]


@in_trio
async def test_4_a_new_file_is_renamed_before_it_is_written(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    await files.rename("/a", "/b")
    files.put(handle, 0, "text")
    await files.close(handle)
    assert files.history() == ["created /b text"]


@in_trio
async def test_4_exchange_swaps_two_memories(files: Files) -> None:
    await files.write("/a", "one")
    await files.write("/b", "two")
    ids = files.file("/a").memory_id, files.file("/b").memory_id
    await files.rename("/a", "/b", exchange=True)
    assert (await files.read("/a"), await files.read("/b")) == ("two", "one")
    assert (files.file("/b").memory_id, files.file("/a").memory_id) == ids
    assert files.history() == ["created /a one", "created /b two", "modified /b one", "modified /a two"]


@in_trio
async def test_4_exchange_of_a_file_that_is_being_written(files: Files) -> None:
    await files.write("/a", "one")
    await files.write("/b", "two")
    handle = await files.open("/a", WRITE)
    files.put(handle, 0, "ONE")
    await files.rename("/a", "/b", exchange=True)
    await files.close(handle)
    assert (await files.read("/a"), await files.read("/b")) == ("two", "ONE")


@in_trio
async def test_5_a_reader_that_found_the_name_before_it_was_replaced_gets_the_old_text(files: Files) -> None:
    await files.write("/a", "old")
    node = files.node("/a")
    files.fs.remember(node)
    await files.write("/a.tmp", "new")
    await files.rename("/a.tmp", "/a")
    handle = await files.fs.open(node.inode, UPDATE, 0)
    assert files.get(handle) == b"old"
    files.put(handle, 0, "lost")
    await files.close(handle)
    files.fs.forget(node.inode, 1)
    assert files.history() == ["created /a old", "modified /a new"]


# Backups


@in_trio
async def test_4_an_editors_backup_is_one_version_of_the_same_memory(files: Files) -> None:
    # vim with 'backup': a → a~, a made anew, a~ removed.
    await files.write("/a", "old")
    memory_id = files.file("/a").memory_id
    await files.rename("/a", "/a~")
    await files.write("/a", "new")
    await files.unlink("/a~")
    assert files.file("/a").memory_id == memory_id
    assert files.history() == ["created /a old", "modified /a new"]


@in_trio
async def test_4_a_backup_and_a_rename_is_one_version_too(files: Files) -> None:
    await files.write("/a", "old")
    await files.write("/a.tmp", "new")
    await files.rename("/a", "/a~")
    await files.rename("/a.tmp", "/a")
    assert files.history() == ["created /a old", "modified /a new"]
    assert await files.read("/a~") == "old"


@in_trio
async def test_4_a_memory_moved_onto_the_name_of_a_backup_continues_it(files: Files) -> None:
    # mv a a~ && mv b a
    await files.write("/a", "old")
    await files.write("/b", "new")
    await files.rename("/a", "/a~")
    await files.rename("/b", "/a")
    assert files.history("/a") == ["created /a old", "modified /a new"]
    assert files.history("/b") == ["created /b new", "deleted /b"]


@in_trio
async def test_4_a_backup_put_back_makes_no_version(files: Files) -> None:
    await files.write("/a", "old")
    await files.rename("/a", "/a~")
    await files.rename("/a~", "/a")
    assert files.history() == ["created /a old"]


@in_trio
async def test_4_a_backup_that_cannot_be_continued_is_kept_for_another_try(files: Files) -> None:
    await files.write("/a", "old")
    await files.write("/a.tmp", b"\xff")
    await files.rename("/a", "/a~")
    with pytest.raises(ContentNotText):
        await files.rename("/a.tmp", "/a")
    await files.write("/a", "new")
    assert files.history() == ["created /a old", "modified /a new"]


@on_mock_clock
async def test_4_a_backup_whose_name_is_not_made_again_is_deleted_after_a_while(files: Files, other: Files) -> None:
    await files.write("/a", "old")
    await files.rename("/a", "/a~")
    due = await files.fs.commit_aged(now())
    assert due == now() + ASIDE_SECONDS
    await other.fs.refresh()
    assert await other.read("/a") == "old"  # nobody sees the moment between
    jump(ASIDE_SECONDS)
    assert await files.fs.commit_aged(now()) is None
    assert files.history() == ["created /a old", "deleted /a"]
    assert await files.read("/a~") == "old"
    await other.fs.refresh()
    assert await other.names() == []


@in_trio
async def test_4_a_backup_left_at_the_end_is_deleted(files: Files) -> None:
    await files.write("/a", "old")
    await files.rename("/a", "/a~")
    await files.fs.finish()
    assert files.history() == ["created /a old", "deleted /a"]


@in_trio
async def test_4_a_backup_that_is_edited_elsewhere_is_not_deleted(files: Files, other: Files) -> None:
    await files.write("/a", "old")
    await files.rename("/a", "/a~")
    await other.write("/a", "theirs")
    await files.settle()
    assert await files.read("/a") == "theirs"


@in_trio
async def test_11_a_directory_stays_when_its_last_file_becomes_a_backup(files: Files) -> None:
    for name in "de":
        create = Create(f"mem_01M8NMQFRP7HNTABQQHZR3KZM{name.upper()}", f"/{name}/a", b"text")
        files.workspace.memories.apply(files.store.id, [create], files.actor)
    await files.fs.refresh()
    await files.rename("/e/a", "/e/a~")
    await files.settle()
    await files.unlink("/e/a~")
    await files.rename("/d/a", "/a~")
    assert await files.names("/d") == []
    await files.settle()
    assert (await files.names("/d"), await files.names("/e")) == ([], [])


@in_trio
async def test_4_a_backups_directory_can_be_renamed(files: Files) -> None:
    await files.mkdir("/d")
    await files.write("/d/a", "old")
    await files.rename("/d/a", "/d/a~")
    await files.rename("/d", "/e")
    await files.write("/e/a", "new")
    assert files.history("/e/a")[-1] == "modified /e/a new"
    assert len({version.memory_id for version in files.versions()}) == 1


@in_trio
async def test_4_a_backups_directory_can_be_removed_and_its_name_used(files: Files, other: Files) -> None:
    await files.mkdir("/d")
    await files.write("/d/a", "old")
    await files.rename("/d/a", "/d/a~")
    await files.unlink("/d/a~")
    await files.rmdir("/d")
    assert files.history()[-1] == "deleted /d/a"
    await files.write("/d", "now a file")
    await other.fs.refresh()
    assert await other.read("/d") == "now a file"


@in_trio
async def test_4_a_backups_name_can_become_a_directory(files: Files) -> None:
    for name in "ab":
        await files.write(f"/{name}", "text")
        await files.rename(f"/{name}", f"/{name}~")
    await files.mkdir("/a")
    await files.rename("/a", "/b")
    assert files.history()[-2:] == ["deleted /a", "deleted /b"]


# Directories


@in_trio
async def test_4_a_directory_moves_all_its_memories_at_once(files: Files, other: Files) -> None:
    for path in ("/d", "/d/e", "/d/empty"):
        await files.mkdir(path)
    for path in ("/d/a", "/d/e/b"):
        await files.write(path, path)
    await files.write("/d/e/c~", "scratch")
    writing = await files.open("/d/new", SAVE)
    inodes = {path: files.node(f"/d{path}").inode for path in ("", "/a", "/e", "/e/b", "/empty", "/e/c~", "/new")}
    before = len(files.versions())
    await files.rename("/d", "/x")
    moved = files.versions()[before:]
    assert sorted(f"{version.operation} {version.path}" for version in moved) == [
        "modified /x/a",
        "modified /x/e/b",
    ]
    assert len({version.created_at for version in moved}) == 1
    assert {path: files.node(f"/x{path}").inode for path in inodes} == inodes
    await files.close(writing)
    assert files.history("/x/new") == ["created /x/new"]
    assert sorted(files.kept()) == ["/x", "/x/e", "/x/empty"]
    await other.fs.refresh()
    assert await other.names() == ["x"]


@in_trio
async def test_4_a_directory_over_an_empty_one_keeps_its_own_attributes(files: Files) -> None:
    await files.mkdir("/d", 0o750)
    await files.mkdir("/x", 0o700)
    await files.write("/d/a", "text")
    await files.rename("/d", "/x")
    assert files.node("/x").mode == 0o750


@in_trio
async def test_4_a_renamed_directory_and_a_new_one_of_its_old_name(files: Files) -> None:
    await files.mkdir("/d")
    await files.write("/d/a", "text")
    old = files.node("/d").inode
    await files.rename("/d", "/x")
    await files.mkdir("/d")
    assert files.node("/x").inode == old
    assert files.node("/d").inode != old


@in_trio
async def test_4_exchange_of_directories(files: Files) -> None:
    for name in "de":
        await files.mkdir(f"/{name}")
        await files.write(f"/{name}/a", name)
    await files.write("/d/only", "d")
    await files.rename("/d", "/e", exchange=True)
    assert (await files.read("/d/a"), await files.read("/e/a")) == ("e", "d")
    assert (await files.names("/d"), await files.names("/e")) == (["a"], ["a", "only"])


@in_trio
async def test_4_a_refused_directory_rename_changes_nothing(files: Files) -> None:
    deep = ""
    for _ in range(18):
        deep += "/d"
        await files.mkdir(deep)
    await files.mkdir("/x")
    await files.mkdir("/x/y")
    await files.write("/x/y/a", "text")
    before = files.versions()
    with pytest.raises(PathTooLong):
        await files.rename("/x", f"{deep}/x")
    assert files.versions() == before
    assert await files.read("/x/y/a") == "text"
