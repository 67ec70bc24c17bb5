"""What one mount may hold in memory, whatever somebody does with it: each limit is met, and given back."""

import errno
import gc
import os
from pathlib import Path

import pytest

from memfs.model.records import MAX_CONTENT_BYTES, Actor, Store
from memfs.vfs import FileNode, handles, scratch
from memfs.vfs.working import MAX_WORKING_BYTES, WorkingCopies
from memfs.workspace import Workspace, accesses
from tests.vfs.harness import READ, SAVE, UPDATE, Files, in_trio, refused

FULL = b"x" * MAX_CONTENT_BYTES


@pytest.fixture
def tight(workspace: Workspace, store: Store) -> Files:
    """A filesystem whose working copies hold three full texts and a little."""
    return Files(workspace, store, working_bytes=3 * MAX_CONTENT_BYTES + 10)


async def opened(files: Files, path: str, flags: int) -> int:
    """Open a file, made where it is not there, and leave it open."""
    parent, name = files.at(path)
    if flags & os.O_CREAT:
        return (await files.fs.create(parent, name, 0o644, flags, 1)).number
    return (await files.fs.open(files.node(path).inode, flags, 1)).number


@in_trio
async def test_removed_files_that_are_open_hold_only_so_much(tight: Files) -> None:
    held = []
    for number in range(3):
        held.append(await opened(tight, f"/f{number}", SAVE))
        tight.fs.write(held[-1], 0, FULL)
        await tight.unlink(f"/f{number}")
    late = await opened(tight, "/late", SAVE)
    tight.fs.write(late, 0, b"0123456789")
    with refused(errno.ENOSPC):
        tight.fs.write(late, 10, b"x")
    assert tight.fs.read(held[0], 0, 10) == FULL[:10], "what was written stays"
    await tight.fs.release(held[0])
    assert tight.fs.write(late, 10, b"x") == 1
    for number in (*held[1:], late):
        await tight.fs.flush(number)
        await tight.fs.release(number)
    assert await tight.read("/late") == "0123456789x"
    tight.check()


@in_trio
async def test_a_saved_text_makes_room_for_one_that_is_written(tight: Files) -> None:
    """However many files a process has open for writing, those that are saved cost nothing."""
    held = []
    for number in range(20):
        held.append(await opened(tight, f"/f{number}", SAVE))
        tight.fs.write(held[-1], 0, FULL)
        await tight.fs.fsync(held[-1])
    for number, handle in enumerate(held):
        tight.fs.write(handle, 0, b"%d" % number)
        await tight.fs.fsync(handle)
    for handle in held:
        await tight.fs.flush(handle)
        await tight.fs.release(handle)
    for number in range(20):
        assert await tight.read(f"/f{number}") == str(number) + FULL.decode()[len(str(number)) :]
    tight.check()


@in_trio
async def test_truncation_cannot_hold_more_than_writing(tight: Files) -> None:
    held = [await opened(tight, f"/f{number}", SAVE) for number in range(4)]
    for handle, number in zip(held[:3], range(3), strict=True):
        await tight.fs.set_attributes(tight.node(f"/f{number}").inode, size=MAX_CONTENT_BYTES, handle=handle)
    with refused(errno.ENOSPC):
        await tight.fs.set_attributes(tight.node("/f3").inode, size=MAX_CONTENT_BYTES, handle=held[3])
    for handle in held:
        await tight.fs.flush(handle)
        await tight.fs.release(handle)
    sizes = [len(await tight.read(f"/f{number}")) for number in range(4)]
    assert sizes == [*[MAX_CONTENT_BYTES] * 3, 0]
    tight.check()


@in_trio
async def test_everything_that_is_held_is_counted(files: Files) -> None:
    account = WorkingCopies(files.fs.tree)
    await files.write("/a", "saved")
    assert account.used() == 0
    handle = await opened(files, "/a", UPDATE)
    files.fs.write(handle, 5, b"+")
    assert account.used() == len("saved+") + len("saved")
    await files.fs.flush(handle)
    await files.unlink("/a")
    assert account.used() >= len("saved+")
    await files.fs.release(handle)
    assert account.used() == 0
    assert MAX_WORKING_BYTES == 64 << 20


