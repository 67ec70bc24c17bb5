"""The history as a whole: what was at a time, what is redacted, pruned or brought in.

All of it happens inside the caller's transaction.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256

from memfs.engine.protocol import Limits
from memfs.engine.rows import (
    HEAD,
    VERSION,
    Row,
    as_head,
    as_version,
    get_store,
    get_version,
    keep_content,
    last_sequence,
    record_change,
)
from memfs.model import ids
from memfs.model.errors import InvalidRequest, PathConflict, PreconditionFailed, StoreFull, VersionInUse
from memfs.model.mutations import KEEP
from memfs.model.paths import ancestors
from memfs.model.records import Actor, Head, MemoryVersion, PastState


def past_state(db: sqlite3.Connection, store_id: str, at: str | None, version_id: str | None) -> PastState:
    """See ``Engine.past_state``."""
    get_store(db, store_id)
    if version_id is not None:
        version = get_version(db, store_id, version_id)
        cut, at = version.sequence, version.created_at
    else:
        row = db.execute(
            "SELECT sequence FROM memory_versions WHERE store_id = ? AND created_at <= ?"
            " ORDER BY sequence DESC LIMIT 1",
            (store_id, at),
        ).fetchone()
        cut = 0 if row is None else row[0]
    heads = db.execute(f"SELECT {HEAD} FROM memories WHERE store_id = ? ORDER BY path", (store_id,))
    versions = db.execute(
        f"SELECT {VERSION} FROM memory_versions AS v JOIN"
        " (SELECT max(sequence) AS last FROM memory_versions WHERE store_id = ? AND sequence <= ? GROUP BY memory_id)"
        " ON v.sequence = last ORDER BY v.sequence",
        (store_id, cut),
    )
    unknown = db.execute(
        f"SELECT {VERSION} FROM memory_versions AS v JOIN"
        " (SELECT min(sequence) AS first FROM memory_versions WHERE store_id = ? GROUP BY memory_id"
        " HAVING min(sequence) > ?) ON v.sequence = first LEFT JOIN memories ON memories.id = v.memory_id"
        # A live memory tells when it was first made, though the version that made it may be pruned; and a deletion
        # tells of a life before it.
        " WHERE CASE WHEN memories.id IS NULL THEN v.operation != 'created' ELSE v.operation = 'deleted'"
        " OR memories.created_at <= ?"
        " AND NOT (v.operation = 'created' AND v.created_at = memories.created_at) END ORDER BY v.sequence",
        (store_id, cut, at),
    )
    return PastState(
        sequence=last_sequence(db),
        heads=[as_head(row) for row in heads],
        versions=[as_version(row) for row in versions],
        unknown=[as_version(row) for row in unknown],
    )


def drop_unreferenced(db: sqlite3.Connection, digests: Iterable[str]) -> None:
    """Remove texts that no version has any more."""
    db.executemany(
        "DELETE FROM contents WHERE sha256 = ? AND NOT EXISTS"
        " (SELECT 1 FROM memory_versions WHERE content_id = contents.id)",
        [(digest,) for digest in digests],
    )


def redact(
    db: sqlite3.Connection, store_id: str, version_ids: Sequence[str], at: str, actor: Actor
) -> list[MemoryVersion]:
    """See ``Engine.redact``."""
    get_store(db, store_id)
    digests = set()
    changed = False
    for version_id in version_ids:
        version = get_version(db, store_id, version_id)
        if version.redacted_at is not None:
            continue
        live = db.execute("SELECT path FROM memories WHERE head_version_id = ?", (version_id,)).fetchone()
        if live is not None:
            raise VersionInUse(
                f"the version {version_id} is what {live[0]} holds now: change the memory or delete it,"
                " then redact this version"
            )
        if version.content_sha256 is not None:
            digests.add(version.content_sha256)
        db.execute(
            "UPDATE memory_versions SET path = NULL, content_size_bytes = NULL, content_sha256 = NULL,"
            " content_id = NULL, redacted_at = ?, redacted_by_type = ?, redacted_by_id = ? WHERE id = ?",
            (at, actor.type, actor.id, version_id),
        )
        changed = True
    drop_unreferenced(db, digests)
    if changed:
        db.execute("UPDATE workspace SET scrubs_wanted = scrubs_wanted + 1")
    return [get_version(db, store_id, version_id) for version_id in version_ids]


def prunable(db: sqlite3.Connection, store_id: str, before: str, after: int, limit: int | None) -> list[MemoryVersion]:
    """See ``Engine.prunable``. The newest version of a live memory is its head."""
    get_store(db, store_id)
    rows = db.execute(
        f"SELECT {VERSION} FROM memory_versions AS v WHERE v.store_id = ? AND v.created_at < ? AND v.sequence > ?"
        " AND v.sequence < (SELECT max(newest.sequence) FROM memory_versions AS newest"
        " WHERE newest.memory_id = v.memory_id) ORDER BY v.sequence",
        (store_id, before, after),
    )
    # A clock that was set back makes what came later look older: a history is cut at its beginning alone.
    looked: dict[str, int] = {}
    kept: set[str] = set()
    found: list[MemoryVersion] = []
    for row in rows:
        if len(found) == limit:
            break
        version = as_version(row)
        memory_id = version.memory_id
        if memory_id in kept:
            continue
        newer = db.execute(
            "SELECT 1 FROM memory_versions WHERE memory_id = ? AND sequence > ? AND sequence < ? AND created_at >= ?",
            (memory_id, looked.get(memory_id, 0), version.sequence, before),
        ).fetchone()
        if newer is None:
            looked[memory_id] = version.sequence
            found.append(version)
        else:
            kept.add(memory_id)
    return found


def prune(db: sqlite3.Connection, store_id: str, before: str, limit: int) -> int:
    """See ``Engine.prune``."""
    versions = prunable(db, store_id, before, 0, limit)
    numbers = [(version.sequence,) for version in versions]
    db.executemany("DELETE FROM memory_versions WHERE sequence = ?", numbers)
    # A follower that stands before such a change still finds the later one of the same memory.
    db.executemany("DELETE FROM changes WHERE sequence = ?", numbers)
    drop_unreferenced(db, {version.content_sha256 for version in versions if version.content_sha256 is not None})
    return len(versions)


@contextmanager
def large_cache(db: sqlite3.Connection) -> Iterator[None]:
    """For a write of a million rows whose hashes fall all over an index: with the usual 2 MB a page is written many
    times."""
    (usual,) = db.execute("PRAGMA cache_size").fetchone()
    db.execute("PRAGMA cache_size = -65536")
    try:
        yield
    finally:
        db.execute(f"PRAGMA cache_size = {usual}")


def insert_history(
    db: sqlite3.Connection,
    store_id: str,
    versions: Iterable[MemoryVersion],
    created_at: Mapping[str, str],
    limits: Limits,
) -> int:
    """See ``Engine.insert_history``."""
    get_store(db, store_id)
    if db.execute("SELECT 1 FROM memory_versions WHERE store_id = ? LIMIT 1", (store_id,)).fetchone() is not None:
        raise PreconditionFailed(f"the store {store_id} has a history of its own: import a history into a new store")
    heads: dict[str, Head | None] = {}
    born: dict[str, str] = {}
    for version in versions:
        if version.memory_id not in heads and any_known(db, [version]):
            raise InvalidRequest(f"the memory {version.memory_id} or its version {version.id} is there already")
        if ids.leaves_no_room(version.id) or ids.leaves_no_room(version.memory_id):
            raise InvalidRequest(f"the version {version.id} or its memory has an id from the end of time")
        _check_order(version, version.memory_id in heads, heads.get(version.memory_id))
        _check_text(version)
        _insert_version(db, store_id, version)
        born.setdefault(version.memory_id, created_at.get(version.memory_id, version.created_at))
        heads[version.memory_id] = _head_after(version)
    live = {memory_id: head for memory_id, head in heads.items() if head is not None}
    if len(live) > limits.memories:
        raise StoreFull(f"the history ends with {len(live)} memories, and a store holds {limits.memories}")
    _check_paths(live)
    for memory_id, head in live.items():
        db.execute(
            "INSERT INTO memories"
            " SELECT ?, ?, ?, id, ?, ?, content_id, ?, ?, NULL, NULL, NULL FROM memory_versions WHERE id = ?",
            (
                memory_id,
                store_id,
                head.path,
                head.sha256,
                head.size,
                born[memory_id],
                head.updated_at,
                head.version_id,
            ),
        )
    return len(live)


def _check_order(version: MemoryVersion, known: bool, head: Head | None) -> None:
    """A memory is created before it is modified or deleted; only its oldest versions may have been pruned away."""
    fits = head is None if version.operation == "created" else head is not None or not known
    if not fits:
        raise InvalidRequest(
            f"the version {version.id} says {version.operation}, which cannot follow the version before it"
        )


def _check_text(version: MemoryVersion) -> None:
    """A version brings its own text, or it would get one that is in the workspace already by telling its hash."""
    has_none = version.operation == "deleted" or version.redacted_at is not None
    content = version.content
    own = (None, None) if content is None else (len(content), sha256(content).hexdigest())
    if has_none != (content is None) or own != (version.content_size_bytes, version.content_sha256):
        raise InvalidRequest(f"the version {version.id} has not the text that its size and hash tell of")


def _head_after(version: MemoryVersion) -> Head | None:
    """The head that a memory has after a version; a redacted one can only be followed by another."""
    if version.operation == "deleted":
        return None
    return Head(
        memory_id=version.memory_id,
        version_id=version.id,
        path=version.path or "",
        size=version.content_size_bytes or 0,
        sha256=version.content_sha256 or "",
        updated_at=version.created_at,
        attributes=KEEP,
    )


def _check_paths(live: Mapping[str, Head]) -> None:
    """Raises PathConflict, InvalidRequest."""
    owners: dict[str, str] = {}
    for memory_id, head in live.items():
        if not head.sha256:
            raise InvalidRequest(f"the memory {memory_id} ends with a redacted version, which no live memory can have")
        if head.path in owners:
            raise _conflict(head.path, owners[head.path], head.path)
        owners[head.path] = memory_id
    for path in owners:
        for above in ancestors(path):
            if above in owners:
                raise _conflict(path, owners[above], above)


def _conflict(path: str, memory_id: str, used: str) -> PathConflict:
    return PathConflict(
        f"the history ends with memories at {path} and at {used}, which cannot both be",
        conflicting_memory_id=memory_id,
        conflicting_path=used,
    )


def _insert_version(db: sqlite3.Connection, store_id: str, version: MemoryVersion) -> None:
    sequence = record_change(db, store_id, "memory", version.memory_id)
    content_id = None
    if version.content is not None:
        content_id = keep_content(db, sha256(version.content).hexdigest(), version.content)
    redacted: Row = (None, None)
    if version.redacted_by is not None:
        redacted = (version.redacted_by.type, version.redacted_by.id)
    try:
        db.execute(
            "INSERT INTO memory_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                sequence,
                version.id,
                store_id,
                version.memory_id,
                version.operation,
                version.path,
                version.content_size_bytes,
                version.content_sha256,
                content_id,
                version.created_at,
                version.created_by.type,
                version.created_by.id,
                version.redacted_at,
                *redacted,
            ),
        )
    except sqlite3.IntegrityError as error:
        raise InvalidRequest(f"the version {version.id} cannot be stored: {error}") from error


def any_known(db: sqlite3.Connection, versions: Iterable[MemoryVersion]) -> bool:
    """Whether one of these versions, or a memory of theirs, is in the workspace already."""
    memory_ids = set()
    for version in versions:
        memory_ids.add(version.memory_id)
        if db.execute("SELECT 1 FROM memory_versions WHERE id = ?", (version.id,)).fetchone() is not None:
            return True
    return any(
        db.execute("SELECT 1 FROM memory_versions WHERE memory_id = ? LIMIT 1", (memory_id,)).fetchone() is not None
        for memory_id in memory_ids
    )
