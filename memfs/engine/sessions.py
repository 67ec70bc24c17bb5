"""The rows of sessions. All of it happens inside the caller's transaction."""

import json
import sqlite3

from memfs.engine.damage import NONE, NUMBER, TEXT, Form, as_object
from memfs.engine.protocol import SessionFilter
from memfs.engine.rows import Row
from memfs.model.errors import InvalidRequest, NotFound
from memfs.model.records import Attachment, Session

_SESSION = "id, created_at, ended_at, archived_at, title, metadata, agent_id, agent_version, environment_id"
_ATTACHMENT = "store_id, access, store_name, store_description, mount_path, instructions, on_conflict"
_SESSION_FORM = Form("the session", *[TEXT] * 2, *[TEXT + NONE] * 3, TEXT, TEXT + NONE, NUMBER + NONE, TEXT + NONE)
_ATTACHMENT_FORM = Form("the attachment of", *[TEXT] * 7)


def insert_session(db: sqlite3.Connection, session: Session) -> None:
    """See ``Engine.insert_session``."""
    row = (
        session.id,
        session.created_at,
        session.ended_at,
        session.archived_at,
        session.title,
        json.dumps(session.metadata, ensure_ascii=False),
        session.agent_id,
        session.agent_version,
        session.environment_id,
    )
    try:
        db.execute(f"INSERT INTO sessions ({_SESSION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    except sqlite3.IntegrityError:
        raise InvalidRequest(
            f"there is a session {session.id} already, and its stores are fixed: leave the id out to begin one"
        ) from None
    db.executemany(
        f"INSERT INTO session_attachments (session_id, position, {_ATTACHMENT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                session.id,
                position,
                a.memory_store_id,
                a.access,
                a.name,
                a.description,
                a.mount_path,
                a.instructions,
                a.on_conflict,
            )
            for position, a in enumerate(session.attachments)
        ],
    )


def get_session(db: sqlite3.Connection, session_id: str) -> Session:
    """See ``Engine.session``."""
    row = db.execute(f"SELECT {_SESSION} FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no session {session_id}")
    return _as_session(db, row)


def list_sessions(
    db: sqlite3.Connection, where: SessionFilter, *, newest_first: bool, limit: int | None
) -> list[Session]:
    """See ``Engine.sessions``."""
    conditions = [] if where.include_archived else ["archived_at IS NULL"]
    values: list[str | int] = []
    if where.ended is not None:
        conditions.append(f"ended_at IS {'NOT ' if where.ended else ''}NULL")
    for condition, value in (
        ("created_at >= ?", where.created_from),
        ("created_at <= ?", where.created_to),
        ("agent_id = ?", where.agent_id),
        ("coalesce(agent_version, 1) = ?", where.agent_version),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if where.store_id is not None:
        conditions.append("id IN (SELECT session_id FROM session_attachments WHERE store_id = ?)")
        values.append(where.store_id)
    if where.within is not None:
        # One whose stores are gone has none that it may be seen for.
        conditions.append("EXISTS (SELECT 1 FROM session_attachments WHERE session_id = sessions.id)")
        conditions.append(
            "NOT EXISTS (SELECT 1 FROM session_attachments WHERE session_id = sessions.id"
            " AND store_id NOT IN (SELECT value FROM json_each(?)))"
        )
        values.append(json.dumps(list(where.within)))
    if where.after is not None:
        conditions.append(f"(created_at, id) {'<' if newest_first else '>'} (?, ?)")
        values += where.after
    order = "DESC" if newest_first else "ASC"
    rows = db.execute(
        f"SELECT {_SESSION} FROM sessions {'WHERE ' if conditions else ''}{' AND '.join(conditions)}"
        f" ORDER BY created_at {order}, id {order} LIMIT ?",
        [*values, -1 if limit is None else limit],
    ).fetchall()
    return [_as_session(db, row) for row in rows]


def archive_session(db: sqlite3.Connection, session_id: str, at: str) -> Session:
    """See ``Engine.archive_session``."""
    db.execute(
        "UPDATE sessions SET archived_at = ?1, ended_at = coalesce(ended_at, ?1) WHERE id = ?2 AND archived_at IS NULL",
        (at, session_id),
    )
    return get_session(db, session_id)


def _as_session(db: sqlite3.Connection, row: Row) -> Session:
    _SESSION_FORM.check(row)
    attachments = db.execute(
        f"SELECT {_ATTACHMENT} FROM session_attachments WHERE session_id = ? ORDER BY position", (row[0],)
    ).fetchall()
    for fields in attachments:
        _ATTACHMENT_FORM.check(fields)
    return Session(
        id=row[0],
        created_at=row[1],
        attachments=tuple(Attachment(*fields) for fields in attachments),
        ended_at=row[2],
        archived_at=row[3],
        title=row[4],
        metadata=as_object(row[5], row[0]),
        agent_id=row[6],
        agent_version=row[7],
        environment_id=row[8],
    )
