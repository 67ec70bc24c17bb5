"""Readers of what a command prints."""

import subprocess
from pathlib import Path

from memfs.cli import exits
from tests.processes import PYTHON, environment


def stops_reading(db: Path, *arguments: str) -> None:
    """Run ``memfs``, read one byte of what it prints, and go away: it has to end, and say why by its code alone.

    It has to print more than a pipe holds (64 KiB), or it would have ended before.
    """
    with subprocess.Popen(
        [*PYTHON, "-m", "memfs.cli", "--db", db, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == exits.PIPE_CLOSED
