"""Runs a command until it ends or our standard input does; then it is told to end, and waited for.

So a command that a process started ends with that process, also where that was killed. Nothing of memfs is imported:
this has to be there at once.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys

STOP_SECONDS = 80.0

_PR_SET_PDEATHSIG = 1


def keep(command: list[str]) -> int:
    """Returns the exit status of the command, 128 and the signal's number where one ended it."""
    libc = ctypes.CDLL(None)
    ours = os.getpid()

    def die_with_us() -> None:
        # This process has one thread, so what forked it is alive for as long as the process is.
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != ours:
            os.kill(os.getpid(), signal.SIGTERM)

    with subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_us) as process:
        descriptor = os.pidfd_open(process.pid)
        try:
            waiting = [0, descriptor]
            while descriptor not in (ready := select.select(waiting, [], [])[0]):
                if 0 in ready and not os.read(0, 4096):
                    process.terminate()
                    try:
                        process.wait(STOP_SECONDS)
                    except subprocess.TimeoutExpired:
                        process.kill()
                    break
        finally:
            os.close(descriptor)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1:]))
