"""The mirror of one store: a tree of nodes that follows the store's change feed.

Every name, size and time is answered from here; the database is only asked what changed. Which kernel caches a change
made stale is collected in ``stale``, for the mount to drop.
"""

import math
import secrets
import time
from dataclasses import dataclass

from memfs.model import ids
from memfs.model.paths import split
from memfs.model.records import Changes, Directory, FileAttributes, Head, Snapshot, time_ns
from memfs.vfs.nodes import (
    DIRECTORY_MODE,
    FILE_MODE,
    ROOT_INODE,
    SCRATCH_INODES,
    DirectoryNode,
    FileNode,
    Node,
    derived_inode,
    kept_mode,
)


@dataclass(frozen=True, slots=True)
class StaleInode:
    """Attributes and pages of an inode that a kernel may have cached."""

    inode: int


@dataclass(frozen=True, slots=True)
class StaleEntry:
    """A name that a kernel may have cached."""

    parent: int
    name: bytes


Stale = StaleInode | StaleEntry


class Tree:
    """Nodes by name, by inode and by memory."""

    def __init__(self, store_id: str) -> None:
        self.store_id = store_id
        self.root = DirectoryNode(ROOT_INODE)
        self.by_inode: dict[int, Node] = {ROOT_INODE: self.root}
        self.by_memory: dict[str, FileNode] = {}
        self.sequence = 0
        self.archived = False
        self.stale: list[Stale] = []
        self.moved: dict[int, tuple[StaleEntry, float]] = {}
        """Files that somebody else has moved, by inode: the name under which a kernel may still find them, and when it
        was seen that they moved (time.monotonic())."""
        self.left: set[FileNode] = set()
        """Orphans that somebody was reading when others changed their text."""
        self.unasked = False
        """Whether the kernel opens files without asking, so that any that it knows may be open."""
        self._loaded = False

    # Nodes

    def new_inode(self, identity: str | None = None, wanted: int | None = None) -> int:
        """A free inode number: the wanted one, the one derived from a lasting identity, or any; of scratch without one.

        A number that a kernel may still know is never given out again.
        """
        for candidate in (wanted, None if identity is None else derived_inode(identity)):
            if candidate is not None and candidate not in self.by_inode:
                return candidate
        while True:
            number = secrets.randbits(62) | (SCRATCH_INODES if identity is None else 0)
            if number > ROOT_INODE and number not in self.by_inode:
                return number

    def directory_identity(self, path: str) -> str:
        """What the inode number of a directory is derived from."""
        return f"{self.store_id}:{path}"

    def insert(self, parent: DirectoryNode, name: str, node: Node) -> None:
        """Add a node to the tree and its indexes."""
        parent.add(name, node)
        self.by_inode[node.inode] = node
        if isinstance(node, FileNode) and node.memory_id is not None:
            self.by_memory[node.memory_id] = node

    def held(self, node: FileNode) -> bool:
        """Whether somebody has a file open, or may have."""
        return node.handles > 0 or (self.unasked and node.lookups > 0)

    def orphan(self, node: Node) -> None:
        """Take a node out of the tree; it stays known by inode while a kernel or a handle holds it."""
        if node.parent is not None:
            node.parent.remove(node)
        if isinstance(node, FileNode):
            if node.memory_id is not None and self.by_memory.get(node.memory_id) is node:
                del self.by_memory[node.memory_id]
            # What a holder writes from now on is its own (DESIGN.md 5); the head still says what it reads.
            node.memory_id = None
            node.clean()
        node.touch(content=False)
        self.drop_unknown(node)

    def drop_unknown(self, node: Node) -> None:
        """Forget an orphan that nobody holds."""
        if node.attached or node.lookups > 0 or (isinstance(node, FileNode) and node.handles > 0):
            return
        self.by_inode.pop(node.inode, None)
        self.moved.pop(node.inode, None)
        if isinstance(node, FileNode):
            self.left.discard(node)

    def bind(self, node: FileNode, memory_id: str) -> None:
        """Make a node stand for a memory, and no other node."""
        if node.memory_id is not None and self.by_memory.get(node.memory_id) is node:
            del self.by_memory[node.memory_id]
        node.memory_id = memory_id
        self.by_memory[memory_id] = node

    def stand(self, node: FileNode, head: Head) -> None:
        """Take the head that a commit of ours made of a file without giving it a text.

        Where its text is another, somebody else has saved that just before. It is then left to ``follow``, which sees
        to those who have the file open and to what the kernel knows; taken here, it would be no change to it. A mode or
        a time that somebody else has just given it is one to nobody but the kernel.
        """
        if node.dirty or node.head is None:
            node.head = head
        elif node.head.sha256 == head.sha256:
            node.head = head
            if (node.mode, node.mtime_ns) != (kept_mode(head), head.mtime_ns()):
                node.mode, node.mtime_ns = kept_mode(head), head.mtime_ns()
                self.stale_inode(node)

    def find(self, path: str) -> Node | None:
        """The node at a path."""
        node: Node = self.root
        for segment in split(path) if path != "/" else ():
            if not isinstance(node, DirectoryNode):
                return None
            child = node.children.get(segment)
            if child is None:
                return None
            node = child
        return node

    def memories(self) -> int:
        """How many memories there are, with those not committed yet."""
        return len(self.by_memory)

    def emptied(self, directory: DirectoryNode, *leaving: Node) -> list[DirectoryNode]:
        """The directory, where these children leave no memory in it and it is not kept; else nothing.

        Such a one has to be kept now, or it would be gone for everybody else (DESIGN.md 11).
        """
        if (
            directory is self.root
            or directory.kept
            or any(
                isinstance(child, DirectoryNode) or (isinstance(child, FileNode) and child.head is not None)
                for child in directory.children.values()
                if child not in leaving
            )
        ):
            return []
        return [directory]

    def directory_attributes(self, directory: DirectoryNode) -> FileAttributes:
        """What to store of a directory's attributes: only what differs from what would be derived, and no times."""
        derived = derived_inode(self.directory_identity(directory.path()))
        return FileAttributes(
            mode=None if directory.mode == DIRECTORY_MODE else directory.mode,
            inode=None if directory.inode == derived else directory.inode,
        )

    # Following

    def load(self, snapshot: Snapshot) -> None:
        """Fill an empty tree."""
        self.sequence = snapshot.sequence
        self.archived = snapshot.store.archived_at is not None
        self.root.atime_ns = self.root.mtime_ns = self.root.ctime_ns = time_ns(snapshot.store.created_at)
        # The kept ones first: what is made for a memory's sake has none of the attributes that are kept.
        self._set_directories(snapshot.directories)
        for head in snapshot.heads:
            self._put(head)
        self._loaded = True

    def follow(self, changes: Changes) -> None:
        """Take over what changed. State-based: what the tree has already is no change to it."""
        self.sequence = max(self.sequence, changes.sequence)
        if changes.store is not None and self.archived != (changes.store.archived_at is not None):
            self.archived = not self.archived
            for known in self.by_inode.values():
                self.stale_inode(known)  # nobody may write to anything any more, or everybody may again
        moved: list[Head] = []
        for memory_id, head in changes.heads.items():
            node = self.by_memory.get(memory_id)
            if node is None or (node.head == head and (head is None or node.path() == head.path)):
                if node is None and head is not None:
                    moved.append(head)
                continue
            if head is None:
                if node.head is not None:
                    self._forget(node)
            elif node.path() == head.path:
                # Its place, not its head's: a commit of ours may have come back with the path of another's rename.
                self._update(node, head)
            else:
                moved.append(head)
        # First everything that moved leaves its old name, then it arrives: two memories may have swapped names.
        for head in moved:
            mover = self.by_memory.get(head.memory_id)
            if mover is not None and mover.parent is not None:
                entry = StaleEntry(mover.parent.inode, mover.name.encode())
                self.moved[mover.inode] = entry, time.monotonic()
                self.stale_entry(mover.parent, mover.name)
                mover.parent.remove(mover)
        for head in moved:
            self._put(head)
        if changes.directories is not None:
            self._set_directories(changes.directories)
        elif changes.heads:
            self._prune(self.root)

    def stale_all(self) -> None:
        """Note that all that a kernel knows may be out of date."""
        for node in self.by_inode.values():
            self.stale_inode(node)
            if node.parent is not None:
                self.stale.append(StaleEntry(node.parent.inode, node.name.encode()))

    def stale_inode(self, node: Node) -> None:
        """Note that what a kernel knows of an inode's attributes and pages is out of date."""
        if self._loaded:
            self.stale.append(StaleInode(node.inode))
            if isinstance(node, FileNode):
                node.steady = False

    def stale_entry(self, parent: DirectoryNode, name: str) -> None:
        """Note that what a kernel knows of a name, and so of its directory, is out of date."""
        if not self._loaded:
            return  # nobody has seen anything yet, and reading a store moves no directory's times
        self.stale.append(StaleEntry(parent.inode, name.encode()))
        parent.touch(content=True)
        self.stale_inode(parent)

    def _update(self, node: FileNode, head: Head) -> None:
        same_text = node.head is not None and node.head.version_id == head.version_id
        if node.dirty:
            # Somebody else's version is the head now; this writer's text is merged with it when it is committed.
            node.starting_point()
            if node.head is not None and node.mode == kept_mode(node.head) != kept_mode(head):
                # The mode is no text: it is kept as it was given there, unless it was given another here.
                node.mode = kept_mode(head)
                node.touch(content=False)
                self.stale_inode(node)
            node.head = head
            return
        assert node.head is not None
        inode = head.attributes.inode
        replaced = inode not in (None, node.inode, node.head.attributes.inode)
        if (replaced or (self.held(node) and not same_text)) and node.parent is not None and not node.writing:
            # Somebody has put another file in its place, or another text into it: who has it open goes on in what it
            # held. Programs read until there is no more, in several calls, and would take the end of a longer text for
            # the rest of theirs; and in one inode's pages, two texts cannot be told apart. Who may still write to it
            # goes on in the memory: that would be lost otherwise.
            parent, name = node.parent, node.name
            self.stale_entry(parent, name)
            self.orphan(node)
            if self.held(node) and not replaced:
                self.left.add(node)
                node.seen_at = math.inf
            successor = FileNode(self.new_inode(head.memory_id, inode if replaced else None))
            successor.take_head(head)
            self.insert(parent, name, successor)
            # Of all of them, and not each of the next: who follows a log for weeks would hold every text in between.
            held = tuple(each for each in (*node.former, node) if self.by_inode.get(each.inode) is each)
            node.former, successor.former = (), held
            for each in held:
                each.successor = successor
            return
        if not same_text:
            node.buffer = node.base = None
        node.take_head(head)
        node.touch(content=False)
        self.stale_inode(node)

    def _forget(self, node: FileNode) -> None:
        """A memory was deleted elsewhere. What is being written here is not lost: it will be a new memory."""
        if node.dirty and node.parent is not None:
            assert node.memory_id is not None
            del self.by_memory[node.memory_id]
            node.memory_id = None
            node.head = None
            self.renew_memory(node)
            return
        if node.parent is not None:
            self.stale_entry(node.parent, node.name)
        self.orphan(node)

    def renew_memory(self, node: FileNode) -> None:
        """Give a file whose memory is gone a memory of its own."""
        node.base = None
        self.bind(node, ids.new_id(ids.MEMORY))

    def _put(self, head: Head) -> None:
        """Make the node at a head's path stand for its memory."""
        *above, name = split(head.path)
        parent = self.root
        for segment in above:
            child = parent.children.get(segment)
            if isinstance(child, FileNode):
                self._displace(child)
                child = None
            if child is None:
                child = self.make_directory(parent, segment, mtime_ns=time_ns(head.updated_at))
                self.stale_entry(parent, segment)
            assert isinstance(child, DirectoryNode)
            parent = child
        present = parent.children.get(name)
        node = self.by_memory.get(head.memory_id)
        if present is not None and present is not node:
            if isinstance(present, FileNode) and present.dirty:
                # Written here too and not committed yet: its text will be the next version of this memory.
                if node is not None:
                    self._displace(node)
                self.bind(present, head.memory_id)
                present.head = head
                return
            self._displace(present)
        if node is None:
            inode = self.new_inode(head.memory_id, head.attributes.inode)
            node = FileNode(inode, mtime_ns=time_ns(head.updated_at))
            node.take_head(head)
            self.insert(parent, name, node)
        else:
            if node.parent is not None:
                node.parent.remove(node)
            self._update(node, head)
            parent.add(name, node)
        self.stale_entry(parent, name)

    def _displace(self, node: Node) -> None:
        """Somebody else's memory took this name. A directory that only we know, or a scratch file, gives way."""
        if isinstance(node, DirectoryNode):
            for child in list(node.children.values()):
                self._displace(child)
        elif isinstance(node, FileNode) and node.dirty:
            node.displaced = True  # its text can go nowhere: close() has to say so
        if node.parent is not None:
            self.stale_entry(node.parent, node.name)
        self.orphan(node)

    def make_directory(
        self, parent: DirectoryNode, name: str, *, mtime_ns: int, attributes: FileAttributes | None = None
    ) -> DirectoryNode:
        """Add a directory; with ``attributes`` one that is kept."""
        path = child_path(parent, name)
        given = FileAttributes() if attributes is None else attributes
        node = DirectoryNode(
            self.new_inode(self.directory_identity(path), given.inode),
            DIRECTORY_MODE if given.mode is None else given.mode,
            mtime_ns if given.mtime_ns is None else given.mtime_ns,
            kept=attributes is not None,
        )
        node.given_mtime_ns = given.mtime_ns
        self.insert(parent, name, node)
        return node

    def _set_directories(self, directories: list[Directory]) -> None:
        kept = {directory.path: directory for directory in directories}
        for path, directory in kept.items():
            node: Node = self.root
            for segment in split(path):
                assert isinstance(node, DirectoryNode)
                child = node.children.get(segment)
                if isinstance(child, FileNode):
                    if child.head is not None or child.dirty:
                        break  # a memory has this name by now, or will have when it is committed
                    self._displace(child)
                    child = None
                if child is None:
                    last = child_path(node, segment) == path
                    child = self.make_directory(
                        node,
                        segment,
                        mtime_ns=time_ns(directory.updated_at),
                        attributes=directory.attributes if last else None,
                    )
                    self.stale_entry(node, segment)
                node = child
            else:
                assert isinstance(node, DirectoryNode)
                node.kept = True
                mode = DIRECTORY_MODE if directory.attributes.mode is None else directory.attributes.mode
                if mode != node.mode:
                    node.mode = mode
                    self.stale_inode(node)
                given = directory.attributes.mtime_ns
                if given not in (None, node.given_mtime_ns):
                    node.mtime_ns = node.given_mtime_ns = given
                    node.touch(content=False)
                    self.stale_inode(node)
        self._prune(self.root, frozenset(kept))

    def _prune(self, directory: DirectoryNode, kept: frozenset[str] | None = None, path: str = "") -> None:
        """Take out directories that hold nothing and are not kept; with ``kept`` the list of those that are."""
        for child in list(directory.children.values()):
            if not isinstance(child, DirectoryNode):
                continue
            below = f"{path}/{child.name}"
            self._prune(child, kept, below)
            if kept is not None:
                child.kept = below in kept
                child.given_mtime_ns = child.given_mtime_ns if child.kept else None
            if not child.children and not child.kept:
                self.stale_entry(directory, child.name)
                self.orphan(child)


def child_path(directory: DirectoryNode, name: str) -> str:
    """The path of a name in a directory."""
    return f"{directory.path().rstrip('/')}/{name}"


def file_attributes(node: FileNode) -> FileAttributes:
    """What to store of a file's attributes with a text of it: only what differs from what would be derived."""
    # What is stored already is only replaced by a value: None would leave it.
    stored = FileAttributes() if node.head is None else node.head.attributes
    return FileAttributes(
        mode=None if node.mode == FILE_MODE and stored.mode is None else node.mode,
        mtime_ns=node.mtime_ns,
        inode=place_attributes(node).inode,
    )


def place_attributes(node: FileNode) -> FileAttributes:
    """What to store of a file that only moves. Mode and time are those that the store has by then: sent along, they
    would take back what somebody else has just given it.
    """
    stored = FileAttributes() if node.head is None else node.head.attributes
    derived = derived_inode(node.memory_id or "")
    return FileAttributes(inode=None if node.inode == derived and stored.inode is None else node.inode)
