"""``memfs serve``: the HTTP API."""

import logging
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast

import click

from memfs.cli.asking import refuse
from memfs.cli.context import Invocation, pass_invocation
from memfs.cli.output import line, note
from memfs.cli.sizes import SizeType

DEFAULT_PORT = 8787
DEFAULT_MAX_BODY = 1024 * 1024
DEFAULT_RATE = 1_000
"""These three as in ``memfs.api``, which help does without (a test compares them)."""


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address or name to listen at."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port to listen at; 0 takes one that is free.",
)
@click.option(
    "--tls-cert", type=click.Path(path_type=Path, dir_okay=False), help="A PEM file with the certificate chain."
)
@click.option("--tls-key", type=click.Path(path_type=Path, dir_okay=False), help="A PEM file with its private key.")
@click.option(
    "--max-body",
    type=SizeType(),
    default=DEFAULT_MAX_BODY,
    metavar="SIZE",
    help="The largest body of a request; a larger one is refused with 413.  [default: 1M]",
)
@click.option(
    "--rate",
    type=click.IntRange(min=0),
    default=DEFAULT_RATE,
    show_default=True,
    metavar="N",
    help="Requests in a second for each key; more are refused with 429. 0 is no limit.",
)
@click.option("--access-log/--no-access-log", default=True, help="Whether to log each request. The default is to.")
@pass_invocation
def serve(
    invocation: Invocation,
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    max_body: int,
    rate: int,
    access_log: bool,
) -> None:
    """Serve the HTTP API, which the official SDKs take for the hosted one.

    Prints its address when it answers, logs to stderr, and runs until Ctrl-C or SIGTERM, which let requests end. It
    may run beside mounts and commands on the same database. Every request needs a key from 'memfs key create'; keys
    and texts go over the network in the clear unless TLS is given. Needs the extra 'api'
    (pip install 'memfs-agent[api]').

    \b
    Example:
      memfs serve
      memfs serve --host 0.0.0.0 --tls-cert server.pem --tls-key server.key
    """
    try:
        from memfs.api import server
    except ImportError as error:
        refuse(f"{error.name or error} is not installed: pip install 'memfs-agent[api]'")
    from memfs.workspace.keys import is_valid

    tls = server.check_tls(tls_cert, tls_key)
    with invocation.workspace() as workspace:
        if not any(is_valid(key) for key in workspace.keys.list()):
            note("there is no valid API key yet, and nothing is answered without one: make one with 'memfs key create'")
        serving = server.Serving(host, port, tls_cert, tls_key, max_body, rate, access_log)
        with server.listen(host, port) as listening:
            if not (tls or server.is_loopback(host)):
                note(
                    f"anybody who can reach {host} can read keys and texts on their way: give --tls-cert and --tls-key"
                )
            logging.basicConfig(
                level=logging.INFO,
                force=True,
                format="%(asctime)s level=%(levelname)s pid=%(process)d %(message)s",
                stream=_log_stream(),
            )
            address = server.address_of(listening, tls=tls)
            server.serve(workspace, serving, listening, lambda: _say_ready(address))


class _LossyPipe:
    """Standard error where it is a pipe: one that nobody reads (a test's, most likely) would stop the server for good
    at its 500th line or so. Lines that it cannot take are lost instead."""

    def __init__(self) -> None:
        # Opened anew, because others who have this pipe too count on writes that wait. Raises OSError without /proc.
        self._descriptor = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def write(self, text: str) -> int:
        """Write, or not."""
        with suppress(OSError):
            os.write(self._descriptor, text.encode(errors="backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""


def _log_stream() -> TextIO:
    with suppress(OSError):
        if stat.S_ISFIFO(os.fstat(2).st_mode):
            return cast(TextIO, _LossyPipe())
    return sys.stderr


def _say_ready(address: str) -> None:
    line(address)
    sys.stdout.flush()
