"""The rules for stores (CONTRACT.md 1), and finding one by what a person calls it."""

from typing import Any

import pytest

from memfs.model import ids
from memfs.model.errors import AmbiguousName, HistoryGone, InvalidRequest, NotFound, StoreArchived
from memfs.model.mutations import Create, KeepDirectory, Update
from memfs.model.records import Actor, FileAttributes, Guards, Snapshot, Store
from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource


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


# Updating


def test_an_update_keeps_what_it_does_not_name(workspace: Workspace) -> None:
    store = workspace.stores.create("Name", "Description", {"kept": "1", "gone": "2", "changed": "3"})
    renamed = workspace.stores.update(store.id, name="New")
    assert (renamed.name, renamed.description, renamed.metadata) == ("New", "Description", store.metadata)
    assert renamed.updated_at > store.updated_at
    assert renamed.created_at == store.created_at
    cleared = workspace.stores.update(
        store.id, description="", metadata={"gone": None, "never": None, "changed": "", "new": "é"}
    )
    assert (cleared.name, cleared.description) == ("New", "")
    assert cleared.metadata == {"kept": "1", "changed": "", "new": "é"}
    assert workspace.stores.get(store.id) == cleared


def test_an_update_that_changes_nothing_is_none(workspace: Workspace) -> None:
    store = workspace.stores.create("Name", "Description", {"k": "v"})
    changes: list[dict[str, Any]] = [{}, {"name": "Name"}, {"metadata": {}}, {"metadata": {"k": "v", "never": None}}]
    for change in changes:
        assert workspace.stores.update(store.id, **change) == store


def test_the_limits_of_metadata_are_those_of_the_result(workspace: Workspace) -> None:
    store = workspace.stores.create("Name", "", {f"k{i}": "v" for i in range(16)})
    with pytest.raises(InvalidRequest, match="16"):
        workspace.stores.update(store.id, metadata={"one more": "v"})
    updated = workspace.stores.update(store.id, metadata={"one more": "v", "k0": None})
    assert len(updated.metadata) == 16


def test_a_running_session_keeps_the_name_and_description_of_its_beginning(workspace: Workspace) -> None:
    store = workspace.stores.create("Old", "Before")
    session = workspace.sessions.create([Resource(store)], "/mnt/memory")
    workspace.stores.update(store.id, name="New", description="After")
    (attachment,) = workspace.sessions.get(session.id).attachments
    assert (attachment.name, attachment.description, attachment.mount_path) == ("Old", "Before", "/mnt/memory/old")


# Archiving


def test_archiving_is_for_ever_and_twice_is_once(workspace: Workspace, store: Store) -> None:
    archived = workspace.stores.archive(store.id)
    assert archived.archived_at == archived.updated_at
    assert workspace.stores.archive(store.id) == archived
    with pytest.raises(StoreArchived):
        workspace.stores.update(store.id)


def test_an_archived_store_can_be_read_emptied_redacted_copied_and_deleted(
    workspace: Workspace, store: Store, actor: Actor
) -> None:
    """CONTRACT.md 2; but nothing in it can be made or changed."""
    memory = workspace.memories.create(store.id, "/a", b"one", actor)
    workspace.memories.update(store.id, "/a", actor, content=b"two")
    archived = workspace.stores.archive(store.id)
    for refused in (
        lambda: workspace.memories.create(store.id, "/b", b"", actor),
        lambda: workspace.memories.update(store.id, "/a", actor, content=b"three"),
        lambda: workspace.memories.update(store.id, "/a", actor, content=b"two"),
        lambda: workspace.memories.update(store.id, "/a", actor, path="/b"),
        lambda: workspace.versions.restore(store.id, memory.memory_version_id, actor),
        lambda: workspace.sessions.create([Resource(archived)], "/mnt/memory"),
        lambda: workspace.attached(store.id, actor, "read_write").commit([Update(memory.id, content=b"x")]),
    ):
        with pytest.raises(StoreArchived):
            refused()
    copy = workspace.stores.copy(store.id, "Copy", actor)
    assert copy.archived_at is None
    assert workspace.memories.get(copy.id, "/a").content == b"two"
    assert workspace.memories.get(store.id, "/a").content == b"two"
    workspace.versions.redact(store.id, [memory.memory_version_id], actor)
    assert workspace.memories.delete(store.id, "/a", actor).path == "/a"
    with pytest.raises(StoreArchived):
        workspace.versions.restore(store.id, workspace.versions.list(store.id)[1].id, actor)
    workspace.stores.delete(store.id)
    assert workspace.stores.list(include_archived=True) == [copy]


# Copying


