"""The transactions of one mount: a tree that stands where the store does, and the locks under which both change."""

import errno
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, TypeVarTuple

import trio

from memfs.model.errors import Busy, ReadOnly, StoreArchived, StoreFull
from memfs.model.mutations import Applied, KeepDirectory, Mutation
from memfs.vfs.asides import Asides
from memfs.vfs.errors import os_error
from memfs.vfs.nodes import DirectoryNode
from memfs.vfs.scratch import ScratchAccount
from memfs.vfs.tree import Tree
from memfs.workspace import AttachedStore

ENOUGH_SECONDS = 7.5
"""How long a commit must have waited to give up with the one before it; half of what one waits for a lock."""

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


async def in_thread(function: Callable[[*Ts], R], *arguments: *Ts) -> R:
    """Run what may wait in a thread. Raises EAGAIN where the system lets this process have no other thread."""
    try:
        return await trio.to_thread.run_sync(function, *arguments)
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        raise os_error(
            errno.EAGAIN, "no thread could be started: this user has too many processes (ulimit -u), or no memory"
        ) from error


class Transactions:
    """Follows the store's change feed, and commits to it.

    Names are changed under two locks, taken in this order: the one of names and the one of transactions. A file is made
    under the first alone, a text is committed under the second alone.
    """

    def __init__(self, store: AttachedStore, tree: Tree, asides: Asides, scratch: ScratchAccount) -> None:
        """Fills the tree from the store."""
        self.read_only = store.access == "read_only"
        self._store = store
        self._tree = tree
        self._asides = asides
        self._scratch = scratch
        self._names = trio.Lock()
        self._lock = trio.Lock()
        self._busy_at = -math.inf
        """When a commit last gave up waiting for another process."""
        self._data_version = store.data_version()
        tree.load(store.snapshot())

    # Following

    async def refresh(self) -> None:
        """See every commit that was complete when this was called, by whomever (close-to-open)."""
        if self._store.data_version() != self._data_version:
            async with self.changing():
                pass

    def peek(self) -> None:
        """Like refresh, but without waiting: while one of our own commits is under way, the tree is left as it is."""
        if not self._lock.locked():
            self._catch_up()

    def distrust(self) -> None:
        """Look at the store's changes again at the next chance, though nothing new was committed."""
        self._data_version = -1

    def follow(self) -> None:
        """Take over what changed in the store, with the lock of transactions held."""
        # The number is read first: a commit between the two is then seen as new again, never missed.
        data_version = self._store.data_version()
        changes = self._store.changes(self._tree.sequence)
        self._data_version = data_version  # only now: a store that is gone is to be found gone each time
        self._asides.follow(changes)
        self._tree.follow(changes)
        self._scratch.settle_all()

    def _catch_up(self) -> None:
        if self._store.data_version() != self._data_version:
            self.follow()

    # Locks

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Hold the lock, with the tree as the store is now: what is decided in it holds until it ends.

        What was committed in it is seen as known when it ends. Otherwise the next open would find something new and
        wait for the lock, perhaps behind a commit that waits for another process.
        """
        async with self._lock:
            self._catch_up()
            try:
                yield
            finally:
                self._catch_up()

    @asynccontextmanager
    async def naming(self) -> AsyncIterator[None]:
        """Change names."""
        async with self._names, self.changing():
            yield

    @asynccontextmanager
    async def making(self) -> AsyncIterator[None]:
        """Make a file, which needs no transaction yet.

        If it waited behind a commit that waits for another process, the kernel would keep everybody out of the
        directory.
        """
        async with self._names:
            await self.refresh()
            yield

    # Committing

    def check_writable(self) -> None:
        """Raises ReadOnly, StoreArchived."""
        if self.read_only:
            raise ReadOnly("this store is attached read_only: attach it read_write to change it")
        if self._tree.archived:
            raise StoreArchived("this store is archived: it can only be read")

    def check_patience(self, began: float) -> None:
        """Raises Busy where who ``began`` to wait for the lock then has waited behind one who gave up, for so long that
        it can give up too: of twenty closes that wait for another process, the last would else wait twenty times.
        """
        if self._busy_at >= began and trio.current_time() - began >= ENOUGH_SECONDS:
            raise Busy("others that save here have waited for another process in vain; try again")

    async def look_ahead(self, content: bytes) -> None:
        """Without any lock, let guards search a text that is about to be committed.

        A search can take a second. If it began under the lock, every open would wait for it as soon as another mount
        has committed something.
        """
        if not self.read_only and self._store.searches():
            await in_thread(self._store.look_ahead, content)

    async def commit(self, mutations: Sequence[Mutation], *, emptied: Sequence[DirectoryNode] = ()) -> Applied:
        """Apply mutations in a thread, with the lock held; the tree then stands after them. Empty lists do nothing.

        ``emptied`` are directories that this leaves empty (``Tree.emptied``): they are kept in the same transaction,
        but only where the store has room for another one (DESIGN.md 11). A full store must not refuse a removal; the
        directory is then one that only this mount knows. Raises what the workspace raises.
        """
        keeping = [KeepDirectory(node.path(), self._tree.directory_attributes(node)) for node in emptied]
        try:
            applied = await self._apply([*mutations, *keeping])
        except StoreFull:
            if not keeping:
                raise
            return await self._apply(mutations)
        for node in emptied:
            node.kept = True
        return applied

    async def _apply(self, mutations: Sequence[Mutation]) -> Applied:
        if not mutations:
            return Applied(self._tree.sequence, self._tree.sequence, {})
        try:
            applied = await in_thread(self._store.commit, mutations)
        except Busy:
            self._busy_at = trio.current_time()
            raise
        if applied.previous == self._tree.sequence:
            self._tree.sequence = applied.sequence
        else:
            # Others committed in between; their changes and ours come with the next refresh, ours as no change.
            self.distrust()
        return applied

    async def sync(self) -> None:
        """Return once every commit so far survives a loss of power."""
        if not self.read_only:
            await in_thread(self._store.sync)
