"""Opening stores for the memory tool: where each is, who its changes are by, and how it ends."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from memfs.engine import VersionFilter
from memfs.model import ids
from memfs.model.errors import (
    AmbiguousName,
    InvalidRequest,
    MemfsError,
    NotFound,
    StoreArchived,
    TooManyStores,
    UnusableDatabase,
)
from memfs.model.mutations import Create
from memfs.model.records import Actor, Store
from memfs.tool import SDK, OpenMemory, ToolResult, open_memory, session
from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource
from tests.processes import hear, python

VIEW = {"command": "view", "path": "/memories"}
HEADER = (
    "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"
)


def create(path: str, text: str = "x\n") -> dict[str, str]:
    return {"command": "create", "path": path, "file_text": text}


def authors(workspace: Workspace, store: Store) -> set[Actor]:
    return {version.created_by for version in workspace.versions.list(store.id, VersionFilter(), limit=100)}


# Where the stores are


def test_one_store_fills_the_memory(workspace: Workspace, store: Store, db: Path) -> None:
    with open_memory(db, ["User preferences"]) as memory:
        assert memory.handle(VIEW) == ToolResult(HEADER + "0B\t/memories")
        assert not memory.handle(create("/memories/a/b.md")).is_error
        assert {path: attachment.memory_store_id for path, attachment in memory.roots.items()} == {
            "/memories": store.id
        }
    assert [found.path for found in workspace.memories.list(store.id)] == ["/a/b.md"]


def test_several_have_directories_named_by_their_slugs(workspace: Workspace, store: Store, db: Path) -> None:
    rules, twin = workspace.stores.create("Team rules"), workspace.stores.create("Team Rules!")
    with open_memory(db, [store.id, (rules.id, "read_only"), (twin.id, "read_write")]) as memory:
        assert memory.handle(VIEW) == ToolResult(
            HEADER
            + "0B\t/memories\n0B\t/memories/team-rules\n0B\t/memories/team-rules-2\n0B\t/memories/user-preferences"
        )
        assert {path: attachment.name for path, attachment in memory.roots.items()} == {
            "/memories/user-preferences": "User preferences",
            "/memories/team-rules": "Team rules",
            "/memories/team-rules-2": "Team Rules!",
        }
        assert not memory.handle(create("/memories/user-preferences/a.md")).is_error
        assert not memory.handle(create("/memories/team-rules-2/a.md")).is_error
        refused = memory.handle(create("/memories/team-rules/a.md"))
        assert refused.is_error
        assert "read-only" in refused.content
    assert [len(workspace.memories.list(one.id)) for one in (store, rules, twin)] == [1, 0, 1]


def test_a_store_that_is_read_only_is_read(workspace: Workspace, store: Store, db: Path, actor: Actor) -> None:
    workspace.memories.create(store.id, "/a.md", b"tea\n", actor)
    with open_memory(db, [(store.id, "read_only")]) as memory:
        assert "tea" in memory.handle({"command": "view", "path": "/memories/a.md"}).content
        for given in (create("/memories/b.md"), {"command": "delete", "path": "/memories/a.md"}):
            assert "read-only" in memory.handle(given).content
    assert authors(workspace, store) == {actor}


def test_the_options_reach_the_commands(store: Store, db: Path) -> None:
    with open_memory(db, [store.id], overwrite=True, view_characters=10, wording=SDK) as memory:
        for text in ("one\n", "0123456789\n" * 3):
            assert not memory.handle(create("/memories/a", text)).is_error
        assert "Cut at 10 characters" in memory.handle({"command": "view", "path": "/memories/a"}).content
        assert memory.handle({"command": "delete", "path": "/memories/b"}).content == (
            "The path /memories/b does not exist"
        )


# Sessions


def test_changes_are_attributed_to_a_new_session_that_ends(workspace: Workspace, store: Store, db: Path) -> None:
    with open_memory(db, [store.id]) as memory:
        assert ids.is_id(memory.session.id, ids.SESSION)
        memory.handle(create("/memories/a.md"))
        assert workspace.sessions.get(memory.session.id).ended_at is None
    assert authors(workspace, store) == {Actor("session_actor", memory.session.id)}
    ended = workspace.sessions.get(memory.session.id)
    assert ended.ended_at is not None
    assert ended.ended_at > ended.created_at


def test_a_session_can_be_named(workspace: Workspace, store: Store, db: Path) -> None:
    named = ids.new_id(ids.SESSION)
    with open_memory(db, [store.id], session_id=named) as memory:
        assert memory.session.id == named
    ended = workspace.sessions.get(named).ended_at
    assert ended is not None
    with open_memory(db, session_id=named) as memory:
        memory.handle(create("/memories/a.md"))
        assert workspace.sessions.get(named).ended_at is None, "it goes on"
    with open_memory(db, [store.id], session_id=named):
        pass
    assert authors(workspace, store) == {Actor("session_actor", named)}
    again = workspace.sessions.get(named).ended_at
    assert again is not None
    assert again > ended


def test_a_session_that_was_begun_elsewhere_is_not_ended_here(workspace: Workspace, store: Store, db: Path) -> None:
    rules = workspace.stores.create("Team rules")
    begun = workspace.sessions.create([Resource(store), Resource(rules, "read_only")], "/mnt/memory")
    with open_memory(db, session_id=begun.id) as memory:
        assert list(memory.roots) == ["/memories/user-preferences", "/memories/team-rules"]
        assert "read-only" in memory.handle(create("/memories/team-rules/a")).content
        assert not memory.handle(create("/memories/user-preferences/a")).is_error
    assert workspace.sessions.get(begun.id).ended_at is None
    with pytest.raises(InvalidRequest, match="other stores"):
        open_memory(db, [store.id], session_id=begun.id)


def test_a_kill_leaves_the_session_without_an_end(workspace: Workspace, store: Store, db: Path) -> None:
    code = """
