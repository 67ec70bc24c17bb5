"""The official SDK's clients on a test's server, and a record of what went over the wire.

A scenario is written once, for the async client, and runs on the sync one too: ``awaited`` lets that one be awaited.
"""

import re
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

import httpx2
from anthropic import Anthropic, AsyncAnthropic, DefaultAsyncHttpxClient, DefaultHttpxClient

from tests.api.harness import Server

Kind = Literal["sync", "async"]
Credential = Literal["api_key", "auth_token"]

_ID = re.compile(r"(?<=/)(?:memstore|memver|mem|sesn)_[0-9A-Z]{26}(?=/|$)")


@dataclass
class Wire:
    """Every attempt of a client: what was asked, and what came back."""

    answers: list[httpx2.Response] = field(default_factory=list)

    def note(self, answer: httpx2.Response) -> None:
        """For the sync client."""
        self.answers.append(answer)

    async def anote(self, answer: httpx2.Response) -> None:
        """For the async client."""
        self.note(answer)

    def take(self) -> list[str]:
        """What was asked since the last time, as ``METHOD /path/{id}``."""
        asked = [f"{each.request.method} {_ID.sub('{id}', each.request.url.path)}" for each in self.answers]
        self.answers.clear()
        return asked

    @property
    def last(self) -> httpx2.Response:
        """The last answer, with its request."""
        return self.answers[-1]


@dataclass
class Sdk:
    """A client and its wire. ``client`` may be the sync one in disguise, which ``kind`` tells."""

    kind: Kind
    client: AsyncAnthropic
    wire: Wire


@asynccontextmanager
async def opened(
    kind: Kind, server: Server, key: str | None = None, credential: Credential = "api_key", **options: Any
) -> AsyncIterator[Sdk]:
    """A client that takes no answer which differs from the SDK's own types; ``options`` are the client's."""
    wire = Wire()
    options = {
        "base_url": server.url,
        credential: server.key if key is None else key,
        "_strict_response_validation": True,
        **options,
    }
    # Not through a proxy that the environment names.
    if kind == "async":
        plain = DefaultAsyncHttpxClient(trust_env=False, event_hooks={"response": [wire.anote]})
        async with AsyncAnthropic(http_client=plain, **options) as client:
            yield Sdk(kind, client, wire)
    else:
        blocking = DefaultHttpxClient(trust_env=False, event_hooks={"response": [wire.note]})
        with Anthropic(http_client=blocking, **options) as sync_client:
            yield Sdk(kind, awaited(sync_client), wire)


def awaited(client: Anthropic) -> AsyncAnthropic:
    """The sync client with methods that can be awaited, and lists that ``async for`` can go through."""
    return cast(AsyncAnthropic, _Awaited(client))


class _Awaited:
    def __init__(self, wrapped: object) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if callable(found):
            return lambda *arguments, **options: _Call(partial(found, *arguments, **options))
        return _Awaited(found)


class _Call:
    """Is made when somebody waits for it, as the async client's is."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()
        return self._call()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for item in self._call():
            yield item
