"""Kinds: names and their limits, and what may lie at one path."""

import errno
import os
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.cases.scene import Here, errno_of

pytestmark = pytest.mark.mount

FORBIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
QUOTING = [" ", "'", '"', "\\", "*", "?", "[", "]", "%", "_", ";", "-", "~", "#", "$", "&", "`", "%2F", "..", "<", "|"]


def legal(random: Random) -> str:
    """A name that the store takes, of whatever Unicode has assigned."""
    while True:
        size = random.randint(1, 20)
        name = "".join(
            random.choice(QUOTING)
            if random.random() < 0.4
            else chr(random.choice((random.randrange(0x20, 0x3000), random.randrange(0x20, 0x20000))))
            for _ in range(size)
        )
        fine = all(unicodedata.category(character) not in (*FORBIDDEN, "Cn") for character in name)
        # A name that begins like this may be an editor's temporary, which is not in the store.
        if fine and "/" not in name and len(name.encode()) < 250 and name[0] not in ".#" and name[-1] not in "~#%":
            name = unicodedata.normalize("NFC", name)
            if name not in (".", ".."):
                return name


@pytest.mark.parametrize("seed", range(3))
def test_legal_names_come_back_as_they_are(here: Here, seed: int) -> None:
    """H03: made, listed, read, renamed and removed, as file and directory, over mounts."""
    random = Random(seed)
    names = sorted({legal(random) for _ in range(40)})
    for name in names[::2]:
        (here / name).write_text(name)
    for name in names[1::2]:
        (here / name).mkdir()
        (here / name / name).write_text(name)
    expected = {
        **{name: name.encode() for name in names[::2]},
        **{f"{name}/{name}": name.encode() for name in names[1::2]},
    }
    assert here.names() == names
    assert here.heads() == expected
    here.remount()
    assert here.names() == names
    for name in names:
        path = here / name
        assert ((path / name) if path.is_dir() else path).read_text() == name
        os.rename(path, here / f"{name}2")
        assert not path.exists()
        assert f"{name}2" in here.names()
    here.shell("rm -r -- *")
    assert here.heads() == {}


def ways_to_make(here: Here, name: bytes) -> dict[str, int | None]:
    """What each way to make something of a name answers."""
    path = os.fsencode(here.path) + b"/" + name
    ok = os.fsencode(here / "ok")
    return {
        "open": errno_of(lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY))),
        "exclusive": errno_of(lambda: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))),
        "mkdir": errno_of(lambda: os.mkdir(path)),
        "mknod": errno_of(lambda: os.mknod(path)),
        "rename": errno_of(lambda: os.rename(ok, path)),
    }


@pytest.mark.parametrize("seed", range(3))
def test_forbidden_characters_are_refused_wherever_they_are(here: Here, seed: int) -> None:
    """H01, H03: EINVAL from every way to make something, ENOENT from looking; nothing is rewritten."""
    random = Random(seed)
    every = [chr(code) for code in range(1, 0x30000) if unicodedata.category(chr(code)) in FORBIDDEN]
    characters = [character for character in every if not 0xD800 <= ord(character) <= 0xDFFF]
    (here / "ok").write_text("ok")
    for character in [*random.sample(characters, 25), "\n", "\t", "\x7f", "\u200b", "\u2028", "\u2029", "\x85", "\x01"]:
        place = random.randint(0, 4)
        name = f"{'name'[:place]}{character}{'name'[place:]}"
        assert not (here / name).exists()
        assert set(ways_to_make(here, name.encode()).values()) == {errno.EINVAL}, ascii(name)
    assert here.names() == ["ok"]


@pytest.mark.parametrize("seed", range(2))
def test_only_composed_names_can_be_made(here: Here, seed: int) -> None:
    """H01: the same letters decomposed are another name, which is EINVAL, and never the composed file."""
    random = Random(seed)
    composed = [chr(code) for code in range(0xC0, 0x2000) if unicodedata.normalize("NFD", chr(code)) != chr(code)]
    composed = [character for character in composed if unicodedata.is_normalized("NFC", character)]
    (here / "ok").write_text("ok")
    for character in random.sample([*composed, "각", "한"], 20):
        name = f"caf{character}.txt"
        (here / name).write_text(name)
        decomposed = unicodedata.normalize("NFD", name)
        assert not (here / decomposed).exists()
        assert set(ways_to_make(here, decomposed.encode()).values()) == {errno.EINVAL}
        assert here.read(name) == name.encode()
        assert here.names() == sorted([name, "ok"])
        (here / name).unlink()