import sys
from pathlib import Path
from memfs.tool import open_memory
with open_memory(Path(sys.argv[1]), ["User preferences"]) as memory:
    assert not memory.handle({"command": "create", "path": "/memories/a.md", "file_text": "kept"}).is_error
    print(memory.session.id, flush=True)
    sys.stdin.read()
"""
    with python(code, db) as process:
        begun = hear(process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
    assert workspace.sessions.get(begun).ended_at is None
    assert [found.path for found in workspace.memories.list(store.id)] == ["/a.md"]


def test_closing_twice_is_closing(workspace: Workspace, store: Store, db: Path) -> None:
    memory = open_memory(db, [store.id])
    memory.close()
    ended = workspace.sessions.get(memory.session.id).ended_at
    memory.close()
    assert workspace.sessions.get(memory.session.id).ended_at == ended
    late = memory.handle(create("/memories/a.md"))
    assert late.is_error
    assert "cannot be reached" in late.content
    assert str(db) not in late.content


# What cannot be opened


def test_what_is_refused(workspace: Workspace, store: Store, db: Path) -> None:
    archived = workspace.stores.create("Old")
    workspace.stores.archive(archived.id)
    for name in ("Twins", "Twins"):
        workspace.stores.create(name)
    nine = [workspace.stores.create(f"Store {number}").id for number in range(9)]
    cases: list[tuple[list[str], type[MemfsError]]] = [
        ([], InvalidRequest),
        (["nothing"], NotFound),
        (["Twins"], AmbiguousName),
        ([archived.id], StoreArchived),
        ([store.id, store.id], InvalidRequest),
        (nine, TooManyStores),
    ]
    for stores, error in cases:
        with pytest.raises(error):
            open_memory(db, stores)
    with pytest.raises(NotFound):
        open_memory(db, session_id=ids.new_id(ids.SESSION))
    with pytest.raises(InvalidRequest):
        open_memory(db, [store.id], session_id="mine")


def test_a_session_of_a_store_that_was_archived_can_still_read_it(workspace: Workspace, store: Store, db: Path) -> None:
    with open_memory(db, [store.id]) as memory:
        memory.handle(create("/memories/a.md", "tea\n"))
    workspace.stores.archive(store.id)
    with open_memory(db, session_id=memory.session.id) as memory:
        assert "tea" in memory.handle({"command": "view", "path": "/memories/a.md"}).content
        assert "archived" in memory.handle(create("/memories/b.md")).content


def test_a_store_that_is_archived_meanwhile_can_still_be_read(workspace: Workspace, store: Store, db: Path) -> None:
    with open_memory(db, [store.id]) as memory:
        memory.handle(create("/memories/a.md", "tea\n"))
        workspace.stores.archive(store.id)
        assert "tea" in memory.handle({"command": "view", "path": "/memories/a.md"}).content
        assert "archived" in memory.handle(create("/memories/b.md")).content


def test_there_has_to_be_a_database(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_memory(tmp_path / "none.db", ["Notes"])
    (tmp_path / "text.db").write_text("no database\n" * 500)
    with pytest.raises(UnusableDatabase):
        open_memory(tmp_path / "text.db", ["Notes"])
    assert sorted(os.listdir(tmp_path)) == ["text.db"]


def test_a_session_is_ended_where_opening_fails_after_it_began(workspace: Workspace, store: Store, db: Path) -> None:
    named = ids.new_id(ids.SESSION)
    with pytest.raises(InvalidRequest, match="at least 1"):
        open_memory(db, [store.id], session_id=named, view_characters=0)
    assert workspace.sessions.get(named).ended_at is not None


# Reads


def read_at(workspace: Workspace, store: Store) -> str | None:
    (found,) = workspace.engine.accessed_memories(store.id, "/", before="9999")
    return found.accessed_at


def test_what_was_read_is_on_record_at_the_end(workspace: Workspace, store: Store, db: Path, actor: Actor) -> None:
    workspace.memories.create(store.id, "/a.md", b"tea\n", actor)
    before = read_at(workspace, store)
    with open_memory(db, [store.id]) as memory:
        memory.handle({"command": "view", "path": "/memories/a.md"})
        assert read_at(workspace, store) == before
    assert read_at(workspace, store) != before


def test_and_now_and_then_before(
    workspace: Workspace, store: Store, db: Path, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.memories.create(store.id, "/a.md", b"tea\n", actor)
    before = read_at(workspace, store)
    monkeypatch.setattr(session, "RECORD_SECONDS", 0.0)
    with open_memory(db, [store.id]) as memory:
        memory.handle({"command": "view", "path": "/memories/a.md"})
        assert read_at(workspace, store) != before


# Threads


def test_threads_share_a_memory(workspace: Workspace, store: Store, db: Path) -> None:
    with open_memory(db, [store.id]) as memory:
        memory.handle(create("/memories/list.md", "start\n"))
        answers: list[ToolResult] = []

        def work(name: str) -> None:
            for number in range(10):
                line = {"command": "insert", "path": "/memories/list.md", "insert_line": 1, "insert_text": name}
                answers.append(memory.handle(line))
                answers.append(memory.handle(create(f"/memories/{name}/{number}")))
                answers.append(memory.handle(VIEW))

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(answers) == 120
        assert [answer for answer in answers if answer.is_error] == []
    (found,) = [one for one in workspace.memories.list(store.id) if one.path == "/list.md"]
    text = workspace.memories.get(store.id, found.id).content
    assert text is not None
    assert sorted(text.decode().split()) == sorted(["start", *"abcd" * 10])
    assert authors(workspace, store) == {Actor("session_actor", memory.session.id)}


class Waiting(OpenMemory):
    """One that says when somebody closes it."""

    closing = threading.Event()

    def close(self) -> None:
        self.closing.set()
        super().close()


def test_closing_waits_for_the_calls_of_other_threads(
    workspace: Workspace, store: Store, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    memory = Waiting.on(Workspace.open(db), [store.id])
    handle = memory.commands.handle

    def slowly(given: object) -> ToolResult:
        begun.set()
        assert go_on.wait(30)
        return handle(given)

    monkeypatch.setattr(memory.commands, "handle", slowly)
    answers: list[ToolResult] = []
    call = threading.Thread(target=lambda: answers.append(memory.handle(create("/memories/a.md"))))
    call.start()
    assert begun.wait(30)
    assert isinstance(memory, Waiting)
    close = threading.Thread(target=memory.close)
    close.start()
    assert memory.closing.wait(30)
    go_on.set()
    close.join(30)
    call.join(30)
    assert [answer.is_error for answer in answers] == [False]
    ended = workspace.sessions.get(memory.session.id).ended_at
    assert ended is not None
    assert ended >= workspace.memories.list(store.id)[0].created_at


def test_closing_does_not_wait_for_ever(store: Store, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CLOSE_SECONDS", 0.01)
    memory = open_memory(db, [store.id])
    memory._running = 1
    before = time.monotonic()
    memory.close()
    assert time.monotonic() - before < 10
    assert memory.handle(VIEW).is_error


def test_a_large_store_is_opened(workspace: Workspace, store: Store, db: Path, actor: Actor) -> None:
    paths = [f"/d{number % 20}/{number}" for number in range(2_000)]
    workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), path, b"x") for path in paths], actor)
    with open_memory(db, [store.id]) as memory:
        assert memory.handle(VIEW).content.count("\n") == 2_021
        assert memory.handle(create("/memories/one-more")).is_error