@in_trio
async def test_only_so_many_are_open_at_once(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "MAX_OPEN", 4)
    await files.write("/a", "text")
    held = [await opened(files, "/a", READ) for _ in range(3)]
    directory = await files.fs.opendir(1)
    for open_one in (opened(files, "/a", READ), opened(files, "/a", SAVE & ~os.O_CREAT), opened(files, "/new", SAVE)):
        with refused(errno.ENFILE):
            await open_one
    with refused(errno.ENFILE):
        await files.fs.opendir(1)
    files.fs.releasedir(directory.number)
    assert await files.read("/a") == "text", "an open that is refused empties nothing"
    assert await files.names() == ["a"], "and makes nothing"
    for number in held:
        await files.fs.release(number)


@in_trio
async def test_open_directories_hold_only_so_many_names(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "MAX_LISTED", 10)
    for name in "abcd":
        await files.write(f"/{name}", name)
    alike = [await files.fs.opendir(1) for _ in range(50)]
    assert all(len(list(handle.entries())) == 6 for handle in alike), "the same names are held once"
    await files.write("/e", "")
    other = await files.fs.opendir(1)
    assert len(list(other.entries())) == 7
    await files.unlink("/e")
    with refused(errno.ENFILE):
        await files.fs.opendir(1)
    with refused(errno.ENFILE):
        files.fs.rewind(alike[0])
    assert len(list(alike[0].entries())) == 6, "who may not read anew still has what it had"
    for handle in alike:
        files.fs.releasedir(handle.number)
    again = await files.fs.opendir(1)
    assert sorted(name for name, node in again.entries() if node) == [b".", b"..", b"a", b"b", b"c", b"d"]
    files.fs.releasedir(again.number)
    files.fs.releasedir(other.number)


def files_in_memory() -> int:
    """How many files there are for Python, reachable by a path or not."""
    gc.collect()
    return sum(isinstance(each, FileNode) for each in gc.get_objects())


@in_trio
async def test_what_is_gone_is_kept_by_nobody(files: Files, workspace: Workspace, store: Store) -> None:
    """Files come and go for as long as a mount lives, and so do what editors make beside them."""
    other = Files(workspace, store, session="sesn_2")
    files.compare_inodes = False

    async def come_and_go(number: int) -> None:
        text = f"{number}\n" * 500
        await files.write("/kept", text)
        await files.write("/.kept.swp", text)
        await files.unlink("/.kept.swp")
        await files.write("/.kept.tmp", text)
        await files.rename("/.kept.tmp", "/kept")
        await files.rename("/kept", "/kept~")
        await files.write("/kept", text + "again")
        await files.unlink("/kept~")
        await files.write("/gone", text)
        await files.rename("/gone", "/gone too")
        reading = await files.open("/kept")
        files.get(reading)
        await other.write("/kept", text + "elsewhere")
        await other.unlink("/gone too")
        assert await files.read("/kept") == text + "elsewhere"
        await files.close(reading)
        await files.mkdir("/directory")
        await files.write("/directory/of scratch.tmp", text)
        await files.unlink("/directory/of scratch.tmp")
        await files.rmdir("/directory")

    for number in range(3):
        await come_and_go(number)
    before = files_in_memory()
    for number in range(3, 40):
        await come_and_go(number)
    assert files_in_memory() == before
    files.check()


@in_trio
async def test_there_are_only_so_many_scratch_files(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "MAX_SCRATCH_FILES", 3)
    for number in range(3):
        await files.write(f"/{number}.tmp", "")
    with refused(errno.ENOSPC):
        await files.write("/3.tmp", "")
    await files.rename("/0.tmp", "/kept.md")
    await files.write("/3.tmp", "")
    await files.unlink("/1.tmp")
    await files.write("/4.tmp", "")
    with refused(errno.ENOSPC):
        await files.write("/5.tmp", "")
    await files.write("/memory.md", "a memory is none of them")


def test_reads_are_noted_of_so_many_memories(
    workspace: Workspace, store: Store, actor: Actor, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accesses, "MAX_NOTED", 3)
    for each in ("1", "2", "1", "3", "4"):
        workspace.accesses.note(each)
    assert [bool(workspace.accesses.noted(each)) for each in "1234"] == [True, False, True, True]
