"""What holds of every database, at any time: each invariant with how a violation is found, and how it can be repaired.

A repair changes what is recorded twice, or what nothing refers to; it never invents data, never takes a version or its
text away, and never makes a wrong hash right. What is left is reported: a person has to decide.

Finding reads only, in whatever transaction the caller has open. Repairs are made in the order of ``INVARIANTS``,
because the later ones rest on what the earlier ones have put right, and with foreign keys off, so that nothing goes
that was not meant.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any

from sqlite_utils import Database

from memfs.engine.rows import last_sequence, record_change
from memfs.engine.schema import migrations
from memfs.model import ids
from memfs.model.errors import InvalidPath
from memfs.model.findings import Violation
from memfs.model.paths import ancestors, check_path
from memfs.model.records import (
    MAX_ATTACHMENTS,
    MAX_CONTENT_BYTES,
    MAX_DIRECTORIES,
    MAX_INSTRUCTIONS,
    MAX_MEMORIES,
)

Told = Callable[[int, int], None]
"""Told how many of how many rows are looked at."""

ROWS_A_TIME = 500
"""Rows between two signs of life."""


def quiet(_done: int, _total: int) -> None:
    """For who wants no signs of life."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """One thing that always holds. ``advice`` is what a person can do about what cannot be repaired."""

    name: str
    holds: str
    find: Callable[[sqlite3.Connection, Told], Iterator[Violation]]
    repair: Callable[[sqlite3.Connection], None] | None = None
    advice: str = ""


# The file


_OF_INDEXES = ("missing from index", "wrong # of entries in index")
MOST_OF_FILE = 100


def file(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """SQLite's own check of every page, row and index."""
    for (said,) in db.execute(f"PRAGMA integrity_check({MOST_OF_FILE})"):
        if said != "ok":
            by_index = any(part in said for part in _OF_INDEXES)
            yield Violation("file", said.replace("\n", " "), repair="makes the indexes anew" if by_index else "")


def _repair_file(db: sqlite3.Connection) -> None:
    found = [each.repair for each in file(db)]
    if found and all(found):
        db.execute("REINDEX")


@cache
def _wanted() -> tuple[dict[str, set[Any]], dict[str, str]]:
    """What a new database has: the shape of each table, and the statement of each index and view by its name."""
    with closing(sqlite3.connect(":memory:")) as empty:
        migrations.apply(Database(empty, execute_plugins=False))
        return _shapes(empty), {
            name: sql
            for name, sql in empty.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('index', 'view')")
            if sql is not None
        }


def _shapes(db: sqlite3.Connection) -> dict[str, set[Any]]:
    """Of each table its columns, and what it keeps unique: not the text, which each SQLite writes its own way."""
    return {
        table: {
            *db.execute('SELECT name, upper(type), "notnull", dflt_value, pk FROM pragma_table_info(?)', (table,)),
            *db.execute(
                "SELECT (SELECT group_concat(name) FROM pragma_index_info(list.name)) FROM pragma_index_list(?) AS list"
                " WHERE list.origin != 'c'",
                (table,),
            ),
        }
        for (table,) in db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 1) != '_'"
            " AND name NOT GLOB 'sqlite_*'"
        ).fetchall()
    }


