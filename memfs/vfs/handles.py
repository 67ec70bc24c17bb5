"""Open files and directories."""

import os
from dataclasses import dataclass

from memfs.vfs.bases import Base
from memfs.vfs.nodes import DirectoryNode, FileNode, Node


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


class DirectoryHandle:
    """An open directory: its names as they were when it was opened or last read from the start, so that positions stay
    right while it changes.

    Entry ``n`` has position ``n``. What stands at a name is looked up when it is read: a file that an editor saved by
    rename meanwhile is another node, and there all the time; only a name that has gone is passed over.
    """

    __slots__ = ("_entries", "node", "number")

    def __init__(self, number: int, node: DirectoryNode) -> None:
        self.number = number
        self.node = node
        self._entries: list[tuple[bytes, Node]] | None = None
        # A kernel that has kept the names asks for none: they are put down when one is, or before they change.
        node.unread.add(self)

    @property
    def entries(self) -> list[tuple[bytes, Node]]:
        """The names, ``.`` and ``..`` first, and what stood there."""
        return self.take() if self._entries is None else self._entries

    def take(self) -> list[tuple[bytes, Node]]:
        """Put down the names as they are now; returns them."""
        node = self.node
        self._entries = [(b".", node), (b"..", node.parent or node)]
        self._entries += [(os.fsencode(name), child) for name, child in node.children.items()]
        node.unread.discard(self)
        return self._entries

    def close(self) -> None:
        """Nobody reads it any more."""
        self.node.unread.discard(self)
