"""Recording what processes do to the files of a database: builds ``recorder.c``, and reads what it has written."""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

BUILD_SECONDS = 120

MAGIC = 0x5245434F
HEADER = struct.Struct("=IIQqqIIII")


class Kind(IntEnum):
    """What was done; as in recorder.c. ``MARK`` is a note of the test's own."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC = 4
    RENAME = 5
    LINK = 6
    UNLINK = 7
    MKDIR = 8
    RMDIR = 9
    UNSEEN = 10
    MARK = 100


@dataclass(frozen=True)
class Event:
    """One call that succeeded.

    ``first`` is a write's offset, the size of a truncated file, or 1 for fdatasync; ``second`` the flags of the
    descriptor that was synced. ``data`` is what was written, a second name, or what a mark says.
    """

    kind: Kind
    inode: int
    first: int
    second: int
    pid: int
    path: str
    data: bytes

    @property
    def other(self) -> str:
        """The second name."""
        return os.fsdecode(self.data)

    def __str__(self) -> str:
        size = f" {len(self.data)} bytes" if self.kind == Kind.WRITE else ""
        return f"{self.kind.name} {self.path}{size} at {self.first} by {self.pid}"


class Recorder:
    """Records what is done below one directory, by whoever is started with ``variables``."""

    def __init__(self, below: Path, place: Path) -> None:
        """``place`` is where the library and the log go, outside of ``below``, which has to be a real path."""
        self.below = below
        self.log = place / "recorded"
        self._library = place / "recorder.so"
        self.log.touch()
        source = Path(__file__).with_name("recorder.c")
        warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-nonnull-compare")
        command: list[str | Path] = ["gcc", "-O1", *warnings, "-shared", "-fPIC", "-o", self._library, source]
        subprocess.run(command, check=True, timeout=BUILD_SECONDS)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of who is to be recorded."""
        return {
            "LD_PRELOAD": str(self._library),
            "MEMFS_RECORD_BELOW": str(self.below),
            "MEMFS_RECORD_LOG": str(self.log),
        }

    def mark(self, said: str) -> None:
        """Put on record that something is so by now."""
        data = said.encode()
        with self.log.open("ab", buffering=0) as log:
            fcntl.flock(log, fcntl.LOCK_EX)  # as each call that is recorded
            log.write(HEADER.pack(MAGIC, Kind.MARK, 0, 0, 0, os.getpid(), 0, len(data), 0) + data)

    def events(self) -> list[Event]:
        """All that was recorded, in its order."""
        return list(_read(self.log.read_bytes()))


def _read(log: bytes) -> Iterator[Event]:
    at = 0
    while at < len(log):
        magic, kind, inode, first, second, pid, path_length, data_length, _ = HEADER.unpack_from(log, at)
        assert magic == MAGIC, f"the log makes no sense at {at}"
        at += HEADER.size
        path = os.fsdecode(log[at : at + path_length])
        at += path_length
        yield Event(Kind(kind), inode, first, second, pid, path, log[at : at + data_length])
        at += data_length
