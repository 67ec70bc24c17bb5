"""The rules for memories, whoever writes, and their history as the workspace gives it."""

from collections.abc import Callable

import pytest

from memfs.model import ids
from memfs.model.errors import (
    ContentNotText,
    ContentTooLarge,
    InvalidPath,
    InvalidRequest,
    MemfsError,
    NotFound,
    PathTooLong,
    ReadOnly,
    StoreArchived,
)
from memfs.model.mutations import Create, Delete, KeepDirectory, MoveDirectory, Mutation, SetAttributes, Update
from memfs.model.records import MAX_CONTENT_BYTES, Actor, FileAttributes, Memory, Store
from memfs.workspace import Workspace


def create(workspace: Workspace, store: Store, actor: Actor, path: str, content: bytes = b"text\n") -> str:
    memory_id = ids.new_id(ids.MEMORY)
    workspace.memories.apply(store.id, [Create(memory_id, path, content)], actor)
    return memory_id


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\xef\xbb\xbfwith a BOM\r\n",
        b"x" * MAX_CONTENT_BYTES,
        "\U0001f600".encode() * (MAX_CONTENT_BYTES // 4),
        "\U0010ffff\ue000\u2028".encode(),
    ],
)
def test_any_utf8_text_of_up_to_102_400_bytes(workspace: Workspace, store: Store, actor: Actor, content: bytes) -> None:
    create(workspace, store, actor, "/a", content)
    assert workspace.memories.get(store.id, "/a").content == content


@pytest.mark.parametrize(
    "content, error",
    [
        (b"x" * (MAX_CONTENT_BYTES + 1), ContentTooLarge),
        (b"\xff" * (MAX_CONTENT_BYTES + 1), ContentTooLarge),
        (b"\xff", ContentNotText),
        (b"text \xe9", ContentNotText),
        ("é".encode()[:1], ContentNotText),
        (b"\xed\xa0\x80", ContentNotText),  # a surrogate
        (b"\xc0\x80", ContentNotText),  # NUL, overlong
        ("x".encode("utf-16"), ContentNotText),
    ],
)
def test_nothing_else(
    workspace: Workspace, store: Store, actor: Actor, content: bytes, error: type[MemfsError]
) -> None:
    memory_id = create(workspace, store, actor, "/a")
    for mutation in (Create(ids.new_id(ids.MEMORY), "/b", content), Update(memory_id, content=content)):
        with pytest.raises(error) as raised:
            workspace.memories.apply(store.id, [mutation], actor)
        assert type(raised.value) is error
    assert len(workspace.versions.list(store.id)) == 1


@pytest.mark.parametrize(
    "mutation",
    [
        lambda memory_id, path: Create(ids.new_id(ids.MEMORY), path, b""),
        lambda memory_id, path: Update(memory_id, path=path),
        lambda memory_id, path: KeepDirectory(path),
        lambda memory_id, path: MoveDirectory("/d", path),
    ],
    ids=["create", "rename", "mkdir", "move a directory"],
)
def test_every_new_path_is_checked(
    workspace: Workspace, store: Store, actor: Actor, mutation: Callable[[str, str], Mutation]
) -> None:
    memory_id = create(workspace, store, actor, "/a")
    workspace.memories.apply(store.id, [KeepDirectory("/d")], actor)
    for path, error in (("no-slash", InvalidPath), ("/b/../c", InvalidPath), ("/" + "x" * 1_024, PathTooLong)):
        with pytest.raises(error):
            workspace.memories.apply(store.id, [mutation(memory_id, path)], actor)
    assert [memory.path for memory in workspace.memories.list(store.id)] == ["/a"]


def test_a_batch_changes_each_memory_once(workspace: Workspace, store: Store, actor: Actor) -> None:
    memory_id = create(workspace, store, actor, "/a", b"one")
    update = Update(memory_id, content=b"two")
    batches: list[list[Mutation]] = [
        [update, Update(memory_id, path="/b")],
        [Delete(memory_id), update],
        [Delete(memory_id), Delete(memory_id)],
        [Create("mem_1", "/b", b""), Update("mem_1", content=b"x")],
    ]
    for batch in batches:
        with pytest.raises(InvalidRequest, match="once at most"):
            workspace.memories.apply(store.id, batch, actor)
    assert len(workspace.versions.list(store.id)) == 1
    workspace.memories.apply(store.id, [update, SetAttributes(memory_id, FileAttributes(mode=0o600))], actor)


def test_a_memory_is_found_by_path_or_id(workspace: Workspace, store: Store, actor: Actor) -> None:
    memory_id = create(workspace, store, actor, "/a/b")
    assert workspace.memories.get(store.id, "/a/b") == workspace.memories.get(store.id, memory_id)
    with pytest.raises(NotFound):
        workspace.memories.get(store.id, "/a")
    with pytest.raises(InvalidPath):
        workspace.memories.get(store.id, "a/b")
    with pytest.raises(InvalidPath):
        workspace.memories.get(store.id, "/\udcff")


