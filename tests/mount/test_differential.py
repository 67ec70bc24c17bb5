"""The same random operations on a mount and on a tmpfs: only what stands in one table may differ.

`make fuzz-mount` tries far more of them, other ones each time.
"""

import math
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from memfs.mount.processes import detach, mount_tmpfs
from tests.api.effort import EFFORT, SEED
from tests.mount.differential import operations as op
from tests.mount.differential.database import Database, check_history, reading
from tests.mount.differential.differences import DIFFERENCES
from tests.mount.differential.pair import PROCESSES, Pair, Side
from tests.mount.differential.sequences import BEGINNING, sequences
from tests.mount.differential.worker import workers
from tests.mount.harness import site

EXAMPLES = 250
"""About half a minute's work."""

SHRINKING_SECONDS = 45.0
"""For how long a failure is made smaller before it is shown; many that fail wait for what never comes."""

pytestmark = [pytest.mark.mount, pytest.mark.timeout(240 * EFFORT)]


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
        pair = Pair(self.mount, self.twin, self.database, next(self.names), set())
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


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """After the last example the mount goes, and what it leaves is judged once more."""
    directory = tmp_path_factory.mktemp("differential")
    twin = directory / "twin"
    twin.mkdir()
    with site(directory) as at:
        at.store("notes")
        (notes,) = at.mount("notes")
        mount_tmpfs(twin, size=1 << 26, mode=0o755)
        try:
            with workers(PROCESSES) as here, workers(PROCESSES) as there, reading(at.db) as database:
                yield Scene(Side(notes, here), Side(twin, there), database)
        finally:
            detach(twin)
        log = Path(at.status()[0]["log"])
        if re.search("dropped .* (not UTF-8|refused)", log.read_text()):
            at.expected_log.append("dropped .* (not UTF-8|refused)")
        at.run("umount", at.root)
        with reading(at.db) as database:
            assert database.heads("") == {}, "text that came back, or never went"
            check_history(database.versions(0), {})


def tried(function: Callable[..., None]) -> Callable[..., None]:
    """How often, and always the same ones unless there is more effort than by default."""
    chosen = settings(
        max_examples=EXAMPLES * EFFORT,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    return seed(SEED)(chosen(function))


@tried
@given(sequence=sequences)
def test_any_sequence_of_operations_is_that_of_a_local_disk(
    scene: Scene, sequence: list[tuple[int, op.Operation]]
) -> None:
    """Results, errnos, bytes, listings, attributes, the order of times; and a history that tells it all."""
    scene.attempt(sequence)


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
