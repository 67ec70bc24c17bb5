"""Permission bits and times of files and directories (DESIGN.md 12)."""

import errno
import stat

from memfs.model.errors import NotFound
from memfs.model.mutations import KeepDirectory, SetAttributes
from memfs.model.records import FileAttributes, Head
from memfs.vfs.errors import os_error
from memfs.vfs.looking import Looking
from memfs.vfs.nodes import DirectoryNode, FileNode, Node
from memfs.vfs.parts import Parts
from memfs.vfs.settling import Settling
from memfs.vfs.writing import Writing


def _storable(time_ns: int | None) -> int | None:
    """A time as the database can hold it, 64 bits: the years 1677 to 2262 in nanoseconds, and their ends for others."""
    return None if time_ns is None else max(-(2**63), min(2**63 - 1, time_ns))


class Attributes:
    """Keeps with the store what is given explicitly."""

    def __init__(self, parts: Parts, looking: Looking, settling: Settling, writing: Writing) -> None:
        self._tree = parts.tree
        self._transactions = parts.transactions
        self._looking = looking
        self._settling = settling
        self._writing = writing

    async def set_attributes(
        self,
        inode: int,
        *,
        mode: int | None = None,
        atime_ns: int | None = None,
        mtime_ns: int | None = None,
        size: int | None = None,
        handle: int | None = None,
    ) -> Node:
        """chmod, utimensat, truncate. Permission bits and mtime are kept with the memory, without a version."""
        self._transactions.check_writable()
        if handle is None:
            await self._settling.settle(inode)
        node = self._looking.node(inode)
        atime_ns, mtime_ns = _storable(atime_ns), _storable(mtime_ns)
        if size is not None:
            if not isinstance(node, FileNode):
                raise os_error(errno.EISDIR)
            await self._writing.truncate(node, size, handle)
        if mode is not None or mtime_ns is not None:
            mode = None if mode is None else stat.S_IMODE(mode)
            async with self._transactions.changing():
                # Stored first: a chmod that failed must not look as if it had been done.
                head = await self._keep(node, mode, mtime_ns)
                self._take(node, mode, atime_ns, mtime_ns)
                if head is not None and isinstance(node, FileNode) and self._tree.by_memory.get(head.memory_id) is node:
                    self._tree.stand(node, head)
        elif size is None:
            # Only the time of reading, or a chown, which changes no owner but is a change (DESIGN.md 12).
            self._take(node, None, atime_ns, None)
        return node

    @staticmethod
    def _take(node: Node, mode: int | None, atime_ns: int | None, mtime_ns: int | None) -> None:
        node.touch(content=False)
        if mode is not None:
            node.mode = mode
        if atime_ns is not None:
            node.atime_ns = atime_ns
        if mtime_ns is not None:
            node.mtime_ns = mtime_ns

    async def _keep(self, node: Node, mode: int | None, mtime_ns: int | None) -> Head | None:
        """Commit what a node is about to show: what was given and nothing else, or a chmod would take the time of what
        somebody else has just written away. Returns a file's head as it is then, where this has changed it.
        """
        if not node.attached or node is self._tree.root:
            return None
        if isinstance(node, DirectoryNode):
            attributes = FileAttributes(mode, mtime_ns, self._tree.directory_attributes(node).inode)
            await self._transactions.commit([KeepDirectory(node.path(), attributes)])
            node.kept = True
            node.given_mtime_ns = node.given_mtime_ns if mtime_ns is None else mtime_ns
            return None
        assert isinstance(node, FileNode)
        if node.memory_id is None or node.head is None or node.dirty:
            return None  # a dirty file's attributes go with its commit
        given = FileAttributes(mode=mode, mtime_ns=mtime_ns)
        try:
            applied = await self._transactions.commit([SetAttributes(node.memory_id, given)])
        except NotFound:
            self._transactions.distrust()
            return None
        return applied.heads.get(node.memory_id)
