"""A running ``memfs serve`` and plain HTTP to it, for the tests of the API and whoever else needs one."""

import json
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from memfs.workspace import Workspace
from tests.processes import PYTHON, environment
from tests.soundness import assert_sound

START_SECONDS = 100.0
STOP_SECONDS = 100.0


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def ok(self) -> Any:
        """The object of a success."""
        assert self.status == 200, self.body
        assert self.headers["content-type"] == "application/json"
        assert self.headers["request-id"].startswith("req_")
        return self.json

    def refused(self, status: int, kind: str) -> dict[str, Any]:
        """The error of a refusal, which has the form that every refusal has."""
        assert self.status == status, self.body
        found = self.json
        assert found["type"] == "error"
        assert found["request_id"] == self.headers["request-id"]
        assert set(found) == {"type", "error", "request_id"}
        error: dict[str, Any] = found["error"]
        assert error["type"] == kind, error
        assert error["message"]
        assert (self.headers.get("x-should-retry") == "false") == (status == 409)
        return error


@dataclass
class Server:
    """A server process. ``key`` is the secret of a key that may do everything."""

    url: str
    key: str
    process: subprocess.Popen[str]
    log: Path
    headers: dict[str, str] = field(default_factory=dict)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = "",
    ) -> Answer:
        """One request on a connection of its own. ``key`` is a secret, None for none; ``body`` an object, or bytes."""
        sent = {**self.headers, **(headers or {})}
        if key is not None:
            sent.setdefault("authorization", f"Bearer {key or self.key}")
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("content-type", "application/json")
        where = urlsplit(self.url)
        connection = HTTPConnection(where.hostname or "", where.port, timeout=120)
        try:
            target = path + (f"?{urlencode(query)}" if query else "")
            connection.request(method, target, data, sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **query: object) -> Answer:
        """Read something."""
        return self.request("GET", path, query=query)

    def post(self, path: str, body: object = None, **query: object) -> Answer:
        """Change something."""
        return self.request("POST", path, body, query=query)

    def delete(self, path: str, **query: object) -> Answer:
        """Delete something."""
        return self.request("DELETE", path, query=query)

    def store(self, name: str = "Notes") -> str:
        """Make a store; returns its path."""
        return f"/v1/memory_stores/{self.post('/v1/memory_stores', {'name': name}).ok()['id']}"

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell it to stop; returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(STOP_SECONDS)

    @property
    def logged(self) -> str:
        """Its log so far."""
        return self.log.read_text()


def new_key(db: Path, name: str = "test", **how: Any) -> str:
    """Make a key, and the database where there is none; returns the secret. ``how`` is as for ``Keys.create``."""
    with Workspace.open(db, create=True) as workspace:
        return workspace.keys.create(name, **how)[1]


@contextmanager
def serving(
    db: Path,
    *options: str,
    key: str | None = None,
    expected_warnings: bool = False,
    damaged: bool = False,
    variables: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[Server]:
    """A server on a database, with more ``variables`` in its environment, that logs to ``log``, or beside the database.

    Afterwards it is stopped, must have ended well, must have logged no warning, and the database is sound, unless it
    was ``damaged`` on purpose.
    """
    secret = new_key(db) if key is None else key
    log = log or db.with_name(f"{db.name}.serve.log")
    with log.open("a") as errors:
        process = subprocess.Popen(
            [*PYTHON, "-m", "memfs.cli", "--db", str(db), "serve", "--port", "0", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(**(variables or {})),
        )
    with process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], START_SECONDS)[0], "the server did not start in time"
            url = process.stdout.readline().strip()
            assert url.startswith("http"), log.read_text()
            yield Server(url, secret, process, log)
            if process.poll() is None:
                process.terminate()
            assert process.wait(STOP_SECONDS) == 0, log.read_text()
        finally:
            if process.poll() is None:
                process.kill()
    if not expected_warnings:
        bad = [line for line in log.read_text().splitlines() if " level=" in line and " level=INFO " not in line]
        assert not bad, "\n".join(bad)
        assert "Traceback" not in log.read_text()
    if not damaged:
        assert_sound(db)
