"""What the tests of the kinds share: a directory in a mounted store, and other processes at work in it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mount.harness import LIMIT, Site, shell


def errno_of(action: Callable[[], object]) -> int | None:
    """The errno of a refused call, None where it went through."""
    try:
        action()
    except OSError as error:
        return error.errno
    return None


@dataclass
class Here:
    """A directory of one test's own in the mounted store ``notes``."""

    at: Site
    path: Path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def rules(self) -> Path:
        """The read_only mount beside."""
        return self.at.root / "rules"

    def names(self) -> list[str]:
        """What is listed, sorted."""
        return sorted(os.listdir(self.path))

    def heads(self) -> dict[str, bytes]:
        """What the database holds below this directory: path from here to bytes."""
        below = f"/{self.path.name}/"
        return {
            path.removeprefix(below): text for path, text in self.at.heads("notes").items() if path.startswith(below)
        }

    def shell(self, script: str) -> str:
        """Run a bash script here that must succeed; returns what it wrote."""
        return shell(script, self.path)

    def read(self, name: str) -> bytes:
        """A file's bytes as another process reads them."""
        return subprocess.run(["cat", name], cwd=self.path, capture_output=True, check=True, timeout=LIMIT).stdout

    def python(self, code: str, *arguments: str) -> str:
        """Run Python here to its end, as another process; returns what it printed."""
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=self.path,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def racing(self, code: str, number: int) -> list[str]:
        """Run the same Python in several processes that begin together; returns what each printed.

        Each process gets its number as its argument, and begins where ``code`` calls ``ready()``.
        """
        gate = "import sys\ndef ready():\n    print('ready', flush=True); sys.stdin.readline()\n"
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", gate + code, str(which)],
                cwd=self.path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for which in range(number)
        ]
        try:
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            answers = [process.communicate(timeout=LIMIT) for process in processes]
            assert [process.returncode for process in processes] == [0] * number, answers
            return [output for output, _ in answers]
        finally:
            for process in processes:
                process.kill()
                process.wait(LIMIT)
                for stream in (process.stdin, process.stdout, process.stderr):
                    if stream is not None:
                        stream.close()

    def remount(self) -> None:
        """Unmount both stores and mount them again."""
        self.at.take_down()
        self.at.mount("notes", "rules:read_only")


@contextmanager
def opened(path: Path, flags: int, mode: int = 0o644) -> Iterator[int]:
    """A descriptor, closed at the end."""
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def forget_pages(path: Path) -> None:
    """Make the kernel drop what it has cached of a file's bytes."""
    with opened(path, os.O_RDONLY) as descriptor:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
