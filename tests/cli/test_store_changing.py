"""``memfs store update`` and ``memfs store copy``, and what ``create``, ``list`` and ``show`` have for scripts."""

import json

import pytest

from memfs.cli import exits
from memfs.cli.context import actor
from memfs.model import ids
from memfs.model.mutations import Create, KeepDirectory, Update
from memfs.model.records import Actor, Guards, Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run

STORE_FIELDS = ["id", "type", "name", "description", "metadata", "created_at", "updated_at", "archived_at"]


def fill(workspace: Workspace, store: Store, **contents: str) -> None:
    """Put memories into a store, at the paths that the keywords spell (``a_md`` is /a.md)."""
    made = [
        Create(ids.new_id(ids.MEMORY), f"/{name.replace('_', '.')}", text.encode()) for name, text in contents.items()
    ]
    workspace.memories.apply(store.id, made, Actor("user_actor", "alice"))


def test_create_and_list_for_scripts(run: Run, workspace: Workspace) -> None:
    made = [json.loads(run("store", "create", name, "--format", "json").stdout) for name in ("One", "Two")]
    assert [list(item) for item in made] == [STORE_FIELDS] * 2
    workspace.stores.archive(made[0]["id"])
    assert run("store", "list", "-q").stdout == f"{made[1]['id']}\n"
    both = run("store", "list", "--quiet", "--include-archived", "--format", "json").stdout
    assert both == f"{made[0]['id']}\n{made[1]['id']}\n"


def test_list_quietly_of_nothing_is_nothing(run: Run, workspace: Workspace) -> None:
    assert run("store", "list", "-q").output == ""


# update


def test_update_changes_what_is_named_and_no_more(run: Run, workspace: Workspace) -> None:
    store = workspace.stores.create("Notes", "For notes", {"team": "a", "owner": "ada"})
    result = run("store", "update", "notes", "--name", "Team notes é")
    assert result.stdout == f"updated the store 'Team notes é' ({store.id})\n"
    assert result.stderr == ""
    renamed = workspace.stores.get(store.id)
    assert (renamed.name, renamed.description, renamed.metadata) == ("Team notes é", "For notes", store.metadata)
    assert renamed.updated_at > store.updated_at
    run("store", "update", store.id, "--description", "")
    assert workspace.stores.get(store.id).description == ""
    pairs = ["--metadata", "team=b=c", "--metadata", "new=", "--remove-metadata", "owner", "--remove-metadata", "none"]
    shown = json.loads(run("store", "update", store.id, *pairs, "--format", "json").stdout)
    assert list(shown) == STORE_FIELDS
    assert shown["metadata"] == {"team": "b=c", "new": ""}
    assert workspace.stores.get(store.id).metadata == shown["metadata"]


def test_update_says_where_nothing_changed(run: Run, workspace: Workspace) -> None:
    store = workspace.stores.create("Notes", "For notes", {"team": "a"})
    same = ["--name", "Notes", "--description", "For notes", "--metadata", "team=a", "--remove-metadata", "none"]
    assert "is unchanged" in run("store", "update", store.id, *same).stdout
    assert json.loads(run("store", "update", store.id, *same, "--format", "jsonl").stdout)["id"] == store.id
    assert workspace.stores.get(store.id) == store


def test_update_of_nothing_says_what_can_be(run: Run, store: Store) -> None:
    result = run("store", "update", store.id, code=exits.INVALID)
    assert result.stdout == ""
    for option in ("--name", "--description", "--metadata", "--remove-metadata"):
        assert option in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--name", ""],
        ["--name", "x" * 256],
        ["--name", "two\nlines"],
        ["--description", "x" * 1_025],
        ["--metadata", "no-equals"],
        ["--metadata", "a=1", "--metadata", "a=2"],
        ["--metadata", "a=1", "--remove-metadata", "a"],
        ["--metadata", "=value"],
        *([[word for i in range(17) for word in ("--metadata", f"k{i}=v")]]),
    ],
)
def test_update_refuses_what_no_store_may_be(
    run: Run, workspace: Workspace, store: Store, arguments: list[str]
) -> None:
    result = run("store", "update", store.id, *arguments, code=exits.INVALID)
    assert result.stdout == ""
    assert workspace.stores.get(store.id) == store


