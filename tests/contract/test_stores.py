"""Stores: CONTRACT.md 1 and 2 on every surface."""

import re
from collections.abc import Mapping

import pytest

from memfs.model.errors import NotFound, StoreArchived
from tests.contract.judging import refused_alike
from tests.contract.surfaces import Driver, having

FIELDS = ["id", "type", "name", "description", "metadata", "created_at", "updated_at", "archived_at"]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
FULL = {f"{number:064}": "v" * 512 for number in range(16)}


def test_a_new_store(surface: Driver, reference: Driver) -> None:
    made = surface.create_store("Notes", "What we know", {"team": "a=b", "é": ""})
    assert list(made) == FIELDS
    assert re.fullmatch("memstore_[0-9A-Z]{26}", made["id"])
    assert TIME.fullmatch(made["created_at"])
    assert made == {
        "id": made["id"],
        "type": "memory_store",
        "name": "Notes",
        "description": "What we know",
        "metadata": {"team": "a=b", "é": ""},
        "created_at": made["created_at"],
        "updated_at": made["created_at"],
        "archived_at": None,
    }
    assert surface.get_store(made["id"]) == made
    assert reference.get_store(made["id"]) == made


def test_what_is_left_out_is_empty(surface: Driver) -> None:
    made = surface.create_store("Notes")
    assert (made["description"], made["metadata"]) == ("", {})


@pytest.mark.parametrize(
    "name",
    ["x", "x" * 255, "\U0001f600" * 255, " ", "a/b", "-", "--name", "a\u200bb\u2028", "e\u0301", '"quoted" [bold]\\'],
)
def test_a_name_is_any_text_of_up_to_255_characters(surface: Driver, reference: Driver, name: str) -> None:
    made = surface.create_store(name)
    assert surface.get_store(made["id"])["name"] == reference.get_store(made["id"])["name"] == name


@pytest.mark.parametrize("description", ["x" * 1_024, "\U0001f600" * 1_024, "two\nlines\t\x1b", "-"])
def test_a_description_is_any_text_of_up_to_1_024_characters(
    surface: Driver, reference: Driver, description: str
) -> None:
    made = surface.create_store("Notes", description)
    assert surface.get_store(made["id"])["description"] == description
    assert reference.get_store(made["id"])["description"] == description


@pytest.mark.parametrize("metadata", [FULL, {"é" * 64: "é" * 512}, {"k": "a\nb=c"}])
def test_metadata_up_to_its_limits(surface: Driver, reference: Driver, metadata: Mapping[str, str]) -> None:
    made = surface.create_store("Notes", "", metadata)
    assert surface.get_store(made["id"])["metadata"] == reference.get_store(made["id"])["metadata"] == metadata


def test_names_may_be_used_twice(surface: Driver) -> None:
    assert surface.create_store("Twice")["id"] != surface.create_store("Twice")["id"]


@pytest.mark.parametrize(
    "change",
    [{"name": "Other"}, {"description": "Other"}, {"description": ""}, {"metadata": {"b": "2"}}],
    ids=["name", "description", "no description", "metadata"],
)
def test_an_update_keeps_what_it_leaves_out(surface: Driver, change: dict[str, object]) -> None:
    made = surface.create_store("Notes", "What we know", {"a": "1"})
    after = surface.update_store(made["id"], **change)  # type: ignore[arg-type]  # each is of its field
    expected = made | change
    if "metadata" in change:
        expected["metadata"] = {"a": "1", "b": "2"}
    assert after == expected | {"updated_at": after["updated_at"]}
    assert after["updated_at"] > made["updated_at"]
    assert surface.get_store(made["id"]) == after


def test_null_removes_a_key_and_a_value_replaces_one(surface: Driver) -> None:
    store_id = surface.create_store("Notes", "", {"a": "1", "b": "2", "c": "3"})["id"]
    after = surface.update_store(store_id, metadata={"a": None, "b": "new", "d": "4", "nothing": None})
    assert after["metadata"] == {"b": "new", "c": "3", "d": "4"}
    assert surface.get_store(store_id) == after


def test_a_key_can_make_room_for_another(surface: Driver, reference: Driver) -> None:
    store_id = surface.create_store("Notes", "", FULL)["id"]
    first = next(iter(FULL))
    after = surface.update_store(store_id, metadata={first: None, "new": "v"})
    assert len(after["metadata"]) == 16
    assert "new" in after["metadata"]


