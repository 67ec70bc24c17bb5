"""Eight mounts, an API server and a shell at work for hours, in rounds; between them it is quiet, and measured."""

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from memfs.mount.processes import mounted_below
from memfs.mount.runtime import RootState
from memfs.workspace import Workspace
from tests.api.harness import Server, serving
from tests.endurance.hands import Hands, Round, hands
from tests.endurance.measuring import Process, Usage, busy, files_below, grown, size, use
from tests.endurance.others import Client, Other, Reader, Shell
from tests.mount.together.mounts import STORE, SharedSite, sessions
from tests.soundness import assert_sound

MOUNTS = 8
"""The last of them is read_only."""

SETTLE_SECONDS = 90.0
"""How long threads and connections that have nothing to do may stay: they wait for ten seconds and more."""

IDLE_SECONDS = 12.0
"""After ten without work, trio ends a thread."""

WAL_BYTES = 8 << 20
"""SQLite writes the WAL back when it has 4 MiB; a transaction that comes meanwhile makes it larger."""


@dataclass(frozen=True)
class Plan:
    """How much. Times are seconds."""

    seconds: float
    """Of everything: no round begins later. Two rounds are done in any case."""
    round_seconds: float
    """Of work, in each round."""
    per_mount: int = 2
    """Processes."""
    per_second: float = 3.0
    """Operations of each process, at most."""
    clients: int = 3
    client_pause: float = 0.2
    shell_pause: float = 1.0


@dataclass
class Found:
    """What came of it so far."""

    operations: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    usage: list[Usage] = field(default_factory=list)
    """Before the first round, then after each."""
    wrong: list[str] = field(default_factory=list)

    def add(self, done: Round) -> None:
        """What one process did in a round."""
        self.operations.update(done.operations)
        self.refused.update(done.refused)
        self.wrong += done.wrong


@contextmanager
def temporary_files_in(directory: Path) -> Iterator[None]:
    """Let us and whatever is started meanwhile make temporary files there."""
    directory.mkdir()
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(directory)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


