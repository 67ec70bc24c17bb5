"""The same random operations on a mount and on a tmpfs: only what stands in one table may differ.

`make fuzz-mount` tries far more of them, other ones each time. That they find what is wrong with a mount is shown with
mounts that have one bug each.
"""

import math
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from memfs.mount.processes import detach, mount_tmpfs
from tests.api.effort import EFFORT, SEED
from tests.mount.differential import operations as op
from tests.mount.differential import planted
from tests.mount.differential.database import Database, check_history, reading
from tests.mount.differential.differences import DIFFERENCES
from tests.mount.differential.pair import PROCESSES, Pair, Side
from tests.mount.differential.sequences import BEGINNING, sequences
from tests.mount.differential.worker import workers
from tests.mount.harness import LIMIT, Site, site

EXAMPLES = 250
"""About half a minute's work."""

SHRINKING_SECONDS = 45.0
"""For how long a failure is made smaller before it is shown; many that fail wait for what never comes."""

pytestmark = [pytest.mark.mount, pytest.mark.timeout(600)]


class Failures(dict[str, AssertionError]):
    """Sequences and what they failed with; Hypothesis, which shows a test's arguments, refuses long ones."""

    def __repr__(self) -> str:
        return f"<{len(self)} failures>"


@dataclass
class Scene:
    """One mount and one tmpfs for all examples, each of which has a directory of its own."""

    mount: Side
    twin: Side
    database: Database
    names: Iterator[str] = field(default_factory=lambda: (f"e{number}" for number in count(1)))
    failed: Failures = field(default_factory=Failures)
    """What failed, and how."""
    patient_until: float = math.inf
    patience: float = 20.0
    """For how many seconds the database may lag behind an example."""

    def attempt(self, sequence: list[tuple[int, op.Operation]]) -> None:
        """Run a sequence. Once one has failed, smaller ones are looked for as long as there is patience."""
        shown = repr(sequence)
        if shown in self.failed:
            raise self.failed[shown]
        if time.monotonic() > self.patient_until:
            return
        try:
            self.run(sequence)
        except AssertionError as error:
            if not self.failed:
                self.patient_until = time.monotonic() + SHRINKING_SECONDS
            self.failed[shown] = error
            raise

    def run(self, sequence: list[tuple[int, op.Operation]]) -> set[str]:
        """Do a sequence after the usual beginning; returns which differences it met."""
        pair = Pair(self.mount, self.twin, self.database, next(self.names), set(), self.patience)
        try:
            pair.begin()
            for operation in BEGINNING:
                pair.step(0, operation)
            for process, operation in sequence:
                pair.step(process, operation)
            pair.end()
        finally:
            pair.clear()
        return pair.met


@contextmanager
def beside_a_tmpfs(at: Site, notes: Path) -> Iterator[Scene]:
    """A scene of a mount, and of a tmpfs that is made for it."""
    twin = at.directory / "twin"
    twin.mkdir()
    mount_tmpfs(twin, size=1 << 26, mode=0o755)
    try:
        with workers(PROCESSES) as here, workers(PROCESSES) as there, reading(at.db) as database:
            yield Scene(Side(notes, here), Side(twin, there), database)
    finally:
        detach(twin)
    log = Path(at.status()[0]["log"])
    if re.search("dropped .* (not UTF-8|refused)", log.read_text()):
        at.expected_log.append("dropped .* (not UTF-8|refused)")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """After the last example the mount goes, and what it leaves is judged once more."""
    with site(tmp_path_factory.mktemp("differential")) as at:
        at.store("notes")
        (notes,) = at.mount("notes")
        with beside_a_tmpfs(at, notes) as made:
            yield made
        at.run("umount", at.root)
        with reading(at.db) as database:
            assert database.heads("") == {}, "text that came back, or never went"
            check_history(database.versions(0), {})


@pytest.mark.parametrize("part", range(EFFORT))
def test_any_sequence_of_operations_is_that_of_a_local_disk(scene: Scene, part: int) -> None:
    """Results, errnos, bytes, listings, attributes, the order of times; and a history that tells it all.

    Always the same sequences unless there is more effort than by default. Each part begins anew with chance: later
    examples of Hypothesis are variations of its first ones.
    """
    scene.failed.clear()
    scene.patient_until = math.inf

    @seed(SEED + part)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(sequence=sequences)
    def run(sequence: list[tuple[int, op.Operation]]) -> None:
        scene.attempt(sequence)

    run()


