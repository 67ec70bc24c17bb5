"""Mounting a session for a test, in processes that end with the test whatever becomes of it.

```text
pytest ──▶ keeper ──▶ memfs mount --foreground ──▶ workers
```

The keeper ends the mount when its standard input ends: when the test is over, or pytest was killed.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from memfs.model.errors import MountFailed
from memfs.model.records import Session
from memfs.mount.processes import detach, mounted_below

START_SECONDS = 60.0
STOP_SECONDS = 90.0
"""Longer than a supervisor waits for its workers, which wait for the database."""


@contextmanager
def mounted(session: Session, database: Path, root: Path, log: Path) -> Iterator[Path]:
    """Mount a session's stores at ``root``, and take them down at the end.

    Raises MountFailed where they could not be mounted, or something stayed mounted; then it is taken down by force.
    """
    command = [sys.executable, "-m", "memfs.testing.keeper", sys.executable, "-m", "memfs.cli", "--db", str(database)]
    command += ["mount", "--foreground", "--session", session.id, "--root", str(root)]
    with log.open("wb") as errors:
        keeper = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            start_new_session=True,  # Ctrl-C at the terminal is for pytest
        )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    try:
        if not _announced(keeper.stdout, len(session.attachments)):
            raise MountFailed(f"the session could not be mounted: {_last_words(log)}")
        yield root
    finally:
        _end(keeper, root, log)


def _announced(output: IO[bytes], count: int) -> bool:
    """Whether so many mounts were announced in time, a line each."""
    deadline = time.monotonic() + START_SECONDS
    said = b""
    while said.count(b"\n") < count:
        if not select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        part = os.read(output.fileno(), 4096)
        if not part:
            return False
        said += part
    return True


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1].removeprefix("memfs: ") if lines else f"see {log}"


def _end(keeper: "subprocess.Popen[bytes]", root: Path, log: Path) -> None:
    """Raises MountFailed where something was left."""
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    with suppress(BrokenPipeError):
        keeper.stdin.close()
    try:
        keeper.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        keeper.kill()  # and what it started is killed with it
        keeper.wait()
    finally:
        keeper.stdout.close()
    left = [point.path for point in mounted_below(root)]
    for path in reversed(left):
        with suppress(OSError):
            detach(path)
    if left:
        raise MountFailed(f"{', '.join(map(os.fspath, left))} stayed mounted: see {log}")
