"""What processes use while nothing is asked of them."""

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """Of several processes together, since they began."""

    seconds: float
    """On a processor, of all threads."""
    switches: int
    """How often one of the threads went to sleep: each time, it had been woken before."""

    def __sub__(self, before: "Usage") -> "Usage":
        return Usage(self.seconds - before.seconds, self.switches - before.switches)


def usage(pids: list[int]) -> Usage:
    """What they have used so far. The kernel tells nanoseconds of each thread; threads that ended do not count."""
    seconds, switches = 0.0, 0
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            directory = Path(f"/proc/{pid}/task/{thread}")
            seconds += int((directory / "schedstat").read_text().split()[0]) / 1e9
            status = (directory / "status").read_text()
            switches += int(status.rpartition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return Usage(seconds, switches)


def idle(pids: list[int], seconds: float) -> Usage:
    """What they use in so many seconds in which we do nothing."""
    before = usage(pids)
    time.sleep(seconds)  # what is measured is that nothing happens: there is nothing to wait for
    return usage(pids) - before
