"""Memory that is left: what clients make a mount keep is refused while there is still enough for everything else.

Where an allocation fails deep in the event loop or in one of its threads, nobody can be answered any more, and what
waits for that thread waits for ever. So what takes much of it, the texts of open files, is refused (ENOMEM) before.
"""

import mmap

HEADROOM_BYTES = 8 << 20
"""What must be left; some eight requests at once take a buffer of a mebibyte each."""

STEP_BYTES = 256 << 10
"""After how much it is looked at again."""


class Headroom:
    """Looks whether there is memory left, every so many bytes, because asking the system takes microseconds."""

    def __init__(self) -> None:
        self._spent = STEP_BYTES

    def spend(self, size: int) -> None:
        """So many bytes are about to be kept. Raises MemoryError where too little would be left.

        Finds what this process may have (RLIMIT_AS, strict overcommit). Where the machine or a cgroup promises more
        than it has, the kernel ends the process instead.
        """
        self._spent += size
        if self._spent < STEP_BYTES:
            return
        try:
            mmap.mmap(-1, HEADROOM_BYTES).close()
        except OSError as error:
            raise MemoryError("no memory is left for it") from error
        self._spent = 0