SHOWN: dict[str, list[op.Operation]] = {
    "links": [op.Symlink("/s")],
    "names": [op.Mkdir("/.git", 0o755)],
    "size": [op.Open("/a", os.O_RDWR, 0), op.Pwrite(0, b"xyz", 102_400)],
    "text": [op.WriteFile("/a", b"\xff", os.O_TRUNC)],
    "fsync": [op.Open("/a", os.O_RDWR, 0), op.Write(0, b"\xff"), op.Fsync(0, False), op.Pwrite(0, b"f", 0)],
    "rename": [op.WriteFile("/a~", b"\xff", 0), op.Rename("/a", "/a~", 0)],
    "truncate": [op.WriteFile("/a", "é".encode(), os.O_TRUNC), op.Truncate("/a", 1)],
    "exchange": [op.WriteFile("/a~", b"x", 0), op.Rename("/a", "/a~", op.EXCHANGE)],
    "fallocate": [op.Open("/a", os.O_RDWR | os.O_APPEND, 0), op.Allocate(0, 0, 100)],
    "nameless": [op.Open("/d", os.O_TMPFILE | os.O_RDWR, 0o644)],
}
"""A sequence for each line of the table."""


@pytest.mark.parametrize("name", [difference.name for difference in DIFFERENCES])
def test_each_difference_is_real(scene: Scene, name: str) -> None:
    """A line that no longer shows has to leave the table."""
    assert scene.run([(0, operation) for operation in SHOWN[name]]) == {name}


RIGHT: dict[str, list[tuple[int, op.Operation]]] = {
    "reader": [
        (0, op.Open("/a", os.O_RDONLY | os.O_CREAT, 0o644)),
        (0, op.WriteFile("/a", b"\xff", 0)),
        (0, op.Close(0)),
    ],
    "duplicate": [
        (0, op.Open("/a", os.O_RDWR, 0)),
        (0, op.Open("/d/a", os.O_RDWR, 0)),
        (0, op.Dup(0)),
        (0, op.Close(2)),
        (0, op.Pwrite(0, b"x", 0)),
        (0, op.Close(1)),
    ],
    "mkdir": [(0, op.Rename("/a~", "/a", 0)), (0, op.Mkdir("/a", 0o755))],
    "rmdir": [(0, op.Rename("/d/e/a~", "/d/e/a", 0)), (0, op.Unlink("/d/e/a~")), (0, op.Rmdir("/d/e"))],
    "empty": [
        (0, op.Mknod("/b", stat.S_IFREG)),
        (0, op.WriteFile("/a", b"x", 0)),
        (0, op.Truncate("/b", 0)),
        (0, op.Tree()),
        (0, op.WriteFile("/b", b"x", 0)),
        (0, op.Tree()),
    ],
    "fallocate": [(0, op.Open("/a", os.O_RDWR, 0)), (0, op.Write(0, b"x")), (0, op.Allocate(0, 102_397, 5000))],
    "copy": [
        (0, op.Open("/d/a", os.O_RDWR, 0)),
        (0, op.Pwrite(0, b"x", 102_397)),
        (0, op.Open("/a", os.O_RDWR, 0)),
        (0, op.Seek(1, 3, os.SEEK_SET)),
        (0, op.CopyRange(0, 1, 102_400)),
        (0, op.Close(1)),
    ],
    "append": [
        (0, op.Open("/a", os.O_RDWR, 0)),
        (0, op.Ftruncate(0, 102_400)),
        (0, op.WriteFile("/a", b"x", os.O_APPEND)),
        (0, op.Seek(0, 0, os.SEEK_END)),
    ],
    "position": [
        (0, op.Open("/a", os.O_RDWR, 0)),
        (0, op.Ftruncate(0, 102_400)),
        (0, op.Seek(0, 0, os.SEEK_END)),
        (0, op.WriteFile("/a", b"x", os.O_TRUNC)),
        (0, op.Write(0, b"x")),
    ],
    "late": [(0, op.Open("/a", os.O_RDWR, 0)), (0, op.WriteFile("/a", b"", os.O_TRUNC)), *[(0, op.Stat("/a"))] * 5],
    "removed": [(0, op.Unlink("/d/e/a")), (0, op.OpenDirectory("/d/e")), (0, op.Rmdir("/d/e"))],
    "top": [(0, op.Open("", os.O_TMPFILE | os.O_RDWR, 0o644))],
}
"""What this comparison once took for a difference, and is none: a reader who says O_CREAT is no writer; of two equal
descriptors the one goes that is closed; what is set aside ends with the name (``SET_ASIDE``); truncate(2) to the same
size (``SAME_SIZE``); posix_fallocate writes; an append is refused at its write; a descriptor stands where it stood when
the file was longer; an empty text may be a version a little later (``LATE``); there is no more to read of a directory
that was removed; and there is no O_TMPFILE at the top either.
"""


