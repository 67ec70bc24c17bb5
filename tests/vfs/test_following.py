"""Seeing what others do to the store (DESIGN.md 5-8, 11), and losing nothing when both write."""

import errno
import os

import pytest
import trio

from memfs.model.errors import StoreArchived
from memfs.model.mutations import Create, Delete, KeepDirectory, Mutation, Update
from memfs.vfs import FileNode, Node
from memfs.vfs.reading import READING_SECONDS
from memfs.vfs.tree import StaleEntry, StaleInode
from tests.vfs.harness import APPEND, READ, SAVE, UPDATE, WRITE, Files, in_trio, jump, on_mock_clock, refused

ONE, TWO, THREE = (f"mem_01M8NMQFRP7HNTABQQHZR3KZM{n}" for n in range(1, 4))


def elsewhere(files: Files, *mutations: Mutation) -> None:
    """Somebody changes the store without a mount."""
    files.workspace.memories.apply(files.store.id, mutations, files.actor)


async def seen(files: Files) -> dict[str, str | None]:
    """The whole tree: text by path, None for a directory."""
    await files.fs.refresh()
    found: dict[str, str | None] = {}

    async def walk(directory: str) -> None:
        for name in await files.names(directory or "/"):
            path = f"{directory}/{name}"
            if path in found or hasattr(files.node(path), "children"):
                found[path] = None
                await walk(path)
            else:
                found[path] = await files.read(path)

    await walk("")
    return found


@in_trio
async def test_7_what_others_do_is_seen(files: Files, other: Files) -> None:
    await files.mkdir("/d")
    await files.write("/d/a", "one")
    assert await seen(other) == {"/d": None, "/d/a": "one"}
    await files.write("/d/a", "two")
    assert await seen(other) == {"/d": None, "/d/a": "two"}
    await files.rename("/d/a", "/d/b")
    await files.write("/d/a", "new")
    assert await seen(other) == {"/d": None, "/d/a": "new", "/d/b": "two"}
    await files.rename("/d", "/e")
    assert await seen(other) == {"/e": None, "/e/a": "new", "/e/b": "two"}
    await files.unlink("/e/a")
    await files.unlink("/e/b")
    assert await seen(other) == {"/e": None}
    await files.rmdir("/e")
    assert await seen(other) == {}


@in_trio
async def test_7_swapped_names_are_seen(files: Files, other: Files) -> None:
    await files.write("/a", "one")
    await files.write("/b", "two")
    await other.fs.refresh()
    nodes = other.node("/a"), other.node("/b")
    await files.rename("/a", "/b", exchange=True)
    assert await seen(other) == {"/a": "two", "/b": "one"}
    assert (other.node("/b"), other.node("/a")) == nodes


@in_trio
async def test_7_a_circle_of_names_is_seen(files: Files) -> None:
    elsewhere(files, *(Create(each, f"/{n}", str(n).encode()) for n, each in enumerate((ONE, TWO, THREE))))
    await files.fs.refresh()
    elsewhere(files, Update(ONE, path="/1"), Update(TWO, path="/2"), Update(THREE, path="/0"))
    assert await seen(files) == {"/0": "2", "/1": "0", "/2": "1"}


@in_trio
async def test_7_a_file_becomes_a_directory_and_back(files: Files) -> None:
    elsewhere(files, Create(ONE, "/a", b"file"))
    await files.fs.refresh()
    elsewhere(files, Delete(ONE), Create(TWO, "/a/b/c", b"below"))
    assert await seen(files) == {"/a": None, "/a/b": None, "/a/b/c": "below"}
    elsewhere(files, Delete(TWO), Create(THREE, "/a", b"file again"))
    assert await seen(files) == {"/a": "file again"}
    files.compare_inodes = False


@in_trio
async def test_7_what_was_said_to_a_kernel_is_named_stale(files: Files, other: Files) -> None:
    await files.write("/a", "one")
    await files.write("/b", "two")
    await other.fs.refresh()
    inode = other.node("/a").inode
    stale = other.fs.tree.stale
    stale.clear()

    await files.write("/a", "ONE")
    await other.fs.refresh()
    assert stale == [StaleInode(inode)]
    stale.clear()

    await files.write("/c", "three")
    await other.fs.refresh()
    assert set(stale) == {StaleEntry(1, b"c"), StaleInode(1)}
    stale.clear()

    await files.rename("/a", "/d")
    await other.fs.refresh()
    assert set(stale) == {StaleEntry(1, b"a"), StaleEntry(1, b"d"), StaleInode(1), StaleInode(inode)}
    stale.clear()

    await files.unlink("/b")
    await other.fs.refresh()
    assert set(stale) == {StaleEntry(1, b"b"), StaleInode(1)}
    stale.clear()

    await other.write("/e", "mine")
    await other.write("/e", "mine again")
    await other.rename("/e", "/f")
    await other.unlink("/f")
    await other.fs.refresh()
    assert stale == []


