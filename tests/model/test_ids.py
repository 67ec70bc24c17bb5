"""Identifiers sort by creation and do not collide, whatever the clock does."""

import time

import pytest

from memfs.model import ids
from tests.processes import finish, python, tell


def test_an_id_has_its_prefix_and_26_characters() -> None:
    for prefix in ids.PREFIXES:
        made = ids.new_id(prefix)
        assert made.startswith(prefix)
        assert len(made) == len(prefix) + 26
        assert ids.is_id(made, prefix)


def test_ids_of_one_process_sort_by_creation() -> None:
    made = [ids.new_id(ids.MEMORY) for _ in range(5_000)]
    assert made == sorted(set(made))


def test_ids_keep_their_order_when_the_clock_stands_still_or_jumps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [ids.new_id(ids.MEMORY)]
    present = time.time_ns()
    for moment in (present, present, present - 3_600_000_000_000, 0, present):
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment)
        made += [ids.new_id(ids.MEMORY) for _ in range(50)]
    assert made == sorted(set(made))


def test_an_id_sorts_after_the_one_it_is_told() -> None:
    ahead = ids.MEMORY_VERSION + "7" + "0" * 25  # made by a machine whose clock is far ahead
    made = ids.new_id(ids.MEMORY_VERSION, after=ahead)
    assert ids.is_id(made, ids.MEMORY_VERSION)
    assert made > ahead


def test_processes_do_not_make_the_same_id() -> None:
    """Even where all their clocks stand at one moment and they continue from one id."""
    code = """
import sys, time
from memfs.model import ids
after = sys.argv[1]
time.time_ns = lambda: 1_700_000_000_000_000_000
sys.stdin.readline()
for _ in range(2_000):
    print(ids.new_id(ids.MEMORY, after=after))
"""
    after = ids.new_id(ids.MEMORY)
    with python(code, after) as one, python(code, after) as two:
        tell(one)
        tell(two)
        made = finish(one).split() + finish(two).split()
    assert len(set(made)) == len(made) == 4_000
    assert min(made) > after


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mem_",
        "mem_01M8NMQFRP7HNTABQQHZR3KZM",  # one too short
        "mem_01M8NMQFRP7HNTABQQHZR3KZM66",  # one too long
        "mem_01m8nmqfrp7hntabqqhzr3kzm6",  # lower case
        "mem_81M8NMQFRP7HNTABQQHZR3KZM6",  # over 128 bits
        "mem_01M8NMQFRP7HNTABQQHZR3KZMU",  # U is not in the alphabet
        "mem_01M8NMQFRP7HNTABQQHZR3KZM6\n",
        "memver_01M8NMQFRP7HNTABQQHZR3KZM6",
        "01M8NMQFRP7HNTABQQHZR3KZM6",
    ],
)
def test_other_text_is_no_id(text: str) -> None:
    assert not ids.is_id(text, ids.MEMORY)
