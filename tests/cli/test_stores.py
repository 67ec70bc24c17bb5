"""``memfs store``, from a person's and from a program's side."""

import json
import os
from pathlib import Path

import pytest

from memfs.cli import exits
from memfs.model import ids
from memfs.model.records import Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run

STORE_FIELDS = ["id", "type", "name", "description", "metadata", "created_at", "updated_at", "archived_at"]


def test_create_prints_the_id_alone_on_stdout(run: Run, db: Path) -> None:
    result = run("store", "create", "User preferences")
    store_id = result.stdout.removesuffix("\n")
    assert ids.is_id(store_id, ids.MEMORY_STORE)
    assert "user-preferences" in result.stderr
    quiet = run("store", "create", "Other", "-q")
    assert ids.is_id(quiet.stdout.removesuffix("\n"), ids.MEMORY_STORE)
    assert quiet.stderr == ""
    with Workspace.open(db) as workspace:
        assert [store.name for store in workspace.stores.list()] == ["User preferences", "Other"]
        assert workspace.stores.list()[0].id == store_id


def test_create_takes_a_description_and_metadata(run: Run) -> None:
    arguments = ["--description", "For é", "--metadata", "team=a=b", "--metadata", "empty="]
    store_id = run("store", "create", "-q", "Notes", *arguments).stdout.strip()
    (shown,) = json.loads(run("store", "list", "--format", "json").stdout)
    assert list(shown) == STORE_FIELDS
    assert (shown["id"], shown["type"], shown["name"]) == (store_id, "memory_store", "Notes")
    assert (shown["description"], shown["metadata"]) == ("For é", {"team": "a=b", "empty": ""})
    assert shown["archived_at"] is None


@pytest.mark.parametrize("pairs", [["no-equals"], ["a=1", "a=2"]])
def test_create_refuses_metadata_that_is_no_set_of_pairs(run: Run, db: Path, pairs: list[str]) -> None:
    run("store", "create", "Notes", *(f"--metadata={pair}" for pair in pairs), code=exits.INVALID)
    assert not db.exists()


@pytest.mark.parametrize("name", ["", "x" * 256, "two\nlines", "\udcff"])
def test_create_makes_no_database_for_a_store_that_cannot_be(run: Run, db: Path, name: str) -> None:
    result = run("store", "create", name, code=exits.INVALID)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert not db.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["store", "list"],
        ["store", "show", "x"],
        ["store", "import", "x", "."],
        ["store", "export", "x", "out"],
        ["memory", "list", "x"],
        ["memory", "show", "x", "/a"],
        ["version", "list", "x"],
        ["version", "show", "nothing", "memver_01M8NMQFRQEHGZHQHXSA2763V0"],
    ],
)
def test_only_create_makes_a_database(run: Run, db: Path, arguments: list[str]) -> None:
    result = run(*arguments, code=exits.NOT_FOUND)
    assert result.stderr == f"memfs: there is no database at {db}: make one with 'memfs store create NAME'\n"
    assert os.listdir(db.parent) == []


def test_the_database_is_named_by_option_variable_or_home(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    run("store", "create", "Home", database=None)
    assert (tmp_path / "home/.local/share/memfs/memfs.db").exists()
    monkeypatch.setenv("XDG_DATA_HOME", "relative/ones/are/ignored")
    assert "Home" in run("store", "list", database=None).stdout
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    run("store", "create", "Data", database=None)
    assert (tmp_path / "data/memfs/memfs.db").exists()
    monkeypatch.setenv("MEMFS_DB", str(tmp_path / "variable.db"))
    run("store", "create", "Variable", database=None)
    assert (tmp_path / "variable.db").exists()
    run("store", "create", "Option", database=tmp_path / "option.db")
    assert (tmp_path / "option.db").exists()
    assert "Variable" in run("store", "list", database=None).stdout


def test_a_bad_database_is_one_line(run: Run, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database\n" * 100)
    for path in (text, tmp_path, text / "below"):
        for arguments in (["store", "create", "x"], ["store", "list"]):
            expected = exits.NOT_FOUND if path == text / "below" and arguments[1] == "list" else exits.DATABASE
            stderr = run(*arguments, database=path, code=expected).stderr
            assert stderr.startswith("memfs: ")
            assert len(stderr.splitlines()) == 1


def test_list_in_every_format(run: Run, workspace: Workspace) -> None:
    assert run("store", "list").stdout.split() == ["ID", "CREATED", "NAME", "DESCRIPTION"]
    assert run("store", "list", "--format", "json").stdout == "[]\n"
    assert run("store", "list", "--format", "jsonl").stdout == ""
    stores = [workspace.stores.create(name, "Line\nline \x1b[31m\u202e") for name in ("Notes", "Größe 日本")]
    workspace.stores.archive(workspace.stores.create("Old").id)
    table = run("store", "list").stdout.splitlines()
    assert len(table) == 3
    assert table[1].split()[0] == stores[0].id
    assert table[1].endswith("Notes     Line\\nline \\x1b[31m\\u202e")
    loaded = json.loads(run("store", "list", "--format", "json").stdout)
    assert [store["name"] for store in loaded] == ["Notes", "Größe 日本"]
    assert loaded[0]["description"] == "Line\nline \x1b[31m\u202e"
    lines = run("store", "list", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == loaded
    everything = run("store", "list", "--include-archived", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["archived_at"] is None for line in everything] == [True, True, False]
    assert "ARCHIVED" in run("store", "list", "--include-archived").stdout


def test_show_by_id_name_and_slug(run: Run, workspace: Workspace, store: Store) -> None:
    shown = [run("store", "show", text).stdout for text in (store.id, "User preferences", "user-preferences")]
    assert len(set(shown)) == 1
    facts = dict(line.split(None, 1) for line in shown[0].splitlines() if " " in line.strip())
    assert facts["id"] == store.id
    assert facts["memories"] == "0"
    for format_ in ("json", "jsonl"):
        item = json.loads(run("store", "show", store.id, "--format", format_).stdout)
        assert list(item) == STORE_FIELDS
        assert item["created_at"] == store.created_at


def test_a_store_that_is_unknown_or_ambiguous(run: Run, workspace: Workspace) -> None:
    assert "memfs store list" in run("store", "show", "nothing", code=exits.NOT_FOUND).stderr
    for _ in range(2):
        workspace.stores.create("Notes")
    assert "use the id" in run("store", "show", "Notes", code=exits.INVALID).stderr
