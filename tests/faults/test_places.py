"""The runtime directory, where records, refusals and the log are, is full or gone."""

import errno
import os
from pathlib import Path

import pytest

from tests.faults.injecting import Call, Fault, Faults
from tests.faults.places import FaultySite, answer, saved
from tests.mount.harness import wait_until

pytestmark = pytest.mark.mount


def wait_for_faults(fault: Fault, count: int) -> None:
    """Wait until so many calls have failed."""
    wait_until(lambda: fault.injected >= count, f"{count} calls fail")


def test_a_runtime_directory_that_is_full_or_gone_hurts_no_file_and_is_told_once(
    at: FaultySite, notes: Path, faults: Faults
) -> None:
    worker = at.worker("notes")
    for number in (errno.ENOSPC, errno.ENOENT):
        with faults.fail(Call.OPEN, ".new", number) as fault:
            for count in range(3):
                # A refusal, to be put on record.
                assert answer(lambda: os.mkfifo(notes / "pipe")) == "EPERM"
                wait_for_faults(fault, count + 1)
                assert saved(notes / f"{number}-{count}.md", "text\n") == "ok"
            assert (notes / "known.md").read_text() == "known\n"
        assert answer(lambda: os.mkfifo(notes / "pipe")) == "EPERM"
        wait_until(lambda: len(at.status()[0]["refusals"]) > 3, "refusals are on record again")
    with faults.fail(Call.WRITE, ".log", errno.ENOSPC) as fault:
        assert answer(lambda: os.mkfifo(notes / "pipe")) == "EPERM"
        wait_for_faults(fault, 1)
        assert saved(notes / "unlogged.md", "text\n") == "ok"
    assert len(at.heads("notes")) == 8
    assert at.worker("notes") == worker
    log = at.log()
    assert log.count("what was refused could not be put where 'memfs status' finds it: ") == 2, "once for each trouble"
    at.expect("could not be put where")
