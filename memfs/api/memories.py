"""Memories: ``/v1/memory_stores/{store_id}/memories``."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import JSONResponse

from memfs.api import objects
from memfs.api.bodies import SEGMENT, SHA256, MemoryCreate, MemoryUpdate
from memfs.api.calls import ThisCall, store_permitted
from memfs.api.objects import answers
from memfs.api.queries import DEFAULT_LIMIT, Limit, Page, View, ViewQuery, page_of, page_size, read_page_token
from memfs.model import ids
from memfs.model.contract import JsonObject, deleted_memory_object, listed_object, memory_object
from memfs.model.errors import NotFound
from memfs.model.paths import MAX_PATH_BYTES, MAX_SEGMENTS
from memfs.model.records import Memory
from memfs.workspace import Workspace

router = APIRouter(
    prefix="/v1/memory_stores/{store_id}/memories", tags=["memories"], dependencies=[Depends(store_permitted)]
)


def shown(memory: Memory, view: View) -> JsonObject:
    """A memory, without its content in the basic view."""
    return memory_object(memory if view == "full" else replace(memory, content=None))


def encoded(content: str) -> bytes:
    """A content's bytes. JSON can carry halves of characters and UTF-8 cannot: the rules refuse what comes of them."""
    return content.encode(errors="surrogatepass")


def check_memory_id(store_id: str, memory_id: str) -> str:
    """Raises NotFound for what is no memory's id: a path is none here."""
    if not ids.is_id(memory_id, ids.MEMORY):
        raise NotFound(
            f"the store {store_id} has no memory {memory_id[:80]!r}: a memory's id is mem_ and 26 characters"
        )
    return memory_id


@router.post("", responses=answers(objects.Memory, 404, 409))
async def create(call: ThisCall, store_id: str, body: MemoryCreate, view: ViewQuery = None) -> JSONResponse:
    """Make a memory; never overwrites one."""

    def write(workspace: Workspace) -> JsonObject:
        made = workspace.memories.create(store_id, body.path, encoded(body.content), call.actor)
        return shown(made, view or "basic")

    return await call.write(write)


@router.get("", responses=answers(objects.MemoryPage, 404))
async def list_memories(
    call: ThisCall,
    store_id: str,
    path_prefix: Annotated[
        str,
        Query(
            description="/ or /dir/: matches whole segments.",
            json_schema_extra={"pattern": f"^(({SEGMENT}){{0,{MAX_SEGMENTS}}}/)?$", "maxLength": MAX_PATH_BYTES + 1},
        ),
    ] = "/",
    depth: Annotated[
        int, Query(description="0: all below; 1: what lies directly below.", json_schema_extra={"enum": [0, 1]})
    ] = 0,
    view: ViewQuery = None,
    limit: Limit = DEFAULT_LIMIT,
    page: Page = None,
) -> JSONResponse:
    """List memories in path order; at depth 1 directories are among them, as memory_prefix."""
    full = view == "full"
    size = page_size(limit, full=full)

    def read(workspace: Workspace) -> JsonObject:
        after = read_page_token("memories", page, str)
        found = workspace.memories.browse(
            store_id,
            path_prefix or "/",
            depth=depth,
            content=full,
            after=None if after is None else after[0],
            limit=size + 1,
        )
        return page_of("memories", found, size, listed_object, lambda item: (item.path,))

    return await call.read(read)


@router.get("/{memory_id}", responses=answers(objects.Memory, 404))
async def retrieve(call: ThisCall, store_id: str, memory_id: str, view: ViewQuery = None) -> JSONResponse:
    """One memory, with its content unless view=basic."""
    return await call.read(
        lambda workspace: shown(workspace.memories.get(store_id, check_memory_id(store_id, memory_id)), view or "full")
    )


@router.post("/{memory_id}", responses=answers(objects.Memory, 404, 409))
@router.patch("/{memory_id}", responses=answers(objects.Memory, 404, 409))
async def update(
    call: ThisCall, store_id: str, memory_id: str, body: MemoryUpdate, view: ViewQuery = None
) -> JSONResponse:
    """Change a memory's content, its path, or both. Where nothing changes, no version is made."""

    def write(workspace: Workspace) -> JsonObject:
        written = workspace.memories.update(
            store_id,
            check_memory_id(store_id, memory_id),
            call.actor,
            content=None if body.content is None else encoded(body.content),
            path=body.path,
            expected_sha256=None if body.precondition is None else body.precondition.content_sha256,
        )
        return shown(written.memory, view or "basic")

    return await call.write(write)


@router.delete("/{memory_id}", responses=answers(objects.DeletedMemory, 404, 409))
async def delete(
    call: ThisCall,
    store_id: str,
    memory_id: str,
    expected_content_sha256: Annotated[
        str | None, Query(description="What its content must be now, or it stays: 409.", json_schema_extra=SHA256)
    ] = None,
) -> JSONResponse:
    """Delete a memory; its versions stay."""

    def write(workspace: Workspace) -> JsonObject:
        deleted = workspace.memories.delete(
            store_id,
            check_memory_id(store_id, memory_id),
            call.actor,
            expected_sha256=expected_content_sha256,
        )
        return deleted_memory_object(deleted)

    return await call.write(write)
