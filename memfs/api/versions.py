"""Versions: ``/v1/memory_stores/{store_id}/memory_versions``."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import JSONResponse

from memfs.api import objects
from memfs.api.calls import ThisCall, store_permitted
from memfs.api.objects import answers
from memfs.api.queries import (
    DEFAULT_LIMIT,
    Limit,
    Page,
    View,
    ViewQuery,
    moment,
    page_of,
    page_size,
    read_page_token,
)
from memfs.model.contract import JsonObject, version_object
from memfs.model.records import MemoryVersion, Operation
from memfs.workspace import VersionFilter, Workspace

router = APIRouter(
    prefix="/v1/memory_stores/{store_id}/memory_versions",
    tags=["memory versions"],
    dependencies=[Depends(store_permitted)],
)


def shown(version: MemoryVersion, view: View) -> JsonObject:
    """A version, without its content in the basic view."""
    return version_object(version if view == "full" else replace(version, content=None))


@router.get("", responses=answers(objects.VersionPage, 404))
async def list_versions(
    call: ThisCall,
    store_id: str,
    memory_id: Annotated[str | None, Query(description="Of this memory, also when it is deleted.")] = None,
    operation: Annotated[Operation | None, Query(description="Those that did this.")] = None,
    session_id: Annotated[str | None, Query(description="Those written in this session.")] = None,
    api_key_id: Annotated[str | None, Query(description="Those written with this key.")] = None,
    service_account_id: Annotated[str | None, Query(description="Those written by this service account.")] = None,
    created_at_gte: Annotated[str | None, Query(alias="created_at[gte]")] = None,
    created_at_lte: Annotated[str | None, Query(alias="created_at[lte]")] = None,
    view: ViewQuery = None,
    limit: Limit = DEFAULT_LIMIT,
    page: Page = None,
) -> JSONResponse:
    """List versions, newest first."""
    full = view == "full"
    size = page_size(limit, full=full)

    def read(workspace: Workspace) -> JsonObject:
        before = read_page_token("versions", page, int)
        where = VersionFilter(
            memory_id=memory_id,
            operation=operation,
            session_id=session_id,
            api_key_id=api_key_id,
            service_account_id=service_account_id,
            created_from=moment(created_at_gte, "created_at[gte]", up=True),
            created_to=moment(created_at_lte, "created_at[lte]"),
        )
        found = workspace.versions.list(
            store_id, where, limit=size + 1, before=None if before is None else before[0], content=full
        )
        return page_of("versions", found, size, version_object, lambda version: (version.sequence,))

    return await call.read(read)


@router.get("/{version_id}", responses=answers(objects.MemoryVersion, 404))
async def retrieve(call: ThisCall, store_id: str, version_id: str, view: ViewQuery = None) -> JSONResponse:
    """One version, with its content unless view=basic."""
    return await call.read(lambda workspace: shown(workspace.versions.get(store_id, version_id), view or "full"))


@router.post("/{version_id}/redact", responses=answers(objects.MemoryVersion, 404))
async def redact(call: ThisCall, store_id: str, version_id: str) -> JSONResponse:
    """Take path, content, size and hash from a version for ever; who wrote it and when stays. Not what is current."""
    return await call.write(
        lambda workspace: version_object(workspace.versions.redact(store_id, [version_id], call.actor)[0])
    )
