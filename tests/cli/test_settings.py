"""``memfs settings``."""

import json

import pytest

from memfs.cli import exits
from memfs.workspace import Workspace
from tests.cli.conftest import Run


def test_show(run: Run, workspace: Workspace) -> None:
    assert run("settings", "show").stdout == "retention            30 days\nprune automatically  no\n"
    for format_ in ("json", "jsonl"):
        shown = json.loads(run("settings", "show", "--format", format_).stdout)
        assert shown == {"retention_days": 30, "prune_automatically": False}


def test_set_changes_what_is_named_and_shows_all(run: Run, workspace: Workspace) -> None:
    assert run("settings", "set", "--retention-days", "1").stdout.startswith("retention            1 day\n")
    assert "yes" in run("settings", "set", "--prune-automatically").stdout
    shown = json.loads(run("settings", "set", "--retention-days", "90", "--format", "json").stdout)
    assert shown == {"retention_days": 90, "prune_automatically": True}
    run("settings", "set", "--no-prune-automatically")
    found = workspace.retention.settings()
    assert (found.retention_days, found.prune_automatically) == (90, False)


@pytest.mark.parametrize(
    "options, said",
    [
        ([], "name what to change"),
        (["--retention-days", "0"], "1 to 36500 days"),
        (["--retention-days", "36501"], "1 to 36500 days"),
        (["--retention-days", "-1"], "1 to 36500 days"),
        (["--retention-days", "30d"], "not a valid integer"),
    ],
)
def test_what_cannot_be_set(run: Run, workspace: Workspace, options: list[str], said: str) -> None:
    result = run("settings", "set", *options, code=exits.INVALID)
    assert result.stdout == ""
    assert said in result.stderr
    assert workspace.retention.settings().retention_days == 30


def test_there_are_none_without_a_database(run: Run) -> None:
    assert "there is no database" in run("settings", "show", code=exits.NOT_FOUND).stderr
