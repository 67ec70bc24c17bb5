"""``memfs version diff``."""

import json
from pathlib import Path

import pytest

from memfs.cli import exits
from memfs.model.records import Actor, Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run
from tests.cli.terminal import at_terminal

OLD = b"one\n\ttwo\x1b[31m\r\nthree"
NEW = b"one\n\tTWO\x1b[31m\r\nthree\n"


@pytest.fixture
def memory_id(workspace: Workspace, store: Store, actor: Actor) -> str:
    """A memory with two texts."""
    memory = workspace.memories.create(store.id, "/a/b.md", OLD, actor)
    workspace.memories.update(store.id, memory.id, actor, content=NEW)
    return memory.id


def versions(workspace: Workspace, store: Store) -> list[str]:
    """The ids, oldest first."""
    return [version.id for version in reversed(workspace.versions.list(store.id))]


def test_two_versions_and_a_version_and_the_head(run: Run, workspace: Workspace, store: Store, memory_id: str) -> None:
    new, old = workspace.versions.list(store.id)
    expected = (
        "diff --git a/a/b.md b/a/b.md\n"
        f"--- a/a/b.md\t{old.id} {old.created_at}\n"
        f"+++ b/a/b.md\t{new.id} {new.created_at}\n"
        "@@ -1,3 +1,3 @@\n"
        " one\n"
        "-\ttwo\x1b[31m\r\n"
        "-three\n"
        "\\ No newline at end of file\n"
        "+\tTWO\x1b[31m\r\n"
        "+three\n"
    )
    assert run("version", "diff", store.id, old.id, new.id).stdout_bytes == expected.encode()
    assert run("version", "diff", "user-preferences", old.id).stdout_bytes == expected.encode()
    backwards = run("version", "diff", store.id, new.id, old.id).stdout_bytes
    assert backwards.count(b"\n-\tTWO") == 1


@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_json_holds_both_and_the_text(
    run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str, format_: str
) -> None:
    old, new = versions(workspace, store)
    text = run("version", "diff", store.id, old, new).stdout_bytes.decode()
    item = json.loads(run("version", "diff", store.id, old, new, "--format", format_).stdout)
    assert list(item) == ["from", "to", "diff"]
    assert [item[side]["id"] for side in ("from", "to")] == [old, new]
    assert [item[side]["content"] for side in ("from", "to")] == [None, None]
    assert item["diff"] == text
    item = json.loads(run("version", "diff", store.id, old, "--format", format_).stdout)
    assert (item["to"]["type"], item["to"]["id"], item["to"]["content"]) == ("memory", memory_id, None)
    assert item["diff"] == text
    workspace.memories.delete(store.id, memory_id, actor)
    item = json.loads(run("version", "diff", store.id, old, "--format", format_).stdout)
    assert item["to"] is None
    assert "+++ /dev/null\n" in item["diff"]


def test_nothing_different_prints_nothing(run: Run, workspace: Workspace, store: Store, memory_id: str) -> None:
    old, new = versions(workspace, store)
    for words in ([new], [new, new], [old, old]):
        result = run("version", "diff", store.id, *words)
        assert result.output == ""
    assert json.loads(run("version", "diff", store.id, new, "--format", "json").stdout)["diff"] == ""


def test_a_deletion_is_no_text(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
    workspace.memories.delete(store.id, memory_id, actor)
    _, new, deleted = versions(workspace, store)
    to_deletion = run("version", "diff", store.id, new, deleted).stdout_bytes
    assert f"+++ /dev/null\t{deleted} ".encode() in to_deletion
    assert b"@@ -1,3 +0,0 @@\n-one\n" in to_deletion
    assert b"\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n" in run("version", "diff", store.id, new).stdout_bytes
    made = run("version", "diff", store.id, deleted, new).stdout_bytes
    assert made.startswith(b"diff --git a/a/b.md b/a/b.md\nnew file mode 100644\n--- /dev/null\t")
    assert run("version", "diff", store.id, deleted).output == ""


def test_a_rename(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
    workspace.memories.update(store.id, memory_id, actor, path="/c d.md")
    old, new, moved = versions(workspace, store)
    rename = 'diff --git a/a/b.md "b/c d.md"\nrename from a/b.md\nrename to "c d.md"\n'
    assert run("version", "diff", store.id, new, moved).stdout == rename
    assert run("version", "diff", store.id, new).stdout == rename
    both = run("version", "diff", store.id, old).stdout_bytes.decode()
    assert both.startswith(f"{rename}--- a/a/b.md\t{old} ")
    assert '\n+++ "b/c d.md"\t' in both


def test_versions_of_two_memories(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
    workspace.memories.create(store.id, "/other", b"one\n", actor)
    old, _, other = versions(workspace, store)
    text = run("version", "diff", store.id, old, other).stdout_bytes.decode()
    assert text.startswith("--- a/a/b.md\t")
    assert "\n+++ b/other\t" in text


def test_what_is_redacted_cannot_be_compared(
    run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str
) -> None:
    old, new = versions(workspace, store)
    workspace.versions.redact(store.id, [old], actor)
    for words in ([old], [old, new], [new, old]):
        result = run("version", "diff", store.id, *words, code=exits.NOT_FOUND)
        assert result.stdout == ""
        assert f"{old} has no content, it is redacted" in result.stderr
    workspace.memories.delete(store.id, memory_id, actor)
    deletion = versions(workspace, store)[-1]
    workspace.versions.redact(store.id, [deletion], actor)
    assert "redacted" in run("version", "diff", store.id, new, deletion, code=exits.NOT_FOUND).stderr


def test_on_a_terminal_it_has_colours_and_nothing_acts_on_it(
    workspace: Workspace, store: Store, db: Path, memory_id: str
) -> None:
    old, new = versions(workspace, store)
    sent = at_terminal(db, "version", "diff", store.id, old)
    assert f"\x1b[1m--- a/a/b.md\t{old} " in sent
    assert "\x1b[36m@@ -1,3 +1,3 @@\x1b[0m\r\n one\r\n" in sent
    assert "\x1b[31m-\ttwo\\x1b[31m\\r\x1b[0m\r\n" in sent
    assert "\x1b[32m+\tTWO\\x1b[31m\\r\x1b[0m\r\n" in sent
    assert "\r\n\\ No newline at end of file\r\n" in sent
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        plain = at_terminal(db, "version", "diff", store.id, old, new, **{name: value})
        assert "\x1b" not in plain
        assert "\r\n-\ttwo\\x1b[31m\\r\r\n" in plain