@pytest.mark.parametrize("way", ["update", "delete"])
def test_what_is_written_is_what_is_at_the_path_then(
    workspace: Workspace, store: Store, actor: Actor, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """As when a log is rotated: the old one moves away, and a new one is there, between finding and writing."""
    old = create(workspace, store, actor, "/log", b"old")
    new = ids.new_id(ids.MEMORY)
    find = workspace.engine.memory_at
    moves: list[list[Mutation]] = [[Update(old, path="/log.1"), Create(new, "/log", b"new")]]

    def found_then_moved(store_id: str, path: str) -> Memory:
        found = find(store_id, path)
        if moves:
            workspace.memories.apply(store_id, moves.pop(), actor)
        return found

    monkeypatch.setattr(workspace.engine, "memory_at", found_then_moved)

    def write() -> str:
        if way == "update":
            return workspace.memories.update(store.id, "/log", actor, content=b"newer").memory.id
        return workspace.memories.delete(store.id, "/log", actor).id

    assert write() == new
    assert workspace.memories.get(store.id, old).content == b"old"
    # Where nothing takes its place, nothing is there.
    if way == "delete":
        new = create(workspace, store, actor, "/log")
    moves.append([Update(new, path="/log.2")])
    with pytest.raises(NotFound, match=r"no memory at /log$"):
        write()
    assert [memory.path for memory in workspace.memories.list(store.id)] == ["/log.1", "/log.2"]
    # By its id a memory is meant wherever it is.
    assert workspace.memories.update(store.id, old, actor, content=b"older").memory.path == "/log.1"


def test_a_list_takes_a_prefix_of_whole_segments(workspace: Workspace, store: Store, actor: Actor) -> None:
    for path in ("/a/b", "/ab", "/a/c/d"):
        create(workspace, store, actor, path)
    assert [memory.path for memory in workspace.memories.list(store.id, "/a/")] == ["/a/b", "/a/c/d"]
    with pytest.raises(InvalidRequest):
        workspace.memories.list(store.id, "/a")


def test_a_history_is_found_by_a_former_path(workspace: Workspace, store: Store, actor: Actor) -> None:
    memory_id = create(workspace, store, actor, "/a")
    workspace.memories.apply(store.id, [Update(memory_id, path="/b")], actor)
    workspace.memories.apply(store.id, [Delete(memory_id)], actor)
    for text in ("/a", "/b", memory_id):
        assert workspace.versions.memory_id(store.id, text) == memory_id
    assert workspace.versions.memory_id(store.id, "/c") is None
    for text in ("c", "/\udcff", "mem_"):
        with pytest.raises(InvalidPath):
            workspace.versions.memory_id(store.id, text)


@pytest.mark.parametrize("text", ["", "memver_", "mem_01M8NMQFRP7HNTABQQHZR3KZM6", "\udcff", "/a"])
def test_what_is_no_version_is_not_found(workspace: Workspace, store: Store, text: str) -> None:
    with pytest.raises(NotFound) as raised:
        workspace.versions.get(store.id, text)
    assert str(raised.value).isprintable()


def test_a_store_attached_read_only_can_only_be_read(workspace: Workspace, store: Store, actor: Actor) -> None:
    memory_id = create(workspace, store, actor, "/a", b"one")
    reader = workspace.attached(store.id, actor, "read_only")
    snapshot = reader.snapshot()
    assert reader.content(snapshot.heads[0].version_id) == b"one"
    with pytest.raises(ReadOnly):
        reader.commit([Update(memory_id, content=b"two")])
    assert reader.changes(snapshot.sequence).heads == {}


def test_a_store_attached_read_write_attributes_its_changes(workspace: Workspace, store: Store) -> None:
    session = Actor("session_actor", ids.new_id(ids.SESSION))
    attached = workspace.attached(store.id, session, "read_write")
    applied = attached.commit([Create(ids.new_id(ids.MEMORY), "/a", b"one")])
    attached.sync()
    assert attached.changes(applied.previous).heads == applied.heads
    assert [version.created_by for version in workspace.versions.list(store.id)] == [session]


def test_a_store_that_is_archived_while_attached_refuses(workspace: Workspace, store: Store, actor: Actor) -> None:
    attached = workspace.attached(store.id, actor, "read_write")
    workspace.stores.archive(store.id)
    with pytest.raises(StoreArchived):
        attached.commit([Create(ids.new_id(ids.MEMORY), "/a", b"one")])


def test_of_two_that_restore_a_deleted_memory_at_once_both_do(
    workspace: Workspace, store: Store, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second finds it deleted, and then there again."""
    memory = workspace.memories.create(store.id, "/a", b"one", actor)
    newer = workspace.memories.update(store.id, "/a", actor, content=b"two").memory
    workspace.memories.delete(store.id, "/a", actor)
    find = workspace.engine.store
    others = [memory.memory_version_id]

    def found_while_another_restores(store_id: str) -> Store:
        if others:
            workspace.versions.restore(store_id, others.pop(), actor)
        return find(store_id)

    monkeypatch.setattr(workspace.engine, "store", found_while_another_restores)
    written = workspace.versions.restore(store.id, newer.memory_version_id, actor)
    assert not others
    assert (written.memory.id, written.memory.content, written.changed) == (memory.id, b"two", True)
    operations = [version.operation for version in workspace.versions.list(store.id)]
    assert operations == ["modified", "created", "deleted", "modified", "created"]
    assert workspace.memories.get(store.id, "/a") == written.memory
