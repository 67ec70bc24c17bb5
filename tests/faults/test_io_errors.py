"""Calls on the database's files that fail, below SQLite, in a running mount, which goes on when they work again."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.injecting import ALWAYS, SHORT, Call, Faults
from tests.faults.places import FaultySite, answer, saved, synced
from tests.mount.harness import wait_until

pytestmark = pytest.mark.mount

LOG, DATABASE, INDEX = "memfs.db-wal", "memfs.db", "memfs.db-shm"
CHECKPOINT = "x" * 100_000
"""A text so large that fifty of them make SQLite move the log into the database."""


@dataclass(frozen=True)
class Case:
    """A fault, and what programs get of it: ``ok`` where it hurts nobody, both where it depends on what is cached."""

    calls: Call
    name: str
    number: int
    close: str
    fsync: str
    read: str = "ok"
    times: int = ALWAYS

    def __str__(self) -> str:
        how = "short" if self.number == SHORT else errno.errorcode[self.number]
        return f"{str(self.calls.name).lower()}-{self.name}-{how}-{'once' if self.times == 1 else 'always'}"


CASES = [
    Case(Call.WRITE, LOG, errno.EIO, close="EIO", fsync="EIO"),
    Case(Call.WRITE, LOG, errno.EIO, close="EIO", fsync="ok", times=1),
    Case(Call.WRITE, LOG, errno.ENOSPC, close="ENOSPC", fsync="ENOSPC"),
    Case(Call.WRITE, LOG, errno.EROFS, close="EIO", fsync="EIO"),
    Case(Call.WRITE, LOG, SHORT, close="ok", fsync="ok"),
    Case(Call.SYNC, LOG, errno.EIO, close="ok", fsync="EIO"),
    Case(Call.READ, LOG, errno.EIO, close="EIO", fsync="EIO", read="EIO"),
    Case(Call.WRITE, DATABASE, errno.EIO, close="ok", fsync="ok"),
    Case(Call.SYNC, DATABASE, errno.EIO, close="ok", fsync="ok"),
    Case(Call.READ, DATABASE, errno.EIO, close="ok EIO", fsync="ok EIO", read="ok EIO"),
    Case(Call.WRITE | Call.TRUNCATE, INDEX, errno.EIO, close="ok", fsync="ok"),
    Case(Call.MAP, INDEX, errno.ENOMEM, close="ok", fsync="ok"),
    Case(Call.OPEN, DATABASE, errno.EIO, close="ok", fsync="ok"),
]
"""What is done in the log alone is in SQLite's cache and in shared memory; the database itself is written by a
checkpoint, whose failure is nobody's business but its own: it is made up for by the next one."""


