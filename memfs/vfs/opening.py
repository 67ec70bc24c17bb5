"""Opening: which file or directory somebody gets who opens what the kernel has found (DESIGN.md 7)."""

import errno
import os
import stat

from memfs.vfs.errors import os_error
from memfs.vfs.handles import DirectoryHandle, FileHandle, Handles
from memfs.vfs.looking import Looking, check_current
from memfs.vfs.nodes import FileNode
from memfs.vfs.parts import Parts
from memfs.vfs.reading import Reading
from memfs.vfs.retries import Retries
from memfs.vfs.settling import Settling


def _without_privileges(mode: int) -> int:
    """A mode after somebody wrote who may not keep it: setgid without execution by the group is no privilege."""
    return mode & ~(stat.S_ISUID | (stat.S_ISGID if mode & stat.S_IXGRP else 0))


class Opening:
    """Makes handles of inodes."""

    def __init__(
        self, parts: Parts, handles: Handles, looking: Looking, retries: Retries, settling: Settling, reading: Reading
    ) -> None:
        self._store = parts.store
        self._transactions = parts.transactions
        self._saving = parts.saving
        self._scratch = parts.scratch
        self._handles = handles
        self._looking = looking
        self._retries = retries
        self._settling = settling
        self._reading = reading

    async def open(self, inode: int, flags: int, pid: int, *, uid: int = 0) -> FileHandle:
        """Open a file; it shows everything that was closed before. Raises ESTALE for one that was replaced elsewhere.

        Who empties a file and is not root takes setuid and setgid off it, as by any write (chmod(2), inode(7)). The
        kernel asks for that by itself at writes and truncations, but not where it leaves O_TRUNC to an open.

        Where it was removed or replaced through this mount, the kernel found the name just before, or means what is
        held open already (/proc/self/fd): it gets the old file, as on any disk.
        """
        await self._transactions.refresh()
        try:
            node = self._file(inode)
            await self._settling.settle(inode)
            self._looking.check_name(node)
        except OSError as error:
            second = self._retries.second(pid, inode)
            if error.errno != errno.ESTALE:
                raise
            if not second:
                self._retries.told(pid)
                raise
            # The kernel tries once, and has looked the name up after the program's call began: it may have what was
            # there then, though somebody has replaced it again.
            node = self._found_a_moment_ago(inode, flags)
        else:
            self._retries.ended(pid)
        if flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_TRUNC:
            self._transactions.check_writable()
        if flags & os.O_ACCMODE != os.O_WRONLY and node.memory_id is not None:
            self._store.note_access(node.memory_id)
        self._handles.check_room()
        if flags & os.O_TRUNC:
            self._empty(node, pid, uid)
        return self.opened(node, flags, pid)

    def check_room(self) -> None:
        """Raises ENFILE where as much is open as may be."""
        self._handles.check_room()

    def _file(self, inode: int) -> FileNode:
        node = self._looking.node(inode)
        if not isinstance(node, FileNode):
            raise os_error(errno.EISDIR)
        return node

    def _found_a_moment_ago(self, inode: int, flags: int) -> FileNode:
        """The file that had a name, which somebody else has moved or replaced by now: itself for who reads; for who
        writes it anew the one in its place, where that is not lost. Raises ESTALE.
        """
        node = self._file(inode)
        if node.attached:
            return node  # moved, and found by its new name
        if node.head is not None and flags & os.O_ACCMODE == os.O_RDONLY and not flags & os.O_TRUNC:
            return node
        latest = node.latest()
        if latest is None or not (flags & os.O_TRUNC or flags & os.O_ACCMODE == os.O_WRONLY):
            raise os_error(errno.ESTALE)
        return latest

    def _empty(self, node: FileNode, pid: int, uid: int) -> None:
        """O_TRUNC: a thread of a user begins the text anew."""
        self._settling.own_again(node)
        node.starting_point()
        node.whole_by, node.whole_since, node.appended_from = pid, node.generation + 1, None
        node.kernel_size = 0
        # Not loaded only to be emptied. An empty file is no exception: its mtime moves, and must be kept.
        self._scratch.charge(node, 0)
        node.buffer = bytearray()
        node.written = node.spoiled = False
        for writer in node.writing:
            writer.unsaved = False  # of what was done through those, nothing is left to be committed
        if uid != 0:
            node.mode = _without_privileges(node.mode)
        self._saving.changed(node)

    def opened(self, node: FileNode, flags: int, pid: int) -> FileHandle:
        """A handle of a file that may be opened so."""
        node.told = node.head  # the kernel asks for its size, or knows it
        handle = self._handles.add_file(node, flags, pid)
        if handle.writable:
            node.author = pid
            if flags & (os.O_CREAT | os.O_TRUNC):
                handle.changed()
        if handle.reads:
            self._reading.served(handle)
        return handle

    async def opendir(self, inode: int) -> DirectoryHandle:
        """Open a directory: its entries as they are now, ``.`` and ``..`` first."""
        await self._transactions.refresh()
        node = self._looking.directory(inode)
        check_current(node)
        self._handles.check_room()
        return self._handles.add_directory(node)
