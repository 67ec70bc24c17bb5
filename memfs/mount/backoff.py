"""When a worker that has died is started again, and which of its deaths are worth a line in the log."""

DELAYS_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
"""The waits one after the other; the last one is for good, so that a store is soon back once its fault is gone."""

STABLE_SECONDS = 60.0
"""A worker that has lived so long begins anew."""

TOLD_EVERY = 12
"""Once the waits grow no more, only every so many failures are told: a line a minute does not fill a disk."""


class Backoff:
    """The failures of one store's workers in a row."""

    def __init__(self) -> None:
        self._failures = 0

    def after(self, lived: float) -> float:
        """Count a worker that died after so many seconds of life; the seconds to wait until the next."""
        if lived > STABLE_SECONDS:
            self._failures = 0
        delay = DELAYS_SECONDS[min(self._failures, len(DELAYS_SECONDS) - 1)]
        self._failures += 1
        return delay

    @property
    def told(self) -> bool:
        """Whether the last failure that was counted belongs into the log."""
        return self._failures <= len(DELAYS_SECONDS) or (self._failures - len(DELAYS_SECONDS)) % TOLD_EVERY == 0
