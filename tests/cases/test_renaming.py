"""Kind: renaming. Each rename is compared with what a plain directory or a model makes of it."""

import ctypes
import errno
import itertools
import os
import unicodedata
from pathlib import Path
from random import Random

import pytest

from tests.cases.scene import Here, errno_of
from tests.mount.harness import wait_until

pytestmark = pytest.mark.mount

NOREPLACE, EXCHANGE = 1, 2
_LIBC = ctypes.CDLL(None, use_errno=True)


def renameat2(one: Path, other: Path, flags: int) -> int:
    """The errno, 0 where it went through."""
    result = _LIBC.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), flags)
    return ctypes.get_errno() if result else 0


def tree(top: Path) -> dict[str, str | None]:
    """What is below: path to text, None for a directory."""
    found = sorted(top.rglob("*"))
    return {str(path.relative_to(top)): None if path.is_dir() else path.read_text() for path in found}


THINGS = ["file", "other", "empty", "full", "full/sub", "full/child", "missing", "file/below", "no/such"]


@pytest.mark.parametrize("flags", [0, NOREPLACE, EXCHANGE], ids=["plain", "noreplace", "exchange"])
def test_rename_of_anything_to_anything_is_as_on_a_disk(here: Here, tmp_path: Path, flags: int) -> None:
    """C01, C05: the same errno, and the same tree afterwards; nothing is orphaned or nested."""
    for number, (source, target) in enumerate(itertools.product(THINGS, THINGS)):
        made = []
        for top in (here / str(number), tmp_path / str(number)):
            (top / "full" / "sub").mkdir(parents=True)
            (top / "empty").mkdir()
            for name in ("file", "other", "full/child"):
                (top / name).write_text(name)
            made.append((renameat2(top / source, top / target, flags), tree(top)))
        answered, wanted = made
        # POSIX leaves the choice between these two.
        same = {errno.EEXIST: errno.ENOTEMPTY} if not flags else {}
        got = (same.get(answered[0], answered[0]), answered[1])
        assert got == (same.get(wanted[0], wanted[0]), wanted[1]), (source, target)


def test_unknown_flags_are_refused(here: Here) -> None:
    """C01: a flag is heeded or EINVAL, never ignored."""
    (here / "a").write_text("a")
    (here / "b").write_text("b")
    for flags in (4, 8, NOREPLACE | EXCHANGE, 1 << 20):
        assert renameat2(here / "a", here / "b", flags) == errno.EINVAL
    assert here.heads() == {"a": b"a", "b": b"b"}


def test_every_form_of_mv(here: Here) -> None:
    """C02: into a directory, over what is there, without overwriting, with a backup, several at once."""
    here.shell(
        """
        mkdir d; echo 1 > f; mv f d; [ "$(cat d/f)" = 1 ]
        # Newer versions of mv -n exit with 1 where they leave a file alone; what is judged is both files.
        echo 2 > f; mv -n f d || true; [ "$(cat d/f)" = 1 ]; [ "$(cat f)" = 2 ]
        mv -f f d/f; [ "$(cat d/f)" = 2 ]; [ ! -e f ]
        echo 3 > f; mv -u f d/f; [ "$(cat d/f)" = 3 ]
        echo 4 > f; mv -b f d/f; [ "$(cat d/f)" = 4 ]; [ "$(cat d/f~)" = 3 ]; rm d/f~
        mv d e; [ "$(cat e/f)" = 4 ]; [ ! -e d ]
        touch x y z; mkdir d; mv x y z d; mv e d/; [ "$(ls d)" = "$(printf 'e\nx\ny\nz')" ]
        mv -T d/e e; [ "$(cat e/f)" = 4 ]; mkdir empty; mv -T e empty; [ "$(cat empty/f)" = 4 ]
        if mv d d/below 2>/dev/null; then exit 1; fi; [ -e d/x ]
        """
    )
    assert here.heads() == {"empty/f": b"4\n", "d/x": b"", "d/y": b"", "d/z": b""}