class Endurance:
    """The whole load; what it starts goes with ``stack``."""

    def __init__(self, directory: Path, plan: Plan, stack: ExitStack) -> None:
        self.plan = plan
        self.found = Found()
        self.directory = directory
        stack.enter_context(temporary_files_in(directory / "tmp"))
        self.sites: list[SharedSite] = stack.enter_context(sessions(directory, MOUNTS, reading=1))
        for site in self.sites[:-1]:
            site.expected_log.append("dropped refused.md")  # which close() has said
        self.database = self.sites[0].db
        with Workspace.open(self.database, read_only=True) as workspace:
            self.store = workspace.stores.resolve(STORE).id
        for name in ("work", "journal"):
            (self.sites[0].store_directory / name).mkdir()
        self.server: Server = stack.enter_context(serving(self.database))
        self.hands: list[Hands] = [
            stack.enter_context(hands(site.store_directory, f"m{at}p{number}", plan.per_second))
            for at, site in enumerate(self.sites[:-1])
            for number in range(plan.per_mount)
        ]
        self.processes = [Process("server", "the server", self.server.process.pid)]
        for at, site in enumerate(self.sites):
            supervisor, worker = site.pids()
            self.processes += [
                Process("supervisor", f"supervisor {at}", supervisor), Process("worker", f"worker {at}", worker)
            ]  # fmt: skip

    def run(self, tell: Callable[[int, Usage], None] = lambda *_: None) -> Found:
        """All rounds. ``tell`` is called before the first and after each, with what is used."""
        idle = self.measure(None)
        self.found.usage.append(idle)
        tell(0, idle)
        end = time.monotonic() + self.plan.seconds
        while len(self.found.usage) < 3 or time.monotonic() < end:
            number = len(self.found.usage)
            self.round(number)
            self.found.usage.append(self.measure(idle))
            tell(number, self.found.usage[-1])
        # The first round fills what is filled once: caches, connections, imported modules.
        self.found.wrong += grown(self.processes, self.found.usage[1], self.found.usage[-1], WAL_BYTES)
        return self.found

    def round(self, number: int) -> None:
        """Everybody works; then all look at the same, and everything is removed."""
        seconds = self.plan.round_seconds
        clients = [
            Client(self.server, self.store, f"client {number}-{at}", seconds, self.plan.client_pause)
            for at in range(self.plan.clients)
        ]
        shell = Shell(self.database, self.directory, STORE, f"shell {number}", seconds, self.plan.shell_pause)
        reader = Reader(self.sites[-1].store_directory, f"reader {number}", seconds, self.plan.shell_pause)
        others: list[Other] = [*clients, shell, reader]
        for each in self.hands:
            each.begin(number, seconds)
        for other in others:
            other.start()
        done = [each.end() for each in self.hands]
        for other in others:
            other.join()
        for one in (*done, *(other.done for other in others)):
            self.found.add(one)
        self.found.wrong += self.look_back(number, done)
        for each in self.hands:
            each.clear()
        for client in clients:
            client.clear()
        for path in (self.sites[0].store_directory / "journal").iterdir():
            path.unlink()
        shell.prune()

    def look_back(self, number: int, done: list[Round]) -> Iterator[str]:
        """What is not as it was acknowledged, in words."""
        files = {path: digest for one in done for path, digest in one.files.items()}
        heads = {path: sha256(text).hexdigest() for path, text in self.sites[0].heads(STORE).items()}
        yield from _different("the database", files, {p: d for p, d in heads.items() if p.startswith("/work/")})
        for at, site in enumerate(self.sites):
            top = site.store_directory
            shown = {
                f"/work/{path.relative_to(top / 'work')}": sha256(path.read_bytes()).hexdigest()
                for path in (top / "work").rglob("*")
                if path.is_file()
            }
            yield from _different(f"mount {at}", files, shown)
            journal = "".join(path.read_text() for path in (top / "journal").glob(f"{number}-*.md"))
            lines = Counter(journal.splitlines())
            if missing := Counter(line for one in done for line in one.lines) - lines:
                yield f"mount {at}: lost from the journal: {dict(missing)}"
            if more := lines - Counter(line for one in done for line in one.lines):
                yield f"mount {at}: in the journal too much: {dict(more)}"
        try:
            assert_sound(self.database)
        except AssertionError as error:
            yield f"memfs check: {error}"

    def measure(self, idle: Usage | None) -> Usage:
        """What is used, once nothing is on its way out any more: what does not end is wrong."""
        if idle is None:
            time.sleep(IDLE_SECONDS)  # of threads without work no event tells
            return self._now()
        deadline = time.monotonic() + SETTLE_SECONDS
        while more := list(busy(self.processes, idle, now := self._now())):
            if time.monotonic() > deadline:
                self.found.wrong += more
                break
            time.sleep(0.5)
        return now

    def _now(self) -> Usage:
        with Workspace.open(self.database, read_only=True) as workspace:
            memories = len(workspace.memories.list(self.store))
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            (versions,) = connection.execute("SELECT count(*) FROM memory_versions").fetchone()
        roots = [site.root for site in self.sites] + [self.directory / "ninth"]
        records = [RootState(root).record_path for root in roots]
        ours = {
            f"{at}" for record in records for at in record.parent.glob(f"{record.stem}*") if at.suffix != ".log"
        }  # fmt: skip
        return Usage(
            processes={each.name: use(each.pid) for each in self.processes},
            wal_bytes=size(Path(f"{self.database}-wal")),
            database_bytes=size(self.database),
            memories=memories,
            versions=versions,
            files=files_below(self.directory) | ours,
            mounts=len(mounted_below(self.directory)),
        )


def _different(where: str, wanted: dict[str, str], found: dict[str, str]) -> Iterator[str]:
    for path in sorted(wanted.keys() | found.keys()):
        if wanted.get(path) != found.get(path):
            kind = "lost" if path not in found else "made up" if path not in wanted else "another text"
            yield f"{where}: {kind}: {path}"
