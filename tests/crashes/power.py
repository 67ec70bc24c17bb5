"""Losses of power: what is done to a database is recorded, and then cut off at many moments.

Each moment gives images of what a disk may hold (``tests.crashes.disk``). Each image is opened as after a crash, and
held against what had been promised by that moment, which the recording says too:

- what was synced is there, and so is all that was committed before it: a history is a prefix of what it became
- every version is as it was, whole; every invariant holds, and it can be written to
- what was redacted is in no file any more, and a backup that was made is there and whole
"""

import json
import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from memfs.engine.checking import check
from memfs.model.errors import MemfsError, NotFound
from memfs.model.records import Actor
from memfs.workspace import Workspace
from tests.crashes.disk import TAKEN, Disk, put
from tests.crashes.recording import Event, Kind, Recorder

Row = tuple[Any, ...]

SOMEBODY = Actor("user_actor", "afterwards")


def rows_of(database: Path) -> list[Row]:
    """Every version with its text, in their order; none where there are no tables yet."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as db:
        return db.execute(
            "SELECT sequence, v.id, store_id, memory_id, operation, path, bytes, created_by_type, created_by_id,"
            " v.created_at, content_sha256, redacted_at, content_size_bytes FROM memory_versions AS v"
            " LEFT JOIN contents ON contents.id = content_id ORDER BY sequence"
        ).fetchall()


def directories_of(database: Path) -> set[str]:
    """The directories that are kept for their own sake."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as db:
        return {path for (path,) in db.execute("SELECT path FROM kept_directories")}


@dataclass
class Promised:
    """What somebody was told by a moment."""

    versions: int = 0
    """How many, from the first, are there for good."""
    directories: set[str] = field(default_factory=set)
    backups: set[str] = field(default_factory=set)
    redacted: dict[str, str] = field(default_factory=dict)
    """Version to its text."""


@dataclass
class History:
    """What happened, as it was in the end. ``earlier`` are rows as they were before they were redacted."""

    rows: list[Row]
    earlier: list[Row] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    """Version to the text that is taken from it."""

    def state(self, rows: list[Row]) -> str:
        """How much of it is there."""
        return "a part of the history" if len(rows) < len(self.rows) else "the whole history"

    def differs(self, rows: list[Row], promised: Promised) -> Iterator[str]:
        """What is wrong with the versions that are left: they must be a prefix, and hold what was promised."""
        if len(rows) < promised.versions:
            yield f"{promised.versions - len(rows)} of {promised.versions} versions that were synced are gone"
        if len(rows) > len(self.rows):
            yield "there are more versions than were ever written"
        earlier = {row[1]: row for row in self.earlier}
        for row, known in zip(rows, self.rows, strict=False):
            redacted = row[1] in promised.redacted
            if row != known and (redacted or row != earlier.get(row[1])):
                yield f"version {row[0]} is not what it was: {row[1:6]} instead of {known[1:6]}"

    def damaged(self, _rows: list[Row], violations: list[str]) -> Iterator[str]:
        """What ``memfs check`` says and should not."""
        yield from violations

    def beside(self, _directory: Path, _rows: list[Row]) -> Iterator[str]:
        """What is wrong with files beside the database, which nobody has named."""
        yield from ()

    def promise(self, promised: Promised, said: dict[str, Any]) -> None:
        """Take in a mark."""
        match said["kind"]:
            case "version":
                wanted = (said["operation"], said["path"], said["sha256"])
                # An earlier row where a later one has the same: that promises less, so nothing too much.
                known = [*self.earlier, *self.rows]
                sequence = next(row[0] for row in known if (row[4], row[5], row[10]) == wanted)
                promised.versions = max(promised.versions, sum(row[0] <= sequence for row in self.rows))
            case "directory":
                promised.directories.add(said["path"])
            case "backup":
                promised.backups.add(said["path"])
            case "redacted":
                promised.redacted[said["version"]] = said["text"]
            case "done":
                pass
            case _:
                raise ValueError(said)


