"""What names may be, how many memories there may be, and directories (DESIGN.md 9-11, 14)."""

import errno
import os
import stat
from pathlib import Path

import pytest

from memfs.engine import Limits
from memfs.model.errors import InvalidPath, NameNotUtf8, PathTooLong, StoreFull
from memfs.model.mutations import Create
from memfs.model.records import MAX_CONTENT_BYTES, MAX_MEMORIES, Actor, Store
from memfs.workspace import Workspace, memories
from tests.vfs.harness import EXCLUSIVE, READ, SAVE, Files, in_trio, refused

BAD = {
    "control": (b"a\tb", InvalidPath),
    "newline": (b"a\n", InvalidPath),
    "delete": (b"a\x7f", InvalidPath),
    "format": ("a\u200bb".encode(), InvalidPath),
    "line separator": ("a\u2028b".encode(), InvalidPath),
    "paragraph separator": ("a\u2029b".encode(), InvalidPath),
    "not NFC": ("e\u0301".encode(), InvalidPath),
    "not UTF-8": (b"caf\xe9", NameNotUtf8),
    "256 bytes": (b"x" * 256, PathTooLong),
    "256 bytes in fewer characters": ("é".encode() * 128, PathTooLong),
}


@pytest.mark.parametrize("name, error", BAD.values(), ids=BAD.keys())
@in_trio
async def test_10_names_that_no_memory_may_have_cannot_be_made(
    files: Files, name: bytes, error: type[InvalidPath]
) -> None:
    await files.write("/a", "text")
    fs = files.fs
    for attempt in (
        fs.create(1, name, stat.S_IFREG | 0o644, SAVE, 0),
        fs.mknod(1, name, stat.S_IFREG | 0o644),
        fs.mkdir(1, name, 0o755),
        fs.rename(1, b"a", 1, name, noreplace=False, exchange=False),
    ):
        with pytest.raises(error) as caught:
            await attempt
        assert caught.type is error
    assert await files.names() == ["a"]


@pytest.mark.parametrize("name, error", BAD.values(), ids=BAD.keys())
@in_trio
async def test_10_asking_for_a_name_that_cannot_be_is_enoent(
    files: Files, name: bytes, error: type[InvalidPath]
) -> None:
    if error is PathTooLong:
        with pytest.raises(PathTooLong):
            files.fs.lookup(1, name)
    else:
        with refused(errno.ENOENT):
            files.fs.lookup(1, name)


@in_trio
async def test_10_unusual_names_are_ordinary(files: Files) -> None:
    names = ["_", "%", "a_b", "a%b", "A", "a", "ﬀ", "日本語.md", "é", "-rf", " ", "a b", "*", "😀", "..a", "x" * 255]
    for name in names:
        await files.write(f"/{name}", name)
    assert await files.names() == sorted(names)
    await files.unlink("/_")
    await files.unlink("/%")
    assert await files.names() == sorted(set(names) - {"_", "%"})
    assert await files.read("/a_b") == "a_b"


@in_trio
async def test_10_a_path_has_at_most_20_segments(files: Files) -> None:
    directory = ""
    for _ in range(19):
        directory += "/d"
        await files.mkdir(directory)
    await files.write(f"{directory}/a", "20")
    await files.mkdir(f"{directory}/e")
    with pytest.raises(PathTooLong):
        await files.write(f"{directory}/e/a", "21")
    with pytest.raises(PathTooLong):
        await files.mkdir(f"{directory}/e/f")
    # Nothing may be moved there either, nor what lies below it.
    await files.mkdir("/x")
    await files.write("/x/a", "text")
    with pytest.raises(PathTooLong):
        await files.rename("/x", f"{directory}/x")
    assert await files.read("/x/a") == "text"


@in_trio
async def test_10_a_path_has_at_most_1_024_bytes(files: Files) -> None:
    directory = ""
    for _ in range(4):
        directory += "/" + "d" * 250
        await files.mkdir(directory)
    room = 1024 - len(directory) - 1
    await files.write(f"{directory}/{'a' * room}", "fits")
    with pytest.raises(PathTooLong):
        await files.write(f"{directory}/{'a' * (room + 1)}", "does not")


@in_trio
async def test_10_a_longer_name_that_the_api_made_can_be_read(files: Files) -> None:
    path = "/" + "x" * 300
    files.workspace.memories.apply(
        files.store.id, [Create("mem_01M8NMQFRP7HNTABQQHZR3KZM6", path, b"text")], files.actor
    )
    await files.fs.refresh()
    assert await files.read(path) == "text"
    with pytest.raises(PathTooLong):
        files.fs.lookup(1, b"y" * 300)


# Directories


@in_trio
async def test_11_directories_that_mkdir_made_stay(files: Files) -> None:
    await files.mkdir("/d", 0o700)
    await files.mkdir("/d/e")
    assert files.history() == []
    with refused(errno.EEXIST):
        await files.mkdir("/d")
    fresh = Files(files.workspace, files.store)
    assert await fresh.names("/d") == ["e"]
    assert (fresh.node("/d").mode, fresh.node("/d").inode) == (0o700, files.node("/d").inode)


