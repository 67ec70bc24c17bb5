"""The service itself: whether it is well, its figures, and its description."""

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from memfs.api import objects
from memfs.api.answers import RETRY_SECONDS
from memfs.api.calls import Threads, workspace_permitted
from memfs.api.metrics import MEDIA_TYPE, Metrics
from memfs.api.objects import answers
from memfs.model.errors import MemfsError
from memfs.workspace import Workspace

router = APIRouter(tags=["service"])


@router.get(
    "/healthz",
    responses={
        200: {"model": objects.Health, "description": "Success."},
        503: {"model": objects.Health, "description": "The database cannot be read."},
    },
    openapi_extra={"security": []},
)
async def health(request: Request) -> JSONResponse:
    """Whether requests can be answered. The only thing that needs no key."""
    threads: Threads = request.app.state.threads
    try:
        await threads.read(_check)
    except MemfsError:
        return JSONResponse({"status": "unavailable"}, 503, {"retry-after": RETRY_SECONDS})
    return JSONResponse({"status": "ok"})


@router.get(
    "/metrics",
    responses=answers(str),
    response_class=PlainTextResponse,
    dependencies=[Depends(workspace_permitted)],
)
async def metrics(request: Request) -> Response:
    """Figures for Prometheus."""
    found: Metrics = request.app.state.metrics
    return Response(found.text(), media_type=MEDIA_TYPE)


def _check(workspace: Workspace) -> None:
    workspace.engine.check_in_place()
    workspace.engine.data_version()
