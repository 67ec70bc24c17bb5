"""``memfs backup`` as people and scripts call it."""

import json
import os
from pathlib import Path

from memfs.cli import exits
from memfs.model.records import Actor, Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run
from tests.cli.terminal import at_terminal


def test_a_backup_is_a_private_database_of_its_own(
    run: Run, db: Path, workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    workspace.memories.create(store.id, "/a.md", b"a\n", actor)
    target = tmp_path / "backup.db"
    assert run("backup", target).stdout == (
        f"backed up to {target}: {target.stat().st_size:,} bytes, 1 store, 1 memory, 1 version; checked\n"
    )
    assert target.stat().st_mode & 0o777 == 0o600
    assert run("memory", "show", "user-preferences", "/a.md", database=target).stdout == "a\n"
    assert run("check", database=target).stdout.startswith("sound: ")


def test_what_is_there_is_replaced_by_force_alone(run: Run, db: Path, workspace: Workspace, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    target.write_text("mine")
    assert "--force" in run("backup", target, code=exits.INVALID).stderr
    assert target.read_text() == "mine"
    found = json.loads(run("backup", "--force", target, "--format", "json").stdout)
    assert found == {
        "file": str(target),
        "size_bytes": target.stat().st_size,
        "database": str(db),
        "checked": True,
        "stores": 0,
        "memories": 0,
        "versions": 0,
    }
    assert sorted(os.listdir(tmp_path)) == ["backup.db", "memfs.db", "memfs.db-shm", "memfs.db-wal"]


def test_no_database_is_told_and_leaves_no_file(run: Run, tmp_path: Path) -> None:
    assert "there is no database" in run("backup", tmp_path / "b.db", code=exits.NOT_FOUND).stderr
    assert os.listdir(tmp_path) == []


def test_on_a_terminal_it_shows_how_far_it_is(db: Path, workspace: Workspace, tmp_path: Path) -> None:
    workspace.stores.create("Notes")
    sent = at_terminal(db, "backup", tmp_path / "backup.db")
    assert "backed up to " in sent
    assert any(stage in sent for stage in ("copying", "forms"))
