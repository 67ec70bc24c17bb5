"""The oracle of the crashes: what it lets pass and what it finds, for an operation that was cut off."""

import pytest

from tests.crashes.journal import Operation, text_of
from tests.crashes.worlds import PAGE_SIZE, Oracle, Version

PATH = "/writer/f.md"
TEXT = text_of("writer:0", 1500)
"""Of many pages."""

THIRD = -(-len(TEXT) // 3)


def found(saved: Operation, *texts: str) -> list[str]:
    """What is wrong with a history of these texts after an operation that saved TEXT in three calls of write()."""
    versions = [Version("modified" if number else "created", PATH, text) for number, text in enumerate(texts)]
    heads = {PATH: texts[-1]} if texts else {}
    return Oracle("writer").look([saved], versions, heads, {"/writer"})


def save(*, done: bool | None, took: float | None = None) -> Operation:
    """One that saves TEXT."""
    given = {"path": PATH, "token": "writer:0", "lines": 1500, "count": 3}
    return Operation(0, "save", given, done, {} if took is None else {"took": took})


@pytest.mark.parametrize("size", [0, PAGE_SIZE, THIRD, 2 * THIRD, 6 * PAGE_SIZE, len(TEXT)])
def test_a_writer_that_was_killed_may_leave_whole_calls_and_whole_pages(size: int) -> None:
    assert found(save(done=None), TEXT[:size]) == []


@pytest.mark.parametrize("size", [1, PAGE_SIZE - 1, PAGE_SIZE + 1, THIRD - 1, 2 * THIRD + 1, len(TEXT) - 1])
def test_any_other_part_of_it_is_wrong(size: int) -> None:
    assert found(save(done=None), TEXT[:size])


def test_bytes_of_nobody_and_a_save_done_twice_are_wrong() -> None:
    assert found(save(done=None), TEXT[:THIRD] + "\0" * (2 * THIRD))
    assert found(save(done=None), TEXT, TEXT)
    assert found(save(done=None), TEXT[: 2 * THIRD], TEXT[:THIRD])


@pytest.mark.parametrize("size", [PAGE_SIZE, 6 * PAGE_SIZE])
def test_whole_pages_are_no_excuse_where_nobody_was_killed(size: int) -> None:
    assert found(save(done=False, took=0.1), TEXT[:size])
    assert found(save(done=True, took=0.1), TEXT[:size])
    assert found(save(done=True, took=0.1), TEXT[:size], TEXT)


def test_what_was_acknowledged_is_there_whole() -> None:
    assert found(save(done=True, took=0.1), TEXT) == []
    assert found(save(done=True, took=0.1), TEXT[:THIRD])
    assert found(save(done=True, took=0.1))
    assert found(save(done=True, took=6.0), TEXT[:THIRD], TEXT) == [], "unsaved for five seconds"
    assert found(save(done=True, took=6.0), TEXT[:THIRD])