@in_trio
async def test_7_a_kept_mode_and_an_attribute_are_seen(files: Files, other: Files) -> None:
    await files.write("/a", "text")
    await files.mkdir("/d")
    await other.fs.refresh()
    for path in ("/a", "/d"):
        await files.fs.set_attributes(files.node(path).inode, mode=0o600)
    await other.fs.refresh()
    assert (other.node("/a").mode, other.node("/d").mode) == (0o600, 0o600)


@on_mock_clock
async def test_7_a_reader_goes_on_in_its_text_and_follows_when_it_is_idle(files: Files, other: Files) -> None:
    """It reads until there is no more: of the old text and a longer one it would make a mixture."""
    await files.write("/a", "old")
    await other.fs.refresh()
    reader = await other.open("/a", READ)
    assert other.get(reader) == b"old"
    await files.write("/a", "new and longer")
    assert await other.read("/a") == "new and longer"
    assert other.get(reader) == b"old"
    due = other.fs.follow_left()
    assert due is not None
    other.fs.tree.stale.clear()
    jump(due - trio.current_time())
    assert other.fs.follow_left() is None
    assert other.fs.tree.stale == [StaleInode(reader.node.inode)]
    reader.node.told = reader.node.head  # the kernel asks for its size
    assert other.get(reader) == b"new and longer"
    await files.write("/a", "newest")
    await other.fs.refresh()
    assert other.get(reader) == b"new and longer"
    jump(READING_SECONDS)
    other.fs.follow_left()
    reader.node.told = reader.node.head
    assert other.get(reader) == b"newest"
    await other.close(reader)
    other.compare_inodes = files.compare_inodes = False


@in_trio
async def test_7_the_second_try_of_a_kernel_is_answered(files: Files, other: Files) -> None:
    """However often others replace the file: the kernel has looked it up after the program's call began."""

    async def replaced() -> Node:
        """What the kernel finds at a name that is replaced before it opens it."""
        await other.fs.refresh()
        node = other.node("/a", 7)
        other.fs.remember(node)
        await files.write("/a.tmp", f"text {len(held)}")
        await files.rename("/a.tmp", "/a")
        held.append(node)
        return node

    held: list[Node] = []
    await files.write("/a", "first")
    for flags, expected in ((READ, b"text 0"), (WRITE | os.O_TRUNC, b""), (WRITE, b"text 5")):
        with refused(errno.ESTALE):
            await other.fs.open((await replaced()).inode, flags, 7)
        handle = await other.fs.open((await replaced()).inode, flags, 7)
        assert other.get(handle) == expected
        if flags != READ:
            other.put(handle, 0, "saved")
        await other.close(handle)
        assert (await files.read("/a")).startswith("text" if flags == READ else "saved")
        with refused(errno.ESTALE):  # that was one try
            await other.fs.open(held[-1].inode, flags, 7)
        other.fs.retries._told.clear()
    for node in held:
        other.fs.forget(node.inode, 1)
    files.compare_inodes = other.compare_inodes = False


