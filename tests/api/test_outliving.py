"""What the server does beside the requests goes on after a fault, and a fault that lasts does not fill the log."""

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.types import Message

from memfs.api import app as application
from memfs.api.bell import Bell
from memfs.workspace import Workspace

TRIES = 20


async def _live_until(done: anyio.Event, api: application.Api) -> None:
    """Run an application's lifetime, without a request."""
    asked = iter(["lifespan.startup", "lifespan.shutdown"])
    answers: list[str] = []

    async def receive() -> Message:
        kind = next(asked)
        if kind == "lifespan.shutdown":
            await done.wait()
        return {"type": kind}

    async def send(message: Message) -> None:
        answers.append(message["type"])

    with anyio.fail_after(30):
        await api.app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    assert answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_a_fault_beside_the_requests_is_tried_again_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0
    done = anyio.Event()

    async def failing(_bell: Bell) -> None:
        nonlocal tries
        tries += 1
        if tries < TRIES:
            raise RuntimeError("no thread could be started" if tries < TRIES // 2 else "something else")
        done.set()

    async def live(workspace: Workspace) -> Any:
        await _live_until(done, application.create_api(workspace))

    monkeypatch.setattr(Bell, "run", failing)
    monkeypatch.setattr(application, "AGAIN_SECONDS", 0.0)
    caplog.set_level(logging.ERROR)
    with Workspace.open(tmp_path / "memfs.db", create=True) as workspace:
        anyio.run(live, workspace)
    assert tries == TRIES
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "no thread could be started",
        "something else",
    ]
