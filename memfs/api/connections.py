"""Connections that ask in time and take their answers in time; others are cut, or a few clients would have them all."""

import asyncio
import resource
import time

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

REQUEST_SECONDS = 60.0
"""For a whole request, from its first byte, or from the connection's beginning: 1 MiB at 17 KB/s."""

STALL_SECONDS = 30.0
STOP_STALL_SECONDS = 2.0
STALL_BYTES = 32_768
"""Who takes less than this of an answer in this time takes nothing any more."""

MAX_CONNECTIONS = 1_000
SPARE_FILES = 100
"""Descriptors that connections leave to the database, its temporary files and the rest."""


def most_connections() -> int:
    """How many connections there may be at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(SPARE_FILES, min(MAX_CONNECTIONS, soft - SPARE_FILES))


class Connection(H11Protocol):
    """uvicorn's connection, with limits to its patience."""

    _deadline: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    # As uvicorn narrows it: what a server accepts is always a two-way transport.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Where there are too many, the one that has asked nothing for the longest makes room."""
        self._since = time.monotonic()
        super().connection_made(transport)
        # Those that are closing are gone in the loop's next round; many may be made in this one.
        live = [each for each in self.connections if isinstance(each, Connection) and not each.transport.is_closing()]
        if len(live) > most_connections():
            idle = [each for each in live if not each.at_work]
            min(idle, key=lambda each: each._since).transport.abort()
        self._watch()

    @property
    def at_work(self) -> bool:
        """Whether a request is being answered."""
        return self._last is not None and not self._last.response_complete

    @property
    def _last(self) -> RequestResponseCycle | None:
        return self.cycle  # None before the first request, whatever its annotation says

    def data_received(self, data: bytes) -> None:
        """Some of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """The answer is given to the transport, which may still have most of it."""
        self._since = time.monotonic()
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_writing()
        else:
            self._watch()

    def shutdown(self) -> None:
        """The server stops: it waits for clients that read, and not for others."""
        super().shutdown()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = self.loop.call_later(
                STOP_STALL_SECONDS, self._stalled, self.transport.get_write_buffer_size()
            )

    def timeout_keep_alive_handler(self) -> None:
        """Nothing was asked for long."""
        super().timeout_keep_alive_handler()
        self._watch_writing()

    def pause_writing(self) -> None:
        """The client does not keep up."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        """The client does again."""
        super().resume_writing()
        if self._stall is not None and not self.transport.is_closing():
            self._stall.cancel()
            self._stall = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        super().connection_lost(exc)
        for timer in (self._deadline, self._stall):
            if timer is not None:
                timer.cancel()

    def _watch(self) -> None:
        state = self.conn.their_state
        begun = state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))
        incomplete = begun or self._last is None
        if incomplete and self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)
        elif not incomplete and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _watch_writing(self) -> None:
        if self._stall is None:
            self._stall = self.loop.call_later(STALL_SECONDS, self._stalled, self.transport.get_write_buffer_size())

    def _stalled(self, before: int) -> None:
        self._stall = None
        left = self.transport.get_write_buffer_size()
        if before - left < STALL_BYTES:
            self.transport.abort()
        else:
            self._stall = self.loop.call_later(STALL_SECONDS, self._stalled, left)
