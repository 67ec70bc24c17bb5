"""Putting a whole store back: what is planned, what it comes to, and what is refused as a whole."""

from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memfs.model import ids
from memfs.model.errors import (
    HistoryGone,
    InvalidRequest,
    NotFound,
    PathConflict,
    PreconditionFailed,
    StoreArchived,
    WriteRefused,
)
from memfs.model.mutations import Create, Delete, KeepDirectory, Mutation, Update
from memfs.model.records import Actor, Guards, MemoryVersion, Store, format_time, now
from memfs.workspace import Workspace, memories
from memfs.workspace.restoring import Lost, RestorePlan, Step

RESTORER = Actor("user_actor", "bob")
State = dict[str, tuple[str, bytes | None]]


class Notes:
    """A store that is changed and put back."""

    def __init__(self, workspace: Workspace, store: Store, actor: Actor) -> None:
        self.workspace = workspace
        self.store = store
        self.actor = actor

    def apply(self, *mutations: Mutation) -> None:
        """Change the store, in one transaction."""
        self.workspace.memories.apply(self.store.id, mutations, self.actor)

    def create(self, path: str, content: bytes = b"text") -> str:
        """Make a memory; returns its id."""
        memory_id = ids.new_id(ids.MEMORY)
        self.apply(Create(memory_id, path, content))
        return memory_id

    def state(self) -> State:
        """What is in it: path to memory and content."""
        found = self.workspace.memories.list(self.store.id, content=True)
        return {memory.path: (memory.id, memory.content) for memory in found}

    def versions(self) -> list[MemoryVersion]:
        """The history, newest first."""
        return self.workspace.versions.list(self.store.id)

    def newest(self) -> str:
        """The version that the present is right after."""
        return self.versions()[0].id

    def plan(self, *, at: str | None = None, version_id: str | None = None) -> RestorePlan:
        """What a restore would do."""
        return self.workspace.restoring.plan(self.store.id, at=at, version_id=version_id)

    def restore(self, *, at: str | None = None, version_id: str | None = None, keep_lost: bool = False) -> int:
        """Plan and restore; returns the number of new versions, which must be there."""
        before = self.versions()
        plan = self.plan(at=at, version_id=version_id)
        made = self.workspace.restoring.restore(plan, RESTORER, keep_lost=keep_lost)
        after = self.versions()
        assert after[made:] == before, "history is only added to"
        assert {version.created_by for version in after[:made]} <= {RESTORER}
        return made


@pytest.fixture
def notes(workspace: Workspace, store: Store, actor: Actor) -> Notes:
    """A store that is changed and put back."""
    return Notes(workspace, store, actor)


def before(time: str) -> str:
    """A microsecond earlier."""
    return format_time(datetime.fromisoformat(time) - timedelta(microseconds=1))


def test_each_memory_takes_one_step_or_none(notes: Notes) -> None:
    kept, changed, renamed, both, gone = (
        notes.create(path, path.encode()) for path in ("/kept", "/changed", "/renamed", "/both", "/gone")
    )
    then, state = notes.newest(), notes.state()
    first = {version.memory_id: version.id for version in notes.versions()}
    notes.apply(
        Update(changed, content=b"new"),
        Update(renamed, path="/moved/renamed"),
        Update(both, content=b"new", path="/moved/both"),
        Delete(gone),
    )
    made = notes.create("/made")
    head = {memory.id: memory.memory_version_id for memory in notes.workspace.memories.list(notes.store.id)}
    plan = notes.plan(version_id=then)
    assert plan.steps == [
        Step("modify", both, "/both", "/moved/both", first[both], head[both]),
        Step("modify", changed, "/changed", None, first[changed], head[changed]),
        Step("create", gone, "/gone", None, first[gone], None),
        Step("delete", made, "/made", None, None, head[made]),
        Step("rename", renamed, "/renamed", "/moved/renamed", None, head[renamed]),
    ]
    assert (plan.unchanged, plan.lost) == (1, [])
    assert notes.restore(version_id=then) == 5
    assert notes.state() == state
    assert notes.state()["/kept"][0] == kept


