"""What becomes of an invalidation that the kernel answers with ENOENT.

Its answers are given here: a real one gives them in the moment between our answer to a lookup and its own taking over
of that.
"""

import threading
from collections import Counter
from collections.abc import Iterator

import pyfuse3
import pytest
import trio

from memfs.mount import invalidation
from memfs.mount.invalidation import Invalidator
from memfs.vfs import StaleInode
from memfs.vfs.tree import Stale
from tests.mount.harness import LIMIT, wait_until

KNOWN, FORGOTTEN, LOST, LAST = 11, 12, 13, 14
"""Inodes: one that the kernel comes to know at the third try, one that it was not told of, one that it never knows, and
one that it knows."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often the kernel was asked to forget what it knows of each inode."""
    counts: Counter[int] = Counter()

    def invalidate(inode: int, attr_only: bool = False) -> None:
        counts[inode] += 1
        if inode in (FORGOTTEN, LOST) or (inode == KNOWN and counts[inode] < 3):
            raise FileNotFoundError

    monkeypatch.setattr(pyfuse3, "invalidate_inode", invalidate)
    monkeypatch.setattr(invalidation, "UNKNOWN_SECONDS", 1.0)
    return counts


@pytest.fixture
def invalidator() -> Iterator[Invalidator]:
    """One that sends, for a kernel that was told of all inodes but one."""
    made = Invalidator()
    made.start(lambda inode: inode != FORGOTTEN)
    yield made
    made.close()
    for thread in threading.enumerate():
        if thread.name.startswith("stale-"):
            thread.join(LIMIT)
            assert not thread.is_alive()


def test_what_the_kernel_does_not_know_yet_is_sent_until_it_does(invalidator: Invalidator, asked: Counter[int]) -> None:
    """But what it has forgotten once only, and what it never comes to know for some time only."""
    invalidator.drop([StaleInode(inode) for inode in (KNOWN, FORGOTTEN, LOST)])
    wait_until(lambda: asked[KNOWN] == 3, "the third try")
    wait_until(lambda: not invalidator._inodes._unknown, "the end of the tries")
    tries = asked[LOST]
    assert 2 <= tries <= 52
    invalidator.drop([StaleInode(LAST)])
    wait_until(lambda: asked[LAST] == 1, "an invalidation")
    assert asked == {KNOWN: 3, FORGOTTEN: 1, LOST: tries, LAST: 1}


def test_what_is_withdrawn_is_not_sent_again(invalidator: Invalidator, asked: Counter[int]) -> None:
    """Whoever opens a file lets the kernel forget its pages by itself."""
    stale: list[Stale] = [StaleInode(LOST)]
    invalidator.drop(list(stale))
    wait_until(lambda: asked[LOST] > 0, "the first try")
    trio.run(invalidator.withdraw, StaleInode(LOST), stale)
    assert stale == []
    tries = asked[LOST]
    invalidator.drop([StaleInode(KNOWN)])
    wait_until(lambda: asked[KNOWN] == 3, "the third try of another")
    assert asked[LOST] == tries
