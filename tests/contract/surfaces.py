"""What the contract suite asks of a surface, in the words of CONTRACT.md, and what no surface but some can be asked.

A surface is a way to the workspace: the workspace itself, the command line, the HTTP API. Each is one driver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from memfs.model.contract import JsonObject
from memfs.model.errors import MemfsError
from memfs.workspace import VersionFilter

SURFACES = ("workspace", "cli", "api")

View = Literal["basic", "full"]

Kind = type[MemfsError] | int | tuple[int, str]
"""How a surface says which error it is: the class itself, an exit code, a status with ``error.type``."""

EVERY_VERSION = VersionFilter()


class Refusal(Exception):
    """A surface refused. ``conflict`` are ``conflicting_memory_id`` and ``conflicting_path``, where it gives them."""

    def __init__(self, kind: Kind, message: str, conflict: tuple[str, str] | None = None) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.conflict = conflict


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list; ``next_page`` is None where it is the last."""

    data: list[JsonObject]
    next_page: Any


class Driver(Protocol):
    """One surface. Every operation answers with an object of CONTRACT.md 1, or raises Refusal.

    Lists are whole, whatever pages they come in. Contents are bytes, so that such can be given as are no text.
    """

    name: str
    actor: JsonObject
    """Whose changes they are that are made this way."""

    def kind_of(self, error: type[MemfsError]) -> Kind:
        """How this surface says that error, by its own table."""

    # Stores

    def create_store(
        self, name: str, description: str = "", metadata: Mapping[str, str] | None = None
    ) -> JsonObject: ...
    def get_store(self, store_id: str) -> JsonObject: ...
    def update_store(
        self,
        store_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> JsonObject: ...
    def list_stores(self, *, include_archived: bool = False) -> list[JsonObject]: ...
    def archive_store(self, store_id: str) -> JsonObject: ...
    def delete_store(self, store_id: str) -> JsonObject: ...

    # Memories

    def create_memory(self, store_id: str, path: str, content: bytes = b"text\n") -> JsonObject: ...
    def get_memory(self, store_id: str, memory_id: str) -> JsonObject: ...
    def update_memory(
        self,
        store_id: str,
        memory_id: str,
        *,
        content: bytes | None = None,
        path: str | None = None,
        expected_sha256: str | None = None,
    ) -> JsonObject: ...
    def delete_memory(self, store_id: str, memory_id: str, *, expected_sha256: str | None = None) -> JsonObject: ...
    def list_memories(
        self, store_id: str, prefix: str = "/", *, depth: int = 0, view: View = "basic"
    ) -> list[JsonObject]: ...

    # Versions

    def list_versions(
        self, store_id: str, where: VersionFilter = EVERY_VERSION, *, view: View = "basic"
    ) -> list[JsonObject]: ...
    def get_version(self, store_id: str, version_id: str) -> JsonObject: ...
    def redact_version(self, store_id: str, version_id: str) -> JsonObject: ...

    # What some surfaces lack

    def list_stores_between(self, created_from: str | None, created_to: str | None) -> list[JsonObject]: ...
    def store_page(self, limit: int, page: Any = None) -> Page: ...
    def memory_page(self, store_id: str, limit: int, page: Any = None, *, depth: int = 0) -> Page: ...
    def version_page(self, store_id: str, limit: int, page: Any = None) -> Page: ...
    def session_page(self, store_id: str, limit: int, page: Any = None) -> Page: ...
    def create_session(
        self,
        resources: Sequence[JsonObject],
        *,
        title: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> JsonObject: ...
    def get_session(self, session_id: str) -> JsonObject: ...
    def list_sessions(self, store_id: str, *, include_archived: bool = False) -> list[JsonObject]: ...
    def archive_session(self, session_id: str) -> JsonObject: ...


LACKING: dict[tuple[str, str], str] = {
    ("cli", "pages"): "a list is printed whole, and pipes cut it",
    ("cli", "full lists"): "lists never show contents: 'show' and 'export' do",
    ("cli", "stores by time"): "'store list' has no filter but the archived ones",
    ("cli", "versions by service account"): "service accounts come with imported histories alone",
    ("cli", "sessions without stores"): "a command that names no store says how to name one",
    ("cli", "empty updates"): "a command that names nothing to change is a mistake of whoever typed it",
    ("cli", "histories that never were"): "it takes paths too, and an empty list would hide a mistyped one",
    ("cli", "conflicts as fields"): "an error is one sentence, which names the memory in the way",
    ("api", "versions by user"): "CONTRACT.md 2 has no such filter",
}
"""What a surface cannot be asked, and why. Nothing else may be left out of the suite for one of them."""


def having(what: str | None) -> list[str]:
    """The surfaces that have something."""
    assert what is None or any(what == lacking for _, lacking in LACKING), what
    return [surface for surface in SURFACES if (surface, what) not in LACKING]