def test_nothing_to_do_makes_no_version(notes: Notes) -> None:
    notes.create("/a")
    assert notes.plan(version_id=notes.newest()).steps == []
    assert notes.restore(version_id=notes.newest()) == 0
    assert notes.restore(at=now()) == 0


def test_a_change_that_was_taken_back_by_hand_is_none(notes: Notes) -> None:
    memory = notes.create("/a", b"one")
    then = notes.newest()
    notes.apply(Update(memory, content=b"two"))
    notes.apply(Update(memory, content=b"one"))
    assert notes.plan(version_id=then).unchanged == 1
    assert notes.restore(version_id=then) == 0


def test_restoring_twice_is_restoring_once_and_restoring_can_be_undone(notes: Notes) -> None:
    memory = notes.create("/a", b"one")
    then, state = notes.newest(), notes.state()
    notes.apply(Update(memory, content=b"two", path="/b"))
    notes.create("/a", b"another")
    later, later_state = notes.newest(), notes.state()
    assert notes.restore(version_id=then) == 2
    assert notes.restore(version_id=then) == 0
    assert notes.state() == state
    assert notes.restore(version_id=later) == 2
    assert notes.state() == later_state


def test_the_history_of_a_memory_goes_on(notes: Notes) -> None:
    memory = notes.create("/a", b"one")
    then = notes.newest()
    notes.apply(Delete(memory))
    notes.restore(version_id=then)
    assert [(version.operation, version.memory_id) for version in notes.versions()] == [
        ("created", memory),
        ("deleted", memory),
        ("created", memory),
    ]
    assert notes.workspace.memories.get(notes.store.id, "/a").content == b"one"


# Paths


def test_two_names_that_were_exchanged(notes: Notes) -> None:
    one, two = notes.create("/one", b"1"), notes.create("/two", b"2")
    then, state = notes.newest(), notes.state()
    notes.apply(Update(one, path="/two"), Update(two, path="/one"))
    assert [step.action for step in notes.plan(version_id=then).steps] == ["rename", "rename"]
    assert notes.restore(version_id=then) == 2
    assert notes.state() == state


def test_halfway_through_a_transaction_there_was_no_state(notes: Notes) -> None:
    one, two = notes.create("/one", b"1"), notes.create("/two", b"2")
    notes.apply(Update(one, path="/two"), Update(two, path="/one"))
    exchanged = notes.state()
    halves = [version.id for version in notes.versions()[:2]]
    notes.apply(Delete(one), Delete(two))
    for half in halves:
        notes.restore(version_id=half)
        assert notes.state() == exchanged
        notes.apply(Delete(one), Delete(two))


def test_a_memory_that_moved_into_a_directory_where_another_was_deleted(notes: Notes) -> None:
    mover, deleted = notes.create("/a", b"mover"), notes.create("/d/a", b"deleted")
    then, state = notes.newest(), notes.state()
    notes.apply(Update(mover, path="/d/a"), Delete(deleted))
    assert notes.restore(version_id=then) == 2
    assert notes.state() == state


@pytest.mark.parametrize(
    "then, since", [("/a", "/a"), ("/a", "/a/b"), ("/a/b", "/a"), ("/a/b/c", "/a"), ("/a", "/a/b/c")]
)
def test_a_memory_made_since_makes_room(notes: Notes, then: str, since: str) -> None:
    memory = notes.create(then, b"then")
    version, state = notes.newest(), notes.state()
    notes.apply(Delete(memory))
    notes.create(since, b"since")
    assert notes.restore(version_id=version) == 2
    assert notes.state() == state


@pytest.mark.parametrize("paths", [("/a", "/a/b"), ("/a/b", "/a")])
def test_a_memory_that_moved_below_or_above_its_own_path(notes: Notes, paths: tuple[str, str]) -> None:
    memory = notes.create(paths[0])
    then, state = notes.newest(), notes.state()
    notes.apply(Update(memory, path=paths[1]))
    assert notes.restore(version_id=then) == 1
    assert notes.state() == state


def test_a_directory_kept_since_gives_way(notes: Notes) -> None:
    memory = notes.create("/a")
    then, state = notes.newest(), notes.state()
    notes.apply(Delete(memory))
    notes.apply(KeepDirectory("/a/b"))
    assert notes.restore(version_id=then) == 1
    assert notes.state() == state


