"""What the log says of files that cannot be saved: little, whatever their number."""

import logging

import pytest

from memfs.model.repeats import AGAIN_SECONDS
from memfs.vfs.unsaved import Unsaved


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_line_at_the_beginning_one_now_and_then_and_one_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    unsaved = Unsaved(clock)
    for moment in range(0, 130, 5):
        clock.now = float(moment)
        for inode in range(2_000):
            unsaved.failed(inode, f"/{inode}.md", "no space left")
    first, second, third = (record.getMessage() for record in caplog.records)
    assert first == "could not commit /0.md yet, and will try again: no space left"
    assert second == third
    assert second.startswith("could not commit /0.md, /1.md, /2.md, /3.md, /4.md and 1995 more yet, and will try again")
    assert clock.now // AGAIN_SECONDS == 2
    caplog.clear()
    unsaved.failed(7, "/7.md", "disk I/O error")
    (other,) = (record.getMessage() for record in caplog.records)
    assert other.endswith("disk I/O error"), "another reason is told at once"
    caplog.clear()
    for inode in range(2_000):
        unsaved.settled(inode)
    unsaved.settled(1)
    assert [record.getMessage() for record in caplog.records] == ["nothing is left uncommitted after 125 s"]


def test_a_trouble_that_comes_again_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    unsaved = Unsaved(Clock())
    for _ in range(3):
        unsaved.failed(1, "/a.md", "no space left")
        unsaved.settled(1)
    assert len(caplog.records) == 3
