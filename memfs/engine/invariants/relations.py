"""What rows say of one another: references, and the sequence of changes."""

import sqlite3
from collections.abc import Iterator

from memfs.engine.invariants.invariant import Told, quiet
from memfs.engine.rows import last_sequence
from memfs.model.findings import Violation

_NO_STORE = "store_id NOT IN (SELECT id FROM memory_stores) AND store_id NOT IN (SELECT store_id FROM memory_versions)"
_LOOSE = {
    "changes": _NO_STORE,
    "kept_directories": _NO_STORE,
    "merges": "sequence NOT IN (SELECT sequence FROM memory_versions)",
    "memory_accesses": "memory_id NOT IN (SELECT id FROM memories)",
    "session_attachments": f"session_id NOT IN (SELECT id FROM sessions) OR {_NO_STORE}",
    "api_key_stores": f"key_id NOT IN (SELECT id FROM api_keys) OR {_NO_STORE}",
}
"""Rows that say something of others, and nothing where those are gone: a store with all its versions takes them along.
Where the versions are there still, their store's row is what is missing."""


def references(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """What rows refer to is there."""
    for table, condition in _LOOSE.items():
        (count,) = db.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()
        if count:
            yield Violation("references", f"{count} rows of {table} belong to nothing", repair="takes them out")
    for store_id, memory_id, version_id, path in db.execute(
        "SELECT store_id, memory_id, id, path FROM memory_versions WHERE store_id NOT IN (SELECT id FROM memory_stores)"
    ):
        yield Violation("references", "the version's store is not there", store_id, memory_id, version_id, path)
    for store_id, memory_id, path in db.execute(
        "SELECT store_id, id, path FROM memories WHERE store_id NOT IN (SELECT id FROM memory_stores)"
    ):
        yield Violation("references", "the memory's store is not there", store_id, memory_id, path=path)


def repair_references(db: sqlite3.Connection) -> None:
    """Take out the rows that belong to nothing."""
    for table, condition in _LOOSE.items():
        db.execute(f"DELETE FROM {table} WHERE {condition}")


_WRONG_CHANGES = """
FROM memory_versions AS v LEFT JOIN changes AS c ON c.sequence = v.sequence
WHERE c.subject IS NOT 'memory' OR c.memory_id IS NOT v.memory_id OR c.store_id IS NOT v.store_id
"""


def sequence(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """Each version is the change that made it, and no number is given twice. Numbers may be missing."""
    for store_id, memory_id, version_id, path in db.execute(
        f"SELECT v.store_id, v.memory_id, v.id, v.path {_WRONG_CHANGES}"
    ):
        found, repair = "the change that made the version is missing or another's", "puts it into the sequence"
        yield Violation("sequence", found, store_id, memory_id, version_id, path, repair)
    if last_sequence(db) < (newest := _newest(db)):
        found = f"the next number is {last_sequence(db) + 1}, but {newest} is used"
        yield Violation("sequence", found, repair="goes on from there")


def _newest(db: sqlite3.Connection) -> int:
    found: int = db.execute(
        "SELECT max(coalesce((SELECT max(sequence) FROM changes), 0),"
        " coalesce((SELECT max(sequence) FROM memory_versions), 0))"
    ).fetchone()[0]
    return found


def repair_sequence(db: sqlite3.Connection) -> None:
    """Put versions into the sequence where they are missing, and let it go on from the newest number."""
    db.execute(
        "INSERT OR REPLACE INTO changes (sequence, store_id, subject, memory_id)"
        f" SELECT v.sequence, v.store_id, 'memory', v.memory_id {_WRONG_CHANGES}"
    )
    if last_sequence(db) < (newest := _newest(db)):
        db.execute("DELETE FROM sqlite_sequence WHERE name = 'changes'")
        db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('changes', ?)", (newest,))
