"""Mutations: what one transaction does to one store.

A batch is applied as a whole, and its rules (a path is used once and lies neither above nor below another) hold for
the state after it, not between its parts: so that a directory's rename, an exchange of two names and an atomic save
are plain batches. It creates, updates or deletes each memory once at most. Memory ids are made by the caller, who can
thus recognise its own changes in the change feed.
"""

from dataclasses import dataclass

from memfs.model.records import FileAttributes, Head, Merged

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
class Edit:
    """What the content of an update was made from, for a memory that has changed since (DESIGN.md 8).

    ``base_version_id`` is the version that its writer started from, with the hash ``base_sha256``, None where it
    started from nothing that is known; ``base_text`` where it saw something else than that version's own text. The
    last ``appended`` bytes were appended, wherever the end was.
    """

    base_version_id: str | None
    base_sha256: str | None
    base_text: bytes | None = None
    appended: int = 0


@dataclass(frozen=True, slots=True)
class Update:
    """Change a memory's content, path or both; version ``modified``, or none where neither changes.

    ``content`` and ``path`` None keep what is there. ``expected_version`` and ``expected_sha256`` are preconditions
    on the head; a failed hash is still a success where the memory already is as wanted (CONTRACT.md 2).
    ``expected_path`` is where the memory was found: it is not the one that is meant once it is elsewhere (NotFound).
    Where the head is not what ``edit`` started from, the engine asks its caller for another content (``Rebase``);
    ``merged`` is put on record with the version, where there is one.
    """

    memory_id: str
    content: bytes | None = None
    path: str | None = None
    expected_version: str | None = None
    expected_sha256: str | None = None
    attributes: FileAttributes = KEEP
    expected_path: str | None = None
    edit: Edit | None = None
    merged: Merged | None = None


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
    the heads over stands at ``sequence`` and has missed nobody else's change. ``rebased`` are
    the memories whose content is another than the one that was given, because they had changed since (``Edit``).
    """

    previous: int
    sequence: int
    heads: dict[str, Head | None]
    rebased: frozenset[str] = frozenset()
