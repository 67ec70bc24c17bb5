"""Reading a stream of changes in a test."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlencode

from tests.api.harness import Server

SECONDS = 60.0
"""How long a test waits for an event."""


@dataclass(frozen=True)
class Event:
    """One event."""

    event: str
    id: str
    data: Any


class Stream:
    """An open stream; reading from it waits, for SECONDS at most."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response

    def next(self) -> Event | None:
        """The next event; None at the end of the stream."""
        fields: dict[str, str] = {}
        while line := self._response.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name in ("event", "id", "data"):
                fields[name] = value
            if line == "\n" and "event" in fields:
                return Event(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
        return None

    def take(self, number: int) -> list[Event]:
        """So many events, all of which must come."""
        found = [self.next() for _ in range(number)]
        assert None not in found
        return [each for each in found if each is not None]


@contextmanager
def following(
    server: Server, store: str, *, key: str = "", headers: Mapping[str, str] | None = None, **query: object
) -> Iterator[Stream]:
    """Follow a store's changes. Its first event, the store itself, is still to be read."""
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=SECONDS)
    try:
        sent = {"authorization": f"Bearer {key or server.key}", **(headers or {})}
        connection.request("GET", f"{store}/changes?{urlencode(query)}", headers=sent)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Stream(response)
    finally:
        connection.close()
