"""The writer lock held by another process for as long as it likes: what waits, for how long, and what becomes of it.

That reads go on meanwhile is in ``tests/mount/together/blocking.py``.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.faults.impatient import LOCK_SECONDS
from tests.faults.places import FaultySite, saved
from tests.mount.harness import LIMIT, wait_until
from tests.mount.together.blocking import writer_lock
from tests.processes import finish, hear, python, tell

pytestmark = pytest.mark.mount

SCRUB = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
connection.execute("UPDATE workspace SET scrubs_wanted = scrubs_wanted + 1")
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("UPDATE workspace SET scrubs_done = scrubs_wanted")
connection.execute("COMMIT")
"""


@contextmanager
def scrub(database: Path) -> Iterator[None]:
    """Another process writes the file anew: it holds the lock, and has said that it is worth waiting for."""
    with python(SCRUB, database) as process:
        assert hear(process) == "held"
        yield
        tell(process)
        finish(process)


def test_closes_wait_for_a_lock_together_and_not_one_after_the_other(at: FaultySite, notes: Path) -> None:
    files = [notes / f"{number}.md" for number in range(12)]
    with ThreadPoolExecutor(len(files)) as pool:
        with writer_lock(at.db):
            began = time.monotonic()
            assert set(pool.map(lambda path: saved(path, "kept\n"), files)) == {"EAGAIN"}
            waited = time.monotonic() - began
            assert (notes / "known.md").read_text() == "known\n"
            wait_until(lambda: "could not commit" in at.log(), "one is tried again")
        for path in files:
            at.wait_until_saved(f"/{path.name}", "kept\n")
    assert LOCK_SECONDS * 0.9 <= waited < LOCK_SECONDS * len(files) / 2, waited
    at.expect("could not commit .* yet, and will try again")
    assert at.log().count("could not commit") <= 2, "one line for each reason"
    wait_until(lambda: "nothing is left uncommitted" in at.log(), "it is told that all is saved")


OPEN = """
import os, sys
descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(descriptor, b"text\\n")
print("written", flush=True)
sys.stdin.readline()
try:
    os.close(descriptor)
except OSError as error:
    print(error.errno)
else:
    print(0)
"""


@contextmanager
def opened(path: Path) -> Iterator[Callable[[], int]]:
    """A file that a process of its own has written to and not closed: each process that is started from one that has a
    file open closes it too, and waits. Yields what closes it, and returns the errno of that or 0."""

    def close() -> int:
        tell(process)
        return int(hear(process))

    with python(OPEN, path) as process:
        assert hear(process) == "written"
        yield close


@pytest.mark.parametrize("held", [writer_lock, scrub], ids=["by a writer", "by a scrub"])
def test_unmounting_while_the_lock_is_held_names_what_is_lost_and_nothing_acknowledged_is(
    at: FaultySite, notes: Path, held: Callable[[Path], AbstractContextManager[None]]
) -> None:
    """A commit waits for a scrub for minutes, but a supervisor does not: a worker must have spoken before."""
    with held(at.db), opened(notes / "open.md"):
        at.run("umount", at.root)
    at.expect("lost at unmount: the unsaved text of /open.md: ")
    at.allow("could not commit")
    assert "is killed" not in at.log()
    assert at.heads("notes") == {"/known.md": b"known\n"}


def test_what_is_open_is_saved_at_unmount_when_the_lock_is_free_in_time(at: FaultySite) -> None:
    at.extra["MEMFS_TEST_LOCK_SECONDS"] = "15"  # as long as it is: nothing may be too slow to be in time
    (notes,) = at.mount("notes")
    with ExitStack() as lock, ThreadPoolExecutor(1) as pool:
        lock.enter_context(writer_lock(at.db))
        with opened(notes / "open.md"):
            unmounted = pool.submit(at.run, "umount", at.root)
            wait_until(lambda: "stopping signal=SIGTERM" in at.log(), "it is told to end")
            lock.close()  # before the file is, whose close would wait for it
            unmounted.result(LIMIT)
    at.allow("could not commit")
    assert at.heads("notes")["/open.md"] == b"text\n"


def test_a_close_that_waits_at_unmount_is_not_acknowledged(at: FaultySite, notes: Path) -> None:
    with ThreadPoolExecutor(2) as pool, writer_lock(at.db), opened(notes / "closing.md") as close:
        closing = pool.submit(close)
        unmounted = pool.submit(at.run, "umount", at.root)
        assert closing.result(LIMIT) != 0
        unmounted.result(LIMIT)
    assert "/closing.md" not in at.heads("notes")
    at.expect("lost at unmount: the unsaved text of /closing.md")
    at.allow("could not commit")
