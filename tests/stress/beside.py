"""A program at work in two directories at the same time: on a mount, and on a tmpfs that says what is right."""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KILL_SECONDS = 10.0
"""How long a killed program may take to go: longer, and it hangs in a call that the mount does not answer."""

_COMPLAINT = re.compile(r"^stress-ng: (fail|error|warn): +\[\d+\] (.*)$", re.MULTILINE)
_FIGURES = re.compile(r"\d+(\.\d+)?")
_METRIC = re.compile(r"^stress-ng: metrc: \[\d+\] ([a-z-]+) +(\d+) +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ ", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What became of a program: its status, None where it had to be killed, and what it wrote."""

    status: int | None
    output: str

    def complaints(self) -> set[str]:
        """What stress-ng complained of, without its figures."""
        return {_FIGURES.sub("#", text) for _, text in _COMPLAINT.findall(self.output)}

    def bogo_operations(self) -> int:
        """How much stress-ng did, by its own measure, which is another for each stressor."""
        return sum(int(count) for _, count in _METRIC.findall(self.output))


class Stuck(Exception):
    """A program could not even be killed."""


def run_beside(here: Sequence[str], there: Sequence[str], seconds: float) -> tuple[Outcome, Outcome]:
    """Run two commands at once, each killed with all that it started where it takes longer than ``seconds``.

    Raises Stuck.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as one, tempfile.TemporaryFile("w+", errors="replace") as two:
        deadline = time.monotonic() + seconds
        started = []
        outcomes = []
        try:
            for command, output in ((here, one), (there, two)):
                started.append(
                    subprocess.Popen(
                        command,
                        cwd="/",
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
            for process, output in zip(started, (one, two), strict=True):
                status: int | None
                try:
                    status = process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    status = None
                    _end(process)
                output.seek(0)
                outcomes.append(Outcome(status, output.read()))
        finally:
            for process in started:
                if process.poll() is None:
                    _end(process)
    return outcomes[0], outcomes[1]


def _end(process: "subprocess.Popen[bytes]") -> None:
    os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        raise Stuck(f"{process.args!r} was killed and does not end") from None


def contents(directory: Path) -> dict[str, bytes]:
    """The files below a directory: paths from there, and bytes."""
    found = {}
    for path, _, names in os.walk(directory, onerror=_raise):
        for name in names:
            file = Path(path) / name
            found[f"/{file.relative_to(directory)}"] = file.read_bytes()
    return found


def _raise(error: OSError) -> None:
    raise error