def schema(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """The tables, indexes and views are those that this memfs makes; others may stand beside them."""
    shapes, made = _wanted()
    there = _shapes(db)
    for table, shape in shapes.items():
        if table not in there:
            yield Violation("schema", f"the table {table} is missing")
        elif there[table] != shape:
            yield Violation("schema", f"the table {table} has other columns or keys than memfs gives it")
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('index', 'view')")}
    for name in made:
        if name not in names:
            yield Violation("schema", f"the index or view {name} is missing", repair="makes it")


def _repair_schema(db: sqlite3.Connection) -> None:
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('index', 'view')")}
    for name, statement in _wanted()[1].items():
        if name not in names:
            db.execute(statement)


def workspace(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """There is one workspace, and it counts its scrubs."""
    rows = db.execute("SELECT retention_days, scrubs_wanted, scrubs_done FROM workspace").fetchall()
    if len(rows) != 1:
        yield Violation("workspace", f"there are {len(rows)} workspaces, not one")
    for days, wanted, done in rows:
        if not isinstance(days, int) or days < 1:
            yield Violation("workspace", f"versions are kept for {days} days")
        if not isinstance(wanted, int) or not isinstance(done, int) or done > wanted:
            found = f"{done} scrubs are done, but {wanted} were wanted"
            yield Violation("workspace", found, repair="wants one more: the next command that may write does it")


def _repair_workspace(db: sqlite3.Connection) -> None:
    db.execute(
        "UPDATE workspace SET scrubs_wanted = 1, scrubs_done = 0 WHERE scrubs_done > scrubs_wanted"
        " OR typeof(scrubs_wanted) != 'integer' OR typeof(scrubs_done) != 'integer'"
    )


# References

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


def _repair_references(db: sqlite3.Connection) -> None:
    for table, condition in _LOOSE.items():
        db.execute(f"DELETE FROM {table} WHERE {condition}")


# Versions and texts

_KEEPS_TEXT = "v.operation != 'deleted' AND v.redacted_at IS NULL"
_WRONG_TEXTS = f"""
FROM memory_versions AS v LEFT JOIN contents AS c ON c.id = v.content_id
WHERE {_KEEPS_TEXT} AND (c.id IS NULL OR c.sha256 IS NOT v.content_sha256 OR c.size_bytes IS NOT v.content_size_bytes)
"""


def texts(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """A version that is neither a deletion nor redacted has a text, with the hash and the size that it tells of."""
    for store_id, memory_id, version_id, path, other, there in db.execute(
        "SELECT v.store_id, v.memory_id, v.id, v.path, c.id IS NULL OR c.sha256 IS NOT v.content_sha256,"
        f" v.content_sha256 IN (SELECT sha256 FROM contents) {_WRONG_TEXTS}"
    ):
        found, repair = "the version tells another size than its text has", "takes the size of the text"
        if other:
            found = "the version's text is not there, or another one than its hash tells"
            repair = "refers to the text with this hash again" if there else ""
        yield Violation("texts", found, store_id, memory_id, version_id, path, repair)


def _repair_texts(db: sqlite3.Connection) -> None:
    db.execute(
        "UPDATE memory_versions SET content_id = (SELECT id FROM contents WHERE sha256 = content_sha256)"
        f" WHERE sequence IN (SELECT v.sequence {_WRONG_TEXTS})"
        " AND content_sha256 IN (SELECT sha256 FROM contents)"
    )
    for number, digest, text in db.execute(
        "SELECT id, sha256, bytes FROM contents WHERE size_bytes IS NOT length(bytes)"
    ).fetchall():
        if isinstance(text, bytes) and sha256(text).hexdigest() == digest:
            db.execute("UPDATE contents SET size_bytes = ? WHERE id = ?", (len(text), number))
    db.execute(
        "UPDATE memory_versions SET content_size_bytes = (SELECT size_bytes FROM contents WHERE id = content_id)"
        f" WHERE sequence IN (SELECT v.sequence {_WRONG_TEXTS})"
        " AND content_sha256 = (SELECT sha256 FROM contents WHERE id = content_id)"
    )


def hashes(db: sqlite3.Connection, told: Told = quiet) -> Iterator[Violation]:
    """A text is UTF-8, and has the hash and the size by which it is known."""
    (total,) = db.execute("SELECT count(*) FROM contents").fetchone()
    rows = db.execute("SELECT id, sha256, size_bytes, bytes FROM contents")
    for done, (number, digest, size, text) in enumerate(rows):
        if done % ROWS_A_TIME == 0:
            told(done, total)
        found, repair = _judged(digest, size, text)
        if not found:
            continue
        where = db.execute(
            "SELECT store_id, memory_id, id, path FROM memory_versions WHERE content_id = ?", (number,)
        ).fetchall()
        for store_id, memory_id, version_id, path in where or [(None, None, None, None)]:
            yield Violation("hashes", found, store_id, memory_id, version_id, path, repair)


def _judged(digest: str, size: int, text: object) -> tuple[str, str]:
    """What is wrong with a text, and what a repair does; empty where nothing is."""
    if not isinstance(text, bytes):
        return "the text is not stored as bytes", ""
    if (found := sha256(text).hexdigest()) != digest:
        return f"the text has the hash {found}, not {digest}: it was changed", ""
    if len(text) != size:
        return f"the text has {len(text)} bytes, not {size}", "takes the size of the text"
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"the text is not UTF-8 at byte {error.start}", ""
    return "", ""


def states(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """A deletion has no text; a redacted version has neither text nor path, and says when and by whom; others have a
    path."""
    for store_id, memory_id, version_id, path, redacted, repairable in db.execute(
        f"""
        SELECT store_id, memory_id, id, path, redacted_at IS NOT NULL,
               {_NOT_EMPTIED} AND redacted_by_type IS NOT NULL AND redacted_by_id IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM memories WHERE head_version_id = v.id)
        FROM memory_versions AS v
        WHERE CASE
            WHEN redacted_at IS NOT NULL THEN {_NOT_EMPTIED} OR redacted_by_type IS NULL OR redacted_by_id IS NULL
            ELSE path IS NULL OR redacted_by_type IS NOT NULL OR redacted_by_id IS NOT NULL
                OR operation = 'deleted' AND coalesce(content_size_bytes, content_sha256, content_id) IS NOT NULL
        END
        """
    ):
        if redacted:
            repair = "takes out what the redaction left" if repairable else ""
            found = "the version is redacted, but has a path or a text, or does not say by whom"
        else:
            found, repair = "the version has what it should not have, or no path", ""
        yield Violation("states", found, store_id, memory_id, version_id, path, repair)


_NOT_EMPTIED = "coalesce(path, content_size_bytes, content_sha256, content_id) IS NOT NULL"


def _repair_states(db: sqlite3.Connection) -> None:
    emptied = db.execute(
        "UPDATE memory_versions SET path = NULL, content_size_bytes = NULL, content_sha256 = NULL, content_id = NULL"
        f" WHERE redacted_at IS NOT NULL AND {_NOT_EMPTIED} AND id NOT IN (SELECT head_version_id FROM memories)"
    )
    if emptied.rowcount:
        _want_scrub(db)


def operations(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """A memory is created first and after a deletion only, and stays in its store; its oldest versions may be gone."""
    for store_id, memory_id, version_id, path, operation, before, moved in db.execute(
        """
        SELECT store_id, memory_id, id, path, operation, before, moved FROM (
            SELECT *, lag(operation) OVER life AS before, lag(store_id) OVER life IS NOT store_id AS moved
            FROM memory_versions WINDOW life AS (PARTITION BY memory_id ORDER BY sequence)
        )
        WHERE before IS NOT NULL AND ((operation = 'created') != (before = 'deleted') OR moved)
        """
    ):
        found = "the version before it is of another store" if moved else f"{operation} cannot follow {before}"
        yield Violation("operations", found, store_id, memory_id, version_id, path)


def orphans(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """Every text is a version's."""
    repair = "" if _texts_missing(db) else "takes it out of the database"
    for digest, size in db.execute(f"SELECT sha256, size_bytes {_ORPHANS}"):
        yield Violation("orphans", f"no version has the text {digest} ({size} bytes)", repair=repair)


_ORPHANS = """
FROM contents WHERE NOT EXISTS (SELECT 1 FROM memory_versions WHERE content_id = contents.id)
AND NOT EXISTS (SELECT 1 FROM memories WHERE content_id = contents.id)
"""


def _texts_missing(db: sqlite3.Connection) -> bool:
    """Whether a version has lost its text for good: what no version has may be it."""
    row = db.execute(
        f"SELECT 1 {_WRONG_TEXTS} AND (v.content_sha256 IS NULL OR v.content_sha256 NOT IN"
        " (SELECT sha256 FROM contents)) LIMIT 1"
    ).fetchone()
    return row is not None


def _repair_orphans(db: sqlite3.Connection) -> None:
    if not _texts_missing(db) and db.execute(f"DELETE FROM contents WHERE id IN (SELECT id {_ORPHANS})").rowcount:
        _want_scrub(db)


def _want_scrub(db: sqlite3.Connection) -> None:
    db.execute("UPDATE workspace SET scrubs_wanted = scrubs_wanted + 1")


# The sequence of changes

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


def _repair_sequence(db: sqlite3.Connection) -> None:
    db.execute(
        "INSERT OR REPLACE INTO changes (sequence, store_id, subject, memory_id)"
        f" SELECT v.sequence, v.store_id, 'memory', v.memory_id {_WRONG_CHANGES}"
    )
    if last_sequence(db) < (newest := _newest(db)):
        db.execute("DELETE FROM sqlite_sequence WHERE name = 'changes'")
        db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('changes', ?)", (newest,))


# Heads

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
    wrong = db.execute(f"SELECT m.store_id, m.id, m.head_version_id, m.path, v.operation {_WRONG_HEADS}").fetchall()
    lost = db.execute(f"SELECT v.store_id, v.memory_id, v.id, v.path {_LOST_HEADS}").fetchall()
    rebuilt = {each.memory_id for each in _rebuildable(db)} if wrong or lost else set()
    for store_id, memory_id, version_id, path, newest in wrong:
        found, repair = "the memory is not what its newest version says", "takes it from there"
        if newest is None:
            found, repair = "the memory has no version", ""
        elif newest == "deleted":
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
    ]
    if not wanted:
        return []
    there = {memory_id: (store_id, path) for store_id, memory_id, path in _live(db)}
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


def _repair_heads(db: sqlite3.Connection) -> None:
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


# Paths


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


def _live(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Store, id and path of each live memory whose path is a text."""
    return [
        row
        for row in db.execute("SELECT store_id, id, path FROM memories ORDER BY store_id, path")
        if isinstance(row[2], str)
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
    for row in _live(db):
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
    taken = {(store_id, path): memory_id for store_id, memory_id, path in _live(db)}
    for store_id, path, parent in _above(taken, taken):
        yield Violation("ancestors", f"it lies below the memory {parent}", store_id, taken[store_id, path], path=path)


def directories(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """No kept directory is at a memory's path, or below it."""
    for store_id, path, memory_id in _misplaced(db):
        found = f"a kept directory is at or below the path of the memory {memory_id}"
        yield Violation("directories", found, store_id, memory_id, path=path, repair="drops the directory")


def _misplaced(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    taken = {(store_id, path): memory_id for store_id, memory_id, path in _live(db)}
    kept = [row for row in db.execute("SELECT store_id, path FROM kept_directories") if isinstance(row[1], str)]
    return [(*place, taken[place]) for place in kept if place in taken] + list(_above(kept, taken))


def _repair_directories(db: sqlite3.Connection) -> None:
    for store_id, path, _ in _misplaced(db):
        db.execute("DELETE FROM kept_directories WHERE store_id = ? AND path = ?", (store_id, path))
        record_change(db, store_id, "directories")


# Limits and forms


def limits(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """Nothing is over a limit (``memfs.model.records``)."""
    for table, most, what in (
        ("memories", MAX_MEMORIES, "memories"),
        ("kept_directories", MAX_DIRECTORIES, "kept directories"),
    ):
        for store_id, count in db.execute(
            f"SELECT store_id, count(*) FROM {table} GROUP BY store_id HAVING count(*) > ?", (most,)
        ):
            yield Violation("limits", f"the store has {count:,} {what}, and may have {most:,}", store_id)
    for store_id, memory_id, version_id, path, size in db.execute(
        "SELECT store_id, memory_id, id, path, content_size_bytes FROM memory_versions WHERE content_size_bytes > ?",
        (MAX_CONTENT_BYTES,),
    ):
        found = f"the text has {size:,} bytes, and may have {MAX_CONTENT_BYTES:,}"
        yield Violation("limits", found, store_id, memory_id, version_id, path)
    for session_id, count in db.execute(
        "SELECT session_id, count(*) FROM session_attachments GROUP BY session_id HAVING count(*) > ?",
        (MAX_ATTACHMENTS,),
    ):
        yield Violation("limits", f"the session {session_id} has {count} stores, and may have {MAX_ATTACHMENTS}")
    for session_id, store_id, length in db.execute(
        "SELECT session_id, store_id, length(instructions) FROM session_attachments WHERE length(instructions) > ?",
        (MAX_INSTRUCTIONS,),
    ):
        found = f"the session {session_id} has instructions of {length:,} characters, and may have {MAX_INSTRUCTIONS:,}"
        yield Violation("limits", found, store_id)


_IDS = (
    ("workspace", "id", ids.WORKSPACE),
    ("memory_stores", "id", ids.MEMORY_STORE),
    ("memories", "id", ids.MEMORY),
    ("memory_versions", "id", ids.MEMORY_VERSION),
    ("memory_versions", "memory_id", ids.MEMORY),
    ("sessions", "id", ids.SESSION),
    ("api_keys", "id", ids.API_KEY),
)
_TIMES = {
    "workspace": ("created_at", "pruned_at"),
    "memory_stores": ("created_at", "updated_at", "archived_at"),
    "memories": ("created_at", "updated_at"),
    "memory_versions": ("created_at", "redacted_at"),
    "kept_directories": ("updated_at",),
    "memory_accesses": ("accessed_at",),
    "sessions": ("created_at", "ended_at", "archived_at"),
    "api_keys": ("created_at", "expires_at", "revoked_at", "last_used_at"),
}
_OBJECTS = (("memory_stores", "metadata"), ("memory_stores", "guards"), ("sessions", "metadata"))
_DAY, _TIME_OF_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]", "[0-9][0-9]:[0-9][0-9]:[0-9][0-9]"
_TIME = f"{_DAY}T{_TIME_OF_DAY}.[0-9][0-9][0-9][0-9][0-9][0-9]Z"


@dataclass(frozen=True, slots=True)
class _Form:
    """The condition of a value that has not its form, and what that would be."""

    condition: str
    wanted: str


@cache
def _formed() -> dict[str, dict[str, _Form]]:
    """The columns of each table whose values are ids and times."""
    found: dict[str, dict[str, _Form]] = defaultdict(dict)
    for table, column, prefix in _IDS:
        found[table][column] = _Form(
            f"({column} NOT GLOB '{prefix}[0-7]*' OR length({column}) != {len(prefix) + 26}"
            f" OR substr({column}, {len(prefix) + 1}) GLOB '*[^0123456789ABCDEFGHJKMNPQRSTVWXYZ]*')",
            f"no id that begins with {prefix}",
        )
    for table, columns in _TIMES.items():
        for column in columns:
            found[table][column] = _Form(
                f"({column} IS NOT NULL AND ({column} NOT GLOB '{_TIME}' OR julianday({column}) IS NULL))",
                "no time like 2026-11-30T09:12:01.000123Z",
            )
    return found


def forms(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """Ids, times, JSON and the hashes of keys have their forms: what cannot be read would stop who reads it."""
    for table, rules in _formed().items():
        # One scan of a table, however many columns it has: most is read here.
        values, broken = ", ".join(rules), [f"coalesce({rule.condition}, 0)" for rule in rules.values()]
        for row in db.execute(f"SELECT {values}, {', '.join(broken)} FROM {table} WHERE {' OR '.join(broken)}"):
            for (column, rule), value, is_broken in zip(rules.items(), row, row[len(rules) :], strict=False):
                if is_broken:
                    yield Violation("forms", f"{table}.{column} is {value!r}, {rule.wanted}")
    for table, column in _OBJECTS:
        for of, value in db.execute(
            f"SELECT id, {column} FROM {table} WHERE CASE WHEN json_valid({column})"
            f" THEN json_type({column}) != 'object' ELSE 1 END"
        ):
            yield Violation("forms", f"{table}.{column} of {of} is {str(value)[:80]!r}, no JSON object")
    for (key_id,) in db.execute(
        "SELECT id FROM api_keys WHERE length(secret_sha256) != 64 OR secret_sha256 GLOB '*[^0-9a-f]*'"
        " OR all_stores NOT IN (0, 1)"
    ):
        yield Violation("forms", f"the key {key_id} has no hash of a secret, or does not say which stores are its")
    for (key_id,) in db.execute(
        "SELECT id FROM api_keys WHERE all_stores AND id IN (SELECT key_id FROM api_key_stores)"
    ):
        yield Violation("forms", f"the key {key_id} is for all stores and for certain ones")


_RESTORE = "restore a backup, or take out what can be read with 'memfs store export' and 'memfs version export'"

INVARIANTS = (
    Invariant("file", "SQLite finds no page, row or index damaged", file, _repair_file, _RESTORE),
    Invariant("schema", "the tables, indexes and views are memfs's", schema, _repair_schema, _RESTORE),
    Invariant("workspace", "there is one workspace", workspace, _repair_workspace, _RESTORE),
    Invariant(
        "states",
        "a deletion has no text, a redacted version nothing, each other version a path",
        states,
        _repair_states,
        "look at the version, and redact it, or restore a backup",
    ),
    Invariant(
        "texts",
        "each version has its text, with its hash and size",
        texts,
        _repair_texts,
        "the text is gone from this database: a backup from before may have it",
    ),
    Invariant(
        "hashes",
        "each text is UTF-8, with the hash and size that it is known by",
        hashes,
        _repair_texts,
        "do not trust this text: take it from a backup, and write it as a new version",
    ),
    Invariant(
        "operations",
        "a memory is created first, deleted last, and in one store",
        operations,
        None,
        "nothing has to be done where the clock was set back and versions were pruned since; else look for who writes"
        " to the database past memfs",
    ),
    Invariant(
        "heads",
        "a memory is what its newest version says",
        heads,
        _repair_heads,
        "look at the memory's history: 'memfs version list STORE --memory ID'",
    ),
    Invariant("references", "what rows refer to is there", references, _repair_references, _RESTORE),
    Invariant(
        "orphans",
        "each text is a version's",
        orphans,
        _repair_orphans,
        "it may be the text that a version has lost: see what is said of those",
    ),
    Invariant("sequence", "each version is a change, no number is used twice", sequence, _repair_sequence),
    Invariant("paths", "paths obey the rules", paths, None, "move the memory: 'memfs memory update STORE ID --path'"),
    Invariant(
        "unique",
        "one memory is at a path",
        unique,
        None,
        "move one of them: 'memfs memory update STORE ID --path'",
    ),
    Invariant(
        "ancestors",
        "no memory lies below another",
        above,
        None,
        "move one of them: 'memfs memory update STORE ID --path'",
    ),
    Invariant("directories", "no kept directory is where a memory is", directories, _repair_directories),
    Invariant(
        "limits",
        "nothing is over a limit",
        limits,
        None,
        "delete memories until the store is below it; a long text stays readable",
    ),
    Invariant("forms", "ids, times, JSON and keys can be read", forms, None, _RESTORE),
)
"""All of them, in the order in which repairs are made."""
