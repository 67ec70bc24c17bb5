"""The rules for stores (CONTRACT.md 1), and finding one by what a person calls it."""

import pytest

from memfs.model import ids
from memfs.model.errors import AmbiguousName, InvalidRequest, NotFound
from memfs.workspace import Workspace


def test_a_new_store(workspace: Workspace) -> None:
    store = workspace.stores.create("User preferences", "What they like", {"team": "é"})
    assert ids.is_id(store.id, ids.MEMORY_STORE)
    assert (store.name, store.description, store.metadata) == ("User preferences", "What they like", {"team": "é"})
    assert store.created_at == store.updated_at
    assert store.archived_at is None
    assert workspace.stores.list() == [store]


@pytest.mark.parametrize(
    "name, description, metadata",
    [
        ("x", "", {}),
        ("é" * 255, "", {}),
        ("name", "d" * 1_024, {}),
        ("name", "two\nlines\t", {}),
        ("name", "", {f"k{i}": "v" for i in range(16)}),
        ("name", "", {"k" * 64: "v" * 512}),
        ("name", "", {"k": ""}),
        ("\U0001f600 / ..", "", {}),
    ],
)
def test_fields_at_their_limits(workspace: Workspace, name: str, description: str, metadata: dict[str, str]) -> None:
    store = workspace.stores.create(name, description, metadata)
    assert workspace.stores.resolve(store.id) == store


@pytest.mark.parametrize(
    "name, description, metadata",
    [
        ("", "", {}),
        ("é" * 256, "", {}),
        ("two\nlines", "", {}),
        ("nul\0", "", {}),
        ("del\x7f", "", {}),
        ("c1\x85", "", {}),
        ("\udcff", "", {}),
        ("name", "d" * 1_025, {}),
        ("name", "\ud800", {}),
        ("name", "", {f"k{i}": "v" for i in range(17)}),
        ("name", "", {"k" * 65: "v"}),
        ("name", "", {"": "v"}),
        ("name", "", {"k": "v" * 513}),
        ("name", "", {"\udcff": "v"}),
        ("name", "", {"k": "\udcff"}),
    ],
)
def test_fields_beyond_their_limits(
    workspace: Workspace, name: str, description: str, metadata: dict[str, str]
) -> None:
    with pytest.raises(InvalidRequest):
        workspace.stores.create(name, description, metadata)
    assert workspace.stores.list() == []


def test_a_store_is_found_by_id_name_or_slug(workspace: Workspace) -> None:
    store = workspace.stores.create("User preferences")
    workspace.stores.create("Other")
    for text in (store.id, "User preferences", "user-preferences"):
        assert workspace.stores.resolve(text) == store


@pytest.mark.parametrize(
    "text", ["", "nothing", "USER-PREFERENCES", "user", "User preferences ", "memstore_", "\udcff", "%", "_"]
)
def test_what_is_no_store_is_not_found(workspace: Workspace, text: str) -> None:
    workspace.stores.create("User preferences")
    with pytest.raises(NotFound) as raised:
        workspace.stores.resolve(text)
    assert str(raised.value).isprintable()


def test_an_unknown_id_is_not_found(workspace: Workspace) -> None:
    with pytest.raises(NotFound):
        workspace.stores.resolve(ids.new_id(ids.MEMORY_STORE))


def test_a_name_that_several_have_is_ambiguous(workspace: Workspace) -> None:
    stores = [workspace.stores.create("Notes") for _ in range(2)]
    for text in ("Notes", "notes"):
        with pytest.raises(AmbiguousName, match=stores[0].id):
            workspace.stores.resolve(text)
    assert workspace.stores.resolve(stores[1].id) == stores[1]


def test_a_slug_that_several_have_is_ambiguous_their_names_are_not(workspace: Workspace) -> None:
    upper, lower = workspace.stores.create("Notes"), workspace.stores.create("NOTES!")
    assert workspace.stores.resolve("Notes") == upper
    assert workspace.stores.resolve("NOTES!") == lower
    with pytest.raises(AmbiguousName):
        workspace.stores.resolve("notes")


def test_a_name_goes_before_a_slug(workspace: Workspace) -> None:
    workspace.stores.create("My notes")
    named = workspace.stores.create("my-notes")
    assert workspace.stores.resolve("my-notes") == named


def test_an_archived_store_does_not_stand_in_the_way_of_a_live_one(workspace: Workspace) -> None:
    old = workspace.stores.archive(workspace.stores.create("Notes").id)
    assert workspace.stores.resolve("notes") == old
    new = workspace.stores.create("Notes")
    assert workspace.stores.resolve("notes") == new
    assert workspace.stores.resolve(old.id) == old


def test_archived_stores_are_listed_on_request(workspace: Workspace) -> None:
    live, old = workspace.stores.create("Live"), workspace.stores.create("Old")
    archived = workspace.stores.archive(old.id)
    assert archived.archived_at is not None
    assert workspace.stores.list() == [live]
    assert workspace.stores.list(include_archived=True) == [live, archived]
    with pytest.raises(NotFound):
        workspace.stores.archive(ids.new_id(ids.MEMORY_STORE))
