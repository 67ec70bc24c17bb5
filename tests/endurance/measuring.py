"""What processes and a database use, and whether that is as it was before."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memfs.engine.readers import MAX_READERS
from tests.api.load.usage import descriptors

KEPT_DESCRIPTORS = {"worker": 2 * MAX_READERS, "supervisor": 0, "server": 2 * MAX_READERS + 1}
"""Connections to the database, of two descriptors each, that are kept for the next reader; and a server lets go of its
feed at the first change after its last follower has gone, which may be to come.
"""

KEPT_BYTES = {"worker": 18 << 20, "supervisor": 8 << 20, "server": 18 << 20}
"""How much more memory a process may have in the end than after the first round. Each connection to the database has a
cache of 2 MB that fills with the history, and a worker has six; it remembers what some thousand writers started from.
What a supervisor shares with its worker, which it was forked to, becomes its own as either touches it.
"""

DATABASE_BYTES = 16 << 20
"""How much more the database may have: what has been deleted or changed since the last pruning, and pages to reuse."""

VERSION_BYTES = 1024
"""And for each version more: pruning leaves the last one of each memory that was ever deleted, and every change leaves
its entry in the sequence."""


@dataclass(frozen=True)
class Process:
    """One that is there all the time."""

    kind: str
    """``worker``, ``supervisor`` or ``server``."""
    name: str
    pid: int


@dataclass(frozen=True)
class Use:
    """Of one process."""

    descriptors: int
    threads: int
    children: int
    bytes: int
    """Resident, of its own: without what it shares with whom it was forked from."""


@dataclass(frozen=True)
class Usage:
    """Of everything, at one moment."""

    processes: dict[str, Use]
    wal_bytes: int
    database_bytes: int
    memories: int
    versions: int
    files: frozenset[str]
    """All in the directories that are looked into: temporary ones, records, logs."""
    mounts: int
    """Those of this load."""


def use(pid: int) -> Use:
    """What one process uses now."""
    status = Path(f"/proc/{pid}/status").read_text()
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    threads = re.search(r"^Threads:\s+(\d+)", status, re.MULTILINE)
    assert threads is not None
    private = sum(int(kib) for kib in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", rollup, re.MULTILINE))
    children = sum(len((task / "children").read_text().split()) for task in Path(f"/proc/{pid}/task").iterdir())
    return Use(descriptors(pid), int(threads[1]), children, private * 1024)


def files_below(*directories: Path) -> frozenset[str]:
    """Every file, directory and link below some directories, without those of other filesystems mounted there."""
    found = set()
    for top in directories:
        if not top.exists():
            continue
        device = top.stat().st_dev
        for at, names, files in os.walk(top):
            names[:] = [name for name in names if _is_on(Path(at, name), device)]
            found |= {os.path.join(at, name) for name in names + files}
    return frozenset(found)


def _is_on(path: Path, device: int) -> bool:
    try:
        return path.lstat().st_dev == device
    except OSError:
        return False  # it went meanwhile


def size(path: Path) -> int:
    """Bytes; 0 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def busy(processes: list[Process], idle: Usage, now: Usage) -> Iterator[str]:
    """What is more than in an ``idle`` moment, of what ends by itself where nothing is asked for, in words."""
    for each in processes:
        was, has = idle.processes[each.name], now.processes[each.name]
        if has.descriptors > was.descriptors + KEPT_DESCRIPTORS[each.kind]:
            yield f"{each.name} had {was.descriptors} descriptors open, and has {has.descriptors}"
        if has.threads > was.threads:
            yield f"{each.name} had {was.threads} threads, and has {has.threads}"
        if has.children > was.children:
            yield f"{each.name} had {was.children} children, and has {has.children}"


def grown(processes: list[Process], before: Usage, after: Usage, wal_bytes: int) -> Iterator[str]:
    """What has grown between two quiet moments, in words. ``wal_bytes`` is how large the WAL may be."""
    for each in processes:
        was, now = before.processes[each.name].bytes, after.processes[each.name].bytes
        if now > was + KEPT_BYTES[each.kind]:
            yield f"{each.name} used {was / 2**20:.1f} MiB, and uses {now / 2**20:.1f}"
    if after.wal_bytes > wal_bytes:
        yield f"the WAL has {after.wal_bytes / 2**20:.1f} MiB"
    more = max(0, after.versions - before.versions)
    if after.database_bytes > before.database_bytes + DATABASE_BYTES + more * VERSION_BYTES:
        yield (
            f"the database had {before.database_bytes / 2**20:.1f} MiB,"
            f" and has {after.database_bytes / 2**20:.1f} with {more} versions more"
        )
    if after.memories != before.memories:
        yield f"the store had {before.memories} memories, and has {after.memories}"
    if left := sorted(after.files - before.files):
        yield f"files that were not there: {', '.join(left[:20])}"
    if after.mounts > before.mounts:
        yield f"{before.mounts} mounts were there, and {after.mounts} are"
