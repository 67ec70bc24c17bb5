"""Names that are made and removed. How they are moved is in ``rename``: it is half of what editors do."""

import errno
import os
import stat
import time

from memfs.model import ids
from memfs.model.errors import NotFound, StoreFull
from memfs.model.mutations import Delete, DropDirectory, KeepDirectory, Mutation
from memfs.model.records import MAX_MEMORIES, FileAttributes
from memfs.vfs.errors import os_error
from memfs.vfs.handles import FileHandle
from memfs.vfs.looking import Looking
from memfs.vfs.nodes import DIRECTORY_MODE, DirectoryNode, FileNode, derived_inode
from memfs.vfs.opening import Opening
from memfs.vfs.parts import Parts
from memfs.vfs.tree import child_path


class Making:
    """Makes and removes files and directories."""

    def __init__(self, parts: Parts, looking: Looking, opening: Opening) -> None:
        self._parts = parts
        self._tree = parts.tree
        self._transactions = parts.transactions
        self._saving = parts.saving
        self._asides = parts.asides
        self._scratch = parts.scratch
        self._temporaries = parts.temporaries
        self._looking = looking
        self._opening = opening

    # Directories

    async def mkdir(self, parent: int, name: bytes, mode: int) -> DirectoryNode:
        """Make a directory that is kept for its own sake."""
        self._transactions.check_writable()
        async with self._transactions.naming():
            directory, text = self._looking.target(parent, name)
            if text in directory.children:
                raise os_error(errno.EEXIST)
            path = child_path(directory, text)
            identity = self._tree.directory_identity(path)
            inode = self._tree.new_inode(identity)
            # Setgid is handed on, as on any disk: there it keeps a whole tree in its group.
            mode = stat.S_IMODE(mode) | directory.mode & stat.S_ISGID
            attributes = FileAttributes(
                mode=None if mode == DIRECTORY_MODE else mode,
                inode=None if inode == derived_inode(identity) else inode,
            )
            await self._transactions.commit([*self._asides.deletions(path), KeepDirectory(path, attributes)])
            self._asides.drop(path)
            node = DirectoryNode(inode, mode, time.time_ns(), kept=True)
            self._tree.insert(directory, text, node)
            directory.touch(content=True)
            return node

    async def rmdir(self, parent: int, name: bytes) -> None:
        """Remove an empty directory."""
        self._transactions.check_writable()
        async with self._transactions.naming():
            directory = self._looking.directory(parent)
            node = self._looking.lookup(parent, name)
            if not isinstance(node, DirectoryNode):
                raise os_error(errno.ENOTDIR)
            if node.children:
                raise os_error(errno.ENOTEMPTY)
            path = node.path()
            mutations = self._asides.deletions(path)
            if node.kept:
                mutations.append(DropDirectory(path))
            await self._transactions.commit(mutations, emptied=self._tree.emptied(directory, node))
            self._asides.drop(path)
            node.removed_here = True
            self._tree.orphan(node)
            directory.touch(content=True)

    # Files

    async def create(self, parent: int, name: bytes, mode: int, flags: int, pid: int) -> FileHandle:
        """Make a file and open it. Its first version is committed when it is closed, even if it is empty."""
        self._transactions.check_writable()
        async with self._transactions.making():
            directory, text = self._looking.target(parent, name)
            present = directory.children.get(text)
            if present is None:
                self._opening.check_room()  # before anything is made
                return self._opening.opened(self._new_file(directory, text, mode, flags, pid), flags, pid)
        # The kernel did not know the name: somebody else has made it meanwhile.
        if flags & os.O_EXCL:
            raise os_error(errno.EEXIST)
        return await self._opening.open(present.inode, flags & ~os.O_CREAT, pid)

    async def mknod(self, parent: int, name: bytes, mode: int) -> FileNode:
        """Make an empty regular file; anything else is EPERM."""
        self._transactions.check_writable()
        if not stat.S_ISREG(mode):
            raise os_error(errno.EPERM, "a store holds regular files and directories, no pipes, sockets or devices")
        async with self._transactions.making():
            directory, text = self._looking.target(parent, name)
            if text in directory.children:
                raise os_error(errno.EEXIST)
            node = self._new_file(directory, text, mode, os.O_EXCL, 0)
        try:
            await self._saving.commit(node)
        except BaseException:
            self._saving.discard(node)
            raise
        return node

    def _new_file(self, directory: DirectoryNode, name: str, mode: int, flags: int, pid: int) -> FileNode:
        path = child_path(directory, name)
        node = FileNode(0, stat.S_IMODE(mode), time.time_ns())
        node.buffer = bytearray()
        node.whole_by = pid
        exclusive = bool(flags & os.O_EXCL)
        if self._temporaries.made(name, exclusive=exclusive, mode=mode, beside=directory.children):
            self._scratch.check_room()
            node.inode = self._tree.new_inode()
            self._scratch.add(node)
        else:
            aside = self._asides.take(path)
            if aside is not None:
                # The second half of an editor's save: the old text was moved to a backup's name, now comes the new.
                memory_id, node.head = aside.head.memory_id, aside.head
            else:
                if self._tree.memories() + len(self._asides) >= MAX_MEMORIES:
                    raise StoreFull(f"the store holds its {MAX_MEMORIES} memories: delete some, or use another store")
                memory_id = ids.new_id(ids.MEMORY)
            node.memory_id = memory_id
            node.inode = self._tree.new_inode(memory_id)
            self._saving.note_dirty(node)
        self._tree.insert(directory, name, node)
        directory.touch(content=True)
        return node

    async def unlink(self, parent: int, name: bytes) -> None:
        """Remove a file; its memory gets a version ``deleted``."""
        self._transactions.check_writable()
        async with self._transactions.naming():
            directory = self._looking.directory(parent)
            node = self._looking.lookup(parent, name)
            if not isinstance(node, FileNode):
                raise os_error(errno.EISDIR)
            try:
                await self._transactions.commit(self._removal(node), emptied=self._tree.emptied(directory, node))
            except NotFound:
                # Somebody else deleted it first: that is what was wanted.
                self._transactions.distrust()
            if node.attached:
                self._parts.remove(node)
                directory.touch(content=True)

    @staticmethod
    def _removal(node: FileNode) -> list[Mutation]:
        return [Delete(node.memory_id)] if node.memory_id is not None and node.head is not None else []
