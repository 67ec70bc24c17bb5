"""A control group with little memory: whoever takes more in it is killed by the kernel, as in a container."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mount.harness import wait_until


class MemoryGroup:
    """What its processes take from now on is counted against a limit; what they have had before is not."""

    def __init__(self, directory: Path, limit: str, events: str) -> None:
        self.directory = directory
        self._limit = limit
        self._events = events

    def take(self, pid: int, size: int) -> None:
        """Put a process in, with so many bytes for all of them."""
        (self.directory / self._limit).write_text(str(size))
        (self.directory / "cgroup.procs").write_text(str(pid))

    @property
    def killed(self) -> int:
        """How many the kernel has killed because there was no memory for them."""
        lines = (self.directory / self._events).read_text().splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])

    def remove(self) -> None:
        """Take it away, once all in it have ended."""

        def gone() -> bool:
            try:
                self.directory.rmdir()
            except OSError:
                return False
            return True

        wait_until(gone, f"{self.directory} to be empty")


@contextmanager
def memory_group(name: str) -> Iterator[MemoryGroup]:
    """One of the first or second version of control groups; skips the test where neither can be made."""
    first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    if first.is_dir():
        group = MemoryGroup(first / name, "memory.limit_in_bytes", "memory.oom_control")
    else:
        group = MemoryGroup(second / name, "memory.max", "memory.events")
    try:
        group.directory.mkdir()
    except OSError as error:
        # In a container the control groups may be read-only, and nothing of memfs can change that.
        pytest.skip(f"no control group can be made here: {error}")
    try:
        if not os.access(group.directory / group._limit, os.W_OK):
            # In the second version the group above has to pass its memory controller on: the machine's business.
            pytest.skip("no memory can be counted in a control group here")
        yield group
    finally:
        group.remove()
