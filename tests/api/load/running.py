"""The whole load: a server, mounts of the same store, and everybody who works with them."""

import random
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

from memfs.engine.readers import MAX_READERS
from memfs.model import ids
from memfs.model.mutations import Create
from memfs.workspace import Workspace
from tests.api.harness import serving
from tests.api.load import checks
from tests.api.load.clients import JOURNAL, READS, WRITES, Clients, run_clients
from tests.api.load.commands import Commands, mounted
from tests.api.load.files import Files, run_files
from tests.api.load.notes import Notes, text_of
from tests.api.load.streams import Stream
from tests.api.load.usage import cpu_seconds, descriptors, rss_mib

STORES = ("Busy notes", "Quiet notes")
"""The first is mounted, and gets two of three requests."""

KEYS = 8
PRELOADED = 800
"""Memories that each store has before anybody comes."""

LIMIT = 240.0
"""Seconds that anything may take beyond its time."""

SETTLE_SECONDS = 20.0

START_SECONDS = 0.2
"""After which the load begins, once everybody waits for it."""

MAX_RSS_MIB = 400.0
"""Far above what a server needs; whatever leaks with each request comes there."""

KEPT_DESCRIPTORS = 1 + 2 * (MAX_READERS - 1)
"""The server lets go of its feed at the first change after its last follower has gone, which may be to come."""

READERS = 4
READER_PAUSE = 0.01
"""Readers beside a held lock rest in between, so that what is measured is not their waiting for each other."""

WRITERS = 8


@dataclass(frozen=True)
class Plan:
    """How much load. Times are seconds; 0 leaves out what they are of."""

    clients: int = 32
    processes: int = 4
    seconds: float = 60.0
    mounts: int = 2
    per_mount: int = 2
    files_per_second: float = 25.0
    """Of each process on a mount."""
    streams: int = 1
    """Followers of each store."""
    redact_every: float = 0.0
    hold: float = 5.0
    seed: int = 0


@dataclass
class Found:
    """What came of it. Memory is MiB; of three figures the first is before the load, the second the most, the last
    that at the end."""

    load: Notes = field(default_factory=Notes)
    seconds: float = 0.0
    """How long the load went on."""
    cpu_seconds: float = 0.0
    """What of that the server worked."""
    reconnections: int = 0
    """How often a stream was taken up again."""
    rss_mib: tuple[float, float, float] = (0.0, 0.0, 0.0)
    descriptors: tuple[int, int, int] = (0, 0, 0)
    alone: Notes = field(default_factory=Notes)
    """Readers before another process held the writer lock."""
    held: Notes = field(default_factory=Notes)
    """The same readers meanwhile."""
    waiting: Notes = field(default_factory=Notes)
    """Writers meanwhile."""
    wrong: list[str] = field(default_factory=list)
    """Whatever should not be."""

    @property
    def notes(self) -> Notes:
        """All that was noted."""
        together = Notes()
        for notes in (self.load, self.alone, self.held, self.waiting):
            together.add(notes)
        return together


