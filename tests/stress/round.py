"""All stressors one after another on one mount, as the user who runs this, each with its like on a tmpfs."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from memfs.mount.processes import can_mount, detach, mount_tmpfs
from tests.mount.harness import site
from tests.stress import bonnie, fio
from tests.stress.beside import Outcome, Stuck, contents, run_beside
from tests.stress.ground import STORE, Ground, clear
from tests.stress.stressors import INSTANCES, NAMES, STRESSORS, TOGETHER, Stressor

SKIPPED = 3
"""stress-ng's status where a stressor finds that it cannot work here."""

SPARE_SECONDS = 90.0
"""What a program may take beyond its time: it removes what it made, and others use the machine."""

LOOKING_SECONDS = 60.0
"""What may be taken to look at what a program left, and to remove it."""

TWIN_BYTES = 256 * 1024 * 1024
"""Room on the tmpfs: for a thousand memories as large as they can be."""

ALL = [*NAMES, "together", *(job.name for job in fio.JOBS), *(f"bonnie-{run.name}" for run in bonnie.RUNS)]
"""The names of all steps, in their order."""


@dataclass(frozen=True)
class Step:
    """What one step did: stress-ng's bogo operations, fio's reads and writes, bonnie++'s files; and the versions."""

    name: str
    seconds: float
    operations: int
    twin_operations: int
    versions: int
    status: int | None
    """That of the program on the mount; where it is not 0 and nothing is wrong, it is that on the tmpfs, or refused."""
    wrong: list[str]


@dataclass
class Result:
    """Of a round. ``rss_mib`` is the worker's memory at first, at most and at last."""

    user: str
    steps: list[Step] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    versions: int = 0
    rss_mib: list[float] = field(default_factory=list)
    seconds: float = 0.0


@contextmanager
def _twin(directory: Path) -> Iterator[Path]:
    """A tmpfs; for who may not mount one, a directory in the machine's own."""
    if not can_mount():
        with tempfile.TemporaryDirectory(prefix="memfs-stress-", dir="/dev/shm") as made:
            yield Path(made)
        return
    point = directory / "twin"
    point.mkdir()
    mount_tmpfs(point, size=TWIN_BYTES, mode=0o755)
    try:
        yield point
    finally:
        detach(point)


def run_round(
    directory: Path, names: list[str], seconds: float, user: str, show: Callable[[Step], None] = lambda _step: None
) -> Result:
    """Run the steps of these names for ``seconds`` each in an empty directory of the user's own."""
    result = Result(user)
    begun = time.monotonic()
    ground: Ground | None = None
    try:
        place = directory / "site"
        place.mkdir()
        with _twin(directory) as twin, site(place) as at:
            at.store(STORE)
            (mount,) = at.mount(STORE)
            ground = Ground(at, mount, twin)
            limit = seconds * max(each.times for each in STRESSORS) + SPARE_SECONDS + LOOKING_SECONDS
            with ground.watched(limit):
                ground.begin()
            for name in names:
                with ground.watched(limit):
                    step = Steps(ground, directory, seconds).run(name)
                    result.steps.append(step)
                    show(step)
                    ground.probe(name)
            with ground.watched(limit):
                ground.end()
    except (AssertionError, OSError, subprocess.SubprocessError, Stuck) as error:
        result.wrong.append(f"{type(error).__name__}: {str(error)[:2000]}")
    if ground is not None:
        result.wrong += ground.wrong
        if ground.rss:
            result.rss_mib = [round(each, 1) for each in (ground.rss[0], max(ground.rss), ground.rss[-1])]
        result.versions = sum(step.versions for step in result.steps)
    result.seconds = round(time.monotonic() - begun, 1)
    return result


@dataclass(frozen=True)
class _Did:
    """What both sides did, the status on the mount, and what was wrong."""

    here: int
    there: int
    status: int | None
    wrong: list[str]