# Points in time


def test_a_time_is_inclusive(notes: Notes) -> None:
    notes.create("/a")
    one = notes.state()
    notes.create("/b")
    two = notes.state()
    time = notes.versions()[0].created_at
    notes.create("/c")
    notes.restore(at=time)
    assert notes.state() == two
    notes.restore(at=before(time))
    assert notes.state() == one


def test_a_time_when_the_store_was_empty(notes: Notes) -> None:
    notes.create("/a")
    assert notes.restore(at=notes.store.created_at) == 1
    assert notes.state() == {}


def test_a_time_before_the_store_or_still_to_come(notes: Notes) -> None:
    notes.create("/a")
    with pytest.raises(InvalidRequest, match="was made at"):
        notes.plan(at=before(notes.store.created_at))
    with pytest.raises(InvalidRequest, match="still to come"):
        notes.plan(at="9999-12-31T23:59:59.999999Z")
    assert len(notes.versions()) == 1


def test_a_version_that_is_none_of_the_store(notes: Notes) -> None:
    other = notes.workspace.stores.create("Other")
    elsewhere = Notes(notes.workspace, other, notes.actor)
    elsewhere.create("/a")
    for version_id in (elsewhere.newest(), ids.new_id(ids.MEMORY_VERSION), "memver_", "nothing", "\udcff"):
        with pytest.raises(NotFound) as raised:
            notes.plan(version_id=version_id)
        assert str(raised.value).isprintable()
    with pytest.raises(NotFound):
        notes.workspace.restoring.plan(ids.new_id(ids.MEMORY_STORE), at=now())


def test_another_store_is_left_alone(notes: Notes) -> None:
    elsewhere = Notes(notes.workspace, notes.workspace.stores.create("Other"), notes.actor)
    notes.create("/a")
    then = notes.newest()
    elsewhere.create("/a")
    notes.create("/b")
    state, versions = elsewhere.state(), elsewhere.versions()
    notes.restore(version_id=then)
    assert (elsewhere.state(), elsewhere.versions()) == (state, versions)


# All or nothing


def test_one_step_that_is_refused_leaves_all_undone(notes: Notes) -> None:
    small, large = notes.create("/small", b"s"), notes.create("/large", b"l" * 100)
    then = notes.newest()
    notes.apply(Delete(small), Delete(large))
    notes.create("/new")
    notes.workspace.stores.set_guards(notes.store.id, Guards(max_content_bytes=10))
    state, versions = notes.state(), notes.versions()
    with pytest.raises(WriteRefused):
        notes.restore(version_id=then)
    assert (notes.state(), notes.versions()) == (state, versions)
    notes.workspace.stores.set_guards(notes.store.id, Guards(allowed_paths=("/s*",)))
    with pytest.raises(WriteRefused, match="/large"):
        notes.restore(version_id=then)
    assert (notes.state(), notes.versions()) == (state, versions)


