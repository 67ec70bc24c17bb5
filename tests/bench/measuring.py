"""What is done in each round, and the rows that come of it."""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.bars import BARS, PASSTHROUGH, TMPFS
from tests.bench.contestants import CannotMeasure, Contestant, Place, contestants, grep, run, versions_of
from tests.bench.figures import percentile, ratios
from tests.bench.plan import Plan
from tests.bench.rows import Row

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"
MB = 1_000_000

STATTED = 100
"""Files that are looked at, or read, again and again."""

CREATED = 10
"""Files that are made in a pass, and removed again."""

READ_STORES = 2
"""Of the stores that are started together, those whose workers' memory is looked at."""

HEAD_OPERATIONS = (
    "list the memories",
    "list a directory",
    "read one memory",
    "read one in a mount",
    "snapshot (mounting)",
    "update (commit)",
    "delete and create",
    "changes after a commit",
)
"""Those of bench-history that are not about the history itself."""


@dataclass(slots=True)
class Measuring:
    """One run: fills ``rows`` and ``curves``. ``say`` is told what is under way."""

    place: Place
    plan: Plan
    histories: Path
    """Where databases with long histories are kept."""
    say: Callable[[str], None]
    bindfs: bool = True
    rows: list[Row] = field(default_factory=list)
    longest: dict[str, Any] | None = None
    """What bench-history said of the longest history."""

    def work(self, kind: str, directory: Path, files: int, size: int | None = None, sample: int | None = None) -> float:
        """Nanoseconds that an operation takes, by the median pass (see work.c)."""
        sizes = (files, self.plan.size if size is None else size, self.plan.sample if sample is None else sample)
        return float(run(self.place.programs.work, kind, directory, *map(str, sizes)).split()[0])

    def table(self) -> None:
        """Every row of the table."""
        with contestants(self.place, bindfs=self.bindfs) as found:
            self.operations(found)
        self.searching()
        self.freshness()
        self.starting()
        self.history()
        order = list(BARS)
        self.rows.sort(key=lambda row: order.index(row.work))

    def _compare(self, work: str, times: dict[str, list[float]], ours: str, unit: str, **notes: Any) -> None:
        """Add the row of a bar that compares."""
        bar = BARS[work]
        mine, theirs = times[ours], times[bar.than]
        values = ratios(theirs, mine) if bar.sense == "at least" else ratios(mine, theirs)
        self.rows.append(Row(work, values, bar, times, unit, notes))

    def operations(self, found: Sequence[Contestant]) -> None:
        """Single calls, by all contestants in turns."""
        listed = self.place.in_a_directory
        works: dict[str, tuple[str, int]] = {
            "stat": ("stat", min(STATTED, listed)),
            "read": ("read", min(STATTED, listed)),
            "list": ("list", listed),
            "create": ("create", CREATED),
        }
        times: dict[str, defaultdict[str, list[float]]] = {name: defaultdict(list) for name in works}
        made = versions_of(self.place.db, "new")
        for number in range(self.plan.rounds):
            self.say(f"single calls: round {number + 1} of {self.plan.rounds}")
            # Another one begins each round: whoever comes after a busy one may find its processor hot, or taken.
            turn = [*found[number % len(found) :], *found[: number % len(found)]]
            for name, (kind, files) in works.items():
                for each in turn:
                    directory = each.new if kind == "create" else each.full / "d0"
                    if directory is not None:
                        times[name][each.name].append(self.work(kind, directory, files) / 1_000)
        made = versions_of(self.place.db, "new") - made
        if made % (2 * CREATED) or made < 2 * CREATED * self.plan.rounds:
            raise CannotMeasure(
                f"{made} versions came of {self.plan.rounds} rounds of {CREATED} files made and removed"
            )
        self._compare("stat, warm", times["stat"], "memfs", "µs")
        self._compare("stat, warm, read_only", times["stat"], "memfs ro", "µs")
        self._compare("open-read-close, warm, read_only", times["read"], "memfs ro", "µs")
        self._compare("open-read-close, warm, read_write", times["read"], "memfs", "µs")
        self._compare("create-write-close", times["create"], "memfs", "µs", versions=made)
        self._compare("list and stat 500, warm", times["list"], "memfs", "µs")

    def searching(self) -> None:
        """``grep -r`` by filesystems that were just mounted, and again when all that can be kept is."""
        cold: defaultdict[str, list[float]] = defaultdict(list)
        warm: defaultdict[str, list[float]] = defaultdict(list)
        expected = self.place.needles
        below = self.place.directory / "plain"
        rounds = self.plan.searches
        for number in range(rounds):
            self.say(f"grep -r: round {number + 1} of {rounds}")
            with ExitStack() as stack:
                memfs, read_only = (
                    stack.enter_context(self.place.mounted(store))[0] for store in ("full", "full:read_only")
                )
                mounted = {
                    "memfs": memfs,
                    "memfs ro": read_only,
                    PASSTHROUGH: stack.enter_context(self.place.passthrough(below)) / "full",
                    "disk": below / "full",
                    TMPFS: self.place.memory / "plain" / "full",
                }
                if self.bindfs:
                    mounted["bindfs"] = stack.enter_context(self.place.bindfs(below)) / "full"
                turn = list(mounted.items())
                turn = turn[number % len(turn) :] + turn[: number % len(turn)]
                for name, directory in turn:
                    cold[name].append(1_000 * grep(directory, expected))
                for name, directory in turn:
                    grep(directory, expected)  # what was dropped for the others' sake comes back
                    warm[name].append(1_000 * grep(directory, expected))
        self._compare("grep -r over 2,000, cold", cold, "memfs", "ms")
        self._compare("grep -r over 2,000, warm", warm, "memfs", "ms")

    def freshness(self) -> None:
        """A session writes, and another one looks: by stat, which the kernel may answer, and by open.

        The time runs from the end of close().
        """
        seen: list[float] = []
        stale = opened = 0
        with ExitStack() as stack:
            self.place.fill_store("shared", {"/note.md": b"0", "/opened.md": b"0"})
            writing, looking = (stack.enter_context(self.place.mounted("shared"))[0] for _ in range(2))
            end = time.monotonic() + self.plan.changes_seconds
            for number in range(1, self.plan.changes + 1):
                if number % 20 == 1:
                    self.say(f"changes elsewhere: {number} of {self.plan.changes}")
                text = b"x" * number
                os.stat(looking / "note.md")
                _write(writing / "note.md", text)
                began = time.perf_counter()
                while os.stat(looking / "note.md").st_size != number:
                    if time.perf_counter() - began > 30:
                        raise CannotMeasure("a change elsewhere was not seen within 30 s")
                    time.sleep(0.0002)
                seen.append(1_000 * (time.perf_counter() - began))
                _read(looking / "opened.md")
                _write(writing / "opened.md", text)
                opened += 1
                stale += _read(looking / "opened.md") != text
                if time.monotonic() > end:
                    break
        figures = {f"p{percent}": percentile(seen, percent) for percent in (50, 99)} | {"max": max(seen)}
        work = "change elsewhere to stat here: p99"
        notes = {"percentiles_ms": figures, "changes": len(seen)}
        self.rows.append(Row(work, seen, BARS[work], {"memfs": seen}, "ms", notes, judged=figures["p99"]))
        work = "change elsewhere, not seen by open"
        self.rows.append(Row(work, [float(stale)], BARS[work], notes={"opened": opened}))

    def starting(self) -> None:
        """A command that mounts many full stores, and the memory that their workers take when all was read."""
        names = [f"store-{number}" for number in range(self.plan.stores)]
        for name in names:
            self.place.fill_store(name)
        seconds, memory = self.start(self.place, names, self.plan.starts)
        work = "8 stores of 2,000: command to ready"
        self.rows.append(Row(work, seconds, BARS[work], {"memfs": seconds}, "s", {"stores": len(names)}))
        work = "resident memory for a store of 2,000"
        times = {f"{kind} {when}": values for when, kinds in memory.items() for kind, values in kinds.items()}
        self.rows.append(Row(work, memory["read"]["rss"], BARS[work], times, "MB"))

    def start(
        self, place: Place, names: Sequence[str], rounds: int
    ) -> tuple[list[float], dict[str, dict[str, list[float]]]]:
        """Mount stores by one command, again and again. Returns the seconds until it said that they are ready, and MB
        of each worker: ``["ready" or "read"]["rss" or "pss"]``."""
        seconds: list[float] = []
        memory: dict[str, dict[str, list[float]]] = {when: {"rss": [], "pss": []} for when in ("ready", "read")}
        for number in range(rounds):
            self.say(f"starting {len(names)} stores: {number + 1} of {rounds}")
            began = time.perf_counter()
            with place.mounted(*names) as directories:
                seconds.append(time.perf_counter() - began)
                if sum(len(os.listdir(directory / "d0")) for directory in directories) != place.in_a_directory * len(
                    names
                ):
                    raise CannotMeasure("a store that was said to be ready was not")
                looked_at = directories[:READ_STORES]
                workers = place.workers(*looked_at)
                _add_memory(memory["ready"], workers)
                for directory in looked_at:
                    grep(directory, place.needles)
                _add_memory(memory["read"], workers)
        return seconds, memory

    def history(self) -> None:
        """The operations of bench-history that must not depend on the history; the slowest of them counts."""
        found = self.longest = self.compare_history(self.plan.versions)
        operations = {each["operation"]: each for each in found["operations"] if each["operation"] in HEAD_OPERATIONS}
        if len(operations) != len(HEAD_OPERATIONS):
            raise CannotMeasure("bench-history does not measure what its rows are taken from any more")
        work = "head operations, long history"
        values = [each["ratio"] for each in operations.values()]
        times = {}
        for name, each in operations.items():
            times[f"{name}: short"] = [each["short"]["median"]]
            times[f"{name}: long"] = [each["long"]["median"]]
        notes = {
            "versions": found["versions"],
            "operations": {name: each["ratio"] for name, each in operations.items()},
        }
        self.rows.append(Row(work, values, BARS[work], times, "ms", notes, judged=max(values)))

    def compare_history(self, versions: int) -> dict[str, Any]:
        """Run bench-history, with a long history that is kept; returns its JSON document."""
        self.say(f"a history of {versions:,} versions (made where it is not there yet, which can take minutes)")
        self.histories.mkdir(parents=True, exist_ok=True)
        memories = min(self.plan.history_memories, self.plan.memories)
        kept = self.histories / f"{memories}-memories-{versions}-versions.db"
        document = self.place.fresh("history")
        options = [f"--db={kept}", f"--memories={memories}", f"--versions={versions}", f"--json={document}"]
        command = [sys.executable, str(SCRIPTS / "bench-history"), *options, f"--rounds={self.plan.history_rounds}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise CannotMeasure(f"bench-history failed: {done.stdout.strip()}")
        found: dict[str, Any] = json.loads(document.read_text())
        return found


def _write(path: Path, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 17)
    finally:
        os.close(descriptor)


def _add_memory(into: dict[str, list[float]], processes: Sequence[int]) -> None:
    """Add what processes take, in MB: resident, and their part of what they share."""
    for pid in processes:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines[1:])
        for name in ("Rss", "Pss"):
            into[name.lower()].append(int(fields[name].split()[0]) * 1024 / MB)