@pytest.fixture(scope="module")
def module_faults(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    """The faults of the mount that all cases share."""
    made = Faults(library, tmp_path_factory.mktemp("rules") / "rules")
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(module_faults: Faults, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultySite]:
    """One site with a mount for all cases."""
    made = FaultySite(tmp_path_factory.mktemp("io"), extra=module_faults.environment)
    made.store("notes")
    made.mount("notes")
    yield made
    made.allow("could not commit", "may be seen a second late")
    made.end()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_call_that_fails_is_told_and_what_it_hit_is_saved_later(
    shared: FaultySite, module_faults: Faults, case: Case
) -> None:
    at, notes = shared, shared.root / "notes"
    place = f"case{CASES.index(case)}"
    worker = at.worker("notes")
    (notes / f"{place}-known.md").write_text("known\n")
    closed, held, other = (notes / f"{place}-{name}.md" for name in ("closed", "held", "other"))
    (other).write_text("before\n")
    with held.open("w") as open_file, other.open("w") as second:
        with module_faults.fail(case.calls, case.name, case.number, times=case.times) as fault:
            open_file.write("held\n")
            assert answer(open_file.flush) == "ok"
            duplicate = os.dup(open_file.fileno())
            assert answer(lambda: os.close(duplicate)) in case.close.split()
            second.write("after\n")
            second.flush()
            assert answer(lambda: os.fsync(second.fileno())) in case.fsync.split()
            assert answer((notes / f"{place}-known.md").read_text) in case.read.split()
        told = {case.close, case.fsync} - {"ok", "ok EIO"}
        if told:
            assert fault.injected
            assert f"errno={told.pop()}" in at.log()
        # The next close of a kept buffer saves it.
        duplicate = os.dup(open_file.fileno())
        assert answer(lambda: os.close(duplicate)) == "ok"
        assert answer(lambda: os.fsync(second.fileno())) == "ok"
    assert saved(closed, "closed\n") == "ok"
    assert synced(closed, "synced\n") == "ok"
    heads = at.heads("notes")
    assert [heads[f"/{place}-{name}.md"] for name in ("held", "other", "closed", "known")] == [
        b"held\n",
        b"after\n",
        b"synced\n",
        b"known\n",
    ]
    assert (notes / f"{place}-known.md").read_text() == "known\n"
    assert at.worker("notes") == worker


def test_a_fault_of_reading_ends_and_changes_made_elsewhere_are_seen_at_once_again(
    at: FaultySite, notes: Path, faults: Faults
) -> None:
    """The mount asks the database for what is new; where it cannot, it says so once and tries again."""
    with faults.fail(Call.READ, LOG) as fault:
        at_once = at.heads("notes")
        assert list(at_once) == ["/known.md"]
        elsewhere(at, "/new.md")
        wait_until(lambda: fault.injected > 3, "it tries again")
        assert answer(lambda: (notes / "known.md").read_text()) == "EIO"
    wait_until(lambda: (notes / "new.md").exists(), "what was made elsewhere is seen")
    wait_until(lambda: "are seen at once again" in at.log(), "it follows again")
    at.expect("changes made elsewhere may be seen a second late: .* or its disk cannot be read")
    assert at.log().count("may be seen a second late") == 1
    os.stat(notes / "known.md")
    elsewhere(at, "/known.md", "changed\n")
    wait_until(lambda: os.stat(notes / "known.md").st_size == len("changed\n"), "the kernel is told of a change")
    assert (notes / "known.md").read_text() == "changed\n"


def elsewhere(at: FaultySite, path: str, text: str = "new\n") -> None:
    """Write a memory by a process that no fault reaches."""
    plain = FaultySite(at.directory)
    command = ["memory", "create", "notes", path, "--content", text]
    if path in at.heads("notes"):
        command[1] = "update"
    plain.run(*command)


def test_a_checkpoint_that_fails_loses_nothing_and_is_made_up_for(at: FaultySite, notes: Path, faults: Faults) -> None:
    """Fifty large texts fill the log. Where it cannot be moved into the database, it grows, and closes go on."""
    with faults.fail(Call.WRITE, DATABASE) as write, faults.fail(Call.SYNC, DATABASE):
        for number in range(50):
            assert saved(notes / f"{number}.md", f"{number} {CHECKPOINT}") == "ok"
        assert write.injected
        size = at.db.stat().st_size
    with faults.fail(Call.SYNC, DATABASE) as sync:
        for number in range(3):
            assert saved(notes / f"more-{number}.md", f"{number} {CHECKPOINT}") == "ok"
        assert sync.injected, "what it has written is not taken for written"
    with faults.watch(Call.SYNC, DATABASE) as again:
        assert saved(notes / "last.md", "last\n") == "ok"
        assert again.seen
    assert at.db.stat().st_size > size
    heads = at.heads("notes")
    assert all(heads[f"/{number}.md"] == f"{number} {CHECKPOINT}".encode() for number in range(50))


def test_a_command_says_that_the_disk_fails(at: FaultySite, faults: Faults) -> None:
    with faults.fail(Call.READ, DATABASE):
        at.refused(5, "memory", "list", "notes", says="disk I/O error: see what the system's log says of its disk")
    with faults.fail(Call.WRITE, LOG):
        at.refused(5, "memory", "create", "notes", "/a", "--content", "a", says="see what the system's log says")
    at.run("memory", "create", "notes", "/a", "--content", "a")
