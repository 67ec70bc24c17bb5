"""Open files and directories."""

import os
from dataclasses import dataclass

from memfs.vfs.nodes import DirectoryNode, FileNode, Node


@dataclass(slots=True, eq=False)
class FileHandle:
    """An open file description. ``pid`` is the thread that opened it, 0 where unknown."""

    number: int
    node: FileNode
    flags: int
    pid: int

    @property
    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY

    @property
    def append_only(self) -> bool:
        """Whether each write goes to the end, wherever the kernel believes that to be.

        Not for O_RDWR: a shared mapping of such a file is written back at its place through the same handle.
        """
        return bool(self.flags & os.O_APPEND) and self.flags & os.O_ACCMODE == os.O_WRONLY


@dataclass(slots=True, eq=False)
class DirectoryHandle:
    """An open directory: its entries as they were when it was last read from the start (opendir, rewinddir), so that
    positions stay right while it changes.

    Entry ``n`` has position ``n``; entries whose node has gone since are passed over when they are read.
    """

    number: int
    node: DirectoryNode
    entries: list[tuple[bytes, Node]]
    started: bool = False
    """Whether it was read since it was opened: reading from the start again is a rewind."""