class Diary:
    """What is promised while it is recorded."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def version(self, operation: str, path: str, text: str | None) -> None:
        """It survives from now on."""
        digest = None if text is None else sha256(text.encode()).hexdigest()
        self._mark(kind="version", operation=operation, path=path, sha256=digest)

    def directory(self, path: str) -> None:
        """A directory survives from now on."""
        self._mark(kind="directory", path=path)

    def backup(self, path: Path) -> None:
        """A backup is there from now on."""
        self._mark(kind="backup", path=os.path.relpath(path, self.recorder.below))

    def redacted(self, version: str, text: str) -> None:
        """A text is nowhere from now on."""
        self._mark(kind="redacted", version=version, text=text)

    def done(self) -> None:
        """A command has ended that promises nothing of a loss of power: a good moment for one."""
        self._mark(kind="done")

    def _mark(self, **said: Any) -> None:
        self.recorder.mark(json.dumps(said))


@dataclass
class Examined:
    """Images that were opened, by what the disk had taken up, and what was wrong with them."""

    images: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    """What was found: no database, or how much of the history."""
    moments: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: "Examined") -> None:
        """Others too."""
        self.images += other.images
        self.states += other.states
        self.moments += other.moments
        self.wrong += other.wrong


def moments(events: list[Event], count: int, chance: random.Random) -> list[int]:
    """So many numbers of events after which the power goes: after each promise, around what is rare, and by chance."""
    marks = [number for number, event in enumerate(events, 1) if event.kind == Kind.MARK]
    rare = [
        number + after
        for number, event in enumerate(events, 1)
        if event.kind not in (Kind.WRITE, Kind.MARK)
        for after in (-1, 0)
    ]
    some = [chance.randint(1, len(events)) for _ in range(count)]
    chosen: list[int] = []
    for each, share in ((marks, 3), (rare, 3), (some, 3)):
        chosen += chance.sample(each, min(len(each), -(-count // share)))
    return sorted(chosen)[: max(count, 1)] if len(chosen) < count else sorted(chance.sample(chosen, count))


def examine(
    events: list[Event],
    below: Path,
    database: str,
    history: History,
    *,
    count: int,
    seed: int,
    place: Path,
    told: Callable[[int], None] = lambda _: None,
) -> Examined:
    """Cut a recording off at ``count`` moments, and look at what may be left then, five images each.

    ``database`` is its path from ``below``; ``place`` an empty directory for the images.
    """
    chance = random.Random(seed)
    found = Examined()
    disk, promised, done = Disk(below), Promised(), 0
    for number in moments(events, count, chance):
        for event in events[done:number]:
            disk.do(event)
            if event.kind == Kind.MARK:
                history.promise(promised, json.loads(event.data))
        done = max(done, number)
        found.moments += 1
        for taken in TAKEN:
            image = disk.left(taken, chance)
            directory = Path(tempfile.mkdtemp(dir=place))
            put(image, directory)
            try:
                wrong = list(_look(directory, database, history, promised, found.states))
            except sqlite3.Error as error:
                wrong = [f"it cannot be read: {error}"]
            found.images[taken] += 1
            if wrong:
                moment = f"seed {seed}, power lost after event {number} ({events[number - 1]})"
                found.wrong.append(f"{moment}, {taken} of what was not synced taken up: {'; '.join(wrong)}")
            else:
                shutil.rmtree(directory)
        told(found.moments)
    return found


def _look(directory: Path, database: str, history: History, promised: Promised, states: Counter[str]) -> Iterator[str]:
    path = directory / database
    for name in promised.backups:
        if not (directory / name).exists():
            yield f"the backup {name} is gone"
    for other in directory.rglob("backup*.db"):
        try:
            yield from (f"the backup {other.name} is not whole: {each}" for each in check(other).violations)
        except MemfsError as error:
            yield f"the backup {other.name} is not whole: {error}"
    for version, text in promised.redacted.items():
        yield from (f"{where} holds the text of {version}" for where in _holding(directory, text))
    try:
        violations = list(map(str, check(path).violations))
        rows = rows_of(path)
    except NotFound:
        states["no database"] += 1
        if promised.versions or promised.redacted:
            yield "there is no database"
        rows = []
    except MemfsError as error:
        yield f"it cannot be opened: {error}"
        return
    else:
        states[history.state(rows)] += 1
        yield from history.differs(rows, promised)
        yield from history.damaged(rows, violations)
        yield from history.beside(directory, rows)
        if missing := promised.directories - directories_of(path):
            yield f"directories that were synced are gone: {sorted(missing)}"
    yield from _goes_on(path, directory, rows, history)


def _holding(directory: Path, text: str) -> Iterator[str]:
    for path in directory.rglob("*"):
        if path.is_file() and text.encode() in path.read_bytes():
            yield path.name


def _goes_on(path: Path, directory: Path, rows: list[Row], history: History) -> Iterator[str]:
    """It can be worked with: whatever was left open is ended, and something is written."""
    try:
        with Workspace.open(path, create=True) as workspace:
            workspace.scrub()
            store = workspace.stores.create("afterwards")
            workspace.memories.create(store.id, "/afterwards.md", b"afterwards", SOMEBODY)
    except MemfsError as error:
        yield f"it cannot be written to: {error}"
        return
    now = rows_of(path)
    violations = list(map(str, check(path).violations))
    yield from (f"after it was written to: {each}" for each in history.damaged(now, violations))
    if now[: len(rows)] != rows or len(now) != len(rows) + 1:
        yield "another history after it was written to"
    for row in rows:
        if row[11] is not None and row[1] in history.secrets:
            text = history.secrets[row[1]]
            yield from (f"{where} holds the text of {row[1]} for good" for where in _holding(directory, text))


def replayed(events: Iterable[Event], below: Path) -> dict[str, bytes]:
    """What the files hold where everything was taken up: to be compared with the real ones."""
    disk = Disk(below)
    for event in events:
        disk.do(event)
    return _without_empty_logs(disk.left("all", random.Random(0)))


def real_files(below: Path) -> dict[str, bytes]:
    """What they hold indeed, without what is not recorded."""
    return _without_empty_logs(
        {
            os.path.relpath(path, below): path.read_bytes()
            for path in sorted(below.rglob("*"))
            if path.is_file() and not path.name.endswith("-shm")
        }
    )


def _without_empty_logs(files: dict[str, bytes]) -> dict[str, bytes]:
    """Somebody who is not recorded may have made one (see ``Disk.do``)."""
    return {name: content for name, content in files.items() if content or not name.endswith("-wal")}
