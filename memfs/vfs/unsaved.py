"""What is told of files that cannot be saved for now: at once, now and then while it lasts, and when it is over."""

import logging
from collections.abc import Callable, Sequence

import trio

from memfs.model.repeats import Repeats

log = logging.getLogger(__name__)

NAMED = 5
"""How many of the files are named in a line."""


class Unsaved:
    """The files of a mount that could not be committed when they should have been, if there are any."""

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        """``clock`` gives seconds."""
        self._clock = clock
        self._paths: dict[int, str] = {}
        self._since = 0.0
        # A store has 2,000 files, and each is tried again every few seconds.
        self._repeats = Repeats(clock)

    def failed(self, inode: int, path: str, reason: str) -> None:
        """A file could not be committed; its text is kept, and tried again."""
        if not self._paths:
            self._since = self._clock()
            self._repeats.over()
        self._paths[inode] = path
        if self._repeats.worth_telling(reason):
            log.error("could not commit %s yet, and will try again: %s", named(list(self._paths.values())), reason)

    def settled(self, inode: int) -> None:
        """A file was committed, or need not be any more."""
        if self._paths.pop(inode, None) is not None and not self._paths:
            seconds = self._clock() - self._since
            # ``once``: it is not to be held back among refusals.
            log.info("nothing is left uncommitted after %.0f s", seconds, extra={"once": True})


def named(paths: Sequence[str]) -> str:
    """The paths of some files, or of the first of them and how many more there are."""
    more = len(paths) - NAMED
    return ", ".join(paths[:NAMED]) + (f" and {more} more" if more > 0 else "")