@in_trio
async def test_7_who_may_have_come_by_a_name_that_is_gone_looks_up_the_new_one(
    files: Files, other: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel was told, but has found the file before that. A while later nobody can be on the way any more."""
    await files.mkdir("/old")
    await files.write("/old/a", "text")
    await other.fs.refresh()
    node = other.node("/old/a")
    other.fs.remember(node)
    await files.rename("/old", "/new")
    await other.fs.refresh()
    other.fs.tree.stale.clear()  # as if told
    with refused(errno.ESTALE):
        await other.fs.open(node.inode, READ, 7)
    assert other.node("/new/a", 7) is node
    handle = await other.fs.open(node.inode, READ, 7)
    assert other.get(handle) == b"text"
    with refused(errno.ESTALE):
        await other.fs.open(node.inode, READ, 8)
    monkeypatch.setattr("memfs.vfs.looking.WALK_SECONDS", 0.0)
    later = await other.fs.open(node.inode, READ, 8)
    for each in (handle, later):
        await other.close(each)
    other.fs.forget(node.inode, 1)


@in_trio
async def test_7_only_what_was_looked_up_since_the_first_try_is_answered_at_the_second(
    files: Files, other: Files
) -> None:
    """Else a later open of the same thread would be shown what was replaced before it began. Who reads gets also what
    is deleted between lookup and open: it was there when the call began.
    """
    await files.write("/a", "a 0")
    await files.write("/b", "b 0")
    await other.fs.refresh()
    first, elsewhere = other.node("/a"), other.node("/b")
    for node in (first, elsewhere):
        other.fs.remember(node)
    for path in ("/a", "/b"):
        await files.write("/x.tmp", f"{path[1]} 1")
        await files.rename("/x.tmp", path)
    with refused(errno.ESTALE):
        await other.fs.open(first.inode, READ, 7)
    found = other.node("/a", 7)
    other.fs.remember(found)
    with refused(errno.ESTALE):
        await other.fs.open(elsewhere.inode, READ, 7)
    with refused(errno.ESTALE):
        await other.fs.open(first.inode, READ, 7)
    assert other.node("/a", 7) is found
    await files.unlink("/a")
    handle = await other.fs.open(found.inode, READ, 7)
    assert other.get(handle) == b"a 1"
    with refused(errno.ESTALE):
        await other.fs.open(first.inode, READ, 7)
    with refused(errno.ENOENT):  # where that call ends
        other.node("/a", 7)
    assert not other.fs.retries._told
    await other.close(handle)
    for node in (first, elsewhere, found):
        other.fs.forget(node.inode, 1)
    files.compare_inodes = other.compare_inodes = False


@in_trio
async def test_7_the_attributes_of_what_was_replaced_elsewhere_are_those_it_had(files: Files, other: Files) -> None:
    """Before an open, a kernel asks who may: it would have used up its second try. What changes something, or is gone
    for good, it looks up anew.
    """
    await files.write("/a", "old")
    await other.fs.refresh()
    node = other.node("/a")
    other.fs.remember(node)
    await files.write("/x.tmp", "newer")
    await files.rename("/x.tmp", "/a")
    await other.fs.refresh()
    shown = await other.fs.shown(node.inode)
    assert isinstance(shown, FileNode)
    assert (shown is node, shown.size) == (True, 3)
    with refused(errno.ESTALE):
        await other.fs.set_attributes(node.inode, mode=0o600)
    other.fs.forget(node.inode, 1)
    node = other.node("/a")
    other.fs.remember(node)
    await files.unlink("/a")
    await other.fs.refresh()
    with refused(errno.ESTALE):
        await other.fs.shown(node.inode)
    other.fs.forget(node.inode, 1)
    files.compare_inodes = other.compare_inodes = False


@in_trio
async def test_7_peek_sees_without_waiting(files: Files, other: Files) -> None:
    await files.write("/a", "text")
    other.fs.peek()
    assert other.exists("/a")


@in_trio
async def test_5_what_is_deleted_elsewhere_keeps_its_bytes_for_its_readers(files: Files, other: Files) -> None:
    await files.write("/a", "text")
    await other.fs.refresh()
    reader = await other.open("/a", READ)
    await files.unlink("/a")
    await other.fs.refresh()
    assert not other.exists("/a")
    assert other.get(reader) == b"text"
    await other.close(reader)


@in_trio
async def test_7_an_archived_store_refuses_at_once(files: Files) -> None:
    await files.write("/a", "text")
    files.workspace.stores.archive(files.store.id)
    await files.fs.refresh()
    with pytest.raises(StoreArchived):
        await files.open("/a", WRITE)
    with pytest.raises(StoreArchived):
        await files.mkdir("/d")
    assert await files.read("/a") == "text"


@in_trio
async def test_11_a_directory_that_only_memories_made_goes_with_them(files: Files) -> None:
    elsewhere(files, Create(ONE, "/d/e/a", b"text"), KeepDirectory("/k/l"))
    assert await seen(files) == {"/d": None, "/d/e": None, "/d/e/a": "text", "/k": None, "/k/l": None}
    elsewhere(files, Delete(ONE))
    assert await seen(files) == {"/k": None, "/k/l": None}


# Both write


@in_trio
async def test_8_of_two_writers_the_later_wins_and_both_texts_are_in_the_history(files: Files, other: Files) -> None:
    await files.write("/a", "base")
    await other.fs.refresh()
    mine, theirs = await files.open("/a", WRITE), await other.open("/a", WRITE)
    files.put(mine, 0, "mine")
    other.put(theirs, 0, "them")
    await other.close(theirs)
    await files.fs.refresh()
    assert files.get(mine) == b"mine"
    await files.close(mine)
    assert files.history() == ["created /a base", "modified /a them", "modified /a mine"]
    assert (await seen(files), await seen(other)) == ({"/a": "mine"}, {"/a": "mine"})


@pytest.mark.parametrize("looked", [False, True], ids=["unseen", "seen"])
@in_trio
async def test_8_the_same_path_made_in_both_is_one_memory_with_both_texts(
    files: Files, other: Files, looked: bool
) -> None:
    mine, theirs = await files.open("/a", SAVE), await other.open("/a", SAVE)
    files.put(mine, 0, "mine")
    other.put(theirs, 0, "theirs")
    await other.close(theirs)
    if looked:
        await files.fs.refresh()
    await files.close(mine)
    assert files.history() == ["created /a theirs", "modified /a mine"]
    assert (await seen(files), await seen(other)) == ({"/a": "mine"}, {"/a": "mine"})


@pytest.mark.parametrize("looked", [False, True], ids=["unseen", "seen"])
@in_trio
async def test_8_what_is_being_written_here_survives_a_delete_elsewhere(
    files: Files, other: Files, looked: bool
) -> None:
    await files.write("/a", "old")
    await other.fs.refresh()
    handle = await files.open("/a", WRITE)
    files.put(handle, 0, "new")
    await other.unlink("/a")
    if looked:
        await files.fs.refresh()
    await files.close(handle)
    assert files.history() == ["created /a old", "deleted /a", "created /a new"]
    assert await seen(other) == {"/a": "new"}


@pytest.mark.parametrize("looked", [False, True], ids=["unseen", "seen"])
@in_trio
async def test_8_what_is_being_written_here_follows_a_rename_elsewhere(
    files: Files, other: Files, looked: bool
) -> None:
    await files.write("/a", "old")
    await other.fs.refresh()
    handle = await files.open("/a", WRITE)
    files.put(handle, 0, "new")
    await other.rename("/a", "/b")
    if looked:
        await files.fs.refresh()
    await files.close(handle)
    assert await seen(other) == {"/b": "new"}
    assert await seen(files) == {"/b": "new"}


@in_trio
async def test_8_a_memory_moved_elsewhere_onto_what_is_being_written_here_keeps_both_texts(files: Files) -> None:
    elsewhere(files, Create(ONE, "/b", b"theirs"))
    await files.fs.refresh()
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "mine")
    elsewhere(files, Update(ONE, path="/a"))
    await files.fs.refresh()
    await files.close(handle)
    assert files.history() == ["created /b theirs", "modified /a theirs", "modified /a mine"]
    files.compare_inodes = False


@in_trio
async def test_8_a_text_whose_name_became_a_directory_elsewhere_is_refused_at_close(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "mine")
    elsewhere(files, Create(ONE, "/a/b", b"theirs"))
    await files.fs.refresh()
    with refused(errno.ESTALE):
        await files.fs.fsync(handle.number)
    with refused(errno.ESTALE):
        await files.close(handle)
    assert await seen(files) == {"/a": None, "/a/b": "theirs"}


@in_trio
async def test_8_a_new_file_and_an_empty_directory_made_elsewhere(files: Files, other: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "mine")
    await other.mkdir("/a")
    await files.fs.refresh()
    await files.close(handle)
    assert await seen(other) == {"/a": "mine"}


@in_trio
async def test_7_names_are_decided_on_the_store_as_it_is(files: Files, other: Files) -> None:
    await files.mkdir("/d")
    await files.write("/a", "text")
    await other.fs.refresh()
    # None of this has been seen by a refresh here.
    await other.write("/d/new", "theirs")
    with refused(errno.ENOTEMPTY):
        await files.rmdir("/d")
    await other.write("/b", "theirs")
    with refused(errno.EEXIST):
        await files.rename("/a", "/b", noreplace=True)
    await other.write("/c", "theirs")
    await files.rename("/a", "/c")
    assert files.history("/c") == ["created /c theirs", "modified /c text"]
    await other.unlink("/c")
    with refused(errno.ENOENT):
        await files.fs.unlink(1, b"c")
    await other.mkdir("/e")
    with refused(errno.EEXIST):
        await files.fs.mkdir(1, b"e", 0o755)
    await other.write("/f", "theirs")
    with refused(errno.EEXIST):
        await files.fs.create(1, b"f", 0o100644, SAVE | 0o200, 0)
    handle = await files.fs.create(1, b"f", 0o100644, UPDATE, 0)
    assert files.get(handle) == b"theirs"
    await files.close(handle)


@in_trio
async def test_7_opening_what_was_removed_elsewhere_is_estale(files: Files, other: Files) -> None:
    await files.write("/a", "text")
    await other.fs.refresh()
    node = other.node("/a")
    other.fs.remember(node)
    await files.unlink("/a")
    with refused(errno.ESTALE):
        await other.fs.open(node.inode, READ, 0)
    other.fs.forget(node.inode, 1)


@in_trio
async def test_6_a_file_replaced_elsewhere_is_found_under_its_name(files: Files, other: Files) -> None:
    await files.write("/a", "old")
    await other.fs.refresh()
    await files.write("/a.tmp", "new")
    await files.rename("/a.tmp", "/a")
    with refused(errno.ESTALE):  # the kernel looks the name up anew
        await other.fs.open(other.node("/a").inode, READ, 0)
    handle = await other.open("/a")
    assert other.get(handle) == b"new"
    assert handle.node.inode == files.node("/a").inode
    await other.close(handle)


@in_trio
async def test_6_who_has_a_file_open_that_is_replaced_elsewhere_keeps_what_it_held(files: Files, other: Files) -> None:
    """As on any disk; but who may still write to it goes on in the memory, or that would be lost."""
    await files.write("/a", "old")
    await other.fs.refresh()
    reader = await other.open("/a")
    await files.write("/a.tmp", "new")
    await files.rename("/a.tmp", "/a")
    assert await other.read("/a") == "new"
    assert other.get(reader) == b"old"
    await other.close(reader)
    writer = await other.open("/a", APPEND)
    await files.write("/a.tmp", "newer")
    await files.rename("/a.tmp", "/a")
    await other.fs.refresh()
    other.put(writer, 3, "!")
    await other.close(writer)
    assert await files.read("/a") == "newer!"
    files.compare_inodes = other.compare_inodes = False


@in_trio
async def test_7_a_name_that_was_given_to_another_is_looked_up_anew(files: Files, other: Files) -> None:
    """The kernel has found the file by its old name, and does not ask again before it opens it."""
    await files.write("/a", "one")
    await other.fs.refresh()
    node = other.node("/a")
    other.fs.remember(node)
    await files.rename("/a", "/b")
    await files.write("/a", "two")
    with refused(errno.ESTALE):
        await other.fs.open(node.inode, READ, 0)
    assert await other.read("/a") == "two"
    assert await other.read("/b") == "one"
    other.fs.forget(node.inode, 1)


@in_trio
async def test_7_a_directory_that_is_gone_elsewhere_is_looked_up_anew(files: Files, other: Files) -> None:
    """Listed or searched by whoever found it before; one that was removed here is empty, as on any disk."""
    await files.mkdir("/d")
    await other.fs.refresh()
    node = other.node("/d")
    other.fs.remember(node)
    await files.rmdir("/d")
    with refused(errno.ESTALE):
        await other.fs.opendir(node.inode)
    with refused(errno.ESTALE):
        other.fs.lookup(node.inode, b"name")
    other.fs.forget(node.inode, 1)
    node = await other.mkdir("/e")
    other.fs.remember(node)
    await other.rmdir("/e")
    other.fs.releasedir((await other.fs.opendir(node.inode)).number)
    with refused(errno.ENOENT):
        other.fs.lookup(node.inode, b"name")
    other.fs.forget(node.inode, 1)


@in_trio
async def test_who_keeps_a_file_open_keeps_nothing_of_what_came_between(files: Files, other: Files) -> None:
    """However often somebody else saves it meanwhile."""
    await files.write("/f", "one\n")
    reader = await files.open("/f", READ, pid=1)
    await other.fs.refresh()
    for number in range(3):
        await other.write("/.f.tmp", f"{number}\n")
        await other.rename("/.f.tmp", "/f")
        await files.fs.refresh()
    assert files.get(reader) == b"one\n"
    assert reader.node.successor is files.file("/f")
    assert files.file("/f").former == (reader.node,)
    await files.close(reader)
