"""Where memories and kept directories are: their paths."""

import sqlite3
from collections.abc import Iterable, Iterator
from functools import lru_cache

from memfs.engine.invariants.invariant import ROWS_A_TIME, Told, quiet
from memfs.engine.rows import record_change
from memfs.model.errors import InvalidPath
from memfs.model.findings import Violation
from memfs.model.paths import ancestors, check_path


@lru_cache(maxsize=16_384)
def _broken_rule(path: object) -> str:
    """What is wrong with a path; empty where nothing is."""
    if not isinstance(path, str):
        return f"the path {path!r} is no text"
    try:
        check_path(path)
    except InvalidPath as error:
        return str(error)
    return ""


def live_paths(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Store, id and path of each live memory of which these are texts."""
    return [
        row
        for row in db.execute("SELECT store_id, id, path FROM memories ORDER BY store_id, path")
        if all(isinstance(value, str) for value in row)
    ]


def paths(db: sqlite3.Connection, told: Told = quiet) -> Iterator[Violation]:
    """Paths of memories, versions and kept directories obey the rules for paths (``memfs.model.paths``)."""
    (total,) = db.execute("SELECT count(*) FROM memory_versions").fetchone()
    rows = db.execute("SELECT store_id, memory_id, id, path FROM memory_versions WHERE path IS NOT NULL")
    for done, (store_id, memory_id, version_id, path) in enumerate(rows):
        if done % (10 * ROWS_A_TIME) == 0:
            told(done, total)
        if broken := _broken_rule(path):
            yield Violation("paths", broken, store_id, memory_id, version_id)
    for store_id, memory_id, path in db.execute("SELECT store_id, id, path FROM memories"):
        if broken := _broken_rule(path):
            yield Violation("paths", broken, store_id, memory_id)
    for store_id, path in db.execute("SELECT store_id, path FROM kept_directories"):
        if broken := _broken_rule(path):
            yield Violation("paths", f"a kept directory: {broken}", store_id)


def unique(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """No two live memories of a store are at one path."""
    before: tuple[str, str, str] = ("", "", "")
    for row in live_paths(db):
        store_id, memory_id, path = row
        if (store_id, path) == (before[0], before[2]):
            yield Violation("unique", f"the memory {before[1]} is there too", store_id, memory_id, path=path)
        before = row


def _above(paths_of: Iterable[tuple[str, str]], taken: dict[tuple[str, str], str]) -> Iterator[tuple[str, str, str]]:
    """Of paths in stores those that lie below a memory, with its id."""
    for store_id, path in paths_of:
        for parent in ancestors(path):
            if (store_id, parent) in taken:
                yield store_id, path, taken[store_id, parent]
                break


def above(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """No memory lies below another one's path."""
    taken = {(store_id, path): memory_id for store_id, memory_id, path in live_paths(db)}
    for store_id, path, parent in _above(taken, taken):
        yield Violation("ancestors", f"it lies below the memory {parent}", store_id, taken[store_id, path], path=path)


def directories(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """No kept directory is at a memory's path, or below it."""
    for store_id, path, memory_id in _misplaced(db):
        found = f"a kept directory is at or below the path of the memory {memory_id}"
        yield Violation("directories", found, store_id, memory_id, path=path, repair="drops the directory")


def _misplaced(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    taken = {(store_id, path): memory_id for store_id, memory_id, path in live_paths(db)}
    rows = db.execute("SELECT store_id, path FROM kept_directories")
    kept = [row for row in rows if all(isinstance(value, str) for value in row)]
    return [(*place, taken[place]) for place in kept if place in taken] + list(_above(kept, taken))


def repair_directories(db: sqlite3.Connection) -> None:
    """Drop the kept directories that are where a memory is."""
    for store_id, path, _ in _misplaced(db):
        db.execute("DELETE FROM kept_directories WHERE store_id = ? AND path = ?", (store_id, path))
        record_change(db, store_id, "directories")
