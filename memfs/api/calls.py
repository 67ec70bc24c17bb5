"""One request's way to the workspace: in a thread, as the API key that makes it."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from starlette.responses import JSONResponse

from memfs.model.records import Actor, ApiKey
from memfs.workspace import Workspace
from memfs.workspace.keys import actor_of, check_permitted

T = TypeVar("T")

READERS = 16
WRITERS = 16
"""Threads of their own: a write may wait for another process, and no read shall wait behind it."""

SAFE = ("GET", "HEAD", "OPTIONS")


class Threads:
    """The threads in which the workspace is asked, and answers are made of it: a page may have megabytes of text."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._readers = CapacityLimiter(READERS)
        self._writers = CapacityLimiter(WRITERS)

    async def read(self, function: Callable[[Workspace], T]) -> T:
        """Ask something that waits for no other process."""
        return await to_thread.run_sync(function, self.workspace, limiter=self._readers)

    async def write(self, function: Callable[[Workspace], T]) -> T:
        """Change something; may wait for another process's write."""
        return await to_thread.run_sync(function, self.workspace, limiter=self._writers)


class Call:
    """A request that a key makes."""

    def __init__(self, threads: Threads, key: ApiKey) -> None:
        self.threads = threads
        self.key = key

    @property
    def actor(self) -> Actor:
        """Whose changes they are that this request makes."""
        return actor_of(self.key)

    async def read(self, function: Callable[[Workspace], Any]) -> JSONResponse:
        """Answer with what the workspace says."""
        return await self.threads.read(lambda workspace: JSONResponse(function(workspace)))

    async def write(self, function: Callable[[Workspace], Any]) -> JSONResponse:
        """Answer with what a change came to."""

        def checked(workspace: Workspace) -> JSONResponse:
            workspace.keys.check(self.key.id)  # the body may have come long after the key
            return JSONResponse(function(workspace))

        return await self.threads.write(checked)


# The dependencies wait for nothing and are coroutines all the same: for a plain function the framework takes a thread,
# twice a request, which was a fifth of all that a request costs here.


async def _call(request: Request) -> Call:
    return Call(request.app.state.threads, request.scope["memfs.key"])


ThisCall = Annotated[Call, Depends(_call)]


async def store_permitted(request: Request, call: ThisCall, store_id: str) -> None:
    """A dependency of all that concerns one store. Raises NotPermitted."""
    check_permitted(call.key, store_id=store_id, write=request.method not in SAFE)


async def workspace_permitted(request: Request, call: ThisCall) -> None:
    """A dependency of what concerns the whole workspace. Raises NotPermitted."""
    check_permitted(call.key, write=request.method not in SAFE)
