"""What every engine must do beyond single batches: stores that change and go, pages, reads, and what is done to the
history. The other half of the contract suite.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from memfs.engine import Engine, Limits, VersionFilter
from memfs.model import ids
from memfs.model.errors import (
    InvalidRequest,
    MemfsError,
    NotFound,
    PathConflict,
    PreconditionFailed,
    StoreArchived,
    StoreFull,
    VersionInUse,
)
from memfs.model.mutations import Create, Delete, KeepDirectory, Mutation, SetAttributes, Update
from memfs.model.records import (
    Actor,
    Attachment,
    Changes,
    FileAttributes,
    Guards,
    Memory,
    MemoryPrefix,
    MemoryVersion,
    Operation,
    Session,
    Settings,
    Store,
    format_time,
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
from tests.processes import finish, hear, python, tell

LIMITS = Limits(2_000, 4_000)
BOB = Actor("user_actor", "bob")
NEVER, ALWAYS = "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"
"""Times before and after everything."""


def later(text: str, **span: float) -> str:
    """A time after another."""
    return format_time(datetime.fromisoformat(text) + timedelta(**span))


def write(engine: Engine, store_id: str, memory_id: str, *contents: bytes) -> None:
    """Give a memory one content after the other."""
    for content in contents:
        apply(engine, store_id, Update(memory_id, content=content))


def outline(versions: list[MemoryVersion]) -> list[tuple[str, bytes | None]]:
    return [(version.operation, version.content) for version in versions]


# Stores that change


def test_a_store_is_updated_in_every_field(engine: Engine, store_id: str) -> None:
    guards = Guards("mask", "reject", 10, ("/é/**", "/b"))
    before = engine.snapshot(store_id)

    def change(store: Store) -> Store:
        return replace(
            store, name="é", description="d\n", metadata={"k": "é"}, updated_at=ALWAYS, archived_at=NEVER, guards=guards
        )

    updated = engine.update_store(store_id, change)
    assert updated == change(before.store) == engine.store(store_id) == engine.snapshot(store_id).store
    assert engine.changes(store_id, before.sequence).store == updated
    assert engine.stores(include_archived=True) == [updated]


def test_an_equal_store_is_not_written(engine: Engine, store_id: str, reopen: Callable[[], Engine]) -> None:
    before = engine.snapshot(store_id)
    with closing(reopen()) as other:
        version = other.data_version()
        assert engine.update_store(store_id, lambda store: replace(store, name=store.name)) == before.store
        assert engine.snapshot(store_id) == before
        assert other.data_version() == version, "there is nothing to follow"


def test_a_change_of_a_store_that_fails_changes_nothing(engine: Engine, store_id: str) -> None:
    before = state(engine, store_id)

    def change(store: Store) -> Store:
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        engine.update_store(store_id, change)
    assert state(engine, store_id) == before
    create(engine, store_id, "/a")  # and no transaction is left open


def test_two_processes_that_update_a_store_at_once_lose_nothing(
    engine: Engine, store_id: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    code = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.engine.engines import ENGINES

kind, directory, store_id, name = sys.argv[1:]
engine = ENGINES[kind](Path(directory))
print("ready", flush=True)
sys.stdin.readline()
for step in range(30):
    engine.update_store(store_id, lambda store: replace(store, metadata={**store.metadata, f"{name}{step}": ""}))
engine.close()
"""
    kind = request.node.callspec.params["reopen"]
    with python(code, kind, tmp_path, store_id, "one") as one, python(code, kind, tmp_path, store_id, "two") as two:
        for process in (one, two):
            assert hear(process) == "ready"
        for process in (one, two):
            tell(process)
        finish(one)
        finish(two)
    assert engine.store(store_id).metadata == {f"{name}{step}": "" for name in ("one", "two") for step in range(30)}


def filled(store: Store, engine: Engine, *mutations: Mutation, room: int = 2) -> None:
    engine.insert_filled_store(store, mutations, BOB, limits=Limits(room, 1))


def test_a_store_is_added_with_what_is_in_it(engine: Engine) -> None:
    store = Store(ids.new_id(ids.MEMORY_STORE), "Copy", "d", {"k": "v"}, now(), now(), guards=Guards(secrets="mask"))
    one = ids.new_id(ids.MEMORY)
    filled(store, engine, Create(one, "/a/b", b"text", FileAttributes(mode=0o600)), KeepDirectory("/d"))
    snapshot = engine.snapshot(store.id)
    assert snapshot.store == store
    assert [(head.memory_id, head.path, head.attributes.mode) for head in snapshot.heads] == [(one, "/a/b", 0o600)]
    assert [directory.path for directory in snapshot.directories] == ["/d"]
    assert [(v.operation, v.content, v.created_by) for v in history(engine, store.id)] == [("created", b"text", BOB)]


@pytest.mark.parametrize(
    "contents, error",
    [
        (["/a", "/a/b"], PathConflict),
        (["/a", "/a"], PathConflict),
        (["/a", "/b", "/c"], StoreFull),
    ],
)
def test_a_store_whose_filling_is_refused_is_not_added(
    engine: Engine, contents: list[str], error: type[MemfsError]
) -> None:
    store = Store(ids.new_id(ids.MEMORY_STORE), "Copy", "", {}, now(), now())
    with pytest.raises(error):
        filled(store, engine, *(Create(ids.new_id(ids.MEMORY), path, b"") for path in contents))
    with pytest.raises(NotFound):
        engine.store(store.id)
    assert engine.stores(include_archived=True) == []


# Stores that go


