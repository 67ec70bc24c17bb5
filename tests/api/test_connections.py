"""Connections that take their time: they are cut, and the others are served. On a small application of its own, whose
patience is short."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from memfs.api import connections
from memfs.api.connections import Connection

SECONDS = 60.0
"""How long a test waits for what must come."""

LARGE = 30_000_000


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers ``ok``, or at /large a large body, or at /quiet nothing until the client goes."""
    if scope["path"] == "/quiet":
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    while (await receive()).get("more_body"):
        pass
    body = b"x" * LARGE if scope["path"] == "/large" else b"ok"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def patience(request: pytest.FixtureRequest) -> float:
    """Seconds for a request, and half as many for an answer that nobody takes; asked for by tests of who is not cut."""
    return float(getattr(request, "param", 1.0))


patient = pytest.mark.parametrize("patience", [60.0], indirect=True, ids=["patient"])
"""Where somebody must not be cut, who on a busy machine may need long."""


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, patience: float) -> Iterator[tuple[str, int]]:
    """Where it listens."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", patience)
    monkeypatch.setattr(connections, "STALL_SECONDS", patience / 2)
    monkeypatch.setattr(connections, "most_connections", lambda: 5)
    config = uvicorn.Config(app, http=Connection, ws="none", lifespan="off", log_config=None, timeout_keep_alive=30)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        yield listening.getsockname()
        server.should_exit = server.force_exit = True
        thread.join(SECONDS)
        assert not thread.is_alive()


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=SECONDS)


def is_cut(connection: socket.socket) -> bool:
    """Wait until the other side ends it."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


def ask(connection: socket.socket, path: str = "/") -> bytes:
    """The answer to a request, up to its ``ok``; what came where it was cut before."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    found = b""
    while not found.endswith(b"\r\n\r\nok") and (part := connection.recv(65_536)):
        found += part
    return found


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nhost: x\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n",
    ],
    ids=["nothing", "head", "body", "chunk"],
)
def test_a_request_that_does_not_come_is_not_waited_for(address: tuple[str, int], sent: bytes) -> None:
    with connect(address) as connection:
        connection.sendall(sent)
        assert is_cut(connection)


def test_a_second_request_has_its_time_too(address: tuple[str, int]) -> None:
    with connect(address) as connection:
        assert ask(connection).endswith(b"ok")
        connection.sendall(b"GET / HT")
        assert is_cut(connection)


def test_a_request_that_is_answered_slowly_is_left_alone(address: tuple[str, int]) -> None:
    with connect(address) as connection:
        connection.sendall(b"GET /quiet HTTP/1.1\r\nhost: x\r\n\r\n")
        connection.settimeout(2.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_who_takes_nothing_of_an_answer_is_cut(address: tuple[str, int]) -> None:
    with connect(address) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        got = len(connection.recv(1000))
        done = threading.Event()
        assert not done.wait(2.5), "nothing is read meanwhile"
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65_536):
                got += len(part)
        assert got < LARGE


def test_who_takes_it_slowly_gets_it_all(address: tuple[str, int]) -> None:
    with connect(address) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        got, pause = 0, threading.Event()
        while got < LARGE:
            part = connection.recv(2_000_000)
            assert part
            got += len(part)
            pause.wait(0.05)


@patient
def test_where_there_are_too_many_the_idle_make_room(address: tuple[str, int]) -> None:
    with contextlib.ExitStack() as opened:
        busy = opened.enter_context(connect(address))
        busy.sendall(b"GET /quiet HTTP/1.1\r\nhost: x\r\n\r\n")
        idle = [opened.enter_context(connect(address)) for _ in range(4)]
        assert ask(idle[-1]).endswith(b"ok")
        for _ in range(3):
            late = opened.enter_context(connect(address))
            assert ask(late).endswith(b"ok")
        assert is_cut(idle[0])
        busy.settimeout(0.2)
        with pytest.raises(TimeoutError):
            busy.recv(1)


def test_there_is_room_left_for_files() -> None:
    assert connections.SPARE_FILES <= connections.most_connections() <= connections.MAX_CONNECTIONS