@pytest.mark.parametrize(
    "change", [{"name": "Notes"}, {"metadata": {"a": "1"}}, {"metadata": {"nothing": None}}, {"description": "d"}]
)
def test_an_update_that_changes_nothing_moves_no_time(surface: Driver, change: dict[str, object]) -> None:
    made = surface.create_store("Notes", "d", {"a": "1"})
    assert surface.update_store(made["id"], **change) == made  # type: ignore[arg-type]  # each is of its field


@pytest.mark.parametrize("surface", having("empty updates"), indirect=True)
def test_an_update_without_anything(surface: Driver, store: str) -> None:
    assert surface.update_store(store) == surface.get_store(store)


def test_memories_move_no_time_of_their_store(surface: Driver, store: str) -> None:
    before = surface.get_store(store)
    surface.create_memory(store, "/a")
    assert surface.get_store(store) == before


def test_a_list_has_the_oldest_first(surface: Driver, reference: Driver) -> None:
    made = [surface.create_store(name) for name in ("b", "a", "c")]
    found = surface.list_stores()
    assert [store for store in found if store in made] == made
    assert found == reference.list_stores()


def test_archiving(surface: Driver, store: str) -> None:
    before = surface.get_store(store)
    archived = surface.archive_store(store)
    assert archived == before | {"archived_at": archived["archived_at"], "updated_at": archived["updated_at"]}
    assert archived["archived_at"] == archived["updated_at"] > before["updated_at"]
    assert surface.archive_store(store) == archived, "a second time changes nothing"
    assert surface.get_store(store) == archived
    assert store not in [found["id"] for found in surface.list_stores()]
    assert archived in surface.list_stores(include_archived=True)


def test_an_archived_store_can_be_read_deleted_from_and_redacted_in(
    surface: Driver, reference: Driver, store: str
) -> None:
    memory = surface.create_memory(store, "/a", b"one")
    surface.update_memory(store, memory["id"], content=b"two")
    other = surface.create_memory(store, "/b", b"two")
    surface.archive_store(store)
    refused_alike(surface, reference, lambda s: s.create_memory(store, "/c"), StoreArchived, "is archived")
    assert surface.get_memory(store, memory["id"])["content"] == "two"
    assert [found["path"] for found in surface.list_memories(store)] == ["/a", "/b"]
    assert len(surface.list_versions(store)) == 3
    assert surface.redact_version(store, memory["memory_version_id"])["redacted_at"] is not None
    assert surface.delete_memory(store, other["id"]) == {"id": other["id"], "type": "memory_deleted"}
    assert [found["path"] for found in surface.list_memories(store)] == ["/a"]
    assert surface.delete_store(store)["id"] == store


def test_an_archived_store_refuses_even_what_would_change_nothing(
    surface: Driver, reference: Driver, store: str
) -> None:
    memory = surface.create_memory(store, "/a", b"one")
    name = surface.archive_store(store)["name"]
    for act in (
        lambda s: s.update_memory(store, memory["id"], content=b"one"),
        lambda s: s.update_memory(store, memory["id"], path="/a"),
        lambda s: s.update_store(store, name=name),
    ):
        refused_alike(surface, reference, act, StoreArchived, "is archived")


def test_deleting_takes_everything(surface: Driver, reference: Driver, store: str) -> None:
    memory = surface.create_memory(store, "/a")
    surface.delete_memory(store, surface.create_memory(store, "/b")["id"])
    assert surface.delete_store(store) == {"id": store, "type": "memory_store_deleted"}
    for act in (
        lambda s: s.get_store(store),
        lambda s: s.get_memory(store, memory["id"]),
        lambda s: s.list_memories(store),
        lambda s: s.list_versions(store),
        lambda s: s.get_version(store, memory["memory_version_id"]),
        lambda s: s.create_memory(store, "/a"),
        lambda s: s.archive_store(store),
        lambda s: s.delete_store(store),
    ):
        refused_alike(surface, reference, act, NotFound, f"^there is no store {store}$")
    assert store not in [found["id"] for found in surface.list_stores(include_archived=True)]


@pytest.mark.parametrize("surface", having("stores by time"), indirect=True)
def test_stores_by_time_inclusive(surface: Driver) -> None:
    first, second, third = [surface.create_store(name) for name in "abc"]
    found = surface.list_stores_between(second["created_at"], second["created_at"])
    assert found == [second]
    assert surface.list_stores_between(second["created_at"], None) == [second, third]
    before = surface.list_stores_between(None, second["created_at"])
    assert before[-2:] == [first, second]
    assert surface.list_stores_between(third["created_at"], first["created_at"]) == []
