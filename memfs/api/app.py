"""The application: its routes, its errors, what runs beside its requests, and its description."""

import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from memfs import __version__
from memfs.api import changes, memories, service, sessions, stores, versions
from memfs.api.answers import on_fault, on_http_error, on_invalid, on_memfs_error
from memfs.api.bell import Bell
from memfs.api.body_limit import BodyLimit
from memfs.api.calls import Threads
from memfs.api.description import describe
from memfs.api.front import Front
from memfs.api.metrics import Metrics
from memfs.api.rates import Rates
from memfs.model.errors import Busy, MemfsError
from memfs.model.repeats import Repeats
from memfs.workspace import Workspace

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 1_048_576
"""By default. The largest content, each of its bytes written as ``\\u0001``, is 614,400 bytes."""

REQUESTS_PER_SECOND = 1_000
"""By default, for each key."""

RECORD_SECONDS = 60.0
"""How often uses of keys and reads of memories are put on record; a crash loses what was noted since."""

AGAIN_SECONDS = 1.0
"""After what went wrong beside the requests, before it is tried again."""

_ABOUT = """\
Memory stores, their memories and every version of them, as the hosted service answers, and a stream of changes.
Every request but /healthz needs an API key ('memfs key create NAME')."""


@dataclass(frozen=True, slots=True)
class Api:
    """An application, and the bell that ends its streams."""

    app: ASGIApp
    bell: Bell


def create_api(
    workspace: Workspace, *, max_body_bytes: int = MAX_BODY_BYTES, requests_per_second: int = REQUESTS_PER_SECOND
) -> Api:
    """An ASGI application on a workspace, which stays open for as long as it runs.

    ``requests_per_second`` is for each key, 0: no limit.
    """
    threads = Threads(workspace)
    bell = Bell(threads)
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        stopping = threading.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_outliving, bell.run)
            tasks.start_soon(_outliving, lambda: _keep_up(threads, stopping))
            yield
            stopping.set()
            tasks.cancel_scope.cancel()

    app = FastAPI(
        title="memfs",
        version=__version__,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        strict_content_type=False,  # a key is needed for everything, so no browser can be tricked into a request
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    app.state.threads = threads
    app.state.bell = bell
    app.state.metrics = metrics
    for router in (
        stores.collection,
        stores.one,
        memories.router,
        versions.router,
        changes.router,
        sessions.router,
        service.router,
    ):
        app.include_router(router)
    app.add_exception_handler(MemfsError, on_memfs_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_fault)
    describe(app)
    return Api(Front(BodyLimit(app, max_body_bytes), threads, metrics, Rates(requests_per_second)), bell)


def _operation_id(route: APIRoute) -> str:
    method = "_patch" if route.methods == {"PATCH"} else ""
    return f"{route.tags[0]}_{route.name}{method}".replace(" ", "_") if route.tags else route.name


async def _outliving(task: Callable[[], Awaitable[None]]) -> None:
    """Run what has no request that could be told what went wrong: begin it again, for the server must live on."""
    repeats = Repeats()
    while True:
        try:
            await task()
        except Exception as error:
            if repeats.worth_telling(repr(error)):
                log.exception("beside the requests something failed, and is tried again")
            await anyio.sleep(AGAIN_SECONDS)
        else:
            return


async def _keep_up(threads: Threads, stopping: threading.Event) -> None:
    """Now and then, put on record what was noted, and prune where the workspace's settings ask for it."""

    def record(workspace: Workspace) -> None:
        workspace.accesses.record()
        workspace.keys.record_uses()

    def prune(workspace: Workspace) -> None:
        try:
            workspace.scrub(wait=False)
            removed = workspace.retention.prune_if_due(stopping)
        except Busy:
            return
        except MemfsError as error:
            log.warning("old versions were not pruned: %s", error)
        else:
            if removed:
                log.info("pruned versions=%d", removed)

    while True:
        await threads.write(prune)
        await anyio.sleep(RECORD_SECONDS)
        await threads.read(record)
