"""``memfs version restore`` and ``memfs version redact``."""

import json
from pathlib import Path

import pytest

from memfs.cli import exits
from memfs.cli.context import actor as person
from memfs.model.errors import Busy, StorageFull
from memfs.model.records import Actor, Memory, Store
from memfs.workspace import Workspace
from tests.cli.answering import INTERRUPT, answered
from tests.cli.conftest import Run
from tests.cli.terminal import at_terminal


@pytest.fixture
def memory(workspace: Workspace, store: Store, actor: Actor) -> Memory:
    """A memory with two texts."""
    made = workspace.memories.create(store.id, "/a.md", "é old\r\n".encode(), actor)
    return workspace.memories.update(store.id, made.id, actor, content=b"new\n").memory


def versions(workspace: Workspace, store: Store) -> list[str]:
    """The ids, oldest first."""
    return [version.id for version in reversed(workspace.versions.list(store.id))]


# Restore


def test_restore_writes_the_old_content_back_as_a_new_version(
    run: Run, workspace: Workspace, store: Store, memory: Memory
) -> None:
    old, _ = versions(workspace, store)
    said = run("version", "restore", "user-preferences", old)
    now = workspace.memories.get(store.id, "/a.md")
    assert (now.id, now.content) == (memory.id, "é old\r\n".encode())
    assert said.stdout == f"restored /a.md to {old}; its version is now {now.memory_version_id}\n"
    assert said.stderr == ""
    (newest, *_) = workspace.versions.list(store.id)
    assert (newest.operation, newest.created_by) == ("modified", person())
    again = run("version", "restore", store.id, old)
    assert again.stdout == f"unchanged: /a.md has the text of {old} already\n"
    assert len(versions(workspace, store)) == 3


def test_restore_makes_a_deleted_memory_again(
    run: Run, workspace: Workspace, store: Store, actor: Actor, memory: Memory
) -> None:
    workspace.memories.update(store.id, memory.id, actor, path="/moved.md")
    workspace.memories.delete(store.id, memory.id, actor)
    old, *_ = versions(workspace, store)
    said = run("version", "restore", store.id, old).stdout
    now = workspace.memories.get(store.id, memory.id)
    assert (now.path, now.content) == ("/a.md", "é old\r\n".encode())
    assert said == f"made /a.md again with the text of {old}; its version is {now.memory_version_id}\n"


def test_restore_elsewhere(run: Run, workspace: Workspace, store: Store, actor: Actor, memory: Memory) -> None:
    old, new = versions(workspace, store)
    assert "restored /b/c.md" in run("version", "restore", store.id, old, "--path", "/b/c.md").stdout
    assert workspace.memories.get(store.id, memory.id).path == "/b/c.md"
    workspace.memories.delete(store.id, memory.id, actor)
    assert "made /d.md again" in run("version", "restore", store.id, new, "--path", "/d.md").stdout
    assert workspace.memories.get(store.id, "/d.md").content == b"new\n"
    for path in ("", "d.md", "/x/", "/../x"):
        run("version", "restore", store.id, old, "--path", path, code=exits.INVALID)
    workspace.memories.delete(store.id, memory.id, actor)
    run("version", "restore", store.id, old, "--path", "", code=exits.INVALID)


def test_restore_for_programs(run: Run, workspace: Workspace, store: Store, memory: Memory) -> None:
    old, new = versions(workspace, store)
    item = json.loads(run("version", "restore", store.id, old, "--format", "json").stdout)
    assert (item["type"], item["id"], item["path"], item["content"]) == ("memory", memory.id, "/a.md", None)
    assert item["memory_version_id"] == versions(workspace, store)[-1]
    assert run("version", "restore", store.id, new, "--format", "jsonl").stdout.count("\n") == 1
    assert run("version", "restore", store.id, old, "-q").stdout == f"{memory.id}\n"
    assert run("version", "restore", store.id, old, "-q").stdout == f"{memory.id}\n", "unchanged, but the same answer"


