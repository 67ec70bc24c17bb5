"""What is recorded for losses of power: the life of a database on mounts, with a server and commands beside them, and
one of commands alone."""

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.crashes.journal import text_of
from tests.crashes.power import Diary, History, real_files, rows_of
from tests.crashes.recording import Event, Recorder
from tests.crashes.scene import Mounts, Server, free_port

STORE = "notes"


@dataclass
class Life:
    """What was recorded, and where."""

    below: Path
    database: str
    events: list[Event] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    """What is there in the end."""
    history: History = field(default_factory=lambda: History([]))


@dataclass
class Stage:
    """Where a life takes place."""

    directory: Path
    database: Path
    """As it is given to commands."""
    recorder: Recorder
    diary: Diary
    chance: random.Random
    mounts: list[Mounts] = field(default_factory=list)
    earlier: list[tuple[Any, ...]] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    tokens: int = 0

    def run(self, *arguments: str | Path) -> str:
        """A command, recorded; returns what it wrote."""
        return self.mounts[0].run(*arguments).stdout.strip()

    def text(self, lines: int) -> str:
        """A text that is nowhere else."""
        self.tokens += 1
        return text_of(f"life:{self.tokens}", lines)

    def redact(self, store: str, path: str) -> None:
        """Take the text of a memory's first version out, after it got another one."""
        self.earlier += rows_of(self.database)
        versions = json.loads(self.run("version", "list", store, "--memory", path, "--format", "json"))
        first = versions[-1]["id"]
        text = next(row[6] for row in self.earlier if row[1] == first).decode()
        self.secrets[first] = text
        self.run("version", "redact", store, first, "--yes")
        self.diary.redacted(first, text)


@contextmanager
def staged(directory: Path, database: str, seed: int, *, through_link: bool = False) -> Iterator[tuple[Stage, Life]]:
    """Record; afterwards all has ended, and the life is complete."""
    below = directory / "disk"
    below.mkdir()
    recorder = Recorder(below, directory)
    path = below / database
    if through_link:
        path = directory / "link.db"
        path.symlink_to(below / database)
    stage = Stage(directory, path, recorder, Diary(recorder), random.Random(seed))
    for name in ("first", "second"):
        (directory / name).mkdir()
        stage.mounts.append(Mounts(directory / name, extra=recorder.variables, database=path, stores=(STORE,)))
    life = Life(below, database)
    try:
        yield stage, life
        for mounts in stage.mounts:
            mounts.end()
    finally:
        for mounts in stage.mounts:
            if mounts.processes():
                mounts.end()
    life.events = recorder.events()
    life.files = real_files(below)
    life.history = History(rows_of(below / database), stage.earlier, stage.secrets)


