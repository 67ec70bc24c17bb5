"""The SQLite engine: what is asked of a workspace, as statements on the tables of one database."""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

from memfs.engine import history, keys, sessions
from memfs.engine.batch import Batch
from memfs.engine.damage import check_head, check_time, text
from memfs.engine.database import Database
from memfs.engine.feed import FileFeed
from memfs.engine.protocol import Limits, Rebase, SessionFilter, VersionFilter
from memfs.engine.rows import (
    CONTENT_OF_MEMORY,
    CONTENT_OF_VERSION,
    HEAD,
    MEMORY,
    STORE,
    VERSION,
    as_guards,
    as_head,
    as_memory,
    as_store,
    as_version,
    get_directories,
    get_store,
    get_version,
    head_of,
    last_sequence,
    record_change,
    store_row,
    workspace_numbers,
)
from memfs.model import ids
from memfs.model.errors import NotFound, PreconditionFailed, StoreArchived
from memfs.model.mutations import Applied, Mutation
from memfs.model.paths import subtree_range
from memfs.model.records import (
    AccessedMemory,
    Actor,
    ApiKey,
    Changes,
    Guards,
    Head,
    Memory,
    MemoryPrefix,
    MemoryVersion,
    PastState,
    Session,
    Settings,
    Snapshot,
    Store,
)

ACCESS_RESOLUTION = timedelta(hours=1)
"""A memory that was read again within this time of what is on record needs no new record."""


