"""Inodes: files and directories as a kernel sees them.

A file is in one of these states, told by its fields:

=============  =============  ==========  =====================================================================
state          ``memory_id``  ``head``    meaning
=============  =============  ==========  =====================================================================
memory         set            set         a live memory
new            set            None        made here, its first version not committed yet
scratch        None           None        an editor temporary
=============  =============  ==========  =====================================================================

A node without a parent (other than the root) is an orphan: unlinked or replaced, kept for those who hold it.
"""

import time
from hashlib import blake2b
from typing import TYPE_CHECKING

from memfs.model.records import Head, time_ns
from memfs.vfs.bases import Base

if TYPE_CHECKING:
    from memfs.vfs.handles import DirectoryHandle, FileHandle, Listing

ROOT_INODE = 1
FILE_MODE = 0o644
DIRECTORY_MODE = 0o755


def derived_inode(identity: str) -> int:
    """The inode number of something with a lasting identity: 62 bits, never 0 or the root's, equal at each mount."""
    number = int.from_bytes(blake2b(identity.encode(), digest_size=8).digest()) >> 2
    return number if number > ROOT_INODE else number + 2


SCRATCH_INODES = 1 << 62
"""Set in the numbers of files that are made as scratch, and in no derived one."""


def is_scratch_inode(inode: int) -> bool:
    """Whether a file was made as scratch: one that is no memory by now still is."""
    return bool(inode & SCRATCH_INODES)


NOBODY: "frozenset[FileHandle]" = frozenset()


def kept_mode(head: Head) -> int:
    """The permission bits of a memory."""
    return FILE_MODE if head.attributes.mode is None else head.attributes.mode


class Node:
    """What files and directories share. Times are nanoseconds since the epoch."""

    __slots__ = ("atime_ns", "ctime_ns", "inode", "lookups", "mode", "mtime_ns", "name", "parent", "removed_here")

    def __init__(self, inode: int, mode: int, mtime_ns: int) -> None:
        self.inode = inode
        self.mode = mode
        self.mtime_ns = self.ctime_ns = self.atime_ns = mtime_ns
        self.parent: DirectoryNode | None = None
        self.name = ""
        self.lookups = 0
        self.removed_here = False
        """Whether its name was removed or replaced through this mount, whose kernel thus knows."""

    @property
    def attached(self) -> bool:
        """Whether the node can be reached by name."""
        return self.parent is not None or self.inode == ROOT_INODE

    def path(self) -> str:
        """The path within the store, ``/`` for the root. Only for an attached node."""
        parts: list[str] = []
        node: Node = self
        while node.parent is not None:
            parts.append(node.name)
            node = node.parent
        return "/" + "/".join(reversed(parts))

    def touch(self, *, content: bool) -> None:
        """Move ctime, and with ``content`` mtime, to the present; never backwards, so that two changes differ."""
        self.ctime_ns = max(time.time_ns(), self.ctime_ns + 1)
        if content:
            self.mtime_ns = self.ctime_ns


class DirectoryNode(Node):
    """A directory.

    ``kept`` ones exist for their own sake, others while something lies below. ``directories`` counts the directories
    among the children. ``listing`` rises by each change of a name or of what stands at it; ``listed`` is what it was
    when the kernel was last let keep what it reads here. ``unread`` are those open directories that have not put the
    names down yet.
    """

    __slots__ = ("children", "directories", "given_mtime_ns", "kept", "listed", "listing", "put_down", "unread")

    def __init__(self, inode: int, mode: int = DIRECTORY_MODE, mtime_ns: int = 0, *, kept: bool = False) -> None:
        super().__init__(inode, mode, mtime_ns)
        self.children: dict[str, Node] = {}
        self.directories = 0
        self.kept = kept
        self.listing = 0
        self.listed: int | None = None
        self.unread: set[DirectoryHandle] = set()
        self.put_down: Listing | None = None
        """The names as they are now, where somebody has put them down."""
        self.given_mtime_ns: int | None = None
        """The time that the store keeps of it, which was given explicitly; the names in it may have changed since."""

    def add(self, name: str, node: Node) -> None:
        """Put a node under a free name."""
        assert name not in self.children, name
        self._about_to_change()
        self.children[name] = node
        node.parent, node.name = self, name
        if isinstance(node, DirectoryNode):
            self.directories += 1

    def _about_to_change(self) -> None:
        self.listing += 1
        for handle in list(self.unread):
            handle.take()
        self.put_down = None

    def remove(self, node: Node) -> None:
        """Take a child out; it becomes an orphan. Its name stays in ``node.name``, for logs."""
        self._about_to_change()
        del self.children[node.name]
        node.parent = None
        if isinstance(node, DirectoryNode):
            self.directories -= 1


