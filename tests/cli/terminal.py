"""The command with all its streams on a terminal; ``tests.cli.answering`` is for its questions."""

import os
import pty
import struct
import subprocess
import termios
from fcntl import ioctl
from pathlib import Path

from tests.processes import PYTHON, environment

MEMFS = [*PYTHON, "-m", "memfs.cli"]


def at_terminal(db: Path, *arguments: str | Path, typed: str = "", **changes: str) -> str:
    """Run ``memfs`` with its three streams on a terminal, at which somebody has typed something already.

    ``changes`` are variables of the environment. Returns all that the terminal was sent, with its escape sequences.
    """
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    env = environment(TERM="xterm") | changes
    for name in {"COLUMNS", "NO_COLOR", "FORCE_COLOR"} - changes.keys():
        env.pop(name, None)
    command = [*MEMFS, "--db", db, *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        sent = b""
        try:
            while chunk := os.read(ours, 65_536):
                sent += chunk
        except OSError:  # what a terminal's end reads like on Linux
            pass
        os.close(ours)
        assert process.wait() == 0, sent
    return sent.decode()
