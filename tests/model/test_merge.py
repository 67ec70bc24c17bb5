"""Three-way merges by line (DESIGN.md 8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfs.model.merge import MAX_PAIRS, Merge, merge

LINES = st.lists(st.sampled_from(["", "a", "b", "c", "d", "- [ ] todo"]), max_size=8)
TEXTS = st.builds(lambda lines, end: ("\n".join(lines) + end).encode(), LINES, st.sampled_from(["", "\n"]))


def merged(base: str, ours: str, theirs: str) -> tuple[str, bool]:
    """The merge of texts whose lines are words."""
    made = merge(*("".join(f"{word}\n" for word in text.split()).encode() for text in (base, ours, theirs)))
    assert made.text.endswith(b"\n") or not made.text
    return " ".join(made.text.decode().split()), made.conflict


@pytest.mark.parametrize(
    "base, ours, theirs, expected",
    [
        ("a b c d e", "A b c d e", "a b c d E", "A b c d E"),
        ("a b c", "A b c", "a B c", "A B c"),  # neighbours
        ("a b c d", "A B c d", "a b C D", "A B C D"),
        ("a b c", "a c", "a b C", "a C"),  # one goes, its neighbour changes
        ("a b", "a x b", "a b y", "a x b y"),
        ("a b", "a b x", "a b y", "a b y x"),  # both append: in the order in which they were saved
        ("a b", "x a b", "y a b", "y x a b"),
        ("a b", "a b x", "a b x", "a b x"),  # the same addition
        ("a b c", "A b c", "A B c", "A B c"),  # the same change, and another
        ("a b c", "a b c d e", "A b c", "A b c d e"),
        ("", "x", "y", "y x"),
    ],
)
def test_what_two_writers_changed_at_different_lines_is_all_kept(
    base: str, ours: str, theirs: str, expected: str
) -> None:
    """Neighbouring lines are different lines."""
    assert merged(base, ours, theirs) == (expected, False)


@pytest.mark.parametrize(
    "base, ours, theirs, expected",
    [
        ("a b c", "a X c", "a Y c", "a X c"),
        ("a b c d", "A B c d", "a X D d", "A B D d"),  # only the line that both changed gives way
        ("a b c", "a c", "a B c", "a c"),  # removed by one, changed by the other
        ("a b c", "a B c", "a c", "a B c"),
        ("a b c d", "d a b c", "a b c D", "d a b c"),  # moved away from where the other changed it
        ("a b c d", "new text d", "a b X c d", "new text d"),  # added in the middle of what was replaced
        ("a b c", "1 2", "a B c z", "1 2 z"),  # what was appended stays
        (
            "a b c d",
            "1 d",
            "A b c d",
            "1 d",
        ),  # what one writer replaced by less reaches further than the other's change
        ("a b c d e", "1 d e", "a b 2 e", "1 d e"),
    ],
)
def test_of_the_same_lines_those_of_the_later_writer_stay(base: str, ours: str, theirs: str, expected: str) -> None:
    """And that is said."""
    assert merged(base, ours, theirs) == (expected, True)


@pytest.mark.parametrize(
    "base, ours, theirs, expected",
    [
        (b"a", b"a\nb", b"a\nc", b"a\nc\nb"),
        (b"a", b"a\n", b"b", b"b\n"),
        (b"a\n", b"a\nx", b"b\n", b"b\nx"),
        (b"a\n", b"A", b"a\nb\n", b"A\nb"),
        (b"", b"x", b"y\n", b"y\nx"),
        (b"a\r\nb\r\n", b"A\r\nb\r\n", b"a\r\nB\r\n", b"A\r\nB\r\n"),
        ("ä\n€\n".encode(), "ä!\n€\n".encode(), "ä\n€!\n".encode(), "ä!\n€!\n".encode()),
    ],
)
def test_last_lines_need_no_end(base: bytes, ours: bytes, theirs: bytes, expected: bytes) -> None:
    """A text without a newline at its end keeps it so, and lines are bytes."""
    assert merge(base, ours, theirs) == Merge(expected, conflict=False)


@given(TEXTS, TEXTS)
def test_what_one_writer_changed_alone_is_the_result(base: bytes, changed: bytes) -> None:
    """Nobody else did anything, or the same."""
    assert merge(base, changed, base) == Merge(changed, conflict=False)
    assert merge(base, base, changed) == Merge(changed, conflict=False)
    assert merge(base, changed, changed) == Merge(changed, conflict=False)


@given(TEXTS, TEXTS, TEXTS)
def test_the_later_writers_lines_are_all_there(base: bytes, ours: bytes, theirs: bytes) -> None:
    """In their order; and nothing is there that nobody wrote."""
    made = merge(base, ours, theirs)
    lines = made.text.split(b"\n")
    known = set(base.split(b"\n") + ours.split(b"\n") + theirs.split(b"\n"))
    assert set(lines) <= known
    added = [line for line in ours.split(b"\n") if line not in base.split(b"\n")]
    found = iter(lines)
    assert all(line in found for line in added)


@given(st.lists(st.sampled_from(["keep", "ours", "theirs"]), min_size=1, max_size=12))
def test_any_split_of_the_lines_between_two_writers(owners: list[str]) -> None:
    """Whoever owns a line alone can change it, whatever the other does at the others."""
    base = [f"line {n}" for n in range(len(owners))]
    ours = [f"{line}, ours" if owner == "ours" else line for line, owner in zip(base, owners, strict=True)]
    theirs = [f"{line}, theirs" if owner == "theirs" else line for line, owner in zip(base, owners, strict=True)]
    both = [f"{line}, {o}" if o != "keep" else line for line, o in zip(base, owners, strict=True)]
    texts = ["\n".join(lines).encode() for lines in (base, ours, theirs, both)]
    assert merge(*texts[:3]) == Merge(texts[3], conflict=False)


@pytest.mark.parametrize("base", [b"\n" * 102_400, b"a\nb\n" * 25_600, b"".join(b"%d\n" % n for n in range(18_000))])
def test_the_largest_texts_with_the_most_lines(base: bytes) -> None:
    """Beyond what can be compared in little memory, lines that stand where they stood are still told apart."""
    lines = base.split(b"\n")
    assert len(lines) ** 2 > MAX_PAIRS
    ours, theirs = list(lines), list(lines)
    ours[1], ours[-3], theirs[2], theirs[-2] = b"ours", b"ours too", b"theirs", b"theirs too"
    made = merge(base, b"\n".join(ours), b"\n".join(theirs))
    assert not made.conflict
    both = made.text.split(b"\n")
    assert (both[1], both[2], both[-3], both[-2]) == (b"ours", b"theirs", b"ours too", b"theirs too")
    assert len(both) == len(lines)
