"""Renaming: moves, atomic saves, exchanges, directories.

How editors save decides the rules here. Renamed over a live memory, a file continues the target's history under the
target's id, while the inode at the name is the source's, as on any filesystem. A memory renamed to a temporary's name
(an editor's backup) is set aside: if its old name is made again at once, that is the memory's next version.
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memfs.model import ids
from memfs.model.errors import ContentTooLarge, NotFound, PathConflict, PreconditionFailed, StoreFull, WriteRefused
from memfs.model.mutations import Applied, Create, Delete, KeepDirectory, MoveDirectory, Mutation, Update
from memfs.model.paths import check_path
from memfs.model.records import MAX_CONTENT_BYTES, MAX_MEMORIES, FileAttributes, Head
from memfs.vfs.bases import Base
from memfs.vfs.errors import os_error
from memfs.vfs.looking import Looking
from memfs.vfs.nodes import FILE_MODE, DirectoryNode, FileNode, Node
from memfs.vfs.parts import Parts
from memfs.vfs.settling import Settling
from memfs.vfs.tree import StaleEntry, child_path, file_attributes, place_attributes

RENAME_TRIES = 20
"""How often a rename over a memory begins anew because somebody else has just saved what would be removed."""


class Renaming:
    """Renames as they are asked for, begun anew where somebody else comes between."""

    def __init__(self, parts: Parts, looking: Looking, settling: Settling, refused: Callable[[str, str], None]) -> None:
        """``refused`` is that of Filesystem."""
        self._parts = parts
        self._tree = parts.tree
        self._transactions = parts.transactions
        self._saving = parts.saving
        self._contents = parts.contents
        self._looking = looking
        self._settling = settling
        self._refused = refused

    async def rename(
        self, parent: int, name: bytes, new_parent: int, new_name: bytes, *, noreplace: bool, exchange: bool
    ) -> None:
        """Move a file or directory, replacing what is there, or exchange two names."""
        self._transactions.check_writable()
        await self._settling.settle_name(parent, name)
        await self._settling.settle_name(new_parent, new_name)
        for _ in range(RENAME_TRIES):
            await self._look_ahead(parent, name)
            async with self._transactions.naming():
                source = self._looking.lookup(parent, name)
                into, text = self._looking.target(new_parent, new_name)
                rename = Rename(self._parts, self._looking.directory(parent), source, into, text)
                try:
                    await rename.run(noreplace=noreplace, exchange=exchange)
                except WriteRefused as error:
                    self._refused(child_path(into, text), str(error))
                    raise
                except PreconditionFailed:
                    self._transactions.distrust()
                else:
                    self._follow_kernel(StaleEntry(parent, name), StaleEntry(new_parent, new_name))
                    return
            # Somebody else has just saved what is moved: that goes along.
            if isinstance(source, FileNode) and self._saving.outdated(source):
                await self._saving.commit(source)
        raise os_error(errno.EAGAIN, "the file keeps changing elsewhere")

    async def _look_ahead(self, parent: int, name: bytes) -> None:
        """Let guards search what a rename is about to make a version of (Transactions.look_ahead)."""
        node = self._looking.directory(parent).children.get(os.fsdecode(name))
        if isinstance(node, FileNode) and (node.scratch or node.dirty) and node.size <= MAX_CONTENT_BYTES:
            await self._transactions.look_ahead(bytes(self._contents.of(node)))

    def _follow_kernel(self, *entries: StaleEntry) -> None:
        """After a rename, which a kernel follows by itself: where what it had at one of the names was not what is there
        any more, it now has that at the other one.
        """
        if any(self._looking.believed(entry) for entry in entries):
            self._tree.stale += entries


@dataclass(slots=True)
class _Written:
    """A file whose text goes into the rename's transaction: at which generation it was taken, and what it was made
    from."""

    node: FileNode
    text: bytes
    generation: int
    base: Base


class Rename:
    """One rename, with the lock of names held: checks, one transaction, then the tree."""

    def __init__(
        self, parts: Parts, parent: DirectoryNode, source: Node, new_parent: DirectoryNode, new_name: str
    ) -> None:
        """``source`` is a child of ``parent``, and ``new_name`` one that may be made in ``new_parent``."""
        self.parts = parts
        self.tree = parts.tree
        self.asides = parts.asides
        self.contents = parts.contents
        self.saving = parts.saving
        self.scratch = parts.scratch
        self.transactions = parts.transactions
        self.parent = parent
        self.source = source
        self.new_parent, self.new_name = new_parent, new_name
        self.target = self.new_parent.children.get(self.new_name)
        self.old_name = self.source.name
        self.old_path = self.source.path()
        self.new_path = child_path(self.new_parent, self.new_name)
        self.written: list[_Written] = []
        self.moved_asides: dict[str, tuple[str, str]] = {}
        """Memories set aside below what moves: old and new path by memory id."""
        self.moved_directories: list[DirectoryNode] = []
        """Those that move, each of which the store keeps from then on."""

    async def run(self, *, noreplace: bool, exchange: bool) -> None:
        """Do it. Raises the errno of rename(2), what makes the text unfit for a memory, and PreconditionFailed, with
        nothing changed, where somebody else has just saved what would be removed.
        """
        if noreplace and self.target is not None:
            raise os_error(errno.EEXIST)
        if exchange and self.target is None:
            raise os_error(errno.ENOENT)
        if self.source is self.target:
            return
        self._check_nesting(self.source, self.new_parent)
        if exchange:
            assert self.target is not None
            self._check_nesting(self.target, self.parent)
            await self._exchange(self.target)
        elif isinstance(self.source, DirectoryNode):
            await self._directory(self.source)
        elif isinstance(self.source, FileNode):
            await self._file(self.source)
        self.parent.touch(content=True)
        self.new_parent.touch(content=True)

    @staticmethod
    def _check_nesting(moving: Node, into: DirectoryNode) -> None:
        above: Node | None = into
        while above is not None:
            if above is moving:
                raise os_error(errno.EINVAL, "a directory cannot be moved into itself")
            above = above.parent

    # Files

    async def _file(self, source: FileNode) -> None:
        target = self.target
        if isinstance(target, DirectoryNode):
            raise os_error(errno.EISDIR)
        assert target is None or isinstance(target, FileNode)
        # A name made by rename is judged without a way of making: nobody says O_EXCL here. What is a memory stays one.
        onto_memory = target is not None and not target.scratch
        becomes_memory = onto_memory or not self.parts.temporaries.renamed(self.new_name, self.new_parent.children)
        if not becomes_memory:
            await self._to_scratch(source, target)
        elif target is not None and target.memory_id is not None and target.head is not None:
            await self._over_memory(source, target, target.memory_id, target.head)
        else:
            await self._to_free_name(source, target)

    async def _to_scratch(self, source: FileNode, target: FileNode | None) -> None:
        """The file is scratch afterwards; a memory is set aside until it shows what the editor makes of its name."""
        await self.transactions.commit([], emptied=self._left_empty())
        if not source.scratch:
            text = bytearray(self.contents.of(source))
            self.scratch.charge(source, len(text))
            head = source.head
            if source.memory_id is not None:
                self.tree.by_memory.pop(source.memory_id, None)
            source.memory_id = source.head = None
            source.buffer = text
            self.saving.forget(source)
            if head is not None:
                self.asides.put(self.old_path, head)
        self._arrive(source, target)

    async def _over_memory(self, source: FileNode, target: FileNode | None, memory_id: str, head: Head) -> None:
        """An atomic save: the target's memory gets the source's text, and the source's memory is deleted.

        Raises PreconditionFailed where somebody else has saved the source meanwhile: what would go to the target is not
        all that is there, and the rest would go with the source.
        """
        # The memory is another one than the source's, if that has any: what the text was made from, its writer knows.
        text = self._text(source, self._base_of(memory_id, target, head, source))
        attributes = file_attributes(source)
        mode = source.mode if source.mode != FILE_MODE or head.attributes.mode is not None else None
        mutations: list[Mutation] = [
            # With its path: where somebody has renamed it meanwhile, this name is still the one that was asked for.
            Update(
                memory_id,
                content=text,
                path=self.new_path,
                attributes=FileAttributes(mode, attributes.mtime_ns, source.inode),
                edit=self.written[-1].base.edit(0),
            )
        ]
        if source.memory_id is not None and source.head is not None:
            if self.saving.outdated(source):
                raise PreconditionFailed(f"{source.name} was saved by somebody else while it was written here")
            mutations.append(Delete(source.memory_id, expected_version=source.head.version_id))
        await self._save(source, target, memory_id, mutations)

    async def _to_free_name(self, source: FileNode, target: FileNode | None) -> None:
        """No memory is in the way. The file becomes one, or the memory moves."""
        aside = self.asides.at(self.new_path)
        if aside is not None:
            # The second half of an editor's save: the old text was moved to a backup's name, now comes the new.
            await self._over_memory(source, target, aside.head.memory_id, aside.head)
            self.asides.take(self.new_path)
            return
        if source.memory_id is not None and source.head is not None:
            text, edit = None, None
            if source.dirty and source.written:
                text = self._text(source, self.saving.made_from(source, bytes(self.contents.of(source))))
                edit = self.saving.edit(source, self.written[-1].base)
            attributes = place_attributes(source) if text is None else file_attributes(source)
            await self._save(
                source,
                target,
                source.memory_id,
                [Update(source.memory_id, content=text, path=self.new_path, attributes=attributes, edit=edit)],
            )
            return
        if source.memory_id is not None and not source.written and source.writing:
            # Made and not written yet: its first version is committed when it is closed, under its new name.
            self._arrive(source, target)
            return
        memory_id = source.memory_id or ids.new_id(ids.MEMORY)
        replaced = 1 if target is not None and not target.scratch else 0
        if source.memory_id is None and self.tree.memories() - replaced >= MAX_MEMORIES:
            raise StoreFull(f"the store holds its {MAX_MEMORIES} memories: delete some, or use another store")
        text = self._text(source, Base())
        mode = None if source.mode == FILE_MODE else source.mode
        attributes = FileAttributes(mode, source.mtime_ns, source.inode)
        await self._save(source, target, memory_id, [Create(memory_id, self.new_path, text, attributes)])

    def _left_empty(self) -> list[DirectoryNode]:
        """The directory that the source leaves, where that empties it."""
        return [] if self.new_parent is self.parent else self.tree.emptied(self.parent, self.source)

    def _base_of(self, memory_id: str, target: FileNode | None, head: Head, source: FileNode) -> Base:
        found = self.saving.started_from(memory_id, source.author, bytes(self.contents.of(source)))
        if found is not None:
            return found
        if target is not None and target.memory_id == memory_id:
            return target.starting_point()
        return Base.of(head)  # set aside

    def _text(self, node: FileNode, base: Base) -> bytes:
        if node.spoiled or node.size > MAX_CONTENT_BYTES:
            raise ContentTooLarge(f"{node.name} is over {MAX_CONTENT_BYTES} bytes and cannot become a memory: split it")
        text = bytes(self.contents.of(node))
        self.written.append(_Written(node, text, node.generation, base))
        return text

    async def _save(self, source: FileNode, target: FileNode | None, memory_id: str, mutations: list[Mutation]) -> None:
        """Commit, then let the source take its place as the node of ``memory_id``."""
        applied = await self._commit(mutations, emptied=self._left_empty())
        head = applied.heads[memory_id]
        assert head is not None
        self._arrive(source, target)
        self.scratch.charge(source, 0)
        self.tree.bind(source, memory_id)
        if self.written:
            source.head = head
        else:
            self.tree.stand(source, head)
        for written in self.written:
            rebased = memory_id in applied.rebased
            self.saving.committed(written.node, written.text, written.generation, written.base, rebased=rebased)

    async def _commit(self, mutations: list[Mutation], *, emptied: Sequence[DirectoryNode] = ()) -> Applied:
        """Commit, or raise ESTALE where the store is not what this rename was decided on."""
        try:
            return await self.transactions.commit(mutations, emptied=emptied)
        except (NotFound, PathConflict):
            # Changed elsewhere since: see it, and let the kernel look the names up again.
            self.transactions.distrust()
            raise os_error(errno.ESTALE) from None

    def _arrive(self, source: Node, target: Node | None) -> None:
        """Take the target out of the tree and put the source at its name."""
        if isinstance(target, FileNode):
            self.parts.remove(target)
        elif target is not None:
            target.removed_here = True
            self.tree.orphan(target)
        assert source.parent is not None
        source.parent.remove(source)
        self.new_parent.add(self.new_name, source)
        source.touch(content=False)

    # Directories and exchanges

    async def _directory(self, source: DirectoryNode) -> None:
        target = self.target
        if target is not None and not isinstance(target, DirectoryNode):
            raise os_error(errno.ENOTDIR)
        if target is not None and target.children:
            raise os_error(errno.ENOTEMPTY)
        mutations = self.asides.deletions(self.new_path) + self._moves(source, self.old_path, self.new_path)
        applied = await self._commit(mutations, emptied=self._left_empty())
        self.asides.drop(self.new_path)
        self._arrive(source, target)
        self._moved(applied.heads)

    async def _exchange(self, target: Node) -> None:
        for node in (self.source, target):
            if isinstance(node, FileNode) and node.scratch:
                # Two names, one of them no memory: nobody exchanges those but by plain renames.
                raise os_error(errno.EINVAL, "a temporary cannot be exchanged with another file: rename it")
        mutations = self._moves(self.source, self.old_path, self.new_path)
        mutations += self._moves(target, self.new_path, self.old_path)
        applied = await self._commit(mutations)
        self.parent.remove(self.source)
        self.new_parent.remove(target)
        self.new_parent.add(self.new_name, self.source)
        self.parent.add(self.old_name, target)
        for node in (self.source, target):
            node.touch(content=False)
        self._moved(applied.heads)

    def _moves(self, node: Node, old: str, new: str, *, top: bool = True) -> list[Mutation]:
        """What moves a node and all below it in the store. Raises PathTooLong where something would lie too deep."""
        check_path(new)
        if isinstance(node, FileNode):
            if node.memory_id is None or node.head is None:
                return []
            return [Update(node.memory_id, path=new, attributes=place_attributes(node))]
        assert isinstance(node, DirectoryNode)
        # The inode is kept with the directory: it cannot be derived from the new path. So are the others, which would
        # else be those of a directory that is replaced.
        self.moved_directories.append(node)
        mutations: list[Mutation] = [KeepDirectory(new, FileAttributes(node.mode, node.mtime_ns, node.inode))]
        if top:
            mutations.insert(0, MoveDirectory(old, new))
            for aside in self.asides.below(old):
                moved = new + aside.path.removeprefix(old)
                self.moved_asides[aside.head.memory_id] = aside.path, moved
                mutations.append(Update(aside.head.memory_id, path=moved))
        for child in node.children.values():
            mutations += self._moves(child, f"{old}/{child.name}", f"{new}/{child.name}", top=False)
        return mutations

    def _moved(self, heads: dict[str, Head | None]) -> None:
        """What moved stands where the store has it now."""
        for directory in self.moved_directories:
            directory.kept = True
            directory.given_mtime_ns = directory.mtime_ns
        self.asides.move(
            {old: (new, head) for memory_id, (old, new) in self.moved_asides.items() if (head := heads[memory_id])}
        )
        for memory_id, head in heads.items():
            node = self.tree.by_memory.get(memory_id)
            if node is not None and head is not None:
                self.tree.stand(node, head)
