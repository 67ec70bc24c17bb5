"""The live memories, which are what their newest versions say."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from memfs.engine.invariants.invariant import Told, quiet
from memfs.engine.invariants.places import live_paths
from memfs.engine.rows import record_change
from memfs.model.findings import Violation
from memfs.model.paths import ancestors

_WRONG_HEADS = """
FROM memories AS m LEFT JOIN memory_versions AS v
    ON v.sequence = (SELECT max(sequence) FROM memory_versions WHERE memory_id = m.id)
WHERE (v.id IS NOT m.head_version_id OR v.operation IS 'deleted' OR v.store_id IS NOT m.store_id
   OR v.path IS NOT m.path OR v.content_id IS NOT m.content_id OR v.content_sha256 IS NOT m.content_sha256
   OR v.content_size_bytes IS NOT m.content_size_bytes OR v.created_at IS NOT m.updated_at)
"""
_DELETED_HEADS = f"{_WRONG_HEADS} AND v.operation IS 'deleted'"
_LOST_HEADS = """
FROM memory_versions AS v
JOIN (SELECT max(sequence) AS newest FROM memory_versions GROUP BY memory_id) ON v.sequence = newest
WHERE v.operation != 'deleted' AND v.memory_id NOT IN (SELECT id FROM memories)
"""


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    """A live memory as its newest version has it."""

    memory_id: str
    store_id: str
    path: str
    is_there: bool


def heads(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """A memory lives where its newest version is no deletion, and is what that version says."""
    wrong = db.execute(
        f"SELECT m.store_id, m.id, m.head_version_id, m.path, v.sequence IS NOT NULL, v.operation IS 'deleted'"
        f" {_WRONG_HEADS}"
    ).fetchall()
    lost = db.execute(f"SELECT v.store_id, v.memory_id, v.id, v.path {_LOST_HEADS}").fetchall()
    rebuilt = {each.memory_id for each in _rebuildable(db)} if wrong or lost else set()
    for store_id, memory_id, version_id, path, has_version, is_deleted in wrong:
        found, repair = "the memory is not what its newest version says", "takes it from there"
        if not has_version:
            found, repair = "the memory has no version", ""
        elif is_deleted:
            found, repair = "the memory is there, but its newest version says that it was deleted", "takes it out"
        elif memory_id not in rebuilt:
            repair = ""  # its text is gone, or something else is at its path
        yield Violation("heads", found, store_id, memory_id, version_id, path, repair)
    for store_id, memory_id, version_id, path in lost:
        found = "the memory is not there, though its newest version is no deletion"
        repair = "makes it from there" if memory_id in rebuilt else ""
        yield Violation("heads", found, store_id, memory_id, version_id, path, repair)


def _rebuildable(db: sqlite3.Connection) -> list[_Rebuilt]:
    """Memories that can be made from their newest version, at a path where nothing stands in their way."""
    complete = "v.content_sha256 IN (SELECT sha256 FROM contents) AND v.path IS NOT NULL AND v.operation != 'deleted'"
    wanted = [
        _Rebuilt(*row)
        for row in (
            *db.execute(f"SELECT m.id, v.store_id, v.path, 1 {_WRONG_HEADS} AND {complete}"),
            *db.execute(f"SELECT v.memory_id, v.store_id, v.path, 0 {_LOST_HEADS} AND {complete}"),
        )
        if all(isinstance(value, str) for value in row[:3])
    ]
    if not wanted:
        return []
    there = {memory_id: (store_id, path) for store_id, memory_id, path in live_paths(db)}
    going = {memory_id for (memory_id,) in db.execute(f"SELECT m.id {_DELETED_HEADS}")}
    while True:
        taken: dict[tuple[str, str], list[str]] = defaultdict(list)
        after = {**there, **{each.memory_id: (each.store_id, each.path) for each in wanted}}
        for memory_id, place in after.items():
            if memory_id not in going:
                taken[place].append(memory_id)
        above = {(store_id, parent) for store_id, path in taken for parent in ancestors(path)}
        fitting = [
            each
            for each in wanted
            if len(taken[each.store_id, each.path]) == 1
            and (each.store_id, each.path) not in above
            and not any((each.store_id, parent) in taken for parent in ancestors(each.path))
        ]
        if len(fitting) == len(wanted):
            return wanted
        wanted = fitting


def repair_heads(db: sqlite3.Connection) -> None:
    """Make the memories from their newest versions, and take out those that are deleted there."""
    changed = db.execute(f"SELECT m.id, m.store_id {_DELETED_HEADS}").fetchall()
    rebuilt = _rebuildable(db)
    for memory_id, _ in changed:
        db.execute("DELETE FROM memory_accesses WHERE memory_id = ?", (memory_id,))
        db.execute("DELETE FROM memories WHERE id = ?", (memory_id,))
    for each in rebuilt:
        # Any text without a leading slash is outside of every path: names may have to be exchanged.
        db.execute("UPDATE memories SET path = id WHERE id = ?", (each.memory_id,))
    for each in rebuilt:
        newest = "FROM memory_versions WHERE memory_id = ?1 ORDER BY sequence DESC LIMIT 1"
        if each.is_there:
            db.execute(
                "UPDATE memories SET (store_id, path, head_version_id, content_sha256, content_size_bytes, content_id,"
                " updated_at) = (SELECT store_id, path, id, content_sha256, content_size_bytes, content_id, created_at"
                f" {newest}) WHERE id = ?1",
                (each.memory_id,),
            )
        else:
            db.execute(
                "INSERT INTO memories (id, store_id, path, head_version_id, content_sha256, content_size_bytes,"
                " content_id, updated_at, created_at) SELECT memory_id, store_id, path, id, content_sha256,"
                " content_size_bytes, content_id, created_at, (SELECT created_at FROM memory_versions"
                f" WHERE memory_id = ?1 ORDER BY sequence LIMIT 1) {newest}",
                (each.memory_id,),
            )
    for memory_id, store_id in [*changed, *((each.memory_id, each.store_id) for each in rebuilt)]:
        record_change(db, store_id, "memory", memory_id)  # for who follows the store
