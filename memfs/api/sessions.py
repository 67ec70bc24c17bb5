"""Sessions: ``/v1/sessions``. What a session of the hosted service has beyond its memory stores is not here."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse

from memfs.api import objects
from memfs.api.bodies import SessionCreate
from memfs.api.calls import SAFE, Call, ThisCall
from memfs.api.objects import answers
from memfs.api.queries import DEFAULT_LIMIT, IncludeArchived, Limit, Page, moment, page_of, read_page_token
from memfs.model.contract import JsonObject, session_object
from memfs.model.errors import InvalidRequest, NotFound
from memfs.model.records import Session
from memfs.workspace import SessionFilter, Workspace
from memfs.workspace.keys import check_permitted
from memfs.workspace.sessions import MAX_VERSION, Resource, SessionDescription


async def _method_permitted(request: Request, call: ThisCall) -> None:
    """Which sessions a key for certain stores may use is asked with each session."""
    if request.method not in SAFE:
        check_permitted(call.key, store_id=(call.key.store_ids or (None,))[0], write=True)


router = APIRouter(prefix="/v1/sessions", tags=["sessions"], dependencies=[Depends(_method_permitted)])


def _permitted(call: Call, session: Session) -> Session:
    """Raises NotFound for a session that has a store which the key may not use, or none any more."""
    store_ids = [attachment.memory_store_id for attachment in session.attachments]
    if call.key.store_ids is not None and not (store_ids and set(store_ids) <= set(call.key.store_ids)):
        # As for one that there is not: a refusal would name a store that the key may not know.
        raise NotFound(f"there is no session {session.id}")
    return session


@router.post("", responses=answers(objects.Session, 404))
async def create(call: ThisCall, body: SessionCreate) -> JSONResponse:
    """Begin a session with up to 8 stores; each gets the path where it is to be mounted."""

    def write(workspace: Workspace) -> JsonObject:
        for resource in body.resources:
            check_permitted(call.key, store_id=resource.memory_store_id, write=True)
        resources = [
            Resource(
                workspace.stores.get(resource.memory_store_id),
                resource.access or "read_write",
                resource.instructions or "",
            )
            for resource in body.resources
        ]
        description = SessionDescription(body.title, body.metadata or {}, *_agent(body), body.environment_id)
        return session_object(workspace.sessions.create(resources, description=description))

    return await call.write(write)


def _agent(body: SessionCreate) -> tuple[str | None, int | None]:
    """Its id and its version."""
    if not isinstance(body.agent, dict):
        return body.agent, None
    agent_id, version = body.agent.get("id"), body.agent.get("version")
    if not isinstance(agent_id, str):
        raise InvalidRequest("agent must be an agent's id, or an object with its id")
    if version is not None and type(version) is not int:
        raise InvalidRequest("an agent's version is a number")
    return agent_id, version


@router.get("", responses=answers(objects.SessionPage))
async def list_sessions(
    call: ThisCall,
    memory_store_id: Annotated[str | None, Query(description="Those that have this store.")] = None,
    agent_id: Annotated[str | None, Query(description="Those that were begun for this agent.")] = None,
    agent_version: Annotated[
        int | None, Query(ge=1, le=MAX_VERSION, description="With agent_id: and for this version of it.")
    ] = None,
    deployment_id: Annotated[str | None, Query(description="There are no deployments here, so none has one.")] = None,
    statuses: Annotated[
        list[Literal["rescheduling", "running", "idle", "terminated"]] | None,
        Query(alias="statuses[]", description="Those in one of these; here there are idle and terminated only."),
    ] = None,
    include_archived: IncludeArchived = False,
    order: Annotated[Literal["asc", "desc"], Query(description="desc: the newest first.")] = "desc",
    created_at_gt: Annotated[str | None, Query(alias="created_at[gt]")] = None,
    created_at_gte: Annotated[str | None, Query(alias="created_at[gte]")] = None,
    created_at_lt: Annotated[str | None, Query(alias="created_at[lt]")] = None,
    created_at_lte: Annotated[str | None, Query(alias="created_at[lte]")] = None,
    limit: Limit = DEFAULT_LIMIT,
    page: Page = None,
) -> JSONResponse:
    """List sessions, newest first, also those of mounts and of the memory tool."""

    def read(workspace: Workspace) -> JsonObject:
        after = read_page_token("sessions", page, str, str)
        starts = [
            moment(created_at_gt, "created_at[gt]", after=True),
            moment(created_at_gte, "created_at[gte]", up=True),
        ]
        ends = [
            moment(created_at_lt, "created_at[lt]", before=True),
            moment(created_at_lte, "created_at[lte]"),
        ]
        states = {state == "terminated" for state in statuses or () if state in ("idle", "terminated")}
        if deployment_id is not None or (statuses and not states):
            return {"data": [], "next_page": None}
        where = SessionFilter(
            include_archived=include_archived,
            created_from=max((each for each in starts if each is not None), default=None),
            created_to=min((each for each in ends if each is not None), default=None),
            store_id=memory_store_id,
            agent_id=agent_id,
            agent_version=None if agent_id is None else agent_version,
            ended=states.pop() if len(states) == 1 else None,
            within=call.key.store_ids,
            after=None if after is None else (after[0], after[1]),
        )
        found = workspace.sessions.list(where, newest_first=order == "desc", limit=limit + 1)
        return page_of("sessions", found, limit, session_object, lambda session: (session.created_at, session.id))

    return await call.read(read)


@router.get("/{session_id}", responses=answers(objects.Session, 404))
async def retrieve(call: ThisCall, session_id: str) -> JSONResponse:
    """One session."""
    return await call.read(lambda workspace: session_object(_permitted(call, workspace.sessions.get(session_id))))


@router.post("/{session_id}/archive", responses=answers(objects.Session, 404))
async def archive(call: ThisCall, session_id: str) -> JSONResponse:
    """End a session for good: nothing can be mounted for it any more. A second time changes nothing."""

    def write(workspace: Workspace) -> JsonObject:
        _permitted(call, workspace.sessions.get(session_id))
        return session_object(workspace.sessions.archive(session_id))

    return await call.write(write)