def test_a_deleted_store_is_gone_with_everything_of_it(engine: Engine, store_id: str) -> None:
    other = new_store(engine, "Other")
    memory_id = create(engine, store_id, "/a", b"one")
    write(engine, store_id, memory_id, b"shared")
    gone = create(engine, store_id, "/gone", b"gone")
    apply(engine, store_id, Delete(gone), KeepDirectory("/d"))
    kept = create(engine, other, "/a", b"shared")
    apply(engine, other, KeepDirectory("/d"))
    engine.record_accesses({memory_id: now(), kept: now()})
    session = Session(
        ids.new_id(ids.SESSION),
        now(),
        tuple(Attachment(each, "read_write", "N", "d", f"/mnt/memory/{each}") for each in (store_id, other)),
    )
    engine.insert_session(session)
    versions = history(engine, store_id)
    before = state(engine, other), engine.snapshot(store_id).sequence

    engine.delete_store(store_id)

    for ask in (
        lambda: engine.store(store_id),
        lambda: engine.delete_store(store_id),
        lambda: engine.snapshot(store_id),
        lambda: engine.changes(store_id, 0),
        lambda: engine.changes(store_id, before[1]),
        lambda: engine.memory(store_id, memory_id),
        lambda: engine.memories(store_id, "/", content=False),
        lambda: engine.children(store_id, "/", content=False),
        lambda: engine.accessed_memories(store_id, "/", before=ALWAYS),
        lambda: engine.prunable(store_id, ALWAYS),
        lambda: engine.prune(store_id, ALWAYS, limit=1),
        lambda: engine.past_state(store_id, at=now()),
        lambda: engine.redact(store_id, [versions[0].id], now(), BOB),
        lambda: engine.update_store(store_id, lambda store: store),
        lambda: create(engine, store_id, "/new"),
        lambda: engine.memory_id_for(store_id, "/a"),
    ):
        with pytest.raises(NotFound):
            ask()
    for version in versions:
        with pytest.raises(NotFound):
            engine.content(version.id)
        with pytest.raises(NotFound):
            engine.version(store_id, version.id)
    assert [store.id for store in engine.stores(include_archived=True)] == [other]
    assert state(engine, other) == before[0], "other stores are as they were"
    assert engine.memory(other, kept).content == b"shared", "a text that another store has too stays"
    assert engine.session(session.id).attachments == session.attachments[1:]
    assert not engine.knows_any(versions)


def test_an_archived_and_an_empty_store_can_be_deleted(engine: Engine, store_id: str) -> None:
    create(engine, store_id, "/a")
    engine.update_store(store_id, lambda store: replace(store, archived_at=now()))
    engine.delete_store(store_id)
    empty = new_store(engine)
    engine.delete_store(empty)
    assert engine.stores(include_archived=True) == []


def test_the_followers_of_a_deleted_store_are_told_wherever_they_stand(
    engine: Engine, store_id: str, reopen: Callable[[], Engine]
) -> None:
    with closing(reopen()) as follower:
        first = follower.snapshot(store_id).sequence
        create(engine, store_id, "/a")
        newest = follower.snapshot(store_id).sequence
        version = follower.data_version()
        engine.delete_store(store_id)
        assert follower.data_version() != version
        for after in (0, first, newest, newest + 1):
            with pytest.raises(NotFound):
                follower.changes(store_id, after)
        with pytest.raises(NotFound):
            follower.snapshot(store_id)


def test_numbers_of_changes_are_never_given_out_again(engine: Engine, store_id: str) -> None:
    """A follower of another store would miss what has a number that it believes to have seen."""
    other = new_store(engine, "Other")
    create(engine, other, "/a")
    mirror = engine.snapshot(other)
    for step in range(3):
        newest = create(engine, store_id, "/newest")  # the newest change of all is in the store that goes
        sequence = engine.snapshot(other).sequence
        mirror = follow(mirror, engine.changes(other, mirror.sequence))
        assert mirror.sequence == sequence
        engine.delete_store(store_id)
        assert engine.snapshot(other).sequence == sequence
        assert engine.changes(other, sequence) == Changes(sequence, {}, None, None)
        create(engine, other, f"/{step}")
        assert engine.snapshot(other).sequence > sequence
        mirror = follow(mirror, engine.changes(other, mirror.sequence))
        assert comparable(mirror) == comparable(engine.snapshot(other))
        store_id = new_store(engine)
        assert newest not in paths(engine, other).values()
    sequences = [version.sequence for version in history(engine, other)]
    assert sequences == sorted(set(sequences))


# Pages


def pages(ask: Callable[..., list[Any]], size: int, key: Callable[[Any], Any]) -> list[Any]:
    """A whole listing, fetched in pages."""
    found: list[Any] = []
    while True:
        page = ask(after=key(found[-1]) if found else None, limit=size)
        assert len(page) <= size
        found += page
        assert len(found) < 1_000, "pages go on for ever"
        if len(page) < size:
            assert ask(after=key(found[-1]) if found else None, limit=size) == []
            return found


# Names that sort next to a directory's slash, hold a wildcard, or have more bytes than characters.
TREE = [
    "/!",
    "/A/z",
    "/a b/c",
    "/a!/x",
    "/a-b",
    "/a.d/x/y",
    "/a.md",
    "/a/!",
    "/a/0",
    "/a/a/a/a",
    "/a/a0",
    "/a/b%/c",
    "/a/b/1",
    "/a/b/2",
    "/a/b0/1",
    "/a/b_/3",
    "/a0",
    "/a_/1",
    "/aa/1",
    "/z/é/1",
    "/é",
    "/\ue000/x",
    "/\U0001f600/x/y/z",
    "/\U0001f600/x/z",
]


def expected_children(prefix: str) -> list[str]:
    """Written from the words of the contract, not from the engine's."""
    rolled = set()
    for path in TREE:
        if path.startswith(prefix):
            name, below, _ = path[len(prefix) :].partition("/")
            rolled.add(prefix + name + below)
    return sorted(rolled, key=str.encode)


