"""How many requests a client may make in a second."""

import math
import time
from collections.abc import Callable

MAX_CLIENTS = 10_000
"""Clients that are remembered at most; past that, those that are not at their limit are forgotten."""


class Rates:
    """A bucket of ``per_second`` tokens for each client, which fills again within a second; 0 is no limit.

    Not a library: those that count in memory keep timers or threads for it, and this needs a clock only.
    """

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def wait(self, client: str) -> float:
        """Take a token: 0.0, or, where there is none, the seconds until there will be one."""
        if not self._interval:
            return 0.0
        now = self._clock()
        full_at = max(self._full_at.get(client, now), now) + self._interval
        if full_at - now > 1.0 + self._interval / 2:  # half a token for the sake of rounding
            return full_at - now - 1.0
        self._full_at[client] = full_at
        if len(self._full_at) > MAX_CLIENTS:
            self._full_at = {each: at for each, at in self._full_at.items() if at > now}
        return 0.0


def whole_seconds(seconds: float) -> str:
    """For the header retry-after."""
    return str(max(1, math.ceil(seconds)))