def test_a_text_that_is_masked_as_it_is_put_back(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    # A stand-in for the detectors, which are tested where they are: here it matters that a text is changed on its way.
    memory = notes.create("/a", b"my secret")
    then = notes.newest()
    notes.apply(Update(memory, content=b"nothing"))
    monkeypatch.setattr(memories, "guard_content", lambda guards, content: content.replace(b"secret", b"[removed]"))
    assert notes.restore(version_id=then) == 1
    assert notes.state() == {"/a": (memory, b"my [removed]")}
    assert len(notes.plan(version_id=then).steps) == 1
    assert notes.restore(version_id=then) == 0


def test_an_archived_store_is_only_planned_for(notes: Notes) -> None:
    notes.create("/a")
    then = notes.newest()
    notes.create("/b")
    notes.workspace.stores.archive(notes.store.id)
    plan = notes.plan(version_id=then)
    assert [step.action for step in plan.steps] == ["delete"]
    with pytest.raises(StoreArchived):
        notes.workspace.restoring.restore(plan, RESTORER)


def test_a_plan_holds_while_the_store_does_not_change(notes: Notes) -> None:
    memory = notes.create("/a")
    then = notes.newest()
    notes.apply(Update(memory, content=b"two"))
    plan = notes.plan(version_id=then)
    Notes(notes.workspace, notes.workspace.stores.create("Other"), notes.actor).create("/a")
    notes.create("/b")
    state = notes.state()
    with pytest.raises(PreconditionFailed):
        notes.workspace.restoring.restore(plan, RESTORER)
    assert notes.state() == state


def test_a_plan_does_not_hold_where_a_text_of_it_was_redacted(notes: Notes) -> None:
    memory = notes.create("/a", b"one")
    then = notes.newest()
    notes.apply(Update(memory, content=b"two"))
    plan = notes.plan(version_id=then)
    notes.workspace.versions.redact(notes.store.id, [then], notes.actor)
    with pytest.raises(PreconditionFailed, match="lost its content"):
        notes.workspace.restoring.restore(plan, RESTORER)


# What is lost


def test_what_was_redacted_is_lost(notes: Notes) -> None:
    live, deleted, other = (notes.create(path, path.encode()) for path in ("/live", "/deleted", "/other"))
    then = notes.newest()
    first = {version.memory_id: version.id for version in notes.versions()}
    notes.apply(Update(live, content=b"new", path="/moved"), Delete(deleted), Update(other, content=b"new"))
    notes.workspace.versions.redact(notes.store.id, [first[live], first[deleted]], notes.actor)
    state = notes.state()
    plan = notes.plan(version_id=then)
    reason = "its version of that time was redacted"
    assert sorted(plan.lost, key=lambda lost: lost.path or "") == [
        Lost(deleted, None, reason),
        Lost(live, "/moved", reason),
    ]
    assert [step.memory_id for step in plan.steps] == [other]
    with pytest.raises(HistoryGone, match="2 memories"):
        notes.restore(version_id=then)
    assert notes.state() == state
    assert notes.restore(version_id=then, keep_lost=True) == 1
    assert notes.state() == {"/moved": (live, b"new"), "/other": (other, b"/other")}


def test_a_redacted_deletion_is_still_one(notes: Notes) -> None:
    memory = notes.create("/a")
    notes.apply(Delete(memory))
    then = notes.newest()
    notes.apply(Create(memory, "/a", b"again"))
    notes.workspace.versions.redact(notes.store.id, [then], notes.actor)
    assert notes.plan(version_id=then).lost == []
    assert notes.restore(version_id=then) == 1
    assert notes.state() == {}


def test_what_was_pruned_is_lost(notes: Notes) -> None:
    old, same = notes.create("/old", b"1"), notes.create("/same", b"same")
    then = notes.versions()[0].created_at
    notes.apply(Update(old, content=b"2"))
    notes.apply(Update(old, content=b"3"))
    new = notes.create("/new")
    assert notes.workspace.retention.prune(notes.store.id, now()) == 2
    state = notes.state()
    plan = notes.plan(at=then)
    assert plan.lost == [Lost(old, "/old", "its history of that time was pruned")]
    assert [step.memory_id for step in plan.steps] == [new]
    assert plan.unchanged == 1
    with pytest.raises(HistoryGone, match="/old"):
        notes.restore(at=then)
    assert notes.state() == state
    assert notes.restore(at=then, keep_lost=True) == 1
    assert notes.state() == {"/old": (old, b"3"), "/same": (same, b"same")}


def test_what_was_pruned_is_lost_also_where_it_was_deleted_and_made_again(notes: Notes) -> None:
    """It would be deleted else, for having been made after that time."""
    twice = notes.create("/twice", b"one")
    other = notes.create("/other", b"other")
    then = notes.versions()[0].created_at
    notes.apply(Delete(twice))
    gone = notes.versions()[0].created_at
    notes.apply(Create(twice, "/twice", b"two"))
    notes.apply(Update(twice, content=b"three"))
    notes.apply(Update(other, content=b"another"))
    assert notes.workspace.retention.prune(notes.store.id, gone) == 2
    plan = notes.plan(at=then)
    reason = "its history of that time was pruned"
    assert sorted(lost.memory_id for lost in plan.lost) == sorted([twice, other])
    assert {lost.reason for lost in plan.lost} == {reason}
    assert plan.steps == []


def test_what_was_pruned_before_that_time_is_not_missed(notes: Notes) -> None:
    memory = notes.create("/a", b"1")
    notes.apply(Update(memory, content=b"2"))
    then, state = notes.newest(), notes.state()
    notes.workspace.retention.prune(notes.store.id, now())
    notes.apply(Update(memory, content=b"3"))
    assert notes.restore(version_id=then) == 1
    assert notes.state() == state


def test_what_is_lost_can_be_in_the_way(notes: Notes) -> None:
    one, two = notes.create("/a", b"one"), notes.create("/b", b"two")
    then = notes.newest()
    notes.apply(Update(one, path="/c"))
    notes.apply(Update(two, path="/a/x"))
    notes.workspace.versions.redact(notes.store.id, [then], notes.actor)
    state = notes.state()
    with pytest.raises(PathConflict, match="/a/x cannot be put back and is in the way") as raised:
        notes.restore(version_id=then, keep_lost=True)
    assert raised.value.conflicting_memory_id == two
    assert notes.state() == state
    notes.apply(Update(two, path="/elsewhere"))
    assert notes.restore(version_id=then, keep_lost=True) == 1
    assert notes.state() == {"/a": (one, b"one"), "/elsewhere": (two, b"two")}


# Any history

PATHS = ("/a", "/b", "/a/a", "/a/b", "/b/a", "/b/a/c")
paths = st.sampled_from(PATHS)
texts = st.sampled_from((b"", b"1", b"2"))
numbers = st.integers(0, 5)
operations = st.one_of(
    st.tuples(st.just("create"), paths, texts),
    st.tuples(st.just("modify"), numbers, texts),
    st.tuples(st.just("rename"), numbers, paths),
    st.tuples(st.just("save"), numbers, paths, texts),
    st.tuples(st.just("exchange"), numbers, numbers),
    st.tuples(st.just("delete"), numbers),
    st.tuples(st.just("keep"), paths),
    st.tuples(st.just("restore"), numbers),
)


def mutations(operation: tuple[str | int | bytes, ...], state: State) -> list[Mutation]:
    """What an operation means for a store in this state; a number stands for one of its memories."""
    listed = [(memory_id, path) for path, (memory_id, _) in state.items()]
    match operation:
        case "create", str(path), bytes(content):
            return [Create(ids.new_id(ids.MEMORY), path, content)]
        case "keep", str(path):
            return [KeepDirectory(path)]
        case name, int(number), *rest if listed:
            memory_id, old = listed[number % len(listed)]
            match name, rest:
                case "modify", [bytes(content)]:
                    return [Update(memory_id, content=content)]
                case "rename", [str(path)]:
                    return [Update(memory_id, path=path)]
                case "save", [str(path), bytes(content)]:
                    return [Delete(memory_id), Create(ids.new_id(ids.MEMORY), path, content)]
                case "exchange", [int(second)] if (other := listed[second % len(listed)])[0] != memory_id:
                    return [Update(memory_id, path=other[1]), Update(other[0], path=old)]
                case "delete", _:
                    return [Delete(memory_id)]
    return []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(operations, min_size=2, max_size=20))
def test_any_remembered_state_comes_back(
    workspace: Workspace, actor: Actor, operations: list[tuple[str | int | bytes, ...]]
) -> None:
    notes = Notes(workspace, workspace.stores.create("Notes"), actor)
    remembered: list[tuple[MemoryVersion, State]] = []
    for operation in operations:
        if operation[0] == "restore" and remembered:
            assert isinstance(operation[1], int)
            notes.restore(version_id=remembered[operation[1] % len(remembered)][0].id)
        else:
            with suppress(PathConflict):
                notes.apply(*mutations(operation, notes.state()))
        versions = notes.versions()
        if versions and (not remembered or versions[0] != remembered[-1][0]):
            remembered.append((versions[0], notes.state()))
    for version, state in remembered:
        by_version, by_time = notes.plan(version_id=version.id), notes.plan(at=version.created_at)
        assert by_version == by_time
        assert by_version.unchanged + sum(step.action != "delete" for step in by_version.steps) == len(state)
        assert notes.restore(version_id=version.id) == len(by_version.steps)
        assert notes.state() == state
        assert notes.restore(version_id=version.id) == 0