@pytest.mark.parametrize(
    "prefix", ["/", "/a/", "/a/b/", "/a/a/", "/a.d/", "/a!/", "/\U0001f600/", "/nothing/", "/a-b/"]
)
def test_children_are_the_same_whatever_the_size_of_a_page(engine: Engine, store_id: str, prefix: str) -> None:
    for path in TREE:
        create(engine, store_id, path, path.encode())
    whole = engine.children(store_id, prefix, content=True)
    assert [each.path for each in whole] == expected_children(prefix)
    for each in whole:
        if each.path.endswith("/"):
            assert each == MemoryPrefix(each.path)
        else:
            assert isinstance(each, Memory)
            assert each == engine.memory_at(store_id, each.path)
    bare = [replace(each, content=None) if isinstance(each, Memory) else each for each in whole]
    assert engine.children(store_id, prefix, content=False) == bare
    for size in range(1, len(whole) + 2):
        found = pages(
            lambda **page: engine.children(store_id, prefix, content=True, **page), size, lambda each: each.path
        )
        assert found == whole
    assert engine.children(store_id, prefix, content=False, limit=0) == []


@pytest.mark.parametrize("prefix", ["/", "/a/", "/a/b/", "/\U0001f600/", "/nothing/"])
def test_memories_are_the_same_whatever_the_size_of_a_page(engine: Engine, store_id: str, prefix: str) -> None:
    for path in TREE:
        create(engine, store_id, path, path.encode())
    whole = engine.memories(store_id, prefix, content=True)
    assert [memory.path for memory in whole] == sorted((p for p in TREE if p.startswith(prefix)), key=str.encode)
    for size in range(1, len(whole) + 2):
        found = pages(
            lambda **page: engine.memories(store_id, prefix, content=True, **page), size, lambda memory: memory.path
        )
        assert found == whole
    assert engine.memories(store_id, prefix, content=False, limit=0) == []


def test_a_page_goes_on_where_the_last_one_ended_whatever_became_of_it(engine: Engine, store_id: str) -> None:
    made = {path: create(engine, store_id, path) for path in ("/a/1", "/a/2", "/b", "/c/1", "/d")}

    def listed(after: str) -> list[str]:
        return [each.path for each in engine.children(store_id, "/", content=False, after=after)]

    for path in ("/a/1", "/a/2", "/b"):
        apply(engine, store_id, Delete(made[path]))
    assert listed("/a/") == ["/c/", "/d"]
    assert listed("/b") == ["/c/", "/d"]
    create(engine, store_id, "/a")
    create(engine, store_id, "/b/new")
    assert listed("/a/") == ["/b/", "/c/", "/d"], "what is new behind it is shown"
    assert listed("/b") == ["/b/", "/c/", "/d"]
    assert listed("/b/") == ["/c/", "/d"]
    assert [memory.path for memory in engine.memories(store_id, "/", content=False, after="/b")] == [
        "/b/new",
        "/c/1",
        "/d",
    ]


def test_stores_are_paged_and_chosen_by_time(engine: Engine) -> None:
    moments = [f"2026-01-0{day}T00:00:00.000000Z" for day in (1, 2, 3, 4, 5)]
    made = [
        Store(ids.new_id(ids.MEMORY_STORE), "Same", "", {}, at, at, archived_at=at if at == moments[2] else None)
        for at in moments
    ]
    for store in made:
        engine.insert_store(store)
    live = [store for store in made if store.archived_at is None]
    for include, whole in ((True, made), (False, live)):
        for size in range(1, 7):
            found = pages(
                partial(engine.stores, include_archived=include),
                size,
                lambda store: store.id,
            )
            assert found == whole
    assert engine.stores(include_archived=True, created_from=moments[1], created_to=moments[3]) == made[1:4]
    assert engine.stores(include_archived=True, created_from=later(moments[1], microseconds=1)) == made[2:]
    assert engine.stores(include_archived=False, created_to=moments[2], after=made[0].id, limit=5) == [made[1]]
    assert engine.stores(include_archived=True, created_from=moments[4], created_to=moments[0]) == []
    engine.delete_store(made[1].id)
    assert engine.stores(include_archived=True, after=made[1].id) == made[2:], "the page's last store may be gone"


# Batches that expect the store to be as it was


def test_a_batch_expects_that_the_store_did_not_change(engine: Engine, store_id: str) -> None:
    memory_id, elsewhere = create(engine, store_id, "/a", b"0"), new_store(engine)
    changes: list[Callable[[], object]] = [
        lambda: apply(engine, store_id, Update(memory_id, content=b"1")),
        lambda: apply(engine, store_id, SetAttributes(memory_id, FileAttributes(mode=0o600))),
        lambda: apply(engine, store_id, KeepDirectory("/d")),
        lambda: engine.update_store(store_id, lambda store: replace(store, description="new")),
    ]
    for change in changes:
        sequence = engine.snapshot(store_id).sequence
        create(engine, elsewhere, f"/{sequence}")  # another store's change is none of its business
        change()
        before = state(engine, store_id)
        with pytest.raises(PreconditionFailed):
            engine.apply(store_id, [Delete(memory_id)], ALICE, limits=LIMITS, unchanged_since=sequence)
        assert state(engine, store_id) == before
    sequence = engine.snapshot(store_id).sequence
    create(engine, elsewhere, "/last")
    engine.apply(store_id, [Delete(memory_id)], ALICE, limits=LIMITS, unchanged_since=sequence)
    assert paths(engine, store_id) == {}


