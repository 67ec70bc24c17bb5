"""Following a store's changes, over connections that break."""

import json
import socket
import threading
import time
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

RECONNECT_SECONDS = 1.5
"""How long a connection is kept, at least."""

LIMIT = 60.0


class Stream(threading.Thread):
    """Follows a store from its beginning; breaks off now and then, and goes on after the last event that it got."""

    def __init__(self, url: str, store: str, secret: str) -> None:
        super().__init__(name=f"the stream of {store}", daemon=True)
        self.store = store
        self.version_ids: list[str] = []
        self.connections = 0
        self.wrong: list[str] = []
        self._url = urlsplit(url)
        self._secret = secret
        self._last_id = "0"
        self._moved = threading.Condition()
        self._over = threading.Event()
        self._socket: socket.socket | None = None

    def run(self) -> None:
        """Follow until ``finish``."""
        try:
            while not self._over.is_set():
                self.connections += 1
                with closing(HTTPConnection(self._url.hostname or "", self._url.port, timeout=LIMIT)) as connection:
                    self._follow(connection, time.monotonic() + RECONNECT_SECONDS)
        except (OSError, HTTPException, AssertionError, ValueError) as error:
            self.wrong.append(f"{self.name}: {type(error).__name__}: {error}")

    def _follow(self, connection: HTTPConnection, until: float) -> None:
        headers = {"authorization": f"Bearer {self._secret}", "last-event-id": self._last_id}
        connection.request("GET", f"/v1/memory_stores/{self.store}/changes", headers=headers)
        self._socket = connection.sock
        with connection.getresponse() as response:
            assert response.status == 200, response.read()
            fields: dict[str, str] = {}
            while line := response.readline():
                name, _, value = line.decode().rstrip("\n").partition(":")
                if name or line.startswith(b":"):
                    fields[name] = value.strip()
                    continue
                if fields.get("event") == "memory_version":
                    self._take(fields["id"], json.loads(fields["data"])["id"])
                fields = {}
                if self._over.is_set() or time.monotonic() > until:
                    return

    def _take(self, event_id: str, version_id: str) -> None:
        with self._moved:
            self._last_id = event_id
            self.version_ids.append(version_id)
            self._moved.notify_all()

    def reach(self, sequence: int, seconds: float) -> bool:
        """Wait until it has come to the change with this number."""
        with self._moved:
            self._moved.wait_for(lambda: int(self._last_id) >= sequence or not self.is_alive(), seconds)
            return int(self._last_id) >= sequence

    def finish(self, sequence: int, seconds: float) -> None:
        """End once it has come to the change with this number; where it does not in time, that is noted."""
        if not self.reach(sequence, seconds):
            self.wrong.append(f"{self.name} has come to {self._last_id} of {sequence}")
        self._over.set()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # it may be waiting for an event that nobody will make
        self.join(LIMIT)
