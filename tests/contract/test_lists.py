"""Lists of memories, and pages of every list, on every surface that has them."""

from collections.abc import Callable
from typing import Any

import pytest

from memfs.model.contract import JsonObject
from tests.contract.surfaces import Driver, Page, having

PATHS = [
    "/%/a",
    "/Notes/a.md",
    "/a",
    "/notes-old",
    "/notes.md",
    "/notes/A/deep/er",
    "/notes/a.md",
    "/notes/sub-x",
    "/notes/sub.md",
    "/notes/sub/a",
    "/notes/sub/b",
    "/notes/sub0",
    "/notes0",
    "/notesX/a.md",
    "/notes_",
    "/é/a",
    "/日本/a",
    "/\U0001f600",
]


def shown(items: list[JsonObject]) -> list[str]:
    """The paths of a list; those of prefixes end with a slash."""
    assert all(item["path"].endswith("/") == (item["type"] == "memory_prefix") for item in items)
    return [item["path"] for item in items]


@pytest.fixture(scope="module")
def filled_by(drivers: dict[str, Driver]) -> dict[str, str]:
    """For each surface a store that it filled with all the paths, in another order; nobody changes it."""
    filled = {}
    for name, driver in drivers.items():
        filled[name] = driver.create_store("Filled")["id"]
        for path in sorted(PATHS, key=lambda path: path[::-1]):
            driver.create_memory(filled[name], path)
    return filled


@pytest.fixture
def filled(surface: Driver, filled_by: dict[str, str]) -> str:
    """The one that the surface under test filled."""
    return filled_by[surface.name]


def test_everything_in_path_order(surface: Driver, reference: Driver, filled: str) -> None:
    found = surface.list_memories(filled)
    assert shown(found) == PATHS == sorted(PATHS)
    assert found == reference.list_memories(filled)
    assert all(item["content"] is None for item in found)


PREFIXES: dict[tuple[str, int], list[str]] = {
    ("/", 0): PATHS,
    ("/", 1): [
        "/%/",
        "/Notes/",
        "/a",
        "/notes-old",
        "/notes.md",
        "/notes/",
        "/notes0",
        "/notesX/",
        "/notes_",
        "/é/",
        "/日本/",
        "/\U0001f600",
    ],
    ("/notes/", 0): [path for path in PATHS if path.startswith("/notes/")],
    ("/notes/", 1): ["/notes/A/", "/notes/a.md", "/notes/sub-x", "/notes/sub.md", "/notes/sub/", "/notes/sub0"],
    ("/notes/sub/", 0): ["/notes/sub/a", "/notes/sub/b"],
    ("/notes/sub/", 1): ["/notes/sub/a", "/notes/sub/b"],
    ("/notes/A/", 1): ["/notes/A/deep/"],
    ("/Notes/", 0): ["/Notes/a.md"],
    ("/NOTES/", 0): [],
    ("/note/", 0): [],
    ("/notes_/", 0): [],
    ("/note%/", 0): [],
    ("/note_/", 1): [],
    ("/note*/", 0): [],
    ("/%/", 0): ["/%/a"],
    ("/_/", 0): [],
    ("/é/", 1): ["/é/a"],
    ("/a/", 0): [],
    ("/notes/a.md/", 1): [],
    ("/nothing/", 1): [],
}


@pytest.mark.parametrize("prefix, depth", PREFIXES, ids=lambda value: str(value))
def test_what_lies_below_a_prefix(surface: Driver, reference: Driver, filled: str, prefix: str, depth: int) -> None:
    found = surface.list_memories(filled, prefix, depth=depth)
    assert shown(found) == sorted(PREFIXES[prefix, depth]), "prefixes are in their place among the memories"
    assert found == reference.list_memories(filled, prefix, depth=depth)
    assert [item for item in found if item["type"] == "memory_prefix"] == [
        {"path": path, "type": "memory_prefix"} for path in shown(found) if path.endswith("/")
    ]


def test_an_empty_store(surface: Driver, store: str) -> None:
    for depth in (0, 1):
        assert surface.list_memories(store, depth=depth) == []


@pytest.mark.parametrize("surface", having("full lists"), indirect=True)
@pytest.mark.parametrize("depth", [0, 1])
def test_a_full_list_has_the_contents(surface: Driver, store: str, depth: int) -> None:
    for number in range(25):
        surface.create_memory(store, f"/{number:02}", f"text {number}".encode())
    found = surface.list_memories(store, depth=depth, view="full")
    assert [item["content"] for item in found] == [f"text {number}" for number in range(25)]
    assert [item | {"content": None} for item in found] == surface.list_memories(store, depth=depth)


# Pages

PageOf = Callable[[int, Any], Page]


