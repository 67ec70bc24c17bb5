"""``memfs doctor`` as people and scripts call it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from memfs.cli.doctor import findings
from memfs.workspace import Workspace
from tests.cli.conftest import Run
from tests.processes import PYTHON, environment


def checks(answer: str) -> dict[str, dict[str, str]]:
    """The findings by their name."""
    return {each["check"]: each for each in json.loads(answer)}


def test_what_is_damaged_ends_with_a_status_and_a_next_step(run: Run, db: Path, damaged: None) -> None:
    db.write_bytes(b"no database" * 1000)
    db.chmod(0o600)
    output = run("doctor", code=1).output
    assert output.splitlines()[0].split() == ["CHECK", "STATE", "GOOD", "FOR", "FOUND"]
    (line,) = [line for line in output.splitlines() if line.startswith("database: ")]
    assert "restore a backup" in line
    found = checks(run("doctor", "--format", "json", code=1).stdout)
    assert found["database"]["state"] == "missing"
    assert set(found["database"]) == {"check", "state", "found", "good_for", "next_step"}


def test_it_changes_nothing(run: Run, db: Path, workspace: Workspace) -> None:
    workspace.stores.create("Notes")
    workspace.close()
    before = {entry.name: entry.stat().st_mtime_ns for entry in db.parent.iterdir()}
    assert checks(run("doctor", "--format", "json").stdout)["database-content"]["state"] == "ok"
    assert {entry.name: entry.stat().st_mtime_ns for entry in db.parent.iterdir()} == before


def test_a_system_that_has_nothing_gets_answers_and_no_traceback(tmp_path: Path) -> None:
    """As an ordinary user without programs, whose places are somebody else's."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "memfs").mkdir(mode=0o700)
    as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.getuid() == 0 else []
    reading = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"] if as_nobody else []
    done = subprocess.run(
        [*as_nobody, *reading, *PYTHON, "-m", "memfs.cli", "doctor", "--format", "json"],
        env=environment(MEMFS_DB=str(closed / "memfs.db"), XDG_RUNTIME_DIR=str(closed), PATH=os.defpath + "-none"),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 1, done.stderr
    assert not list((closed / "memfs").iterdir())


@pytest.mark.parametrize("name", ["", "none/at/all/memfs.db"])
def test_every_check_has_a_name_of_its_own_and_says_what_it_is_good_for(tmp_path: Path, name: str) -> None:
    found = list(findings(tmp_path / name))
    assert len({each.check for each in found}) == len(found) >= 13
    assert all(each.good_for and each.found for each in found)
    assert all(each.next_step for each in found if each.state != "ok")