def test_restore_to_a_path_that_is_used_says_how_to_go_on(
    run: Run, workspace: Workspace, store: Store, actor: Actor, memory: Memory
) -> None:
    old, _ = versions(workspace, store)
    workspace.memories.delete(store.id, memory.id, actor)
    workspace.memories.create(store.id, "/a.md", b"another's", actor)
    result = run("version", "restore", store.id, old, code=exits.CONFLICT)
    assert result.stdout == ""
    assert "is used by the memory" in result.stderr
    assert "choose another with --path" in result.stderr
    assert workspace.memories.get(store.id, "/a.md").content == b"another's"


def test_what_has_no_content_or_may_not_be_written_is_not_restored(
    run: Run, workspace: Workspace, store: Store, actor: Actor, memory: Memory
) -> None:
    workspace.memories.delete(store.id, memory.id, actor)
    old, new, deleted = versions(workspace, store)
    assert "it is a deletion" in run("version", "restore", store.id, deleted, code=exits.NOT_FOUND).stderr
    workspace.versions.redact(store.id, [old], actor)
    assert "it is redacted" in run("version", "restore", store.id, old, code=exits.NOT_FOUND).stderr
    workspace.stores.archive(store.id)
    assert "archived" in run("version", "restore", store.id, new, code=exits.REFUSED).stderr


# Redact


def in_the_files(db: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in db.parent.iterdir() if path.is_file())


def test_redact_takes_the_content_and_every_byte_of_it(
    run: Run, workspace: Workspace, store: Store, actor: Actor, memory: Memory, db: Path
) -> None:
    secret = b"the secret that nobody may read"
    workspace.memories.update(store.id, memory.id, actor, content=secret)
    workspace.memories.update(store.id, memory.id, actor, content=b"clean")
    wanted = versions(workspace, store)[2]
    assert in_the_files(db, secret)
    result = run("version", "redact", "user-preferences", wanted)
    assert result.stdout == f"redacted {wanted}: its path, text, size and hash are gone for good\n"
    assert result.stderr == ""
    assert not in_the_files(db, secret)
    found = workspace.versions.get(store.id, wanted)
    assert (found.path, found.content, found.content_sha256, found.content_size_bytes) == (None, None, None, None)
    assert (found.created_by, found.redacted_by) == (actor, person())
    again = run("version", "redact", store.id, wanted)
    assert again.stdout == f"{wanted} was redacted already, at {found.redacted_at}\n"


def test_redact_tells_where_the_text_still_is(
    run: Run, workspace: Workspace, store: Store, actor: Actor, memory: Memory
) -> None:
    old, _ = versions(workspace, store)
    run("version", "restore", store.id, old)
    head = versions(workspace, store)[-1]
    result = run("version", "redact", store.id, old)
    assert f"1 other version of the same memory still holds the text of {old}: {head}" in result.stderr
    assert workspace.memories.get(store.id, "/a.md").content == "é old\r\n".encode()
    for _ in range(3):
        for content in (b"new\n", b"newer\n"):
            workspace.memories.update(store.id, memory.id, actor, content=content)
    second, *_ = [v for v in reversed(workspace.versions.list(store.id)) if v.content_size_bytes == 4]
    stderr = run("version", "redact", store.id, second.id).stderr
    assert "3 other versions of the same memory still hold the text" in stderr
    same = [v.id for v in workspace.versions.list(store.id) if v.content_size_bytes == 4]
    assert run("version", "redact", store.id, *same).stderr == "", "what is redacted together holds nothing"


def test_redact_several_all_or_none(run: Run, workspace: Workspace, store: Store, actor: Actor, memory: Memory) -> None:
    workspace.memories.delete(store.id, memory.id, actor)
    other = workspace.memories.create(store.id, "/b.md", b"live", actor)
    old, new, deleted, head = versions(workspace, store)
    result = run("version", "redact", store.id, old, head, code=exits.REFUSED)
    assert result.stdout == ""
    assert "is what /b.md holds now: change the memory or delete it" in result.stderr
    nothing = "memver_01M8NMQFRQEHGZHQHXSA2763V0"
    run("version", "redact", store.id, old, nothing, code=exits.NOT_FOUND)
    assert workspace.versions.get(store.id, old).redacted_at is None
    lines = run("version", "redact", store.id, new, old, deleted, old).stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"redacted {one}" for one in (new, old, deleted)]
    assert lines[2].endswith("its path is gone for good")
    assert workspace.memories.get(store.id, other.id).content == b"live"


