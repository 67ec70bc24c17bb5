"""What an import would do: paths in each other's way, room, guards. Each item is judged, and nothing is written."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfs.model.errors import PathConflict, StoreFull, WriteRefused
from memfs.model.paths import ancestors
from memfs.model.records import MAX_CONTENT_BYTES, MAX_MEMORIES, Actor, Guards, Store
from memfs.workspace import Workspace
from memfs.workspace.importing import ImportPlan, apply_import, plan_import
from memfs.workspace.sources import File, Item, Items, Problem, Source
from tests.workspace.transfers import imported, memories


def source(*items: File | Problem) -> Source:
    """A source with these items."""

    def read() -> Items:
        yield from items

    return read


def files(*paths: str) -> Source:
    return source(*(File(path, path.encode()) for path in paths))


def reasons(plan: ImportPlan) -> dict[str, str]:
    return {problem.path: problem.reason for problem in plan.problems}


def test_a_file_cannot_be_where_the_store_has_a_directory_nor_below_a_memory(
    workspace: Workspace, store: Store, actor: Actor
) -> None:
    for path in ("/a/b/c", "/m"):
        workspace.memories.create(store.id, path, b"", actor)
    plan = imported(workspace, store, files("/a", "/a/b", "/a/x", "/m/n", "/m/n/o", "/mm", "/a-"), actor)
    assert reasons(plan) == {
        "/a": "it is a directory in the store, with a memory at /a/b/c",
        "/a/b": "it is a directory in the store, with a memory at /a/b/c",
        "/m/n": "there is a memory at /m, so that nothing can be below it",
        "/m/n/o": "there is a memory at /m, so that nothing can be below it",
    }
    assert sorted(memories(workspace, store)) == ["/a-", "/a/b/c", "/a/x", "/m", "/mm"]


@pytest.mark.parametrize("order", [("/a", "/a/b", "/a/c/d"), ("/a/c/d", "/a/b", "/a")])
def test_two_items_in_each_others_way_do_not_depend_on_their_order(
    workspace: Workspace, store: Store, actor: Actor, order: tuple[str, ...]
) -> None:
    plan = imported(workspace, store, files(*order), actor)
    assert plan.created == ["/a"]
    assert reasons(plan) == dict.fromkeys(
        ("/a/b", "/a/c/d"), "/a is imported as a file too, so that nothing can be below it"
    )


def test_what_is_below_an_item_that_cannot_be_stored_can_be(workspace: Workspace, store: Store, actor: Actor) -> None:
    plan = imported(workspace, store, source(Problem("/a", "a symbolic link"), File("/a/b", b"")), actor)
    assert plan.created == ["/a/b"]
    assert reasons(plan) == {"/a": "a symbolic link"}


def test_of_two_items_with_one_path_the_later_holds(workspace: Workspace, store: Store, actor: Actor) -> None:
    bad = Problem("/b", "a symbolic link")
    items: list[Item] = [
        File("/a", b"1"),
        File("/b", b"1"),
        File("/a", b"2"),
        bad,
        Problem("/c", "a device"),
        File("/c", b"3"),
    ]
    outside = [Problem("/a", "an absolute name", placed=False)] * 2
    plan = imported(workspace, store, source(*items, *outside), actor)
    assert memories(workspace, store) == {"/a": b"2", "/c": b"3"}
    assert plan.problems == [*outside, bad]


def test_each_item_without_room_is_told_and_the_first_paths_have_it(
    workspace: Workspace, store: Store, actor: Actor
) -> None:
    there = [f"/there/{number:04}" for number in range(MAX_MEMORIES - 3)]
    imported(workspace, store, files(*there), actor)
    plan = plan_import(workspace, store.id, files("/e", "/d", "/c/below", "/c", "/b", "/a", there[0]))
    assert plan.created == ["/a", "/b", "/c"]
    assert plan.unchanged == 1
    assert list(reasons(plan)) == ["/c/below", "/d", "/e"]
    for path in ("/d", "/e"):
        assert reasons(plan)[path] == "the store has no room for it: it holds at most 2000 memories"
    assert "/c is imported" in reasons(plan)["/c/below"]
    apply_import(workspace, plan, files("/a", "/b", "/c"), actor)
    assert len(memories(workspace, store)) == MAX_MEMORIES


def test_a_full_store_takes_changes_of_what_is_there(workspace: Workspace, store: Store, actor: Actor) -> None:
    there = [f"/{number:04}" for number in range(MAX_MEMORIES)]
    plan = imported(workspace, store, files(*there, "/new"), actor)
    assert len(plan.created) == MAX_MEMORIES
    assert list(reasons(plan)) == ["/new"]
    changed = imported(workspace, store, source(File("/0000", b"changed"), File("/new", b"")), actor)
    assert (changed.created, changed.modified, list(reasons(changed))) == ([], ["/0000"], ["/new"])


def test_content_at_the_limits(workspace: Workspace, store: Store, actor: Actor) -> None:
    largest = File("/largest", "é".encode() * (MAX_CONTENT_BYTES // 2))
    plan = imported(
        workspace, store, source(largest, File("/larger", largest.content + b"x"), File("/cut", b"\xc3")), actor
    )
    assert plan.created == ["/largest"]
    assert {path: reason.split(":")[0] for path, reason in reasons(plan).items()} == {
        "/cut": "the content is not UTF-8 text (byte 0xc3 at offset 0)",
        "/larger": "the content has 102401 bytes, and a memory at most 102400",
    }


def test_guards_judge_each_item(workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.stores.set_guards(store.id, Guards(max_content_bytes=10, allowed_paths=("/notes/**", "/*.md")))
    items = [
        File("/notes/a/b", b"1234567890"),
        File("/notes/long", b"12345678901"),
        File("/x.md", b""),
        File("/x.txt", b""),
    ]
    plan = imported(workspace, store, source(*items), actor)
    assert plan.created == ["/notes/a/b", "/x.md"]
    assert list(reasons(plan)) == ["/notes/long", "/x.txt"]
    assert "allows 10 bytes" in reasons(plan)["/notes/long"]
    assert "allows no memory at /x.txt" in reasons(plan)["/x.txt"]


def test_a_guard_set_between_looking_and_taking_still_holds(workspace: Workspace, store: Store, actor: Actor) -> None:
    plan = plan_import(workspace, store.id, files("/a", "/b"))
    workspace.stores.set_guards(store.id, Guards(allowed_paths=("/a",)))
    with pytest.raises(WriteRefused):
        apply_import(workspace, plan, files("/a", "/b"), actor)
    assert memories(workspace, store) == {}


def test_what_a_guard_masks_is_stored_masked_and_is_then_unchanged(
    workspace: Workspace, store: Store, actor: Actor
) -> None:
    workspace.stores.set_guards(store.id, Guards(personal_data="mask"))
    mail = source(File("/a", b"write to ada.lovelace@analytical-engines.co.uk today\n"))
    assert imported(workspace, store, mail, actor).created == ["/a"]
    content = memories(workspace, store)["/a"]
    assert content is not None
    assert b"ada.lovelace" not in content
    assert content.startswith(b"write to ")
    again = imported(workspace, store, mail, actor)
    assert (again.modified, again.unchanged) == ([], 1)
    assert len(workspace.versions.list(store.id)) == 1


def test_memories_made_between_looking_and_taking_are_a_conflict(
    workspace: Workspace, store: Store, actor: Actor
) -> None:
    plan = plan_import(workspace, store.id, files("/a", "/b"))
    workspace.memories.create(store.id, "/a/below", b"", actor)
    with pytest.raises(PathConflict):
        apply_import(workspace, plan, files("/a", "/b"), actor)
    imported(workspace, store, files(*(f"/{number:04}" for number in range(MAX_MEMORIES - 1))), actor)
    with pytest.raises(StoreFull):
        apply_import(workspace, plan_of("/y", workspace, store), files("/y"), actor)
    assert "/b" not in memories(workspace, store)


def plan_of(path: str, workspace: Workspace, store: Store) -> ImportPlan:
    """A plan that was made while there was room."""
    plan = plan_import(workspace, workspace.stores.create("Empty").id, files(path))
    return ImportPlan(store.id, plan.created, [], 0, [], {}, plan.wanted)


names = st.sampled_from(["a", "b", "a.b", "ab"])
paths = st.lists(names, min_size=1, max_size=3).map(lambda segments: "/" + "/".join(segments))


@settings(deadline=None)  # a busy machine's disk takes its time
@given(there=st.lists(paths, unique=True, max_size=4), given_paths=st.lists(paths, max_size=8))
def test_whatever_is_there_a_plan_can_be_carried_out(
    tmp_path_factory: pytest.TempPathFactory, there: list[str], given_paths: list[str]
) -> None:
    """The plan foresees every conflict, and skips nothing that has none."""
    actor = Actor("user_actor", "alice")
    db = tmp_path_factory.mktemp("plan") / "memfs.db"
    with Workspace.open(Path(db), create=True) as workspace:
        store = workspace.stores.create("x")
        imported(workspace, store, files(*there), actor)
        before = memories(workspace, store)
        plan = imported(workspace, store, source(*(File(path, b"new") for path in given_paths)), actor)
        after = memories(workspace, store)
    assert set(plan.created) | set(plan.modified) | set(reasons(plan)) == set(given_paths)
    assert after == before | dict.fromkeys([*plan.created, *plan.modified], b"new")
    for path in reasons(plan):
        below = [other for other in after if path in ancestors(other)]
        assert below or set(ancestors(path)) & after.keys(), path
