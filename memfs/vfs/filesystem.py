"""The file operations of one mount (DESIGN.md, "A file is a memory").

Operations take inodes and handles and raise OSError (with the errno that a local disk would give) or MemfsError (where
a rule of the store is broken). Those that change names or commit take the lock, do their work in the database first
and only then in the tree, so that a failed operation has changed nothing; everything else answers from the tree.
"""

import os
from collections.abc import Callable

import trio

from memfs.model.paths import MAX_NAME_BYTES
from memfs.model.records import MAX_CONTENT_BYTES, MAX_MEMORIES
from memfs.vfs.asides import Asides
from memfs.vfs.attributes import Attributes
from memfs.vfs.bases import Bases, SameProcess
from memfs.vfs.content import Contents
from memfs.vfs.handles import Handles
from memfs.vfs.looking import Looking
from memfs.vfs.making import Making
from memfs.vfs.opening import Opening
from memfs.vfs.parts import Parts
from memfs.vfs.reading import Reading
from memfs.vfs.rename import Renaming
from memfs.vfs.retries import Retries
from memfs.vfs.saving import Saving
from memfs.vfs.scratch import MAX_SCRATCH_BYTES, ScratchAccount
from memfs.vfs.settling import Settling
from memfs.vfs.temporaries import Temporaries
from memfs.vfs.transactions import Transactions
from memfs.vfs.tree import StaleEntry, Tree
from memfs.vfs.working import MAX_WORKING_BYTES, WorkingCopies
from memfs.vfs.writing import Writing
from memfs.workspace import AttachedStore

BLOCK = 4096


class Filesystem:
    """One store's tree with its open files: makes the parts, and says which of them answers what a mount asks.

    ``holds_open(pid, inode)`` says whether a thread's process has the inode open under another descriptor; it tells a
    shell's early close (``echo x > f`` closes one of two descriptors before it writes) from a real one.
    ``same_process(pid, pid, moment)`` says whether a thread is of the process of which another one was at a moment, to
    tell which text a writer had read.
    ``refused(path, reason)`` is called where a guard of the store refuses what somebody saves. ``stale_name`` says
    whether a kernel may still believe in a name.
    """

    def __init__(
        self,
        store: AttachedStore,
        *,
        temporaries: Temporaries | None = None,
        holds_open: Callable[[int, int], bool] | None = None,
        same_process: SameProcess | None = None,
        refused: Callable[[str, str], None] | None = None,
        stale_name: Callable[[StaleEntry], bool] | None = None,
        scratch_bytes: int = MAX_SCRATCH_BYTES,
        working_bytes: int = MAX_WORKING_BYTES,
    ) -> None:
        refused = refused or (lambda _path, _reason: None)
        self.store = store
        self.tree = Tree(store.store_id)
        self.temporaries = temporaries or Temporaries()
        self.became_dirty = trio.Event()
        """Set where the timer has something new to look at. Whoever runs the timer puts a fresh one here before."""
        self.contents = Contents(store)
        self.scratch = ScratchAccount(scratch_bytes)
        self.asides = Asides(self._wake)
        handles = Handles()
        self.bases = Bases(same_process or (lambda pid, other, _moment: pid == other), handles.holds)
        self.transactions = Transactions(store, self.tree, self.asides, self.scratch)
        self.read_only = self.transactions.read_only
        self.saving = Saving(
            self.tree,
            self.transactions,
            self.contents,
            self.asides,
            self.bases,
            holds_open=holds_open or (lambda _pid, _inode: False),
            refused=refused,
            wake=self._wake,
        )
        parts = Parts(
            store=store,
            tree=self.tree,
            transactions=self.transactions,
            saving=self.saving,
            contents=self.contents,
            asides=self.asides,
            bases=self.bases,
            scratch=self.scratch,
            working=WorkingCopies(self.tree, working_bytes),
            temporaries=self.temporaries,
        )
        self.retries = Retries()
        looking = Looking(self.tree, self.retries, stale_name or (lambda _entry: False))
        settling = Settling(self.tree, looking)
        reading = Reading(parts, handles, looking)
        opening = Opening(parts, handles, looking, self.retries, settling, reading)
        writing = Writing(parts, handles, settling)
        making = Making(parts, looking, opening)

        # What a mount asks for. It need not know how the work is divided.
        self.refresh = self.transactions.refresh
        self.peek = self.transactions.peek
        self.check_writable = self.transactions.check_writable
        self.sync = self.transactions.sync

        self.node = looking.node
        self.directory = looking.directory
        self.lookup = looking.lookup
        self.remember = looking.remember
        self.forget = looking.forget
        self.is_known = looking.is_known

        self.settle = settling.settle
        self.shown = settling.shown
        self.passing = settling.passing

        self.mkdir = making.mkdir
        self.rmdir = making.rmdir
        self.create = making.create
        self.mknod = making.mknod
        self.unlink = making.unlink
        self.rename = Renaming(parts, looking, settling, refused).rename
        self.set_attributes = Attributes(parts, looking, settling, writing).set_attributes

        self.open = opening.open
        self.opendir = opening.opendir
        self.file = handles.file
        self.open_directory = handles.open_directory
        self.rewind = handles.rewind
        self.releasedir = handles.releasedir

        self.read = reading.read
        self.read_unopened = reading.read_unopened
        self.text = reading.text
        self.follow_left = reading.follow_left

        self.write = writing.write
        self.flush = writing.flush
        self.fsync = writing.fsync
        self.release = writing.release
        self.commit_aged = self.saving.commit_aged
        self.finish = self.saving.finish

    def _wake(self) -> None:
        # Not handed on as became_dirty.set: the event is replaced.
        self.became_dirty.set()

    def statfs(self) -> os.statvfs_result:
        """Blocks of what all memories may hold; files are memories and their limit."""
        used = sum(node.size for node in self.tree.by_memory.values()) + self.scratch.used
        files = self.tree.memories()
        total = MAX_MEMORIES * MAX_CONTENT_BYTES + self.scratch.limit
        free_blocks = max(0, total - used) // BLOCK
        free_files = max(0, MAX_MEMORIES - files)
        return os.statvfs_result(
            (
                BLOCK,
                BLOCK,
                total // BLOCK,
                free_blocks,
                free_blocks,
                MAX_MEMORIES,
                free_files,
                free_files,
                0,
                MAX_NAME_BYTES,
            )
        )
