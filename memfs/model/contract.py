"""Records as the JSON objects of CONTRACT.md 1: pure functions that every adapter shares.

``content`` is text, or None where the record was read without it (the basic view).
"""

from typing import Any

from memfs.model.errors import UnusableDatabase
from memfs.model.records import ApiKey, Attachment, Memory, MemoryPrefix, MemoryVersion, Session, Store

JsonObject = dict[str, Any]


def as_text(content: bytes) -> str:
    """A text of the database as text. Raises UnusableDatabase where it is none any more: every text was, when written.

    Bytes are shown as they are where they are wanted: in a mount, an export of files and ``memfs memory show``.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UnusableDatabase(f"a text in the database is damaged ({error}): 'memfs check' says which") from None


def _text(content: bytes | None) -> str | None:
    return None if content is None else as_text(content)


def store_object(store: Store) -> JsonObject:
    """A ``memory_store``."""
    return {
        "id": store.id,
        "type": "memory_store",
        "name": store.name,
        "description": store.description,
        "metadata": dict(store.metadata),
        "created_at": store.created_at,
        "updated_at": store.updated_at,
        "archived_at": store.archived_at,
    }


def guards_object(store: Store) -> JsonObject:
    """A store's guards; None and an empty list stand for a guard that is off. Not part of the HTTP interface."""
    return {
        "memory_store_id": store.id,
        "secrets": store.guards.secrets,
        "personal_data": store.guards.personal_data,
        "max_content_bytes": store.guards.max_content_bytes,
        "allowed_paths": list(store.guards.allowed_paths),
    }


def memory_object(memory: Memory) -> JsonObject:
    """A ``memory``."""
    return {
        "id": memory.id,
        "type": "memory",
        "memory_store_id": memory.memory_store_id,
        "memory_version_id": memory.memory_version_id,
        "path": memory.path,
        "content": _text(memory.content),
        "content_size_bytes": memory.content_size_bytes,
        "content_sha256": memory.content_sha256,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
    }


def prefix_object(prefix: MemoryPrefix) -> JsonObject:
    """A ``memory_prefix``: a directory in a listing that does not go below it."""
    return {"path": prefix.path, "type": "memory_prefix"}


def listed_object(item: Memory | MemoryPrefix) -> JsonObject:
    """What a listing of memories holds."""
    return prefix_object(item) if isinstance(item, MemoryPrefix) else memory_object(item)


def deleted_memory_object(memory: Memory) -> JsonObject:
    """What is left to say of a memory that was deleted."""
    return {"id": memory.id, "type": "memory_deleted"}


def deleted_store_object(store: Store) -> JsonObject:
    """What is left to say of a store that was deleted."""
    return {"id": store.id, "type": "memory_store_deleted"}


def version_object(version: MemoryVersion) -> JsonObject:
    """A ``memory_version``; what a deleted or redacted one no longer has is None."""
    return {
        "id": version.id,
        "type": "memory_version",
        "memory_store_id": version.memory_store_id,
        "memory_id": version.memory_id,
        "operation": version.operation,
        "path": version.path,
        "content": _text(version.content),
        "content_size_bytes": version.content_size_bytes,
        "content_sha256": version.content_sha256,
        "created_at": version.created_at,
        "created_by": version.created_by.as_json(),
        "redacted_at": version.redacted_at,
        "redacted_by": None if version.redacted_by is None else version.redacted_by.as_json(),
    }


def attachment_object(attachment: Attachment) -> JsonObject:
    """An attachment as a session's resource."""
    return {
        "type": "memory_store",
        "memory_store_id": attachment.memory_store_id,
        "access": attachment.access,
        "instructions": attachment.instructions,
        "name": attachment.name,
        "description": attachment.description,
        "mount_path": attachment.mount_path,
    }


def session_object(session: Session) -> JsonObject:
    """A ``session``, with what clients of the hosted service read of one; what memfs has no use for is empty."""
    return {
        "id": session.id,
        "type": "session",
        "status": "idle" if session.ended_at is None else "terminated",
        "title": session.title,
        "metadata": dict(session.metadata),
        "agent": {
            "type": "agent",
            "id": session.agent_id or "",
            "version": session.agent_version or 1,
            "name": "",
            "description": None,
            "system": None,
            "model": {"id": ""},
            "execution_identity": {"type": "service_account"},
            "skills": [],
            "tools": [],
            "mcp_servers": [],
            "multiagent": None,
        },
        "environment_id": session.environment_id or "",
        "resources": [attachment_object(attachment) for attachment in session.attachments],
        "created_at": session.created_at,
        "updated_at": session.archived_at or session.ended_at or session.created_at,
        "archived_at": session.archived_at,
        "budget": None,
        "deployment_id": None,
        "vault_ids": [],
        "outcome_evaluations": [],
        "stats": {},
        "usage": {},
    }


def api_key_object(key: ApiKey) -> JsonObject:
    """An API key, without its secret; ``memory_store_ids`` is None where it may use all stores. Not part of the HTTP
    interface."""
    return {
        "id": key.id,
        "type": "api_key",
        "name": key.name,
        "access": key.access,
        "memory_store_ids": None if key.store_ids is None else list(key.store_ids),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }
