"""What the working copies of one mount's files may hold together, in memory.

A memory that is open has at most one, of at most 102,400 bytes; but a store has 2,000 memories, and a file that was
removed keeps its bytes for as long as somebody has it open: without a limit, one process could have thousands.
"""

import errno

from memfs.vfs.errors import os_error
from memfs.vfs.nodes import FileNode
from memfs.vfs.tree import Tree

MAX_WORKING_BYTES = 64 * 1024 * 1024
"""Bytes of all texts that are being changed, and of removed files that are still open."""


class WorkingCopies:
    """Bytes of buffers against one limit.

    Each growth is added up; only where the sum has reached the limit are the files looked through, for what went
    meanwhile is not subtracted.
    """

    def __init__(self, tree: Tree, limit: int = MAX_WORKING_BYTES) -> None:
        self._tree = tree
        self.limit = limit
        self._estimate = 0

    def make_room(self, node: FileNode, size: int) -> None:
        """A file is about to hold ``size`` bytes in its buffer. Raises ENOSPC.

        Of files that are saved, the buffers are let go first: they can be read again.
        """
        if node.scratch and node.attached:
            return  # which has an account of its own
        here = 0 if node.buffer is None else len(node.buffer)
        more = max(0, size - here)
        if node.memory_id is not None and not node.dirty:
            more += node.size  # the text that it was begun in is kept beside it
        if self._estimate + more > self.limit:
            self._estimate = self.used()
            if self._estimate + more > self.limit:
                self._let_go(node)
                self._estimate = self.used()
            if more and self._estimate + more > self.limit:
                raise os_error(
                    errno.ENOSPC,
                    f"texts that are being changed, and removed files that are open, may hold {self.limit} bytes"
                    " together: close some",
                )
        self._estimate += more

    def used(self) -> int:
        """Bytes of all buffers but those of scratch."""
        return sum(
            max(0, len(node.buffer or b"") - node.charged) + len(node.begun or b"")
            for node in self._tree.by_inode.values()
            if isinstance(node, FileNode)
        )

    def _let_go(self, but: FileNode) -> None:
        for node in self._tree.by_memory.values():
            base, head = node.base, node.head
            as_saved = head is not None and (base is None or (base.text is None and base.sha256 == head.sha256))
            if as_saved and node is not but and not (node.dirty or node.masked):
                node.buffer = None
