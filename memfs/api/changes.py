"""The stream of a store's changes: ``/v1/memory_stores/{store_id}/changes``. Not part of the hosted service."""

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import format_sse_event
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from memfs.api.bell import Bell
from memfs.api.calls import ThisCall, store_permitted
from memfs.api.metrics import Metrics
from memfs.api.objects import answers
from memfs.api.queries import MAX_FULL, MAX_LIMIT, View, ViewQuery
from memfs.model.contract import JsonObject, deleted_store_object, store_object, version_object
from memfs.model.errors import InvalidRequest, MemfsError, NotFound, NotPermitted
from memfs.model.records import ApiKey, Store
from memfs.workspace import Workspace
from memfs.workspace.keys import check_permitted, is_valid

log = logging.getLogger(__name__)

MAX_STREAMS = 200
MAX_STREAMS_OF_A_KEY = 50
"""Streams that a server has open at once."""

LOOK_BYTES = 262_144
"""A look ends after as many: what a client does not read stays in memory."""

QUIET_SECONDS = 15.0
"""When nothing happens, how often a stream says that it is still there, and looks whether its key is still valid."""

RETRY_MILLISECONDS = 1_000
"""When a client shall come again that lost its connection."""

STREAM: dict[int | str, dict[str, Any]] = {
    **answers(None, 404),
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
}

router = APIRouter(
    prefix="/v1/memory_stores/{store_id}/changes", tags=["changes"], dependencies=[Depends(store_permitted)]
)


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a stream begins: after a sequence number, with a store as it is then."""

    sequence: int
    store: Store


def _position(text: str | None, name: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidRequest(f"{name} must be the id of an event of this stream")
    return int(text)


async def _start(
    request: Request,
    call: ThisCall,
    store_id: str,
    after: Annotated[
        str | None, Query(description="Begin after the event with this id; 0: from the beginning.")
    ] = None,
    last_event_id: Annotated[str | None, Header(description="The same, as browsers send it.")] = None,
) -> AsyncIterator[_Start]:
    """Whatever refuses a stream does so before it begins. Its place is taken at once, and free when it has ended."""
    bell: Bell = request.app.state.bell
    if bell.stopping:
        raise HTTPException(503, "the server is stopping")
    if bell.listeners >= MAX_STREAMS or bell.listeners_of(call.key.id) >= MAX_STREAMS_OF_A_KEY:
        few = f"at most {MAX_STREAMS} streams are open at once, and {MAX_STREAMS_OF_A_KEY} of one key"
        raise HTTPException(429, few, {"retry-after": "5"})
    given = _position(last_event_id, "last-event-id")
    if given is None:
        given = _position(after, "after")

    def read(workspace: Workspace) -> _Start:
        store = workspace.stores.get(store_id)
        newest = workspace.versions.list(store_id, limit=1)
        last = newest[0].sequence if newest else 0
        if given is not None and given > last:
            # Of another database, or of this one before an older copy of it came back: nothing would ever come.
            raise InvalidRequest(f"there is no event {given} in this stream yet: begin without one")
        return _Start(last if given is None else given, store)

    with bell.listening(call.key.id):
        yield await call.threads.read(read)


class EventStream(StreamingResponse):
    """Events as they come. Not the framework's: its reader fails where a client goes while there is much to tell."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        # no-transform, and the last one for nginx: nobody in between may wait for more before passing an event on.
        headers = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification. Whatever ends it, nobody listens any more when it returns."""
        async with aclosing(self._events):
            await super().__call__(scope, receive, send)


@router.get("", status_code=200, response_class=EventStream, responses=STREAM)
async def stream(
    request: Request, call: ThisCall, start: Annotated[_Start, Depends(_start)], view: ViewQuery = None
) -> EventStream:
    """Follow a store: the store itself, at first and whenever it changes, and each version as it is made.

    ``memory_store``, ``memory_version`` and, at the end, ``memory_store_deleted`` carry the objects of those names.
    An event's id is where to go on after it.
    """
    return EventStream(_events(request, call, start, view or "basic"))


async def _events(request: Request, call: ThisCall, start: _Start, view: View) -> AsyncGenerator[bytes, None]:
    bell: Bell = request.app.state.bell
    metrics: Metrics = request.app.state.metrics
    seen = _Seen(call.key, start.sequence, start.store, view)
    with metrics.streams.track_inprogress():
        yield _event("memory_store", store_object(start.store), start.sequence, retry=RETRY_MILLISECONDS)
        try:
            while not (bell.stopping or seen.ended):
                ring = bell.next_ring()
                events = await call.threads.read(seen.look)
                if events:
                    yield b"".join(events)
                elif not seen.ended:
                    with anyio.move_on_after(QUIET_SECONDS) as quiet:
                        await ring.wait()
                    if quiet.cancelled_caught:
                        yield b": still here\n\n"
        except MemfsError as error:  # the client comes again, and goes on where this ends
            log.warning("a stream of changes ended: %s request=%s", error, request.scope["memfs.request_id"])


def _event(kind: str, data: JsonObject, number: int | None = None, *, retry: int | None = None) -> bytes:
    text = json.dumps(data, ensure_ascii=False)  # on one line: JSON escapes those that end one here
    return format_sse_event(data_str=text, event=kind, id=None if number is None else str(number), retry=retry)


class _Seen:
    """What a stream has told already."""

    def __init__(self, key: ApiKey, sequence: int, store: Store, view: View) -> None:
        self._key = key
        self._sequence = sequence
        self._store = store
        self._view = view
        self.ended = False

    def look(self, workspace: Workspace) -> list[bytes]:
        """The next events, in a thread; none where there is nothing new."""
        events: list[bytes] = []
        size = 0
        for event in self._next(workspace):  # it is where its last event is: the next look goes on from there
            events.append(event)
            size += len(event)
            if size >= LOOK_BYTES:
                break
        return events

    def _next(self, workspace: Workspace) -> Iterator[bytes]:
        try:
            key = workspace.keys.get(self._key.id)
            check_permitted(key, store_id=self._store.id)
        except (NotFound, NotPermitted):
            key = None
        full = self._view == "full"
        try:
            store = workspace.stores.get(self._store.id)
            versions = workspace.versions.list(
                store.id,
                after=self._sequence,
                oldest_first=True,
                limit=MAX_FULL if full else MAX_LIMIT,
                content=full,
            )
        except NotFound:
            self.ended = True
            yield _event("memory_store_deleted", deleted_store_object(self._store))
            return
        if key is None or not is_valid(key):
            self.ended = True
            return
        for version in versions:
            self._sequence = version.sequence
            yield _event("memory_version", version_object(version), version.sequence)
        if replace(store, guards=self._store.guards) != self._store:
            yield _event("memory_store", store_object(store), self._sequence)
        self._store = store
