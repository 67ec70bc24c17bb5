"""Ending on a signal: what is open is closed first, and the process ends as it would have without that."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""What tells a process to end. Ctrl-C has an exception of its own."""

_HELD_BACK = (signal.SIGINT, *ENDING)


class _Told(BaseException):
    """The process was told to end. Not an Exception: nobody may take it for an error and go on."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None], *numbers: int) -> Iterator[None]:
    """Call ``handler`` at these signals; one that whoever started us ignores stays ignored (nohup)."""
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [number for number, was in before.items() if was is not signal.SIG_IGN]
    for number in ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


@contextmanager
def ending() -> Iterator[None]:
    """Leave the block where the process is told to end, and end it then; what the block has opened is closed by it."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise _Told(number)

    try:
        with handled(leave, *ENDING):
            yield
    except _Told as told:
        die(told.number)


@contextmanager
def held_back() -> Iterator[None]:
    """Let signals that end the process wait until the block is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die(number: int) -> NoReturn:
    """End as of a signal that nobody handles, so that whoever waits for this process sees why it ended."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise AssertionError("the signal has no effect")
