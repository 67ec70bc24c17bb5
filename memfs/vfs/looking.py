"""What a kernel asks by inode and by name, and what it knows of it."""

import errno
import time
from collections.abc import Callable

from memfs.model.errors import InvalidPath
from memfs.model.paths import MAX_NAME_BYTES, check_path, check_segment, decode_name
from memfs.vfs.errors import os_error
from memfs.vfs.nodes import DirectoryNode, Node
from memfs.vfs.retries import Retries
from memfs.vfs.tree import StaleEntry, Tree, child_path

WALK_SECONDS = 0.2
"""How long after a name has gone somebody may still be on the way from it: the kernel found the file by it, was then
told to forget it, and now opens the file. Whoever came by the new name looks it up once more, and is no worse off."""


def check_current(node: Node) -> None:
    """Raises ESTALE for what is gone by others' doing: the kernel then looks the name up anew."""
    if not node.attached and not node.removed_here:
        raise os_error(errno.ESTALE)


class Looking:
    """Answers from the tree, and counts which of its nodes the kernel knows."""

    def __init__(self, tree: Tree, retries: Retries, stale_name: Callable[[StaleEntry], bool]) -> None:
        """``stale_name`` is that of Filesystem."""
        self._tree = tree
        self._retries = retries
        self._stale_name = stale_name

    # Nodes and names

    def node(self, inode: int) -> Node:
        """The node of an inode. Raises ESTALE where it is unknown."""
        node = self._tree.by_inode.get(inode)
        if node is None:
            raise os_error(errno.ESTALE)
        return node

    def directory(self, inode: int) -> DirectoryNode:
        """The directory of an inode. Raises ENOTDIR, ESTALE."""
        node = self.node(inode)
        if not isinstance(node, DirectoryNode):
            raise os_error(errno.ENOTDIR)
        return node

    def lookup(self, parent: int, name: bytes, pid: int = 0) -> Node:
        """The child of this name, for a thread. Raises ENOENT, PathTooLong over 255 bytes."""
        try:
            node = self._child(parent, name)
        except FileNotFoundError:
            self._retries.ended(pid)
            raise
        self._retries.found(pid, node.inode)
        return node

    def _child(self, parent: int, name: bytes) -> Node:
        directory = self.directory(parent)
        if name == b".":
            return directory
        if name == b"..":
            return directory.parent or directory
        node = directory.children.get(self._known_name(directory, name))
        if node is None:
            # In a directory that somebody else has replaced, nothing is known of what is there now.
            check_current(directory)
            raise os_error(errno.ENOENT)
        return node

    def _known_name(self, directory: DirectoryNode, name: bytes) -> str:
        """A name that is asked for: one that cannot exist is not there; a too long one only where none has it."""
        try:
            return decode_name(name)
        except InvalidPath:
            text = name.decode(errors="surrogateescape")
            if len(name) > MAX_NAME_BYTES and text not in directory.children:
                raise
            return text

    def target(self, parent: int, name: bytes) -> tuple[DirectoryNode, str]:
        """A directory and a name that may be made in it. Raises ENOENT in a removed directory, InvalidPath."""
        directory = self.directory(parent)
        text = decode_name(name)
        if not directory.attached:
            raise os_error(errno.ENOENT)
        check_segment(text)
        if text == ".git":
            raise os_error(
                errno.EPERM, "a git repository cannot live in a store: keep its .git elsewhere (git --separate-git-dir)"
            )
        check_path(child_path(directory, text))
        return directory, text

    # What the kernel knows

    def check_name(self, node: Node) -> None:
        """Raises ESTALE for what the kernel may have found by a name that it no longer has."""
        check_current(node)
        entry, seen = self._tree.moved.get(node.inode, (None, 0.0))
        if entry is not None:
            if time.monotonic() < seen + WALK_SECONDS or self.believed(entry):
                raise os_error(errno.ESTALE)
            del self._tree.moved[node.inode]

    def believed(self, entry: StaleEntry) -> bool:
        """Whether the kernel may still believe in a name that is not what it was."""
        return entry in self._tree.stale or self._stale_name(entry)

    def remember(self, node: Node) -> None:
        """Count one more lookup that the kernel holds."""
        node.lookups += 1

    def forget(self, inode: int, count: int) -> None:
        """The kernel gives ``count`` lookups back."""
        node = self._tree.by_inode.get(inode)
        if node is not None:
            node.lookups = max(0, node.lookups - count)
            self._tree.drop_unknown(node)

    def is_known(self, inode: int) -> bool:
        """Whether the kernel holds a lookup of an inode, or is about to. Any thread may ask."""
        node = self._tree.by_inode.get(inode)
        return node is not None and node.lookups > 0
