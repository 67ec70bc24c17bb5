"""Kind: files in memory. Mapped bytes are file bytes, whenever the mapping ends; and databases that map live beside."""

import mmap
import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.cases.scene import Here, opened
from tests.mount.harness import wait_until

pytestmark = pytest.mark.mount

SIZES = [1, 100, 4095, 4096, 4097, 5000, 12_289, 102_400]


@pytest.mark.parametrize("size", SIZES)
def test_what_a_shared_mapping_holds_is_in_the_file(here: Here, size: int) -> None:
    """E02: at both ends, after flush for everybody, after the close in the store; no byte more than there was."""
    (here / "w").write_bytes(b"a" * size)
    with opened(here / "w", os.O_RDWR) as descriptor:
        with mmap.mmap(descriptor, size) as mapped:
            mapped[:1] = b"H"
            mapped[-1:] = b"Z"
            expected = mapped[:]
            mapped.flush()
            assert here.read("w") == expected
            assert os.pread(descriptor, size + 1, 0) == expected
            mapped[size // 2 : size // 2 + 1] = b"!"
            expected = mapped[:]
        assert here.read("w") == expected
    assert here.heads()["w"] == expected


@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "not flushed"])
def test_a_mapping_outlives_its_descriptor(here: Here, flushed: bool) -> None:
    """E03: its bytes come after the close that made the version, and make another."""
    with closing_descriptor(here / "m", b"a" * 5000) as mapped:
        assert here.heads()["m"] == b"a" * 5000
        mapped[:5] = b"LATER"
        mapped[4990:4992] = b"zz"
        if flushed:
            mapped.flush()
    expected = b"LATER" + b"a" * 4985 + b"zz" + b"a" * 8
    wait_until(lambda: here.heads()["m"] == expected, "the release of the mapping")
    assert here.read("m") == expected


def closing_descriptor(path: Path, text: bytes) -> mmap.mmap:
    """A mapping of a new file whose descriptor is closed already."""
    path.write_bytes(text)
    with opened(path, os.O_RDWR) as descriptor:
        return mmap.mmap(descriptor, len(text))


def test_a_private_mapping_keeps_to_itself(here: Here) -> None:
    """E02: it sees the file, and changes nothing of it."""
    (here / "p").write_text("text" * 3000)
    with opened(here / "p", os.O_RDONLY) as descriptor, mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY) as mapped:
        mapped[:4] = b"MINE"
        assert mapped[:8] == b"MINEtext"
    assert here.heads()["p"] == here.read("p") == b"text" * 3000


def test_writing_and_mapping_see_each_other(here: Here) -> None:
    """E02: what write() puts into the file is in the mapping, and the other way round."""
    with opened(here / "b", os.O_CREAT | os.O_RDWR) as descriptor:
        os.write(descriptor, b"0" * 8192)
        with closing(mmap.mmap(descriptor, 8192)) as mapped:
            for place in (0, 4090, 4096, 8188):
                os.pwrite(descriptor, b"wr", place)
                assert mapped[place : place + 2] == b"wr"
                mapped[place + 2 : place + 4] = b"mp"
                assert os.pread(descriptor, 4, place) == b"wrmp"


@pytest.mark.parametrize("mode", ["delete", "truncate", "wal"])
def test_a_database_in_scratch(here: Here, mode: str) -> None:
    """E04: several processes write to one SQLite database beside the stores; every row is there, and it is whole."""
    scratch = here.at.root / f"sqlite-{mode}"
    scratch.mkdir()
    beside = Here(here.at, scratch)
    connect = "import sqlite3, sys\ndb = sqlite3.connect('x.db', timeout=60)\n"
    beside.python(f"{connect}db.execute('pragma journal_mode={mode}'); db.execute('create table t (a, b)')")
    beside.racing(
        f"{connect}ready()\nfor number in range(15):\n"
        "    with db: db.execute('insert into t values (?, ?)', (sys.argv[1], number))",
        3,
    )
    found = beside.python(
        f"{connect}print(db.execute('select count(*) from t').fetchone()[0],"
        "db.execute('pragma integrity_check').fetchone()[0], db.execute('pragma journal_mode').fetchone()[0])"
    )
    assert found.split()[:2] == ["45", "ok"]
    if mode == "wal":
        assert found.split()[2] == "wal"
