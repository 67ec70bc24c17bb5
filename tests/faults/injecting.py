"""Faults below memfs, its Python and its SQLite: system calls that fail, and a wrong clock, in running processes.

The library ``inject.c`` is put in front of libc (``LD_PRELOAD``) of whatever gets ``Faults.environment``, and of all
that this starts. Its rules lie in a file that both sides map: a test sets and lifts faults while the process runs.
"""

import errno
import mmap
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path

SOURCE = Path(__file__).with_name("inject.c")

CLOCK = struct.Struct("=q")
RULE = struct.Struct("=Iiiiii104s")
RULES = 8
"""As ``struct control`` and ``struct rule`` of inject.c."""

ALWAYS = -1
"""``times``: for as long as the fault is there."""

SHORT = 0
"""``number``: a write takes half of what it was given, and says so."""


class Call(IntFlag):
    """Kinds of system calls, by the numbers that inject.c has for them."""

    OPEN = 1
    WRITE = 2
    READ = 4
    SYNC = 8
    TRUNCATE = 16
    MAP = 32
    UNLINK = 64
    THREAD = 128
    FORK = 256


def build(directory: Path) -> Path:
    """Compile the library; returns its file."""
    library = directory / "inject.so"
    options = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command: list[str | Path] = ["gcc", *options, "-o", library, SOURCE, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    library.chmod(0o755)
    return library


@dataclass
class Fault:
    """A rule; what it counted can be asked for when it is lifted, too."""

    faults: "Faults"
    place: int
    _counted: tuple[int, int] | None = None

    def lift(self) -> None:
        """Let all calls through again."""
        self._counted = (self.seen, self.injected)
        self.faults.put(self.place, 0)

    @property
    def seen(self) -> int:
        """How many calls it was asked about, whether or not they failed."""
        return int(self.faults.rule(self.place)[4]) if self._counted is None else self._counted[0]

    @property
    def injected(self) -> int:
        """How many calls it made fail."""
        return int(self.faults.rule(self.place)[5]) if self._counted is None else self._counted[1]


class Faults:
    """The rules of one test's processes."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library = library
        self._file = file
        file.write_bytes(bytes(CLOCK.size + RULES * RULE.size))
        file.chmod(0o666)
        with file.open("r+b") as opened:
            self._mapped = mmap.mmap(opened.fileno(), 0)
        self.total = 0
        """How many calls failed by faults that are over."""

    @property
    def environment(self) -> dict[str, str]:
        """What a process must be started with."""
        return {"LD_PRELOAD": os.fspath(self._library), "MEMFS_TEST_INJECT": os.fspath(self._file)}

    def rule(self, place: int) -> tuple[int | bytes, ...]:
        """The fields of a rule, as in ``struct rule``."""
        return RULE.unpack_from(self._mapped, CLOCK.size + place * RULE.size)

    def put(self, place: int, calls: int, number: int = 0, after: int = 0, times: int = 0, name: bytes = b"") -> None:
        """Set the fields of a rule; ``calls`` 0: none. What says that it is in force comes last."""
        start = CLOCK.size + place * RULE.size
        whole = RULE.pack(0, number, after, times, 0, 0, name)
        self._mapped[start : start + 4] = bytes(4)
        self._mapped[start + 4 : start + RULE.size] = whole[4:]
        self._mapped[start : start + 4] = struct.pack("=I", calls)

    @contextmanager
    def fail(
        self, calls: Call, name: str = "", number: int = errno.EIO, *, after: int = 0, times: int = ALWAYS
    ) -> Iterator[Fault]:
        """Let these calls fail with the errno ``number`` while the block lasts, on files whose path ends with ``name``:
        so many ``times``, once so many went through (``after``)."""
        place = next(place for place in range(RULES) if not self.rule(place)[0])
        encoded = os.fsencode(name)
        assert len(encoded) < 104
        self.put(place, calls, number, after, times, encoded)
        fault = Fault(self, place)
        try:
            yield fault
        finally:
            fault.lift()
            self.total += fault.injected

    def watch(self, calls: Call, name: str = "") -> AbstractContextManager[Fault]:
        """Count calls, and let them all through."""
        return self.fail(calls, name, times=0)

    def set_clock(self, seconds: float) -> None:
        """Let the clock be ahead of the right time by so many seconds, or behind it."""
        self._mapped[: CLOCK.size] = CLOCK.pack(round(seconds * 1e9))

    def close(self) -> None:
        """Let go of the file."""
        self._mapped.close()