def on_mounts(directory: Path, seed: int, *, steps: int = 60, through_link: bool = False, brief: bool = False) -> Life:
    """Two mounts of a store, a server and commands; enough text for the log to be emptied in between.

    ``brief`` does without the server, and without mounting again.
    """
    database = "memfs.db" if through_link else "data/memfs/memfs.db"
    with staged(directory, database, seed, through_link=through_link) as (stage, life):
        stage.run("store", "create", STORE)
        for mounts in stage.mounts:
            mounts.start()
        works = [Work(stage, mounts) for mounts in stage.mounts]

        def work(count: int, among: int = 2) -> None:
            for _ in range(count):
                stage.chance.choice(works[:among]).step()

        work(steps // 3)
        if not brief:
            _with_server(stage)
        work(steps // 3)
        for mounts in stage.mounts:
            mounts.end()
        if not brief:
            # The last one to close took the log away: there is a new one now.
            stage.mounts[0].start()
            work(steps // 3, among=1)
            stage.mounts[0].end()
    return life


def _with_server(stage: Stage) -> None:
    """Writes through the API and by commands, and a redaction."""
    port = free_port(f"{stage.directory} {os.getpid()}")
    server = Server(stage.database, port, stage.directory / "serve.log", variables=stage.recorder.variables)
    key = stage.run("key", "create", "power", "-q")
    server.start()
    try:
        _through_api(stage, server, key)
        stage.run("memory", "create", STORE, "/by-command.md", "--content", stage.text(5))
        stage.run("memory", "update", STORE, "/by-command.md", "--content", stage.text(5))
        stage.redact(STORE, "/by-command.md")
    finally:
        server.end()


def _through_api(stage: Stage, server: Server, key: str) -> None:
    """Writes that nobody promises to survive a loss of power, but in their order."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    def request(method: str, path: str, body: object = None) -> Any:
        connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said
        return json.loads(said)

    (store,) = request("GET", "/v1/memory_stores")["data"]
    top = f"/v1/memory_stores/{store['id']}/memories"
    for number in range(4):
        made = request("POST", top, {"path": f"/api-{number}.md", "content": stage.text(20)})
        request("POST", f"{top}/{made['id']}", {"content": stage.text(200)})
    connection.close()


class Work:
    """What plain programs do on a mount, with and without fsync()."""

    def __init__(self, stage: Stage, mounts: Mounts) -> None:
        self.stage = stage
        self.top = str(mounts.at(STORE))
        self.name = mounts.directory.name
        self.files: dict[str, str] = {}
        """Nobody else writes to them, so that nothing is merged."""
        self.count = 0

    def step(self) -> None:
        """One thing."""
        top = self.top
        kinds = [self.save, self.save, self.save_synced, self.save_synced, self.replace_synced, self.make_directory]
        if self.files:
            kinds += [self.append_synced, self.rename, self.unlink_synced]
        self.stage.chance.choice(kinds)(top)

    def _path(self, chance_of_old: float = 0.5) -> str:
        if self.files and self.stage.chance.random() < chance_of_old:
            return self.stage.chance.choice(sorted(self.files))
        self.count += 1
        return f"/{self.name}-{self.count}.md"

    def _write(self, where: str, text: str, *, flags: int = os.O_TRUNC, sync: bool = False) -> None:
        descriptor = os.open(where, os.O_CREAT | os.O_WRONLY | flags, 0o644)
        try:
            os.write(descriptor, text.encode())
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _sync_directory(self, top: str) -> None:
        descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _lines(self) -> int:
        return self.stage.chance.choice([1, 3, 50, 2000, 5000])

    def save(self, top: str) -> None:
        """Closed, and no more."""
        path, text = self._path(), self.stage.text(self._lines())
        self._write(top + path, text)
        self.files[path] = text

    def save_synced(self, top: str) -> None:
        """Synced before it is closed."""
        path, text = self._path(), self.stage.text(self._lines())
        made = "modified" if path in self.files else "created"
        self._write(top + path, text, sync=True)
        self.files[path] = text
        self.stage.diary.version(made, path, text)

    def append_synced(self, top: str) -> None:
        """A line more."""
        path, line = self._path(1.0), self.stage.text(1)
        text = self.files[path] + line
        if len(text.encode()) > 100_000:
            return
        self._write(top + path, line, flags=os.O_APPEND, sync=True)
        self.files[path] = text
        self.stage.diary.version("modified", path, text)

    def replace_synced(self, top: str) -> None:
        """As careful editors save: what is renamed was synced, and so is the directory afterwards."""
        path, text = self._path(), self.stage.text(self._lines())
        made = "modified" if path in self.files else "created"
        self._write(f"{top}{path}.tmp", text, sync=True)
        os.replace(f"{top}{path}.tmp", top + path)
        self._sync_directory(top)
        self.files[path] = text
        self.stage.diary.version(made, path, text)

    def rename(self, top: str) -> None:
        """Another name."""
        path, target = self._path(1.0), self._path(0.0)
        os.rename(top + path, top + target)
        self.files[target] = self.files.pop(path)

    def unlink_synced(self, top: str) -> None:
        """A name less, for good."""
        path = self._path(1.0)
        os.unlink(top + path)
        self._sync_directory(top)
        del self.files[path]
        self.stage.diary.version("deleted", path, None)

    def make_directory(self, top: str) -> None:
        """A directory, for good."""
        self.count += 1
        os.mkdir(f"{top}/{self.name}-{self.count}")
        self._sync_directory(top)
        self.stage.diary.directory(f"/{self.name}-{self.count}")


def of_commands(directory: Path, seed: int) -> Life:
    """A new database, its first memories, a redaction and two backups."""
    with staged(directory, "data/memfs/memfs.db", seed) as (stage, life):
        stage.run("store", "create", STORE)
        for path in ("/a.md", "/b.md"):
            stage.run("memory", "create", STORE, path, "--content", stage.text(30))
            stage.run("memory", "update", STORE, path, "--content", stage.text(300))
        stage.redact(STORE, "/a.md")
        backup = life.below / "backup.db"
        stage.run("backup", backup)
        stage.diary.backup(backup)
        stage.run("memory", "create", STORE, "/c.md", "--content", stage.text(30))
        stage.run("backup", "--force", backup)
        stage.diary.backup(backup)
    return life