@in_trio
async def test_11_a_directory_that_a_memory_made_goes_with_it_elsewhere_and_stays_when_emptied_here(
    files: Files, other: Files
) -> None:
    create = [Create(f"mem_01M8NMQFRP7HNTABQQHZR3KZM{n}", f"/{n}/a", b"text") for n in range(5)]
    files.workspace.memories.apply(files.store.id, create, files.actor)
    await files.fs.refresh()
    await files.unlink("/0/a")
    await files.rename("/1/a", "/b")
    await files.rename("/2/a", "/b")
    await files.rename("/3/a", "/3/b")
    assert [await files.names(f"/{n}") for n in range(4)] == [[], [], [], ["b"]]
    assert sorted(files.kept()) == ["/0", "/1", "/2"]
    await other.fs.refresh()
    assert await other.names() == ["0", "1", "2", "3", "4", "b"]
    files.check()


@in_trio
async def test_11_rmdir(files: Files) -> None:
    await files.mkdir("/d")
    await files.mkdir("/d/e")
    await files.write("/d/e/a", "text")
    for path, number in (("/d", errno.ENOTEMPTY), ("/d/e", errno.ENOTEMPTY), ("/d/e/a", errno.ENOTDIR)):
        with refused(number):
            await files.rmdir(path)
    with refused(errno.ENOENT):
        await files.fs.rmdir(1, b"missing")
    with refused(errno.EISDIR):
        await files.unlink("/d/e")
    await files.unlink("/d/e/a")
    await files.rmdir("/d/e")
    await files.rmdir("/d")
    assert files.kept() == []
    assert await files.names() == []


@in_trio
async def test_11_a_directory_with_scratch_in_it_is_not_empty(files: Files) -> None:
    await files.mkdir("/d")
    await files.write("/d/a.tmp", "x")
    with refused(errno.ENOTEMPTY):
        await files.rmdir("/d")
    await files.unlink("/d/a.tmp")
    await files.rmdir("/d")


@in_trio
async def test_11_nothing_is_made_in_a_removed_directory(files: Files) -> None:
    directory = await files.mkdir("/d")
    await files.write("/a", "text")
    files.fs.remember(directory)
    await files.rmdir("/d")
    fs = files.fs
    for attempt in (
        fs.create(directory.inode, b"a", stat.S_IFREG | 0o644, SAVE, 0),
        fs.mknod(directory.inode, b"a", stat.S_IFREG | 0o644),
        fs.mkdir(directory.inode, b"a", 0o755),
        fs.rename(1, b"a", directory.inode, b"a", noreplace=False, exchange=False),
    ):
        with refused(errno.ENOENT):
            await attempt
    await fs.set_attributes(directory.inode, mode=0o700)
    assert files.kept() == []
    fs.forget(directory.inode, 1)


@in_trio
async def test_11_an_open_directory_has_the_positions_of_when_it_was_opened_whenever_it_is_asked(files: Files) -> None:
    """A kernel that has kept the names asks only for those behind them, when they have changed meanwhile."""
    for name in ("/a", "/b", "/c"):
        await files.write(name, "x")
    handle = await files.fs.opendir(1)
    left = await files.fs.opendir(1)
    files.fs.releasedir(left.number)
    await files.unlink("/a")
    await files.write("/d", "x")
    assert [name for name, _ in handle.entries()] == [b".", b"..", b"a", b"b", b"c"]
    files.fs.releasedir(handle.number)
    assert not files.fs.tree.root.unread


@in_trio
async def test_11_an_open_directory_keeps_its_positions_and_rewinds_to_the_present(files: Files) -> None:
    for name in "abc":
        await files.write(f"/{name}", name)
    handle = await files.fs.opendir(1)
    await files.unlink("/b")
    await files.write("/d", "d")
    assert [name for name, _ in handle.entries()] == [b".", b"..", b"a", b"b", b"c"]
    files.fs.rewind(handle)
    assert sorted(name for name, _ in handle.entries()) == [b".", b"..", b"a", b"c", b"d"]
    files.fs.releasedir(handle.number)
    with refused(errno.ENOTDIR):
        await files.fs.opendir(files.node("/a").inode)
    with refused(errno.EISDIR):
        await files.fs.open(1, READ, 0)


@in_trio
async def test_11_dot_and_dot_dot(files: Files) -> None:
    directory = await files.mkdir("/d")
    assert files.fs.lookup(directory.inode, b".") is directory
    assert files.fs.lookup(directory.inode, b"..") is files.node("/")
    assert files.fs.lookup(1, b"..") is files.node("/")


# How many


@pytest.fixture
def full(workspace: Workspace, store: Store, actor: Actor, files: Files) -> Files:
    """A store with 2,000 memories."""
    prefix = "mem_01M8NMQFRP7HNTABQQHZ"
    workspace.memories.apply(
        store.id, [Create(f"{prefix}{n:06}", f"/m{n:04}", f"text {n}".encode()) for n in range(MAX_MEMORIES)], actor
    )
    files.fs.peek()
    return files


