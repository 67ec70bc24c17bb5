"""Kinds: saving by rename, renaming what is open, inode numbers, and programs that edit in place."""

import os
import stat

import pytest

from tests.cases.scene import Here, opened
from tests.mount.harness import wait_until

pytestmark = pytest.mark.mount

TEMPORARIES = ["d.tmp", ".d.md.swx", ".tmp4711", "plain.md", "sedAb12Cd", ".goutputstream-ABC123", "d.md~", "deep/t.md"]


@pytest.mark.parametrize("temporary", TEMPORARIES)
def test_a_save_by_rename_over_whatever_was_there(here: Here, temporary: str) -> None:
    """A01: a live file, one just deleted, one moved away, an emptied one, none; again and again."""
    (here / "deep").mkdir()
    target = here / "d.md"
    before = (None, "live", "deleted", "live", "moved", "emptied", "directory", "deleted", "live")
    for number, state in enumerate(before):
        if state == "deleted":
            target.unlink()
        elif state == "moved":
            os.rename(target, here / "moved.md")
        elif state == "emptied":
            target.write_bytes(b"")
        elif state == "directory":
            target.unlink()
            target.mkdir()
            target.rmdir()
        (here / temporary).write_text(f"text {number}\n")
        os.replace(here / temporary, target)
        assert here.read("d.md") == here.heads()["d.md"] == f"text {number}\n".encode()
        assert not (here / temporary).exists()
    assert here.names() == ["d.md", "deep", "moved.md"]
    assert sorted(here.heads()) == ["d.md", "moved.md"]
    here.remount()
    assert here.read("d.md") == b"text 8\n"


@pytest.mark.parametrize("first", [b"", b"before\n"], ids=["nothing", "something"])
@pytest.mark.parametrize("target", ["new.md", "old.md", "d/new.md"])
@pytest.mark.parametrize("source", ["draft.md", ".goutputstream-X1"])
def test_a_writer_goes_on_after_its_file_was_renamed(here: Here, source: str, target: str, first: bytes) -> None:
    """A03, A04: what it writes lands under the new name, also twice renamed, and the old name stays free."""
    (here / "d").mkdir()
    (here / "old.md").write_text("old\n")
    with opened(here / source, os.O_CREAT | os.O_EXCL | os.O_RDWR) as descriptor:
        os.write(descriptor, first)
        os.rename(here / source, here / target)
        assert not (here / source).exists()
        os.write(descriptor, b"after\n")
        os.fsync(descriptor)
        assert here.heads()[target] == first + b"after\n"
        os.rename(here / "d", here / "e")
        where = target.replace("d/", "e/")
        os.write(descriptor, b"end\n")
    expected = first + b"after\nend\n"
    assert here.read(where) == here.heads()[where] == expected
    assert set(here.heads()) == {where, "old.md"}


def test_the_number_of_an_inode_is_its_file_s(here: Here) -> None:
    """A07, N01: over renames, versions, the kernel's timeouts; by name, by descriptor and in listings."""
    (here / "d").mkdir()
    (here / "t").write_text("x")
    number = (here / "t").stat().st_ino
    os.rename(here / "t", here / "f")
    with opened(here / "f", os.O_RDONLY) as descriptor:

        def seen() -> set[int]:
            listed = {entry.name: entry.inode() for entry in os.scandir(here.path)}
            return {(here / "f").stat().st_ino, os.fstat(descriptor).st_ino, listed["f"]}

        assert seen() == {number}
        for text in ("longer text", "", "y"):
            (here / "f").write_text(text)
            assert seen() == {number}
        # The kernel trusts names and attributes for a second: after it the daemon is asked anew.
        begin = os.times().elapsed
        wait_until(lambda: os.times().elapsed > begin + 1.3, "the kernel's timeouts")
        assert seen() == {number}
    os.rename(here / "f", here / "d" / "g")
    assert (here / "d" / "g").stat().st_ino == number
    # A save by rename is another inode at the name, which stays from then on.
    for source in ("memory.md", "save.tmp"):
        (here / source).write_text(source)
        made = (here / source).stat().st_ino
        os.replace(here / source, here / "d" / "g")
        assert (here / "d" / "g").stat().st_ino == made != number
        here.remount()
        assert (here / "d" / "g").stat().st_ino == made


def test_kinds_and_numbers_of_a_listing_are_those_of_stat(here: Here) -> None:
    """N01: never 0, never twice, on every level, as the same device."""
    here.shell("mkdir -p d/e/f; for p in a d/b d/e/c .hidden x.tmp; do echo $p > $p; done; mv d/b b; mkdir d/b")
    numbers = []
    for directory, _, _ in os.walk(here.path):
        for entry in os.scandir(directory):
            status = os.stat(entry.path)
            assert entry.inode() == status.st_ino > 0
            assert entry.is_dir(follow_symlinks=False) == stat.S_ISDIR(status.st_mode)
            assert entry.is_file(follow_symlinks=False) == stat.S_ISREG(status.st_mode)
            assert status.st_dev == here.path.stat().st_dev
            numbers.append(status.st_ino)
    assert len(numbers) == len(set(numbers)) == 9
    parent = {entry: os.stat(here / "d" / "e" / entry).st_ino for entry in (".", "..")}
    assert parent == {".": (here / "d" / "e").stat().st_ino, "..": (here / "d").stat().st_ino}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o444])
def test_programs_that_edit_in_place_leave_the_text_and_the_mode(here: Here, mode: int) -> None:
    """A02: they make a file of mode 0 or 0600, change its mode and owner while it is open, and rename it."""
    (here / "f").write_text("one\n")
    (here / "f").chmod(mode)
    expected = "one\n"
    for command, text in {
        "sed -i s/one/two/ f": "two\n",
        "perl -pi -e s/two/three/ f": "three\n",
        "sed -i.orig s/three/four/ f; rm f.orig": "four\n",
        "sed -i --follow-symlinks '$a end' f": "four\nend\n",
        "sort -o f f": "end\nfour\n",
        "cp -p f g; echo more >> g; chmod --reference=f g; mv g f": "end\nfour\nmore\n",
    }.items():
        here.shell(command)
        expected = text
        assert here.read("f") == here.heads()["f"] == expected.encode(), command
        assert stat.S_IMODE((here / "f").stat().st_mode) == mode, command
        assert here.names() == ["f"], command
    here.python("import fileinput\nfor line in fileinput.input('f', inplace=True): print(line.upper(), end='')")
    assert here.heads() == {"f": expected.upper().encode()}
    assert here.names() == ["f"]


def test_what_an_editor_drops_beside_the_file(here: Here) -> None:
    """M05: swap, undo, backup and lock files take any bytes, are gone when removed, and the text is saved."""
    (here / "n.md").write_text("v1\n")
    droppings = [".n.md.swp", ".n.md.swo", "n.md~", "#n.md#", ".n.md.un~", "4913", ".#n.md.tmp", "n.md.bak~"]
    for name in droppings:
        with opened(here / name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600) as descriptor:
            os.write(descriptor, b"b0VIM 9.1\0" + bytes(range(256)) * 15)
            os.fsync(descriptor)
            assert os.pread(descriptor, 5, 0) == b"b0VIM"
    (here / "n.md").write_text("v2\n")
    assert here.names() == sorted(["n.md", *droppings])
    assert here.heads() == {"n.md": b"v2\n"}
    for name in droppings:
        (here / name).unlink()
    assert here.names() == ["n.md"]
