"""Blocking work in threads, for asyncio and trio: what is cancelled does not go on behind the caller's back."""

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


class _Work:
    """A function that a thread runs, unless it was called off before."""

    def __init__(self) -> None:
        self._begins = threading.Lock()
        self._begun = False
        self._called_off = False
        self.ended = threading.Event()

    def run(self, function: Callable[[], T]) -> T:
        """In the thread."""
        with self._begins:
            if self._called_off:
                raise RuntimeError("nobody waits for this any more")
            self._begun = True
        try:
            return function()
        finally:
            self.ended.set()

    def call_off(self) -> bool:
        """Keep it from beginning; False where it has begun."""
        with self._begins:
            self._called_off = True
            return not self._begun


async def in_thread(function: Callable[[], T]) -> T:
    """Run something in a thread; where this is cancelled, it has not begun, or has ended.

    anyio alone waits only for what its own scopes cancel: asyncio.timeout() cancels the task, and the thread would go
    on by itself.
    """
    work = _Work()
    try:
        return await anyio.to_thread.run_sync(work.run, function)
    except anyio.get_cancelled_exc_class():
        if not work.call_off() and not work.ended.is_set():
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(work.ended.wait)
        raise