class FileNode(Node):
    """A file. ``buffer`` is the one working copy that all handles share, or None while the head's text is served."""

    __slots__ = (
        "__weakref__",
        "appended_from",
        "author",
        "base",
        "begun",
        "buffer",
        "charged",
        "dirty",
        "dirty_since",
        "displaced",
        "former",
        "generation",
        "handles",
        "head",
        "kernel_size",
        "masked",
        "memory_id",
        "reading",
        "seen_at",
        "served",
        "spoiled",
        "steady",
        "successor",
        "told",
        "whole_by",
        "whole_since",
        "writing",
        "written",
    )

    def __init__(self, inode: int, mode: int = FILE_MODE, mtime_ns: int = 0) -> None:
        super().__init__(inode, mode, mtime_ns)
        self.memory_id: str | None = None
        self.head: Head | None = None
        self.buffer: bytearray | None = None
        self.base: Base | None = None
        """What the buffer was made from, or whoever opens the file now will start from; None: the head, not asked for
        yet."""
        self.begun: bytes | None = None
        """The text that changes in place were begun in, while they are not committed: the version that it is of may be
        redacted or pruned before they are."""
        self.whole_by: int | None = None
        """The thread that writes the text anew, from the start, since the last commit: what it started from, it knows.
        None where the buffer was changed in place, and thus made from ``base``."""
        self.whole_since = 0
        """The generation from which on it does: a commit of an earlier one was of another text."""
        self.author = 0
        """The thread that last opened it to write."""
        self.appended_from: int | None = None
        """Where in the buffer begins what was appended since the last commit, and not touched since."""
        self.charged = 0
        """Bytes counted against what scratch may hold."""
        self.kernel_size = 0
        """The size that the kernel was last told, or has come to itself by writing."""
        self.steady = True
        """Whether nothing that the kernel was told of it has become stale."""
        self.handles = 0
        # Of thousands of files few are open, and an empty set each would be a megabyte.
        self.reading: frozenset[FileHandle] = NOBODY
        """The open files through which somebody sees what it holds."""
        self.seen_at = 0.0
        """When it was last read without a handle (trio.current_time()); infinity where that is yet to be said."""
        self.writing: frozenset[FileHandle] = NOBODY
        """The open files that are writable."""
        self.dirty = False
        """Whether the buffer must be committed."""
        self.dirty_since = 0.0
        """time.monotonic() of when it became dirty."""
        self.written = False
        """Whether anything but the emptying by O_CREAT or O_TRUNC made it dirty."""
        self.spoiled = False
        """Whether a write was refused midway, so that the buffer must not be taken for what was meant."""
        self.masked = False
        """Whether the buffer is committed, but a guard has masked some of it: the head's text is another."""
        self.displaced = False
        """Whether somebody else's change took its name while it held text that was not committed yet."""
        self.generation = 0
        """Rises by each change of the buffer, so that a commit knows whether it took the latest."""
        self.served: tuple[str, int] | None = None
        """What the kernel's page cache was last filled from: version and generation."""

        self.told: Head | None = None
        """The head whose size the kernel was last told, None where it knows of none. A read that comes before it has
        asked again is still answered with that text: it would cut another one at the old size, or fill it up."""
        self.successor: FileNode | None = None
        """The file that is in its place, because somebody else has changed it."""
        self.former: tuple[FileNode, ...] = ()
        """Those that this one is the successor of, as far as somebody held them when it became that."""

    @property
    def scratch(self) -> bool:
        """Whether the content is unversioned."""
        return self.memory_id is None and self.head is None

    @property
    def size(self) -> int:
        """Bytes of content."""
        if self.buffer is not None:
            return len(self.buffer)
        return 0 if self.head is None else self.head.size

    def starting_point(self) -> Base:
        """What whoever opens the file now starts from."""
        if self.base is None:
            self.base = Base() if self.head is None else Base.of(self.head)
        return self.base

    def latest(self) -> "FileNode | None":
        """The file that is in its place now, by others' changes; None where nothing is."""
        node = self
        while not node.attached and node.successor is not None:
            node = node.successor
        return node if node.attached else None

    def content_key(self) -> tuple[str, int]:
        """Equal exactly while reads give the same bytes."""
        return ("" if self.head is None else self.head.version_id, self.generation)

    def drop_buffer(self) -> None:
        """Show the head's text, and nothing else. Where ``base`` is that text it stays: everybody of this mount who was
        served it must be seen to have started from the same one, also when the next commit moves it on.
        """
        self.buffer = None
        base = self.base
        if base is not None and (base.text is not None or self.head is None or base.sha256 != self.head.sha256):
            self.base = None

    def take_head(self, head: Head) -> None:
        """Stand at this head: times and mode as it keeps them. The buffer is the caller's business."""
        self.head = head
        self.memory_id = head.memory_id
        self.mode = kept_mode(head)
        self.mtime_ns = head.mtime_ns()
        self.ctime_ns = max(time_ns(head.updated_at), self.ctime_ns)

    def changed(self, moment: float) -> None:
        """Record that the buffer changed at ``moment`` (time.monotonic())."""
        self.generation += 1
        self.masked = False
        if not self.dirty:
            self.dirty = True
            self.dirty_since = moment

    def clean(self) -> None:
        """Record that the buffer is what is committed, or of no interest."""
        self.dirty = self.written = self.spoiled = self.masked = False
        self.whole_by = self.appended_from = self.begun = None
