"""The account of scratch: what the temporaries of one mount hold together, in memory (DESIGN.md 13)."""

import errno
from weakref import WeakSet

from memfs.vfs.errors import os_error
from memfs.vfs.nodes import FileNode

MAX_SCRATCH_BYTES = 64 * 1024 * 1024
"""What all scratch files of one mount may hold together, in memory."""

MAX_SCRATCH_FILES = 4_096
"""How many there may be: empty ones take memory too."""


class ScratchAccount:
    """Bytes of scratch files against one limit. What is unlinked counts while somebody holds it open."""

    def __init__(self, limit: int = MAX_SCRATCH_BYTES) -> None:
        self.limit = limit
        self.used = 0
        self._charged: set[FileNode] = set()
        self._files: WeakSet[FileNode] = WeakSet()
        """Those that were made as scratch; some may be unlinked, or memories by now. Not kept alive by this: an editor
        makes and removes one with each save, and what is gone would hold its text for as long as the mount lives."""

    def check_room(self) -> None:
        """Whether one more file can be made. Raises ENOSPC."""
        if len(self._files) >= MAX_SCRATCH_FILES:
            self._files = WeakSet(node for node in self._files if node.attached and node.scratch)
            if len(self._files) >= MAX_SCRATCH_FILES:
                raise os_error(errno.ENOSPC, f"there may be {MAX_SCRATCH_FILES} scratch files: remove some")

    def add(self, node: FileNode) -> None:
        """One more file is made."""
        self._files.add(node)

    def charge(self, node: FileNode, size: int) -> None:
        """Count a file's bytes; 0 when it is gone or a memory. Raises ENOSPC where they are more than there is room."""
        used = self.used + size - node.charged
        if size > node.charged and used > self.limit:
            raise os_error(errno.ENOSPC, f"scratch files may hold {self.limit} bytes together")
        self.used, node.charged = used, size
        if size:
            self._charged.add(node)
        else:
            self._charged.discard(node)

    def settle(self, node: FileNode) -> None:
        """Give back what a file held that nobody can reach any more."""
        if not node.attached and node.handles == 0:
            self.charge(node, 0)

    def settle_all(self) -> None:
        """Give back what was held by the files whose names others' memories have taken."""
        for node in list(self._charged):
            self.settle(node)
