"""Many tasks at once on one filesystem: nothing is lost, and the tree stays that of the store (DESIGN.md 1-5, 8)."""

import errno
import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from memfs.model.errors import ContentTooLarge, PathConflict
from memfs.vfs import FileHandle
from tests.vfs.harness import APPEND, SAVE, UPDATE, WRITE, Files, in_trio, refused

EXPECTED = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ESTALE}
PATHS = ["/a", "/b", "/a~", "/d", "/e", "/d/a", "/d/b", "/d/b.tmp", "/e/a", "/e/x"]


@asynccontextmanager
async def under_way(
    files: Files, operation: Callable[..., Awaitable[object]], *arguments: object
) -> AsyncIterator[trio.Nursery]:
    """In this block an operation is in the middle of its transaction: another process holds the writer lock."""
    with closing(sqlite3.connect(files.db, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        async with trio.open_nursery() as nursery:
            try:
                nursery.start_soon(operation, *arguments)
                await wait_all_tasks_blocked()
                yield nursery
                await wait_all_tasks_blocked()
            finally:
                holder.execute("ROLLBACK")


async def disturb(files: Files, seed: int) -> None:
    """Do things at random; each may fail as it would on any disk."""
    chance = random.Random(seed)
    for step in range(30):
        path, other = chance.choice(PATHS), chance.choice(PATHS)
        action = chance.randrange(9)
        try:
            if action <= 2:
                await files.write(path, f"{seed}.{step}\n", chance.choice((SAVE, APPEND)))
            elif action == 3:
                await files.rename(path, other, noreplace=chance.random() < 0.3)
            elif action == 4:
                await files.rename(path, other, exchange=True)
            elif action == 5:
                await files.unlink(path)
            elif action == 6:
                await files.mkdir(path)
            elif action == 7:
                await files.rmdir(path)
            else:
                await files.fs.set_attributes(files.node(path).inode, mode=chance.choice((0o600, 0o644)))
        except OSError as error:
            if error.errno not in EXPECTED:
                raise


@pytest.mark.parametrize("seed", range(4))
@in_trio
async def test_many_tasks_on_few_names(files: Files, seed: int) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(disturb, files, 100 * seed + number)
    await files.settle()
    files.check()


@in_trio
async def test_two_mounts_and_many_tasks_on_few_names(files: Files, other: Files) -> None:
    async def both(mount: Files, number: int) -> None:
        with suppress(PathConflict):  # the other mount was first
            await disturb(mount, number)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(both, files, number)
            nursery.start_soon(both, other, 50 + number)
    await files.settle()
    await other.settle()
    await files.fs.refresh()
    files.check()
    other.check()


@in_trio
async def test_1_no_append_of_many_is_lost(files: Files) -> None:
    async def append(number: int) -> None:
        for step in range(10):
            await files.write("/log", f"{number}.{step}\n", APPEND)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(append, number)
    lines = (await files.read("/log")).split()
    assert sorted(lines) == sorted(f"{number}.{step}" for number in range(8) for step in range(10))


@in_trio
async def test_1_what_is_written_while_a_commit_is_under_way_is_committed_next(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "one")
    async with under_way(files, files.fs.flush, handle.number):
        files.put(handle, 3, " two")
    await files.close(handle)
    assert files.history() == ["created /a one", "modified /a one two"]


@in_trio
async def test_4_what_is_written_to_a_temporary_while_it_is_renamed_is_committed(files: Files) -> None:
    await files.write("/a", "old")
    handle = await files.open("/a.tmp", SAVE)
    files.put(handle, 0, "new")
    async with under_way(files, files.rename, "/a.tmp", "/a"):
        files.put(handle, 3, "er")
    await files.close(handle)
    assert files.history() == ["created /a old", "modified /a new", "modified /a newer"]


@in_trio
async def test_4_a_temporary_that_is_closed_while_it_is_renamed_loses_nothing(files: Files) -> None:
    await files.write("/a", "old")
    handle = await files.open("/a.tmp", SAVE)
    files.put(handle, 0, "new")
    async with under_way(files, files.rename, "/a.tmp", "/a"):
        files.put(handle, 3, "er")
        await files.close(handle)
    await files.settle()
    assert files.history() == ["created /a old", "modified /a new", "modified /a newer"]


@in_trio
async def test_5_unlink_while_a_commit_is_under_way(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "text")
    async with under_way(files, files.fs.flush, handle.number) as nursery:
        nursery.start_soon(files.unlink, "/a")
    await files.fs.release(handle.number)
    assert files.history() == ["created /a text", "deleted /a"]


@in_trio
async def test_a_file_is_made_and_read_while_a_commit_waits_for_another_process(files: Files) -> None:
    await files.write("/read", "text")
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "a")
    async with under_way(files, files.close, handle) as nursery:
        assert await files.read("/read") == "text"
        more = [await files.open(f"/{name}", SAVE) for name in "bcd"]
        for each in more:
            nursery.start_soon(files.close, each)
        await wait_all_tasks_blocked()
        assert await files.names() == ["a", "b", "c", "d", "read"]
    assert len(files.history()) == 5


@in_trio
async def test_11_nothing_is_made_in_a_directory_while_it_is_removed(files: Files) -> None:
    directory = await files.mkdir("/d")

    async def make() -> None:
        with refused(errno.ENOENT):
            await files.fs.create(directory.inode, b"a", 0o100644, SAVE, 0)

    files.fs.remember(directory)
    async with under_way(files, files.rmdir, "/d") as nursery:
        nursery.start_soon(make)
    files.fs.forget(directory.inode, 1)


@in_trio
async def test_4_a_name_that_a_rename_is_about_to_take(files: Files) -> None:
    await files.write("/a", "text")
    opened: list[FileHandle] = []

    async def make() -> None:
        opened.append(await files.fs.create(1, b"b", 0o100644, UPDATE, 0))

    async with under_way(files, files.rename, "/a", "/b") as nursery:
        nursery.start_soon(make)
    assert files.get(opened[0]) == b"text"
    await files.close(opened[0])
    assert await files.names() == ["b"]


@in_trio
async def test_9_a_refused_write_while_a_commit_is_under_way(files: Files) -> None:
    await files.write("/a", "old")
    handle = await files.open("/a", WRITE)
    files.put(handle, 0, "new")
    async with under_way(files, files.fs.flush, handle.number):
        with pytest.raises(ContentTooLarge):
            files.put(handle, 1 << 20, "x")
    await files.close(handle)
    assert files.history() == ["created /a old", "modified /a new"]
