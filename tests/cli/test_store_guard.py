"""``memfs store guard``: what a store refuses or masks, shown and set."""

import json
from pathlib import Path

import pytest

from memfs.cli import exits
from memfs.model import ids
from memfs.model.errors import WriteRefused
from memfs.model.mutations import Create
from memfs.model.records import NO_GUARDS, Actor, Guards, Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run

KEY = "AKIA" + "QYLPMN5HHHFPZAM2"  # in two, so that nobody who scans this file is alarmed
ALL = Guards("reject", "mask", 1_000, ("/notes/**", "/*.md"))


def shown(run: Run, store: Store, *options: str) -> dict[str, object]:
    """What the command prints for programs."""
    found: dict[str, object] = json.loads(run("store", "guard", store.id, *options, "--format", "json").stdout)
    return found


def test_guards_are_shown(run: Run, workspace: Workspace, store: Store) -> None:
    assert run("store", "guard", "user-preferences").stdout.splitlines() == [
        "secrets        off",
        "personal data  off",
        "max bytes      off",
        "allowed path   any",
    ]
    assert shown(run, store) == {
        "memory_store_id": store.id,
        "secrets": None,
        "personal_data": None,
        "max_content_bytes": None,
        "allowed_paths": [],
    }
    assert "guards" not in run("store", "show", store.id).stdout
    workspace.stores.set_guards(store.id, ALL)
    assert run("store", "guard", store.id).stdout.splitlines() == [
        "secrets        reject",
        "personal data  mask",
        "max bytes      1000",
        "allowed path   /notes/**",
        "allowed path   /*.md",
    ]
    assert shown(run, store) == {
        "memory_store_id": store.id,
        "secrets": "reject",
        "personal_data": "mask",
        "max_content_bytes": 1_000,
        "allowed_paths": ["/notes/**", "/*.md"],
    }
    line = "guards       secrets reject, personal data mask, at most 1000 bytes, only /notes/** /*.md"
    assert line in run("store", "show", store.id).stdout.splitlines()


@pytest.mark.parametrize(
    "options, expected",
    [
        (["--secrets", "mask"], Guards("mask", "mask", 1_000, ("/notes/**", "/*.md"))),
        (["--secrets", "off"], Guards(None, "mask", 1_000, ("/notes/**", "/*.md"))),
        (["--personal-data", "reject"], Guards("reject", "reject", 1_000, ("/notes/**", "/*.md"))),
        (["--personal-data", "off"], Guards("reject", None, 1_000, ("/notes/**", "/*.md"))),
        (["--max-bytes", "1"], Guards("reject", "mask", 1, ("/notes/**", "/*.md"))),
        (["--max-bytes", "102400"], Guards("reject", "mask", 102_400, ("/notes/**", "/*.md"))),
        (["--max-bytes", "off"], Guards("reject", "mask", None, ("/notes/**", "/*.md"))),
        (["--allow-path", "/a?", "--allow-path", "/b"], Guards("reject", "mask", 1_000, ("/a?", "/b"))),
        (["--allow-any-path"], Guards("reject", "mask", 1_000)),
        (["--clear"], NO_GUARDS),
        (["--clear", "--max-bytes", "5", "--secrets", "off"], Guards(max_content_bytes=5)),
        ([], ALL),
    ],
)
def test_options_change_what_they_name(
    run: Run, workspace: Workspace, store: Store, options: list[str], expected: Guards
) -> None:
    before = workspace.stores.set_guards(store.id, ALL)
    result = run("store", "guard", store.id, *options)
    assert result.stderr == ""
    after = workspace.stores.get(store.id)
    assert after.guards == expected
    assert (after.updated_at > before.updated_at) == (expected != ALL)
    assert result.stdout == run("store", "guard", store.id).stdout, "it shows what holds now"


@pytest.mark.parametrize(
    "options",
    [
        ["--secrets", "no"],
        ["--personal-data", ""],
        ["--max-bytes", "0"],
        ["--max-bytes", "-1"],
        ["--max-bytes", "102401"],
        ["--max-bytes", "4K"],
        ["--max-bytes", ""],
        ["--allow-path", ""],
        ["--allow-path", "notes/**"],
        ["--allow-path", "/notes/"],
        ["--allow-path", "/a/../b"],
        ["--allow-path", "/\udcff"],
        ["--allow-path", "/a", "--allow-any-path"],
        [word for number in range(65) for word in ("--allow-path", f"/{number}")],
    ],
)
def test_what_can_be_no_guard(run: Run, workspace: Workspace, store: Store, options: list[str]) -> None:
    result = run("store", "guard", store.id, *options, code=exits.INVALID)
    assert result.stdout == ""
    assert workspace.stores.get(store.id) == store


def test_an_archived_store_shows_its_guards_and_keeps_them(run: Run, workspace: Workspace, store: Store) -> None:
    workspace.stores.set_guards(store.id, Guards(max_content_bytes=5))
    workspace.stores.archive(store.id)
    assert shown(run, store)["max_content_bytes"] == 5
    result = run("store", "guard", store.id, "--clear", code=exits.REFUSED)
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)
    assert "archived" in result.stderr


def test_guards_hold_for_every_write_and_not_for_what_is_there(
    run: Run, workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    workspace.memories.create(store.id, "/old/long.md", b"x" * 100, actor)
    run("store", "guard", store.id, "--max-bytes", "10", "--allow-path", "/notes/**", "--allow-path", "/*.md")
    assert run("memory", "show", store.id, "/old/long.md").stdout == "x" * 100
    for path, content, said in (
        ("/notes/a.md", b"x" * 11, "10 bytes"),
        ("/old/b.md", b"x", "/old/b.md"),
        ("/a.txt", b"x", "/a.txt"),
    ):
        with pytest.raises(WriteRefused, match=said):
            workspace.memories.create(store.id, path, content, actor)
    workspace.memories.create(store.id, "/notes/a/b.md", b"x" * 10, actor)
    workspace.memories.create(store.id, "/a.md", b"", actor)
    source = tmp_path / "source"
    source.mkdir()
    (source / "b.txt").write_text("x")
    assert "/b.txt" in run("store", "import", store.id, source, code=exits.REFUSED).stderr
    run("store", "guard", store.id, "--clear")
    run("store", "import", store.id, source)


def test_secrets_and_personal_data_are_refused_or_masked(
    run: Run, workspace: Workspace, store: Store, actor: Actor
) -> None:
    run("store", "guard", store.id, "--secrets", "reject", "--personal-data", "mask")
    with pytest.raises(WriteRefused, match="line 2") as raised:
        workspace.memories.create(store.id, "/a", f"the key:\n{KEY}\n".encode(), actor)
    assert KEY not in str(raised.value)
    memory = workspace.memories.create(store.id, "/b", b"ask ada.lovelace@example.org\n", actor)
    text = run("memory", "show", store.id, memory.id).stdout
    assert "ada.lovelace" not in text
    assert " removed]\n" in text
    run("store", "guard", store.id, "--secrets", "mask", "--personal-data", "off")
    workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), "/c", f"{KEY} ada@example.org".encode())], actor)
    text = run("memory", "show", store.id, "/c").stdout
    assert KEY not in text
    assert text.endswith(" removed] ada@example.org")


def test_guard_of_a_store_that_is_not_there(run: Run, workspace: Workspace) -> None:
    for options in ([], ["--clear"]):
        result = run("store", "guard", "nothing", *options, code=exits.NOT_FOUND)
        assert result.stderr == "memfs: there is no store 'nothing': 'memfs store list' shows the stores\n"
