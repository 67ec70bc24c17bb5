"""Several sessions, each with a mount of its own of one store."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memfs.model.records import Access
from memfs.mount.processes import mounted_below
from tests.mount.harness import Site, parent_of

STORE = "shared"


@dataclass
class SharedSite(Site):
    """A session of its own on a database that others use too."""

    database: Path = field(default=Path())
    store_directory: Path = field(default=Path())
    session_id: str = ""

    @property
    def db(self) -> Path:
        """The database of all."""
        return self.database

    worker_pid: int = 0
    access: Access = "read_write"

    @property
    def logs(self) -> frozenset[Path]:
        """What is looked into at the end."""
        return frozenset(self._logs)

    def start(self) -> None:
        """Mount the store."""
        mounted = self.run("mount", "--root", self.root, "-s", f"{STORE}:{self.access}")
        self.store_directory = Path(mounted.stdout.strip())

    def pids(self) -> list[int]:
        """Its supervisor and its worker."""
        return [parent_of(self.worker_pid), self.worker_pid]

    def take_down(self) -> None:
        """Unmount it, without asking every mount of this machine first."""
        if mounted_below(self.root) or self.processes():
            self.run("umount", self.root)

    def note(self, mounts: list[dict[str, Any]]) -> None:
        """Find our mount in what ``memfs status`` says; once for all, because it asks every mount of this machine."""
        (mine,) = (mount for mount in mounts if mount["root"] == str(self.root))
        self.session_id, self.worker_pid = mine["session_id"], mine["pid"]
        self._logs.add(Path(mine["log"]))


@contextmanager
def sessions(directory: Path, count: int, *, reading: int = 0) -> Iterator[list[SharedSite]]:
    """A new database with one store, mounted by so many sessions; taken down at the end, and looked at as any site.

    The last ones, as many as ``reading`` says, may only read it.
    """
    database = directory / "db" / "memfs.db"
    made = [SharedSite(directory / f"session-{number}", database=database) for number in range(count)]
    for one in made:
        one.directory.mkdir()
    for one in made[count - reading :]:
        one.access = "read_only"
    made[0].store(STORE)
    with ThreadPoolExecutor(count) as pool:
        try:
            list(pool.map(SharedSite.start, made))
            mounts = json.loads(made[0].run("status", "--format", "json").stdout)
            for one in made:
                one.note(mounts)
            yield made
        finally:
            # All are ended, whatever becomes of one.
            for ending in [pool.submit(one.end) for one in made]:
                ending.result()


__all__ = ["STORE", "SharedSite", "sessions"]
