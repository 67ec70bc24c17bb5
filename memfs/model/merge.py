"""Three-way merges of texts, line by line (DESIGN.md 8).

Where lines correspond is found by a library (longest common subsequence); what becomes of them is decided here, because
the rules are those of a shared memory and not of a reviewed source tree: neighbouring lines that two writers changed
are no conflict, what both add at one place is kept of both, and where both changed the same lines the later writer
wins. Decision 0015 says why.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_PAIRS = 200_000_000
"""What the comparison of two texts may hold: a bit for each pair of lines, after those that are equal at the start and
the end. Beyond it, everything in between counts as changed; that takes two texts of 14,000 lines, which few are."""


@dataclass(frozen=True, slots=True)
class Merge:
    """A merged text, and whether lines of the earlier writer gave way in it."""

    text: bytes
    conflict: bool


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines ``start`` up to ``end`` of the base, without it, are ``lines`` now; equal numbers insert."""

    start: int
    end: int
    lines: Sequence[bytes]

    def overlaps(self, start: int, end: int) -> bool:
        """Whether it changes lines of a range, or adds some within it; what it adds beside it is not in it."""
        return self.start < end and start < self.end


def merge(base: bytes, ours: bytes, theirs: bytes) -> Merge:
    """What ``base`` became where one writer made ``theirs`` of it, and a later one ``ours``.

    All are whole texts; lines end at ``\\n``, which the last one may lack. The later writer's lines are all in the
    result. The earlier one's are too, but for those that changed what the later one changed too.
    """
    if ours in (base, theirs):
        return Merge(theirs, conflict=False)
    if theirs == base:
        return Merge(ours, conflict=False)
    before = _lines(base)
    mine = deque(_changes(before, _lines(ours)))
    others = deque(_changes(before, _lines(theirs)))
    merged: list[bytes] = []
    conflict = False
    at = 0
    while mine or others:
        start, end = min((changes[0].start, changes[0].end) for changes in (mine, others) if changes)
        here: list[_Change] = []
        there: list[_Change] = []
        growing = True
        while growing:  # what overlaps a change that belongs to it belongs to it too
            growing = False
            for changes, taken in ((mine, here), (others, there)):
                while changes and (
                    changes[0].overlaps(start, end) or (changes[0].start, changes[0].end) == (start, end)
                ):
                    taken.append(changes.popleft())
                    end = max(end, taken[-1].end)
                    growing = True
        merged += before[at:start]
        at = end
        if not there:
            merged += _applied(before, start, end, here)
        elif not here:
            merged += _applied(before, start, end, there)
        else:
            kept, lost = _applied(before, start, end, here), _applied(before, start, end, there)
            if start == end and kept != lost:
                merged += lost  # both have added something here: it stands in the order in which it was saved
            elif kept != lost:
                conflict = True
            merged += kept
    merged += before[at:]
    # Whether the last line has an end is merged as well: whoever changed it decides.
    ended = _ended(theirs) if _ended(ours) == _ended(base) else _ended(ours)
    return Merge(b"\n".join(merged) + (b"\n" if ended and merged else b""), conflict)


def _lines(text: bytes) -> list[bytes]:
    """Lines without their ends."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _ended(text: bytes) -> bool:
    return text.endswith(b"\n") or not text


def _applied(before: Sequence[bytes], start: int, end: int, changes: Sequence[_Change]) -> list[bytes]:
    """Lines ``start`` up to ``end`` of the base as one writer has them."""
    lines: list[bytes] = []
    at = start
    for change in changes:
        lines += before[at : change.start]
        lines += change.lines
        at = change.end
    lines += before[at:end]
    return lines


def _changes(before: Sequence[bytes], after: Sequence[bytes]) -> list[_Change]:
    """What one writer changed, in order. Where as many lines stand for some as they were, each is a change of its own:
    else somebody who changed two lines would be at odds with somebody who changed one of them and its neighbour.
    """
    changes: list[_Change] = []
    at = now = 0
    for start, new_start, size in _matching(before, after):
        if start - at == new_start - now:
            changed = [n for n in range(start - at) if before[at + n] != after[now + n]]
            changes += [_Change(at + n, at + n + 1, after[now + n : now + n + 1]) for n in changed]
        else:
            changes.append(_Change(at, start, after[now:new_start]))
        at, now = start + size, new_start + size
    return changes


def _matching(before: Sequence[bytes], after: Sequence[bytes]) -> Iterator[tuple[int, int, int]]:
    """Runs of equal lines: where they begin in one and the other, and how many; the last one is at both ends."""
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    yield 0, 0, head
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if old and new and len(old) * len(new) <= MAX_PAIRS:
        from rapidfuzz.distance import LCSseq  # few commits have anything to merge

        numbers: dict[bytes, int] = {}  # the library compares hashes, and those of small numbers are themselves
        editops = LCSseq.editops(
            [numbers.setdefault(line, len(numbers)) for line in old],
            [numbers.setdefault(line, len(numbers)) for line in new],
        )
        for block in editops.as_matching_blocks():
            if block.size:
                yield head + block.a, head + block.b, block.size
    yield len(before) - tail, len(after) - tail, tail
