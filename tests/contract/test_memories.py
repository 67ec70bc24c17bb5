"""Memories: their fields, paths, contents, updates and preconditions, on every surface."""

import re
from hashlib import sha256
from typing import Any

import pytest

from memfs.model import ids
from memfs.model.contract import JsonObject
from memfs.model.errors import NotFound, PathConflict, PreconditionFailed, StoreFull
from memfs.model.mutations import Create
from memfs.model.records import MAX_MEMORIES, Actor, Guards
from memfs.workspace import Workspace
from tests.contract.judging import refused_alike
from tests.contract.surfaces import Driver, Refusal, having

FIELDS = [
    "id",
    "type",
    "memory_store_id",
    "memory_version_id",
    "path",
    "content",
    "content_size_bytes",
    "content_sha256",
    "created_at",
    "updated_at",
]
NO_HASH = "0" * 64


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def versions_of(surface: Driver, store: str) -> int:
    return len(surface.list_versions(store))


# Fields


def test_a_new_memory(surface: Driver, reference: Driver, store: str) -> None:
    made = surface.create_memory(store, "/notes/a.md", "é\n".encode())
    assert list(made) == FIELDS
    assert re.fullmatch("mem_[0-9A-Z]{26}", made["id"])
    (version,) = surface.list_versions(store)
    assert made == {
        "id": made["id"],
        "type": "memory",
        "memory_store_id": store,
        "memory_version_id": version["id"],
        "path": "/notes/a.md",
        "content": None,
        "content_size_bytes": 3,
        "content_sha256": digest("é\n".encode()),
        "created_at": version["created_at"],
        "updated_at": version["created_at"],
    }
    found = surface.get_memory(store, made["id"])
    assert found == made | {"content": "é\n"}
    assert found == reference.get_memory(store, made["id"])
    assert surface.list_memories(store) == [made]


# Contents

