"""The official Python SDK, sync and async, takes the server for the hosted service.

Both clients validate every answer against the SDK's own types. Warnings of the SDK are errors.
"""

import logging
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import anthropic
import anyio
import httpx2
import pytest
from anthropic import APIStatusError
from anthropic._types import Omit
from anthropic.types.beta import (
    BetaManagedAgentsDeletedMemoryStore,
    BetaManagedAgentsMemoryStore,
    BetaManagedAgentsSession,
)
from anthropic.types.beta.memory_stores import (
    BetaManagedAgentsAPIActor,
    BetaManagedAgentsDeletedMemory,
    BetaManagedAgentsMemory,
    BetaManagedAgentsMemoryPrefix,
    BetaManagedAgentsMemoryVersion,
    BetaManagedAgentsServiceAccountActor,
    BetaManagedAgentsSessionActor,
    BetaManagedAgentsUserActor,
)
from anthropic.types.beta.sessions import BetaManagedAgentsMemoryStoreResource

from memfs.model import ids
from memfs.model.mutations import Create, Update
from memfs.model.records import MAX_MEMORIES, Actor
from memfs.workspace import Workspace
from tests.api.harness import Server, new_key, serving
from tests.api.sdk_clients import Credential, Kind, Sdk, Wire, opened
from tests.processes import environment

pytestmark = pytest.mark.anyio

STORES = "/v1/memory_stores"
STORE = f"{STORES}/{{id}}"
MEMORIES = f"{STORE}/memories"
MEMORY = f"{MEMORIES}/{{id}}"
VERSIONS = f"{STORE}/memory_versions"
VERSION = f"{VERSIONS}/{{id}}"
SESSIONS = "/v1/sessions"
SESSION = f"{SESSIONS}/{{id}}"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Where the async client runs."""
    return "asyncio"


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Which of the two clients."""
    found: Kind = request.param
    return found


