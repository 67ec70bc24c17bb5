"""What every engine must do (``memfs.engine.protocol``). A new engine is one line in ``tests/engine/engines.py``."""

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memfs.engine import Engine, Limits, VersionFilter
from memfs.model import ids
from memfs.model.errors import MemfsError, NotFound, PathConflict, PreconditionFailed, StoreArchived, StoreFull
from memfs.model.mutations import (
    Applied,
    Create,
    Delete,
    DropDirectory,
    KeepDirectory,
    MoveDirectory,
    Mutation,
    SetAttributes,
    Update,
)
from memfs.model.paths import ancestors
from memfs.model.records import (
    MAX_MEMORIES,
    Attachment,
    Changes,
    FileAttributes,
    Head,
    Memory,
    MemoryVersion,
    Session,
    Store,
    now,
)
from tests.engine.harness import (
    AGENT,
    ALICE,
    apply,
    comparable,
    create,
    follow,
    history,
    new_store,
    paths,
    state,
)
from tests.processes import finish, python, tell

# One memory


def test_a_created_memory_is_live_with_one_version(engine: Engine, store_id: str) -> None:
    content = "é\r\n\0".encode()
    memory_id = ids.new_id(ids.MEMORY)
    applied = apply(engine, store_id, Create(memory_id, "/a/b.md", content), actor=AGENT)
    memory = engine.memory(store_id, memory_id)
    digest = sha256(content).hexdigest()
    (version,) = history(engine, store_id)
    assert memory == Memory(
        memory_id, store_id, version.id, "/a/b.md", 5, digest, version.created_at, version.created_at, content
    )
    assert version == MemoryVersion(
        version.id,
        store_id,
        memory_id,
        version.sequence,
        "created",
        "/a/b.md",
        5,
        digest,
        memory.created_at,
        AGENT,
        content=content,
    )
    head = Head(memory_id, version.id, "/a/b.md", 5, digest, memory.updated_at, FileAttributes())
    assert applied.heads == {memory_id: head}
    assert engine.snapshot(store_id).heads == [head]
    assert engine.memory_at(store_id, "/a/b.md") == memory
    assert engine.content(version.id) == content
    assert engine.version(version.memory_store_id, version.id) == version


def test_an_update_moves_the_head_and_keeps_the_old_version(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"one")
    before = engine.memory(store_id, memory_id)
    apply(engine, store_id, Update(memory_id, content=b"two"), actor=AGENT)
    after = engine.memory(store_id, memory_id)
    first, second = history(engine, store_id, memory_id)
    assert (first.operation, first.content, first.created_by) == ("created", b"one", ALICE)
    assert (second.operation, second.content, second.created_by) == ("modified", b"two", AGENT)
    assert after.memory_version_id == second.id
    assert after.created_at == before.created_at
    assert after.updated_at == second.created_at > before.updated_at
    assert engine.content(first.id) == b"one"


def test_a_delete_leaves_the_history(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"one")
    applied = apply(engine, store_id, Delete(memory_id))
    assert applied.heads == {memory_id: None}
    assert engine.snapshot(store_id).heads == []
    with pytest.raises(NotFound):
        engine.memory(store_id, memory_id)
    with pytest.raises(NotFound):
        engine.memory_at(store_id, "/a")
    first, last = history(engine, store_id, memory_id)
    assert (last.operation, last.path) == ("deleted", "/a")
    assert (last.content, last.content_size_bytes, last.content_sha256) == (None, None, None)
    assert engine.content(first.id) == b"one"
    with pytest.raises(NotFound):
        engine.content(last.id)
    with pytest.raises(NotFound):
        apply(engine, store_id, Update(memory_id, content=b"two"))


def test_a_rename_keeps_the_id_and_the_content(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"one")
    apply(engine, store_id, Update(memory_id, path="/b/c"))
    memory = engine.memory_at(store_id, "/b/c")
    assert (memory.id, memory.content) == (memory_id, b"one")
    assert [(v.operation, v.path, v.content) for v in history(engine, store_id)] == [
        ("created", "/a", b"one"),
        ("modified", "/b/c", b"one"),
    ]


@pytest.mark.parametrize("content, path", [(b"one", None), (None, "/a"), (b"one", "/a"), (None, None)])
def test_an_update_that_changes_nothing_makes_no_version(
    engine: Engine, store_id: str, content: bytes | None, path: str | None
) -> None:
    memory_id = create(engine, store_id, "/a", b"one")
    before = state(engine, store_id)
    applied = apply(engine, store_id, Update(memory_id, content=content, path=path))
    assert state(engine, store_id) == before
    assert applied == Applied(before[0].sequence, before[0].sequence, {memory_id: before[0].heads[0]})


def test_a_path_is_free_again_after_its_memory_is_gone(engine: Engine, store_id: str) -> None:
    old = create(engine, store_id, "/a", b"old")
    apply(engine, store_id, Delete(old))
    assert engine.memory_id_for(store_id, "/a") == old
    new = create(engine, store_id, "/a", b"new")
    assert engine.memory_id_for(store_id, "/a") == new
    assert [v.content for v in history(engine, store_id, old)] == [b"old", None]
    assert [v.content for v in history(engine, store_id, new)] == [b"new"]