CONTENTS = {
    "nothing": b"",
    "a newline": b"\n",
    "no newline at the end": b"one\ntwo",
    "CRLF": b"one\r\ntwo\r\n",
    "CR": b"one\rtwo\r",
    "a byte order mark": "\ufeffone\n".encode(),
    "NUL": b"a\0b\0",
    "control characters": bytes(range(32)) + b"\x7f",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0c".encode(),
    "right to left": "\u202eabc\u2066".encode(),
    "not composed": "e\u0301 \u212b".encode(),
    "noncharacters": "\ufffe\uffff\U0010ffff\ufffd".encode(),
    "white space at the ends": b"  \n\t text \t\n\n  ",
    "what looks like JSON": b'{"content": "\\u0000"}',
    "a dash": b"-",
    "102,400 bytes": b"x" * 102_400,
    "102,400 bytes that JSON writes as six times as many": b"\x01" * 102_400,
    "102,400 bytes in characters of two": "é".encode() * 51_200,
    "102,400 bytes in characters of three and one more": "€".encode() * 34_133 + b"x",
    "102,400 bytes in characters of four": "\U0001f600".encode() * 25_600,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_content_comes_back_byte_for_byte(surface: Driver, reference: Driver, store: str, content: bytes) -> None:
    def check(memory: JsonObject) -> None:
        assert (memory["content_size_bytes"], memory["content_sha256"]) == (len(content), digest(content))
        for driver in (surface, reference):
            found = driver.get_memory(store, memory["id"])
            assert found["content"].encode() == content
            assert found == memory | {"content": found["content"]}
            assert driver.get_version(store, memory["memory_version_id"])["content"].encode() == content

    check(surface.create_memory(store, "/a", content))
    other = surface.create_memory(store, "/b", b"other")
    check(surface.update_memory(store, other["id"], content=content))


# Paths

GOOD_PATHS = [
    "/a",
    "/A b",
    "/ a ",
    "/.hidden",
    "/...",
    "/..a",
    "/a..",
    "/%2e%2e/x",
    "/a\\..\\b",
    "/_%*?[x]{y}",
    "/-",
    "/--path",
    "/~",
    "/a'b\"c`$(d)",
    "/a;b#c&d=e+f?g",
    "/é",
    "/日本/語",
    "/\U0001f600",
    "/\u00a0",
    "/\ue000",
    "/mem_01M8NMQFRP7HNTABQQHZR3KZM6",
    "/" + "a" * 1_023,
    "/" + "é" * 511 + "x",
    "/a" * 20,
    "/" + "/".join(["a" * 50] * 20)[:1_023],
    "/" + "n" * 256 + "/x",
]


@pytest.mark.parametrize("path", GOOD_PATHS, ids=lambda path: path[:60])
def test_a_path_stays_as_it_is(surface: Driver, reference: Driver, store: str, path: str) -> None:
    made = surface.create_memory(store, path)
    assert made["path"] == path
    for driver in (surface, reference):
        assert driver.get_memory(store, made["id"])["path"] == path
        assert [memory["path"] for memory in driver.list_memories(store)] == [path]
        assert [version["path"] for version in driver.list_versions(store)] == [path]
    surface.update_memory(store, made["id"], path="/elsewhere")
    assert surface.update_memory(store, made["id"], path=path)["path"] == path
    assert reference.get_memory(store, made["id"])["path"] == path


def test_paths_differ_by_case_and_no_character_stands_for_others(surface: Driver, store: str) -> None:
    paths = ["/%", "/*", "/A", "/_", "/a", "/ab", "/b", "/É", "/é"]
    for path in paths:
        surface.create_memory(store, path)
    assert [memory["path"] for memory in surface.list_memories(store)] == paths


# No memory is an ancestor of another


@pytest.mark.parametrize("path, other", [("/a/b", "/a"), ("/a/b/c/d", "/a"), ("/a", "/a/b"), ("/a", "/a/b/c/d")])
@pytest.mark.parametrize("verb", ["create", "move"])
def test_a_path_above_or_below_a_used_one(
    surface: Driver, reference: Driver, store: str, verb: str, path: str, other: str
) -> None:
    there = surface.create_memory(store, other, b"there")
    moved = surface.create_memory(store, "/moved", b"moved")
    before = surface.list_memories(store), surface.list_versions(store)

    def act(driver: Driver) -> object:
        if verb == "create":
            return driver.create_memory(store, path, b"new")
        return driver.update_memory(store, moved["id"], path=path, content=b"new")

    words = f"^the path {path} lies above or below the memory {there['id']} at {other}: choose another$"
    found = refused_alike(surface, reference, act, PathConflict, words)
    if surface.name in having("conflicts as fields"):
        assert found.conflict == (there["id"], other)
    assert (surface.list_memories(store), surface.list_versions(store)) == before
    assert surface.get_memory(store, there["id"])["content"] == "there"


def test_names_that_only_begin_alike_are_neighbours(surface: Driver, store: str) -> None:
    paths = ["/a", "/a.md", "/a-b/c", "/ab/c", "/b/c/d", "/b/cd", "/b/c.md", "/_", "/%", "/__/x", "/*"]
    for path in paths:
        surface.create_memory(store, path)
    assert len(surface.list_memories(store)) == len(paths)


def test_creating_never_overwrites(surface: Driver, store: str) -> None:
    there = surface.create_memory(store, "/a", b"there")
    with pytest.raises(Refusal, match=there["id"]) as refusal:
        surface.create_memory(store, "/a", b"new")
    assert refusal.value.kind == surface.kind_of(PathConflict)
    if surface.name in having("conflicts as fields"):
        assert refusal.value.conflict == (there["id"], "/a")
    assert surface.get_memory(store, there["id"]) == there | {"content": "there"}
    assert versions_of(surface, store) == 1


def test_a_path_is_free_again_after_a_move_and_after_a_deletion(surface: Driver, store: str) -> None:
    first = surface.create_memory(store, "/a")
    surface.update_memory(store, first["id"], path="/b")
    second = surface.create_memory(store, "/a/below")
    surface.delete_memory(store, second["id"])
    third = surface.create_memory(store, "/a")
    assert len({first["id"], second["id"], third["id"]}) == 3


# Updates


def test_a_content_alone(surface: Driver, reference: Driver, store: str) -> None:
    made = surface.create_memory(store, "/a", b"one")
    after = surface.update_memory(store, made["id"], content=b"two")
    assert list(after) == FIELDS
    assert after == made | {
        "memory_version_id": surface.list_versions(store)[0]["id"],
        "content_sha256": digest(b"two"),
        "updated_at": after["updated_at"],
    }
    assert after["memory_version_id"] != made["memory_version_id"]
    assert after["updated_at"] > made["updated_at"]
    assert surface.get_memory(store, made["id"]) == after | {"content": "two"}
    assert reference.get_memory(store, made["id"]) == after | {"content": "two"}


def test_a_path_alone_keeps_id_and_content(surface: Driver, store: str) -> None:
    made = surface.create_memory(store, "/a", b"one")
    after = surface.update_memory(store, made["id"], path="/b/c")
    assert after == made | {
        "path": "/b/c",
        "memory_version_id": after["memory_version_id"],
        "updated_at": after["updated_at"],
    }
    assert surface.get_memory(store, made["id"]) == after | {"content": "one"}
    newest, oldest = surface.list_versions(store)
    assert (newest["operation"], newest["path"], newest["content_sha256"]) == ("modified", "/b/c", digest(b"one"))
    assert (oldest["operation"], oldest["path"]) == ("created", "/a")


def test_content_and_path_in_one_are_one_version(surface: Driver, store: str) -> None:
    made = surface.create_memory(store, "/a", b"one")
    after = surface.update_memory(store, made["id"], content=b"two", path="/b", expected_sha256=digest(b"one"))
    assert (after["path"], after["content_sha256"]) == ("/b", digest(b"two"))
    assert versions_of(surface, store) == 2


def test_a_memory_can_move_below_where_it_was(surface: Driver, store: str) -> None:
    made = surface.create_memory(store, "/a")
    assert surface.update_memory(store, made["id"], path="/a/b/c")["path"] == "/a/b/c"
    assert surface.update_memory(store, made["id"], path="/a/b")["path"] == "/a/b"


@pytest.mark.parametrize(
    "change",
    [
        {"content": b"one"},
        {"path": "/a"},
        {"content": b"one", "path": "/a"},
        {"content": b"one", "expected_sha256": digest(b"one")},
        {"content": b"one", "expected_sha256": NO_HASH},
        {"path": "/a", "expected_sha256": digest(b"one")},
        {"content": b"one", "path": "/a", "expected_sha256": NO_HASH},
    ],
    ids=lambda change: " ".join([*change, *(["wrong"] if change.get("expected_sha256") == NO_HASH else [])]),
)
def test_what_is_as_wanted_already_makes_no_version(surface: Driver, store: str, change: dict[str, Any]) -> None:
    made = surface.create_memory(store, "/a", b"one")
    assert surface.update_memory(store, made["id"], **change) == made
    assert versions_of(surface, store) == 1


@pytest.mark.parametrize("surface", having("empty updates"), indirect=True)
@pytest.mark.parametrize("expected", [None, digest(b"one")])
def test_an_update_without_anything(surface: Driver, store: str, expected: str | None) -> None:
    made = surface.create_memory(store, "/a", b"one")
    assert surface.update_memory(store, made["id"], expected_sha256=expected) == made
    assert versions_of(surface, store) == 1


def test_an_old_content_can_be_written_back(surface: Driver, store: str) -> None:
    made = surface.create_memory(store, "/a", b"one")
    surface.update_memory(store, made["id"], content=b"two")
    again = surface.update_memory(store, made["id"], content=b"one")
    assert again["content_sha256"] == made["content_sha256"]
    assert again["memory_version_id"] != made["memory_version_id"]
    assert versions_of(surface, store) == 3


# Preconditions


@pytest.mark.parametrize("expected", [digest(b"one"), digest(b"one").upper()])
@pytest.mark.parametrize("change", [{"content": b"two"}, {"path": "/b"}, {"content": b"two", "path": "/b"}])
def test_a_hash_that_fits(surface: Driver, store: str, change: dict[str, Any], expected: str) -> None:
    made = surface.create_memory(store, "/a", b"one")
    surface.update_memory(store, made["id"], expected_sha256=expected, **change)
    assert versions_of(surface, store) == 2


@pytest.mark.parametrize("expected", [digest(b"one"), digest(b"one").upper()])
def test_deleting_with_a_hash_that_fits(surface: Driver, store: str, expected: str) -> None:
    made = surface.create_memory(store, "/a", b"one")
    deleted = surface.delete_memory(store, made["id"], expected_sha256=expected)
    assert deleted == {"id": made["id"], "type": "memory_deleted"}
    assert surface.list_memories(store) == []


def test_a_hash_that_was_right_before_somebody_elses_change(
    surface: Driver, drivers: dict[str, Driver], reference: Driver, store: str
) -> None:
    made = surface.create_memory(store, "/a", b"one")
    for other in drivers.values():
        before = surface.get_memory(store, made["id"])
        other.update_memory(store, made["id"], content=f"by {other.name}".encode())
        stale = before["content_sha256"]
        now = surface.get_memory(store, made["id"])["content_sha256"]
        words = f"^/a has the hash {now}, not {stale}: read it again$"

        def update(driver: Driver, stale: str = stale) -> object:
            return driver.update_memory(store, made["id"], content=b"mine", expected_sha256=stale.upper())

        def delete(driver: Driver, stale: str = stale) -> object:
            return driver.delete_memory(store, made["id"], expected_sha256=stale)

        refused_alike(surface, reference, update, PreconditionFailed, words)
        refused_alike(surface, reference, delete, PreconditionFailed, words)
    assert versions_of(surface, store) == 4


# Deletion


def test_a_deleted_memory_is_gone(surface: Driver, reference: Driver, store: str) -> None:
    made = surface.create_memory(store, "/a")
    assert surface.delete_memory(store, made["id"]) == {"id": made["id"], "type": "memory_deleted"}
    for act in (
        lambda s: s.get_memory(store, made["id"]),
        lambda s: s.update_memory(store, made["id"], content=b"x"),
        lambda s: s.delete_memory(store, made["id"]),
    ):
        refused_alike(surface, reference, act, NotFound, f"^the store {store} has no memory {made['id']}$")
    assert surface.list_memories(store) == []


# The limit of a store


def test_a_full_store(surface: Driver, reference: Driver, shared_workspace: Workspace, store: str) -> None:
    somebody = Actor("user_actor", "somebody")
    most = [Create(ids.new_id(ids.MEMORY), f"/{number:04}", b"x") for number in range(MAX_MEMORIES - 1)]
    shared_workspace.memories.apply(store, most, somebody)
    last = surface.create_memory(store, "/last")

    def one_more(driver: Driver) -> object:
        return driver.create_memory(store, "/one-more")

    words = f"^the store {store} holds 2000 of 2000 memories: "
    refused_alike(surface, reference, one_more, StoreFull, words)
    changed = surface.update_memory(store, last["id"], content=b"changed", path="/moved")
    assert (changed["path"], changed["content_size_bytes"]) == ("/moved", 7)
    assert len(surface.list_memories(store)) == MAX_MEMORIES
    surface.delete_memory(store, last["id"])
    assert surface.create_memory(store, "/one-more")["path"] == "/one-more"
    refused_alike(surface, reference, lambda s: s.create_memory(store, "/too-many"), StoreFull, words)


# Guards


def test_what_a_guard_masks_is_masked_everywhere(
    surface: Driver, reference: Driver, shared_workspace: Workspace, store: str
) -> None:
    shared_workspace.stores.set_guards(store, Guards(secrets="mask"))
    text = b"id: AKIAIOSFODNN7REALKEY\n"
    made = surface.create_memory(store, "/a", text)
    compared = reference.create_memory(store, "/b", text)
    found = surface.get_memory(store, made["id"])
    assert "AKIA" not in found["content"]
    assert "removed]" in found["content"]
    assert made["content_sha256"] == compared["content_sha256"] == digest(found["content"].encode())
    assert made["content_size_bytes"] == len(found["content"].encode())
    changed = surface.update_memory(store, made["id"], content=b"more: AKIAIOSFODNN7REALKEY\n")
    assert "AKIA" not in surface.get_version(store, changed["memory_version_id"])["content"]


def test_guards_do_not_judge_what_is_there(surface: Driver, shared_workspace: Workspace, store: str) -> None:
    there = surface.create_memory(store, "/a", b"x" * 20)
    shared_workspace.stores.set_guards(store, Guards(max_content_bytes=10, allowed_paths=("/b/**",)))
    assert surface.get_memory(store, there["id"])["content"] == "x" * 20
    assert surface.update_memory(store, there["id"], path="/b/a")["path"] == "/b/a"
    assert surface.create_memory(store, "/b/b", b"x" * 10)["content_size_bytes"] == 10
    surface.delete_memory(store, there["id"])