def test_redact_for_programs(run: Run, workspace: Workspace, store: Store, actor: Actor, memory: Memory) -> None:
    workspace.memories.update(store.id, memory.id, actor, content=b"newest")
    old, new, _ = versions(workspace, store)
    item = json.loads(run("version", "redact", store.id, old, "--format", "json").stdout)
    assert (item["id"], item["type"], item["path"]) == (old, "memory_version", None)
    assert item["redacted_by"] == person().as_json()
    items = json.loads(run("version", "redact", store.id, old, new, "--format", "json").stdout)
    assert [(one["id"], one["redacted_at"] is None) for one in items] == [(old, False), (new, False)]
    lines = run("version", "redact", store.id, old, new, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == items
    run("version", "redact", store.id, code=exits.INVALID)


def test_redact_works_in_an_archived_store(run: Run, workspace: Workspace, store: Store, memory: Memory) -> None:
    old, _ = versions(workspace, store)
    workspace.stores.archive(store.id)
    assert "redacted" in run("version", "redact", store.id, old).stdout


@pytest.mark.parametrize("answer, code", [(b"y\n", 0), (b"n\n", exits.REFUSED), (INTERRUPT, exits.INTERRUPTED)])
def test_on_a_terminal_redact_asks(
    workspace: Workspace, store: Store, db: Path, memory: Memory, answer: bytes | None, code: int
) -> None:
    old, _ = versions(workspace, store)
    ended = answered(db, "version", "redact", store.id, old, answer=answer)
    assert ended.code == code
    assert f"{old}: created " in ended.terminal
    assert ", /a.md, 8 bytes" in ended.terminal
    assert "redact 1 version? The text cannot be brought back [y/N]" in ended.terminal
    assert ("nothing was redacted" in ended.terminal) is (code == exits.REFUSED)
    assert (workspace.versions.get(store.id, old).redacted_at is None) is (code != 0)
    assert ended.stdout.startswith(b"redacted" if code == 0 else b"")


def test_on_a_terminal_redact_does_not_ask_with_yes(
    workspace: Workspace, store: Store, db: Path, memory: Memory
) -> None:
    old, _ = versions(workspace, store)
    sent = at_terminal(db, "version", "redact", store.id, old, "--yes")
    assert "[y/N]" not in sent
    assert "clearing the file" in sent, "a sign of life"


def test_what_is_redacted_but_not_yet_out_of_the_file_is_said(
    run: Run, workspace: Workspace, store: Store, memory: Memory, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise StorageFull("no space left")

    monkeypatch.setattr("memfs.engine.SqliteEngine.scrub", full)
    old, _ = versions(workspace, store)
    result = run("version", "redact", store.id, old, code=exits.REFUSED)
    assert result.stdout.startswith(f"redacted {old}")
    assert "not every byte is out of the file yet; the next command tries again: no space left" in result.stderr


def test_nothing_is_redacted_where_another_process_holds_the_lock(
    run: Run, workspace: Workspace, store: Store, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object, **__: object) -> bool:
        raise Busy("try again")

    monkeypatch.setattr("memfs.engine.SqliteEngine.redact", busy)
    old, _ = versions(workspace, store)
    assert run("version", "redact", store.id, old, code=exits.TRY_AGAIN).stdout == ""
    assert workspace.versions.get(store.id, old).redacted_at is None


def test_an_interrupt_that_comes_too_late_says_so(
    run: Run, workspace: Workspace, store: Store, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = versions(workspace, store)

    def interrupted(_versions: object, *_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as before:
        before.setattr("memfs.engine.SqliteEngine.redact", interrupted)
        assert run("version", "redact", store.id, old, code=exits.INTERRUPTED).output == ""
    monkeypatch.setattr("memfs.engine.SqliteEngine.scrub", interrupted)
    monkeypatch.setattr("memfs.cli.context._finish_scrub", lambda _workspace: None)
    result = run("version", "redact", store.id, old, code=exits.INTERRUPTED)
    assert result.stdout.startswith(f"redacted {old}")
    assert "not every byte is out of the file yet; the next command tries again: interrupted" in result.stderr
