"""Modes and times, and that none of them makes a version (DESIGN.md 12). Each test's end looks at a new mount's too."""

import os
import stat

import pytest

from memfs.vfs import StaleInode
from tests.vfs.harness import SAVE, WRITE, Files, in_trio

STRANGER = 65534
GIVEN_NS = 5 * 10**9


@pytest.mark.parametrize(
    "mode, after",
    [(0o4755, 0o755), (0o2775, 0o775), (0o6711, 0o711), (0o2767, 0o2767), (0o1644, 0o1644)],
    ids=lambda mode: f"{mode:04o}",
)
@pytest.mark.parametrize("text", ["", "text"], ids=["empty", "text"])
@in_trio
async def test_12_who_empties_a_file_and_is_not_root_takes_its_privileges(
    files: Files, mode: int, after: int, text: str
) -> None:
    await files.write("/a", text)
    node = files.file("/a")
    await files.fs.set_attributes(node.inode, mode=mode)
    for uid, flags, shown in [
        (0, WRITE | os.O_TRUNC, mode),
        (STRANGER, WRITE, mode),
        (STRANGER, os.O_RDONLY | os.O_TRUNC, after),
    ]:
        await files.close(await files.fs.open(node.inode, flags, 0, uid=uid))
        assert f"{node.mode:04o}" == f"{shown:04o}"
    assert files.history("/a") == (["created /a text", "modified /a"] if text else ["created /a"])


@in_trio
async def test_12_a_directory_hands_setgid_on_to_directories_only(files: Files) -> None:
    await files.mkdir("/d", 0o2775)
    await files.mkdir("/d/e", 0o700)
    await files.mkdir("/d/e/f")
    await files.write("/d/e/a", "text")
    shown = {path: f"{files.node(path).mode:04o}" for path in ("/d/e", "/d/e/f", "/d/e/a")}
    assert shown == {"/d/e": "2700", "/d/e/f": "2755", "/d/e/a": "0644"}
    await files.fs.set_attributes(files.node("/d").inode, mode=0o775)
    assert not (await files.mkdir("/d/g")).mode & stat.S_ISGID


@in_trio
async def test_12_a_chown_moves_ctime_alone(files: Files) -> None:
    await files.write("/a", "text", SAVE)
    await files.mkdir("/d")
    for path in ("/a", "/d"):
        node = files.node(path)
        before = node.mode, node.mtime_ns, node.atime_ns, node.ctime_ns
        await files.fs.set_attributes(node.inode)
        assert (node.mode, node.mtime_ns, node.atime_ns) == before[:3]
        assert node.ctime_ns > before[3]
    assert len(files.versions()) == 1


@in_trio
async def test_12_a_time_given_to_a_directory_is_seen_elsewhere_until_a_name_in_it_changes(
    files: Files, other: Files
) -> None:
    """Also where it is of a directory that only memories have made, and after the directory is moved."""
    files.workspace.memories.create(files.store.id, "/d/e/a", b"text", files.actor)
    await files.fs.refresh()
    await other.fs.refresh()
    for path in ("/d", "/d/e"):
        await files.fs.set_attributes(files.node(path).inode, mtime_ns=GIVEN_NS)
    other.fs.tree.stale.clear()
    await other.fs.refresh()
    assert {StaleInode(other.node(path).inode) for path in ("/d", "/d/e")} <= set(other.fs.tree.stale)
    assert [other.node(path).mtime_ns for path in ("/d", "/d/e")] == [GIVEN_NS] * 2
    await files.rename("/d/e", "/e")
    await files.mkdir("/another")
    await other.fs.refresh()
    assert other.node("/e").mtime_ns == files.node("/e").mtime_ns == GIVEN_NS
    moved = other.node("/d").mtime_ns
    assert moved > GIVEN_NS
    await files.fs.set_attributes(files.node("/e").inode, mode=0o700)
    await other.fs.refresh()
    assert (other.node("/d").mtime_ns, other.node("/e").mtime_ns) == (moved, GIVEN_NS)