def test_update_of_an_archived_store_is_refused(run: Run, workspace: Workspace, store: Store) -> None:
    archived = workspace.stores.archive(store.id)
    result = run("store", "update", store.id, "--name", "New", code=exits.REFUSED)
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)
    assert "archived" in result.stderr
    assert workspace.stores.get(store.id) == archived


# copy


def test_copy_makes_a_store_with_the_same_memories(run: Run, workspace: Workspace, store: Store) -> None:
    workspace.stores.update(store.id, description="What they like", metadata={"team": "a"})
    workspace.stores.set_guards(store.id, Guards(max_content_bytes=1_000))
    fill(workspace, store, a_md="one", b_md="two")
    memory = workspace.memories.get(store.id, "/a.md")
    workspace.memories.apply(store.id, [Update(memory.id, content=b"one, later"), KeepDirectory("/d")], actor())
    result = run("store", "copy", "user-preferences", "Sorted é")
    copy = workspace.stores.get(result.stdout.strip())
    assert result.stderr == "copied 2 memories of 'User preferences'; the directory is named sorted\n"
    assert (copy.name, copy.description, copy.metadata) == ("Sorted é", "What they like", {"team": "a"})
    assert copy.guards == Guards(max_content_bytes=1_000)
    copies = workspace.memories.list(copy.id, content=True)
    assert [(each.path, each.content) for each in copies] == [("/a.md", b"one, later"), ("/b.md", b"two")]
    assert memory.id not in [each.id for each in copies]
    versions = workspace.versions.list(copy.id)
    assert [(each.operation, each.created_by) for each in versions] == [("created", actor())] * 2
    assert len(workspace.versions.list(store.id)) == 3


def test_copy_for_scripts(run: Run, workspace: Workspace, store: Store) -> None:
    quiet = run("store", "copy", store.id, "One", "-q", "--description", "")
    assert quiet.stderr == ""
    assert workspace.stores.get(quiet.stdout.removesuffix("\n")).description == ""
    shown = json.loads(run("store", "copy", store.id, "Two", "--description", "é", "--format", "json").stdout)
    assert list(shown) == STORE_FIELDS
    assert (shown["name"], shown["description"]) == ("Two", "é")
    assert shown["id"] != store.id


def test_copy_of_an_archived_store_can_be_written(run: Run, workspace: Workspace, store: Store) -> None:
    fill(workspace, store, a_md="one")
    workspace.stores.archive(store.id)
    copy = workspace.stores.get(run("store", "copy", store.id, "New", "-q").stdout.strip())
    assert copy.archived_at is None
    fill(workspace, copy, b_md="two")


@pytest.mark.parametrize("name", ["", "x" * 256, "two\nlines"])
def test_copy_to_a_name_that_no_store_may_have(run: Run, workspace: Workspace, store: Store, name: str) -> None:
    result = run("store", "copy", store.id, name, code=exits.INVALID)
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)
    assert workspace.stores.list() == [store]


def test_copy_that_a_guard_refuses_makes_no_store(run: Run, workspace: Workspace, store: Store) -> None:
    fill(workspace, store, a_md="one", b_md="x" * 100)
    workspace.stores.set_guards(store.id, Guards(max_content_bytes=10))
    result = run("store", "copy", store.id, "New", code=exits.REFUSED)
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)
    assert [each.id for each in workspace.stores.list()] == [store.id]


@pytest.mark.parametrize("arguments", [["update", "nothing", "--name", "x"], ["copy", "nothing", "x"]])
def test_a_store_that_is_not_there(run: Run, workspace: Workspace, arguments: list[str]) -> None:
    result = run("store", *arguments, code=exits.NOT_FOUND)
    assert result.stderr == "memfs: there is no store 'nothing': 'memfs store list' shows the stores\n"
