"""``memfs key``."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memfs.cli import exits
from memfs.model.records import Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run


def test_the_secret_is_shown_once(run: Run, db: Path) -> None:
    made = run("key", "create", "laptop")
    facts = dict(line.split(maxsplit=1) for line in made.stdout.splitlines())
    assert (facts["name"], facts["access"], facts["stores"], facts["expires"]) == (
        "laptop",
        "read_write",
        "all",
        "never",
    )
    assert made.stderr == "keep the secret: it cannot be shown again\n"
    with Workspace.open(db) as workspace:
        assert workspace.keys.authenticate(facts["secret"]).id == facts["id"]
    for format_ in ("table", "json", "jsonl"):
        assert facts["secret"][-43:] not in run("key", "list", "--format", format_).output


def test_quiet_prints_the_secret_alone(run: Run, db: Path) -> None:
    made = run("key", "create", "-q", "laptop")
    assert made.stderr == ""
    with Workspace.open(db) as workspace:
        assert workspace.keys.authenticate(made.stdout.removesuffix("\n")).name == "laptop"


def test_json_has_the_object_and_the_secret(run: Run, db: Path, workspace: Workspace, store: Store) -> None:
    before = datetime.now(UTC)
    options = ["--read-only", "--store", "user-preferences", "-s", store.id, "--expires", "2h"]
    made = json.loads(run("key", "create", "reviewer", *options, "--format", "json").stdout)
    secret = made.pop("secret")
    key = workspace.keys.authenticate(secret)
    assert made == {
        "id": key.id,
        "type": "api_key",
        "name": "reviewer",
        "access": "read_only",
        "memory_store_ids": [store.id],
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": None,
        "last_used_at": None,
    }
    expires = datetime.fromisoformat(made["expires_at"])
    assert timedelta(0) <= expires - before - timedelta(hours=2) < timedelta(minutes=1)


def test_list_tells_what_became_of_each(run: Run, workspace: Workspace, store: Store, db: Path) -> None:
    workspace.keys.create("first")
    gone, _ = workspace.keys.create("gone", stores=[store], access="read_only")
    workspace.keys.create("only", stores=[store])
    run("key", "revoke", "gone")
    with workspace.engine.database.write() as rows:  # type: ignore[attr-defined]  # SQLite's own
        rows.execute("UPDATE api_keys SET expires_at = '2026-01-01T00:00:00.000000Z' WHERE name = 'first'")
    rows_ = run("key", "list").stdout.splitlines()
    assert rows_[0].split() == ["ID", "NAME", "STATE", "ACCESS", "STORES", "CREATED", "EXPIRES", "LAST", "USED"]
    assert [row.split()[1:4] for row in rows_[1:]] == [
        ["first", "expired", "read_write"],
        ["gone", "revoked", "read_only"],
        ["only", "valid", "read_write"],
    ]
    assert "User preferences" in rows_[3]
    run("store", "delete", "user-preferences", "--yes")
    assert "none: they are deleted" in run("key", "list").stdout
    listed = [json.loads(line) for line in run("key", "list", "--format", "jsonl").stdout.splitlines()]
    assert [each["memory_store_ids"] for each in listed] == [None, [], []]
    assert listed[1]["id"] == gone.id
    assert listed[1]["revoked_at"] is not None


def test_revoke_by_name_or_id_again_and_again(run: Run, workspace: Workspace) -> None:
    key, secret = workspace.keys.create("laptop")
    assert run("key", "revoke", "laptop").stdout == f"revoked {key.id} (laptop)\n"
    first = json.loads(run("key", "revoke", key.id, "--format", "json").stdout)
    assert first == json.loads(run("key", "revoke", "laptop", "--format", "json").stdout)
    with pytest.raises(Exception, match="revoked"):
        workspace.keys.authenticate(secret)


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["create", ""], exits.INVALID, "1 to 255 characters"),
        (["create", "x", "--expires", "soon"], exits.INVALID, "soon"),
        (["create", "x", "--expires", "0s"], exits.INVALID, "expired already"),
        (["create", "x", "--expires", "2020-01-01"], exits.INVALID, "expired already"),
        (["create", "x", "--expires", "999999999w"], exits.INVALID, "999999999w"),
        (["create", "x", "--store", "nowhere"], exits.NOT_FOUND, "nowhere"),
        (["revoke", "nobody"], exits.NOT_FOUND, "memfs key list"),
    ],
)
def test_what_is_refused(run: Run, workspace: Workspace, words: list[str], code: int, said: str) -> None:
    result = run("key", *words, code=code)
    assert said in result.stderr
    assert result.stdout == ""
    assert workspace.keys.list() == []


def test_a_key_makes_the_database_but_not_for_a_store_that_cannot_be(run: Run, db: Path) -> None:
    run("key", "create", "x", "--store", "notes", code=exits.NOT_FOUND)
    assert not db.exists()
    run("key", "list", code=exits.NOT_FOUND)
    run("key", "create", "x")
    assert db.stat().st_mode & 0o777 == 0o600
