"""Another process holds the database's writer lock: what that delays, and what it does not."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from tests.mount.together.freshness import percentile
from tests.mount.together.hands import hands
from tests.processes import finish, hear, python, tell

PAUSE_SECONDS = 0.001
"""Between two reads: what is measured is their time, not that of a busy processor."""

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""


@contextmanager
def writer_lock(database: Path) -> Iterator[None]:
    """Another process holds it."""
    with python(HOLD, database) as process:
        assert hear(process) == "held"
        yield
        tell(process)
        finish(process)


@dataclass(frozen=True)
class Latencies:
    """Seconds that each call took."""

    stat: list[float]
    read: list[float]

    def p99(self) -> dict[str, float]:
        """Milliseconds."""
        return {"stat": percentile(self.stat, 99) * 1000, "read": percentile(self.read, 99) * 1000}


def latencies(paths: list[Path], seconds: float) -> Latencies:
    """Stat, then open, read and close one file after the other."""
    found = Latencies([], [])
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        path = paths[len(found.stat) % len(paths)]
        os.stat(path)
        found.stat.append(time.perf_counter() - began)
        began = time.perf_counter()
        path.read_bytes()
        found.read.append(time.perf_counter() - began)
        time.sleep(PAUSE_SECONDS)
    return found


@dataclass(frozen=True)
class Held:
    """What came of it."""

    idle: Latencies
    held: Latencies
    waited: float
    """Seconds that a close took which came meanwhile."""
    early: bool
    """Whether what was closed was in the database while the lock was held, which nobody can do."""

    def ratios(self) -> dict[str, float]:
        """Of the p99 with the lock held to that without."""
        idle, held = self.idle.p99(), self.held.p99()
        return {kind: held[kind] / idle[kind] for kind in idle}


def beside_a_lock(database: Path, directory: Path, seconds: float) -> Held:
    """Read warm files of a mount for so many seconds; then again, while the lock is held and a close waits for it."""
    names = [f"warm-{number}.md" for number in range(20)]
    paths = [directory / name for name in names]
    for path in paths:
        path.write_text(f"{path.name}\n" * 100)
    latencies(paths, 0.2)
    alone = latencies(paths, seconds)
    waited = 0.0
    with hands(directory) as writer:

        def save() -> None:
            nonlocal waited
            began = time.monotonic()
            writer.do("write", "/waiting.md", "saved all the same")
            waited = time.monotonic() - began

        saving = Thread(target=save)
        with writer_lock(database):
            saving.start()
            held = latencies(paths, seconds)
            early = _is_saved(database)
        saving.join(60)
        assert not saving.is_alive(), "a close waits for a lock that nobody holds"
    return Held(alone, held, waited, early)


def _is_saved(database: Path) -> bool:
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return bool(connection.execute("SELECT 1 FROM memories WHERE path = '/waiting.md'").fetchall())