@in_trio
async def test_9_a_full_store_refuses_the_next_memory_at_create(full: Files) -> None:
    with pytest.raises(StoreFull):
        await full.write("/new", "text")
    with pytest.raises(StoreFull):
        await full.fs.mknod(1, b"new", stat.S_IFREG | 0o644)
    assert not full.exists("/new")
    await full.unlink("/m0000")
    await full.write("/new", "text")
    with pytest.raises(StoreFull):
        await full.write("/newer", "text")
    assert full.fs.statfs().f_ffree == 0


@in_trio
async def test_9_memories_stay_editable_at_the_limit(full: Files) -> None:
    await full.write("/m0000", "in place")
    await full.write("/m0001.tmp.1.1", "by rename")
    await full.rename("/m0001.tmp.1.1", "/m0001")
    await full.write("/sedAbC123", "by sed", EXCLUSIVE)
    await full.rename("/sedAbC123", "/m0002")
    await full.rename("/m0003", "/m0003~")
    await full.write("/m0003", "by vim")
    await full.unlink("/m0003~")
    await full.rename("/m0004", "/m0004~")
    await full.write("/m0004.tmp", "by backup and rename")
    await full.rename("/m0004.tmp", "/m0004")
    await full.rename("/m0005", "/renamed")
    await full.write("/rest.tmp", "no room")
    with pytest.raises(StoreFull):
        await full.rename("/rest.tmp", "/rest")
    texts = [await full.read(f"/m000{n}") for n in range(5)]
    assert texts == ["in place", "by rename", "by sed", "by vim", "by backup and rename"]
    memories = full.workspace.engine.snapshot(full.store.id).heads
    assert len(memories) == MAX_MEMORIES
    assert all(full.history(f"/m000{n}")[0].startswith("created") for n in range(5))
    await full.unlink("/rest.tmp")


@in_trio
async def test_9_a_memory_that_is_set_aside_still_counts(full: Files) -> None:
    await full.rename("/m0000", "/m0000~")
    with pytest.raises(StoreFull):
        await full.write("/new", "text")
    await full.settle()
    await full.write("/new", "text")


@in_trio
async def test_11_where_no_more_directories_can_be_kept_removals_still_succeed(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "LIMITS", Limits(memories=2_000, directories=1))
    await files.mkdir("/kept")
    create = [Create(f"mem_01M8NMQFRP7HNTABQQHZR3KZM{n}", f"/{n}/a", b"text") for n in range(5)]
    files.workspace.memories.apply(files.store.id, create, files.actor)
    await files.fs.refresh()
    with pytest.raises(StoreFull):
        await files.mkdir("/more")
    await files.unlink("/0/a")
    await files.rename("/1/a", "/a")
    await files.rename("/2/a", "/a")
    await files.rename("/3/a", "/3/a~")
    await files.rename("/4/a", "/a~")
    await files.fs.finish()
    await files.unlink("/3/a~")
    assert files.kept() == ["/kept"]
    assert sum(line.startswith("deleted") for line in files.history()) == 4
    # Until somebody changes the store elsewhere they are still here: to be removed, or to be written in.
    assert await files.names() == ["0", "1", "2", "3", "4", "a", "a~", "kept"]
    await files.write("/0/b", "text")
    for n in range(1, 5):
        await files.rmdir(f"/{n}")
    # One that makes room for the other.
    await files.rmdir("/kept")
    await files.unlink("/0/b")
    assert files.kept() == ["/0"]
    await files.unlink("/a~")


@in_trio
async def test_14_statfs_counts_memories_and_bytes(files: Files) -> None:
    empty = files.fs.statfs()
    assert (empty.f_files, empty.f_ffree, empty.f_namemax) == (MAX_MEMORIES, MAX_MEMORIES, 255)
    assert empty.f_bfree == empty.f_blocks
    await files.write("/a", b"x" * MAX_CONTENT_BYTES)
    assert files.fs.statfs().f_ffree == MAX_MEMORIES - 1
    assert empty.f_bfree - files.fs.statfs().f_bfree == MAX_CONTENT_BYTES // empty.f_bsize


@in_trio
async def test_6_inode_numbers_last_and_equal_those_of_listings(files: Files, db: Path) -> None:
    await files.mkdir("/d")
    await files.write("/d/a", "text")
    await files.write("/d/.a.tmp", "new")
    await files.rename("/d/.a.tmp", "/d/a")
    handle = await files.fs.opendir(files.node("/d").inode)
    assert {os.fsdecode(name): node.inode for name, node in handle.entries() if node}["a"] == files.node("/d/a").inode
    with Workspace.open(db) as workspace:
        fresh = Files(workspace, files.store)
        for path in ("/", "/d", "/d/a"):
            assert fresh.node(path).inode == files.node(path).inode