def test_a_copy_has_everything_but_the_history(workspace: Workspace, store: Store, actor: Actor) -> None:
    source = workspace.stores.update(store.id, description="What they like", metadata={"k": "v"})
    source = workspace.stores.set_guards(store.id, Guards(max_content_bytes=100))
    first = ids.new_id(ids.MEMORY)
    workspace.memories.apply(
        store.id,
        [
            Create(first, "/d/a", b"old", FileAttributes(mode=0o600, mtime_ns=5, inode=42)),
            Create(ids.new_id(ids.MEMORY), "/b", b"b"),
            KeepDirectory("/d", FileAttributes(mode=0o700, mtime_ns=7, inode=43)),
            KeepDirectory("/empty/deep"),
        ],
        Actor("session_actor", ids.new_id(ids.SESSION)),
    )
    workspace.memories.update(store.id, first, actor, content=b"new")
    workspace.attached(store.id, actor, "read_write").commit([Update(first, attributes=FileAttributes(mtime_ns=9))])
    before = workspace.engine.snapshot(store.id)
    copy = workspace.stores.copy(store.id, "Copy", actor)
    assert workspace.engine.snapshot(store.id).heads == before.heads
    snapshot = workspace.engine.snapshot(copy.id)
    assert snapshot.store == copy
    assert (copy.name, copy.description, copy.metadata, copy.guards) == (
        "Copy",
        source.description,
        source.metadata,
        source.guards,
    )
    assert copy.created_at == copy.updated_at > source.created_at
    heads = {head.path: head for head in snapshot.heads}
    assert {path: workspace.engine.content(head.version_id) for path, head in heads.items()} == {
        "/d/a": b"new",
        "/b": b"b",
    }
    # An inode number is of one mount's file; what people set is theirs.
    assert heads["/d/a"].attributes == FileAttributes(mode=0o600, mtime_ns=9)
    assert [(each.path, each.attributes) for each in snapshot.directories] == [
        ("/d", FileAttributes(mode=0o700, mtime_ns=7)),
        ("/empty/deep", FileAttributes()),
    ]
    assert not {head.memory_id for head in before.heads} & {head.memory_id for head in snapshot.heads}
    versions = workspace.versions.list(copy.id)
    assert [(v.operation, v.created_by) for v in versions] == [("created", actor)] * 2
    workspace.memories.update(copy.id, "/b", actor, content=b"changed")
    assert workspace.memories.get(store.id, "/b").content == b"b", "they are apart from then on"


def test_a_copy_that_cannot_be_is_not_made(workspace: Workspace, store: Store, actor: Actor) -> None:
    for name, description in (("", None), ("x" * 256, None), ("Copy", "d" * 1_025), ("a\nb", None)):
        with pytest.raises(InvalidRequest):
            workspace.stores.copy(store.id, name, actor, description=description)
    with pytest.raises(NotFound):
        workspace.stores.copy(ids.new_id(ids.MEMORY_STORE), "Copy", actor)
    assert workspace.stores.list() == [store]
    assert workspace.stores.copy(store.id, store.name, actor, description="").description == ""


# Deleting


def test_a_deleted_store_is_gone_for_whoever_has_it(workspace: Workspace, store: Store, actor: Actor) -> None:
    memory = workspace.memories.create(store.id, "/a", b"text", actor)
    attached = workspace.attached(store.id, actor, "read_write")
    sequence = attached.snapshot().sequence
    workspace.stores.delete(store.id)
    for ask in (
        attached.snapshot,
        lambda: attached.changes(sequence),
        lambda: attached.content(memory.memory_version_id),
        lambda: attached.commit([Update(memory.id, content=b"new")]),
        lambda: workspace.stores.get(store.id),
        lambda: workspace.stores.resolve(store.name),
        lambda: workspace.stores.delete(store.id),
        lambda: workspace.stores.archive(store.id),
        lambda: workspace.memories.get(store.id, "/a"),
        lambda: workspace.versions.get(store.id, memory.memory_version_id),
        lambda: workspace.versions.restore(store.id, memory.memory_version_id, actor),
    ):
        with pytest.raises(NotFound):
            ask()
    attached.note_access(memory.id)
    workspace.accesses.record()


def test_a_copy_of_what_is_redacted_meanwhile_says_to_run_it_again(
    workspace: Workspace, store: Store, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = workspace.memories.create(store.id, "/a", b"secret", actor).memory_version_id
    seen = workspace.engine.snapshot

    def seen_then_redacted(store_id: str) -> Snapshot:
        snapshot = seen(store_id)
        workspace.memories.update(store.id, "/a", actor, content=b"harmless")
        workspace.versions.redact(store.id, [head], actor)
        return snapshot

    monkeypatch.setattr(workspace.engine, "snapshot", seen_then_redacted)
    with pytest.raises(HistoryGone, match=r"/a held .*: run the command again"):
        workspace.stores.copy(store.id, "Copy", actor)
    assert workspace.stores.list() == [store]