def walk(page_of: PageOf, limit: int, between: Callable[[int], None] = lambda _: None) -> list[JsonObject]:
    """All pages of a list; ``between`` is called after each, with its number."""
    found: list[JsonObject] = []
    page = page_of(limit, None)
    for number in range(100):
        assert len(page.data) <= limit
        found += page.data
        if page.next_page is None:
            return found
        assert len(page.data) == limit, "only the last page may be shorter"
        between(number)
        page = page_of(limit, page.next_page)
    raise AssertionError("the list has no end")


@pytest.mark.parametrize("surface", having("pages"), indirect=True)
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 17, 18, 19, 100])
@pytest.mark.parametrize("depth", [0, 1])
def test_pages_of_any_size_hold_the_same(surface: Driver, filled: str, depth: int, limit: int) -> None:
    found = walk(lambda size, page: surface.memory_page(filled, size, page, depth=depth), limit)
    assert found == surface.list_memories(filled, depth=depth)


@pytest.mark.parametrize("surface", having("pages"), indirect=True)
@pytest.mark.parametrize("depth", [0, 1])
def test_pages_of_memories_while_others_come_and_go(
    surface: Driver, drivers: dict[str, Driver], store: str, depth: int
) -> None:
    made = {path: surface.create_memory(store, path)["id"] for path in ("/b", "/d", "/f/1", "/f/2", "/h", "/j", "/l")}
    writers = list(drivers.values())
    steps: list[Callable[[Driver], object]] = [
        lambda s: s.create_memory(store, "/a"),  # before where the list is
        lambda s: s.delete_memory(store, made["/b"]),  # seen, and a page's last
        lambda s: s.delete_memory(store, made["/d"]),
        lambda s: s.create_memory(store, "/k"),  # after where it is
        lambda s: s.update_memory(store, made["/l"], path="/m"),
        lambda s: s.create_memory(store, "/c"),
    ]

    def change(number: int) -> None:
        if number < len(steps):
            steps[number](writers[number % len(writers)])

    found = shown(walk(lambda size, page: surface.memory_page(store, size, page, depth=depth), 1, change))
    inner = ["/f/"] if depth else ["/f/1", "/f/2"]
    assert found == ["/b", "/d", *inner, "/h", "/j", "/k", "/m"]


@pytest.mark.parametrize("surface", having("pages"), indirect=True)
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_of_versions_while_others_come(
    surface: Driver, drivers: dict[str, Driver], store: str, limit: int
) -> None:
    made = [surface.create_memory(store, f"/{number}") for number in range(5)]
    surface.delete_memory(store, made[2]["id"])
    there = surface.list_versions(store)

    def change(number: int) -> None:
        writer = list(drivers.values())[number % len(drivers)]
        writer.create_memory(store, f"/new-{number}")
        if number == 0:
            writer.delete_memory(store, made[0]["id"])
            writer.redact_version(store, made[0]["memory_version_id"])

    found = walk(lambda size, page: surface.version_page(store, size, page), limit, change)
    assert [version["id"] for version in found] == [version["id"] for version in there], "newer ones are before it"


@pytest.mark.parametrize("surface", having("pages"), indirect=True)
def test_pages_of_stores_while_others_come_and_go(surface: Driver, drivers: dict[str, Driver]) -> None:
    writers = list(drivers.values())
    before = [store["id"] for store in surface.list_stores()]
    there = [surface.create_store(f"Page {number}")["id"] for number in range(8)]
    doomed, new = [*there[1:2], *there[6:7]], []

    def change(number: int) -> None:
        writer = writers[number % len(writers)]
        if number == 0:
            writer.delete_store(doomed[0])
            new.append(writer.create_store("New")["id"])
        if number == 1:
            writer.archive_store(doomed[1])

    found = [store["id"] for store in walk(surface.store_page, (len(before) + 8) // 4, change)]
    stay = [store_id for store_id in [*before, *there] if store_id not in doomed]
    assert [store_id for store_id in found if store_id not in doomed] == [*stay, *new]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("surface", having("pages"), indirect=True)
@pytest.mark.parametrize("limit", [1, 2])
def test_pages_of_sessions_while_others_come_and_go(surface: Driver, store: str, limit: int) -> None:
    resources = [{"type": "memory_store", "memory_store_id": store}]
    there = [surface.create_session(resources)["id"] for _ in range(6)]

    def change(number: int) -> None:
        surface.create_session(resources)
        if number == 0:
            surface.archive_session(there[-1])  # seen
            surface.archive_session(there[0])

    found = [
        session["id"] for session in walk(lambda size, page: surface.session_page(store, size, page), limit, change)
    ]
    assert [session_id for session_id in found if session_id != there[0]] == there[:0:-1]
