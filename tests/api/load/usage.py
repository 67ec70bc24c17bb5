"""What a process uses."""

import os
from pathlib import Path


def descriptors(pid: int) -> int:
    """Descriptors that it has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def rss_mib(pid: int) -> float:
    """Its resident memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) / 1024


def cpu_seconds(pid: int) -> float:
    """How long it has worked, in and out of the kernel."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
