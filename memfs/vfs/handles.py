"""Open files and directories."""

import errno
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass

import trio

from memfs.vfs.bases import Base
from memfs.vfs.errors import os_error
from memfs.vfs.nodes import NOBODY, DirectoryNode, FileNode, Node


@dataclass(slots=True, eq=False)
class FileHandle:
    """An open file description. ``pid`` is the thread that opened it, 0 where unknown; ``base`` is what it was last
    served, and so what the places that it writes at are places in; ``seen_at`` is when it was opened or last served, a
    trio.current_time(). ``unsaved`` is whether something was done through it that its close has to commit, last at the
    file's generation ``changed_at``."""

    number: int
    node: FileNode
    flags: int
    pid: int
    base: Base
    seen_at: float
    unsaved: bool = False
    changed_at: int = 0

    def changed(self) -> None:
        """Record that the buffer is what it is by something that was done through this, just now."""
        self.unsaved = True
        self.changed_at = self.node.generation

    def leave(self) -> None:
        """It is gone: its node does not count it any more."""
        node = self.node
        node.writing = node.writing - {self} or NOBODY
        node.reading = node.reading - {self} or NOBODY
        node.handles -= 1

    @property
    def writable(self) -> bool:
        """Whether its close commits: opened for writing, or made or emptied, which Linux does for readers too."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY or bool(self.flags & (os.O_CREAT | os.O_TRUNC))

    @property
    def reads(self) -> bool:
        """Whether it was opened to see what the file holds."""
        return self.flags & os.O_ACCMODE != os.O_WRONLY and not self.flags & os.O_TRUNC

    def appends(self, offset: int) -> bool:
        """Whether a write at ``offset`` is meant for the end, wherever the kernel believes that to be.

        A shared mapping of an O_RDWR file is written back at its place through the same handle, and always within the
        size that the kernel knows; an append comes at that size or, where others have grown the file, past it.
        """
        return bool(self.flags & os.O_APPEND) and (
            self.flags & os.O_ACCMODE == os.O_WRONLY or offset >= self.node.kernel_size
        )


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The names of a directory at some time, shared by all that were open then."""

    names: tuple[str, ...]


class DirectoryHandle:
    """An open directory: its names as they were when it was opened or last read from the start, so that positions stay
    right while it changes.

    Entry ``n`` has position ``n``. What stands at a name is looked up when it is read: a file that an editor saved by
    rename meanwhile is another node, and there all the time; only a name that has gone is passed over.
    """

    __slots__ = ("_listing", "node", "number")

    def __init__(self, number: int, node: DirectoryNode) -> None:
        self.number = number
        self.node = node
        self._listing: Listing | None = None
        # A kernel that has kept the names asks for none: they are put down when one is, or before they change.
        node.unread.add(self)

    @property
    def listing(self) -> "Listing | None":
        """The names, where they were put down already."""
        return self._listing

    def entries(self, start: int = 0) -> Iterator[tuple[bytes, Node | None]]:
        """The names from a position on, ``.`` and ``..`` first, with what stands there now; None where it has gone."""
        listing = self._listing or self.take()
        node = self.node
        for position in range(start, 2 + len(listing.names)):
            if position < 2:
                yield (b"..", node.parent or node) if position else (b".", node)
            else:
                name = listing.names[position - 2]
                yield os.fsencode(name), node.children.get(name)

    def take(self) -> "Listing":
        """Put down the names as they are now; returns them."""
        node = self.node
        listing = node.put_down
        if listing is None:
            listing = node.put_down = Listing(tuple(node.children))
        self._listing = listing
        node.unread.discard(self)
        return listing

    def close(self) -> None:
        """Nobody reads it any more."""
        self.node.unread.discard(self)


MAX_OPEN = 16_384
"""Open files and directories of one mount: a process has 1,024 at most where nobody has said otherwise."""

MAX_LISTED = 500_000
"""Names that open directories hold which have changed since: 250 times all of a full one, some 4 MB."""


class Handles:
    """The open files and directories of one mount, by number."""

    def __init__(self) -> None:
        self._listed = 0
        """At least how many names open directories have put down; what went meanwhile is not subtracted."""
        self._numbers = itertools.count(1)
        self._files: dict[int, FileHandle] = {}
        self._directories: dict[int, DirectoryHandle] = {}

    def check_room(self) -> None:
        """Whether one more may be opened. Raises ENFILE."""
        if len(self._files) + len(self._directories) >= MAX_OPEN:
            raise os_error(errno.ENFILE, f"{MAX_OPEN} files and directories of this mount are open: close some")

    def add_file(self, node: FileNode, flags: int, pid: int) -> FileHandle:
        """One more open file of a node, which counts it from now on."""
        handle = FileHandle(next(self._numbers), node, flags, pid, node.starting_point(), trio.current_time())
        self._files[handle.number] = handle
        node.handles += 1
        if handle.writable:
            node.writing |= {handle}
        if flags & os.O_ACCMODE != os.O_WRONLY:
            node.reading |= {handle}
        return handle

    def file(self, number: int) -> FileHandle:
        """An open file. Raises EBADF."""
        try:
            return self._files[number]
        except KeyError:
            raise os_error(errno.EBADF) from None

    def remove_file(self, number: int) -> FileHandle:
        """Nobody can ask for an open file any more; its node counts it until it ``leaves``. Returns it."""
        return self._files.pop(number)

    def holds(self, base: Base) -> bool:
        """Whether somebody has a file open to write at places in this text."""
        return any(handle.base is base for handle in self._files.values() if handle.writable)

    def add_directory(self, node: DirectoryNode) -> DirectoryHandle:
        """One more open directory. Raises ENFILE where those that are open hold too many names of other times."""
        self._check_listed(node)
        handle = DirectoryHandle(next(self._numbers), node)
        self._directories[handle.number] = handle
        return handle

    def rewind(self, handle: DirectoryHandle) -> None:
        """Take the entries as they are now, as each reading from the start must (rewinddir(3)). Raises ENFILE."""
        if handle.listing is None or handle.listing is not handle.node.put_down:
            self._check_listed(handle.node)
            handle.take()

    def _check_listed(self, node: DirectoryNode) -> None:
        if node.put_down is not None:
            return  # and so nothing new is put down
        self._listed += len(node.children)
        if self._listed > MAX_LISTED:
            held = {handle.listing for handle in self._directories.values() if handle.listing is not None}
            self._listed = len(node.children) + sum(len(listing.names) for listing in held)
            if self._listed > MAX_LISTED:
                self._listed -= len(node.children)
                raise os_error(errno.ENFILE, "too many directories are open that have changed since: close some")

    def open_directory(self, number: int) -> DirectoryHandle:
        """An open directory. Raises EBADF."""
        try:
            return self._directories[number]
        except KeyError:
            raise os_error(errno.EBADF) from None

    def releasedir(self, number: int) -> None:
        """Close a directory."""
        handle = self._directories.pop(number, None)
        if handle is not None:
            handle.close()
