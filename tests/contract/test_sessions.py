"""Sessions: what the workspace and the API make of ``resources[]``."""

import re

from memfs.model.contract import JsonObject
from tests.contract.surfaces import Driver


def attach(store_id: str, **more: str) -> JsonObject:
    return {"type": "memory_store", "memory_store_id": store_id, **more}


def test_a_session(surface: Driver, reference: Driver) -> None:
    first = surface.create_store("User preferences", "What the user likes")["id"]
    second = surface.create_store("Team standards")["id"]
    made = surface.create_session(
        [attach(first), attach(second, access="read_only", instructions="Obey these.")],
        title="A run",
        metadata={"a": "1"},
    )
    assert re.fullmatch("sesn_[0-9A-Z]{26}", made["id"])
    assert (made["type"], made["status"], made["title"], made["metadata"]) == ("session", "idle", "A run", {"a": "1"})
    assert made["agent"]["skills"] == []
    assert made["archived_at"] is None
    assert made["resources"] == [
        {
            "type": "memory_store",
            "memory_store_id": first,
            "access": "read_write",
            "instructions": "",
            "name": "User preferences",
            "description": "What the user likes",
            "mount_path": "/mnt/memory/user-preferences",
        },
        {
            "type": "memory_store",
            "memory_store_id": second,
            "access": "read_only",
            "instructions": "Obey these.",
            "name": "Team standards",
            "description": "",
            "mount_path": "/mnt/memory/team-standards",
        },
    ]
    assert surface.get_session(made["id"]) == reference.get_session(made["id"]) == made


def test_eight_stores_with_one_slug(surface: Driver) -> None:
    stores = [surface.create_store(name)["id"] for name in ("Notes", "notes!", "NOTES", *["日本"] * 5)]
    made = surface.create_session([attach(store_id, instructions="é" * 4_096) for store_id in stores])
    slugs = [resource["mount_path"].removeprefix("/mnt/memory/") for resource in made["resources"]]
    assert slugs == ["notes", "notes-2", "notes-3", *(f"store-{store_id[-8:].lower()}" for store_id in stores[3:])]


def test_a_session_keeps_names_and_descriptions_of_its_beginning(surface: Driver, store: str) -> None:
    made = surface.create_session([attach(store)])
    surface.update_store(store, name="Renamed", description="Described")
    assert surface.get_session(made["id"]) == made
    assert surface.create_session([attach(store)])["resources"][0]["mount_path"] == "/mnt/memory/renamed"


def test_a_session_loses_a_store_that_is_deleted(surface: Driver, store: str) -> None:
    other = surface.create_store("Other")["id"]
    made = surface.create_session([attach(store), attach(other)])
    surface.delete_store(store)
    assert surface.get_session(made["id"]) == made | {"resources": made["resources"][1:]}


def test_the_sessions_of_a_store_newest_first(surface: Driver, reference: Driver, store: str) -> None:
    other = surface.create_store("Other")["id"]
    made = [surface.create_session([attach(store), attach(other)]) for _ in range(3)]
    surface.create_session([attach(other)])
    assert surface.list_sessions(store) == made[::-1] == reference.list_sessions(store)


def test_archiving(surface: Driver, store: str) -> None:
    made = surface.create_session([attach(store)])
    archived = surface.archive_session(made["id"])
    assert archived["archived_at"] is not None
    assert archived["status"] == "terminated"
    assert archived == made | {
        "status": "terminated",
        "archived_at": archived["archived_at"],
        "updated_at": archived["archived_at"],
    }
    assert surface.archive_session(made["id"]) == archived, "a second time changes nothing"
    assert surface.get_session(made["id"]) == archived
    assert surface.list_sessions(store) == []
    assert surface.list_sessions(store, include_archived=True) == [archived]
