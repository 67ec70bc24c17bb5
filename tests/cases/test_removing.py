"""Kind: removing what is open, or what is being listed."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.cases.scene import Here, errno_of, opened

pytestmark = pytest.mark.mount


def test_a_name_that_was_just_removed_is_not_there(here: Here) -> None:
    """D01: by any call, for a file and a directory, and the name can be used again at once."""
    for _ in range(5):
        (here / "f").touch()
        (here / "f").unlink()
        (here / "d").mkdir()
        (here / "d").rmdir()
        for name in "fd":
            path = here / name
            for use in (path.stat, path.read_text, path.unlink, path.rmdir, lambda path=path: os.listdir(path)):
                with pytest.raises(FileNotFoundError):
                    use()
            with pytest.raises(FileNotFoundError):
                os.rename(path, here / "x")
            with pytest.raises(FileNotFoundError):
                os.utime(path)
        assert here.names() == []
    (here / "f").write_text("ok")
    assert here.read("f") == b"ok"


@pytest.mark.parametrize("how", ["unlink", "replace", "replace by a temporary", "rm -r of its directory"])
@pytest.mark.parametrize("committed", [False, True], ids=["new", "committed"])
def test_a_removed_file_keeps_its_bytes_for_its_holders_only(here: Here, how: str, committed: bool) -> None:
    """D03, D04, D06: what is written to it never comes back, nor shows anywhere, nor keeps its directory."""
    (here / "d").mkdir()
    path = here / "d" / "f"
    if committed:
        path.write_text("OLD" * 2000)
    with opened(path, os.O_CREAT | os.O_RDWR) as descriptor, opened(path, os.O_RDONLY) as reader:
        os.pwrite(descriptor, b"ghost", 0)
        number = os.fstat(descriptor).st_ino
        if how == "unlink":
            path.unlink()
        elif how == "replace":
            (here / "new").write_text("new")
            os.replace(here / "new", path)
        elif how == "replace by a temporary":
            (here / "d" / "f.tmp").write_text("new")
            os.replace(here / "d" / "f.tmp", path)
        else:
            here.shell("rm -r d")
        expected = {"d/f": b"new"} if "replace" in how else {}
        os.pwrite(descriptor, b"more", 5)
        os.fsync(descriptor)
        os.ftruncate(descriptor, 8)
        for held in (descriptor, reader):
            assert os.pread(held, 9000, 0) == b"ghostmor"
            assert (os.fstat(held).st_ino, os.fstat(held).st_nlink) == (number, 0)
        assert here.heads() == expected
        if how == "unlink":
            assert os.listdir(here / "d") == []
            (here / "d").rmdir()
            assert here.names() == []
        os.write(descriptor, b"end")
    assert here.heads() == expected
    assert [str(path.relative_to(here.path)) for path in here.path.rglob("f")] == list(expected)


def test_a_name_that_is_made_again_is_another_file(here: Here) -> None:
    """D05: another number, other bytes, while the old one is still open; again and again."""
    descriptors, numbers = [], set()
    try:
        for number in range(6):
            (here / "f").write_text(f"text {number}")
            descriptors.append(os.open(here / "f", os.O_RDONLY))
            numbers.add(os.fstat(descriptors[-1]).st_ino)
            (here / "f").unlink()
        assert len(numbers) == 6
        (here / "f").write_text("last")
        assert (here / "f").stat().st_ino not in numbers
        assert [os.pread(held, 99, 0) for held in descriptors] == [f"text {number}".encode() for number in range(6)]
    finally:
        for held in descriptors:
            os.close(held)
    assert here.heads() == {"f": b"last"}


def test_a_removed_directory_takes_nothing(here: Here) -> None:
    """D05: whoever has it open makes nothing in it, nor in the one that has its name now."""
    (here / "d").mkdir()
    with opened(here / "d", os.O_RDONLY) as held:
        (here / "d").rmdir()
        (here / "d").mkdir()
        (here / "d" / "x").touch()
        with pytest.raises(FileNotFoundError):
            os.open("y", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=held)
        with pytest.raises(FileNotFoundError):
            os.mkdir("z", dir_fd=held)
        assert os.listdir(held) == []
        assert os.listdir(here / "d") == ["x"]


def test_files_without_a_name(here: Here) -> None:
    """D07: O_TMPFILE is refused so that callers fall back, and what they fall back to leaves nothing."""
    with tempfile.TemporaryFile(dir=here.path) as file:
        file.write(b"\xff" * 10)
        file.seek(0)
        assert file.read() == b"\xff" * 10
        assert here.names() == []
    for suffix in ("", ".md", ".tmp"):
        with tempfile.NamedTemporaryFile("w", dir=here.path, suffix=suffix, delete=False) as named:
            named.write(f"kept{suffix}")
        os.replace(named.name, here / f"final{suffix}x")
    with tempfile.TemporaryDirectory(dir=here.path) as directory:
        (Path(directory) / "f").write_text("gone")
    assert here.heads() == {"finalx": b"kept", "final.mdx": b"kept.md", "final.tmpx": b"kept.tmp"}
    assert here.names() == sorted(here.heads())


@pytest.mark.parametrize("number", [1, 22, 23, 24, 130, 500])
@pytest.mark.parametrize("length", [5, 200])
def test_a_directory_is_listed_whole_while_it_is_emptied(here: Here, number: int, length: int) -> None:
    """D08: each name once, at every size of the kernel's buffer; removed as they are read, or some before the rest."""
    names = [f"{which:05d}".ljust(length, "x") for which in range(number)]
    for name in names:
        os.mknod(here / name)
    assert here.names() == names
    seen = []
    with os.scandir(here.path) as entries:
        for which, entry in enumerate(entries):
            seen.append(entry.name)
            if which % 3 == 0:
                os.unlink(entry.path)
            elif which % 3 == 1:
                os.rename(entry.path, f"{entry.path}2")
    # What was there all the time is seen once; a new name may be seen or not.
    assert sorted(name for name in seen if name in names) == names
    assert len(set(seen)) == len(seen)
    with os.scandir(here.path) as entries:
        for entry in entries:
            os.unlink(entry.path)
    assert here.names() == []


def test_a_tree_is_removed_at_once(here: Here) -> None:
    """D08: rm -r sees each level while it changes it."""
    for number in range(120):
        directory = here / f"t/{number % 5}/{number % 3}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{number}.md").touch()
    here.shell("rm -r t")
    assert here.names() == []
    assert here.heads() == {}
    assert errno_of(lambda: os.listdir(here / "t")) is not None
