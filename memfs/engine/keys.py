"""The rows of API keys. All of it happens inside the caller's transaction."""

import sqlite3
from collections.abc import Mapping

from memfs.engine.damage import NONE, NUMBER, TEXT, Form
from memfs.engine.rows import Row, get_store
from memfs.model.errors import NotFound
from memfs.model.records import ApiKey

_KEY = "id, name, access, all_stores, created_at, expires_at, revoked_at, last_used_at"
_KEY_FORM = Form("the key", *[TEXT] * 3, NUMBER, TEXT, *[TEXT + NONE] * 3)


def insert_key(db: sqlite3.Connection, key: ApiKey, secret_sha256: str) -> None:
    """See ``Engine.insert_api_key``."""
    row = (
        key.id,
        key.name,
        key.access,
        int(key.store_ids is None),
        key.created_at,
        key.expires_at,
        key.revoked_at,
        key.last_used_at,
    )
    db.execute(
        f"INSERT INTO api_keys ({_KEY}, secret_sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, secret_sha256)
    )
    for store_id in key.store_ids or ():
        get_store(db, store_id)
        db.execute("INSERT OR IGNORE INTO api_key_stores VALUES (?, ?)", (key.id, store_id))


def list_keys(db: sqlite3.Connection) -> list[ApiKey]:
    """See ``Engine.api_keys``."""
    return [_as_key(db, row) for row in db.execute(f"SELECT {_KEY} FROM api_keys ORDER BY id").fetchall()]


def get_key(db: sqlite3.Connection, key_id: str) -> tuple[ApiKey, str]:
    """See ``Engine.api_key``."""
    row = db.execute(f"SELECT {_KEY}, secret_sha256 FROM api_keys WHERE id = ?", (key_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no API key {key_id}: 'memfs key list' shows them")
    return _as_key(db, row), row[-1]


def revoke_key(db: sqlite3.Connection, key_id: str, at: str) -> ApiKey:
    """See ``Engine.revoke_api_key``."""
    db.execute("UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", (at, key_id))
    return get_key(db, key_id)[0]


def record_uses(db: sqlite3.Connection, uses: Mapping[str, str]) -> None:
    """See ``Engine.record_api_key_uses``."""
    db.executemany(
        "UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, ''), ?) WHERE id = ?",
        [(at, key_id) for key_id, at in uses.items()],
    )


def _as_key(db: sqlite3.Connection, row: Row) -> ApiKey:
    _KEY_FORM.check(row)
    stores = db.execute("SELECT store_id FROM api_key_stores WHERE key_id = ? ORDER BY store_id", (row[0],))
    return ApiKey(
        id=row[0],
        name=row[1],
        access=row[2],
        store_ids=None if row[3] else tuple(store_id for (store_id,) in stores),
        created_at=row[4],
        expires_at=row[5],
        revoked_at=row[6],
        last_used_at=row[7],
    )
