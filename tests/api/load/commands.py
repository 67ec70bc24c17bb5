"""The command line beside the load: mounts, and a command now and then."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.api.load.notes import Noted, Notes, digest
from tests.processes import PYTHON, environment

PAUSE_SECONDS = 3.0
LIMIT = 240.0


def memfs(database: Path, *arguments: str | Path) -> str:
    """Run memfs to its end; returns what it wrote."""
    done = subprocess.run(
        [*PYTHON, "-m", "memfs.cli", "--db", str(database), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, f"memfs {arguments[0]}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted store."""

    directory: Path
    session_id: str
    log: Path


@contextmanager
def mounted(database: Path, root: Path, store: str) -> Iterator[Mount]:
    """A mount of a store, taken down at the end."""
    try:
        directory = Path(memfs(database, "mount", "--root", root, "-s", store).strip())
        status = json.loads(memfs(database, "status", "--format", "json"))
        (found,) = (mount for mount in status if mount["root"] == str(root))
        yield Mount(directory, found["session_id"], Path(found["log"]))
    finally:
        if root.exists():
            memfs(database, "umount", root)


class Commands(threading.Thread):
    """Makes a memory and lists them all, now and then."""

    def __init__(self, database: Path, store: str) -> None:
        super().__init__(name="commands", daemon=True)
        self.notes = Notes()
        self._database = database
        self._store = store
        self._over = threading.Event()

    def run(self) -> None:
        """Go on until ``finish``."""
        number = 0
        while not self._over.is_set():
            number += 1
            path, content = f"/commands/{number}.md", f"command {number}\n"
            create = ("memory", "create", self._store, path, "--content", content, "--format", "json")
            try:
                made = json.loads(memfs(self._database, *create))
                memfs(self._database, "memory", "list", self._store)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                self.notes.wrong.append(f"command {number}: {error}")
                return
            ids = made["id"], made["memory_version_id"]
            self.notes.writes.append(Noted("", "created", path, digest(content), *ids))
            self._over.wait(PAUSE_SECONDS)

    def finish(self) -> Notes:
        """Let the last one end."""
        self._over.set()
        self.join(LIMIT)
        return self.notes
