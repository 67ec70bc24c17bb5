"""Where the attacks of ``attacks`` are made: a mounted store, another one whose reader must not notice, and bounds."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from memfs.vfs.scratch import MAX_SCRATCH_BYTES
from memfs.vfs.working import MAX_WORKING_BYTES
from tests.api.load.usage import descriptors
from tests.mount.harness import Site, parent_of
from tests.processes import ROOT, environment

MAX_PEAK_MIB = 40 + (MAX_WORKING_BYTES + MAX_SCRATCH_BYTES) // 2**20 + 72
"""Of a worker, at its highest: its own 40, working copies and temporaries, and 72 for 16,384 open files, names of
directories, requests on their way and what Python has not given back."""

MAX_SUPERVISOR_MIB = 60

MAX_NEW_DESCRIPTORS = 8
"""Of a worker, from before an attack until after it."""

MAX_THREADS = 64
"""Of a worker, at any time."""

MAX_WAL_BYTES = 64 * 2**20

MAX_BYTES_A_VERSION = 4_096
"""What a version adds to the database, beside its text: a row, its entries in indexes, a change."""

LIMIT = 1_800
"""Seconds that one attack may take."""


@dataclass
class Outcome:
    """What one attack came to."""

    name: str
    figures: dict[str, int]
    peak_mib: float
    """Of the worker."""
    supervisor_mib: float
    wal_bytes: int
    database_bytes: int
    """How much larger it is."""
    versions: int
    """How many more there are."""
    reads: int
    """Of the other mount, meanwhile."""
    wrong: list[str] = field(default_factory=list)


@dataclass
class Reader:
    """Somebody who reads in another mount all the time."""

    directory: Path
    count: int = 0
    wrong: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until it is told to stop."""
        number = 0
        while not self._stop.is_set():
            try:
                name = f"{number % 20}.md"
                if (self.directory / name).read_text() != f"text {name}\n":
                    self.wrong.append(f"{name} has another text")
                if number % 50 == 0 and len(os.listdir(self.directory)) != 20:
                    self.wrong.append("names are missing in the other mount")
            except OSError as error:
                self.wrong.append(f"reading in the other mount failed: {error}")
                return
            number += 1
            self.count += 1

    def stop(self) -> None:
        self._stop.set()


def status(pid: int, name: str) -> int:
    """A number of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def forget_peak(pid: int) -> None:
    """Let the kernel begin anew to look for the highest resident memory of a process."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def size(path: Path) -> int:
    """Of a file, 0 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class Ground:
    """Two mounted stores of one root."""

    def __init__(self, site: Site) -> None:
        self.site = site
        site.store("prey")
        other = site.directory / "other"
        other.mkdir()
        for number in range(20):
            (other / f"{number}.md").write_text(f"text {number}.md\n")
        site.run("store", "create", "-q", "bystander")
        site.run("store", "import", "bystander", other)
        self.prey, self.bystander = site.mount("prey", "bystander")
        self.worker, self.supervisor = site.worker("prey"), site.supervisor()
        (self.prey / "kept").mkdir()
        (self.prey / "kept" / "canary.md").write_text("still here\n")

    def attack(self, name: str, scale: float) -> Outcome:
        """Run an attack, look whether all is well afterwards, and take away what it left."""
        top, scratch = self.prey / name, self.site.root / f"scratch-{name}"
        top.mkdir()
        scratch.mkdir()
        forget_peak(self.worker)
        open_before, threads = descriptors(self.worker), 0
        bytes_before, versions_before = size(self.site.db), self.versions()
        reader = Reader(self.bystander)
        reading = threading.Thread(target=reader.run)
        reading.start()
        wal = 0
        wrong: list[str] = []
        figures: dict[str, int] = {}
        # In its own session: it may start processes, and all of them go with it.
        attacker = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.attacks", name, str(top), str(scratch), str(scale)],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            for _ in range(LIMIT * 2):
                try:
                    said, complained = attacker.communicate(timeout=0.5)
                except subprocess.TimeoutExpired:
                    threads = max(threads, status(self.worker, "Threads"))
                    wal = max(wal, size(Path(f"{self.site.db}-wal")))
                else:
                    break
            else:
                said, complained = "", f"it did not end in {LIMIT} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(attacker.pid, 9)
            attacker.wait()
            reader.stop()
            reading.join()
        if attacker.returncode or not said:
            wrong.append(f"{name} was not answered as it should be: {complained[-2_000:]}")
        else:
            figures = json.loads(said)
        wrong += self.look(name) + reader.wrong
        if reader.count == 0:
            wrong.append("nothing could be read in the other mount")
        peak = status(self.worker, "VmHWM") / 1024 if not wrong else 0.0
        supervisor = status(self.supervisor, "VmRSS") / 1024
        shutil.rmtree(top, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
        wal = max(wal, size(Path(f"{self.site.db}-wal")))
        versions = self.versions() - versions_before
        grown = size(self.site.db) + wal - bytes_before
        for what, found, most in (
            ("MiB of the worker", peak, MAX_PEAK_MIB),
            ("MiB of the supervisor", supervisor, MAX_SUPERVISOR_MIB),
            ("threads of the worker", threads, MAX_THREADS),
            ("more descriptors of the worker", descriptors(self.worker) - open_before, MAX_NEW_DESCRIPTORS),
            ("bytes of the WAL", wal, MAX_WAL_BYTES),
            ("bytes of the database", grown, self.room(versions)),
        ):
            if found > most:
                wrong.append(f"{found:,.0f} {what}, and at most {most:,} may be")
        return Outcome(name, figures, round(peak, 1), round(supervisor, 1), wal, grown, versions, reader.count, wrong)

    def room(self, versions: int) -> int:
        """What the database may have grown by so many versions: texts are kept once each, and few are full."""
        return MAX_WAL_BYTES + versions * MAX_BYTES_A_VERSION + 32 * 2**20

    def versions(self) -> int:
        """How many there are in the whole database."""
        with closing(sqlite3.connect(f"file:{self.site.db}?mode=ro", uri=True)) as db:
            (count,) = db.execute("SELECT count(*) FROM memory_versions").fetchone()
        return int(count)

    def look(self, name: str) -> list[str]:
        """What is not as it was: the mount must answer, by the same process, and keep what it had."""
        states = self.site.status()  # once: it takes longer than most attacks of a test
        wrong = [f"{each['name']} is {each['state']}" for each in states if each["state"] != "mounted"]
        workers = {each["name"]: each["pid"] for each in states}
        if workers.get("prey") != self.worker or parent_of(self.worker) != self.supervisor:
            wrong.append("the worker or the supervisor is another one: it died")
        try:
            if (self.prey / "kept" / "canary.md").read_text() != "still here\n":
                wrong.append("a memory that nobody touched has another text")
            after = self.prey / "kept" / f"after-{name}.md"
            after.write_text("and it takes what is new\n")
            if self.site.heads("prey")[f"/kept/after-{name}.md"] != b"and it takes what is new\n":
                wrong.append("what was closed is not in the database")
        except (OSError, KeyError) as error:
            wrong.append(f"the mount does not take a memory afterwards: {error!r}")
        return wrong
