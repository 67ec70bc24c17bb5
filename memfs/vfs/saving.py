"""When and how the text of a file becomes its next version (DESIGN.md 1, 2): at close, fsync and release, by the timer,
and at the end.
"""

import errno
import logging
import math
from collections.abc import Callable
from hashlib import sha256

import trio

from memfs.model.errors import (
    Busy,
    ContentNotText,
    ContentTooLarge,
    MemfsError,
    MemoryChanged,
    NotFound,
    PathConflict,
    StoreArchived,
    WriteRefused,
)
from memfs.model.mutations import Create, Delete, Edit, Mutation, Update
from memfs.model.records import MAX_CONTENT_BYTES, Head
from memfs.vfs.asides import Aside, Asides
from memfs.vfs.bases import Base, Bases
from memfs.vfs.content import Contents
from memfs.vfs.errors import os_error
from memfs.vfs.handles import FileHandle
from memfs.vfs.nodes import DirectoryNode, FileNode, kept_mode
from memfs.vfs.transactions import Transactions
from memfs.vfs.tree import Tree, file_attributes
from memfs.vfs.unsaved import Unsaved

log = logging.getLogger(__name__)

UNFIT = (ContentNotText, ContentTooLarge, MemoryChanged, StoreArchived, WriteRefused)
"""What makes a text one that is never committed, however often it is tried."""

DIRTY_SECONDS = 5.0
"""A buffer that has been dirty for this long is committed though nobody closed it."""

COMMIT_TRIES = 20
"""How often a commit follows what others make of its path (deleted, made anew, deleted) before close() says EAGAIN."""


