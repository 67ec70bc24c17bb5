"""Kinds: overwriting, truncating, appending, and reading what was just closed.

The fault is always the same: the size and the bytes come from different texts, of different times or handles.
"""

import itertools
import os
from pathlib import Path
from random import Random

import pytest

from tests.cases.scene import Here, forget_pages, opened

pytestmark = pytest.mark.mount

SIZES = [0, 1, 2, 95, 117, 4095, 4096, 4097, 5000, 8192, 65_535, 65_537, 102_400]
ALPHABET = ["a", "Z", "\n", "\r\n", "\r", "\0", "\ufeff", "\u2028", "\x85", "\x0c", "é", "日", "😀", "\t", " "]


def some_text(random: Random, size: int) -> bytes:
    """UTF-8 of exactly so many bytes, with all that a layer of text might alter."""
    text = b""
    while len(text) < size:
        piece = random.choice(ALPHABET).encode()
        text += piece if len(text) + len(piece) <= size else b"x"
    return text


def by_open_with_trunc(path: Path, text: bytes) -> None:
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        os.write(descriptor, text)


def by_cutting_afterwards(path: Path, text: bytes) -> None:
    """As editing tools do: overwrite from the beginning, cut what is left of the old text."""
    with opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))


def by_cutting_before(path: Path, text: bytes) -> None:
    with opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, text)


def by_truncate_of_the_path(path: Path, text: bytes) -> None:
    path.touch()
    os.truncate(path, 0)
    os.truncate(path, len(text))
    with opened(path, os.O_WRONLY) as descriptor:
        os.write(descriptor, text)


def by_parts_backwards(path: Path, text: bytes) -> None:
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        for start in reversed(range(0, len(text), 30_001)):
            os.pwrite(descriptor, text[start : start + 30_001], start)


def by_replacing(path: Path, text: bytes) -> None:
    new = path.with_name(f"{path.name}.tmp")
    new.write_bytes(text)
    os.replace(new, path)


WAYS = [
    by_open_with_trunc,
    by_cutting_afterwards,
    by_cutting_before,
    by_truncate_of_the_path,
    by_parts_backwards,
    by_replacing,
]


@pytest.mark.parametrize("seed", range(3))
def test_a_file_is_exactly_what_was_written_last(here: Here, seed: int) -> None:
    """A10, A12, A13, J04, O04: in any order of longer and shorter texts, by any way, for whoever looks."""
    random = Random(seed)
    expected: dict[str, bytes] = {}
    for _ in range(25):
        name, size, way = random.choice("abc"), random.choice(SIZES), random.choice(WAYS)
        text = some_text(random, size)
        way(here / name, text)
        expected[name] = text
        what = f"{way.__name__}, {size} bytes"
        assert (here / name).stat().st_size == size, what
        assert here.read(name) == text, what
        assert here.heads()[name] == text, what
    for name in expected:
        forget_pages(here / name)
    assert {name: (here / name).read_bytes() for name in here.names()} == expected
    here.remount()
    assert {name: (here / name).read_bytes() for name in here.names()} == expected


@pytest.mark.parametrize("size", [1, 6, 4095, 4097, 102_400])
def test_growing_gives_nul_and_shrinking_keeps_the_beginning(here: Here, size: int) -> None:
    """A13: by path, at once, also of a file that was not there."""
    (here / "f").write_text("0123456789")
    os.truncate(here / "f", size)
    grown = b"0123456789"[:size].ljust(size, b"\0")
    assert here.read("f") == here.heads()["f"] == grown
    here.shell(f"truncate -s {size} new; truncate -s 3 f; truncate -s {size} f")
    assert here.read("new") == here.heads()["new"] == bytes(size)
    # What was cut off does not come back.
    assert here.read("f") == here.heads()["f"] == grown[:3].ljust(size, b"\0")[:size]


def test_emptying_without_a_write(here: Here) -> None:
    """A10: as `: >` does, in a shell and by open alone."""
    for name in "ab":
        (here / name).write_text("longer content here\n")
    here.shell(": > a")
    with opened(here / "b", os.O_RDONLY):
        os.close(os.open(here / "b", os.O_WRONLY | os.O_TRUNC))
        assert (here / "b").stat().st_size == 0
    assert here.heads() == {"a": b"", "b": b""}


def test_the_size_of_a_file_that_is_still_open(here: Here) -> None:
    """J04: everybody sees what was written, before it is closed, and on every path to its attributes."""
    with opened(here / "f", os.O_CREAT | os.O_RDWR) as descriptor:
        size = 0
        for number in (1, 3000, 4095, 4096, 20_000):
            size += os.write(descriptor, b"x" * number)
            assert os.fstat(descriptor).st_size == (here / "f").stat().st_size == size
            assert here.shell("stat -c %s f").strip() == str(size)
            assert [entry.stat().st_size for entry in os.scandir(here.path)] == [size]
            assert here.read("f") == b"x" * size
        os.ftruncate(descriptor, 7)
        assert here.read("f") == b"x" * 7


