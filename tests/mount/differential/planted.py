"""The command ``memfs`` with bugs that the comparison has to find: run by a test, in a process of its own.

``MEMFS_TEST_BUG`` names a file, and the file the bug that the mount has now; none where it is empty.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memfs.cli.main import main
from memfs.mount.operations import StoreOperations
from memfs.vfs import DirectoryHandle, FileHandle, FileNode
from memfs.vfs.handles import Handles
from memfs.vfs.making import Making
from memfs.vfs.rename import Renaming
from memfs.vfs.saving import Saving
from memfs.vfs.writing import Writing

BUGS = {
    "flush": "close() leaves its text to the timer",
    "reader": "to look at a file that is being written cuts a version out of it",
    "unlink": "a memory stays in the database when its file is removed",
    "open-unlinked": "who has a removed file open cannot write to it any more",
    "grow": "ftruncate() fills a file up with blanks",
    "give-up": "a text that close() refused is shown on",
    "exchange": "RENAME_EXCHANGE replaces",
    "rename-time": "a rename moves the file's time of modification",
    "write-time": "a write does not move the file's time of modification",
    "mode": "a file is made with other permissions than asked for",
    "errno": "rmdir() of a directory with files in it says EBUSY",
    "listing": "the rest of a directory that changes while it is read is counted anew",
    "identity": "a rename over a memory gives its path to the other memory",
    "size": "a write past the limit of size is cut short, and says that all was written",
}
"""Each bug of its own kind: what is kept and when, what is shown, times, attributes, errnos, listings, identities."""


def _planted(name: str) -> bool:
    return Path(os.environ["MEMFS_TEST_BUG"]).read_text() == name


def _replace(owner: type, attribute: str, bug: str, make: Callable[[Any], Any]) -> None:
    """Let a method be another one while the bug is asked for; ``make`` has it from the right one."""
    right = getattr(owner, attribute)
    wrong = make(right)

    def either(*args: Any, **kwargs: Any) -> Any:
        return (wrong if _planted(bug) else right)(*args, **kwargs)

    static = isinstance(vars(owner)[attribute], staticmethod)
    setattr(owner, attribute, staticmethod(either) if static else either)


async def _nothing(*_: Any) -> None:
    return None


def _committing_first(right: Any) -> Any:
    async def wrong(self: StoreOperations, inode: int, ctx: Any) -> Any:
        node = self.filesystem.node(inode)
        if isinstance(node, FileNode) and node.dirty and node.written:
            await self.filesystem.saving.commit(node)
        return await right(self, inode, ctx)

    return wrong


def _only_attached(right: Any) -> Any:
    def wrong(self: Writing, number: int, offset: int, data: bytes) -> Any:
        if not self._handles.file(number).node.attached:
            raise OSError(errno.ESTALE, "gone")
        return right(self, number, offset, data)

    return wrong


def _with_blanks(_right: Any) -> Any:
    def wrong(self: Writing, node: FileNode, size: int) -> None:
        buffer = self._contents.buffer(node)
        buffer.extend(b" " * (size - len(buffer)))
        del buffer[size:]

    return wrong


def _replacing(right: Any) -> Any:
    async def wrong(self: Renaming, *args: Any, noreplace: bool, exchange: bool) -> None:
        await right(self, *args, noreplace=noreplace, exchange=False)

    return wrong


def _touching(right: Any) -> Any:
    async def wrong(self: Renaming, parent: int, name: bytes, *args: Any, **options: Any) -> None:
        node = self._looking.lookup(parent, name)
        await right(self, parent, name, *args, **options)
        node.touch(content=True)

    return wrong


def _keeping_the_time(right: Any) -> Any:
    def wrong(self: Writing, number: int, offset: int, data: bytes) -> Any:
        node = self._handles.file(number).node
        before = node.mtime_ns
        written = right(self, number, offset, data)
        node.mtime_ns = before
        return written

    return wrong


def _with_usual_mode(right: Any) -> Any:
    async def wrong(self: Making, parent: int, name: bytes, mode: int, flags: int, pid: int) -> FileHandle:
        found: FileHandle = await right(self, parent, name, 0o640, flags, pid)
        return found

    return wrong


def _busy(right: Any) -> Any:
    async def wrong(self: Making, parent: int, name: bytes) -> None:
        try:
            await right(self, parent, name)
        except OSError as error:
            raise OSError(errno.EBUSY, "busy") if error.errno == errno.ENOTEMPTY else error from None

    return wrong


def _counting_anew(right: Any) -> Any:
    def wrong(self: Handles, number: int) -> DirectoryHandle:
        handle: DirectoryHandle = right(self, number)
        handle.take()
        return handle

    return wrong


def _removing_first(right: Any) -> Any:
    async def wrong(
        self: StoreOperations, parent: int, name: bytes, new_parent: int, new_name: bytes, flags: int, ctx: Any
    ) -> None:
        source = self.filesystem.directory(parent).children.get(os.fsdecode(name))
        target = self.filesystem.directory(new_parent).children.get(os.fsdecode(new_name))
        if isinstance(source, FileNode) and isinstance(target, FileNode) and source is not target:
            await self.filesystem.unlink(new_parent, new_name)
        await right(self, parent, name, new_parent, new_name, flags, ctx)

    return wrong


def _cutting(right: Any) -> Any:
    def wrong(self: Writing, number: int, offset: int, data: bytes) -> Any:
        right(self, number, offset, data[: max(0, 102_400 - offset)])
        return len(data)

    return wrong


def plant() -> None:
    """Make every bug possible."""
    _replace(Saving, "flush", "flush", lambda _: _nothing)
    # Which follows close() so soon that it may come before the comparison.
    _replace(Saving, "release", "flush", lambda _: _nothing)
    _replace(StoreOperations, "getattr", "reader", _committing_first)
    _replace(Making, "_removal", "unlink", lambda _: lambda _node: [])
    _replace(Writing, "write", "open-unlinked", _only_attached)
    _replace(Writing, "_resize", "grow", _with_blanks)
    _replace(Saving, "give_up", "give-up", lambda _: lambda *_: None)
    _replace(Renaming, "rename", "exchange", _replacing)
    _replace(Renaming, "rename", "rename-time", _touching)
    _replace(Writing, "write", "write-time", _keeping_the_time)
    _replace(Making, "create", "mode", _with_usual_mode)
    _replace(Making, "rmdir", "errno", _busy)
    _replace(Handles, "open_directory", "listing", _counting_anew)
    _replace(StoreOperations, "rename", "identity", _removing_first)
    _replace(Writing, "write", "size", _cutting)


if __name__ == "__main__":
    plant()
    main(prog_name="memfs")
