"""A process that does operations when it is told to: ``python -m tests.mount.differential.worker``.

It reads pickled operations from its standard input and writes an ``Outcome`` for each to its standard output.
"""

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from memfs.mount.processes import die_with_parent
from tests.mount.differential.operations import Hands, Operation, Outcome
from tests.processes import PYTHON, environment

LIMIT = 60.0
"""Seconds that one operation may take."""

SIGKILL = 9


@dataclass
class Worker:
    """A process that does operations."""

    process: subprocess.Popen[bytes]

    def do(self, operation: Operation) -> Outcome:
        """Have it done."""
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None
        assert answers is not None
        pickle.dump(operation, requests)
        requests.flush()
        # Each answer is read to its end, so that nothing can wait in the reader's buffer.
        if not select.select([answers], [], [], LIMIT)[0]:
            self.process.kill()
            raise AssertionError(f"{operation} was not done in {LIMIT} s")
        try:
            found = pickle.load(answers)
        except EOFError:
            raise AssertionError(f"{operation} ended its process") from None
        assert isinstance(found, Outcome), f"{operation}: {found}"
        return found


@contextmanager
def workers(count: int) -> Iterator[list[Worker]]:
    """So many processes, ended at the end."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            process = subprocess.Popen(
                [*PYTHON, "-m", "tests.mount.differential.worker", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment(),
                cwd="/",
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            started.append(Worker(process))
        yield started


def outcome(operation: Operation, hands: Hands) -> Outcome | str:
    """Do an operation; a text where the operation itself is at fault."""
    try:
        return Outcome(operation.run(hands))
    except OSError as error:
        return Outcome(None, error.errno)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Serve until there is nobody left to serve."""
    die_with_parent(int(sys.argv[1]), SIGKILL)
    os.umask(0o022)
    hands = Hands("")
    while True:
        try:
            operation = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(outcome(operation, hands), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
