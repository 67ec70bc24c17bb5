"""Which of the tellings of one trouble are worth a line in a log: a fault may last for days and be met each second."""

import time
from collections.abc import Callable

AGAIN_SECONDS = 60.0
"""How often it is told that a trouble lasts: often enough for who reads a log, too seldom to fill a disk."""


class Repeats:
    """One trouble, as it is met again and again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives seconds."""
        self._clock = clock
        self._told = ""
        self._told_at = 0.0

    def worth_telling(self, what: str) -> bool:
        """Whether this is told: at once where it is new or another than before, and else each ``AGAIN_SECONDS``.

        ``what`` is the trouble in words, and not empty. What is worth telling counts as told.
        """
        moment = self._clock()
        if what == self._told and moment - self._told_at < AGAIN_SECONDS:
            return False
        self._told, self._told_at = what, moment
        return True

    def over(self) -> None:
        """The trouble has ended: when it comes again, it is new."""
        self._told = ""