class Saving:
    """Knows which files are dirty, and commits them."""

    def __init__(
        self,
        tree: Tree,
        transactions: Transactions,
        contents: Contents,
        asides: Asides,
        bases: Bases,
        *,
        holds_open: Callable[[int, int], bool],
        refused: Callable[[str, str], None],
        wake: Callable[[], None],
    ) -> None:
        """``holds_open`` and ``refused`` are those of Filesystem; ``wake`` is called where a file became dirty."""
        self._tree = tree
        self._transactions = transactions
        self._contents = contents
        self._asides = asides
        self._bases = bases
        self._holds_open = holds_open
        self._refused = refused
        self._wake = wake
        self._dirty: set[FileNode] = set()
        self._unsaved = Unsaved()

    # What is dirty

    def changed(self, node: FileNode) -> None:
        """The buffer of a file changed just now."""
        node.touch(content=True)
        if node.memory_id is None:
            node.generation += 1  # scratch and orphans are never committed
        else:
            self.note_dirty(node)

    def note_dirty(self, node: FileNode) -> None:
        """The buffer must be committed; its times are the caller's business."""
        node.changed(trio.current_time())
        self._dirty.add(node)
        self._wake()

    def forget(self, node: FileNode) -> None:
        """What the buffer holds is committed, or need not be."""
        node.clean()
        self._settle(node)

    def _settle(self, node: FileNode) -> None:
        self._dirty.discard(node)
        self._unsaved.settled(node.inode)

    def discard(self, node: FileNode) -> None:
        """Give up a buffer: the file is what its head says, or gone where it never had one."""
        self.forget(node)
        node.generation += 1
        if node.head is not None:
            node.drop_buffer()
            node.take_head(node.head)
            node.told = node.head
            node.touch(content=False)
            self._tree.stale_inode(node)
        elif node.parent is not None:
            self._tree.stale_entry(node.parent, node.name)
            self._tree.orphan(node)

    # When handles ask for it

    async def flush(self, handle: FileHandle) -> None:
        """A descriptor was closed: commit. Raises what makes the text unfit, so that close() reports it."""
        node = handle.node
        if handle.writable:
            self._check_displaced(node)
        if not node.dirty or not handle.writable:
            return  # a reader's close does not cut a version out of what a writer is about to finish
        if not node.written and self._holds_open(handle.pid, node.inode):
            # Emptied by O_CREAT or O_TRUNC, and the one who did it is about to write through another descriptor:
            # the empty text is no version of its own.
            return
        try:
            await self._commit_for_caller(node)
        except UNFIT:
            # Should the timer come before the release, and find that a guard has been lifted: close() has said that
            # this is not saved.
            node.dirty_since = trio.current_time()
            raise

    @staticmethod
    def _finishes(handle: FileHandle) -> bool:
        """Whether an open file that goes is the one whose text it is, or at least nobody else's is in the making.

        The kernel tells of the last close of a file after close() has returned, when the next writer may have begun.
        """
        return handle.unsaved or (handle.writable and not any(other.unsaved for other in handle.node.writing))

    async def fsync(self, handle: FileHandle) -> None:
        """Commit, and return once it survives a loss of power."""
        node = handle.node
        self._check_displaced(node)
        if node.dirty:
            await self._commit_for_caller(node)
        if not node.scratch:
            await self._transactions.sync()

    async def _commit_for_caller(self, node: FileNode) -> None:
        try:
            await self.commit(node)
        except WriteRefused as error:
            # An errno cannot say what a guard found.
            self._refused(node.path(), str(error))
            raise

    async def release(self, handle: FileHandle) -> None:
        """The last reference to an open file goes. What was refused at close is dropped now, never committed."""
        node = handle.node
        try:
            if node.dirty and self._finishes(handle):  # written through a mapping, perhaps, after the last close
                await self.commit(node)
        except UNFIT as error:
            if len(node.writing) == 1:
                log.warning("dropped %s: %s", node.name, error)
                self.discard(node)
        except (MemfsError, OSError) as error:
            if node.displaced:  # which its close has told
                log.warning("dropped %s: %s", node.name, error)
                self.forget(node)
                return
            # The buffer is kept; the timer tries again.
            self._unsaved.failed(node.inode, node.path(), str(error))

    def give_up(self, handle: FileHandle, reason: MemfsError) -> None:
        """The last reference to an open file goes whose close has said that the text is lost: it is not tried again,
        whatever the store has come to allow since.
        """
        node = handle.node
        if node.dirty and len(node.writing) == 1:
            log.warning("dropped %s: %s", node.name, reason)
            self.discard(node)

    @staticmethod
    def _check_displaced(node: FileNode) -> None:
        if node.displaced:
            raise os_error(
                errno.ESTALE, f"{node.name} was not saved: somebody else's memory or directory took its name"
            )

    # Commits

    async def commit(self, node: FileNode) -> None:
        """Make the buffer of a file a version, unless it is the head's text already.

        Raises ContentNotText, ContentTooLarge (a write was refused midway), and what the workspace raises; the
        buffer is then still there.
        """
        began = trio.current_time()
        if node.dirty and node.memory_id is not None and not node.spoiled:
            await self._transactions.look_ahead(bytes(node.buffer or b""))
        async with self._transactions.changing():
            self._transactions.check_patience(began)
            if not node.dirty or node.memory_id is None or not node.attached:
                self._settle(node)
                self._check_displaced(node)
                return
            if node.spoiled:
                raise ContentTooLarge(f"a write over {MAX_CONTENT_BYTES} bytes was refused: nothing was saved")
            generation = node.generation
            text = bytes(node.buffer or b"")
            base = self.made_from(node, text)
            head, rebased = await self._commit_text(node, text, self.edit(node, base))
            # Before anybody else's change can take the file's place: a kernel that has the buffer in its pages keeps
            # them, for they are what this version holds.
            known = node.served == node.content_key()
            node.head = head
            if known:
                node.served = node.content_key()
            self.committed(node, text, generation, base, rebased=rebased)

    @staticmethod
    def appended(node: FileNode) -> int:
        """How many bytes at the end of the buffer were appended since the last commit."""
        return 0 if node.appended_from is None else node.size - node.appended_from

    def edit(self, node: FileNode, base: Base) -> Edit:
        """What the engine must know of a dirty file's text, which was made from ``base``."""
        begun = node.begun
        # A guard may have masked what the buffer still holds, and another commit may have moved the base on.
        if begun is not None and (node.whole_by is not None or sha256(begun).hexdigest() != base.sha256):
            begun = None
        return base.edit(self.appended(node), begun)

    def made_from(self, node: FileNode, text: bytes) -> Base:
        """What a dirty file's text was made from."""
        if node.whole_by is None or node.memory_id is None:
            return node.starting_point()
        return self.started_from(node.memory_id, node.whole_by, text) or node.starting_point()

    def outdated(self, node: FileNode) -> bool:
        """Whether a file's text lacks what somebody else has saved since it was begun."""
        if not node.dirty or node.head is None:
            return False
        return self.made_from(node, bytes(node.buffer or b"")).sha256 != node.head.sha256

    def started_from(self, memory_id: str, pid: int, text: bytes) -> Base | None:
        """What a whole text was made from that a process wrote (see ``Bases``)."""
        return self._bases.started_from(memory_id, pid, text, self._contents.of_base)

    def committed(self, node: FileNode, text: bytes, generation: int, base: Base, *, rebased: bool = False) -> None:
        """The text that the buffer held at ``generation``, made from ``base``, is the head's now, unless a guard masked
        some of it, or it is ``rebased``: merged with what others have saved since. What came after it is still to
        commit.
        """
        assert node.head is not None
        digest = sha256(text).hexdigest()
        masked = node.head.sha256 != digest and not rebased
        if node.head.sha256 == digest:
            self._contents.keep(node, text)
        for handle in node.writing:
            if handle.base is node.base or handle.base.version_id is None:
                handle.base = base
        # Those who hold what was merged go on in that, by its places; who opens the file now has the head's text.
        self._bases.advance(base, node.head, text if rebased else None, digest if rebased else node.head.sha256)
        node.base = base
        node.told = node.head
        for handle in node.writing:
            if handle.changed_at <= generation:
                handle.unsaved = False
        if node.generation != generation:
            node.begun = text
            if not node.dirty:
                self.note_dirty(node)  # written as scratch, which is never dirty
            if node.whole_by is None or node.whole_since <= generation:
                node.whole_by = None
                cut = node.appended_from is None or node.size < len(text)
                node.appended_from = None if cut else len(text)
            # Else somebody has begun to write it anew while this was under way, from what that one had read before.
            return
        self.forget(node)
        if node.mode != kept_mode(node.head):
            node.mode = kept_mode(node.head)  # changed elsewhere just before the transaction
            self._tree.stale_inode(node)
        if rebased:
            self._show_head(node)
        elif masked:
            node.masked = True
            self.show_masked(node)
        elif node.handles == 0:
            node.buffer = None

    def show_masked(self, node: FileNode) -> None:
        """Let what a guard made of a text be what is read from now on, unless somebody still writes at it.

        A writer goes on where it is, by the text that it wrote: put in its place meanwhile, a masked one of another
        length would be written into in the middle of a word, or past its end.
        """
        if node.masked and not node.writing:
            node.masked = False
            self._show_head(node)

    def _show_head(self, node: FileNode) -> None:
        node.drop_buffer()
        node.told = node.head
        node.generation += 1
        node.served = None  # whatever a kernel has is out of date
        node.touch(content=False)
        self._tree.stale_inode(node)

    async def _commit_text(self, node: FileNode, text: bytes, edit: Edit) -> tuple[Head, bool]:
        """Commit a file's text onto its memory, whatever became of that meanwhile: the later text is not lost. Returns
        the head, and whether its text was merged.
        """
        for _ in range(COMMIT_TRIES):
            memory_id = node.memory_id
            assert memory_id is not None
            attributes = file_attributes(node)
            mutation: Mutation
            if node.head is None:
                mutation = Create(memory_id, node.path(), text, attributes)
            else:
                mutation = Update(memory_id, content=text, attributes=attributes, edit=edit)
            try:
                applied = await self._transactions.commit([mutation])
            except NotFound:
                if node.head is None:
                    raise  # the store itself is gone
                node.head = None
                self._tree.renew_memory(node)
            except PathConflict as conflict:
                # Made elsewhere at the same moment. The tree makes our file stand for that memory, and our text is
                # its next version; unless what was made lies above or below, and there is no place for ours.
                self._transactions.follow()
                self._check_displaced(node)
                if node.head is None and conflict.conflicting_path != node.path():
                    raise
            else:
                head = applied.heads[memory_id]
                assert head is not None
                return head, memory_id in applied.rebased
        raise os_error(errno.EAGAIN, "the file keeps changing elsewhere")

    # Time and the end

    async def commit_aged(self, now: float) -> float | None:
        """Commit what has been dirty for too long at ``now`` (trio.current_time()); returns when to look again."""
        await self._settle_asides(now)
        next_look = self._asides.next_deadline()
        for node in list(self._dirty):
            due = node.dirty_since + DIRTY_SECONDS
            if due <= now:
                try:
                    await self.commit(node)
                except UNFIT:
                    node.dirty_since = now  # half a text, perhaps: its close will tell
                    due = now + DIRTY_SECONDS
                except NotFound as error:
                    # The store is deleted: no later try will find it, and each close tells.
                    log.error("cannot commit %s any more: %s", node.name, error)
                    node.dirty_since = math.inf
                    continue
                except (MemfsError, OSError) as error:
                    self._unsaved.failed(node.inode, node.path(), str(error))
                    node.dirty_since = now
                    due = now + DIRTY_SECONDS
                    if isinstance(error, Busy):
                        # The others would wait as long, one after the other, and everybody's closes behind them.
                        return due
                except Exception:
                    # No request is there to be told, and the mount must outlive what went wrong with one file.
                    log.exception("could not commit %s yet", node.name)
                    node.dirty_since = now
                    due = now + DIRTY_SECONDS
                else:
                    continue
            next_look = due if next_look is None else min(next_look, due)
        return next_look

    async def finish(self) -> None:
        """Commit everything that can be; called once, after the last request."""
        await self._settle_asides(float("inf"))
        for node in list(self._dirty):
            try:
                try:
                    await self.commit(node)
                except Busy:
                    await self.commit(node)  # there is more time than one wait takes, or this says so at once
            except (MemfsError, OSError) as error:
                log.error("lost at unmount: the unsaved text of %s: %s", node.path(), error)
            except Exception:
                log.exception("lost at unmount: the unsaved text of %s", node.path())  # and go on with the others

    async def _settle_asides(self, now: float) -> None:
        """Delete memories that were set aside and whose name nobody made again."""
        for aside in self._asides.due(now):
            try:
                async with self._transactions.naming():
                    await self._delete_aside(aside)
            except MemfsError as error:
                log.error("could not delete %s yet: %s", aside.path, error)
            except Exception:
                # No request is there to be told, and the mount must outlive what went wrong with one memory.
                log.exception("could not delete %s yet", aside.path)

    async def _delete_aside(self, aside: Aside) -> None:
        if self._asides.at(aside.path) != aside:
            return
        head = aside.head
        parent = self._tree.find(aside.path.rpartition("/")[0] or "/")
        emptied = self._tree.emptied(parent) if isinstance(parent, DirectoryNode) else []
        try:
            await self._transactions.commit([Delete(head.memory_id, expected_version=head.version_id)], emptied=emptied)
        except NotFound:
            self._transactions.distrust()
        self._asides.take(aside.path)