class SqliteEngine:
    """A workspace in one SQLite file (see ``memfs.engine.protocol.Engine``)."""

    def __init__(self, path: Path, *, create: bool = False, read_only: bool = False) -> None:
        """Open the database; arguments and errors are those of ``Database``."""
        self.database = Database(path, create=create, read_only=read_only)

    def close(self) -> None:
        self.database.close()

    def check_in_place(self) -> None:
        self.database.check_in_place()

    def hurry(self, seconds: float) -> None:
        self.database.hurry(seconds)

    def sync(self) -> None:
        self.database.sync()

    # Stores

    def insert_store(self, store: Store) -> None:
        with self.database.write() as db:
            _insert_store(db, store)

    def insert_filled_store(self, store: Store, mutations: Sequence[Mutation], actor: Actor, *, limits: Limits) -> None:
        with self.database.write() as db:
            _insert_store(db, store)
            Batch(db, store.id, mutations, actor, limits).run()

    def store(self, store_id: str) -> Store:
        with self.database.read() as db:
            return get_store(db, store_id)

    def stores(
        self,
        *,
        include_archived: bool,
        created_from: str | None = None,
        created_to: str | None = None,
        within: Collection[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Store]:
        conditions = [
            ("created_at >= ?", created_from),
            ("created_at <= ?", created_to),
            ("id IN (SELECT value FROM json_each(?))", None if within is None else json.dumps(list(within))),
            ("id > ?", after),
        ]
        used = [(text, value) for text, value in conditions if value is not None]
        where = " AND ".join([text for text, _ in used] + ([] if include_archived else ["archived_at IS NULL"]))
        with self.database.read() as db:
            rows = db.execute(
                f"SELECT {STORE} FROM memory_stores {'WHERE ' if where else ''}{where} ORDER BY id LIMIT ?",
                [*(value for _, value in used), -1 if limit is None else limit],
            )
            return [as_store(row) for row in rows]

    def guards(self, store_id: str) -> Guards:
        with self.database.read() as db:
            row = db.execute("SELECT guards FROM memory_stores WHERE id = ?", (store_id,)).fetchone()
            if row is None:
                raise NotFound(f"there is no store {store_id}")
            return as_guards(row[0])

    def update_store(self, store_id: str, change: Callable[[Store], Store]) -> Store:
        with self.database.write() as db:
            before = get_store(db, store_id)
            after = change(before)
            if after != before:
                db.execute(
                    f"UPDATE memory_stores SET ({STORE}) = (?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?",
                    (*store_row(after), store_id),
                )
                record_change(db, store_id, "store")
            return after

    def delete_store(self, store_id: str) -> None:
        with self.database.write() as db:
            get_store(db, store_id)
            # The memories first: versions that heads point at cannot go.
            for table in ("memories", "memory_versions", "changes", "kept_directories", "session_attachments"):
                db.execute(f"DELETE FROM {table} WHERE store_id = ?", (store_id,))
            db.execute("DELETE FROM memory_stores WHERE id = ?", (store_id,))
            db.execute(
                "DELETE FROM contents WHERE NOT EXISTS (SELECT 1 FROM memory_versions WHERE content_id = contents.id)"
            )
            db.execute("UPDATE workspace SET scrubs_wanted = scrubs_wanted + 1")

    # Following a store

    def data_version(self) -> int:
        return self.database.data_version()

    def feed(self) -> FileFeed:
        return self.database.feed()

    def snapshot(self, store_id: str) -> Snapshot:
        with self.database.read() as db:
            heads = [as_head(row) for row in db.execute(f"SELECT {HEAD} FROM memories WHERE store_id = ?", (store_id,))]
            for head in heads:
                check_head(head)
            store = get_store(db, store_id)
            check_time(store.created_at)
            return Snapshot(
                sequence=last_sequence(db),
                store=store,
                heads=heads,
                directories=get_directories(db, store_id),
            )

    def changes(self, store_id: str, after: int) -> Changes:
        with self.database.read() as db:
            store = get_store(db, store_id)
            sequence = last_sequence(db)
            if sequence == after:
                return Changes(sequence, {}, None, None)
            heads: dict[str, Head | None] = {}
            directories = store_changed = False
            for subject, memory_id in db.execute(
                "SELECT DISTINCT subject, memory_id FROM changes WHERE sequence > ? AND store_id = ?", (after, store_id)
            ).fetchall():
                if subject == "memory":
                    head = heads[memory_id] = head_of(db, memory_id)
                    if head is not None:
                        check_head(head)
                elif subject == "directories":
                    directories = True
                else:
                    store_changed = True
            return Changes(
                sequence,
                heads,
                get_directories(db, store_id) if directories else None,
                store if store_changed else None,
            )

    # Memories

    def memories(
        self, store_id: str, prefix: str, *, content: bool, after: str | None = None, limit: int | None = None
    ) -> list[Memory]:
        first, beyond = subtree_range(prefix.removesuffix("/"))
        with self.database.read() as db:
            get_store(db, store_id)
            rows = db.execute(
                f"SELECT {MEMORY}{CONTENT_OF_MEMORY if content else ''} FROM memories"
                " WHERE store_id = ? AND path >= ? AND path < ? AND path > ? ORDER BY path LIMIT ?",
                (store_id, first, beyond, after or "", -1 if limit is None else limit),
            )
            return [as_memory(row) for row in rows]

    def children(
        self, store_id: str, prefix: str, *, content: bool, after: str | None = None, limit: int | None = None
    ) -> list[Memory | MemoryPrefix]:
        first, beyond = subtree_range(prefix.removesuffix("/"))
        if after is not None and after.endswith("/"):  # all that was rolled up comes before the next page
            first = max(first, subtree_range(after.removesuffix("/"))[1])
        found: list[Memory | MemoryPrefix] = []
        with self.database.read() as db:
            get_store(db, store_id)
            rows = db.execute(
                f"SELECT {MEMORY} FROM memories WHERE store_id = ? AND path >= ? AND path < ? AND path > ?"
                " ORDER BY path",
                (store_id, first, beyond, after or ""),
            )
            for row in rows:
                if len(found) == limit:
                    break
                memory = as_memory(row)
                name, below, _ = memory.path[len(prefix) :].partition("/")
                if not below:
                    found.append(replace(memory, content=_content(db, memory)) if content else memory)
                elif (marker := MemoryPrefix(f"{prefix}{name}/")) not in found[-1:]:
                    found.append(marker)
        return found

    def memory(self, store_id: str, memory_id: str) -> Memory:
        with self.database.read() as db:
            get_store(db, store_id)
            row = db.execute(
                f"SELECT {MEMORY}{CONTENT_OF_MEMORY} FROM memories WHERE id = ? AND store_id = ?",
                (memory_id, store_id),
            ).fetchone()
            if row is None:
                raise NotFound(f"the store {store_id} has no memory {memory_id}")
            return as_memory(row)

    def memory_at(self, store_id: str, path: str) -> Memory:
        with self.database.read() as db:
            get_store(db, store_id)
            row = db.execute(
                f"SELECT {MEMORY}{CONTENT_OF_MEMORY} FROM memories WHERE store_id = ? AND path = ?", (store_id, path)
            ).fetchone()
            if row is None:
                raise NotFound(f"the store {store_id} has no memory at {path}")
            return as_memory(row)

    def content(self, version_id: str) -> bytes:
        with self.database.read() as db:
            # What is read is mostly a head, and those are few: their index stays in the cache, whatever the history.
            row = db.execute(
                "SELECT bytes FROM memories JOIN contents ON contents.id = content_id WHERE head_version_id = ?",
                (version_id,),
            ).fetchone()
            if row is None:
                row = db.execute(
                    "SELECT bytes FROM memory_versions AS v JOIN contents ON contents.id = content_id WHERE v.id = ?",
                    (version_id,),
                ).fetchone()
            if row is None:
                raise NotFound(f"the version {version_id} has no content")
            return text(row[0], version_id)

    def apply(
        self,
        store_id: str,
        mutations: Sequence[Mutation],
        actor: Actor,
        *,
        limits: Limits,
        unchanged_since: int | None = None,
        guards: Guards | None = None,
        archived: bool = False,
        rebase: Rebase | None = None,
    ) -> Applied:
        with self.database.write() as db:
            _check_writable(db, store_id, guards, archived=archived)
            if unchanged_since is not None:
                row = db.execute(
                    "SELECT 1 FROM changes WHERE sequence > ? AND store_id = ? LIMIT 1", (unchanged_since, store_id)
                ).fetchone()
                if row is not None:
                    raise PreconditionFailed(f"the store {store_id} was changed meanwhile: look again")
            return Batch(db, store_id, mutations, actor, limits, rebase).run()

    # When memories were read

    def record_accesses(self, accesses: Mapping[str, str]) -> None:
        with self.database.read() as db:
            stored = {
                memory_id: at
                for given in accesses
                for memory_id, at in db.execute("SELECT * FROM memory_accesses WHERE memory_id = ?", (given,))
            }
        news = [
            (memory_id, at)
            for memory_id, at in accesses.items()
            if datetime.fromisoformat(at) - datetime.fromisoformat(stored.get(memory_id, _NEVER)) > ACCESS_RESOLUTION
        ]
        if not news:
            return
        with self.database.write_at_once() as db:
            db.executemany(
                "INSERT INTO memory_accesses SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM memories WHERE id = ?1)"
                " ON CONFLICT (memory_id) DO UPDATE SET accessed_at = max(accessed_at, excluded.accessed_at)",
                news,
            )

    def accessed_memories(self, store_id: str, prefix: str, *, before: str) -> list[AccessedMemory]:
        below, beyond = subtree_range(prefix.removesuffix("/"))
        with self.database.read() as db:
            get_store(db, store_id)
            rows = db.execute(
                f"SELECT {MEMORY}, NULL, accessed_at FROM memories LEFT JOIN memory_accesses ON memory_id = id"
                " WHERE store_id = ? AND path >= ? AND path < ? AND updated_at < ? AND coalesce(accessed_at, '') < ?"
                " ORDER BY path",
                (store_id, below, beyond, before, before),
            )
            return [AccessedMemory(as_memory(row[:-1]), row[-1]) for row in rows]

    # History

    def versions(
        self,
        store_id: str,
        where: VersionFilter,
        *,
        limit: int | None,
        before: int | None = None,
        after: int | None = None,
        oldest_first: bool = False,
        content: bool = False,
    ) -> list[MemoryVersion]:
        conditions: list[tuple[str, str | int | None]] = [
            ("v.store_id = ?", store_id),
            ("v.memory_id = ?", where.memory_id),
            ("v.operation = ?", where.operation),
            ("v.created_by_type = 'session_actor' AND v.created_by_id = ?", where.session_id),
            ("v.created_by_type = 'api_actor' AND v.created_by_id = ?", where.api_key_id),
            ("v.created_by_type = 'user_actor' AND v.created_by_id = ?", where.user_id),
            ("v.created_by_type = 'service_account_actor' AND v.created_by_id = ?", where.service_account_id),
            ("v.created_at >= ?", where.created_from),
            ("v.created_at <= ?", where.created_to),
            ("v.sequence IN (SELECT sequence FROM merges WHERE conflict) AND ?", where.conflicts or None),
            ("v.sequence < ?", before),
            ("v.sequence > ?", after),
        ]
        used = [(text, value) for text, value in conditions if value is not None]
        with self.database.read() as db:
            get_store(db, store_id)
            rows = db.execute(
                f"SELECT {VERSION}{CONTENT_OF_VERSION if content else ''} FROM memory_versions AS v"
                f" WHERE {' AND '.join(text for text, _ in used)}"
                f" ORDER BY v.sequence {'ASC' if oldest_first else 'DESC'} LIMIT ?",
                [*(value for _, value in used), -1 if limit is None else limit],
            )
            return [as_version(row) for row in rows]

    def memory_id_for(self, store_id: str, path_or_id: str) -> str | None:
        with self.database.read() as db:
            get_store(db, store_id)
            if ids.is_id(path_or_id, ids.MEMORY):
                statement = "SELECT memory_id FROM memory_versions WHERE store_id = ? AND memory_id = ? LIMIT 1"
            else:
                statement = "SELECT id FROM memories WHERE store_id = ? AND path = ?"
            row = db.execute(statement, (store_id, path_or_id)).fetchone()
            if row is None:
                row = db.execute(
                    "SELECT memory_id FROM memory_versions WHERE store_id = ? AND path = ?"
                    " ORDER BY sequence DESC LIMIT 1",
                    (store_id, path_or_id),
                ).fetchone()
        return None if row is None else cast(str, row[0])

    def version(self, store_id: str, version_id: str) -> MemoryVersion:
        with self.database.read() as db:
            return get_version(db, store_id, version_id)

    def past_state(self, store_id: str, *, at: str | None = None, version_id: str | None = None) -> PastState:
        with self.database.read() as db:
            return history.past_state(db, store_id, at, version_id)

    def redact(self, store_id: str, version_ids: Sequence[str], at: str, actor: Actor) -> list[MemoryVersion]:
        with self.database.write() as db:
            return history.redact(db, store_id, version_ids, at, actor)

    def prunable(self, store_id: str, before: str, *, after: int = 0, limit: int | None = None) -> list[MemoryVersion]:
        with self.database.read() as db:
            return history.prunable(db, store_id, before, after, limit)

    def prune(self, store_id: str, before: str, *, limit: int) -> int:
        with self.database.write() as db:
            return history.prune(db, store_id, before, limit)

    def knows_any(self, versions: Iterable[MemoryVersion]) -> bool:
        with self.database.read() as db:
            return history.any_known(db, versions)

    def insert_history(
        self,
        store_id: str,
        versions: Iterable[MemoryVersion],
        created_at: Mapping[str, str],
        *,
        limits: Limits,
        guards: Guards | None = None,
    ) -> int:
        with self.database.write() as db, history.large_cache(db):
            _check_writable(db, store_id, guards)
            return history.insert_history(db, store_id, versions, created_at, limits)

    def scrub(self, *, anyway: bool = False, wait: bool = True) -> bool:
        return self.database.scrub(anyway=anyway, wait=wait)

    # Settings

    def settings(self) -> Settings:
        with self.database.read() as db:
            return _settings(db)

    def update_settings(self, change: Callable[[Settings], Settings]) -> Settings:
        with self.database.write() as db:
            settings = change(_settings(db))
            db.execute(
                "UPDATE workspace SET retention_days = ?, prune_automatically = ?",
                (settings.retention_days, int(settings.prune_automatically)),
            )
            return settings

    def claim_pruning(self, before: str, at: str) -> bool:
        with self.database.write() as db:
            claimed = db.execute("UPDATE workspace SET pruned_at = ? WHERE coalesce(pruned_at, '') < ?", (at, before))
            return claimed.rowcount > 0

    # Sessions

    def insert_session(self, session: Session) -> None:
        with self.database.write() as db:
            sessions.insert_session(db, session)

    def session(self, session_id: str) -> Session:
        with self.database.read() as db:
            return sessions.get_session(db, session_id)

    def sessions(self, where: SessionFilter, *, newest_first: bool = True, limit: int | None = None) -> list[Session]:
        with self.database.read() as db:
            return sessions.list_sessions(db, where, newest_first=newest_first, limit=limit)

    def end_session(self, session_id: str, at: str) -> None:
        with self.database.write() as db:
            db.execute("UPDATE sessions SET ended_at = ? WHERE id = ? AND ended_at IS NULL", (at, session_id))

    def resume_session(self, session_id: str) -> None:
        with self.database.write() as db:
            db.execute("UPDATE sessions SET ended_at = NULL WHERE id = ? AND archived_at IS NULL", (session_id,))

    def archive_session(self, session_id: str, at: str) -> Session:
        with self.database.write() as db:
            return sessions.archive_session(db, session_id, at)

    # API keys

    def insert_api_key(self, key: ApiKey, secret_sha256: str) -> None:
        with self.database.write() as db:
            keys.insert_key(db, key, secret_sha256)

    def api_keys(self) -> list[ApiKey]:
        with self.database.read() as db:
            return keys.list_keys(db)

    def api_key(self, key_id: str) -> tuple[ApiKey, str]:
        with self.database.read() as db:
            return keys.get_key(db, key_id)

    def revoke_api_key(self, key_id: str, at: str) -> ApiKey:
        with self.database.write() as db:
            return keys.revoke_key(db, key_id, at)

    def record_api_key_uses(self, uses: Mapping[str, str]) -> None:
        with self.database.write_at_once() as db:
            keys.record_uses(db, uses)


_NEVER = "0001-01-01T00:00:00.000000Z"


def _check_writable(
    db: sqlite3.Connection, store_id: str, guards: Guards | None = None, *, archived: bool = False
) -> None:
    row = db.execute("SELECT archived_at, guards FROM memory_stores WHERE id = ?", (store_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no store {store_id}")
    if row[0] is not None and not archived:
        raise StoreArchived(f"the store {store_id} is archived: it can only be read")
    if guards is not None and guards != as_guards(row[1]):
        raise PreconditionFailed(f"the guards of the store {store_id} were changed meanwhile: try again")


def _content(db: sqlite3.Connection, memory: Memory) -> bytes:
    row = db.execute(
        "SELECT bytes FROM memories JOIN contents ON contents.id = content_id WHERE memories.id = ?", (memory.id,)
    ).fetchone()
    return text(None if row is None else row[0], memory.id)


def _settings(db: sqlite3.Connection) -> Settings:
    days, automatically = workspace_numbers(db, "retention_days", "prune_automatically")
    return Settings(days, bool(automatically))


def _insert_store(db: sqlite3.Connection, store: Store) -> None:
    db.execute(f"INSERT INTO memory_stores ({STORE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", store_row(store))