@pytest.fixture
async def sdk(kind: Kind, server: Server) -> AsyncIterator[Sdk]:
    """A client that may do everything."""
    async with opened(kind, server) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_to_say(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The SDK logs no warning either."""
    yield
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING and "anthropic" in each.name]


@pytest.fixture(scope="module")
def full_store(server: Server, server_db: Path) -> str:
    """A store of 2,000 memories, every other one of them changed once."""
    paths = [f"/{number // 100:02}/note-{number:04}.md" for number in range(MAX_MEMORIES)]
    with Workspace.open(server_db) as workspace:
        store = workspace.stores.create("Full")
        actor = Actor("user_actor", "alice")
        made = [Create(ids.new_id(ids.MEMORY), path, path.encode()) for path in paths]
        workspace.memories.apply(store.id, made, actor)
        workspace.memories.apply(
            store.id, [Update(each.memory_id, content=b"changed " + each.content) for each in made[::2]], actor
        )
    return store.id


def key_id(server_db: Path, name: str = "test") -> str:
    """The id of a key, which versions name."""
    with Workspace.open(server_db, read_only=True) as workspace:
        return workspace.keys.resolve(name).id


def is_recent(moment: datetime, since: datetime) -> bool:
    """Whether the server made a time in UTC after that one and before now."""
    return moment.utcoffset() == timedelta(0) and since <= moment <= datetime.now(UTC)


# Every method


async def test_stores(sdk: Sdk) -> None:
    stores = sdk.client.beta.memory_stores
    began = datetime.now(UTC)
    made = await stores.create(name="Team notes", description="What we know", metadata={"team": "blue", "old": "1"})
    assert isinstance(made, BetaManagedAgentsMemoryStore)
    assert made.type == "memory_store"
    assert made.id.startswith("memstore_")
    assert (made.name, made.description) == ("Team notes", "What we know")
    assert made.metadata == {"team": "blue", "old": "1"}
    assert is_recent(made.created_at, began)
    assert made.updated_at == made.created_at
    assert made.archived_at is None
    assert made._request_id == sdk.wire.last.headers["request-id"]
    assert made._request_id is not None

    changed = await stores.update(made.id, description="", metadata={"old": None, "new": "2"})
    assert (changed.name, changed.description, changed.metadata) == ("Team notes", "", {"team": "blue", "new": "2"})
    assert changed.created_at == made.created_at
    assert is_recent(changed.updated_at, made.created_at)
    renamed = await stores.update(made.id, name="Notes of the team", description=None, metadata=None)
    assert (renamed.name, renamed.metadata) == ("Notes of the team", changed.metadata)
    assert await stores.retrieve(made.id) == renamed

    plain = await stores.create(name="x")
    assert (plain.description, plain.metadata) == ("", {})
    page = await stores.list(limit=100, created_at_gte=began)
    assert page.data == [renamed, plain]
    assert not page.has_next_page()

    archived = await stores.archive(plain.id)
    assert archived.archived_at is not None
    assert is_recent(archived.archived_at, plain.created_at)
    assert await stores.archive(plain.id) == archived
    assert [each.id async for each in stores.list(created_at_gte=began)] == [made.id]
    assert [each.id async for each in stores.list(created_at_gte=began, include_archived=True)] == [made.id, plain.id]
    with pytest.raises(anthropic.BadRequestError):
        await stores.update(plain.id, name="y")

    for each in (made.id, plain.id):
        gone = await stores.delete(each)
        assert isinstance(gone, BetaManagedAgentsDeletedMemoryStore)
        assert (gone.id, gone.type) == (each, "memory_store_deleted")
        with pytest.raises(anthropic.NotFoundError):
            await stores.retrieve(each)
    assert sdk.wire.take() == [
        f"POST {STORES}",
        f"POST {STORE}",
        f"POST {STORE}",
        f"GET {STORE}",
        f"POST {STORES}",
        f"GET {STORES}",
        f"POST {STORE}/archive",
        f"POST {STORE}/archive",
        f"GET {STORES}",
        f"GET {STORES}",
        f"POST {STORE}",
        *[f"DELETE {STORE}", f"GET {STORE}"] * 2,
    ]


async def test_memories(sdk: Sdk) -> None:
    store = await sdk.client.beta.memory_stores.create(name="Notes")
    memories = sdk.client.beta.memory_stores.memories
    sdk.wire.take()
    text = "Grüße, 世界 👋\r\nno newline at the end"
    made = await memories.create(store.id, path="/people/ada.md", content=text)
    assert isinstance(made, BetaManagedAgentsMemory)
    assert made.type == "memory"
    assert (made.memory_store_id, made.path, made.content) == (store.id, "/people/ada.md", None)
    assert made.id.startswith("mem_")
    assert made.memory_version_id.startswith("memver_")
    assert made.content_size_bytes == len(text.encode())
    assert made.content_sha256 == sha256(text.encode()).hexdigest()
    assert is_recent(made.created_at, store.created_at)
    assert made.updated_at == made.created_at

    shown = await memories.retrieve(made.id, memory_store_id=store.id)
    assert shown == made.model_copy(update={"content": text})
    assert await memories.retrieve(made.id, memory_store_id=store.id, view="basic") == made
    empty = await memories.create(store.id, path="/people/bob.md", content="", view="full")
    assert (empty.content, empty.content_size_bytes) == ("", 0)

    changed = await memories.update(
        made.id,
        memory_store_id=store.id,
        content="Ada",
        view="full",
        precondition={"type": "content_sha256", "content_sha256": made.content_sha256},
    )
    assert (changed.id, changed.content, changed.path) == (made.id, "Ada", made.path)
    assert changed.memory_version_id != made.memory_version_id
    assert changed.created_at == made.created_at
    assert is_recent(changed.updated_at, made.updated_at)
    renamed = await memories.update(made.id, memory_store_id=store.id, path="/ada.md")
    assert (renamed.id, renamed.path, renamed.content_sha256) == (made.id, "/ada.md", changed.content_sha256)
    again = await memories.update(made.id, memory_store_id=store.id, path="/ada.md", content="Ada")
    assert again == renamed  # nothing differs, so there is no version
    moved = await memories.update(made.id, memory_store_id=store.id, path="/people/old/ada.md", content="Ada L.")
    assert (moved.path, moved.content_size_bytes) == ("/people/old/ada.md", 6)

    await memories.create(store.id, path="/peoples.md", content="…")
    top = await memories.list(store.id, depth=1)
    assert [(type(each), each.path) for each in top.data] == [
        (BetaManagedAgentsMemoryPrefix, "/people/"),
        (BetaManagedAgentsMemory, "/peoples.md"),
    ]
    assert top.data[0].type == "memory_prefix"
    below = await memories.list(store.id, path_prefix="/people/", depth=1)
    assert [each.path for each in below.data] == ["/people/bob.md", "/people/old/"]
    assert below.data[0] == empty.model_copy(update={"content": None})
    everything = [each async for each in memories.list(store.id, path_prefix="/people/", depth=0, view="full")]
    assert [(each.path, each.content) for each in everything if each.type == "memory"] == [
        ("/people/bob.md", ""),
        ("/people/old/ada.md", "Ada L."),
    ]

    gone = await memories.delete(made.id, memory_store_id=store.id, expected_content_sha256=moved.content_sha256)
    assert isinstance(gone, BetaManagedAgentsDeletedMemory)
    assert (gone.id, gone.type) == (made.id, "memory_deleted")
    assert (await memories.delete(empty.id, memory_store_id=store.id)).id == empty.id
    assert [each.path async for each in memories.list(store.id)] == ["/peoples.md"]
    assert sdk.wire.take() == [
        f"POST {MEMORIES}",
        *[f"GET {MEMORY}"] * 2,
        f"POST {MEMORIES}",
        *[f"POST {MEMORY}"] * 4,
        f"POST {MEMORIES}",
        *[f"GET {MEMORIES}"] * 3,
        *[f"DELETE {MEMORY}"] * 2,
        f"GET {MEMORIES}",
    ]


async def test_versions(sdk: Sdk, server_db: Path) -> None:
    store = await sdk.client.beta.memory_stores.create(name="Notes")
    memories = sdk.client.beta.memory_stores.memories
    versions = sdk.client.beta.memory_stores.memory_versions
    by_key = BetaManagedAgentsAPIActor(type="api_actor", api_key_id=key_id(server_db))

    made = await memories.create(store.id, path="/a.md", content="one")
    session_id = ids.new_id(ids.SESSION)
    with Workspace.open(server_db) as workspace:  # as mounts, people and imported histories do
        for text, actor in (
            (b"two", Actor("session_actor", session_id)),
            (b"three", Actor("user_actor", "alice")),
            (b"four", Actor("service_account_actor", "svac_1")),
        ):
            workspace.memories.update(store.id, made.id, actor, content=text)
    await memories.delete(made.id, memory_store_id=store.id)
    other = await memories.create(store.id, path="/b.md", content="other")
    sdk.wire.take()

    found = (await versions.list(store.id, memory_id=made.id)).data
    assert all(isinstance(each, BetaManagedAgentsMemoryVersion) for each in found)
    assert [each.operation for each in found] == ["deleted", "modified", "modified", "modified", "created"]
    assert [each.created_by for each in found] == [
        by_key,
        BetaManagedAgentsServiceAccountActor(type="service_account_actor", service_account_id="svac_1"),
        BetaManagedAgentsUserActor(type="user_actor", user_id="alice"),
        BetaManagedAgentsSessionActor(type="session_actor", session_id=session_id),
        by_key,
    ]
    deleted, fourth, *_, first = found
    assert (deleted.path, deleted.content, deleted.content_sha256, deleted.content_size_bytes) == (
        "/a.md",
        None,
        None,
        None,
    )
    assert (fourth.content, fourth.content_size_bytes) == (None, 4)
    assert fourth.content_sha256 == sha256(b"four").hexdigest()
    assert (first.id, first.memory_id, first.memory_store_id) == (made.memory_version_id, made.id, store.id)
    assert first.created_at == made.created_at
    assert sorted(found, key=lambda each: each.created_at, reverse=True) == found
    assert first.redacted_at is None
    assert first.redacted_by is None

    async def ids_of(**where: Any) -> list[str]:
        return [each.id async for each in versions.list(store.id, **where)]

    newest = other.memory_version_id
    assert await ids_of() == [newest, *(each.id for each in found)]
    assert await ids_of(operation="modified") == [each.id for each in found[1:4]]
    assert await ids_of(operation="created") == [newest, first.id]
    assert await ids_of(operation="deleted") == [deleted.id]
    assert await ids_of(session_id=session_id) == [found[3].id]
    assert await ids_of(service_account_id="svac_1") == [fourth.id]
    assert await ids_of(api_key_id=by_key.api_key_id) == [newest, deleted.id, first.id]
    assert await ids_of(created_at_gte=fourth.created_at, created_at_lte=deleted.created_at) == [deleted.id, fourth.id]
    texts = [each.content async for each in versions.list(store.id, memory_id=made.id, view="full")]
    assert texts == [None, "four", "three", "two", "one"]

    shown = await versions.retrieve(first.id, memory_store_id=store.id)
    assert shown == first.model_copy(update={"content": "one"})
    assert await versions.retrieve(first.id, memory_store_id=store.id, view="basic") == first
    redacted = await versions.redact(first.id, memory_store_id=store.id)
    assert isinstance(redacted, BetaManagedAgentsMemoryVersion)
    assert (redacted.path, redacted.content, redacted.content_sha256, redacted.content_size_bytes) == (None,) * 4
    assert redacted.redacted_at is not None
    assert is_recent(redacted.redacted_at, deleted.created_at)
    assert (redacted.redacted_by, redacted.created_by, redacted.created_at) == (by_key, by_key, first.created_at)
    assert await versions.redact(first.id, memory_store_id=store.id) == redacted
    assert await versions.retrieve(first.id, memory_store_id=store.id) == redacted
    with pytest.raises(anthropic.BadRequestError):
        await versions.redact(newest, memory_store_id=store.id)
    assert sdk.wire.take() == [
        *[f"GET {VERSIONS}"] * 10,
        *[f"GET {VERSION}"] * 2,
        *[f"POST {VERSION}/redact"] * 2,
        f"GET {VERSION}",
        f"POST {VERSION}/redact",
    ]


async def test_sessions(sdk: Sdk) -> None:
    stores = sdk.client.beta.memory_stores
    sessions = sdk.client.beta.sessions
    notes = await stores.create(name="Team notes", description="What we know")
    rules = await stores.create(name="Team notes")
    sdk.wire.take()
    made = await sessions.create(
        agent="agent_011CZkYqphY8vELVzwCUpqiQ",
        environment_id="env_011CZkZ9X2dpNyB7HsEFoRfW",
        title="Tidy up",
        metadata={"ticket": "7"},
        resources=[
            {"type": "memory_store", "memory_store_id": notes.id, "instructions": "Read it first."},
            {"type": "memory_store", "memory_store_id": rules.id, "access": "read_only"},
        ],
    )
    assert isinstance(made, BetaManagedAgentsSession)
    assert made.type == "session"
    assert made.id.startswith("sesn_")
    assert (made.title, made.metadata, made.status) == ("Tidy up", {"ticket": "7"}, "idle")
    assert made.agent.id == "agent_011CZkYqphY8vELVzwCUpqiQ"
    assert made.environment_id == "env_011CZkZ9X2dpNyB7HsEFoRfW"
    assert is_recent(made.created_at, rules.created_at)
    assert made.archived_at is None
    assert made.resources == [
        BetaManagedAgentsMemoryStoreResource(
            type="memory_store",
            memory_store_id=notes.id,
            access="read_write",
            instructions="Read it first.",
            name="Team notes",
            description="What we know",
            mount_path="/mnt/memory/team-notes",
        ),
        BetaManagedAgentsMemoryStoreResource(
            type="memory_store",
            memory_store_id=rules.id,
            access="read_only",
            instructions="",
            name="Team notes",
            description="",
            mount_path="/mnt/memory/team-notes-2",
        ),
    ]
    assert await sessions.retrieve(made.id) == made
    other = await sessions.create(
        agent={"type": "agent", "id": "agent_2", "version": 1},
        environment_id="env_1",
        resources=[{"type": "memory_store", "memory_store_id": notes.id}],
    )
    assert other.agent.id == "agent_2"
    assert [each async for each in sessions.list(memory_store_id=notes.id)] == [other, made]
    assert [each.id async for each in sessions.list(memory_store_id=notes.id, order="asc")] == [made.id, other.id]
    assert [each.id async for each in sessions.list(memory_store_id=rules.id)] == [made.id]

    archived = await sessions.archive(made.id)
    assert archived.archived_at is not None
    assert is_recent(archived.archived_at, other.created_at)
    assert archived.status == "terminated"
    assert await sessions.archive(made.id) == archived
    assert await sessions.retrieve(made.id) == archived
    assert [each.id async for each in sessions.list(memory_store_id=notes.id)] == [other.id]
    both = sessions.list(memory_store_id=notes.id, include_archived=True)
    assert [each.id async for each in both] == [other.id, made.id]
    assert sdk.wire.take() == [
        f"POST {SESSIONS}",
        f"GET {SESSION}",
        f"POST {SESSIONS}",
        *[f"GET {SESSIONS}"] * 3,
        *[f"POST {SESSION}/archive"] * 2,
        f"GET {SESSION}",
        *[f"GET {SESSIONS}"] * 2,
    ]


# Pages


@pytest.mark.parametrize("view, limit, pages", [("basic", 100, 20), ("full", 20, 100)])
async def test_pages_of_memories(sdk: Sdk, full_store: str, view: Any, limit: int, pages: int) -> None:
    found = []
    async for each in sdk.client.beta.memory_stores.memories.list(full_store, view=view, limit=limit):
        assert each.type == "memory"
        found.append((each.path, each.content))
    texts = [(f"/{number // 100:02}/note-{number:04}.md", number % 2) for number in range(MAX_MEMORIES)]
    assert found == [(path, None if view == "basic" else "changed " * (1 - odd) + path) for path, odd in texts]
    assert len(sdk.wire.take()) == pages


async def test_pages_by_hand(sdk: Sdk, full_store: str) -> None:
    memories = sdk.client.beta.memory_stores.memories
    first = await memories.list(full_store, limit=7, path_prefix="/03/")
    assert first.has_next_page()
    assert first.next_page is not None
    second = await memories.list(full_store, limit=7, path_prefix="/03/", page=first.next_page)
    assert [each.path for each in [*first.data, *second.data]] == [f"/03/note-03{number:02}.md" for number in range(14)]
    directories = [each.path async for each in memories.list(full_store, depth=1, limit=3)]
    assert directories == [f"/{number:02}/" for number in range(20)]
    assert len((await memories.list(full_store, limit=100, view="full")).data) == 20
    with pytest.raises(anthropic.BadRequestError):
        await memories.list(full_store, page="no token")


async def test_pages_of_versions(sdk: Sdk, full_store: str) -> None:
    found = [each async for each in sdk.client.beta.memory_stores.memory_versions.list(full_store, limit=100)]
    assert [each.operation for each in found] == ["modified"] * 1_000 + ["created"] * MAX_MEMORIES
    assert len({each.id for each in found}) == len(found)
    assert len(sdk.wire.take()) == 30
    texts = [
        each.content
        async for each in sdk.client.beta.memory_stores.memory_versions.list(
            full_store, limit=100, view="full", operation="modified"
        )
    ]
    assert len(set(texts)) == 1_000
    assert len(sdk.wire.take()) == 50


async def test_pages_of_stores_and_sessions(sdk: Sdk) -> None:
    stores = sdk.client.beta.memory_stores
    made = [(await stores.create(name=f"Store {number}")).id for number in range(11)]
    began = (await stores.retrieve(made[0])).created_at
    sdk.wire.take()
    assert [each.id async for each in stores.list(limit=4, created_at_gte=began)] == made
    assert len(sdk.wire.take()) == 3

    resource: Any = {"type": "memory_store", "memory_store_id": made[0]}
    sessions = sdk.client.beta.sessions
    begun = [(await sessions.create(agent="a", environment_id="e", resources=[resource])).id for _ in range(9)]
    sdk.wire.take()
    assert [each.id async for each in sessions.list(limit=4, memory_store_id=made[0])] == begun[::-1]
    assert [each.id async for each in sessions.list(limit=4, memory_store_id=made[0], order="asc")] == begun
    assert len(sdk.wire.take()) == 6


async def test_what_comes_between_pages_neither_repeats_nor_hides_anything(sdk: Sdk) -> None:
    store = await sdk.client.beta.memory_stores.create(name="Notes")
    memories = sdk.client.beta.memory_stores.memories
    for number in range(1, 10):
        await memories.create(store.id, path=f"/{number}", content="")
    seen = []
    async for each in memories.list(store.id, limit=3):
        seen.append(each.path)
        if len(seen) == 3:
            await memories.create(store.id, path="/0", content="")
            await memories.create(store.id, path="/91", content="")
    assert seen == [f"/{number}" for number in range(1, 10)] + ["/91"]


# What can be asked for


async def test_times_are_datetimes_or_text(sdk: Sdk) -> None:
    store = await sdk.client.beta.memory_stores.create(name="Notes")
    memories = sdk.client.beta.memory_stores.memories
    made = [await memories.create(store.id, path=f"/{number}", content="") for number in range(3)]
    versions = sdk.client.beta.memory_stores.memory_versions
    moment = made[1].created_at
    tokyo = moment.astimezone(tz=datetime.fromisoformat("2026-01-01T00:00:00+09:00").tzinfo)
    same: list[str | datetime] = [
        moment,
        tokyo,
        moment.replace(tzinfo=None),
        moment.isoformat(),
        tokyo.isoformat(),
        moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    ]
    for each in same:
        later = [version.path async for version in versions.list(store.id, created_at_gte=each)]
        earlier = [version.path async for version in versions.list(store.id, created_at_lte=each)]
        assert (later, earlier) == (["/2", "/1"], ["/1", "/0"]), each

    listed = sdk.client.beta.memory_stores.list(created_at_gte=store.created_at, created_at_lte=store.created_at)
    assert [found.id async for found in listed] == [store.id]
    sessions = sdk.client.beta.sessions
    resource: Any = {"type": "memory_store", "memory_store_id": store.id}
    begun = [await sessions.create(agent="a", environment_id="e", resources=[resource]) for _ in range(3)]

    async def found_by(**where: Any) -> list[int]:
        listed = sessions.list(memory_store_id=store.id, order="asc", **where)
        return [begun.index(each) async for each in listed]

    middle = begun[1].created_at
    assert await found_by(created_at_gt=middle) == [2]
    assert await found_by(created_at_gte=middle) == [1, 2]
    assert await found_by(created_at_lt=middle.isoformat()) == [0]
    assert await found_by(created_at_lte=middle.isoformat()) == [0, 1]
    with pytest.raises(anthropic.BadRequestError, match="created_at"):
        await versions.list(store.id, created_at_gte="yesterday")


async def test_headers(sdk: Sdk) -> None:
    stores = sdk.client.beta.memory_stores
    store = await stores.create(
        name="Notes", workspace_id="wrkspc_011CZkZaBF1tNoB5wlCeusgy", extra_headers={"x-request-source": "test"}
    )
    sent = sdk.wire.last.request.headers
    assert sent["anthropic-beta"] == "agent-memory-2026-07-22"
    assert sent["anthropic-workspace-id"] == "wrkspc_011CZkZaBF1tNoB5wlCeusgy"
    assert (await stores.retrieve(store.id, betas=["files-api-2025-04-14"])).id == store.id
    assert sdk.wire.last.request.headers["anthropic-beta"] == "files-api-2025-04-14,agent-memory-2026-07-22"
    with pytest.raises(anthropic.BadRequestError, match="anthropic-beta"):  # the hosted service wants one of them too
        await stores.retrieve(store.id, betas=["managed-agents-2026-04-01"])
    other = {"anthropic-beta": "managed-agents-2026-04-01"}
    assert (await stores.retrieve(store.id, extra_headers=other)).id == store.id
    assert (await stores.retrieve(store.id, extra_query={"beta": "true"}, timeout=120)).id == store.id  # older SDKs


async def test_raw_responses(kind: Kind, server: Server) -> None:
    wire = Wire()
    if kind == "async":
        plain = anthropic.DefaultAsyncHttpxClient(trust_env=False, event_hooks={"response": [wire.anote]})
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key=server.key, http_client=plain) as client:
            raw = await client.beta.memory_stores.with_raw_response.create(name="Notes")
            store = await raw.parse()
            listed = await client.beta.memory_stores.memories.with_raw_response.list(store.id)
            assert (await listed.parse()).data == []
            async with client.beta.memory_stores.with_streaming_response.retrieve(store.id) as streamed:
                assert (await streamed.parse()).id == store.id
    else:
        blocking = anthropic.DefaultHttpxClient(trust_env=False, event_hooks={"response": [wire.note]})
        with anthropic.Anthropic(base_url=server.url, api_key=server.key, http_client=blocking) as sync_client:
            sync_raw = sync_client.beta.memory_stores.with_raw_response.create(name="Notes")
            store = sync_raw.parse()
            sync_listed = sync_client.beta.memory_stores.memories.with_raw_response.list(store.id)
            assert sync_listed.parse().data == []
            with sync_client.beta.memory_stores.with_streaming_response.retrieve(store.id) as sync_streamed:
                assert sync_streamed.parse().id == store.id
    assert store.name == "Notes"
    for answer in wire.answers:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["request-id"].startswith("req_")
    assert len({answer.headers["request-id"] for answer in wire.answers}) == 3


# Keys


@pytest.mark.parametrize("credential", ["api_key", "auth_token"])
async def test_both_kinds_of_credential(kind: Kind, server: Server, credential: Credential) -> None:
    async with opened(kind, server, credential=credential) as sdk:
        assert (await sdk.client.beta.memory_stores.create(name="Notes")).name == "Notes"
        assert sdk.wire.last.request.headers["authorization"] == f"Bearer {server.key}"


async def test_the_key_header_of_older_sdks(kind: Kind, server: Server) -> None:
    headers = {"X-Api-Key": server.key, "Authorization": Omit()}
    async with opened(kind, server, key="unused", default_headers=headers) as sdk:
        assert (await sdk.client.beta.memory_stores.create(name="Notes")).name == "Notes"
        assert "authorization" not in sdk.wire.last.request.headers


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_a_program_is_pointed_at_the_server_by_its_environment(server: Server, variable: str) -> None:
    code = "import anthropic; print(anthropic.Anthropic().beta.memory_stores.create(name='Made elsewhere').id)"
    inherited = {name: value for name, value in environment().items() if not name.startswith("ANTHROPIC_")}
    done = subprocess.run(
        [sys.executable, "-bb", "-W", "error", "-c", code],
        env=inherited | {"ANTHROPIC_BASE_URL": server.url, variable: server.key, "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert server.get(f"{STORES}/{done.stdout.strip()}").ok()["name"] == "Made elsewhere"


async def test_keys_that_may_not(kind: Kind, server: Server, server_db: Path) -> None:
    with Workspace.open(server_db) as workspace:
        mine, theirs = workspace.stores.create("Mine"), workspace.stores.create("Theirs")
        made = workspace.memories.create(theirs.id, "/a", b"x", Actor("user_actor", "alice"))
    reader = new_key(server_db, "reader", access="read_only")
    limited = new_key(server_db, "limited", stores=[mine])
    async with opened(kind, server, reader) as sdk:
        stores = sdk.client.beta.memory_stores
        assert (await stores.memories.retrieve(made.id, memory_store_id=theirs.id)).content == "x"
        with pytest.raises(anthropic.PermissionDeniedError) as refused:
            await stores.memories.update(made.id, memory_store_id=theirs.id, content="y")
        assert refused.value.type == "permission_error"
        with pytest.raises(anthropic.PermissionDeniedError):
            await stores.create(name="New")
    async with opened(kind, server, limited) as sdk:
        stores = sdk.client.beta.memory_stores
        assert [each.id async for each in stores.list()] == [mine.id]
        assert (await stores.memories.create(mine.id, path="/a", content="x")).path == "/a"
        with pytest.raises(anthropic.PermissionDeniedError):
            await stores.memories.retrieve(made.id, memory_store_id=theirs.id)
        with pytest.raises(anthropic.PermissionDeniedError):
            await sdk.client.beta.sessions.create(
                agent="a", environment_id="e", resources=[{"type": "memory_store", "memory_store_id": theirs.id}]
            )
    with Workspace.open(server_db) as workspace:
        workspace.keys.revoke(workspace.keys.resolve("limited").id)
    async with opened(kind, server, limited) as sdk:
        with pytest.raises(anthropic.AuthenticationError) as revoked:
            await sdk.client.beta.memory_stores.list()
        assert revoked.value.type == "authentication_error"
        assert len(sdk.wire.take()) == 1


# Errors


def described(error: APIStatusError) -> tuple[int, str | None]:
    """Status and type of an error that has everything that the SDK reads from one."""
    assert isinstance(error.body, dict)
    assert error.body["type"] == "error"
    assert error.request_id == error.body["request_id"]
    assert error.request_id is not None
    assert error.api_message == error.body["error"]["message"]
    assert error.api_message
    return error.status_code, error.type


async def test_errors_have_their_classes(sdk: Sdk) -> None:
    client = sdk.client.beta
    store = await client.memory_stores.create(name="Notes")
    made = await client.memory_stores.memories.create(store.id, path="/a", content="one")
    memories, versions = client.memory_stores.memories, client.memory_stores.memory_versions
    no_store, no_memory = ids.MEMORY_STORE + "0" * 26, ids.MEMORY + "0" * 26
    no_version, no_session = ids.MEMORY_VERSION + "0" * 26, ids.SESSION + "0" * 26
    refused: list[tuple[Any, Any]] = [
        (anthropic.BadRequestError, lambda: memories.create(store.id, path="a", content="")),
        (anthropic.BadRequestError, lambda: memories.create(store.id, path="/b", content="x" * 102_401)),
        (anthropic.BadRequestError, lambda: memories.create(store.id, path="/b", content=None)),
        (anthropic.BadRequestError, lambda: memories.list(store.id, depth=2)),
        (anthropic.BadRequestError, lambda: memories.list(store.id, limit=101)),
        (anthropic.BadRequestError, lambda: memories.list(store.id, path_prefix="/a")),
        (anthropic.BadRequestError, lambda: client.memory_stores.create(name="")),
        (anthropic.BadRequestError, lambda: client.memory_stores.create(name="x", metadata={"": "x"})),
        (anthropic.BadRequestError, lambda: client.sessions.create(agent="a", environment_id="e", resources=[])),
        (anthropic.NotFoundError, lambda: client.memory_stores.retrieve(no_store)),
        (anthropic.NotFoundError, lambda: client.memory_stores.retrieve("notes")),
        (anthropic.NotFoundError, lambda: memories.list(no_store)),
        (anthropic.NotFoundError, lambda: memories.retrieve(no_memory, memory_store_id=store.id)),
        (anthropic.NotFoundError, lambda: memories.retrieve("/a", memory_store_id=store.id)),
        (anthropic.NotFoundError, lambda: memories.delete(no_memory, memory_store_id=store.id)),
        (anthropic.NotFoundError, lambda: versions.retrieve(no_version, memory_store_id=store.id)),
        (anthropic.NotFoundError, lambda: versions.redact(made.id, memory_store_id=store.id)),
        (anthropic.NotFoundError, lambda: client.sessions.retrieve(no_session)),
        (anthropic.ContentTooLargeError, lambda: memories.create(store.id, path="/b", content="x" * 1_100_000)),
    ]
    expected = {
        anthropic.BadRequestError: (400, "invalid_request_error"),
        anthropic.NotFoundError: (404, "not_found_error"),
        anthropic.ContentTooLargeError: (413, "request_too_large"),
    }
    for error, call in refused:
        sdk.wire.take()
        with pytest.raises(error) as found:
            await call()
        assert type(found.value) is error
        assert described(found.value) == expected[error]
        assert len(sdk.wire.take()) == 1  # and never tried again
    assert (await memories.list(store.id)).data == [made]


async def test_a_memory_of_another_store_is_not_found(sdk: Sdk) -> None:
    stores = sdk.client.beta.memory_stores
    mine, other = await stores.create(name="Mine"), await stores.create(name="Other")
    made = await stores.memories.create(mine.id, path="/a", content="one")
    with pytest.raises(anthropic.NotFoundError):
        await stores.memories.retrieve(made.id, memory_store_id=other.id)
    with pytest.raises(anthropic.NotFoundError):
        await stores.memories.delete(made.id, memory_store_id=other.id)
    with pytest.raises(anthropic.NotFoundError):
        await stores.memory_versions.retrieve(made.memory_version_id, memory_store_id=other.id)
    assert (await stores.memories.retrieve(made.id, memory_store_id=mine.id)).content == "one"


async def test_no_key(kind: Kind, server: Server) -> None:
    async with opened(kind, server, "sk-ant-of-somebody-else") as sdk:
        with pytest.raises(anthropic.AuthenticationError) as found:
            await sdk.client.beta.memory_stores.list()
        assert described(found.value) == (401, "authentication_error")
        assert len(sdk.wire.take()) == 1


async def test_conflicts_say_with_what_and_are_not_tried_again(sdk: Sdk, full_store: str) -> None:
    store = await sdk.client.beta.memory_stores.create(name="Notes")
    memories = sdk.client.beta.memory_stores.memories
    made = await memories.create(store.id, path="/a/b", content="one")
    other = await memories.create(store.id, path="/c", content="two")
    wrong = sha256(b"two").hexdigest()

    async def conflict(call: Awaitable[object]) -> tuple[str | None, dict[str, str]]:
        sdk.wire.take()
        with pytest.raises(anthropic.ConflictError) as found:
            await call
        status, kind = described(found.value)
        assert status == 409
        assert len(sdk.wire.take()) == 1
        assert isinstance(found.value.body, dict)
        named: dict[str, str] = found.value.body["error"]
        return kind, {name: text for name, text in named.items() if name not in ("type", "message")}

    with_made = {"conflicting_memory_id": made.id, "conflicting_path": "/a/b"}
    for path in ("/a/b", "/a", "/a/b/c"):
        found = await conflict(memories.create(store.id, path=path, content=""))
        assert found == ("memory_path_conflict_error", with_made)
        found = await conflict(memories.update(other.id, memory_store_id=store.id, path=path))
        assert found == ("memory_path_conflict_error", with_made)
    precondition: Any = {"type": "content_sha256", "content_sha256": wrong}
    assert await conflict(
        memories.update(made.id, memory_store_id=store.id, content="three", precondition=precondition)
    ) == ("memory_precondition_failed_error", {})
    assert await conflict(memories.delete(made.id, memory_store_id=store.id, expected_content_sha256=wrong)) == (
        "memory_precondition_failed_error",
        {},
    )
    assert await conflict(memories.create(full_store, path="/one-too-many", content="")) == ("conflict_error", {})
    # What is as wanted already is no conflict.
    assert await memories.update(made.id, memory_store_id=store.id, content="one", precondition=precondition) == made


async def test_over_the_rate_a_client_waits_and_comes_again(kind: Kind, db: Path) -> None:
    with serving(db, "--rate", "1") as slow:
        async with opened(kind, slow, max_retries=0) as sdk:

            async def hurry() -> None:
                for _ in range(100):  # one in a second is allowed
                    await sdk.client.beta.memory_stores.list()

            with pytest.raises(anthropic.RateLimitError) as found:
                await hurry()
            assert described(found.value) == (429, "rate_limit_error")
            assert found.value.response.headers["retry-after"] == "1"
        async with opened(kind, slow) as sdk:
            for _ in range(100):
                await sdk.client.beta.memory_stores.list()
                statuses = [each.status_code for each in sdk.wire.answers]
                if 429 in statuses:
                    break
            assert statuses[-2:] == [429, 200]


async def test_while_another_process_writes_for_long_a_client_reads_and_is_told_to_come_again(db: Path) -> None:
    with serving(db) as server, closing(sqlite3.connect(db, isolation_level=None)) as other:
        async with opened("async", server, max_retries=0) as sdk:
            stores = sdk.client.beta.memory_stores
            store = await stores.create(name="Notes")
            sdk.wire.take()
            other.execute("BEGIN IMMEDIATE")

            async def read() -> None:
                assert (await stores.retrieve(store.id)).name == "Notes"

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                with pytest.raises(anthropic.ServiceUnavailableError) as found:
                    await stores.memories.create(store.id, path="/a", content="x")
            assert described(found.value) == (503, "overloaded_error")
            assert found.value.response.headers["retry-after"] == "1"
            assert sdk.wire.take() == [f"GET {STORE}", f"POST {MEMORIES}"]  # the reader did not wait
            other.execute("ROLLBACK")
            made = await stores.memories.create(store.id, path="/a", content="x")
            assert (await stores.memories.list(store.id)).data == [made]


def test_a_connection_that_is_kept_is_not_slower_than_new_ones(server: Server, store: str) -> None:
    def seconds(request: Callable[[], object]) -> float:
        began = time.perf_counter()
        request()
        return time.perf_counter() - began

    with httpx2.Client(trust_env=False, headers={"authorization": f"Bearer {server.key}"}) as kept:
        pairs = [
            (seconds(lambda: kept.get(server.url + store).raise_for_status()), seconds(lambda: server.get(store).ok()))
            for _ in range(30)
        ]
    (on_kept, on_new) = (median(each) for each in zip(*pairs, strict=True))
    assert on_kept < 4 * on_new  # with Nagle's algorithm at work it is tenfold
