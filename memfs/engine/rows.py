"""Rows of the SQLite schema as records, and the few statements that several modules share."""

import json
import sqlite3
from dataclasses import asdict
from typing import Any, cast

from memfs.engine.damage import (
    BLOB,
    NONE,
    NUMBER,
    TEXT,
    DamagedRow,
    Form,
    as_object,
    check_actor,
    check_placed,
    check_time,
    named,
)
from memfs.model.errors import NotFound
from memfs.model.records import (
    NO_GUARDS,
    Actor,
    Directory,
    FileAttributes,
    Guards,
    Head,
    Memory,
    MemoryVersion,
    Merged,
    Store,
)

Row = tuple[Any, ...]

HEAD = "id, head_version_id, path, content_size_bytes, content_sha256, updated_at, file_mode, file_mtime_ns, file_inode"
MEMORY = "id, store_id, head_version_id, path, content_size_bytes, content_sha256, created_at, updated_at"
VERSION = (
    "v.id, v.store_id, v.memory_id, v.sequence, v.operation, v.path, v.content_size_bytes, v.content_sha256,"
    " v.created_at, v.created_by_type, v.created_by_id, v.redacted_at, v.redacted_by_type, v.redacted_by_id,"
    " (SELECT base_version_id FROM merges WHERE merges.sequence = v.sequence),"
    " (SELECT conflict FROM merges WHERE merges.sequence = v.sequence)"
)
STORE = "id, name, description, metadata, created_at, updated_at, archived_at, guards"

_OPTIONAL_TEXT = TEXT + NONE
_OPTIONAL_NUMBER = NUMBER + NONE
_HEAD = Form("the memory", *[TEXT] * 3, NUMBER, *[TEXT] * 2, *[_OPTIONAL_NUMBER] * 3)
_MEMORY = Form("the memory", *[TEXT] * 4, NUMBER, *[TEXT] * 3, BLOB + NONE)
_VERSION = Form(
    "the version",
    *[TEXT] * 3,
    NUMBER,
    TEXT,
    _OPTIONAL_TEXT,
    _OPTIONAL_NUMBER,
    _OPTIONAL_TEXT,
    *[TEXT] * 3,
    *[_OPTIONAL_TEXT] * 4,
    _OPTIONAL_NUMBER,
    BLOB + NONE,
)
_STORE = Form("the store", *[TEXT] * 6, _OPTIONAL_TEXT, TEXT)
_DIRECTORY = Form("the kept directory", *[TEXT] * 2, *[_OPTIONAL_NUMBER] * 3)

CONTENT_OF_MEMORY = ", (SELECT bytes FROM contents WHERE contents.id = memories.content_id)"
CONTENT_OF_VERSION = ", (SELECT bytes FROM contents WHERE contents.id = v.content_id)"


