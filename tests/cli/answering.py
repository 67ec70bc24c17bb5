"""The command with somebody at a terminal who answers its question, while its output goes elsewhere."""

import os
import pty
import re
import signal
import struct
import subprocess
import termios
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

from tests.processes import PYTHON, environment

PROMPT = b"[y/N] "
INTERRUPT = None
"""An answer that is Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, what it wrote to stdout, and what stood on the terminal."""

    code: int
    stdout: bytes
    terminal: str


def answered(db: Path, *arguments: str, answer: bytes | None = b"") -> Ended:
    """Run ``memfs`` with a terminal for stdin and stderr and a pipe for stdout; ``answer`` its first question."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 250, 0, 0))
    with subprocess.Popen(
        [*PYTHON, "-m", "memfs.cli", "--db", db, *arguments],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment(TERM="xterm", NO_COLOR="1"),
    ) as process:
        os.close(theirs)
        shown, asked = b"", False
        try:
            while chunk := os.read(ours, 65_536):
                shown += chunk
                if not asked and PROMPT in shown:
                    asked = True
                    if answer is INTERRUPT:
                        process.send_signal(signal.SIGINT)
                    else:
                        os.write(ours, answer)
        except OSError:  # what a terminal's end reads like on Linux
            pass
        os.close(ours)
        assert process.stdout is not None
        stdout = process.stdout.read()
        code = process.wait()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))  # without colours and cursor movements
    assert "Traceback" not in text
    return Ended(code, stdout, text)
