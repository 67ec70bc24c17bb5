"""Real processes for the tests that need another one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = [sys.executable, "-bb"]


def environment(**changes: str) -> dict[str, str]:
    """The environment in which memfs and tests can be imported, without what this machine's user has set."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MEMFS_", "PYTHON"))}
    return inherited | {"PYTHONPATH": str(ROOT)} | changes


@contextmanager
def python(code: str, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs ``code`` with pipes for its streams; killed at the end where it still runs."""
    process = subprocess.Popen(
        [*PYTHON, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[str], text: str = "") -> None:
    """Send a process one line."""
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    """Wait for a process's next line; fails with what it wrote to stderr where it ended instead."""
    assert process.stdout is not None
    assert process.stderr is not None
    text = process.stdout.readline()
    assert text, process.stderr.read()
    return text.rstrip("\n")


def finish(process: subprocess.Popen[str]) -> str:
    """Wait until a process ended well; returns the rest of what it wrote."""
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output
