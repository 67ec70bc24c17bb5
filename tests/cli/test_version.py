"""``memfs version list`` and ``show``: reading the history."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memfs.cli import exits, history
from memfs.model import ids
from memfs.model.mutations import Create, Delete, Update
from memfs.model.records import Actor, MemoryVersion, Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run
from tests.cli.terminal import at_terminal

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
KEY = Actor("api_actor", "apikey_1")


@pytest.fixture
def memory_id(workspace: Workspace, store: Store, actor: Actor) -> str:
    """A memory that was made as /old by a person and changed and moved to /a/b.md by an agent."""
    made = ids.new_id(ids.MEMORY)
    workspace.memories.apply(store.id, [Create(made, "/old", b"one\n")], actor)
    workspace.memories.apply(store.id, [Update(made, content="é\r\n\0".encode(), path="/a/b.md")], SESSION)
    return made


# List


def test_list(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
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


def test_list_of_one_memory(run: Run, store: Store, memory_id: str) -> None:
    for text in ("/a/b.md", "/old", memory_id):
        lines = run("version", "list", store.id, "--memory", text, "--format", "jsonl").stdout.splitlines()
        assert [json.loads(line)["path"] for line in lines] == ["/a/b.md", "/old"]
    assert "never had" in run("version", "list", store.id, "--memory", "/never", code=exits.NOT_FOUND).stderr
    for text in ("never", "/\udcff"):
        run("version", "list", store.id, "--memory", text, code=exits.INVALID)
    run("version", "list", store.id, "--limit", "0", code=exits.INVALID)


@pytest.mark.parametrize("limit, expected", [(None, 7), (1, 1), (2, 2), (3, 3), (6, 6), (7, 7), (100, 7)])
def test_list_reads_page_by_page(
    run: Run,
    workspace: Workspace,
    store: Store,
    actor: Actor,
    monkeypatch: pytest.MonkeyPatch,
    limit: int | None,
    expected: int,
) -> None:
    monkeypatch.setattr(history, "PAGE", 3)
    for number in range(7):
        workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), f"/{number}", b"")], actor)
    limited = [] if limit is None else ["--limit", str(limit)]
    lines = run("version", "list", store.id, *limited, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["path"] for line in lines] == [f"/{6 - number}" for number in range(expected)]
    quiet = run("version", "list", store.id, *limited, "-q").stdout.splitlines()
    assert quiet == [json.loads(line)["id"] for line in lines]


@pytest.fixture
def busy(workspace: Workspace, store: Store, actor: Actor) -> list[MemoryVersion]:
    """Versions of several memories by several actors, the newest first."""
    for number, who in enumerate((actor, SESSION, KEY, SESSION)):
        memory = workspace.memories.create(store.id, f"/{number}", b"", who)
        workspace.memories.update(store.id, memory.id, who, content=b"x")
    workspace.memories.delete(store.id, "/1", SESSION)
    workspace.memories.delete(store.id, "/3", actor)
    return workspace.versions.list(store.id)


@pytest.mark.parametrize(
    "options, numbers",
    [
        ([], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (["--operation", "deleted"], [0, 1]),
        (["--operation", "created"], [3, 5, 7, 9]),
        (["--session", SESSION.id], [1, 2, 3, 6, 7]),
        (["--key", KEY.id], [4, 5]),
        (["--user", "alice"], [0, 8, 9]),
        (["--user", KEY.id], []),
        (["--session", SESSION.id, "--operation", "deleted"], [1]),
        (["--session", SESSION.id, "--memory", "/3", "--operation", "modified"], [2]),
        (["--memory", "/3", "--limit", "1"], [0]),
        (["--session", SESSION.id, "--key", KEY.id], []),
        (["--since", "1h"], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (["--until", "1h"], []),
    ],
)
def test_the_options_of_list_are_all_to_fit(
    run: Run, store: Store, busy: list[MemoryVersion], options: list[str], numbers: list[int]
) -> None:
    found = run("version", "list", store.id, *options, "-q").stdout.splitlines()
    assert found == [busy[number].id for number in numbers]


def test_a_time_is_that_of_json_or_of_the_table(run: Run, store: Store, busy: list[MemoryVersion]) -> None:
    def listed(*options: str) -> list[str]:
        return run("version", "list", store.id, *options, "-q").stdout.splitlines()

    everything = [version.id for version in busy]
    assert listed("--since", busy[3].created_at) == everything[:4]
    assert listed("--until", busy[3].created_at) == everything[3:]
    assert listed("--since", busy[6].created_at, "--until", busy[3].created_at) == everything[3:7]
    shown = run("version", "list", store.id, "--limit", "1").stdout.splitlines()[1].split()[0]
    assert everything[0] in listed("--since", shown, "--until", shown)


def test_a_time_that_is_none_and_an_empty_span(run: Run, store: Store) -> None:
    assert "is no time" in run("version", "list", store.id, "--since", "soon", code=exits.INVALID).stderr
    assert "is no time" in run("version", "list", store.id, "--until", "", code=exits.INVALID).stderr
    swapped = ["--since", "2026-11-30T00:00Z", "--until", "2026-11-29T00:00Z"]
    assert "nothing can be between" in run("version", "list", store.id, *swapped, code=exits.INVALID).stderr
    run("version", "list", store.id, "--operation", "renamed", code=exits.INVALID)


def test_list_shows_what_is_redacted(run: Run, workspace: Workspace, store: Store, actor: Actor, busy: object) -> None:
    (version, *_) = workspace.versions.list(store.id)
    workspace.versions.redact(store.id, [version.id], actor)
    assert run("version", "list", store.id, "--limit", "1").stdout.splitlines()[1].split()[2] == "(redacted)"


# Show


def test_show(run: Run, workspace: Workspace, store: Store, memory_id: str) -> None:
    modified, created = workspace.versions.list(store.id)
    table = run("version", "show", store.id, created.id).stdout
    facts, content = table.split("\n\n")
    assert content == "one\n"
    assert f"id         {created.id}\n" in facts
    assert "by         user alice" in facts
    assert run("version", "show", store.id, created.id, "--content").stdout_bytes == b"one\n"
    assert run("version", "show", store.id, modified.id, "--content").stdout_bytes == "é\r\n\0".encode()
    for format_ in ("json", "jsonl"):
        item = json.loads(run("version", "show", store.id, modified.id, "--format", format_).stdout)
        assert list(item) == VERSION_FIELDS
        assert item["content"] == "é\r\n\0"


def test_show_of_a_deletion(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
    workspace.memories.apply(store.id, [Delete(memory_id)], actor)
    (deleted, *_) = workspace.versions.list(store.id)
    assert "operation  deleted" in run("version", "show", store.id, deleted.id).stdout
    assert "no content" in run("version", "show", store.id, deleted.id, "--content", code=exits.NOT_FOUND).stderr


def test_show_of_what_is_redacted(run: Run, workspace: Workspace, store: Store, actor: Actor, memory_id: str) -> None:
    _, created = workspace.versions.list(store.id)
    workspace.versions.redact(store.id, [created.id], actor)
    table = run("version", "show", store.id, created.id).stdout
    assert "redacted by  user alice" in table
    assert "path" not in table
    item = json.loads(run("version", "show", store.id, created.id, "--format", "json").stdout)
    assert [item[name] for name in ("path", "content", "content_size_bytes", "content_sha256")] == [None] * 4
    assert item["redacted_by"] == {"type": "user_actor", "user_id": "alice"}
    assert "redacted" in run("version", "show", store.id, created.id, "--content", code=exits.NOT_FOUND).stderr


@pytest.mark.parametrize("text", ["memver_01M8NMQFRQEHGZHQHXSA2763V0", "nothing", "\udcff"])
@pytest.mark.parametrize("command", ["show", "diff", "restore", "redact"])
def test_what_is_no_version(run: Run, store: Store, command: str, text: str) -> None:
    result = run("version", command, store.id, text, code=exits.NOT_FOUND)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["show", "diff", "restore", "redact"])
def test_a_version_of_another_store_is_none_of_this_one(
    run: Run, workspace: Workspace, memory_id: str, command: str, store: Store
) -> None:
    other = workspace.stores.create("Other")
    _, created = workspace.versions.list(store.id)
    run("version", command, other.id, created.id, code=exits.NOT_FOUND)


def test_on_a_terminal_a_text_does_not_act_on_it(
    workspace: Workspace, store: Store, db: Path, actor: Actor, memory_id: str
) -> None:
    workspace.memories.update(store.id, memory_id, actor, content="a\tb\x1b[31m\r\n\x9b31m".encode())
    (version, *_) = workspace.versions.list(store.id)
    sent = at_terminal(db, "version", "show", store.id, version.id)
    assert sent.endswith("\r\n\r\na\tb\\x1b[31m\\r\r\n\\x9b31m\r\n")
    assert "\x1b" not in sent


def test_an_age_in_a_filter_is_counted_from_now(run: Run, store: Store, busy: list[MemoryVersion]) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert run("version", "list", store.id, "--since", tomorrow, "-q").stdout == ""
    assert len(run("version", "list", store.id, "--until", tomorrow, "-q").stdout.splitlines()) == len(busy)
