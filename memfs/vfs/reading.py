"""What those who have a file open see of it."""

import errno
import math

import trio

from memfs.vfs.errors import os_error
from memfs.vfs.handles import FileHandle, Handles
from memfs.vfs.looking import Looking
from memfs.vfs.nodes import FileNode
from memfs.vfs.parts import Parts

READING_SECONDS = 1.0
"""How long somebody who has opened or read a file may still be about to read the rest of it."""


class Reading:
    """Serves texts, and remembers which one each process has seen."""

    def __init__(self, parts: Parts, handles: Handles, looking: Looking) -> None:
        self._store = parts.store
        self._tree = parts.tree
        self._transactions = parts.transactions
        self._saving = parts.saving
        self._contents = parts.contents
        self._bases = parts.bases
        self._handles = handles
        self._looking = looking

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Bytes from an open file, fewer at its end."""
        handle = self._handles.file(number)
        node = handle.node
        handle.seen_at = trio.current_time()
        text = self._contents.expected(node)
        if handle.base is not node.base and (node.told is None or node.told is node.head or node.dirty):
            self.served(handle)
        return bytes(text[offset : offset + size])

    def text(self, handle: FileHandle) -> bytes:
        """All that an open file holds."""
        return bytes(self._contents.of(handle.node))

    def read_unopened(self, inode: int, offset: int, size: int) -> bytes:
        """Bytes of a file that the kernel has opened without asking, as only a read_only one may. Raises ESTALE."""
        node = self._looking.node(inode)
        if not isinstance(node, FileNode):
            raise os_error(errno.EISDIR)
        node.seen_at = trio.current_time()
        if node.memory_id is not None:
            self._store.note_access(node.memory_id)
        return bytes(self._contents.expected(node)[offset : offset + size])

    def served(self, handle: FileHandle) -> None:
        """Whoever opened a file sees, or is about to see, what it holds now."""
        node = handle.node
        if node.dirty and node.whole_by is not None:
            # The text that somebody is writing anew: once it is committed, that is what was started from here.
            handle.base = self._saving.made_from(node, bytes(self._contents.of(node)))
        else:
            handle.base = node.starting_point()
        memory_id = node.memory_id
        if not node.attached and (latest := node.latest()) is not None:
            memory_id = latest.memory_id
        if memory_id is not None and not self._transactions.read_only:
            self._bases.served(memory_id, handle.base, handle.pid)

    def follow_left(self) -> float | None:
        """Let those who have a file open whose text others changed, and have not read for a while, see what is there
        now: they do not want the rest of the old text any more. Returns when to look again (trio.current_time()).
        """
        now = trio.current_time()
        next_look = math.inf
        for node in [each for each in self._tree.left if self._tree.held(each)]:
            if node.handles == 0:
                node.seen_at = min(node.seen_at, now)  # who has it open does not say so: as if it was opened just now
                idle = node.seen_at + READING_SECONDS
            else:
                idle = max((handle.seen_at + READING_SECONDS for handle in node.reading), default=now)
            if idle > now:
                next_look = min(next_look, idle)
                continue
            latest = node.latest()
            if latest is not None and latest.head is not None and latest.head is not node.head:
                node.buffer = node.base = None
                node.head, node.mtime_ns = latest.head, latest.mtime_ns
                node.touch(content=False)
                self._tree.stale_inode(node)
        return None if next_look == math.inf else next_look
