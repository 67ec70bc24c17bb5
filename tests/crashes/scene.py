"""What is killed: mounts with their supervisors and workers, a server, and the writers that work with them.

All on one database, and kept alive from round to round. What was killed is started again by the very command that
started it first, without any clearing up in between.
"""

import json
import os
import random
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from memfs.mount.processes import detach, mounted_below
from memfs.mount.runtime import RootState
from tests.api.harness import new_key
from tests.crashes.writing import BACK_SECONDS, COMMON, Work
from tests.mount.harness import Site, kill, wait_until
from tests.processes import PYTHON, environment

SHARED, OWN = "shared", "own"
STORES = (SHARED, OWN)

START_SECONDS = 60.0
STOP_SECONDS = 60.0

EXPECTED = re.compile(r"a worker died path=\S+ status=(-9|0)")
"""What the log of a mount may say above INFO: what was done to it."""

WRITING = "from tests.crashes.writing import main; main()"


@dataclass
class Mounts(Site):
    """One session's mounts: a supervisor, and a worker for each store."""

    database: Path = field(default=Path())
    stores: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)

    @property
    def db(self) -> Path:
        """The database of all."""
        return self.database

    @property
    def state(self) -> RootState:
        """Record, lock and log."""
        return RootState(self.root)

    def at(self, store: str) -> Path:
        """A store's directory."""
        return self.root / store

    def start(self) -> None:
        """Mount; over what is dead, where there is something."""
        words = [word for store in self.stores for word in ("-s", store)]
        self.run("mount", "--root", self.root, *words)

    def start_and_kill(self, seconds: float) -> None:
        """Kill the command that mounts, if it has not ended by then."""
        words = [word for store in self.stores for word in ("-s", store)]
        with subprocess.Popen(
            self.command("mount", "--root", self.root, *words),
            env=self.environment(),
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()

    def start_after_all(self) -> None:
        """Mount, where a command that mounts was killed: it may have mounted, or what it began may be ending."""
        deadline = time.monotonic() + START_SECONDS
        words = [word for store in self.stores for word in ("-s", store)]
        while (done := self.run("mount", "--root", self.root, *words, check=False)).returncode:
            assert "mounted already" in done.stderr, done.stderr
            assert time.monotonic() < deadline, done.stderr
            self.run("umount", self.root, check=False)  # as it says

    def pid(self) -> int:
        """The supervisor."""
        record = self.state.read()
        assert record is not None
        return record.pid

    def workers(self) -> dict[str, int]:
        """Store to the process that serves it now; without those that are dead. Asked of the kernel."""
        supervisor = self.pid()
        found = {}
        with suppress(FileNotFoundError):
            for pid in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
                with suppress(FileNotFoundError):
                    found[Path(f"/proc/{pid}/comm").read_text().strip().removeprefix("memfs:")] = int(pid)
        return found

    def answers(self, store: str) -> bool:
        """Whether a store is mounted and served."""
        try:
            return COMMON in os.listdir(self.at(store))  # not a stat(), which the kernel may answer for a dead mount
        except OSError:
            return False

    def wait(self) -> None:
        """Until all stores answer; nobody has to do anything for it."""
        for store in self.stores:
            wait_until(partial(self.answers, store), f"{self.at(store)} to be served", BACK_SECONDS)

    def restart(self) -> None:
        """Start, and wait."""
        self.start()
        self.wait()

    def end(self) -> None:
        """Unmount, and see that nothing is left."""
        try:
            if self.state.record_path.exists():
                self.run("umount", self.root)
            self.nothing_left()
            assert not self.root.exists(), f"{self.root} is left"
            left = sorted(each.name for each in self.state.record_path.parent.glob(f"{self.state.record_path.stem}*"))
            assert left in ([], [self.state.log_path.name]), f"left in the runtime directory: {left}"
            log = self.state.log_path
            for line in log.read_text().splitlines() if log.exists() else ():
                if re.search(r"level=(WARNING|ERROR|CRITICAL)|Traceback", line) and not EXPECTED.search(line):
                    self.problems.append(f"logged by {self.root}: {line}")
            log.unlink(missing_ok=True)
        finally:
            for pid in self.processes():
                kill(pid)
            for point in reversed(mounted_below(self.directory)):
                detach(point.path)


@dataclass
class Server:
    """``memfs serve``, always at the same port."""

    database: Path
    port: int
    log: Path
    process: "subprocess.Popen[str] | None" = None
    variables: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Serve; returns when it answers."""
        options = ["--db", str(self.database), "serve", "--port", str(self.port), "--no-access-log", "--rate", "0"]
        with self.log.open("a") as errors:
            self.process = subprocess.Popen(
                [*PYTHON, "-m", "memfs.cli", *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(**self.variables),
            )
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], START_SECONDS)[0], "the server did not start in time"
        assert self.process.stdout.readline().startswith("http"), self.log.read_text()

    def kill(self) -> None:
        """At once."""
        if self.process is not None:
            with self.process as process:
                process.kill()

    def end(self) -> list[str]:
        """Tell it to stop, and see how that went."""
        if self.process is None or self.process.poll() is not None:
            return ["the server was not there any more"]
        with self.process as process:
            process.terminate()
            try:
                status = process.wait(STOP_SECONDS)
            finally:
                process.kill()
        bad = [
            line for line in self.log.read_text().splitlines() if re.search(r"level=(WARNING|ERROR)|Traceback", line)
        ]
        return [f"logged by the server: {line}" for line in bad] + (
            [f"the server ended with {status}"] if status else []
        )


@dataclass
class Hand:
    """A writer's process, and what it was told."""

    work: Work
    store: str
    place: "Mounts | Server | None"
    process: "subprocess.Popen[str]"
    answer: str = ""

    @property
    def alive(self) -> bool:
        """Whether nobody has killed it."""
        return self.process.poll() is None

    def tell(self, seconds: float) -> None:
        """Have it work."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()

    def hear(self, seconds: float) -> str:
        """Its next line, empty where it was killed."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], seconds)[0], f"{self.work.name} said nothing in {seconds} s"
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """With what it has started. Its streams stay, to be read to their end."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def errors(self) -> str:
        """What it has written to standard error, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def end(self) -> str | None:
        """Let it end; what is wrong with it."""
        with self.process as process:
            _, errors = process.communicate(timeout=STOP_SECONDS)
        return f"{self.work.name} ended with {process.returncode}: {errors}" if process.returncode else None


@dataclass
class Scene:
    """Everything on one database."""

    directory: Path
    seed: str
    mounts: list[Mounts]
    server: Server
    key: str
    stores: dict[str, str]
    hands: list[Hand] = field(default_factory=list)
    works: list[tuple[Work, str]] = field(default_factory=list)
    """All writers that ever were, the killed ones too, with their stores."""

    @property
    def db(self) -> Path:
        """The database."""
        return self.directory / "db" / "memfs.db"

    @property
    def backups(self) -> Path:
        """Where a writer puts backups."""
        return self.directory / "backups"

    def add(self, kind: str, number: int, store: str, place: "Mounts | Server | None") -> Hand:
        """Another writer, under a name that none had before."""
        life = sum(work.name.startswith(f"{kind}{number}-") for work, _ in self.works)
        name = f"{kind}{number}-{life}"
        target = {"api": f"/v1/memory_stores/{self.stores[store]}", "command": self.stores[store]}
        work = Work(
            kind=kind,
            name=name,
            target=str(place.at(store)) if isinstance(place, Mounts) else target[kind],
            journal=str(self.directory / f"{name}.jsonl"),
            seed=f"{self.seed} {name}",
            key=self.key,
            port=self.server.port,
            command=[*PYTHON, "-m", "memfs.cli", "--db", str(self.db)],
            backups=str(self.backups),
        )
        process = subprocess.Popen(
            [*PYTHON, "-c", WRITING, str(os.getpid()), json.dumps(asdict(work))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            cwd="/",
            start_new_session=True,  # to be killed with what it has started
        )
        hand = Hand(work, store, place, process)
        self.hands.append(hand)
        self.works.append((work, store))
        return hand

    def replace(self, hand: Hand) -> None:
        """Somebody else for one who was killed."""
        with hand.process:
            self.hands.remove(hand)
        number = int(re.sub(r"^\D+|-\d+$", "", hand.work.name))
        said = self.add(hand.work.kind, number, hand.store, hand.place).hear(START_SECONDS)
        assert said == "ready", said


def free_port(seed: str) -> int:
    """One that is free now, outside of those that the kernel gives to who asks for any."""
    for port in random.Random(seed).sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@contextmanager
def scene(directory: Path, seed: str) -> Iterator[Scene]:
    """Two mounts of one store and one of another, a server, and seven writers. All are ended, whatever happens.

    How they end is not looked at here: see ``tests.crashes.rounds``.
    """
    database = directory / "db" / "memfs.db"
    (directory / "backups").mkdir()
    mounts = []
    for name, stores in (("first", STORES), ("second", (SHARED,))):
        place = directory / name
        place.mkdir()
        mounts.append(Mounts(place, database=database, stores=stores))
    key = new_key(database)
    ids = {store: mounts[0].run("store", "create", "-q", store).stdout.strip() for store in STORES}
    server = Server(database, free_port(f"{seed} {os.getpid()}"), directory / "serve.log")
    made = Scene(directory, seed, mounts, server, key, ids)
    try:
        for each in mounts:
            each.start()
        for store in STORES:
            (mounts[0].at(store) / COMMON).mkdir()
        server.start()
        mounts[1].wait()
        works = [("mount", SHARED, mounts[0]), ("mount", OWN, mounts[0])]
        works += [("mount", SHARED, mounts[1]), ("mount", SHARED, mounts[1])]
        for number, (kind, store, place_of) in enumerate(works):
            made.add(kind, number, store, place_of)
        made.add("api", 4, SHARED, server)
        made.add("api", 5, OWN, server)
        made.add("command", 6, SHARED, None)
        for hand in made.hands:
            assert hand.hear(START_SECONDS) == "ready"
        yield made
    finally:
        for hand in made.hands:
            with hand.process:
                hand.kill()
        server.kill()
        for each in mounts:
            if each.processes() or mounted_below(each.directory):
                each.end()