@pytest.mark.parametrize("name", list(RIGHT))
def test_what_is_right_is_no_difference(scene: Scene, name: str) -> None:
    scene.run(RIGHT[name])


def test_truncate_to_the_same_size_moves_the_time_in_a_mount_only(scene: Scene) -> None:
    """``SAME_SIZE`` has to go where this no longer shows."""
    moved = []
    for side in (scene.mount, scene.twin):
        path = side.directory / "empty"
        path.touch()
        before = path.stat().st_mtime_ns
        os.truncate(path, 0)
        moved.append(path.stat().st_mtime_ns != before)
        path.unlink()
    assert moved == [True, False]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Scene]]:
    """A mount that gets the bug it is called with; from then on it may be wrong in any way."""
    with site(tmp_path_factory.mktemp("faulty")) as at:
        bug = at.directory / "bug"
        bug.write_text("")
        at.store("notes")
        at.extra |= {"MEMFS_TEST_BUG": str(bug), "PYTHONPATH": os.fspath(Path(__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, "-bb", "-m", planted.__name__, "mount", "--root", at.root, "-s", "notes"],
            env=at.environment(),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        at.note_logs()
        with beside_a_tmpfs(at, Path(done.stdout.strip())) as made:

            def with_bug(name: str) -> Scene:
                bug.write_text(name)
                made.patience = 2.0 if name else Scene.patience  # what is planted does not go by waiting
                return made

            try:
                yield with_bug
            finally:
                bug.write_text("")


SHOWING: dict[str, list[op.Operation]] = {
    "flush": [op.WriteFile("/b", b"x", 0)],
    "reader": [op.Open("/a", os.O_RDWR, 0), op.Write(0, b"x"), op.Fstat(0)],
    "unlink": [op.Unlink("/a")],
    "open-unlinked": [op.Open("/a", os.O_RDWR, 0), op.Unlink("/a"), op.Write(0, b"x")],
    "grow": [op.Open("/a", os.O_RDWR, 0), op.Ftruncate(0, 40), op.Close(0)],
    "give-up": [op.WriteFile("/a", b"\xff", 0)],
    "exchange": [op.Rename("/a", "/d/a", op.EXCHANGE)],
    "rename-time": [op.Rename("/b", "/d/a", 0), op.Tree()],
    "write-time": [op.Open("/a", os.O_RDWR, 0), op.Write(0, b"x"), op.Close(0), op.Tree()],
    "mode": [op.Open("/b", os.O_RDWR | os.O_CREAT, 0o600), op.Fstat(0)],
    "errno": [op.Rmdir("/d")],
    "listing": [
        *[op.WriteFile(path, b"x", 0) for path in ("/b", "/c", "/e", "/f", "/g")],
        op.OpenDirectory(""),
        op.ReadDirectory(False),
        op.ReadDirectory(False),
        op.Unlink("/a"),
        op.CloseDirectory(),
    ],
    "identity": [op.Rename("/a", "/d/a", 0)],
    "size": [op.Open("/a", os.O_RDWR, 0), op.Pwrite(0, b"line\n", 102_397), op.Fstat(0)],
}
"""A sequence for each bug."""


@pytest.mark.parametrize("bug", list(planted.BUGS))
def test_a_planted_bug_is_found(faulty: Callable[[str], Scene], bug: str) -> None:
    sequence = [(0, operation) for operation in SHOWING[bug]]
    faulty("").run(sequence)
    with pytest.raises(AssertionError, match=r", after\n0: WriteFile"):
        faulty(bug).run(sequence)
