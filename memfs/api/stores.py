"""Stores: ``/v1/memory_stores``."""

import logging
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import JSONResponse

from memfs.api import objects
from memfs.api.bodies import StoreCreate, StoreUpdate
from memfs.api.calls import ThisCall, store_permitted, workspace_permitted
from memfs.api.objects import answers
from memfs.api.queries import DEFAULT_LIMIT, IncludeArchived, Limit, Page, moment, page_of, read_page_token
from memfs.model.contract import JsonObject, deleted_store_object, store_object
from memfs.model.errors import MemfsError
from memfs.workspace import Workspace

log = logging.getLogger(__name__)

collection = APIRouter(prefix="/v1/memory_stores", tags=["memory stores"])
one = APIRouter(prefix="/v1/memory_stores/{store_id}", tags=["memory stores"], dependencies=[Depends(store_permitted)])


@collection.post("", responses=answers(objects.MemoryStore), dependencies=[Depends(workspace_permitted)])
async def create(call: ThisCall, body: StoreCreate) -> JSONResponse:
    """Make a store."""
    return await call.write(
        lambda workspace: store_object(workspace.stores.create(body.name, body.description or "", body.metadata))
    )


@collection.get("", responses=answers(objects.StorePage))
async def list_stores(
    call: ThisCall,
    limit: Limit = DEFAULT_LIMIT,
    page: Page = None,
    include_archived: IncludeArchived = False,
    created_at_gte: Annotated[str | None, Query(alias="created_at[gte]")] = None,
    created_at_lte: Annotated[str | None, Query(alias="created_at[lte]")] = None,
) -> JSONResponse:
    """List the stores that the key may use, oldest first."""

    def read(workspace: Workspace) -> JsonObject:
        after = read_page_token("stores", page, str)
        found = workspace.stores.list(
            include_archived=include_archived,
            created_from=moment(created_at_gte, "created_at[gte]", up=True),
            created_to=moment(created_at_lte, "created_at[lte]"),
            within=call.key.store_ids,
            after=None if after is None else after[0],
            limit=limit + 1,
        )
        return page_of("stores", found, limit, store_object, lambda store: (store.id,))

    return await call.read(read)


@one.get("", responses=answers(objects.MemoryStore, 404))
async def retrieve(call: ThisCall, store_id: str) -> JSONResponse:
    """One store."""
    return await call.read(lambda workspace: store_object(workspace.stores.get(store_id)))


@one.post("", responses=answers(objects.MemoryStore, 404))
@one.patch("", responses=answers(objects.MemoryStore, 404))
async def update(call: ThisCall, store_id: str, body: StoreUpdate) -> JSONResponse:
    """Change a store's name, description or metadata."""
    return await call.write(
        lambda workspace: store_object(
            workspace.stores.update(store_id, name=body.name, description=body.description, metadata=body.metadata)
        )
    )


@one.delete("", responses=answers(objects.DeletedMemoryStore, 404))
async def delete(call: ThisCall, store_id: str) -> JSONResponse:
    """Delete a store with its memories and its history, for ever."""

    def write(workspace: Workspace) -> JsonObject:
        store = workspace.stores.get(store_id)
        workspace.stores.delete(store_id, scrub=False)
        try:
            workspace.scrub()
        except MemfsError as error:
            # The store is gone: who is told that this failed would try again, and find none.
            log.warning("bytes of a deleted store may be in the file until this is tried again, in a minute: %s", error)
        return deleted_store_object(store)

    return await call.write(write)


@one.post("/archive", responses=answers(objects.MemoryStore, 404))
async def archive(call: ThisCall, store_id: str) -> JSONResponse:
    """Make a store read-only for ever. A second time changes nothing."""
    return await call.write(lambda workspace: store_object(workspace.stores.archive(store_id)))