@dataclass
class Steps:
    """How each kind of step is run and judged. ``scratch`` is a directory on neither side."""

    ground: Ground
    scratch: Path
    seconds: float

    def run(self, name: str) -> Step:
        """Run a step by its name."""
        before, begun = self.ground.versions(), time.monotonic()
        if name in NAMES:
            did = self._stress_ng([NAMES[name]], INSTANCES)
        elif name == "together":
            did = self._stress_ng([NAMES[each] for each in TOGETHER], 1)
        elif name.startswith("bonnie-"):
            did = self._bonnie(next(run for run in bonnie.RUNS if name == f"bonnie-{run.name}"))
        else:
            did = self._fio(next(job for job in fio.JOBS if job.name == name))
        took = round(time.monotonic() - begun, 1)
        versions = self.ground.versions() - before
        return Step(name, took, did.here, did.there, versions, did.status, did.wrong)

    def _directories(self, name: str) -> tuple[Path, Path]:
        found = (self.ground.mount / name, self.ground.twin / name)
        for side in found:
            clear(side)
        return found

    def _remove(self, *directories: Path) -> None:
        for directory in directories:
            shutil.rmtree(directory)

    def _stress_ng(self, stressors: list[Stressor], instances: int) -> _Did:
        here, there = self._directories("work")
        seconds = self.seconds * max(each.times for each in stressors)

        def command(side: Path, work: Path) -> list[str]:
            chosen = [argument for each in stressors for argument in each.arguments(side / "kept", instances)]
            return [
                *("stress-ng", *chosen, "--verify", "--metrics", "--timeout", f"{max(1, round(seconds))}"),
                *("--temp-path", str(work)),
            ]

        on_mount, on_twin = run_beside(
            command(self.ground.mount, here), command(self.ground.twin, there), seconds + SPARE_SECONDS
        )
        wrong = judge_stress_ng(stressors, on_mount, on_twin)
        left, usual = contents(here), contents(there)
        if left and not usual:
            wrong.append(f"left behind: {', '.join(left)}")
        self._remove(here, there)
        return _Did(on_mount.bogo_operations(), on_twin.bogo_operations(), on_mount.status, wrong)

    def _fio(self, job: fio.Job) -> _Did:
        here, there = self._directories(f"fio-{job.name}")
        files = []
        for number, side in enumerate((here, there)):
            file = self.scratch / f"{job.name}.{number}.fio"
            file.write_text(job.file(str(side), self.seconds))
            files.append(str(file))
        on_mount, on_twin = run_beside(
            ["fio", "--output-format=json", files[0]],
            ["fio", "--output-format=json", files[1]],
            self.seconds + SPARE_SECONDS,
        )
        wrong = _ended_well(on_mount) + [f"on the tmpfs: {each}" for each in _ended_well(on_twin)]
        if wrong:
            return _Did(0, 0, on_mount.status, wrong)
        (done, errors), (usual, usual_errors) = fio.operations(on_mount.output), fio.operations(on_twin.output)
        wrong += errors + [f"on the tmpfs: {each}" for each in usual_errors]
        left, right = contents(here), contents(there)
        if left.keys() != right.keys() or not left:
            wrong.append(f"{len(left)} files, and {len(right)} on the tmpfs")
        # A checksum's header has the time of its write, so that two runs differ in temporaries.
        differ = [path for path in left if job.text and left[path] != right.get(path)]
        if differ:
            wrong.append(f"{len(differ)} files differ from those on the tmpfs: {', '.join(sorted(differ)[:5])}")
        if job.text:
            self._remove(there)  # what is on the mount stays, and must be there in the end
        else:
            self._remove(here, there)
        return _Did(done, usual, on_mount.status, wrong)

    def _bonnie(self, run: bonnie.Run) -> _Did:
        here, there = self._directories("bonnie")
        before = self.ground.versions()
        root = os.geteuid() == 0
        on_mount, on_twin = run_beside(
            run.command(str(here), root=root), run.command(str(there), root=root), self.seconds + SPARE_SECONDS
        )
        wrong = _ended_well(on_mount) + [f"on the tmpfs: {each}" for each in _ended_well(on_twin)]
        made = self.ground.versions() - before
        if not wrong and made != 4 * bonnie.FILES:
            wrong.append(f"{made} versions of {2 * bonnie.FILES} files, each made once and removed once")
        left = contents(here)
        if left:
            wrong.append(f"left behind: {len(left)} files")
        self._remove(here, there)
        return _Did(2 * bonnie.FILES, 2 * bonnie.FILES, on_mount.status, wrong)


def _ended_well(outcome: Outcome) -> list[str]:
    if outcome.status == 0:
        return []
    said = outcome.output.partition("\n{")[0] or outcome.output  # what fio says before its figures
    return [f"ended with {outcome.status}: {said.strip()[-500:]}"]


def judge_stress_ng(stressors: list[Stressor], here: Outcome, there: Outcome) -> list[str]:
    """What should not be: another end than on a tmpfs, other complaints, nothing done where a tmpfs has much done."""
    if here.status is None or there.status is None:
        return [f"did not end in time {'here' if here.status is None else 'on the tmpfs'}: {here.output[-500:]}"]
    refused = [each.refused for each in stressors if each.refused is not None]
    if refused:
        if here.status == SKIPPED and all(text in here.output for text in refused):
            return []
        return [f"was to be refused, and ended with {here.status}: {here.output[-500:]}"]
    wrong = []
    if here.status != there.status:
        wrong.append(f"ended with {here.status}, on a tmpfs with {there.status}: {here.output[-500:]}")
    wrong += [f"complains: {text}" for text in sorted(here.complaints() - there.complaints())]
    if here.bogo_operations() == 0 and there.bogo_operations() > 0:
        wrong.append("did nothing")
    return wrong