@pytest.mark.parametrize("begin", [0, 1, 3, 4095, 4096, 4097, 50_000])
def test_appends_add_to_what_is_there(here: Here, begin: int) -> None:
    """B01: the kernel has no page of the old text, and the descriptor cannot read one."""
    expected = b"x" * begin
    (here / "f").write_bytes(expected)
    for flags in (os.O_WRONLY, os.O_RDWR):
        forget_pages(here / "f")
        with opened(here / "f", flags | os.O_APPEND) as descriptor:
            for piece in (b"y", b"zz\n" * 2000):
                os.write(descriptor, piece)
                expected += piece
                assert os.fstat(descriptor).st_size == len(expected)
    here.shell("echo shell >> f; printf more >> f; dd if=f bs=3 count=1 oflag=append conv=notrunc of=f status=none")
    expected += b"shell\nmore"
    expected += expected[:3]
    assert here.read("f") == here.heads()["f"] == expected


def test_appends_of_a_loop(here: Here) -> None:
    """B01: a descriptor for each line."""
    here.shell("seq 60 | while read i; do echo $i >> n; done; seq 60 | cmp - n")
    assert here.heads()["n"] == "".join(f"{number}\n" for number in range(1, 61)).encode()


def test_two_appending_descriptors_take_turns(here: Here) -> None:
    """B01: each goes to the end as it is, wherever it wrote before."""
    with (
        opened(here / "f", os.O_CREAT | os.O_WRONLY | os.O_APPEND) as one,
        opened(here / "f", os.O_WRONLY | os.O_APPEND) as two,
        opened(here / "f", os.O_WRONLY) as three,
    ):
        for number in range(20):
            os.write((one, two)[number % 2], f"{number:02d}\n".encode())
        os.pwrite(three, b"##", 0)
    assert here.heads()["f"] == b"##\n" + "".join(f"{number:02d}\n" for number in range(1, 20)).encode()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=lambda order: "".join(map(str, order)))
def test_the_order_of_closes_decides_nothing(here: Here, order: tuple[int, ...]) -> None:
    """A05: one emptied it, one wrote, one only looked; whoever closes last has no old text to put back."""
    (here / "f").write_text("seed")
    descriptors = [
        os.open(here / "f", os.O_WRONLY | os.O_TRUNC),
        os.open(here / "f", os.O_WRONLY),
        os.open(here / "f", os.O_RDWR),
    ]
    os.write(descriptors[1], b"data")
    assert os.pread(descriptors[2], 99, 0) == b"data"
    for which in order:
        os.close(descriptors[which])
        assert here.read("f") == b"data"
    assert here.heads() == {"f": b"data"}


def test_emptying_by_path_beside_open_descriptors(here: Here) -> None:
    """A05: what another writes afterwards is what there is."""
    (here / "f").write_text("seed" * 3000)
    with opened(here / "f", os.O_RDWR) as idle, opened(here / "f", os.O_WRONLY) as writer:
        os.truncate(here / "f", 0)
        os.write(writer, b"second")
        os.fsync(writer)
        assert os.pread(idle, 99, 0) == b"second"
        assert here.heads() == {"f": b"second"}
    assert here.heads() == {"f": b"second"}


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000, 4096, 65_536])
def test_a_character_may_be_cut_between_writes(here: Here, step: int) -> None:
    """M04: wherever the pieces end; a copy of the descriptor that is closed meanwhile is no end of the text."""
    text = ("日本語😀é" * (20 if step < 8 else 2500)).encode()
    with opened(here / "u", os.O_CREAT | os.O_WRONLY) as descriptor:
        for start in range(0, len(text), step):
            os.write(descriptor, text[start : start + step])
    assert here.read("u") == here.heads()["u"] == text


def test_each_of_many_saves_is_there_when_it_returns(here: Here) -> None:
    """J04: for another process, by another name, in another file, at once."""
    here.shell(
        """
        for i in $(seq 40); do
            f=f$((i % 3)); echo "line $i" > $f
            [ "$(cat $f)" = "line $i" ]; [ "$(stat -c %s $f)" = $((${#i} + 6)) ]
            cp $f g; mv g h; [ "$(cat h)" = "line $i" ]
        done
        """
    )
    assert here.heads() == {"f0": b"line 39\n", "f1": b"line 40\n", "f2": b"line 38\n", "h": b"line 40\n"}


def test_several_programs_write_through_one_redirection(here: Here) -> None:
    """J05: each child's end is a flush, and none is the end of the text."""
    here.shell(
        r"""
        { echo a; /bin/true; echo b; ( echo c; sh -c 'echo d' ); } > g; [ "$(cat g)" = "$(printf 'a\nb\nc\nd')" ]
        ( echo 1; sleep .2; echo 2 ) > h & wait; [ "$(wc -l < h)" = 2 ]
        exec 5> f; printf '\360' >&5; (exit 0); sh -c 'printf "\237" >&5'; (:); printf '\230\200' >&5; exec 5>&-
        """
    )
    assert here.heads() == {"g": b"a\nb\nc\nd\n", "h": b"1\n2\n", "f": "😀".encode()}
