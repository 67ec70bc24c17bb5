"""``memfs memory`` and ``memfs version``."""

import json

import pytest

from memfs.cli import exits
from memfs.cli import version as version_module
from memfs.model import ids
from memfs.model.mutations import Create, Delete, Update
from memfs.model.records import Actor, Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run

MEMORY_FIELDS = [
    "id",
    "type",
    "memory_store_id",
    "memory_version_id",
    "path",
    "content",
    "content_size_bytes",
    "content_sha256",
    "created_at",
    "updated_at",
]
VERSION_FIELDS = [
    "id",
    "type",
    "memory_store_id",
    "memory_id",
    "operation",
    "path",
    "content",
    "content_size_bytes",
    "content_sha256",
    "created_at",
    "created_by",
    "redacted_at",
    "redacted_by",
]
SESSION = Actor("session_actor", "sesn_01M8NMQFRP7HNTABQQHZR3KZM6")


@pytest.fixture
def memory_id(workspace: Workspace, store: Store, actor: Actor) -> str:
    """A memory that was made as /old by a person and changed and moved to /a/b.md by an agent."""
    made = ids.new_id(ids.MEMORY)
    workspace.memories.apply(store.id, [Create(made, "/old", b"one\n")], actor)
    workspace.memories.apply(store.id, [Update(made, content="é\r\n\0".encode(), path="/a/b.md")], SESSION)
    return made


def test_memory_list(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
    workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), "/a_b", b"x" * 100)], actor)
    table = [line.split() for line in run("memory", "list", "user-preferences").stdout.splitlines()]
    assert table[0] == ["PATH", "BYTES", "UPDATED", "ID"]
    assert [row[:2] for row in table[1:]] == [["/a/b.md", "5"], ["/a_b", "100"]]
    assert table[1][3] == memory_id
    loaded = json.loads(run("memory", "list", store.id, "--format", "json").stdout)
    assert [list(item) for item in loaded] == [MEMORY_FIELDS] * 2
    assert (loaded[0]["type"], loaded[0]["content"]) == ("memory", None)
    lines = run("memory", "list", store.id, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == loaded


def test_memory_list_below_a_prefix(run: Run, store: Store, memory_id: str) -> None:
    assert "/a/b.md" in run("memory", "list", store.id, "--prefix", "/a/").stdout
    assert "/a/b.md" not in run("memory", "list", store.id, "--prefix", "/b/").stdout
    assert "prefix" in run("memory", "list", store.id, "--prefix", "/a", code=exits.INVALID).stderr


def test_memory_show_prints_the_exact_bytes(run: Run, store: Store, memory_id: str) -> None:
    for text in ("/a/b.md", memory_id):
        result = run("memory", "show", store.id, text)
        assert result.stdout_bytes == "é\r\n\0".encode()
        assert result.stderr == ""
    for format_ in ("json", "jsonl"):
        item = json.loads(run("memory", "show", store.id, "/a/b.md", "--format", format_).stdout)
        assert list(item) == MEMORY_FIELDS
        assert item["content"] == "é\r\n\0"
        assert item["id"] == memory_id


@pytest.mark.parametrize(
    "path, code", [("/nothing", exits.NOT_FOUND), ("a/b.md", exits.INVALID), ("/\udcff", exits.INVALID)]
)
def test_memory_show_of_nothing(run: Run, store: Store, memory_id: str, path: str, code: int) -> None:
    result = run("memory", "show", store.id, path, code=code)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


def test_version_list(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
    other = ids.new_id(ids.MEMORY)
    workspace.memories.apply(store.id, [Create(other, "/gone", b"x")], actor)
    workspace.memories.apply(store.id, [Delete(other)], actor)
    table = run("version", "list", "user-preferences").stdout.splitlines()
    assert table[0].split() == ["CREATED", "OPERATION", "PATH", "BYTES", "BY", "ID"]
    assert [line.split()[1] for line in table[1:]] == ["deleted", "created", "modified", "created"]
    assert f"session {SESSION.id}" in table[3]
    assert "user alice" in table[4]
    loaded = json.loads(run("version", "list", store.id, "--format", "json").stdout)
    assert [list(item) for item in loaded] == [VERSION_FIELDS] * 4
    deleted, _, modified, created = loaded
    assert (deleted["type"], deleted["path"]) == ("memory_version", "/gone")
    assert [deleted[name] for name in ("content", "content_size_bytes", "content_sha256")] == [None] * 3
    assert modified["created_by"] == {"type": "session_actor", "session_id": SESSION.id}
    assert created["created_by"] == {"type": "user_actor", "user_id": "alice"}
    assert run("version", "list", store.id, "--limit", "1", "--format", "jsonl").stdout.count("\n") == 1


def test_version_list_of_one_memory(run: Run, store: Store, memory_id: str) -> None:
    for text in ("/a/b.md", "/old", memory_id):
        lines = run("version", "list", store.id, "--memory", text, "--format", "jsonl").stdout.splitlines()
        assert [json.loads(line)["path"] for line in lines] == ["/a/b.md", "/old"]
    assert "never had" in run("version", "list", store.id, "--memory", "/never", code=exits.NOT_FOUND).stderr
    for text in ("never", "/\udcff"):
        run("version", "list", store.id, "--memory", text, code=exits.INVALID)
    run("version", "list", store.id, "--limit", "0", code=exits.INVALID)


@pytest.mark.parametrize("limit, expected", [(None, 7), (1, 1), (2, 2), (3, 3), (6, 6), (7, 7), (100, 7)])
def test_version_list_reads_page_by_page(
    run: Run,
    workspace: Workspace,
    store: Store,
    actor: Actor,
    monkeypatch: pytest.MonkeyPatch,
    limit: int | None,
    expected: int,
) -> None:
    monkeypatch.setattr(version_module, "PAGE", 3)
    for number in range(7):
        workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), f"/{number}", b"")], actor)
    limited = [] if limit is None else ["--limit", str(limit)]
    lines = run("version", "list", store.id, *limited, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["path"] for line in lines] == [f"/{6 - number}" for number in range(expected)]


