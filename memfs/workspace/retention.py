"""Retention: how long old versions are kept, and removing those that are older."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from memfs.engine import Engine
from memfs.model.errors import InvalidRequest, MemfsError, NotFound
from memfs.model.records import MemoryVersion, Settings, format_time

BATCH = 2_000
"""Versions that are removed in one transaction: others' writes get their turn between two."""

QUIET_BATCH = 200
"""The same where nobody waits for it, but programs that save do wait for each transaction: some 20 ms."""

DAY = timedelta(days=1)
MAX_DAYS = 36_500


class Retention:
    """Old versions of all stores. Never touched: a live memory's head, and the newest version of a deleted one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def settings(self) -> Settings:
        """The settings of the workspace."""
        return self._engine.settings()

    def set(self, *, retention_days: int | None = None, prune_automatically: bool | None = None) -> Settings:
        """Change settings; None keeps one. Raises InvalidRequest."""
        if retention_days is not None and not 1 <= retention_days <= MAX_DAYS:
            raise InvalidRequest(f"versions are kept for 1 to {MAX_DAYS} days, not {retention_days}")

        def change(before: Settings) -> Settings:
            return replace(
                before,
                retention_days=before.retention_days if retention_days is None else retention_days,
                prune_automatically=before.prune_automatically if prune_automatically is None else prune_automatically,
            )

        return self._engine.update_settings(change)

    def cutoff(self, age: timedelta | None = None) -> str:
        """The time before which versions are older than ``age``, by default the workspace's setting."""
        if age is None:
            age = timedelta(days=self._engine.settings().retention_days)
        return format_time(datetime.now(UTC) - age)

    def prunable(self, store_id: str, before: str) -> Iterator[MemoryVersion]:
        """The versions that ``prune`` would remove, oldest first, without content. Raises NotFound."""
        after = 0
        while True:
            page = self._engine.prunable(store_id, before, after=after, limit=BATCH)
            yield from page
            if len(page) < BATCH:
                return
            after = page[-1].sequence

    def prune(self, store_id: str, before: str, *, progress: Callable[[int], None] | None = None) -> int:
        """Remove a store's old versions and the texts that only they had; returns how many.

        ``progress`` is called with each number removed. Their space in the file is free for new versions;
        ``Workspace.scrub`` gives it back to the disk. Raises NotFound.
        """
        total = 0
        while True:
            removed = self._engine.prune(store_id, before, limit=BATCH)
            total += removed
            if progress is not None:
                progress(removed)
            if removed < BATCH:
                return total

    def prune_if_due(self, stop: threading.Event | None = None) -> int:
        """Where the workspace's setting asks for it, prune all stores, at most once a day; returns how many went.

        It takes its time: half of it is left to others' writes. ``stop`` ends it early; what is left then, or when it
        fails, is for whoever asks next.
        """
        stop = stop or threading.Event()
        settings = self._engine.settings()
        moment = datetime.now(UTC)
        if not settings.prune_automatically or not self._engine.claim_pruning(
            format_time(moment - DAY), format_time(moment)
        ):
            return 0
        before = self.cutoff(timedelta(days=settings.retention_days))
        total = 0
        done = False
        try:
            for store in self._engine.stores(include_archived=True):
                with suppress(NotFound):  # deleted meanwhile
                    total += self._prune_quietly(store.id, before, stop)
            done = not stop.is_set()
        finally:
            if not done:
                with suppress(MemfsError):
                    self._engine.claim_pruning(format_time(moment + DAY), format_time(moment - 2 * DAY))
        return total

    def _prune_quietly(self, store_id: str, before: str, stop: threading.Event) -> int:
        total, removed = 0, QUIET_BATCH
        while removed == QUIET_BATCH and not stop.is_set():
            begun = time.monotonic()
            removed = self._engine.prune(store_id, before, limit=QUIET_BATCH)
            total += removed
            stop.wait(time.monotonic() - begun)
        return total
