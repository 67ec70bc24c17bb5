"""Single values: what may be how many or how long, and which form they have."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from memfs.engine.damage import named, shown
from memfs.engine.invariants.invariant import Told, quiet
from memfs.model import ids
from memfs.model.findings import Violation
from memfs.model.records import (
    MAX_ATTACHMENTS,
    MAX_CONTENT_BYTES,
    MAX_DIRECTORIES,
    MAX_INSTRUCTIONS,
    MAX_MEMORIES,
)


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
        "SELECT store_id, memory_id, id, path, content_size_bytes FROM memory_versions WHERE content_size_bytes > ?"
        " AND typeof(content_size_bytes) = 'integer'",
        (MAX_CONTENT_BYTES,),
    ):
        found = f"the text has {size:,} bytes, and may have {MAX_CONTENT_BYTES:,}"
        yield Violation("limits", found, store_id, memory_id, version_id, path)
    for session_id, count in db.execute(
        "SELECT session_id, count(*) FROM session_attachments GROUP BY session_id HAVING count(*) > ?",
        (MAX_ATTACHMENTS,),
    ):
        yield Violation("limits", f"the session {shown(session_id)} has {count} stores, and may have {MAX_ATTACHMENTS}")
    for session_id, store_id, length in db.execute(
        "SELECT session_id, store_id, length(instructions) FROM session_attachments WHERE length(instructions) > ?",
        (MAX_INSTRUCTIONS,),
    ):
        found = f"instructions of {length:,} characters, and may have {MAX_INSTRUCTIONS:,}"
        yield Violation("limits", f"the session {shown(session_id)} has {found}", store_id)


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
                    yield Violation("forms", f"{table}.{column} is {named(value)}, {rule.wanted}")
    for table, column in _OBJECTS:
        for of, value in db.execute(
            f"SELECT id, {column} FROM {table} WHERE CASE WHEN json_valid({column})"
            f" THEN json_type({column}) != 'object' ELSE 1 END"
        ):
            yield Violation("forms", f"{table}.{column} of {shown(of)} is {named(value)}, no JSON object")
    for (key_id,) in db.execute(
        "SELECT id FROM api_keys WHERE length(secret_sha256) != 64 OR secret_sha256 GLOB '*[^0-9a-f]*'"
        " OR all_stores NOT IN (0, 1)"
    ):
        yield Violation(
            "forms", f"the key {shown(key_id)} has no hash of a secret, or does not say which stores are its"
        )
    for (key_id,) in db.execute(
        "SELECT id FROM api_keys WHERE all_stores AND id IN (SELECT key_id FROM api_key_stores)"
    ):
        yield Violation("forms", f"the key {shown(key_id)} is for all stores and for certain ones")
