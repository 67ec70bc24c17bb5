"""The official SDK's session memory sync on a test's server, at paths of the test and by a clock of the test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic.lib.tools import _memories
from anthropic.lib.tools._memories import SessionMemoryStores
from anthropic.types.beta import BetaManagedAgentsSession

from tests.api.harness import Server
from tests.api.sdk_clients import Wire, opened


class Clock:
    """What the sync takes for the time, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(_memories, "monotonic", lambda: self.now)


def relocated(session: BetaManagedAgentsSession, root: Path) -> BetaManagedAgentsSession:
    """The session with its stores' directories below another root: the sync takes ``mount_path`` by the letter."""
    resources = []
    for resource in session.resources:
        assert resource.type == "memory_store"
        assert resource.mount_path is not None
        directory = root / Path(resource.mount_path).name
        resources.append(resource.model_copy(update={"mount_path": str(directory)}))
    return session.model_copy(update={"resources": resources})


@dataclass
class Syncing:
    """A session's stores on disk."""

    client: AsyncAnthropic
    wire: Wire
    session: BetaManagedAgentsSession
    stores: SessionMemoryStores
    root: Path
    clock: Clock

    async def sync(self, seconds: float = _memories.DEFAULT_MEMORY_SYNC_INTERVAL) -> list[str]:
        """Let time pass and sync if that is due; returns what was asked of the server."""
        self.wire.take()
        self.clock.now += seconds
        await self.stores.sync_if_due()
        return self.wire.take()


@asynccontextmanager
async def syncing(server: Server, root: Path, clock: Clock, *resources: dict[str, Any]) -> AsyncIterator[Syncing]:
    """A session of the API with these resources, downloaded below ``root``; at the end that is gone again."""
    async with opened("async", server) as sdk:
        attached: Any = [{"type": "memory_store", **resource} for resource in resources]
        session = await sdk.client.beta.sessions.create(agent="agent_1", environment_id="env_1", resources=attached)
        stores = SessionMemoryStores(sdk.client, workdir=root)
        await stores.download(relocated(session, root))
        try:
            yield Syncing(sdk.client, sdk.wire, session, stores, root, clock)
        finally:
            await stores.dispose()
        assert not list(root.iterdir())
