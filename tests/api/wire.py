"""Requests byte by byte over one kept connection: no client in between that would set anything right."""

import socket
from collections.abc import Iterable
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, BinaryIO, Self, cast
from urllib.parse import urlsplit

from tests.api.harness import Answer

SECONDS = 30.0


class _Reading:
    """What http.client reads an answer from, and would close after it; the next answer comes from it too."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def makefile(self, mode: str) -> Self:
        return self

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Wire:
    """A connection to a server, which is made anew where the server has closed it."""

    def __init__(self, url: str, key: str) -> None:
        where = urlsplit(url)
        self._address = (where.hostname or "", where.port or 0)
        self._key = key
        self._socket: socket.socket | None = None
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; the next request connects again."""
        if self._file is not None:
            self._file.close()
        if self._socket is not None:
            self._socket.close()
        self._file = self._socket = None

    def send(self, data: bytes) -> None:
        """Some bytes. That the server does not want the rest of them is for its answer to say."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._file = cast(BinaryIO, self._socket.makefile("rb"))
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def end(self) -> None:
        """Say that nothing more is to come."""
        assert self._socket is not None
        with suppress(OSError):  # the server was first
            self._socket.shutdown(socket.SHUT_WR)

    def receive(self, method: str = "GET") -> Answer | None:
        """The next answer; None where the server hung up without one."""
        assert self._file is not None
        response = HTTPResponse(cast(socket.socket, _Reading(self._file)), method=method)
        try:
            response.begin()
            body = response.read()
        except (HTTPException, ConnectionResetError):
            self.close()
            return None
        headers = {name.lower(): value for name, value in response.getheaders()}
        if response.will_close:
            self.close()
        return Answer(response.status, headers, body)

    def ask(
        self,
        method: str,
        target: str | bytes,
        body: bytes | None = None,
        headers: Iterable[tuple[str | bytes, str | bytes]] = (),
        *,
        key: bool = True,
    ) -> Answer:
        """One request and its answer; text is sent as Latin-1. Once more where an idle connection had just ended."""
        request = self.request(method, target, body, headers, key=key)
        fresh = self._socket is None
        self.send(request)
        answer = self.receive(method)
        if answer is None and not fresh:
            self.send(request)
            answer = self.receive(method)
        assert answer is not None, request[:2000]
        return answer

    def request(
        self,
        method: str,
        target: str | bytes,
        body: bytes | None = None,
        headers: Iterable[tuple[str | bytes, str | bytes]] = (),
        *,
        key: bool = True,
    ) -> bytes:
        """A request as it is sent."""
        lines = [b" ".join((method.encode(), _bytes(target), b"HTTP/1.1")), b"host: memfs"]
        if key:
            lines.append(f"authorization: Bearer {self._key}".encode())
        lines += [_bytes(name) + b": " + _bytes(value) for name, value in headers]
        if body is not None:
            lines.append(b"content-length: %d" % len(body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")
