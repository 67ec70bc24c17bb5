"""What the kernel need not ask a worker: found out by stopping the worker, who then could not answer."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mount.harness import LIMIT, Site

pytestmark = pytest.mark.mount

CLOSE = """
import os, sys
for name in sys.argv[1:]:
    descriptor = os.open(name, os.O_RDONLY)
    os.close(os.dup(descriptor))
    assert os.read(descriptor, 100)
    print("opened", flush=True)
    sys.stdin.readline()
    os.close(descriptor)
    print("closed", flush=True)
"""


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that answers nothing meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_closing_a_file_of_a_read_only_store_asks_nobody(at: Site) -> None:
    at.store("ro", a_md="one", b_md="two")
    (directory,) = at.mount("ro:read_only")
    command = [sys.executable, "-c", CLOSE, *(str(directory / name) for name in ("a.md", "b.md"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        try:
            assert reader.stdout.readline() == "opened\n"
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert [reader.stdout.readline() for _ in range(2)] == ["closed\n", "opened\n"]
            with stopped(at.worker("ro")):
                reader.stdin.close()  # what waits for a line goes on at its end, too
                assert reader.stdout.readline() == "closed\n"
            assert reader.wait(LIMIT) == 0
        finally:
            reader.kill()
    assert (directory / "b.md").read_text() == "two"


def test_a_close_that_commits_still_asks(at: Site, notes: Path) -> None:
    for text in ("one", "two"):
        (notes / "a.md").write_text(text)
        assert at.heads("notes") == {"/a.md": text.encode()}
