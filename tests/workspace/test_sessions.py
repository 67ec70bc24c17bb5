"""The rules for sessions: which stores, how many, and where they are mounted (CONTRACT.md 3)."""

import pytest

from memfs.model import ids
from memfs.model.errors import InvalidRequest, NotFound, SessionArchived, StoreArchived, TooManyStores
from memfs.model.records import Store
from memfs.workspace import SessionFilter, Workspace
from memfs.workspace.sessions import Resource, SessionDescription

ROOT = "/mnt/memory"


def test_a_session_remembers_its_stores_as_they_were(workspace: Workspace) -> None:
    notes = workspace.stores.create("Notes", "All of them")
    rules = workspace.stores.create("Team rules")
    session = workspace.sessions.create(
        [Resource(notes), Resource(rules, "read_only", instructions="Follow them.")], ROOT
    )
    assert ids.is_id(session.id, ids.SESSION)
    first, second = session.attachments
    assert (first.memory_store_id, first.access, first.instructions) == (notes.id, "read_write", "")
    assert (first.name, first.description, first.mount_path) == ("Notes", "All of them", "/mnt/memory/notes")
    assert (second.access, second.instructions) == ("read_only", "Follow them.")
    assert second.mount_path == "/mnt/memory/team-rules"
    assert workspace.sessions.get(session.id) == session
    workspace.sessions.end(session.id)
    assert workspace.sessions.get(session.id).ended_at is not None


def test_equal_slugs_get_numbers_in_the_order_of_attachment(workspace: Workspace) -> None:
    stores = [workspace.stores.create(name) for name in ("Notes", "notes", "NOTES!", "日本語")]
    session = workspace.sessions.create([Resource(store) for store in reversed(stores)], ROOT + "/")
    assert [attachment.mount_path for attachment in session.attachments] == [
        f"/mnt/memory/store-{stores[3].id[-8:].lower()}",
        "/mnt/memory/notes",
        "/mnt/memory/notes-2",
        "/mnt/memory/notes-3",
    ]


def test_eight_stores_and_not_nine(workspace: Workspace) -> None:
    stores = [workspace.stores.create(f"Store {number}") for number in range(9)]
    assert len(workspace.sessions.create([Resource(store) for store in stores[:8]], ROOT).attachments) == 8
    with pytest.raises(TooManyStores):
        workspace.sessions.create([Resource(store) for store in stores], ROOT)


def test_a_session_needs_a_store(workspace: Workspace) -> None:
    with pytest.raises(InvalidRequest):
        workspace.sessions.create([], ROOT)


def test_no_store_is_attached_twice(workspace: Workspace) -> None:
    store = workspace.stores.create("Notes")
    with pytest.raises(InvalidRequest, match="twice"):
        workspace.sessions.create([Resource(store), Resource(store, "read_only")], ROOT)


def test_an_archived_store_is_not_attached(workspace: Workspace) -> None:
    live = workspace.stores.create("Live")
    archived = workspace.stores.archive(workspace.stores.create("Old").id)
    with pytest.raises(StoreArchived):
        workspace.sessions.create([Resource(live), Resource(archived, "read_only")], ROOT)


def test_instructions_have_at_most_4_096_characters(workspace: Workspace) -> None:
    store = workspace.stores.create("Notes")
    workspace.sessions.create([Resource(store, instructions="é" * 4_096)], ROOT)
    with pytest.raises(InvalidRequest):
        workspace.sessions.create([Resource(store, instructions="é" * 4_097)], ROOT)


def test_a_session_can_have_an_id_that_somebody_else_made(workspace: Workspace) -> None:
    store = workspace.stores.create("Notes")
    session_id = ids.new_id(ids.SESSION)
    assert workspace.sessions.create([Resource(store)], ROOT, session_id).id == session_id
    for text in ("", "mine", "sesn_", session_id.lower(), ids.new_id(ids.MEMORY), "\udcff"):
        with pytest.raises(InvalidRequest):
            workspace.sessions.create([Resource(store)], ROOT, text)


@pytest.mark.parametrize("text", ["", "sesn_", "sesn_01M8NMQFRP7HNTABQQHZR3KZM6", "\udcff"])
def test_what_is_no_session_is_not_found(workspace: Workspace, text: str) -> None:
    with pytest.raises(NotFound):
        workspace.sessions.get(text)


def test_what_is_said_of_a_session_is_given_back(workspace: Workspace, store: Store) -> None:
    said = SessionDescription("Tuesday", {"ticket": "4711"}, "agent_1", 3, "env_1")
    session = workspace.sessions.create([Resource(store)], description=said)
    assert session.attachments[0].mount_path == "/mnt/memory/user-preferences"
    found = workspace.sessions.get(session.id)
    assert found == session
    assert (found.title, found.metadata, found.environment_id) == ("Tuesday", {"ticket": "4711"}, "env_1")
    assert (found.agent_id, found.agent_version) == ("agent_1", 3)


@pytest.mark.parametrize(
    "said",
    [
        SessionDescription("x" * 513),
        SessionDescription("\ud800"),
        SessionDescription(agent_id="x" * 513),
        SessionDescription(environment_id="\ud800"),
        SessionDescription(metadata={"": "x"}),
        SessionDescription(metadata={"x" * 65: "x"}),
        SessionDescription(metadata={"x": "x" * 513}),
        SessionDescription(metadata={str(number): "x" for number in range(17)}),
        SessionDescription(metadata={"x": "\ud800"}),
    ],
)
def test_what_cannot_be_said_of_a_session(workspace: Workspace, store: Store, said: SessionDescription) -> None:
    with pytest.raises(InvalidRequest):
        workspace.sessions.create([Resource(store)], description=said)
    assert workspace.sessions.list(SessionFilter()) == []


def test_an_archived_session_is_not_taken_up(workspace: Workspace, store: Store) -> None:
    session = workspace.sessions.create([Resource(store)], ROOT)
    workspace.sessions.end(session.id)
    assert workspace.sessions.take_up([], ROOT, session.id) == (session, True), (
        "one that ended may go on, and end again"
    )
    assert workspace.sessions.get(session.id).ended_at is None
    assert workspace.sessions.take_up([], ROOT, session.id)[1] is False, "one that goes on is for others to end"
    archived = workspace.sessions.archive(session.id)
    assert archived.archived_at is not None
    assert workspace.sessions.archive(session.id) == archived == workspace.sessions.get(session.id)
    with pytest.raises(SessionArchived, match="begin another"):
        workspace.sessions.take_up([], ROOT, session.id)
    with pytest.raises(NotFound):
        workspace.sessions.archive("sesn_x")


def test_a_session_goes_on_when_a_store_of_it_is_archived_and_ends_with_the_last_one(workspace: Workspace) -> None:
    one, two = workspace.stores.create("One"), workspace.stores.create("Two")
    session = workspace.sessions.create([Resource(one), Resource(two)], ROOT)
    workspace.stores.archive(one.id)
    assert workspace.sessions.take_up([], ROOT, session.id) == (session, False)
    workspace.stores.delete(one.id)
    left, _ = workspace.sessions.take_up([], ROOT, session.id)
    assert [attachment.memory_store_id for attachment in left.attachments] == [two.id]
    workspace.stores.delete(two.id)
    with pytest.raises(InvalidRequest, match="are deleted: begin another"):
        workspace.sessions.take_up([], ROOT, session.id)
