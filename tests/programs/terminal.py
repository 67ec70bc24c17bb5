"""A program at a terminal: typed to, waited for, and always ended."""

import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fcntl import ioctl

from tests.programs.sides import SECONDS, Side, end_group

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|[()][A-Za-z0-9]|[=>78DEHM])|[\x00\x07\x0e\x0f]")


class Terminal:
    """What a running program shows, and its keyboard."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        """``descriptor`` is the terminal's end that people sit at."""
        self._descriptor = descriptor
        self._sent = b""
        self._seen = 0
        self.process = process

    @property
    def text(self) -> str:
        """All that was shown, without the sequences that place it."""
        return _ESCAPES.sub("", self._sent.decode(errors="replace"))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._descriptor, keys.encode())

    def wait(self, pattern: str) -> None:
        """Wait until something new is shown that a regular expression finds."""
        deadline = time.monotonic() + SECONDS
        while not (found := re.compile(pattern).search(self.text, self._seen)):
            assert self._read(deadline), f"the program ended and {pattern!r} was not shown: {self.text!r}"
        self._seen = found.end()

    def end(self) -> int:
        """Wait for the program's end; returns its exit status."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        return self.process.wait(SECONDS)

    def _read(self, deadline: float) -> bool:
        """Take what comes next; false where nothing more will."""
        readable = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]
        assert readable, f"waited {SECONDS} s: {self.text!r}"
        try:
            chunk = os.read(self._descriptor, 65_536)
        except OSError:  # what a terminal's end reads like on Linux
            return False
        self._sent += chunk
        return bool(chunk)


@contextmanager
def terminal(side: Side, command: Sequence[str]) -> Iterator[Terminal]:
    """Run a program in a side's directory with all its streams on a terminal."""
    ours, theirs = pty.openpty()
    try:
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        process = subprocess.Popen(
            ["setsid", "--ctty", *command],  # emacs opens /dev/tty
            cwd=side.directory,
            env=side.variables(),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    with process:
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()  # before setsid there is no group
            end_group(process.pid)
            os.close(ours)