def test_a_memory_is_found_by_its_present_then_by_its_last_former_path(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a")
    apply(engine, store_id, Update(memory_id, path="/b"))
    assert engine.memory_id_for(store_id, "/b") == memory_id
    assert engine.memory_id_for(store_id, "/a") == memory_id
    assert engine.memory_id_for(store_id, memory_id) == memory_id
    assert engine.memory_id_for(store_id, "/never") is None
    assert engine.memory_id_for(store_id, ids.new_id(ids.MEMORY)) is None
    assert engine.memory_id_for(new_store(engine), memory_id) is None


# Batches


def test_a_batch_is_applied_as_a_whole_or_not_at_all(engine: Engine, store_id: str) -> None:
    kept, gone = create(engine, store_id, "/kept", b"1"), create(engine, store_id, "/gone", b"2")
    before = state(engine, store_id)
    with pytest.raises(PathConflict):
        apply(
            engine,
            store_id,
            Update(kept, content=b"changed"),
            Delete(gone),
            KeepDirectory("/made"),
            SetAttributes(kept, FileAttributes(mode=0o600)),
            Create(ids.new_id(ids.MEMORY), "/new", b"3"),
            Create(ids.new_id(ids.MEMORY), "/kept", b"4"),
        )
    assert state(engine, store_id) == before


def test_an_empty_batch_changes_nothing(engine: Engine, store_id: str) -> None:
    before = state(engine, store_id)
    assert apply(engine, store_id) == Applied(before[0].sequence, before[0].sequence, {})
    assert state(engine, store_id) == before


def test_two_names_are_exchanged_in_one_batch(engine: Engine, store_id: str) -> None:
    a, b = create(engine, store_id, "/a", b"a"), create(engine, store_id, "/d/b", b"b")
    apply(engine, store_id, Update(a, path="/d/b"), Update(b, path="/a"))
    assert paths(engine, store_id) == {"/a": b, "/d/b": a}


def test_names_are_passed_on_in_a_circle(engine: Engine, store_id: str) -> None:
    made = [create(engine, store_id, f"/{name}", name.encode()) for name in "abc"]
    apply(engine, store_id, *(Update(made[i], path=f"/{'abc'[(i + 1) % 3]}") for i in range(3)))
    assert paths(engine, store_id) == {"/b": made[0], "/c": made[1], "/a": made[2]}


def test_an_atomic_save_continues_the_targets_history(engine: Engine, store_id: str) -> None:
    """An editor's rename of a new file over a memory (DESIGN.md 4)."""
    target, source = create(engine, store_id, "/a", b"old"), create(engine, store_id, "/a.new", b"new")
    apply(engine, store_id, Delete(source), Update(target, content=b"new"))
    assert paths(engine, store_id) == {"/a": target}
    assert [(v.operation, v.content) for v in history(engine, store_id, target)] == [
        ("created", b"old"),
        ("modified", b"new"),
    ]
    assert [v.operation for v in history(engine, store_id, source)] == ["created", "deleted"]


def test_a_path_is_handed_over_in_one_batch(engine: Engine, store_id: str) -> None:
    old, other = create(engine, store_id, "/a", b"old"), create(engine, store_id, "/b", b"b")
    new = ids.new_id(ids.MEMORY)
    # In whatever order: what goes or moves makes room first.
    apply(engine, store_id, Create(new, "/b", b"new"), Update(other, path="/a"), Delete(old))
    assert paths(engine, store_id) == {"/a": other, "/b": new}


def test_a_directory_moves_with_everything_in_it(engine: Engine, store_id: str) -> None:
    inside = {path: create(engine, store_id, f"/d{path}") for path in ("/a", "/b_%/c", "/b_%/d")}
    beside = create(engine, store_id, "/d.md")
    apply(engine, store_id, KeepDirectory("/d", FileAttributes(mode=0o750)), KeepDirectory("/d/empty/deep"))
    apply(engine, store_id, KeepDirectory("/dx"))
    apply(
        engine,
        store_id,
        MoveDirectory("/d", "/e/f"),
        *(Update(memory_id, path=f"/e/f{path}") for path, memory_id in inside.items()),
    )
    assert paths(engine, store_id) == {f"/e/f{path}": memory_id for path, memory_id in inside.items()} | {
        "/d.md": beside
    }
    directories = engine.snapshot(store_id).directories
    assert [directory.path for directory in directories] == ["/dx", "/e/f", "/e/f/empty/deep"]
    assert directories[1].attributes.mode == 0o750
    assert len({v.created_at for v in history(engine, store_id) if v.operation == "modified"}) == 1


def test_a_directory_moves_below_what_had_its_name(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a/x")
    apply(engine, store_id, KeepDirectory("/a"))
    apply(engine, store_id, MoveDirectory("/a", "/b/a"), Update(memory_id, path="/b/a/x"))
    assert paths(engine, store_id) == {"/b/a/x": memory_id}
    assert [directory.path for directory in engine.snapshot(store_id).directories] == ["/b/a"]


def test_two_directories_are_exchanged(engine: Engine, store_id: str) -> None:
    x, y = create(engine, store_id, "/a/x"), create(engine, store_id, "/b/y")
    apply(engine, store_id, KeepDirectory("/a/1"), KeepDirectory("/b/2"))
    apply(
        engine,
        store_id,
        MoveDirectory("/a", "/b"),
        MoveDirectory("/b", "/a"),
        Update(x, path="/b/x"),
        Update(y, path="/a/y"),
    )
    assert paths(engine, store_id) == {"/b/x": x, "/a/y": y}
    assert [directory.path for directory in engine.snapshot(store_id).directories] == ["/a/2", "/b/1"]


# Conflicts of paths

CONFLICTS = [
    ("/a", "/a"),
    ("/a", "/a/b"),
    ("/a", "/a/b/c"),
    ("/a/b", "/a"),
    ("/a/b/c", "/a"),
    ("/a/b/c", "/a/b"),
    ("/a_%", "/a_%/b"),
    ("/a_%/b", "/a_%"),
    ("/é", "/é/b"),
    ("/a/\U0010ffff", "/a"),
    ("/a/ ", "/a"),
]
NO_CONFLICTS = [
    ("/a", "/A"),
    ("/a", "/a.md"),
    ("/a", "/a "),
    ("/a/b", "/a-b"),
    ("/a/b", "/a0"),
    ("/a0", "/a"),
    ("/a-b/c", "/a"),
    ("/a.b/c", "/a"),
    ("/axb/c", "/a_b"),
    ("/a_b", "/axb/c"),
    ("/a_b/c", "/axb"),
    ("/axxb/c", "/a%b"),
    ("/a%b", "/axxb/c"),
    ("/%", "/a"),
    ("/_/x", "/a"),
    ("/a/b/c", "/a/b-c"),
    ("/ab/c", "/a"),
]


@pytest.mark.parametrize("used, wanted", CONFLICTS)
def test_a_path_on_above_or_below_a_used_one_is_refused(engine: Engine, store_id: str, used: str, wanted: str) -> None:
    there = create(engine, store_id, used)
    mover = create(engine, store_id, "/mover")
    before = state(engine, store_id)
    for mutation in (Create(ids.new_id(ids.MEMORY), wanted, b""), Update(mover, path=wanted)):
        with pytest.raises(PathConflict) as raised:
            apply(engine, store_id, mutation)
        assert raised.value.conflicting_memory_id == there
        assert raised.value.conflicting_path == used
    assert state(engine, store_id) == before


@pytest.mark.parametrize("used, wanted", NO_CONFLICTS)
def test_a_path_that_only_looks_alike_is_not(engine: Engine, store_id: str, used: str, wanted: str) -> None:
    there = create(engine, store_id, used)
    new = create(engine, store_id, wanted)
    assert paths(engine, store_id) == {used: there, wanted: new}
    apply(engine, store_id, Delete(new))
    mover = create(engine, store_id, "/mover")
    apply(engine, store_id, Update(mover, path=wanted))
    assert paths(engine, store_id) == {used: there, wanted: mover}


def test_two_new_memories_of_one_batch_conflict_too(engine: Engine, store_id: str) -> None:
    before = state(engine, store_id)
    with pytest.raises(PathConflict):
        apply(engine, store_id, Create(ids.new_id(ids.MEMORY), "/a/b", b""), Create(ids.new_id(ids.MEMORY), "/a", b""))
    assert state(engine, store_id) == before


def test_a_memory_can_move_to_where_its_directory_was(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a/b")
    apply(engine, store_id, Update(memory_id, path="/a"))
    assert paths(engine, store_id) == {"/a": memory_id}
    apply(engine, store_id, Update(memory_id, path="/a/b/c"))
    assert paths(engine, store_id) == {"/a/b/c": memory_id}


def test_stores_do_not_share_paths(engine: Engine, store_id: str) -> None:
    create(engine, store_id, "/a")
    create(engine, new_store(engine), "/a/b")


@pytest.mark.parametrize("directory", ["/a", "/a/b", "/a/b/c"])
def test_a_directory_cannot_be_kept_where_a_memory_is(engine: Engine, store_id: str, directory: str) -> None:
    memory_id = create(engine, store_id, "/a")
    apply(engine, store_id, KeepDirectory("/d"))
    before = state(engine, store_id)
    for mutation in (KeepDirectory(directory), MoveDirectory("/d", directory)):
        with pytest.raises(PathConflict) as raised:
            apply(engine, store_id, mutation)
        assert raised.value.conflicting_memory_id == memory_id
    assert state(engine, store_id) == before


def test_a_kept_directory_gives_way_to_a_memory(engine: Engine, store_id: str) -> None:
    apply(engine, store_id, KeepDirectory("/d"), KeepDirectory("/d/e"), KeepDirectory("/d_"))
    create(engine, store_id, "/d")
    assert [directory.path for directory in engine.snapshot(store_id).directories] == ["/d_"]
    apply(engine, store_id, KeepDirectory("/e"))
    before = engine.snapshot(store_id)
    mover = engine.memory_at(store_id, "/d").id
    apply(engine, store_id, Update(mover, path="/e"))
    changes = engine.changes(store_id, before.sequence)
    assert changes.directories is not None, "followers are told"
    assert [directory.path for directory in changes.directories] == ["/d_"]


# Preconditions


def test_an_expected_path_is_where_the_memory_still_is(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"one")
    apply(engine, store_id, Update(memory_id, path="/b", expected_path="/a"))
    create(engine, store_id, "/a", b"another")
    before = state(engine, store_id)
    for mutation in (Update(memory_id, content=b"two", expected_path="/a"), Delete(memory_id, expected_path="/a")):
        with pytest.raises(NotFound, match="is at /b, not at /a"):
            apply(engine, store_id, mutation)
    assert state(engine, store_id) == before
    apply(engine, store_id, Update(memory_id, content=b"two", expected_path="/b"))
    apply(engine, store_id, Delete(memory_id, expected_path="/b"))


def test_an_update_expects_a_version(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"one")
    (first,) = history(engine, store_id)
    apply(engine, store_id, Update(memory_id, content=b"two", expected_version=first.id))
    before = state(engine, store_id)
    for content in (b"three", b"two"):  # a version is expected to be the head, even where the text is the wanted one
        with pytest.raises(PreconditionFailed):
            apply(engine, store_id, Update(memory_id, content=content, expected_version=first.id))
    with pytest.raises(PreconditionFailed):
        apply(engine, store_id, Delete(memory_id, expected_version=first.id))
    assert state(engine, store_id) == before


def test_an_update_expects_a_hash(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"one")
    one, other = sha256(b"one").hexdigest(), sha256(b"other").hexdigest()
    before = state(engine, store_id)
    for mutation in (
        Update(memory_id, content=b"two", expected_sha256=other),
        Update(memory_id, path="/b", expected_sha256=other),
        Update(memory_id, content=b"one", path="/b", expected_sha256=other),
        Delete(memory_id, expected_sha256=other),
    ):
        with pytest.raises(PreconditionFailed):
            apply(engine, store_id, mutation)
    assert state(engine, store_id) == before
    apply(engine, store_id, Update(memory_id, content=b"two", path="/b", expected_sha256=one))
    assert engine.memory(store_id, memory_id).content == b"two"


def test_a_failed_hash_is_a_success_where_the_memory_already_is_as_wanted(engine: Engine, store_id: str) -> None:
    """CONTRACT.md 2: a client that retries after a lost answer must not see a conflict with itself."""
    memory_id = create(engine, store_id, "/a", b"two")
    other = sha256(b"one").hexdigest()
    before = state(engine, store_id)
    for mutation in (
        Update(memory_id, content=b"two", expected_sha256=other),
        Update(memory_id, content=b"two", path="/a", expected_sha256=other),
    ):
        assert apply(engine, store_id, mutation).heads == {memory_id: before[0].heads[0]}
    for mutation in (Update(memory_id, path="/a", expected_sha256=other), Update(memory_id, expected_sha256=other)):
        with pytest.raises(PreconditionFailed):  # no content is wanted, so none can be there already
            apply(engine, store_id, mutation)
    assert state(engine, store_id) == before


def test_a_failed_precondition_refuses_the_whole_batch(engine: Engine, store_id: str) -> None:
    one, two = create(engine, store_id, "/1", b"1"), create(engine, store_id, "/2", b"2")
    before = state(engine, store_id)
    with pytest.raises(PreconditionFailed):
        apply(engine, store_id, Update(one, content=b"x"), Update(two, content=b"y", expected_sha256="0" * 64))
    assert state(engine, store_id) == before


# Room


def test_a_store_is_full_at_exactly_2_000_memories(engine: Engine, store_id: str) -> None:
    made = [ids.new_id(ids.MEMORY) for _ in range(MAX_MEMORIES)]
    apply(engine, store_id, *(Create(made[i], f"/{i}", b"x") for i in range(MAX_MEMORIES - 1)))
    sequence = engine.snapshot(store_id).sequence
    with pytest.raises(StoreFull):
        apply(engine, store_id, Create(made[-1], "/last", b""), Create(ids.new_id(ids.MEMORY), "/one-too-many", b""))
    assert engine.snapshot(store_id).sequence == sequence
    apply(engine, store_id, Create(made[-1], "/last", b"x"))
    with pytest.raises(StoreFull):
        create(engine, store_id, "/one-too-many")
    assert len(engine.snapshot(store_id).heads) == MAX_MEMORIES
    # What is there can be changed, moved, and replaced one for one.
    apply(engine, store_id, Update(made[0], content=b"changed", path="/moved"))
    apply(engine, store_id, Delete(made[1]), Create(ids.new_id(ids.MEMORY), "/new", b"y"))
    assert len(engine.snapshot(store_id).heads) == MAX_MEMORIES
    apply(engine, store_id, Delete(made[2]))
    create(engine, store_id, "/room-again")
    create(engine, new_store(engine), "/another-store-has-room")


def test_the_number_of_kept_directories_is_limited(engine: Engine, store_id: str) -> None:
    def keep(*paths: str) -> None:
        engine.apply(store_id, [KeepDirectory(p) for p in paths], ALICE, limits=Limits(1, 2))

    keep("/a", "/b")
    keep("/a")  # is there already
    before = state(engine, store_id)
    with pytest.raises(StoreFull):
        keep("/c")
    after = state(engine, store_id)
    assert after == before


# File attributes and kept directories


def test_attributes_make_no_version_but_a_change(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a")
    before = state(engine, store_id)
    apply(engine, store_id, SetAttributes(memory_id, FileAttributes(mode=0o600, mtime_ns=5, inode=42)))
    apply(engine, store_id, SetAttributes(memory_id, FileAttributes(mtime_ns=-1)))
    attributes = FileAttributes(mode=0o600, mtime_ns=-1, inode=42)
    changes = engine.changes(store_id, before[0].sequence)
    head = changes.heads[memory_id]
    assert head is not None
    assert head.attributes == attributes
    assert engine.snapshot(store_id).heads == [head]
    assert history(engine, store_id) == before[1]


def test_new_content_ends_an_explicit_mtime_and_keeps_the_rest(engine: Engine, store_id: str) -> None:
    memory_id = ids.new_id(ids.MEMORY)
    apply(engine, store_id, Create(memory_id, "/a", b"one", FileAttributes(mode=0o600, mtime_ns=5, inode=42)))

    def attributes() -> FileAttributes:
        return engine.snapshot(store_id).heads[0].attributes

    assert attributes() == FileAttributes(0o600, 5, 42)
    apply(engine, store_id, Update(memory_id, path="/b"))
    apply(engine, store_id, Update(memory_id, content=b"one"))
    assert attributes() == FileAttributes(0o600, 5, 42)
    apply(engine, store_id, Update(memory_id, content=b"two"))
    assert attributes() == FileAttributes(0o600, None, 42)
    apply(engine, store_id, Update(memory_id, content=b"three", attributes=FileAttributes(mode=0o640, mtime_ns=7)))
    assert attributes() == FileAttributes(0o640, 7, 42)
    apply(engine, store_id, Update(memory_id, attributes=FileAttributes(mtime_ns=9)))
    assert attributes() == FileAttributes(0o640, 9, 42)
    assert len(history(engine, store_id)) == 4


def test_a_move_makes_no_text_younger(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a")
    (before,) = engine.snapshot(store_id).heads
    applied = apply(engine, store_id, Update(memory_id, path="/b"))
    (after,) = engine.snapshot(store_id).heads
    assert after == applied.heads[memory_id]
    assert after.mtime_ns() == before.mtime_ns()
    assert after.updated_at > before.updated_at


def test_directories_are_kept_and_dropped(engine: Engine, store_id: str) -> None:
    apply(engine, store_id, KeepDirectory("/b/c", FileAttributes(mode=0o700)), KeepDirectory("/a"))
    apply(engine, store_id, KeepDirectory("/b/c", FileAttributes(mtime_ns=3)))
    found = engine.snapshot(store_id).directories
    assert [(d.path, d.attributes) for d in found] == [
        ("/a", FileAttributes()),
        ("/b/c", FileAttributes(mode=0o700, mtime_ns=3)),
    ]
    create(engine, store_id, "/b/c/x")
    apply(engine, store_id, DropDirectory("/b/c"), DropDirectory("/never"))
    assert [d.path for d in engine.snapshot(store_id).directories] == ["/a"]
    assert [v.path for v in history(engine, store_id)] == ["/b/c/x"]


# History


def test_history_is_append_only_and_in_order(engine: Engine, store_id: str) -> None:
    seen: list[MemoryVersion] = []
    memory_id = create(engine, store_id, "/a", b"0")
    for step in range(1, 20):
        apply(engine, store_id, Update(memory_id, content=str(step).encode(), path=f"/{step % 3}"))
        versions = history(engine, store_id)
        assert versions[: len(seen)] == seen
        assert len(versions) == step + 1
        seen = versions
    assert [v.id for v in seen] == sorted({v.id for v in seen})
    assert [v.sequence for v in seen] == sorted({v.sequence for v in seen})
    assert [v.created_at for v in seen] == sorted(v.created_at for v in seen)
    assert engine.memory(store_id, memory_id).memory_version_id == seen[-1].id


def test_history_is_paged_and_filtered(engine: Engine, store_id: str) -> None:
    a, b = create(engine, store_id, "/a", b"1"), create(engine, store_id, "/b", b"1")
    apply(engine, store_id, Update(a, content=b"2"), actor=AGENT)
    apply(engine, store_id, Delete(b), actor=AGENT)
    create(engine, new_store(engine), "/elsewhere")

    def listed(where: VersionFilter, limit: int | None = None, before: int | None = None) -> list[tuple[str, str]]:
        found = engine.versions(store_id, where, limit=limit, before=before, content=False)
        assert all(version.content is None for version in found)
        return [(version.memory_id, version.operation) for version in found]

    everything = [(b, "deleted"), (a, "modified"), (b, "created"), (a, "created")]
    assert listed(VersionFilter()) == everything
    assert listed(VersionFilter(), limit=3) == everything[:3]
    newest = engine.versions(store_id, VersionFilter(), limit=3, before=None, content=False)
    assert listed(VersionFilter(), before=newest[-1].sequence) == everything[3:]
    assert listed(VersionFilter(memory_id=b)) == [(b, "deleted"), (b, "created")]
    assert listed(VersionFilter(operation="created")) == [(b, "created"), (a, "created")]
    assert listed(VersionFilter(session_id=AGENT.id)) == everything[:2]
    assert listed(VersionFilter(session_id=AGENT.id, operation="deleted"), limit=1) == everything[:1]
    assert listed(VersionFilter(created_from=newest[1].created_at)) == everything[:2]
    assert listed(VersionFilter(created_to=newest[2].created_at)) == everything[2:]
    assert listed(VersionFilter(session_id="alice")) == []
    with pytest.raises(NotFound):
        engine.versions(ids.new_id(ids.MEMORY_STORE), VersionFilter(), limit=1, before=None, content=False)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_history_is_paged_from_its_beginning_too(engine: Engine, store_id: str, size: int) -> None:
    created = [create(engine, store_id, f"/{number}", str(number).encode()) for number in range(4)]
    for memory_id in created[:3]:
        apply(engine, store_id, Delete(memory_id), actor=AGENT)
    create(engine, new_store(engine), "/elsewhere")
    for where in (VersionFilter(), VersionFilter(operation="created"), VersionFilter(session_id=AGENT.id)):
        everything = engine.versions(store_id, where, limit=None, content=True)[::-1]
        seen: list[MemoryVersion] = []
        while True:
            after = seen[-1].sequence if seen else None
            page = engine.versions(store_id, where, limit=size, after=after, oldest_first=True, content=True)
            seen += page
            if len(page) < size:
                break
        assert seen == everything
        first, last = everything[0].sequence, everything[-1].sequence
        between = engine.versions(store_id, where, limit=None, after=first, before=last, oldest_first=True)
        assert [version.id for version in between] == [version.id for version in everything[1:-1]]


# Listing


def test_a_prefix_takes_whole_segments_and_plain_characters(engine: Engine, store_id: str) -> None:
    for path in ("/a_b/1", "/axb/2", "/a%/3", "/a%b/4", "/a_b.md", "/a_b/é/5", "/Z", "/a_b/B"):
        create(engine, store_id, path, path.encode())

    def listed(prefix: str) -> list[str]:
        return [memory.path for memory in engine.memories(store_id, prefix, content=False)]

    assert listed("/a_b/") == ["/a_b/1", "/a_b/B", "/a_b/é/5"]
    assert listed("/a%/") == ["/a%/3"]
    assert listed("/a/") == []
    everything = listed("/")
    assert everything == sorted(everything, key=str.encode)
    assert len(everything) == 8
    assert all(memory.content is None for memory in engine.memories(store_id, "/", content=False))
    assert all(memory.content == memory.path.encode() for memory in engine.memories(store_id, "/", content=True))


# Stores


def test_stores_are_listed_oldest_first_with_all_their_fields(engine: Engine) -> None:
    made = [
        Store(ids.new_id(ids.MEMORY_STORE), name, "for é\n", {"k é": "v\n"}, now(), now())
        for name in ("Zebra", "Apple", "Zebra")
    ]
    for store in made:
        engine.insert_store(store)
    assert engine.stores(include_archived=False) == made
    assert [engine.store(store.id) for store in made] == made


def test_an_archived_store_refuses_changes_and_can_be_read(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"one")
    before = engine.snapshot(store_id)
    at = now()
    archived = engine.update_store(store_id, lambda store: replace(store, archived_at=at, updated_at=at))
    assert (archived.archived_at, archived.updated_at) == (at, at)
    for mutation in (
        Create(ids.new_id(ids.MEMORY), "/b", b""),
        Update(memory_id, content=b"two"),
        Delete(memory_id),
        KeepDirectory("/d"),
        SetAttributes(memory_id, FileAttributes(mode=0o600)),
    ):
        with pytest.raises(StoreArchived):
            apply(engine, store_id, mutation)
    assert engine.memory(store_id, memory_id).content == b"one"
    assert len(history(engine, store_id)) == 1
    changes = engine.changes(store_id, before.sequence)
    assert (changes.store, changes.heads, changes.directories) == (archived, {}, None)
    assert engine.stores(include_archived=False) == []
    assert engine.stores(include_archived=True) == [archived]


def test_what_is_not_there_is_not_found(engine: Engine, store_id: str) -> None:
    no_store, no_memory = ids.new_id(ids.MEMORY_STORE), ids.new_id(ids.MEMORY)
    elsewhere = new_store(engine, "Elsewhere")
    memory_id = create(engine, elsewhere, "/a")
    missing: list[Callable[[], object]] = [
        lambda: engine.store(no_store),
        lambda: engine.update_store(no_store, lambda store: store),
        lambda: engine.snapshot(no_store),
        lambda: engine.memories(no_store, "/", content=False),
        lambda: engine.memory(no_store, memory_id),
        lambda: engine.memory_at(no_store, "/a"),
        lambda: engine.memory_id_for(no_store, "/a"),
        lambda: apply(engine, no_store),
        lambda: engine.changes(no_store, 0),
        lambda: engine.version(store_id, ids.new_id(ids.MEMORY_VERSION)),
        lambda: engine.content(ids.new_id(ids.MEMORY_VERSION)),
        lambda: engine.session(ids.new_id(ids.SESSION)),
        lambda: engine.memory_at(store_id, "/never"),
    ]
    for other in (no_memory, memory_id):  # a memory of another store is not there either
        missing += [
            partial(engine.memory, store_id, other),
            partial(apply, engine, store_id, Update(other, content=b"x")),
            partial(apply, engine, store_id, Delete(other)),
            partial(apply, engine, store_id, SetAttributes(other, FileAttributes(mode=1))),
        ]
    for ask in missing:
        with pytest.raises(NotFound):
            ask()
    assert engine.memory(elsewhere, memory_id).content == b"text\n"


# Sessions


def test_a_session_keeps_its_attachments_in_order(engine: Engine) -> None:
    made = Session(
        ids.new_id(ids.SESSION),
        now(),
        tuple(
            Attachment(ids.new_id(ids.MEMORY_STORE), access, f"Name {access}", "é", f"/mnt/memory/{access}", "Do.")
            for access in ("read_write", "read_only", "read_write")
        ),
    )
    engine.insert_session(made)
    assert engine.session(made.id) == made
    at = now()
    engine.end_session(made.id, at)
    engine.end_session(made.id, now())
    assert engine.session(made.id) == Session(made.id, made.created_at, made.attachments, at)


# Following


def test_a_batch_tells_which_numbers_its_changes_have(engine: Engine, store_id: str) -> None:
    before = engine.snapshot(store_id).sequence
    one, two = ids.new_id(ids.MEMORY), ids.new_id(ids.MEMORY)
    applied = apply(engine, store_id, Create(one, "/1", b"1"), Create(two, "/2", b"2"), KeepDirectory("/d"))
    assert applied.previous == before
    assert applied.sequence == engine.snapshot(store_id).sequence == engine.changes(store_id, before).sequence
    assert engine.changes(store_id, applied.previous).heads == applied.heads
    assert engine.changes(store_id, applied.sequence) == Changes(applied.sequence, {}, None, None)
    create(engine, new_store(engine), "/elsewhere")
    later = apply(engine, store_id, Delete(one))
    assert later.previous > applied.sequence, "another store's changes lie between"


def test_any_commit_by_anyone_changes_the_data_version(reopen: Callable[[], Engine]) -> None:
    with closing(reopen()) as engine, closing(reopen()) as other:
        store_id = new_store(engine)
        for writer in (engine, other):
            before = engine.data_version(), other.data_version()
            create(writer, store_id, f"/{id(writer)}")
            after = engine.data_version(), other.data_version()
            assert before[0] != after[0]
            assert before[1] != after[1]
            engine.snapshot(store_id)
            other.memories(store_id, "/", content=True)
            assert (engine.data_version(), other.data_version()) == after, "reading changes nothing"


# Few, so that they meet often.
PATHS = ["/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a", "/a_", "/a%/a"]
some_path = st.sampled_from(PATHS)
some_content = st.sampled_from([b"", b"one\n", b"two\n"])
some_attributes = st.builds(
    FileAttributes,
    mode=st.none() | st.sampled_from([0o600, 0o644]),
    mtime_ns=st.none() | st.integers(0, 3),
)
# A memory is drawn as a number, and means that one of those made so far; so that later batches hit earlier memories.
some_memory = st.integers(0, 5)
some_mutation = st.one_of(
    st.builds(lambda path, content, a: ("create", path, content, a), some_path, some_content, some_attributes),
    st.builds(lambda which, content, a: ("content", which, content, a), some_memory, some_content, some_attributes),
    st.builds(lambda which, path: ("move", which, path), some_memory, some_path),
    st.builds(lambda which, path, content: ("both", which, path, content), some_memory, some_path, some_content),
    st.builds(lambda which: ("delete", which), some_memory),
    st.builds(lambda which, a: ("attributes", which, a), some_memory, some_attributes),
    st.builds(lambda path, a: ("keep", path, a), some_path, some_attributes),
    st.builds(lambda path: ("drop", path), some_path),
    st.builds(lambda path, new: ("movedir", path, new), some_path, some_path),
)


def build(drawn: Sequence[tuple[Any, ...]], made: list[str]) -> list[Mutation]:
    """Turn what was drawn into a batch in which each memory is changed by one mutation at most."""
    batch: list[Mutation] = []
    used: set[str] = set()
    for kind, *fields in drawn:
        if kind in ("content", "move", "both", "delete", "attributes"):
            if fields[0] >= len(made):
                continue
            memory_id = made[-1 - fields[0]]
            if memory_id in used:
                continue
            used.add(memory_id)
        match kind, fields:
            case "create", [path, content, attributes]:
                made.append(ids.new_id(ids.MEMORY))
                used.add(made[-1])
                batch.append(Create(made[-1], path, content, attributes))
            case "content", [_, content, attributes]:
                batch.append(Update(memory_id, content=content, attributes=attributes))
            case "move", [_, path]:
                batch.append(Update(memory_id, path=path))
            case "both", [_, path, content]:
                batch.append(Update(memory_id, content=content, path=path))
            case "delete", _:
                batch.append(Delete(memory_id))
            case "attributes", [_, attributes]:
                batch.append(SetAttributes(memory_id, attributes))
            case "keep", [path, attributes]:
                batch.append(KeepDirectory(path, attributes))
            case "drop", [path]:
                batch.append(DropDirectory(path))
            case "movedir", [path, new_path]:
                batch.append(MoveDirectory(path, new_path))
    return batch


def check_invariants(engine: Engine, store_id: str) -> None:
    """What must hold after any batch: of paths, of heads and their versions, of the history."""
    snapshot = engine.snapshot(store_id)
    used = [head.path for head in snapshot.heads]
    assert len(set(used)) == len(used)
    directories = {above for path in used for above in ancestors(path)}
    kept = [directory.path for directory in snapshot.directories]
    directories.update(kept, *(ancestors(path) for path in kept))
    assert not directories & set(used), "a memory is where a directory is"
    versions = history(engine, store_id)
    newest = {version.memory_id: version for version in versions}
    assert {head.memory_id for head in snapshot.heads} == {
        memory_id for memory_id, version in newest.items() if version.operation != "deleted"
    }
    for head in snapshot.heads:
        version = newest[head.memory_id]
        assert (head.version_id, head.path, head.size, head.sha256, head.updated_at) == (
            version.id,
            version.path,
            version.content_size_bytes,
            version.content_sha256,
            version.created_at,
        )
        assert version.content is not None
        assert sha256(version.content).hexdigest() == head.sha256
        assert len(version.content) == head.size
    for memory_id in newest:
        own = [version for version in versions if version.memory_id == memory_id]
        operations = [version.operation for version in own]
        assert operations[0] == "created"
        assert set(operations[1:-1]) <= {"modified"}
        for older, newer in pairwise(own):
            assert (older.path, older.content) != (newer.path, newer.content), "a version that changed nothing"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.tuples(st.lists(some_mutation, min_size=1, max_size=5), st.booleans()), max_size=12),
)
def test_a_mirror_fed_with_changes_equals_the_snapshot(
    engine: Engine, batches: list[tuple[list[tuple[Any, ...]], bool]]
) -> None:
    store_id, elsewhere = new_store(engine), new_store(engine)
    mirror = engine.snapshot(store_id)
    made: list[str] = []
    for step, (drawn, follows) in enumerate(batches):
        batch = build(drawn, made)
        before = state(engine, store_id)
        try:
            applied = apply(engine, store_id, *batch, room=6)
        except MemfsError:
            assert state(engine, store_id) == before, "a refused batch changed something"
        else:
            after = engine.snapshot(store_id)
            assert applied.sequence == after.sequence
            heads = {head.memory_id: head for head in after.heads}
            assert applied.heads == {memory_id: heads.get(memory_id) for memory_id in applied.heads}
            if mirror.sequence == applied.previous:
                # What the batch reports is what a follower would have read.
                assert engine.changes(store_id, applied.previous).heads.items() <= applied.heads.items()
        check_invariants(engine, store_id)
        if len(made) % 3 == 0:  # other stores change too, in between
            create(engine, elsewhere, f"/{step}", b"")
        if follows:
            mirror = follow(mirror, engine.changes(store_id, mirror.sequence))
            assert comparable(mirror) == comparable(engine.snapshot(store_id))
    mirror = follow(mirror, engine.changes(store_id, mirror.sequence))
    assert comparable(mirror) == comparable(engine.snapshot(store_id))


# Several at once


def test_two_processes_that_write_at_once_lose_nothing(
    request: pytest.FixtureRequest, reopen: Callable[[], Engine], tmp_path: Path
) -> None:
    """Each adds its own memories, and adds to one that both change, repeating what a precondition refused."""
    rounds = 40
    code = """
import sys
from pathlib import Path
from memfs.engine import Limits
from memfs.model import ids
from memfs.model.errors import PreconditionFailed
from memfs.model.mutations import Create, Update
from memfs.model.records import Actor
from tests.engine.engines import ENGINES

kind, directory, store_id, name, rounds = sys.argv[1:]
engine, actor = ENGINES[kind](Path(directory)), Actor("user_actor", name)
sys.stdin.readline()
for step in range(int(rounds)):
    while True:
        shared = engine.memory_at(store_id, "/shared")
        batch = [
            Create(ids.new_id(ids.MEMORY), f"/{name}/{step}", name.encode()),
            Update(shared.id, content=shared.content + f"{name} {step}\\n".encode(),
                   expected_version=shared.memory_version_id),
        ]
        try:
            engine.apply(store_id, batch, actor, limits=Limits(2000, 10))
            break
        except PreconditionFailed:
            pass
engine.close()
"""
    with closing(reopen()) as engine:
        store_id = new_store(engine)
        shared = create(engine, store_id, "/shared", b"")
        kind = request.node.callspec.params["reopen"]
        arguments = [kind, tmp_path, store_id]
        with python(code, *arguments, "one", str(rounds)) as one, python(code, *arguments, "two", str(rounds)) as two:
            tell(one)
            tell(two)
            finish(one)
            finish(two)
        lines = (engine.memory(store_id, shared).content or b"").decode().splitlines()
        assert sorted(lines) == sorted(f"{name} {step}" for name in ("one", "two") for step in range(rounds))
        assert [line for line in lines if line.startswith("one")] == [f"one {step}" for step in range(rounds)]
        assert len(engine.memories(store_id, "/one/", content=False)) == rounds
        assert len(engine.memories(store_id, "/two/", content=False)) == rounds
        check_invariants(engine, store_id)
        versions = history(engine, store_id)
        assert len(versions) == 1 + 4 * rounds
        assert [v.id for v in versions] == sorted(v.id for v in versions), "ids keep their order between processes"


def test_threads_read_and_write_one_engine_at_once(engine: Engine, store_id: str) -> None:
    """A reader never sees half a batch: two memories that are always changed together are always equal."""
    one, two = create(engine, store_id, "/1", b"0"), create(engine, store_id, "/2", b"0")
    failures: list[BaseException] = []
    done = threading.Event()

    def write() -> None:
        try:
            for step in range(1, 60):
                content = str(step).encode()
                apply(engine, store_id, Update(one, content=content), Update(two, content=content))
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    def read() -> None:
        try:
            while not done.is_set():
                assert len({memory.content for memory in engine.memories(store_id, "/", content=True)}) == 1
                assert len({head.sha256 for head in engine.snapshot(store_id).heads}) == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write), threading.Thread(target=read), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert engine.memory(store_id, one).content == b"59"


def test_closing_twice_is_safe(reopen: Callable[[], Engine]) -> None:
    engine = reopen()
    store_id = new_store(engine)
    engine.sync()
    engine.close()
    engine.close()
    with closing(reopen()) as again:
        assert again.store(store_id).name == "Notes"