@contextmanager
def writer_lock(database: Path) -> Iterator[None]:
    """Let nobody else write."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=LIMIT)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


class Load:
    """A database with its stores and keys, a server, and mounts; they go with ``stack``."""

    def __init__(self, directory: Path, plan: Plan, stack: ExitStack) -> None:
        self.plan = plan
        self.database = directory / "db" / "memfs.db"
        with Workspace.open(self.database, create=True) as workspace:
            self.stores = tuple(workspace.stores.create(name).id for name in STORES)
            self.keys = [workspace.keys.create(f"load {number}") for number in range(KEYS)]
            chance = random.Random(plan.seed)
            for store in self.stores:
                texts = {f"/notes/{n:04}.md": text_of("preloader", n, chance) for n in range(PRELOADED)} | {JOURNAL: ""}
                creates = [Create(ids.new_id(ids.MEMORY), path, text.encode()) for path, text in texts.items()]
                workspace.memories.apply(store, creates, checks.PRELOADER)
        self.server = stack.enter_context(serving(self.database, key=self.keys[0][1]))
        self.mounts = [
            stack.enter_context(mounted(self.database, directory / "root" / str(number), self.stores[0]))
            for number in range(plan.mounts)
        ]
        self.found = Found()
        self.pool_size = max(plan.processes + plan.mounts * plan.per_mount, 3)

    def run(self) -> Found:
        """Do it all, and look back while all is up."""
        pid = self.server.process.pid
        streams = [
            Stream(self.server.url, store, self.server.key) for store in self.stores for _ in range(self.plan.streams)
        ]
        rss, open_before = rss_mib(pid), descriptors(pid)
        for stream in streams:
            stream.start()
        for stream in streams:  # what was there before is no part of the load
            stream.reach(checks.version_ids(self.database, stream.store)[1], SETTLE_SECONDS)
        context = get_context("spawn")
        together = context.Barrier(self.pool_size)
        with ProcessPoolExecutor(self.pool_size, context, initializer=together.wait, initargs=(LIMIT,)) as pool:
            for up in [pool.submit(int) for _ in range(self.pool_size)]:  # the load begins when all have started
                up.result(LIMIT)
            most_rss, most_open = self._work(pool, pid)
            if self.plan.hold:
                self._hold(pool)
        for stream in streams:
            self._finish(stream)
        self._look_back()
        open_after = self._settled(pid, open_before + KEPT_DESCRIPTORS)
        self.found.rss_mib = rss, most_rss, rss_mib(pid)
        self.found.descriptors = open_before, most_open, open_after
        if open_after > open_before + KEPT_DESCRIPTORS:
            self.found.wrong.append(f"the server had {open_before} descriptors open, and has {open_after}")
        if most_rss > MAX_RSS_MIB:
            self.found.wrong.append(f"the server used {most_rss:.0f} MiB")
        return self.found

    def _clients(
        self, names: list[str], processes: int, mix: dict[str, int], begin: float, seconds: float
    ) -> list[Clients]:
        """Clients, dealt out to processes; each key is of several."""
        keys = [(key.id, secret) for (key, secret), _ in zip(self.keys * len(names), names, strict=False)]
        step = min(processes, len(names))
        return [
            Clients(
                url=self.server.url,
                stores=self.stores,
                names=tuple(names[at::step]),
                keys=tuple(keys[at::step]),
                mix=mix,
                begin=begin,
                end=begin + seconds,
                seed=self.plan.seed,
            )
            for at in range(step)
        ]

    def _work(self, pool: Executor, pid: int) -> tuple[float, int]:
        """The load itself; returns the most memory and descriptors that the server had."""
        begin = time.monotonic() + START_SECONDS
        names = [f"c{number}" for number in range(self.plan.clients)]
        first, *others = self._clients(names, self.plan.processes, READS | WRITES, begin, self.plan.seconds)
        plans = [replace(first, redact_seconds=self.plan.redact_every), *others]
        tasks: list[Future[Notes]] = [pool.submit(run_clients, plan) for plan in plans]
        tasks += [pool.submit(run_files, files) for files in self._files(begin)]
        commands = Commands(self.database, self.stores[0])
        commands.start()
        time.sleep(max(0.0, begin - time.monotonic()))
        cpu_before, most_rss, most_open = cpu_seconds(pid), 0.0, 0
        while not all(task.done() for task in tasks) and time.monotonic() < begin + self.plan.seconds + LIMIT:
            time.sleep(0.25)
            most_rss, most_open = max(most_rss, rss_mib(pid)), max(most_open, descriptors(pid))
        self.found.seconds, self.found.cpu_seconds = time.monotonic() - begin, cpu_seconds(pid) - cpu_before
        for task in tasks:
            self.found.load.add(task.result(0))
        self.found.load.add(commands.finish())
        return most_rss, most_open

    def _files(self, begin: float) -> list[Files]:
        return [
            Files(
                directory=str(mount.directory),
                session_id=mount.session_id,
                name=f"m{at}w{number}",
                per_second=self.plan.files_per_second,
                begin=begin,
                end=begin + self.plan.seconds,
                seed=self.plan.seed,
            )
            for at, mount in enumerate(self.mounts)
            for number in range(self.plan.per_mount)
        ]

    def _hold(self, pool: Executor) -> None:
        """Readers alone, then again while another process holds the writer lock, and writers wait for it."""
        self.found.alone = self._read(pool, "a")
        with writer_lock(self.database):
            names = [f"w{number}" for number in range(WRITERS)]
            (plan,) = self._clients(names, 1, {"update": 1}, time.monotonic(), LIMIT)
            writing = pool.submit(run_clients, replace(plan, most=1))
            self.found.held = self._read(pool, "h")
        self.found.waiting = writing.result(LIMIT)

    def _read(self, pool: Executor, name: str) -> Notes:
        names = [f"{name}{number}" for number in range(READERS)]
        notes = Notes()
        plans = self._clients(names, 2, READS, time.monotonic(), self.plan.hold)
        for task in [pool.submit(run_clients, replace(plan, pause=READER_PAUSE)) for plan in plans]:
            notes.add(task.result(self.plan.hold + LIMIT))
        return notes

    def _finish(self, stream: Stream) -> None:
        expected, sequence = checks.version_ids(self.database, stream.store)
        stream.finish(sequence, SETTLE_SECONDS)
        self.found.reconnections += stream.connections - 1
        self.found.wrong += stream.wrong
        if stream.version_ids != expected:
            self.found.wrong.append(f"{stream.name} has not told of each version once and in order")

    def _look_back(self) -> None:
        notes = self.found.notes
        self.found.wrong += notes.wrong
        self.found.wrong += chain(
            checks.check_mounts(self.server, self.stores[0], [mount.directory for mount in self.mounts]),
            checks.check_database(self.database),
            checks.check_versions(self.database, notes),
            checks.check_texts(self.database, self.stores, notes),
            checks.check_log(self.server.log),
        )
        for mount in self.mounts:
            self.found.wrong += checks.check_log(mount.log)

    @staticmethod
    def _settled(pid: int, wanted: int) -> int:
        """Descriptors, once those of connections that are gone are closed."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (found := descriptors(pid)) > wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        return found
