"""A process that changes files on a mount when it is told to: ``main`` is what it runs, ``Hands`` tells it."""

import json
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from memfs.mount.processes import die_with_parent
from tests.processes import hear, python, tell

SIGKILL = 9


@dataclass
class Hands:
    """Somebody in another session."""

    process: Popen[str]

    def do(self, how: str, path: str, text: str = "") -> float:
        """Have it done, with whatever ``text`` is to ``how``; returns when it was, in monotonic time.

        Raises OSError as it was raised there.
        """
        self.begin(how, path, text)
        return self.end()

    def begin(self, how: str, path: str, text: str = "") -> None:
        """Have it done, without waiting for it."""
        tell(self.process, json.dumps([how, path, text]))

    def is_over(self) -> bool:
        """Whether ``end`` need not wait."""
        assert self.process.stdout is not None
        # One line comes for each that goes, so nothing can wait in the reader's buffer.
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def end(self) -> float:
        """Wait for what was begun."""
        number, when = json.loads(hear(self.process))
        if number:
            raise OSError(number, os.strerror(number))
        return float(when)


@contextmanager
def hands(directory: Path) -> Iterator[Hands]:
    """A process whose paths are those of a mounted store; ended at the end."""
    code = "from tests.mount.together.hands import main; main()"
    with python(code, str(os.getpid()), directory) as process:
        yield Hands(process)


def do(how: str, path: str, text: str) -> None:
    """One change, or a look, after which everything is closed."""
    match how:
        case "write":
            with open(path, "w") as file:
                file.write(text)
        case "read":
            with open(path) as file:
                file.read()
        case "append":
            with open(path, "a") as file:
                file.write(text)
        case "cut":
            with open(path, "r+") as file:
                file.truncate(int(text))
        case "cut by name":
            os.truncate(path, int(text))
        case "replace":
            with open(f"{path}.tmp.1", "w") as file:
                file.write(text)
            os.replace(f"{path}.tmp.1", path)
        case "remake":
            os.unlink(path)
            with open(path, "x") as file:
                file.write(text)
        case "unlink":
            os.unlink(path)
        case "rename":
            os.rename(path, text)
        case "mkdir":
            os.mkdir(path)
        case "rmdir":
            os.rmdir(path)
        case _:
            raise ValueError(how)


def main() -> None:
    """Do what comes on standard input, until nothing comes any more."""
    die_with_parent(int(sys.argv[1]), SIGKILL)
    top = sys.argv[2]
    for line in sys.stdin:
        how, path, text = json.loads(line)
        try:
            do(how, top + path, top + text if how == "rename" else text)
        except OSError as error:
            said = [error.errno, 0.0]
        else:
            said = [0, time.monotonic()]
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