def test_version_show(run: Run, workspace: Workspace, store: Store, memory_id: str) -> None:
    modified, created = workspace.versions.list(store.id)
    table = run("version", "show", created.id).stdout
    facts, content = table.split("\n\n")
    assert content == "one\n"
    assert f"id         {created.id}\n" in facts
    assert "by         user alice" in facts
    assert run("version", "show", created.id, "--content").stdout_bytes == b"one\n"
    assert run("version", "show", modified.id, "--content").stdout_bytes == "é\r\n\0".encode()
    for format_ in ("json", "jsonl"):
        item = json.loads(run("version", "show", modified.id, "--format", format_).stdout)
        assert list(item) == VERSION_FIELDS
        assert item["content"] == "é\r\n\0"


def test_version_show_of_a_deletion(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
    workspace.memories.apply(store.id, [Delete(memory_id)], actor)
    (deleted, *_) = workspace.versions.list(store.id)
    assert "operation  deleted" in run("version", "show", deleted.id).stdout
    assert "no content" in run("version", "show", deleted.id, "--content", code=exits.NOT_FOUND).stderr


@pytest.mark.parametrize("text", ["memver_01M8NMQFRQEHGZHQHXSA2763V0", "nothing", "\udcff"])
def test_version_show_of_nothing(run: Run, store: Store, text: str) -> None:
    assert len(run("version", "show", text, code=exits.NOT_FOUND).stderr.splitlines()) == 1


def test_json_lines_stay_lines_whatever_a_memory_holds(
    run: Run, workspace: Workspace, store: Store, actor: Actor
) -> None:
    content = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\r\nh\x7f\x9b31m\u202e".encode()
    workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), "/a", content)], actor)
    output = run("memory", "show", store.id, "/a", "--format", "jsonl").stdout
    assert len(output.splitlines()) == 1
    assert output.removesuffix("\n").isprintable()
    assert json.loads(output)["content"].encode() == content
