"""The objects of CONTRACT.md 1 as the OpenAPI document shows them; ``memfs.model.contract`` makes them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Shown(BaseModel):
    """Every field is always there."""

    model_config = ConfigDict(extra="forbid")


Time = Annotated[str, Field(json_schema_extra={"format": "date-time"}, description="RFC 3339, UTC.")]


class MemoryStore(Shown):
    """A named collection of memories."""

    id: str
    type: Literal["memory_store"]
    name: str
    description: str
    metadata: dict[str, str]
    created_at: Time
    updated_at: Time
    archived_at: Time | None


class DeletedMemoryStore(Shown):
    """What is left to say of a store."""

    id: str
    type: Literal["memory_store_deleted"]


class Memory(Shown):
    """A text at a path. ``content`` is null in the basic view."""

    id: str
    type: Literal["memory"]
    memory_store_id: str
    memory_version_id: str
    path: str
    content: str | None
    content_size_bytes: int
    content_sha256: str
    created_at: Time
    updated_at: Time


class MemoryPrefix(Shown):
    """A directory in a list that does not go below it."""

    path: str
    type: Literal["memory_prefix"]


class DeletedMemory(Shown):
    """What is left to say of a memory; its versions stay."""

    id: str
    type: Literal["memory_deleted"]


class SessionActor(Shown):
    """An agent, through a mount or the memory tool."""

    type: Literal["session_actor"]
    session_id: str


class ApiActor(Shown):
    """A client of this interface."""

    type: Literal["api_actor"]
    api_key_id: str


class UserActor(Shown):
    """A person at the command line."""

    type: Literal["user_actor"]
    user_id: str


class ServiceAccountActor(Shown):
    """A service account; comes with imported histories."""

    type: Literal["service_account_actor"]
    service_account_id: str


Actor = SessionActor | ApiActor | UserActor | ServiceAccountActor


class MemoryVersion(Shown):
    """One change of a memory. When redacted, its path, content, size and hash are null."""

    id: str
    type: Literal["memory_version"]
    memory_store_id: str
    memory_id: str
    operation: Literal["created", "modified", "deleted"]
    path: str | None
    content: str | None
    content_size_bytes: int | None
    content_sha256: str | None
    created_at: Time
    created_by: Actor
    redacted_at: Time | None
    redacted_by: Actor | None


class Attachment(Shown):
    """A store of a session; name and description are of when it began."""

    type: Literal["memory_store"]
    memory_store_id: str
    access: Literal["read_write", "read_only"]
    instructions: str
    name: str
    description: str
    mount_path: str


class Agent(Shown):
    """What clients of the hosted service read of a session's agent."""

    type: Literal["agent"]
    id: str
    version: int
    name: str
    description: str | None
    system: str | None
    model: dict[str, Any]
    execution_identity: dict[str, Any]
    skills: list[Any]
    tools: list[Any]
    mcp_servers: list[Any]
    multiagent: None


class Session(Shown):
    """One run of one agent. Its stores are fixed."""

    id: str
    type: Literal["session"]
    status: Literal["idle", "terminated"]
    title: str | None
    metadata: dict[str, str]
    agent: Agent
    environment_id: str
    resources: list[Attachment]
    created_at: Time
    updated_at: Time
    archived_at: Time | None
    budget: None
    deployment_id: None
    vault_ids: list[str]
    outcome_evaluations: list[Any]
    stats: dict[str, Any]
    usage: dict[str, Any]


class StorePage(Shown):
    """A page of stores."""

    data: list[MemoryStore]
    next_page: str | None


class MemoryPage(Shown):
    """A page of memories, in path order, directories among them where the depth is 1."""

    data: list[Memory | MemoryPrefix]
    next_page: str | None


class VersionPage(Shown):
    """A page of versions, newest first."""

    data: list[MemoryVersion]
    next_page: str | None


class SessionPage(Shown):
    """A page of sessions."""

    data: list[Session]
    next_page: str | None


class ErrorDetails(Shown):
    """What is wrong. The last two say what a path conflicts with."""

    type: str
    message: str
    conflicting_memory_id: str = ""
    conflicting_path: str = ""


class Error(Shown):
    """Every answer that is no success."""

    type: Literal["error"]
    error: ErrorDetails
    request_id: str


class Health(Shown):
    """Whether requests can be answered."""

    status: Literal["ok", "unavailable"]


_ANSWERS = {
    400: "A field breaks its rule.",
    401: "No API key, or none that is valid.",
    403: "The API key may not do this.",
    404: "No such store, memory, version or session.",
    409: "A conflict; the header x-should-retry says that repeating the request cannot help.",
    413: "The body is too large.",
    429: "Too many requests in a second; the header retry-after says when to come again.",
    500: "A fault, or a database that cannot be used.",
    503: "Another process has held the database for too long, or the server is stopping.",
}


def answers(model: Any, *refusals: int) -> dict[int | str, dict[str, Any]]:
    """The documented answers of an operation: its success, ``refusals`` of its own, and what any request may get."""
    found: dict[int | str, dict[str, Any]] = {200: {"model": model, "description": "Success."}}
    for status in sorted({*refusals, 400, 401, 403, 413, 429, 500, 503}):
        found[status] = {"model": Error, "description": _ANSWERS[status]}
    return found