def last_sequence(db: sqlite3.Connection) -> int:
    """The number of the newest change, which stays where it is when a store goes with all its changes."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
    if row is None:
        return 0
    if not isinstance(row[0], int):
        raise DamagedRow(f"the number of the newest change is {named(row[0])}")
    return row[0]


def workspace_numbers(db: sqlite3.Connection, *columns: str) -> Row:
    """Numbers of the one workspace. Raises DamagedRow where there is not one, or they are none."""
    rows = db.execute(f"SELECT {', '.join(columns)} FROM workspace").fetchall()
    if len(rows) != 1 or not all(isinstance(value, int) for value in rows[0]):
        raise DamagedRow(f"{' and '.join(columns)} of the workspace are {named(rows)}")
    return cast(Row, rows[0])


def scrubs(db: sqlite3.Connection) -> Row:
    """How many scrubs were wanted, and how many are done."""
    return workspace_numbers(db, "scrubs_wanted", "scrubs_done")


def record_change(db: sqlite3.Connection, store_id: str, subject: str, memory_id: str | None = None) -> int:
    cursor = db.execute(
        "INSERT INTO changes (store_id, subject, memory_id) VALUES (?, ?, ?)", (store_id, subject, memory_id)
    )
    return cast(int, cursor.lastrowid)


def get_store(db: sqlite3.Connection, store_id: str) -> Store:
    row = db.execute(f"SELECT {STORE} FROM memory_stores WHERE id = ?", (store_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no store {store_id}")
    return as_store(row)


def as_store(row: Row) -> Store:
    _STORE.check(row)
    return Store(row[0], row[1], row[2], as_object(row[3], row[0]), row[4], row[5], row[6], as_guards(row[7]))


def store_row(store: Store) -> Row:
    """The values of the columns of STORE."""
    return (
        store.id,
        store.name,
        store.description,
        json.dumps(store.metadata, ensure_ascii=False),
        store.created_at,
        store.updated_at,
        store.archived_at,
        guards_text(store.guards),
    )


def as_guards(text: str) -> Guards:
    if text == "{}":
        return NO_GUARDS
    fields = as_object(text, "a store's guards")
    try:
        return Guards(**{**fields, "allowed_paths": tuple(fields.get("allowed_paths", ()))})
    except TypeError as error:
        raise DamagedRow(f"a store's guards cannot be read: {error}") from None


def guards_text(guards: Guards) -> str:
    """Guards as JSON that holds only those that are on."""
    return json.dumps({name: value for name, value in asdict(guards).items() if value}, ensure_ascii=False)


def as_head(row: Row) -> Head:
    _HEAD.check(row)
    return Head(row[0], row[1], row[2], row[3], row[4], row[5], FileAttributes(row[6], row[7], row[8]))


def as_memory(row: Row) -> Memory:
    _MEMORY.check(row)
    return Memory(*row)


def head_of(db: sqlite3.Connection, memory_id: str, store_id: str | None = None) -> Head | None:
    row = db.execute(f"SELECT {HEAD}, store_id FROM memories WHERE id = ?", (memory_id,)).fetchone()
    if row is None or store_id not in (None, row[-1]):
        return None
    return as_head(row[:-1])


def get_directories(db: sqlite3.Connection, store_id: str) -> list[Directory]:
    """The directories that a store keeps, for a mirror."""
    found = []
    for row in db.execute(
        "SELECT path, updated_at, file_mode, file_mtime_ns, file_inode FROM kept_directories"
        " WHERE store_id = ? ORDER BY path",
        (store_id,),
    ):
        _DIRECTORY.check(row)
        check_placed(row[0])
        check_time(row[1])
        found.append(Directory(row[0], row[1], FileAttributes(*row[2:])))
    return found


def get_version(db: sqlite3.Connection, store_id: str, version_id: str) -> MemoryVersion:
    get_store(db, store_id)
    row = db.execute(
        f"SELECT {VERSION}{CONTENT_OF_VERSION} FROM memory_versions AS v WHERE v.id = ? AND v.store_id = ?",
        (version_id, store_id),
    ).fetchone()
    if row is None:
        raise NotFound(f"the store {store_id} has no version {version_id}")
    return as_version(row)


def as_version(row: Row) -> MemoryVersion:
    _VERSION.check(row)
    check_actor(row[9], row[0])
    if row[12] is not None:
        check_actor(row[12], row[0])
    redacted_by = None if row[12] is None else Actor(row[12], row[13])
    merged = None if row[15] is None else Merged(row[14], conflict=bool(row[15]))
    content = row[16] if len(row) > 16 else None
    return MemoryVersion(
        id=row[0],
        memory_store_id=row[1],
        memory_id=row[2],
        sequence=row[3],
        operation=row[4],
        path=row[5],
        content_size_bytes=row[6],
        content_sha256=row[7],
        created_at=row[8],
        created_by=Actor(row[9], row[10]),
        redacted_at=row[11],
        redacted_by=redacted_by,
        content=content,
        merged=merged,
    )


def keep_content(db: sqlite3.Connection, digest: str, content: bytes) -> int:
    """Store a text, unless it is there already; returns its number in the table."""
    cursor = db.execute(
        "INSERT INTO contents (sha256, size_bytes, bytes) VALUES (?, ?, ?) ON CONFLICT (sha256) DO NOTHING",
        (digest, len(content), content),
    )
    if cursor.rowcount:
        return cast(int, cursor.lastrowid)
    return cast(int, db.execute("SELECT id FROM contents WHERE sha256 = ?", (digest,)).fetchone()[0])
