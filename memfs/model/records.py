"""Records: frozen values that the engine returns and the adapters show.

Times are RFC 3339 text in UTC with microseconds, ``2026-11-30T09:12:01.000123Z``: they sort as text. File times are
integers, nanoseconds since the epoch. Field names are those of CONTRACT.md 1.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

MAX_CONTENT_BYTES = 102_400
MAX_MEMORIES = 2_000
MAX_ATTACHMENTS = 8
MAX_INSTRUCTIONS = 4_096
MAX_DIRECTORIES = 4_000
"""Directories kept for their own sake in one store (made by mkdir, or emptied through a mount)."""

Operation = Literal["created", "modified", "deleted"]
Access = Literal["read_write", "read_only"]
ConflictPolicy = Literal["merge", "overwrite", "fail"]
"""What becomes of a text whose memory has changed since its writer read it (DESIGN.md 8)."""
ActorType = Literal["session_actor", "api_actor", "user_actor", "service_account_actor"]

_ACTOR_ID_FIELD: dict[ActorType, str] = {
    "session_actor": "session_id",
    "api_actor": "api_key_id",
    "user_actor": "user_id",
    "service_account_actor": "service_account_id",
}


def now() -> str:
    """The present as RFC 3339 text."""
    return format_time(datetime.now(UTC))


def format_time(moment: datetime) -> str:
    """An aware datetime as RFC 3339 text in UTC, always with six digits of a second: text order is time order."""
    # Not strftime, whose %Y has fewer than four digits for the first centuries.
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def time_ns(text: str) -> int:
    """RFC 3339 text as nanoseconds since the epoch."""
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1_000


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did something."""

    type: ActorType
    id: str

    def as_json(self) -> dict[str, str]:
        """The actor with the field name that its type has in CONTRACT.md 1."""
        return {"type": self.type, _ACTOR_ID_FIELD[self.type]: self.id}


GuardAction = Literal["reject", "mask"]
"""What a guard does with what it finds: refuse the whole write, or replace the found text."""


@dataclass(frozen=True, slots=True)
class Guards:
    """What a store refuses or masks in every write, by whatever way it comes. None and empty: no such guard.

    ``max_content_bytes`` is a limit below that of every store. ``allowed_paths`` are glob patterns of whole paths
    (``*`` and ``?`` within a segment, ``**`` across segments), of which a written path must match one.
    """

    secrets: GuardAction | None = None
    personal_data: GuardAction | None = None
    max_content_bytes: int | None = None
    allowed_paths: tuple[str, ...] = ()


NO_GUARDS = Guards()


@dataclass(frozen=True, slots=True)
class Store:
    """A named collection of memories."""

    id: str
    name: str
    description: str
    metadata: dict[str, str]
    created_at: str
    updated_at: str
    archived_at: str | None = None
    guards: Guards = NO_GUARDS


@dataclass(frozen=True, slots=True)
class MemoryPrefix:
    """A directory in a listing that does not go below it; ``path`` ends with ``/``."""

    path: str


@dataclass(frozen=True, slots=True)
class Memory:
    """A live memory with its head's facts; ``content`` is None where it was not asked for."""

    id: str
    memory_store_id: str
    memory_version_id: str
    path: str
    content_size_bytes: int
    content_sha256: str
    created_at: str
    updated_at: str
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """How a version came about whose writer had not started from the one before it, but from ``base_version_id`` (None
    where no version is known that it started from). ``conflict`` says that both had changed the same lines, so that
    those of the version before are in the history only (DESIGN.md 8).
    """

    base_version_id: str | None
    conflict: bool


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """An immutable row of a memory's history.

    ``content_size_bytes`` and ``content_sha256`` are None when deleted or redacted, ``path`` when redacted;
    ``content`` also where it was not asked for. ``sequence`` orders all versions of a workspace.
    """

    id: str
    memory_store_id: str
    memory_id: str
    sequence: int
    operation: Operation
    path: str | None
    content_size_bytes: int | None
    content_sha256: str | None
    created_at: str
    created_by: Actor
    redacted_at: str | None = None
    redacted_by: Actor | None = None
    content: bytes | None = None
    merged: Merged | None = None


@dataclass(frozen=True, slots=True)
class FileAttributes:
    """What a mount keeps about a memory or directory beside its text: None where the mount's default holds.

    ``mode`` are permission bits, ``mtime_ns`` nanoseconds since the epoch, ``inode`` the number that stat shows.
    """

    mode: int | None = None
    mtime_ns: int | None = None
    inode: int | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """What a mirror needs of a live memory: its path and the version it points at."""

    memory_id: str
    version_id: str
    path: str
    size: int
    sha256: str
    updated_at: str
    attributes: FileAttributes

    def mtime_ns(self) -> int:
        """When its text changed, as a mount shows it: nanoseconds since the epoch."""
        return time_ns(self.updated_at) if self.attributes.mtime_ns is None else self.attributes.mtime_ns


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory kept for its own sake, whether or not memories lie below it."""

    path: str
    updated_at: str
    attributes: FileAttributes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One store at a change sequence number."""

    sequence: int
    store: Store
    heads: list[Head]
    directories: list[Directory]


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of a store since a sequence number: the present state of everything that changed.

    ``heads`` maps each changed memory's id to its head, or to None where it is gone. ``directories`` is the whole
    list where any changed, else None; so is ``store``.
    """

    sequence: int
    heads: dict[str, Head | None]
    directories: list[Directory] | None
    store: Store | None


@dataclass(frozen=True, slots=True)
class AccessedMemory:
    """A live memory and when it was last read: None where that was never recorded."""

    memory: Memory
    accessed_at: str | None


@dataclass(frozen=True, slots=True)
class PastState:
    """A store as it was and as it is.

    ``versions`` holds, without content, the last version of that time of every memory that had one; ``unknown`` the
    first version left of every memory that existed before it, but whose state of that time was pruned.
    """

    sequence: int
    heads: list[Head]
    versions: list[MemoryVersion]
    unknown: list[MemoryVersion]


@dataclass(frozen=True, slots=True)
class Settings:
    """A workspace's settings: for how many days old versions are kept, and whether pruning them needs no asking."""

    retention_days: int = 30
    prune_automatically: bool = False


@dataclass(frozen=True, slots=True)
class Attachment:
    """A store bound to a session; name and description as they were then."""

    memory_store_id: str
    access: Access
    name: str
    description: str
    mount_path: str
    instructions: str = ""
    on_conflict: ConflictPolicy = "merge"


@dataclass(frozen=True, slots=True)
class Session:
    """One run of one agent; its attachments never change.

    ``title``, ``metadata``, those of the agent and ``environment_id`` are for whoever began it, and mean nothing here.
    """

    id: str
    created_at: str
    attachments: tuple[Attachment, ...] = field(default_factory=tuple)
    ended_at: str | None = None
    archived_at: str | None = None
    title: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    agent_id: str | None = None
    agent_version: int | None = None
    environment_id: str | None = None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key for the HTTP API. ``store_ids`` are the stores that it may use; None: all, also those to come.

    A key whose stores are all deleted may use none. The secret is nowhere: the database has its hash alone.
    """

    id: str
    name: str
    access: Access
    store_ids: tuple[str, ...] | None
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None
