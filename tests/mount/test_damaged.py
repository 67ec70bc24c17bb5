"""A database that is damaged, while its stores are mounted or before: it is told, and nothing dies of it or loops."""

import errno
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.mount.harness import LIMIT, Site, kill, wait_until

pytestmark = pytest.mark.mount

PAGE = 4_096


def pages_of(db: Path, table: str) -> list[int]:
    """Where the pages of a table begin in the file."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        return [at for (at,) in connection.execute("SELECT pgoffset FROM dbstat WHERE name = ?", (table,))]


def overwrite(db: Path, places: list[int]) -> None:
    """Rubbish in place of pages, as a failing disk or another program leaves it; past SQLite, which keeps its locks."""
    code = """if True:
        import sys
        with open(sys.argv[1], "r+b") as file:
            for at in sys.argv[2:]:
                file.seek(int(at))
                file.write(b"\\xa5" * 4096)
    """
    subprocess.run([sys.executable, "-c", code, str(db), *map(str, places)], timeout=LIMIT, check=True)


@pytest.fixture
def large(at: Site) -> Path:
    """A mounted store of more texts than its worker keeps, all of them in the database's file."""
    source = at.directory / "source"
    source.mkdir()
    for number in range(40):
        (source / f"{number}.md").write_bytes(f"{number}\n".encode() * 8_000)
    at.run("store", "import", "notes", source)
    with closing(sqlite3.connect(at.db)) as db:
        assert db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    (directory,) = at.mount("notes")
    at.damaged = True
    return directory


def test_a_database_that_is_damaged_while_it_is_mounted(at: Site, large: Path) -> None:
    worker, supervisor = at.worker("notes"), at.supervisor()
    assert (large / "0.md").read_bytes() == b"0\n" * 8_000
    overwrite(at.db, pages_of(at.db, "contents")[1:])
    answers = set()
    for number in range(1, 40):
        try:
            answers.add(len((large / f"{number}.md").read_bytes()))
        except OSError as error:
            answers.add(-(error.errno or 0))
    assert -errno.EIO in answers, answers
    assert not {each for each in answers if each < 0} - {-errno.EIO}, answers
    assert len(os.listdir(large)) == 40, "names are told all the same"
    assert (large / "0.md").stat().st_size == 16_000
    assert (at.worker("notes"), at.supervisor()) == (worker, supervisor), "nothing has died of it"
    at.expected_log += [r"errno=EIO|is damaged"]
    checked = at.run("check", check=False)
    assert checked.returncode == 5
    at.take_down()
    at.nothing_left()
    refused = at.run("store", "export", "notes", at.directory / "out", check=False)
    assert refused.returncode == 5
    assert "memfs check" in refused.stderr


def test_a_worker_that_cannot_start_is_tried_again_ever_more_rarely(at: Site, large: Path) -> None:
    """No loop that takes a processor and fills the log; and once the file is whole again, the store comes back."""
    whole = at.db.read_bytes()
    at.expected_log += [r"a worker died", r"could not mount again .*damaged"]
    log = Path(at.status()[0]["log"])
    overwrite(at.db, list(range(0, len(whole), PAGE)))
    kill(at.worker("notes"))
    wait_until(lambda: log.read_text().count("could not mount again") >= 3, "three tries", LIMIT)
    told = [line for line in log.read_text().splitlines() if "a worker died" in line]
    waits = [float(line.rpartition("restart_in=")[2].removesuffix("s")) for line in told]
    assert waits == sorted(waits)
    assert waits[:3] == [0.0, 0.2, 0.5]
    with at.db.open("r+b") as file:
        file.write(whole)
    at.damaged = False

    def readable() -> bool:
        try:
            return (large / "1.md").read_bytes() == b"1\n" * 8_000
        except OSError:
            return False

    wait_until(readable, "the store is mounted again", LIMIT)


def test_a_damaged_database_is_not_mounted(at: Site) -> None:
    at.damaged = True
    with closing(sqlite3.connect(at.db)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    overwrite(at.db, pages_of(at.db, "memory_stores"))
    done = at.run("mount", "--root", at.root, "-s", "notes", check=False)
    assert done.returncode == 5
    assert "is damaged" in done.stderr
    assert "memfs check" in done.stderr
    at.nothing_left()