NO_UTF8 = [
    b"caf\xe9.txt",
    b"\xff\xfe",
    b"\xc3",
    b"a\x80b",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\xaf",
    b"\xe6\x97",
]


@pytest.mark.parametrize("name", NO_UTF8, ids=bytes.hex)
def test_names_that_are_no_utf8_are_refused(here: Here, name: bytes) -> None:
    """H01: EILSEQ, and not there when looked for; also below them."""
    (here / "ok").write_text("ok")
    path = os.fsencode(here.path) + b"/" + name
    assert not os.path.exists(path)
    assert set(ways_to_make(here, name).values()) == {errno.EILSEQ}
    assert errno_of(lambda: os.unlink(path)) == errno.ENOENT
    assert errno_of(lambda: os.mkdir(path + b"/below")) == errno.ENOENT
    assert here.names() == ["ok"]


@pytest.mark.parametrize("character", ["x", "é", "飞", "😀"])
def test_a_name_has_255_bytes(here: Here, character: str) -> None:
    """H02: of whatever width; one more is ENAMETOOLONG from every call, looking included."""
    width = len(character.encode())
    longest = character * (255 // width) + "x" * (255 % width)
    assert len(longest.encode()) == 255
    (here / longest).write_text("text")
    assert here.names() == [longest]
    assert here.heads() == {longest: b"text"}
    (here / "ok").touch()
    for name in (f"{longest}x", character * 255 + "x" * 3, "y" * 256):
        if len(name.encode()) > 255:
            assert set(ways_to_make(here, name.encode()).values()) == {errno.ENAMETOOLONG}
            looks: tuple[Callable[[Path], object], ...] = (os.stat, os.unlink, os.listdir, os.rmdir)
            for look in looks:
                assert errno_of(partial(look, here / name)) == errno.ENAMETOOLONG
    assert here.names() == sorted([longest, "ok"])


@pytest.mark.parametrize("how", ["files removed", "files moved", "directories made", "files replaced"])
def test_directories_are_there_while_they_are_empty(here: Here, how: str) -> None:
    """H04: on every level, for who is inside, until they are removed; over a mount too."""
    (here / "d" / "e").mkdir(parents=True)
    if how != "directories made":
        here.shell("touch d/f d/e/f")
        here.shell("rm d/f d/e/f" if how == "files removed" else "mv d/f x; mv d/e/f x; rm x")
    if how == "files replaced":
        here.shell("touch d/e/a d/e/b; mv d/e/a d/e/b; rm d/e/b")
    here.shell("( cd d/e; touch x; rm x; touch y; rm y; mkdir z; rmdir z ); [ -d d/e ]")
    here.remount()
    here.shell("[ -d d/e ]; if rmdir d 2>/dev/null; then exit 1; fi; if mkdir d 2>/dev/null; then exit 1; fi")
    here.shell("rmdir d/e; [ -d d ]; rmdir d; [ ! -e d ]")
    assert here.names() == []


def test_a_path_is_a_file_or_a_directory(here: Here, tmp_path: Path) -> None:
    """H05: each way to make it both, or to use it as what it is not, has the errno that it has on a disk."""

    def answers(top: Path) -> dict[str, int | None]:
        (top / "file").write_text("x")
        (top / "dir").mkdir()
        uses: dict[str, Callable[[str], object]] = {
            "mkdir": os.mkdir,
            "rmdir": os.rmdir,
            "unlink": os.unlink,
            "listdir": os.listdir,
            "truncate": lambda path: os.truncate(path, 0),
            "write": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)),
            "exclusive": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)),
            "mknod": os.mknod,
            "readlink": os.readlink,
            "directory": lambda path: os.close(os.open(path, os.O_DIRECTORY)),
            "stat": os.stat,
        }
        places = ["file", "file/", "file/x", "file/x/y", "no/such", "dir/", "dir", "dir/.", "dir/..", "file/.."]
        return {
            f"{name} {place}": errno_of(partial(use, f"{top}/{place}"))
            for name, use in uses.items()
            for place in places
            if (name, place.rstrip("/")) != ("rmdir", "dir")  # it succeeds
        }

    plain = tmp_path / "plain"
    plain.mkdir()
    got, wanted = answers(here.path), answers(plain)
    assert {key: value for key, value in got.items() if value != wanted[key]} == {}
