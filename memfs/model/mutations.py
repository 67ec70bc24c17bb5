"""Mutations: what one transaction does to one store.

A batch is applied as a whole, and its rules (a path is used once and lies neither above nor below another) hold for
the state after it, not between its parts: so that a directory's rename, an exchange of two names and an atomic save
are plain batches. It creates, updates or deletes each memory once at most. Memory ids are made by the caller, who can
thus recognise its own changes in the change feed.
"""

from dataclasses import dataclass

from memfs.model.records import FileAttributes, Head

KEEP = FileAttributes()
"""Attributes of a mutation that leaves the stored ones as they are."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make a memory; version ``created``."""

    memory_id: str
    path: str
    content: bytes
    attributes: FileAttributes = KEEP


@dataclass(frozen=True, slots=True)
class Update:
    """Change a memory's content, path or both; version ``modified``, or none where neither changes.

    ``content`` and ``path`` None keep what is there. ``expected_version`` and ``expected_sha256`` are preconditions
    on the head; a failed hash is still a success where the memory already is as wanted (CONTRACT.md 2).
    ``expected_path`` is where the memory was found: it is not the one that is meant once it is elsewhere (NotFound).
    """

    memory_id: str
    content: bytes | None = None
    path: str | None = None
    expected_version: str | None = None
    expected_sha256: str | None = None
    attributes: FileAttributes = KEEP
    expected_path: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a memory; version ``deleted``. Preconditions are as those of ``Update``."""

    memory_id: str
    expected_version: str | None = None
    expected_sha256: str | None = None
    expected_path: str | None = None


@dataclass(frozen=True, slots=True)
class KeepDirectory:
    """Keep a directory for its own sake, or change a kept one's attributes; no version."""

    path: str
    attributes: FileAttributes = KEEP


@dataclass(frozen=True, slots=True)
class DropDirectory:
    """Stop keeping a directory; no version."""

    path: str


@dataclass(frozen=True, slots=True)
class MoveDirectory:
    """Rename a kept directory and the kept ones below it; no version. Memories below are moved by Updates."""

    path: str
    new_path: str


@dataclass(frozen=True, slots=True)
class SetAttributes:
    """Set file attributes of a memory; no version. None keeps a stored value."""

    memory_id: str
    attributes: FileAttributes


Mutation = Create | Update | Delete | KeepDirectory | DropDirectory | MoveDirectory | SetAttributes


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch came to: the heads of the memories it touched, None where deleted.

    Its changes have the numbers after ``previous`` up to ``sequence``: a follower that stands at ``previous`` and takes
    the heads over stands at ``sequence`` and has missed nobody else's change.
    """

    previous: int
    sequence: int
    heads: dict[str, Head | None]
