"""Telling every open stream that the database may have changed, by whatever process."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from memfs.api.calls import Threads
from memfs.model.errors import MemfsError
from memfs.workspace import Feed, Looks, Workspace

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""How often to look where the system cannot say when something was written."""


class Bell:
    """Rings at each change of the database, as long as somebody listens, and once for all when the server stops."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._rung = anyio.Event()
        self._wanted = anyio.Event()
        self._listeners: Counter[str] = Counter()
        self.stopping = False

    @contextmanager
    def listening(self, key_id: str) -> Iterator[None]:
        """Listen, for a key. Take ``next_ring`` before looking: what comes during the look then rings it."""
        self._listeners[key_id] += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._listeners[key_id] -= 1
            if not self._listeners[key_id]:
                del self._listeners[key_id]

    @property
    def listeners(self) -> int:
        """How many listen."""
        return self._listeners.total()

    def listeners_of(self, key_id: str) -> int:
        """How many listen for a key."""
        return self._listeners[key_id]

    def next_ring(self) -> anyio.Event:
        """Set at the next change."""
        return self._rung

    def stop(self) -> None:
        """Let every stream end."""
        self.stopping = True
        self._ring()

    def _ring(self) -> None:
        self._rung, rung = anyio.Event(), self._rung
        rung.set()

    async def run(self) -> None:
        """Follow the database for whoever listens. Ends when it is cancelled."""
        while True:
            await self._wanted.wait()
            try:
                with self._threads.workspace.engine.feed() as feed:
                    await self._follow(feed)
            except MemfsError as error:
                log.warning("changes are looked for once a second, because: %s", error)
                await self._poll()
            self._wanted = anyio.Event()

    async def _follow(self, feed: Feed) -> None:
        looks = Looks(anyio.current_time())
        known: int | None = None
        while self.listeners:
            written = False
            with anyio.move_on_after(looks.wait(anyio.current_time())):
                await anyio.wait_readable(feed.fileno())
                written = True
            if written and feed.clear():
                looks.woken(anyio.current_time())
            if looks.due(anyio.current_time()):
                known = await self._look(known)

    async def _poll(self) -> None:
        known: int | None = None
        while self.listeners:
            known = await self._look(known)
            await anyio.sleep(POLL_SECONDS)

    async def _look(self, known: int | None) -> int | None:
        """Ring where the database is another than at the last look."""
        try:
            found = await self._threads.read(_data_version)
        except MemfsError as error:
            log.warning("the database could not be looked at for changes: %s", error)
            return known
        if found != known:
            self._ring()
        return found


def _data_version(workspace: Workspace) -> int:
    return workspace.engine.data_version()