def test_a_batch_may_be_for_an_archived_store_too(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a")
    engine.update_store(store_id, lambda store: replace(store, archived_at=now()))
    with pytest.raises(StoreArchived):
        apply(engine, store_id, Delete(memory_id))
    engine.apply(store_id, [Delete(memory_id)], ALICE, limits=LIMITS, archived=True)
    assert paths(engine, store_id) == {}
    with pytest.raises(NotFound):
        engine.apply(ids.new_id(ids.MEMORY_STORE), [], ALICE, limits=LIMITS, archived=True)


# When memories were read


def accessed(engine: Engine, store_id: str, before: str = ALWAYS, prefix: str = "/") -> dict[str, str | None]:
    found = engine.accessed_memories(store_id, prefix, before=before)
    assert [each.memory.path for each in found] == sorted((each.memory.path for each in found), key=str.encode)
    for each in found:
        assert each.memory == replace(engine.memory(store_id, each.memory.id), content=None)
    return {each.memory.path: each.accessed_at for each in found}


def test_a_read_is_on_record(engine: Engine, store_id: str) -> None:
    a, b = create(engine, store_id, "/a"), create(engine, store_id, "/b")
    assert accessed(engine, store_id) == {"/a": None, "/b": None}
    at = later(now(), hours=1)
    engine.record_accesses({a: at})
    engine.record_accesses({})
    assert accessed(engine, store_id) == {"/a": at, "/b": None}
    day_after = later(at, days=1)
    engine.record_accesses({a: day_after, b: at})
    assert accessed(engine, store_id) == {"/a": day_after, "/b": at}
    engine.record_accesses({a: at, b: NEVER})
    assert accessed(engine, store_id) == {"/a": day_after, "/b": at}, "an earlier time changes nothing"
    assert len(history(engine, store_id)) == 2, "reading is no version"


def test_reads_are_no_changes_to_follow(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a")
    before = state(engine, store_id)
    engine.record_accesses({memory_id: now()})
    assert state(engine, store_id) == before


def test_what_was_neither_written_nor_read_since_a_time(engine: Engine, store_id: str) -> None:
    read, unread = create(engine, store_id, "/d/read"), create(engine, store_id, "/d/unread")
    create(engine, store_id, "/d.md")
    at = later(now(), days=2)
    engine.record_accesses({read: at})
    assert set(accessed(engine, store_id, before=at, prefix="/d/")) == {"/d/unread"}, "read at that time is not before"
    after = later(at, microseconds=1)
    assert set(accessed(engine, store_id, before=after, prefix="/d/")) == {"/d/read", "/d/unread"}
    assert set(accessed(engine, store_id, before=after)) == {"/d.md", "/d/read", "/d/unread"}
    written = engine.memory(store_id, unread).updated_at
    assert accessed(engine, store_id, before=written, prefix="/d/") == {}
    assert set(accessed(engine, store_id, before=later(written, microseconds=1), prefix="/d/")) == {"/d/unread"}


def test_reads_of_memories_that_are_gone_are_left_out(engine: Engine, store_id: str) -> None:
    gone, there = create(engine, store_id, "/gone"), create(engine, store_id, "/there")
    at = later(now(), days=1)
    engine.record_accesses({gone: at})
    apply(engine, store_id, Delete(gone))
    engine.record_accesses({gone: later(at, days=1), ids.new_id(ids.MEMORY): at, "": at, there: at})
    assert accessed(engine, store_id) == {"/there": at}
    apply(engine, store_id, Create(gone, "/gone", b"again"))
    assert accessed(engine, store_id) == {"/gone": None, "/there": at}, "it begins anew"


def test_reads_of_several_stores_are_recorded_at_once(engine: Engine, store_id: str) -> None:
    other = new_store(engine)
    here, there = create(engine, store_id, "/a"), create(engine, other, "/a")
    at = later(now(), days=1)
    engine.record_accesses({here: at, there: at})
    assert accessed(engine, store_id) == accessed(engine, other) == {"/a": at}


# Choosing versions


def test_versions_are_chosen_by_each_kind_of_actor(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"0")
    actors = [
        Actor("session_actor", "same"),
        Actor("api_actor", "same"),
        Actor("user_actor", "same"),
        Actor("service_account_actor", "same"),
    ]
    for actor in actors:
        apply(engine, store_id, Update(memory_id, content=actor.type.encode()), actor=actor)

    def found(**where: Any) -> list[Actor]:
        return [v.created_by for v in engine.versions(store_id, VersionFilter(**where), limit=None)]

    fields = ("session_id", "api_key_id", "user_id", "service_account_id")
    for actor, field in zip(actors, fields, strict=True):
        assert found(**{field: "same"}) == [actor]
        assert found(**{field: "same", "memory_id": memory_id, "operation": "modified"}) == [actor]
        assert found(**{field: "sam"}) == []
    assert found(session_id="same", user_id="same") == [], "conditions add up"


# What was at a time


def test_the_state_of_each_moment(engine: Engine, store_id: str) -> None:
    """After each step: who had which version then, told by a time and by a version."""
    a, b = create(engine, store_id, "/a", b"1"), create(engine, store_id, "/b", b"1")
    create(engine, new_store(engine), "/elsewhere")
    write(engine, store_id, a, b"2")
    apply(engine, store_id, Update(b, path="/c"))
    apply(engine, store_id, Delete(a))
    apply(engine, store_id, Create(a, "/a", b"3"))
    versions = history(engine, store_id, content=False)
    newest: dict[str, MemoryVersion] = {}
    for version in versions:
        newest[version.memory_id] = version
        for past in (
            engine.past_state(store_id, version_id=version.id),
            engine.past_state(store_id, at=version.created_at),
        ):
            assert past.versions == sorted(newest.values(), key=lambda each: each.sequence)
            assert past.unknown == []
            assert past.sequence == engine.snapshot(store_id).sequence
            assert sorted(past.heads, key=lambda head: head.path) == state(engine, store_id)[0].heads
    before = engine.past_state(store_id, at=NEVER)
    assert (before.versions, before.unknown) == ([], [])
    assert engine.past_state(store_id, at=ALWAYS).versions == sorted(newest.values(), key=lambda each: each.sequence)
    with pytest.raises(NotFound):
        engine.past_state(store_id, version_id=ids.new_id(ids.MEMORY_VERSION))
    with pytest.raises(NotFound):
        engine.past_state(new_store(engine), version_id=versions[0].id)


def test_a_batch_was_at_one_moment(engine: Engine, store_id: str) -> None:
    one, two = ids.new_id(ids.MEMORY), ids.new_id(ids.MEMORY)
    apply(engine, store_id, Create(one, "/1", b"1"), Create(two, "/2", b"2"))
    first, second = history(engine, store_id, content=False)
    assert engine.past_state(store_id, at=first.created_at).versions == [first, second]
    assert engine.past_state(store_id, version_id=first.id).versions == [first], "right after that version"


def test_a_state_that_was_pruned_is_unknown(engine: Engine, store_id: str) -> None:
    kept = create(engine, store_id, "/kept", b"1")
    gone = create(engine, store_id, "/gone", b"1")
    moment = history(engine, store_id)[-1]
    young = create(engine, store_id, "/young")
    write(engine, store_id, young, b"2", b"3")
    write(engine, store_id, kept, b"2", b"3")
    apply(engine, store_id, Delete(gone))
    engine.prune(store_id, ALWAYS, limit=100)

    def unknown(**when: str) -> dict[str, str]:
        past = engine.past_state(store_id, **when)
        assert past.versions == []
        return {version.memory_id: version.operation for version in past.unknown}

    assert unknown(at=moment.created_at) == {kept: "modified", gone: "deleted"}
    # A live memory tells when it was made; one that is gone does not any more.
    assert unknown(at=NEVER) == {gone: "deleted"}
    present = engine.past_state(store_id, at=ALWAYS)
    assert present.unknown == []
    assert len(present.versions) == 3


# Redacting


def redacted(version: MemoryVersion, at: str, by: Actor) -> MemoryVersion:
    """What is left of a version: that it was, when, by whom, and of which memory."""
    return replace(
        version,
        path=None,
        content=None,
        content_size_bytes=None,
        content_sha256=None,
        redacted_at=at,
        redacted_by=by,
    )


def test_a_redacted_version_keeps_who_and_when(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/secret", b"secret")
    apply(engine, store_id, Update(memory_id, content=b"public", path="/public"), actor=AGENT)
    first, second = history(engine, store_id)
    before = engine.snapshot(store_id)
    at = now()
    expected = redacted(first, at, BOB)
    assert engine.redact(store_id, [first.id], at, BOB) == [expected]
    assert history(engine, store_id) == [expected, second]
    assert engine.version(store_id, first.id) == expected
    with pytest.raises(NotFound):
        engine.content(first.id)
    assert engine.content(second.id) == b"public"
    assert engine.memory_id_for(store_id, "/secret") is None, "its path is not known any more"
    assert engine.memory_id_for(store_id, "/public") == memory_id
    assert comparable(engine.snapshot(store_id)) == comparable(before), "memories stay as they are"


def test_redacting_again_changes_nothing(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"1")
    write(engine, store_id, memory_id, b"2", b"3")
    first, second, _ = history(engine, store_id)
    (once,) = engine.redact(store_id, [first.id], now(), BOB)
    twice = engine.redact(store_id, [first.id, second.id, second.id], later(now(), days=1), AGENT)
    assert twice[0] == once
    assert twice[1] == twice[2] == redacted(second, later(twice[1].redacted_at or ""), AGENT)
    assert history(engine, store_id)[:2] == twice[:2]
    assert engine.redact(store_id, [], now(), BOB) == []


def test_the_head_of_a_live_memory_cannot_be_redacted(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"1")
    write(engine, store_id, memory_id, b"2")
    old, head = history(engine, store_id)
    before = state(engine, store_id)
    for chosen in ([head.id], [old.id, head.id], [head.id, old.id]):
        with pytest.raises(VersionInUse):
            engine.redact(store_id, chosen, now(), BOB)
        assert state(engine, store_id) == before, "all or none"
    apply(engine, store_id, Delete(memory_id))
    engine.redact(store_id, [old.id, head.id], now(), BOB)
    assert [version.redacted_by for version in history(engine, store_id)] == [BOB, BOB, None]


def test_a_deletion_and_an_archived_stores_versions_can_be_redacted(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/secret", b"1")
    apply(engine, store_id, Delete(memory_id))
    engine.update_store(store_id, lambda store: replace(store, archived_at=now()))
    versions = history(engine, store_id)
    at = now()
    assert engine.redact(store_id, [v.id for v in versions], at, BOB) == [redacted(v, at, BOB) for v in versions]
    assert [version.operation for version in history(engine, store_id)] == ["created", "deleted"]
    assert engine.memory_id_for(store_id, "/secret") is None
    assert engine.memory_id_for(store_id, memory_id) == memory_id


def test_versions_that_are_not_there_are_not_redacted(engine: Engine, store_id: str) -> None:
    memory_id, other = create(engine, store_id, "/a", b"1"), new_store(engine)
    write(engine, store_id, memory_id, b"2")
    old = history(engine, store_id)[0]
    before = state(engine, store_id)
    for where, chosen in (
        (other, [old.id]),
        (store_id, [old.id, ids.new_id(ids.MEMORY_VERSION)]),
        (ids.new_id(ids.MEMORY_STORE), [old.id]),
        (ids.new_id(ids.MEMORY_STORE), []),
    ):
        with pytest.raises(NotFound):
            engine.redact(where, chosen, now(), BOB)
        assert state(engine, store_id) == before, "all or none"


def test_a_text_stays_until_the_last_version_that_has_it_is_redacted(engine: Engine, store_id: str) -> None:
    other = new_store(engine)
    here, there = create(engine, store_id, "/a", b"shared"), create(engine, other, "/b", b"shared")
    write(engine, store_id, here, b"x", b"shared", b"y")
    write(engine, other, there, b"z")
    first, _, third, _ = history(engine, store_id)
    last = history(engine, other)[0]
    engine.redact(store_id, [first.id], now(), BOB)
    assert engine.content(third.id) == engine.content(last.id) == b"shared"
    engine.redact(store_id, [third.id], now(), BOB)
    assert engine.content(last.id) == b"shared"
    assert engine.version(other, last.id) == last
    engine.redact(other, [last.id], now(), BOB)
    with pytest.raises(NotFound):
        engine.content(last.id)
    create(engine, store_id, "/again", b"shared")  # a new text, as any other
    assert engine.memory_at(store_id, "/again").content == b"shared"


def test_scrubbing_is_due_after_redacting_and_after_deleting_a_store(engine: Engine, store_id: str) -> None:
    assert not engine.scrub()
    memory_id = create(engine, store_id, "/a", b"1")
    write(engine, store_id, memory_id, b"2")
    assert not engine.scrub()
    engine.redact(store_id, [history(engine, store_id)[0].id], now(), BOB)
    assert engine.scrub()
    assert not engine.scrub()
    engine.delete_store(store_id)
    assert engine.scrub(wait=False)
    assert not engine.scrub()
    assert engine.scrub(anyway=True)
    assert not engine.scrub()


def test_scrubbing_changes_nothing_that_is_there(engine: Engine, store_id: str, reopen: Callable[[], Engine]) -> None:
    memory_id = create(engine, store_id, "/a", b"1")
    create(engine, store_id, "/b", b"x" * 100_000)
    write(engine, store_id, memory_id, b"2")
    engine.record_accesses({memory_id: now()})
    gone = new_store(engine)
    create(engine, gone, "/newest")
    with closing(reopen()) as follower:
        before = state(engine, store_id)
        engine.delete_store(gone)
        assert engine.scrub()
        assert state(engine, store_id) == state(follower, store_id) == before
        create(follower, store_id, "/c")
        assert engine.snapshot(store_id).sequence > before[0].sequence
        assert set(follower.changes(store_id, before[0].sequence).heads) == {follower.memory_at(store_id, "/c").id}
        assert accessed(engine, store_id)["/a"] is not None


# Pruning


def test_heads_and_the_newest_of_the_deleted_are_never_pruned(engine: Engine, store_id: str) -> None:
    live, gone, single = (create(engine, store_id, path, path.encode()) for path in ("/live", "/gone", "/single"))
    write(engine, store_id, live, b"2", b"3")
    write(engine, store_id, gone, b"2")
    apply(engine, store_id, Delete(gone))
    heads = engine.snapshot(store_id).heads
    assert [(v.memory_id, v.operation) for v in engine.prunable(store_id, ALWAYS)] == [
        (live, "created"),
        (gone, "created"),
        (live, "modified"),
        (gone, "modified"),
    ]
    assert engine.prune(store_id, ALWAYS, limit=100) == 4
    assert engine.prune(store_id, ALWAYS, limit=100) == 0
    assert engine.prunable(store_id, ALWAYS) == []
    assert [(v.memory_id, v.operation) for v in history(engine, store_id)] == [
        (single, "created"),
        (live, "modified"),
        (gone, "deleted"),
    ]
    assert engine.snapshot(store_id).heads == heads
    assert engine.memory(store_id, live).content == b"3"
    assert engine.memory_id_for(store_id, "/gone") == gone


def test_only_what_is_older_is_pruned(engine: Engine, store_id: str) -> None:
    memory_id, other = create(engine, store_id, "/a", b"0"), new_store(engine)
    write(engine, store_id, memory_id, b"1", b"2", b"3")
    elsewhere = create(engine, other, "/a", b"0")
    write(engine, other, elsewhere, b"1")
    versions = history(engine, store_id)
    assert engine.prunable(store_id, NEVER) == []
    assert engine.prunable(store_id, versions[0].created_at) == [], "made at that time is not before"
    without = [replace(version, content=None) for version in versions]
    assert engine.prunable(store_id, versions[1].created_at) == without[:1]
    assert engine.prune(store_id, versions[0].created_at, limit=10) == 0
    assert engine.prune(store_id, versions[2].created_at, limit=10) == 2
    assert history(engine, store_id) == versions[2:]
    assert len(history(engine, other)) == 2, "another store's history is not touched"
    with pytest.raises(NotFound):
        engine.prune(ids.new_id(ids.MEMORY_STORE), ALWAYS, limit=10)
    with pytest.raises(NotFound):
        engine.prunable(ids.new_id(ids.MEMORY_STORE), ALWAYS)


def test_pruning_goes_from_the_oldest_on_and_in_pages(engine: Engine, store_id: str) -> None:
    made = [create(engine, store_id, f"/{i}", b"0") for i in range(3)]
    for step in (b"1", b"2", b"3"):
        for memory_id in made:
            write(engine, store_id, memory_id, step)
    versions = history(engine, store_id, content=False)
    whole = engine.prunable(store_id, ALWAYS)
    assert whole == versions[:9]
    for size in range(1, 11):
        found: list[MemoryVersion] = []
        while page := engine.prunable(store_id, ALWAYS, after=found[-1].sequence if found else 0, limit=size):
            found += page
        assert found == whole
    left = versions
    for size, removed in ((1, 1), (4, 4), (0, 0), (3, 3), (5, 1), (5, 0)):
        assert engine.prune(store_id, ALWAYS, limit=size) == removed
        left = left[removed:]
        assert history(engine, store_id, content=False) == left


def test_texts_that_something_left_has_stay(engine: Engine, store_id: str) -> None:
    other = new_store(engine)
    a, b = create(engine, store_id, "/a", b"only here"), create(engine, other, "/b", b"also there")
    write(engine, store_id, a, b"also there", b"also later", b"x", b"also later")
    write(engine, other, b, b"z")
    old = history(engine, store_id)
    assert engine.prune(store_id, ALWAYS, limit=100) == 4
    assert outline(history(engine, store_id)) == [("modified", b"also later")]
    assert outline(history(engine, other)) == [("created", b"also there"), ("modified", b"z")]
    for version in old[:-1]:
        with pytest.raises(NotFound):
            engine.content(version.id)
        with pytest.raises(NotFound):
            engine.version(store_id, version.id)


def test_redacted_versions_are_pruned_too(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"0")
    write(engine, store_id, memory_id, b"1", b"2")
    engine.redact(store_id, [version.id for version in history(engine, store_id)[:2]], now(), BOB)
    assert engine.prune(store_id, ALWAYS, limit=100) == 2
    assert outline(history(engine, store_id)) == [("modified", b"2")]
    gone = create(engine, store_id, "/gone", b"0")
    apply(engine, store_id, Delete(gone))
    last = history(engine, store_id, gone)[-1]
    engine.redact(store_id, [last.id], now(), BOB)
    assert engine.prune(store_id, ALWAYS, limit=100) == 1
    assert [v.id for v in history(engine, store_id, gone)] == [last.id], "the newest stays, redacted or not"


def test_followers_from_before_what_was_pruned_see_the_present(
    engine: Engine, store_id: str, reopen: Callable[[], Engine]
) -> None:
    with closing(reopen()) as follower:
        mirrors = [follower.snapshot(store_id)]

        def step(*mutations: Mutation) -> None:
            apply(engine, store_id, *mutations)
            mirrors.append(follower.snapshot(store_id))

        a, b, c = (ids.new_id(ids.MEMORY) for _ in range(3))
        step(Create(a, "/a", b"1"))
        step(Create(b, "/b", b"1"), KeepDirectory("/d"))
        step(Update(a, content=b"2", path="/b2"))
        step(SetAttributes(b, FileAttributes(mode=0o600)))
        step(Delete(b))
        step(Create(c, "/b", b"2"))
        step(Create(b, "/a", b"3"))
        step(Update(b, content=b"4"))
        engine.update_store(store_id, lambda store: replace(store, name="New"))
        assert engine.prune(store_id, ALWAYS, limit=100) == 4
        present = follower.snapshot(store_id)
        assert {head.path for head in present.heads} == {"/b2", "/b", "/a"}
        for mirror in mirrors:
            followed = follow(mirror, follower.changes(store_id, mirror.sequence))
            assert comparable(followed) == comparable(present)
            with pytest.raises(PreconditionFailed):  # pruning does not hide that the store changed
                engine.apply(store_id, [], ALICE, limits=LIMITS, unchanged_since=mirror.sequence)


def test_history_goes_on_after_pruning(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"0")
    write(engine, store_id, memory_id, b"1")
    before = history(engine, store_id)
    engine.prune(store_id, ALWAYS, limit=100)
    write(engine, store_id, memory_id, b"0")
    versions = history(engine, store_id)
    assert outline(versions) == [("modified", b"1"), ("modified", b"0")]
    assert versions[0] == before[1]
    assert versions[1].id > before[1].id
    assert versions[1].sequence > before[1].sequence


# Bringing in a history


def told(memory_id: str, *steps: tuple[Operation, bytes | None], **fields: Any) -> list[MemoryVersion]:
    """A history of one memory as another workspace would tell it: (operation, content) for each step."""
    made = []
    for number, (operation, content) in enumerate(steps):
        made.append(
            MemoryVersion(
                id=ids.new_id(ids.MEMORY_VERSION),
                memory_store_id="",
                memory_id=memory_id,
                sequence=number,
                operation=operation,
                path="/a",
                content_size_bytes=None if content is None else len(content),
                content_sha256=None if content is None else sha256(content).hexdigest(),
                created_at=f"2020-01-01T00:00:{number:02}.000000Z",
                created_by=BOB,
                content=content,
            )
        )
    return [replace(version, **fields) for version in made]


def bring(engine: Engine, store_id: str, versions: list[MemoryVersion], room: int = 10) -> int:
    return engine.insert_history(store_id, versions, {}, limits=Limits(room, 10))


def test_a_history_is_brought_in_as_it_was(engine: Engine, store_id: str) -> None:
    create(engine, new_store(engine), "/elsewhere", b"1")
    a, b, c = (ids.new_id(ids.MEMORY) for _ in range(3))
    told_a = told(a, ("created", b"1"), ("modified", b"2"), ("deleted", None), ("created", b"3"))
    told_b = told(b, ("created", b"1"), ("deleted", None), path="/b")
    told_c = told(c, ("modified", b"5"), path="/c")
    first = told_a[0]
    told_a[0] = redacted(first, "2021-01-01T00:00:00.000000Z", ALICE)
    versions = [*told_a[:2], *told_b, *told_a[2:], *told_c]
    made = {c: "2019-01-01T00:00:00.000000Z"}
    assert engine.insert_history(store_id, versions, made, limits=Limits(2, 0)) == 2
    found = history(engine, store_id)
    assert [replace(v, sequence=0, memory_store_id="") for v in found] == [replace(v, sequence=0) for v in versions]
    assert [v.sequence for v in found] == sorted({v.sequence for v in found})
    memory = engine.memory(store_id, a)
    assert (memory.path, memory.content, memory.memory_version_id) == ("/a", b"3", told_a[3].id)
    assert (memory.created_at, memory.updated_at) == (told_a[0].created_at, told_a[3].created_at)
    assert engine.memory(store_id, c).created_at == made[c]
    assert paths(engine, store_id) == {"/a": a, "/c": c}
    assert engine.knows_any(versions)
    write(engine, store_id, a, b"4")
    assert history(engine, store_id)[:-1] == found, "history goes on"


def test_a_history_is_told_from_what_is_known(engine: Engine, store_id: str) -> None:
    memory_id = create(engine, store_id, "/a", b"1")
    (known,) = history(engine, store_id)
    unknown = told(ids.new_id(ids.MEMORY), ("created", b"1"))
    assert not engine.knows_any([])
    assert not engine.knows_any(unknown)
    assert engine.knows_any([*unknown, known])
    assert engine.knows_any([*unknown, *told(memory_id, ("created", b"1"))]), "the same memory"
    assert engine.knows_any([*unknown, replace(unknown[0], id=known.id)]), "the same version"
    apply(engine, store_id, Delete(memory_id))
    assert engine.knows_any(told(memory_id, ("created", b"1"))), "also where it is deleted"


def test_a_history_is_brought_into_an_empty_store_only(engine: Engine, store_id: str) -> None:
    gone = create(engine, store_id, "/gone")
    apply(engine, store_id, Delete(gone))
    versions = told(ids.new_id(ids.MEMORY), ("created", b"1"))
    before = state(engine, store_id)
    with pytest.raises(PreconditionFailed):
        bring(engine, store_id, versions)
    assert state(engine, store_id) == before
    with pytest.raises(NotFound):
        bring(engine, ids.new_id(ids.MEMORY_STORE), versions)
    archived = new_store(engine)
    engine.update_store(archived, lambda store: replace(store, archived_at=now()))
    with pytest.raises(StoreArchived):
        bring(engine, archived, versions)


ONE, TWO, THREE = (ids.new_id(ids.MEMORY) for _ in range(3))
BAD_HISTORIES: dict[str, tuple[list[MemoryVersion], type[MemfsError]]] = {
    "twice created": (told(ONE, ("created", b"1"), ("created", b"2")), InvalidRequest),
    "twice deleted": (told(ONE, ("created", b"1"), ("deleted", None), ("deleted", None)), InvalidRequest),
    "changed after its end": (told(ONE, ("created", b"1"), ("deleted", None), ("modified", b"2")), InvalidRequest),
    "one version twice": (
        told(ONE, ("created", b"1"), ("modified", b"2"), id=ids.new_id(ids.MEMORY_VERSION)),
        InvalidRequest,
    ),
    "a live memory redacted": (
        told(ONE, ("created", b"1"), content=None, content_sha256=None, content_size_bytes=None, path=None),
        InvalidRequest,
    ),
    "a text that is not there": (told(ONE, ("created", b"1"), content=None), InvalidRequest),
    "another text than its hash": (told(ONE, ("created", b"1"), content=b"2"), InvalidRequest),
    "the same path": ([*told(ONE, ("created", b"1")), *told(TWO, ("created", b"1"))], PathConflict),
    "one path above another": (
        [*told(ONE, ("created", b"1")), *told(TWO, ("created", b"1"), path="/a/b/c")],
        PathConflict,
    ),
    "too many": (
        [
            *told(ONE, ("created", b"1"), path="/1"),
            *told(TWO, ("created", b"1"), path="/2"),
            *told(THREE, ("created", b"1"), path="/3"),
        ],
        StoreFull,
    ),
}


@pytest.mark.parametrize("name", BAD_HISTORIES)
def test_a_history_that_cannot_be_is_refused_as_a_whole(engine: Engine, store_id: str, name: str) -> None:
    create(engine, new_store(engine), "/elsewhere", b"something")
    versions, error = BAD_HISTORIES[name]
    before = state(engine, store_id)
    with pytest.raises(error) as raised:
        bring(engine, store_id, versions, room=2)
    assert type(raised.value) is error
    assert state(engine, store_id) == before
    assert not engine.knows_any(versions)


def test_a_history_never_adopts_what_another_store_has(engine: Engine, store_id: str) -> None:
    """Who knows a hash does not get the text; and whose id is taken is somebody else's memory."""
    other = new_store(engine)
    live, gone = create(engine, other, "/a", b"theirs"), create(engine, other, "/gone", b"gone")
    apply(engine, other, Delete(gone))
    theirs = history(engine, other)
    before = state(engine, store_id), state(engine, other)
    for versions in (
        told(ids.new_id(ids.MEMORY), ("created", b"theirs"), content=None),
        told(ids.new_id(ids.MEMORY), ("created", b"theirs"), content=b"ours", content_size_bytes=4),
        told(ids.new_id(ids.MEMORY), ("created", b"1"), id=theirs[0].id),
        told(live, ("created", b"1")),
        told(gone, ("created", b"1")),
    ):
        with pytest.raises(InvalidRequest):
            bring(engine, store_id, versions)
        assert (state(engine, store_id), state(engine, other)) == before


@pytest.mark.parametrize("version_id, memory_id", [("memver_7" + "Z" * 25, None), (None, "mem_7" + "Z" * 25)])
def test_an_id_from_the_end_of_time_is_refused(
    engine: Engine, store_id: str, version_id: str | None, memory_id: str | None
) -> None:
    """Whoever makes a history can write any id into it; the next ones must still be ids, and sort after it."""
    last = told(memory_id or ids.new_id(ids.MEMORY), ("created", b"1"), id=version_id or ids.new_id(ids.MEMORY_VERSION))
    with pytest.raises(InvalidRequest, match="end of time"):
        bring(engine, store_id, last)


# Settings


def test_settings_are_kept(engine: Engine, reopen: Callable[[], Engine]) -> None:
    assert engine.settings() == Settings(retention_days=30, prune_automatically=False)
    changed = Settings(retention_days=7, prune_automatically=True)
    assert engine.update_settings(lambda _settings: changed) == changed
    assert engine.settings() == changed
    with closing(reopen()) as again:
        assert again.settings() == changed

    def fail(_settings: Settings) -> Settings:
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        engine.update_settings(fail)
    assert engine.settings() == changed


def test_pruning_is_claimed_once(engine: Engine, reopen: Callable[[], Engine]) -> None:
    first, second = "2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000000Z"
    with closing(reopen()) as other:
        assert engine.claim_pruning(NEVER, first), "it never happened"
        assert not other.claim_pruning(NEVER, second)
        assert not other.claim_pruning(first, second), "what happened at a time did not happen before it"
        assert other.claim_pruning(later(first, microseconds=1), second)
        assert not engine.claim_pruning(second, ALWAYS)


def test_one_of_several_processes_claims_pruning(
    request: pytest.FixtureRequest, reopen: Callable[[], Engine], tmp_path: Path
) -> None:
    code = """
import sys
from pathlib import Path
from tests.engine.engines import ENGINES

engine = ENGINES[sys.argv[1]](Path(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
for day in range(20):
    print(engine.claim_pruning(f"2026-02-{day + 1:02}", f"2026-02-{day + 1:02}"), flush=True)
"""
    reopen().close()
    arguments = [request.node.callspec.params["reopen"], tmp_path]
    with python(code, *arguments) as one, python(code, *arguments) as two, python(code, *arguments) as three:
        for process in (one, two, three):
            assert hear(process) == "ready"
        for process in (one, two, three):
            tell(process)
        answers = [[hear(process) for _ in range(20)] for process in (one, two, three)]
    claims = [day.count("True") for day in zip(*answers, strict=True)]
    assert set(claims) <= {0, 1}
    assert claims[-1] == 1, "whoever comes first to the last day"