@pytest.mark.parametrize("seed", range(3))
def test_names_that_a_pattern_would_match_are_others(here: Here, seed: int) -> None:
    """C03: _ and %, case, and names that another begins with; moved and removed as whole directories."""
    random = Random(seed)
    names = sorted({"".join(random.choices("a_%A*b?", k=random.randint(1, 3))) for _ in range(30)})
    expected = {}
    for name in names:
        (here / name / "in").mkdir(parents=True)
        for below in ("f", "in/g"):
            (here / name / below).write_text(name)
            expected[f"{name}/{below}"] = name.encode()
    for number, name in enumerate(random.sample(names, 12)):
        if number % 3:
            os.rename(here / name, here / f"new{number}")
            for below in ("f", "in/g"):
                expected[f"new{number}/{below}"] = expected.pop(f"{name}/{below}")
        else:
            here.shell(f"rm -r ./'{name}'")
            for below in ("f", "in/g"):
                del expected[f"{name}/{below}"]
        assert here.heads() == expected
    found = {str(path.relative_to(here.path)): path.read_bytes() for path in here.path.rglob("*") if path.is_file()}
    assert found == expected


PAIRS = [("Readme.md", "README.md"), ("É", "é"), ("straße", "strasse"), ("Σ", "ς"), ("I", "ı"), ("ǅ", "ǆ"), ("ﬁ", "fi")]


@pytest.mark.parametrize("one, other", PAIRS, ids=["ascii", "accent", "sharp", "sigma", "dotless", "title", "ligature"])
def test_names_that_differ_in_case_only(here: Here, one: str, other: str) -> None:
    """C09: two files, and a rename from one to the other loses nothing."""
    assert all(unicodedata.is_normalized("NFC", name) for name in (one, other))
    (here / one).write_text("one")
    assert not (here / other).exists()
    (here / other).write_text("other")
    assert here.names() == sorted([one, other])
    (here / other).unlink()
    assert here.read(one) == b"one"
    os.rename(here / one, here / other)
    assert here.names() == [other]
    assert here.heads() == {other: b"one"}
    (here / one).mkdir()
    assert errno_of(lambda: os.rename(here / other, here / one)) == errno.EISDIR


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_process_inside_a_renamed_directory_stays_there(here: Here, depth: int) -> None:
    """C07: its working directory has the new name, takes files, and is still there after the kernel's timeouts."""
    done = here.python(
        "import os, sys, time\n"
        "top, deep = os.getcwd(), '/'.join(['e'] * int(sys.argv[1]))\n"
        "os.makedirs('d/' + deep); os.chdir('d/' + deep)\n"
        "os.rename(top + '/d', top + '/d2')\n"
        "for wait in (0, 1.3):\n"
        "    time.sleep(wait)\n"  # the kernel trusts names for a second
        "    assert os.getcwd() == top + '/d2/' + deep, os.getcwd()\n"
        "    with open('x', 'a') as file: file.write('1')\n"
        "    assert os.path.exists(top + '/d2/' + deep + '/x') and os.path.exists('../e/x')\n"
        "os.rename(top + '/d2', top + '/d3'); os.mkdir('below'); print(os.getcwd())",
        str(depth),
    )
    assert done.strip() == str(here.path.joinpath("d3", *["e"] * depth))
    assert here.heads() == {"/".join(["d3", *["e"] * depth, "x"]): b"11"}


def test_a_file_that_is_open_moves_with_its_directory(here: Here) -> None:
    """C07, A04: whatever was renamed above it, its descriptor writes to where it is now."""
    (here / "a" / "b").mkdir(parents=True)
    with (here / "a" / "b" / "f").open("w") as file:
        for number in range(4):
            file.write(f"{number}\n")
            file.flush()
            os.rename(here / "ab"[number % 2], here / "ba"[number % 2])
    wait_until(lambda: here.heads() == {"a/b/f": b"0\n1\n2\n3\n"}, "the close")
