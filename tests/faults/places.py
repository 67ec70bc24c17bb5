"""Where a test's faults happen: a site whose processes they reach, its small disks, and what a program sees there."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memfs.mount.processes import detach, mount_tmpfs
from tests.faults.injecting import Faults
from tests.mount.harness import LIMIT, Site, wait_until
from tests.processes import environment

SAVED_SECONDS = 60.0
"""Until when a kept text must have been committed; that takes two seconds on a quiet machine."""


@dataclass
class FaultySite(Site):
    """A site whose commands and mounts run with the library of faults, and impatiently; its database is in ``disk``."""

    disk: Path | None = None

    @property
    def db(self) -> Path:
        """The database."""
        return (self.disk or self.directory / "db") / "memfs.db"

    def command(self, *arguments: str | Path) -> list[str]:
        """The command line that runs memfs."""
        # ``processes`` looks for memfs.cli.
        return [
            *self.prefix,
            sys.executable,
            "-bb",
            "-X",
            "memfs.cli",
            "-m",
            "tests.faults.impatient",
            *map(str, arguments),
        ]

    def environment(self) -> dict[str, str]:
        """With this site's database."""
        return environment(**{"MEMFS_DB": str(self.db), **self.extra})

    def log(self) -> str:
        """What the mounts have logged so far."""
        return "".join(log.read_text() for log in sorted(self._logs) if log.exists())

    def expect(self, *patterns: str) -> None:
        """Lines that the fault is to be told with."""
        self.expected_log.extend(patterns)

    def allow(self, *patterns: str) -> None:
        """Lines that may have been logged by now, by what is faster than the fault or slower."""
        log = self.log()
        self.expect(*(pattern for pattern in patterns if re.search(pattern, log)))

    def wait_until_saved(self, path: str, text: str, store: str = "notes") -> None:
        """Wait until a memory holds a text, which nobody writes any more."""
        wait_until(lambda: self.heads(store).get(path) == text.encode(), f"{path} is saved", SAVED_SECONDS)

    def refused(self, code: int, *arguments: str | Path, says: str) -> str:
        """Run a command that must fail with an exit code and one line, which holds ``says``; returns the line."""
        done = self.run(*arguments, check=False)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert done.stderr.startswith("memfs: "), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert says in done.stderr, done.stderr
        return done.stderr


def answer(action: Callable[[], Any]) -> str:
    """What a program gets: the name of the errno, or ``ok``."""
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def saved(path: Path, text: str) -> str:
    """Write a whole text and close; what close says is told before what came earlier."""
    return answer(lambda: path.write_text(text))


def synced(path: Path, text: str) -> str:
    """Write a whole text and fsync it."""

    def act() -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.write(descriptor, text.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    return answer(act)


@contextmanager
def small_disk(point: Path, size: int, *, inodes: int = 0) -> Iterator[Path]:
    """A tmpfs of so many bytes, and so many inodes if that is given."""
    point.mkdir(exist_ok=True)
    mount_tmpfs(point, size=size, mode=0o700)
    try:
        if inodes:
            remount(point, f"nr_inodes={inodes}")
        yield point
    finally:
        detach(point)


def remount(point: Path, options: str) -> None:
    """Change how a file system is mounted."""
    command = ["mount", "-o", f"remount,{options}", os.fspath(point)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr


def _free(disk: Path) -> int:
    left = os.statvfs(disk)
    return left.f_bavail * left.f_frsize


@contextmanager
def filled(disk: Path, *, but: int = 0) -> Iterator[None]:
    """A disk with no space left, but so many bytes."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        # Others take and give back space meanwhile: a server's log, an index.
        while (left := _free(disk) - but) > 0:
            with suppress(OSError):
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, left)
    try:
        yield
    finally:
        filler.unlink()


__all__ = ["Faults", "FaultySite", "answer", "filled", "remount", "saved", "small_disk", "synced"]
