"""``memfs check`` as people and scripts call it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memfs.cli import exits
from memfs.model.records import Actor, Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run
from tests.cli.terminal import at_terminal
from tests.processes import python, tell

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT * FROM memories")
print(flush=True)
input()
"""


@pytest.fixture
def made(db: Path, damaged: None, workspace: Workspace, store: Store, actor: Actor) -> Path:
    """A database that nobody has open, with two memories that are not what they were."""
    for path in ("/a.md", "/b.md"):
        workspace.memories.create(store.id, path, f"{path}\n".encode(), actor)
    workspace.close()
    return db


def damage(db: Path, *, for_good: bool = False) -> None:
    with closing(sqlite3.connect(db)) as rows, rows:
        rows.execute("UPDATE memories SET path = '/other.md' WHERE path = '/a.md'")
        if for_good:
            rows.execute("UPDATE contents SET bytes = CAST('/B.md' || char(10) AS BLOB) WHERE id = 2")


def test_a_sound_database_is_said_to_be_and_stays_as_it_is(run: Run, made: Path) -> None:
    before = {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns) for entry in made.parent.iterdir()}
    assert run("check").stdout == "sound: 1 store, 2 memories, 2 versions, 2 texts\n"
    assert json.loads(run("check", "--format", "json").stdout) == {
        "database": str(made),
        "sound": True,
        "stores": 1,
        "memories": 2,
        "versions": 2,
        "texts": 2,
        "violations": [],
        "repaired": [],
        "backup": None,
    }
    assert run("check", "--repair").stdout == "sound: 1 store, 2 memories, 2 versions, 2 texts\n"
    assert {e.name: (e.read_bytes(), e.stat().st_mtime_ns) for e in made.parent.iterdir()} == before


def test_what_is_wrong_is_a_table_with_what_to_do(run: Run, made: Path) -> None:
    damage(made, for_good=True)
    lines = run("check", code=exits.DATABASE).stdout.splitlines()
    assert lines[0].split() == ["CHECK", "PLACE", "FOUND", "REPAIR"]
    assert [line.split()[:2] for line in lines[1:3]] == [["hashes", "/b.md"], ["heads", "/other.md"]]
    assert lines[2].endswith("  takes it from there")
    assert lines[3:] == [
        "what has a REPAIR is put right by 'memfs check --repair'",
        "hashes: do not trust this text: take it from a backup, and write it as a new version",
    ]


def test_a_repair_says_what_it_did_and_where_everything_is_as_it_was(run: Run, made: Path) -> None:
    damage(made)
    lines = run("check", "--repair").stdout.splitlines()
    assert lines[1].split()[:2] == ["heads", "/other.md"]
    assert lines[1].endswith("  repaired")
    (backup,) = made.parent.glob("memfs.db.before-repair-*")
    assert lines[2].startswith(f"repaired; everything as it was before is in {backup}: ")
    assert lines[3] == "sound: 1 store, 2 memories, 2 versions, 2 texts"
    assert run("memory", "show", "user-preferences", "/a.md").stdout == "/a.md\n"
    assert run("check", database=backup, code=exits.DATABASE).stdout.splitlines()[1].split()[:2] == [
        "heads",
        "/other.md",
    ]


def test_what_is_left_after_a_repair_still_ends_with_a_status(run: Run, made: Path) -> None:
    damage(made, for_good=True)
    found = json.loads(run("check", "--repair", "--format", "json", code=exits.DATABASE).stdout)
    assert (found["sound"], [each["invariant"] for each in found["violations"]]) == (False, ["hashes"])
    (left,), (repaired,) = found["violations"], found["repaired"]
    assert set(left) == {"invariant", "found", "store_id", "memory_id", "version_id", "path", "repair"}
    assert (left["path"], left["repair"], repaired["invariant"]) == ("/b.md", "", "heads")
    assert Path(found["backup"]).exists()


def test_a_repair_beside_somebody_else_is_for_later(run: Run, made: Path) -> None:
    damage(made)
    with python(HOLD, made) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert f"process {holder.pid}" in run("check", "--repair", code=exits.TRY_AGAIN).stderr
        assert run("check", code=exits.DATABASE).stdout, "looking is possible"
        tell(holder)
        holder.wait(30)


def test_on_a_terminal_it_shows_how_far_it_is(made: Path) -> None:
    sent = at_terminal(made, "check")
    assert "sound: 1 store" in sent
    assert any(stage in sent for stage in ("file", "hashes", "forms"))


def test_no_database_is_told(run: Run, db: Path) -> None:
    assert "there is no database" in run("check", code=exits.NOT_FOUND).stderr
