"""The second try of an open: a kernel that is answered ESTALE looks the name up anew, and opens once more."""

import trio

RETRY_SECONDS = 1.0
"""Within this, the next open of a thread that was told ESTALE is the kernel's second try."""

MOST_RETRIES = 1_000


class Retries:
    """The threads of which an open was answered ESTALE."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[float, int]] = {}
        """When each was, and which inode was looked up for it since, 0 for none."""

    def told(self, pid: int) -> None:
        """An open of a thread is answered ESTALE."""
        self._told[pid] = trio.current_time(), 0
        if len(self._told) > MOST_RETRIES:
            del self._told[next(iter(self._told))]

    def found(self, pid: int, inode: int) -> None:
        """A name was looked up for a thread."""
        if pid in self._told:
            self._told[pid] = self._told[pid][0], inode

    def ended(self, pid: int) -> None:
        """The call of a thread is over: the next ESTALE is of another."""
        self._told.pop(pid, None)

    def second(self, pid: int, inode: int) -> bool:
        """Whether a thread that opens an inode tries for the second time. Whichever it is, that call is over."""
        told = self._told.pop(pid, None)
        return told is not None and trio.current_time() - told[0] <= RETRY_SECONDS and told[1] == inode
