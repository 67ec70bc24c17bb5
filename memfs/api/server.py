"""Serving the application: sockets, TLS, and a stop that lets requests end."""

import asyncio
import ipaddress
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn

from memfs.api.app import MAX_BODY_BYTES, REQUESTS_PER_SECOND, create_api
from memfs.api.bell import Bell
from memfs.api.connections import Connection
from memfs.model.errors import InvalidRequest
from memfs.workspace import Workspace

STOP_SECONDS = 20
"""How long a stop waits for requests; a write waits for another process's for 15 s at most."""

IDLE_SECONDS = 30
"""How long a connection without a request is kept. Longer than what clients keep theirs for (the SDKs: 5 s), so that
it is not the server who closes one that a request is on its way to."""

BACKLOG = 512

ACCEPTS = 50
"""Connections that are accepted in one go; fewer than the descriptors that are spare."""


@dataclass(frozen=True, slots=True)
class Serving:
    """Where and how to serve; port 0 is any that is free."""

    host: str = "127.0.0.1"
    port: int = 8787
    certificate: Path | None = None
    private_key: Path | None = None
    max_body_bytes: int = MAX_BODY_BYTES
    requests_per_second: int = REQUESTS_PER_SECOND
    access_log: bool = True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises InvalidRequest where there can be none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidRequest(f"there is no host {host!r}: name an address of this machine") from error
    family, _, _, _, address = found[0]
    # With the protocol named: only then asyncio turns Nagle's algorithm off for what is accepted here. With it on, each
    # answer of a connection that is kept, whose head and body are two writes, waits 40 ms for the client's delayed ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise InvalidRequest(
            f"cannot listen at {host} port {port} ({error.strerror}): choose another --host or --port"
        ) from error
    return listening


def address_of(listening: socket.socket, *, tls: bool) -> str:
    """The base URL for clients on this machine."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def check_tls(certificate: Path | None, private_key: Path | None) -> bool:
    """Whether TLS is wanted. Raises InvalidRequest where it cannot be had with these files."""
    if certificate is None and private_key is None:
        return False
    if certificate is None or private_key is None:
        raise InvalidRequest("TLS needs both a certificate and its private key: --tls-cert and --tls-key")
    try:
        # A password that nobody can type in is none: without this it would be asked for on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, private_key, password="")
    except OSError as error:  # an SSLError is one
        raise InvalidRequest(
            f"TLS cannot be had with {certificate} and {private_key} ({error.strerror or error}): they must be PEM"
            " files of a certificate chain and its private key without a password"
        ) from error
    return True


def serve(workspace: Workspace, serving: Serving, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until a signal; ``ready`` is called when requests are answered.

    A signal lets requests end, a second one does not. What was noted is on record when the workspace closes.
    """
    api = create_api(workspace, max_body_bytes=serving.max_body_bytes, requests_per_second=serving.requests_per_second)
    logging.getLogger("memfs.api.access").disabled = not serving.access_log
    config = uvicorn.Config(
        api.app,
        interface="asgi3",
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # memfs.api.front writes one that names the key and the request
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        backlog=ACCEPTS,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=serving.certificate,
        ssl_keyfile=serving.private_key,
        ssl_ciphers="ECDHE+AESGCM:ECDHE+CHACHA20",  # of TLS 1.2: a key that leaks later opens nothing of today
    )
    # Its words about starting and stopping are for people who run it by itself.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # and its warnings, for whatever anybody sends
    asyncio.run(_Server(config, api.bell, ready).serve(sockets=[listening]))


class _Server(uvicorn.Server):
    """Ends its streams when it is told to stop, and stays alive to tell the tale."""

    def __init__(self, config: uvicorn.Config, bell: Bell, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._bell = bell
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)  # uvicorn takes one number for both
        if self.started and not self.should_exit:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: streams would go on for ever."""
        self._bell.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A second signal lets nothing end, whichever it is; uvicorn's needs SIGINT for that."""
        if self.should_exit:
            self.force_exit = True
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but without ending this process of the signal: there is more to close."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.getsignal(number) for number in numbers}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self.handle_exit)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
