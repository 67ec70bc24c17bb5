"""Whole histories out and back in: every byte of the lines, and every line of a stranger checked."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memfs.cli.output import json_line
from memfs.engine import Engine, VersionFilter
from memfs.model import ids
from memfs.model.contract import version_object
from memfs.model.errors import (
    HistoryGone,
    InvalidRequest,
    MemfsError,
    NotFound,
    PreconditionFailed,
    StoreArchived,
    StoreFull,
    WriteRefused,
)
from memfs.model.mutations import Create, Delete, Update
from memfs.model.records import MAX_CONTENT_BYTES, MAX_MEMORIES, Actor, ActorType, Guards, MemoryVersion, Store
from memfs.workspace import Workspace, histories
from memfs.workspace.histories import ImportedHistory, history_objects, import_history
from memfs.workspace.history_lines import MAX_LINE_BYTES
from tests.workspace.transfers import CONTENTS

JsonObject = dict[str, Any]

AGENT = Actor("session_actor", "sesn_01M8NMQFRQEHGZHQHXSA2763V0")


def exported(workspace: Workspace, store_id: str) -> bytes:
    return b"".join(map(json_line, history_objects(workspace, store_id)))


def taken_in(workspace: Workspace, store_id: str, data: bytes, **options: Any) -> ImportedHistory:
    return import_history(workspace, store_id, io.BytesIO(data), **options)


def lines(data: bytes) -> list[JsonObject]:
    return [json.loads(line) for line in data.decode().split("\n")[:-1]]


def text(objects: Sequence[object]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)


@pytest.fixture
def copy(tmp_path: Path, store: Store) -> Iterator[Callable[[bytes], Workspace]]:
    """Takes lines into another workspace, in an empty store with the id and the fields of ``store``."""
    opened: list[Workspace] = []

    def copy(data: bytes) -> Workspace:
        other = Workspace.open(tmp_path / f"copy-{len(opened)}.db", create=True)
        opened.append(other)
        other.engine.insert_store(store)
        assert taken_in(other, store.id, data).ids_kept
        return other

    yield copy
    for each in opened:
        each.close()


@pytest.fixture
def lived(workspace: Workspace, store: Store, actor: Actor) -> Store:
    """A store to which everything has happened that can happen."""
    apply = workspace.memories.apply
    made = {path: ids.new_id(ids.MEMORY) for path in CONTENTS}
    apply(store.id, [Create(made[path], path, content) for path, content in CONTENTS.items()], actor)
    workspace.memories.update(store.id, "/plain.md", AGENT, content=b"changed\n")
    workspace.memories.update(store.id, "/plain.md", AGENT, path="/renamed.md")
    apply(store.id, [Update(made["/nul"], path="/crlf.txt"), Update(made["/crlf.txt"], path="/nul")], AGENT)
    deleted = workspace.memories.delete(store.id, "/bom.txt", actor)
    workspace.versions.restore(store.id, deleted.memory_version_id, Actor("api_actor", "key_1"))
    workspace.memories.delete(store.id, "/empty", Actor("service_account_actor", "robot"))
    (last_of_bom,) = workspace.versions.list(store.id, VersionFilter(memory_id=deleted.id), limit=1)
    assert last_of_bom.operation == "created"
    old = workspace.versions.list(store.id, VersionFilter(memory_id=made["/nul"]), oldest_first=True)[0]
    gone = workspace.memories.create(store.id, "/secret", b"password", actor)
    workspace.memories.delete(store.id, gone.id, actor)
    deletion = workspace.versions.list(store.id, limit=1)[0]
    workspace.versions.redact(store.id, [gone.memory_version_id, old.id, deletion.id], actor)
    return store


# Out and back


def test_what_goes_out_comes_back_byte_for_byte(
    workspace: Workspace, lived: Store, copy: Callable[[bytes], Workspace]
) -> None:
    data = exported(workspace, lived.id)
    other = copy(data)
    assert exported(other, lived.id) == data
    facts = workspace.versions.list(lived.id, content=True)
    assert [replace(version, sequence=0) for version in other.versions.list(lived.id, content=True)] == [
        replace(version, sequence=0) for version in facts
    ]
    assert other.memories.list(lived.id, content=True) == workspace.memories.list(lived.id, content=True)
    assert {version.redacted_at is not None for version in facts} == {True, False}


def test_what_came_in_lives_on(
    workspace: Workspace, lived: Store, actor: Actor, copy: Callable[[bytes], Workspace]
) -> None:
    other = copy(exported(workspace, lived.id))
    before = other.memories.get(lived.id, "/renamed.md")
    other.memories.update(lived.id, "/renamed.md", actor, content=b"again\n")
    after = other.memories.get(lived.id, "/renamed.md")
    assert (after.id, after.created_at) == (before.id, before.created_at)
    old, *_ = [version for version in other.versions.list(lived.id) if version.path == "/plain.md"]
    assert other.versions.restore(lived.id, old.id, actor).changed
    other.memories.create(lived.id, "/new", b"", actor)
    again = exported(other, lived.id)
    assert exported(copy(again), lived.id) == again


def test_the_lines_are_a_store_its_versions_and_its_memories(workspace: Workspace, lived: Store) -> None:
    objects = lines(exported(workspace, lived.id))
    types = [each["type"] for each in objects]
    versions, memories = types.count("memory_version"), types.count("memory")
    assert types == ["memory_store"] + ["memory_version"] * versions + ["memory"] * memories
    told = workspace.versions.list(lived.id, oldest_first=True, content=True)
    assert objects[1 : versions + 1] == [json.loads(json_line(version_object(version))) for version in told]
    live = workspace.memories.list(lived.id)
    assert [each["path"] for each in objects[versions + 1 :]] == [memory.path for memory in live]
    assert {each["content"] for each in objects[versions + 1 :]} == {None}


def test_a_line_ends_where_every_reader_says_so(workspace: Workspace, lived: Store) -> None:
    data = exported(workspace, lived.id)
    assert len(data.decode().splitlines()) == data.count(b"\n")


def test_a_store_without_memories_goes_out_and_comes_back(
    workspace: Workspace, store: Store, copy: Callable[[bytes], Workspace]
) -> None:
    data = exported(workspace, store.id)
    assert data.count(b"\n") == 1
    assert exported(copy(data), store.id) == data


def test_a_full_store_goes_out_and_comes_back(
    workspace: Workspace, store: Store, actor: Actor, copy: Callable[[bytes], Workspace]
) -> None:
    made = [Create(ids.new_id(ids.MEMORY), f"/{n % 40}/{n}", b"%d\r\n" % n) for n in range(MAX_MEMORIES)]
    workspace.memories.apply(store.id, made, actor)
    workspace.memories.apply(store.id, [Update(each.memory_id, content=each.content * 2) for each in made], AGENT)
    data = exported(workspace, store.id)
    assert data.count(b"\n") == 1 + 3 * MAX_MEMORIES
    assert exported(copy(data), store.id) == data


def test_a_history_whose_beginning_was_pruned(
    workspace: Workspace, store: Store, actor: Actor, copy: Callable[[bytes], Workspace]
) -> None:
    for path in ("/a", "/b"):
        made = workspace.memories.create(store.id, path, b"1", actor)
        workspace.memories.update(store.id, path, actor, content=b"2")
    workspace.memories.delete(store.id, "/b", actor)
    assert workspace.retention.prune(store.id, "2999") == 3
    data = exported(workspace, store.id)
    assert [each.get("operation") for each in lines(data)] == [None, "modified", "deleted", None]
    other = copy(data)
    assert exported(other, store.id) == data
    assert other.memories.get(store.id, "/a").created_at == lines(data)[-1]["created_at"] < made.created_at


def test_pages_do_not_matter(workspace: Workspace, lived: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = exported(workspace, lived.id)
    for size in (1, 7, whole.count(b"\n")):
        monkeypatch.setattr(histories, "PAGE", size)
        assert exported(workspace, lived.id) == whole


# Another store's ids


def test_where_an_id_is_there_already_all_are_made_anew(workspace: Workspace, lived: Store) -> None:
    data = exported(workspace, lived.id)
    other = workspace.stores.create("Copy")
    result = taken_in(workspace, other.id, data)
    assert not result.ids_kept
    assert result.paths == [memory.path for memory in workspace.memories.list(lived.id)]
    before, after = lines(data), lines(exported(workspace, other.id))
    assert len(before) == len(after)
    memory_ids: dict[str, str] = {}
    version_ids: dict[str, str] = {}
    for old, new in zip(before[1:], after[1:], strict=True):
        version_field = "id" if old["type"] == "memory_version" else "memory_version_id"
        memory_field = "memory_id" if old["type"] == "memory_version" else "id"
        assert version_ids.setdefault(old[version_field], new[version_field]) == new[version_field]
        assert memory_ids.setdefault(old[memory_field], new[memory_field]) == new[memory_field]
        same = old.keys() - {version_field, memory_field, "memory_store_id"}
        assert {field: old[field] for field in same} == {field: new[field] for field in same}
    for renewed in (memory_ids, version_ids):
        assert len(set(renewed.values())) == len(renewed)
        assert not set(renewed) & set(renewed.values())
    made = [each["id"] for each in after if each["type"] == "memory_version"]
    assert made == sorted(made), "ids sort by the order in the history"


def test_times_of_pruned_beginnings_are_kept_with_new_ids(workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.memories.create(store.id, "/a", b"1", actor)
    workspace.memories.update(store.id, "/a", actor, content=b"2")
    workspace.retention.prune(store.id, "2999")
    other = workspace.stores.create("Copy")
    assert not taken_in(workspace, other.id, exported(workspace, store.id)).ids_kept
    there = workspace.memories.get(other.id, "/a")
    assert there.created_at == workspace.memories.get(store.id, "/a").created_at < there.updated_at


def test_an_id_that_lives_only_in_a_history_is_taken_too(workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.memories.create(store.id, "/a", b"1", actor)
    data = exported(workspace, store.id)
    workspace.memories.delete(store.id, "/a", actor)
    other = workspace.stores.create("Copy")
    assert not taken_in(workspace, other.id, data).ids_kept


# Into what


def test_versions_alone_are_a_history(workspace: Workspace, lived: Store, copy: Callable[[bytes], Workspace]) -> None:
    """What 'memfs version export' writes."""
    told = workspace.versions.list(lived.id, oldest_first=True, content=True)
    other = copy(b"".join(json_line(version_object(version)) for version in told))
    assert exported(other, lived.id) == exported(workspace, lived.id)


def test_a_store_with_a_history_takes_no_other(workspace: Workspace, lived: Store, actor: Actor) -> None:
    data = exported(workspace, lived.id)
    with pytest.raises(PreconditionFailed, match="history of its own"):
        taken_in(workspace, lived.id, data)
    other = workspace.stores.create("Other")
    workspace.memories.create(other.id, "/a", b"", actor)
    workspace.memories.delete(other.id, "/a", actor)
    with pytest.raises(PreconditionFailed, match="memfs store create"):
        taken_in(workspace, other.id, data)


def test_an_archived_or_missing_store_takes_none(workspace: Workspace, lived: Store) -> None:
    data = exported(workspace, lived.id)
    other = workspace.stores.create("Other")
    workspace.stores.archive(other.id)
    with pytest.raises(StoreArchived):
        taken_in(workspace, other.id, data)
    with pytest.raises(NotFound):
        taken_in(workspace, ids.new_id(ids.MEMORY_STORE), data)


def test_a_dry_run_checks_everything_and_writes_nothing(workspace: Workspace, lived: Store) -> None:
    data = exported(workspace, lived.id)
    other = workspace.stores.create("Other")
    done: list[int] = []
    result = taken_in(workspace, other.id, data, dry_run=True, progress=done.append)
    assert result.versions == sum(done) == len(workspace.versions.list(lived.id))
    assert workspace.versions.list(other.id) == []
    with pytest.raises(InvalidRequest):
        taken_in(workspace, other.id, data + b"{}\n", dry_run=True)


def test_guards_are_checked_and_rewrite_nothing(workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.memories.create(store.id, "/a", b"short", actor)
    workspace.memories.update(store.id, "/a", actor, content=b"much longer")
    workspace.memories.update(store.id, "/a", actor, content=b"short again", path="/b")
    data = exported(workspace, store.id)
    other = workspace.stores.create("Guarded")
    for guards, message in (
        (Guards(max_content_bytes=10), "line 3: .* allows 10 bytes"),
        (Guards(allowed_paths=("/a",)), "line 4: .* allows no memory at /b"),
    ):
        workspace.stores.set_guards(other.id, guards)
        with pytest.raises(WriteRefused, match=message):
            taken_in(workspace, other.id, data)
        assert workspace.versions.list(other.id) == []
    workspace.stores.set_guards(other.id, Guards(max_content_bytes=11, allowed_paths=("/*",)))
    assert taken_in(workspace, other.id, data).versions == 3


def test_a_history_that_a_guard_would_mask_is_refused(workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.memories.create(store.id, "/a", b"write to ada.lovelace@analytical-engines.co.uk today\n", actor)
    data = exported(workspace, store.id)
    other = workspace.stores.create("Guarded")
    workspace.stores.set_guards(other.id, Guards(personal_data="mask"))
    with pytest.raises(WriteRefused, match=r"line 2: .*not rewritten"):
        taken_in(workspace, other.id, data)


def test_guards_that_are_set_while_a_history_comes_in_are_heeded(
    workspace: Workspace, store: Store, actor: Actor
) -> None:
    workspace.memories.create(store.id, "/a", b"longer than that", actor)
    data = exported(workspace, store.id)
    other = workspace.stores.create("Guarded")

    waiting = [Guards(max_content_bytes=3)]

    def set_guards(_number: int) -> None:
        if waiting:
            workspace.stores.set_guards(other.id, waiting.pop())

    with pytest.raises(PreconditionFailed, match=r"guards .* changed meanwhile: try again"):
        taken_in(workspace, other.id, data, progress=set_guards)
    assert workspace.versions.list(other.id) == []


# What strangers write


STORE_ID = ids.new_id(ids.MEMORY_STORE)
MEMORY_ID = ids.new_id(ids.MEMORY)
OTHER_ID = ids.new_id(ids.MEMORY)
ALICE = {"type": "user_actor", "user_id": "alice"}
TIME = "2026-11-30T09:12:01.000123Z"
NOTHING = dict.fromkeys(("path", "content", "content_size_bytes", "content_sha256"))
"""What is left of a redacted version."""


def version(operation: str = "created", memory_id: str = MEMORY_ID, **fields: object) -> JsonObject:
    """A version line; without fields one of a history that is fine."""
    gone = operation == "deleted"
    return {
        "id": ids.new_id(ids.MEMORY_VERSION),
        "type": "memory_version",
        "memory_store_id": STORE_ID,
        "memory_id": memory_id,
        "operation": operation,
        "path": "/a",
        "content": None if gone else "text",
        "content_size_bytes": None if gone else 4,
        "content_sha256": None if gone else "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1",
        "created_at": TIME,
        "created_by": ALICE,
        "redacted_at": None,
        "redacted_by": None,
    } | fields


def redacted(operation: str = "created", memory_id: str = MEMORY_ID) -> JsonObject:
    return version(operation, memory_id, **NOTHING, redacted_at=TIME, redacted_by=ALICE)


def memory(head: JsonObject, **fields: object) -> JsonObject:
    return {
        "id": head["memory_id"],
        "type": "memory",
        "memory_store_id": STORE_ID,
        "memory_version_id": head["id"],
        "path": head["path"],
        "content": None,
        "content_size_bytes": head["content_size_bytes"],
        "content_sha256": head["content_sha256"],
        "created_at": TIME,
        "updated_at": TIME,
    } | fields


HEADER = {"type": "memory_store", "id": STORE_ID}


def refusal(workspace: Workspace, store: Store, data: bytes) -> str:
    """Why lines are refused; nothing of them is in the store then."""
    with pytest.raises((InvalidRequest, StoreFull)) as raised:
        taken_in(workspace, store.id, data)
    assert workspace.versions.list(store.id) == []
    assert workspace.memories.list(store.id) == []
    message = str(raised.value)
    assert message.endswith("; nothing was imported")
    assert len(message) < 400
    return message


def test_the_lines_of_these_tests_are_fine(workspace: Workspace, store: Store) -> None:
    first = version()
    result = taken_in(workspace, store.id, text([HEADER, first, memory(first)]))
    assert result == ImportedHistory(1, ["/a"], ids_kept=True)
    assert workspace.memories.get(store.id, "/a").content == b"text"


@pytest.mark.parametrize(
    "changes,reason",
    [
        ({"type": "memory_versions"}, "its type"),
        ({"type": None}, "its type is missing or null"),
        ({"id": "memver_1"}, "its id"),
        ({"id": None}, "its id"),
        ({"id": ["x"]}, "its id is a list"),
        ({"id": ids.new_id(ids.MEMORY)}, "its id"),
        ({"memory_id": ids.new_id(ids.SESSION)}, "its memory_id"),
        ({"memory_id": MEMORY_ID + "\n"}, "its memory_id"),
        ({"memory_store_id": 1}, "its memory_store_id is 1"),
        ({"operation": "changed"}, "its operation"),
        ({"operation": {}}, "its operation is an object"),
        ({"path": None}, "its path"),
        ({"path": 1}, "its path"),
        ({"path": "a"}, "starts with '/'"),
        ({"path": "/a/../b"}, "'..'"),
        ({"path": "/e\u0301"}, "Normalization"),
        ({"path": "/\ud800"}, "half of a surrogate pair"),
        ({"path": "/a\0"}, "control"),
        ({"path": "/" + "x" * 1024}, "1024 bytes"),
        ({"path": "/x" * 21}, "20 segments"),
        ({"content": None}, "memfs store export --as jsonl"),
        ({"content": 1}, "its content is 1"),
        ({"content": "other"}, "has 5 bytes, not 4"),
        ({"content": "txet"}, "another hash"),
        ({"content": "\udfff"}, "half of a surrogate pair"),
        ({"content": "x" * (MAX_CONTENT_BYTES + 1)}, "102401 bytes"),
        ({"content_size_bytes": 5}, "not 5"),
        ({"content_size_bytes": "4"}, 'not "4"'),
        ({"content_size_bytes": True, "content": "x", "content_sha256": None}, "not true"),
        ({"content_sha256": "0" * 64}, "another hash"),
        ({"content_sha256": 1}, "another hash"),
        ({"created_at": None}, "its created_at"),
        ({"created_at": 1}, "its created_at"),
        ({"created_at": "2026-11-30"}, "its created_at"),
        ({"created_at": "2026-11-30T09:12:01"}, "its created_at"),
        ({"created_at": "2026-02-30T09:12:01Z"}, "its created_at"),
        ({"created_at": "2026-11-30T25:12:01Z"}, "its created_at"),
        ({"created_at": "1969-12-31T23:59:59Z"}, "since 1970"),
        ({"created_at": "0001-01-01T00:00:00+01:00"}, "its created_at"),
        ({"created_at": "9999-12-31T23:59:59-01:00"}, "its created_at"),
        ({"created_at": TIME + "\n"}, "its created_at"),
        ({"created_at": "٢٠٢٦-11-30T09:12:01Z"}, "its created_at"),
        ({"created_by": None}, "its created_by"),
        ({"created_by": "alice"}, "its created_by"),
        ({"created_by": {"type": "god_actor", "user_id": "x"}}, "its created_by"),
        ({"created_by": {"type": ["user_actor"]}}, "its created_by"),
        ({"created_by": {"type": "user_actor", "session_id": "x"}}, "user_id"),
        ({"created_by": {"type": "user_actor", "user_id": ""}}, "1 to 256"),
        ({"created_by": {"type": "user_actor", "user_id": "x" * 257}}, "1 to 256"),
        ({"created_by": {"type": "user_actor", "user_id": "a\n"}}, "1 to 256"),
        ({"created_by": {"type": "user_actor", "user_id": "\udcff"}}, "1 to 256"),
        ({"created_by": {"type": "user_actor", "user_id": 7}}, "1 to 256"),
        ({"redacted_at": TIME}, "both or neither"),
        ({"redacted_by": ALICE}, "both or neither"),
        ({"redacted_at": TIME, "redacted_by": ALICE}, "has no path"),
        ({"redacted_at": TIME, "redacted_by": ALICE, "path": None}, "no content, size or hash"),
        ({"redacted_at": "now", "redacted_by": ALICE} | NOTHING, "its redacted_at"),
        ({"operation": "deleted"}, "no content, size or hash"),
    ],
)  # fmt: skip
def test_a_field_that_breaks_its_rule_is_refused_with_its_line(
    workspace: Workspace, store: Store, changes: JsonObject, reason: str
) -> None:
    before = version(memory_id=OTHER_ID, path="/other")
    message = refusal(workspace, store, text([HEADER, before, {}])[:-3] + text([version() | changes]))
    assert message.startswith("line 3: ")
    assert reason in message


def test_a_field_that_is_left_out_is_refused_unless_it_need_not_be_there(workspace: Workspace, store: Store) -> None:
    for number, field in enumerate(version()):
        line = {name: value for name, value in version(memory_id=ids.new_id(ids.MEMORY)).items() if name != field}
        if field in ("content_size_bytes", "content_sha256", "redacted_at", "redacted_by"):
            other = workspace.stores.create(str(number))
            assert taken_in(workspace, other.id, text([line])).versions == 1
        else:
            assert refusal(workspace, store, text([line])).startswith("line 1: ")


@pytest.mark.parametrize(
    "line,reason",
    [
        (b"nothing", "not JSON"),
        (b'{"type": "memory_version"', "not JSON"),
        (b"[]", "a list"),
        (b'"x"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"NaN", "not a JSON object, but NaN"),
        (b"\xff{}", "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b"9" * 5_000, "not JSON"),
        (b'{"type": "' + b"x" * MAX_LINE_BYTES, "more than a version can need"),
        (b" " * (MAX_LINE_BYTES + 1), "more than a version can need"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (json.dumps(HEADER).encode(), "first line only"),
        (b"{}", "missing or null"),
    ],
    ids=range(14),
)
def test_a_line_that_is_none_is_refused(workspace: Workspace, store: Store, line: bytes, reason: str) -> None:
    message = refusal(workspace, store, text([HEADER]) + line + b"\n" + text([version()]))
    assert message.startswith("line 2: ")
    assert reason in message


def test_how_lines_may_be_written(workspace: Workspace, store: Store) -> None:
    """A byte order mark before all, CRLF, empty lines, no last newline, unknown fields, escapes."""
    first = version(content="\U0001f600\u2028\0", content_size_bytes=None, content_sha256=None, later="x")
    data = b"\xef\xbb\xbf" + json.dumps(HEADER).encode() + b"\r\n\r\n  \n" + json.dumps(first).encode()
    with pytest.raises(InvalidRequest, match="without the lines of 1 memories"):
        taken_in(workspace, store.id, data)
    taken_in(workspace, store.id, data.replace(json.dumps(HEADER).encode(), b""))
    assert workspace.memories.get(store.id, "/a").content == "\U0001f600\u2028\0".encode()


def test_times_are_kept_in_the_form_of_all_times(workspace: Workspace, store: Store) -> None:
    times = {
        "2026-11-30T09:12:01Z": "2026-11-30T09:12:01.000000Z",
        "2026-11-30t09:12:01.5z": "2026-11-30T09:12:01.500000Z",
        "2026-11-30T09:12:01.123456789+02:00": "2026-11-30T07:12:01.123456Z",
        "2026-11-30 09:12:01-00:30": "2026-11-30T09:42:01.000000Z",
    }
    told = [version(memory_id=ids.new_id(ids.MEMORY), path=f"/{n}", created_at=time) for n, time in enumerate(times)]
    taken_in(workspace, store.id, text(told))
    assert [memory.created_at for memory in workspace.memories.list(store.id)] == list(times.values())


# How lines follow one another


def one_after_another(*operations: str) -> list[JsonObject]:
    return [redacted(each[1:]) if each.startswith("-") else version(each) for each in operations]


@pytest.mark.parametrize(
    "operations",
    [
        "created",
        "created modified",
        "created deleted",
        "created modified deleted created",
        "created deleted created deleted created modified",
        "modified",
        "modified modified",
        "modified deleted",
        "deleted",
        "deleted created",
        "-created modified",
        "-created -modified -deleted",
        "-deleted",
    ],
)
def test_an_order_that_can_be(workspace: Workspace, store: Store, operations: str) -> None:
    told = one_after_another(*operations.split())
    assert taken_in(workspace, store.id, text(told)).versions == len(told)
    assert [found.operation for found in workspace.versions.list(store.id, oldest_first=True)] == [
        each.removeprefix("-") for each in operations.split()
    ]


@pytest.mark.parametrize(
    "operations,line",
    [
        ("created created", 2),
        ("created deleted modified", 3),
        ("created deleted deleted", 3),
        ("modified created", 2),
        ("deleted modified", 2),
        ("-created created", 2),
    ],
)
def test_an_order_that_cannot_be(workspace: Workspace, store: Store, operations: str, line: int) -> None:
    message = refusal(workspace, store, text(one_after_another(*operations.split())))
    assert message.startswith(f"line {line}: it says ")


def test_a_version_comes_once(workspace: Workspace, store: Store) -> None:
    first = version()
    again = version("modified", id=first["id"])
    assert "second time" in refusal(workspace, store, text([first, again]))


def test_a_history_is_of_one_store(workspace: Workspace, store: Store) -> None:
    other = version(memory_id=OTHER_ID, memory_store_id=ids.new_id(ids.MEMORY_STORE), path="/b")
    assert refusal(workspace, store, text([version(), other])).startswith("line 2: it is of the store")
    assert refusal(workspace, store, text([HEADER, other])).startswith("line 2: it is of the store")


def test_a_live_memory_cannot_end_redacted(workspace: Workspace, store: Store) -> None:
    assert "redacted version" in refusal(workspace, store, text([version(), redacted("modified")]))


@pytest.mark.parametrize("paths", [("/a", "/a"), ("/a", "/a/b"), ("/a/b/c", "/a")])
def test_memories_that_cannot_live_together(workspace: Workspace, store: Store, paths: tuple[str, str]) -> None:
    told = [version(memory_id=each, path=path) for each, path in zip((MEMORY_ID, OTHER_ID), paths, strict=True)]
    assert "cannot both be" in refusal(workspace, store, text(told))
    away = version("modified", OTHER_ID, path="/elsewhere")
    assert taken_in(workspace, store.id, text([*told, away])).paths == sorted([paths[0], "/elsewhere"])


def test_more_memories_than_a_store_holds(workspace: Workspace, store: Store) -> None:
    told = [version(memory_id=ids.new_id(ids.MEMORY), path=f"/{number}") for number in range(MAX_MEMORIES + 1)]
    with pytest.raises(StoreFull):
        taken_in(workspace, store.id, text(told), dry_run=True)
    assert "2001 memories" in refusal(workspace, store, text(told))
    gone = version("deleted", told[0]["memory_id"])
    assert len(taken_in(workspace, store.id, text([*told, gone])).paths) == MAX_MEMORIES


@pytest.mark.parametrize(
    "changes,reason",
    [
        ({"id": OTHER_ID}, "does not live"),
        ({"memory_version_id": ids.new_id(ids.MEMORY_VERSION)}, "its memory_version_id"),
        ({"path": "/b"}, "its path"),
        ({"content": "text"}, "content null"),
        ({"content_size_bytes": 5}, "its content_size_bytes"),
        ({"content_sha256": None}, "its content_sha256"),
        ({"created_at": "2026-11-30T09:12:02Z"}, "its created_at"),
        ({"created_at": None}, "its created_at"),
        ({"updated_at": "2026-11-30T09:12:02Z"}, "its updated_at"),
        ({"memory_store_id": ids.new_id(ids.MEMORY_STORE)}, "it is of the store"),
    ],
)
def test_a_memory_that_its_versions_contradict(
    workspace: Workspace, store: Store, changes: JsonObject, reason: str
) -> None:
    first = version()
    message = refusal(workspace, store, text([HEADER, first, memory(first, **changes)]))
    assert message.startswith("line 3: ")
    assert reason in message


def test_memories_come_last_and_once(workspace: Workspace, store: Store) -> None:
    first, second = version(), version("modified")
    assert "second time" in refusal(workspace, store, text([HEADER, first, memory(first), memory(first)]))
    assert "versions come first" in refusal(workspace, store, text([HEADER, first, memory(first), second]))


def test_a_file_that_was_cut_off_is_refused(workspace: Workspace, lived: Store) -> None:
    data = exported(workspace, lived.id)
    whole = data.splitlines(keepends=True)
    target = workspace.stores.create("Other")
    for count in range(2, len(whole)):
        assert refusal(workspace, target, b"".join(whole[:count]))
    for cut in (2, 10, len(whole[-1]) - 1):
        assert refusal(workspace, target, data[:-cut]).startswith(f"line {len(whole)}: it is not JSON")


def test_a_file_that_changes_between_its_readings_changes_nothing(
    workspace: Workspace, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.BytesIO(text([version(), version("modified"), version("modified")]))
    real: Callable[[Engine, Iterator[MemoryVersion]], bool] = type(workspace.engine).knows_any

    def swapping(engine: Engine, versions: Iterator[MemoryVersion]) -> bool:
        known = real(engine, versions)
        file.seek(0, io.SEEK_END)
        file.write(b"damage\n")
        return known

    monkeypatch.setattr(type(workspace.engine), "knows_any", swapping)
    with pytest.raises(InvalidRequest, match="line 4"):
        import_history(workspace, store.id, file)
    assert workspace.versions.list(store.id) == []


# While others write


def test_an_export_is_one_moment_while_others_write(
    workspace: Workspace, store: Store, actor: Actor, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two lines another process changes, moves, deletes and makes memories: the lines can be taken in, and
    are the beginning of the history."""
    monkeypatch.setattr(histories, "PAGE", 3)
    rounds = iter(range(1_000_000))
    with Workspace.open(db) as other:

        def write() -> None:
            number = next(rounds)
            heads = sorted(other.engine.snapshot(store.id).heads, key=lambda head: head.version_id)
            gone = [Delete(head.memory_id) for head in heads[:-5]]
            changes = [Update(head.memory_id, b"%d" % number, f"/{number}{head.path[-2:]}") for head in heads[-5:]]
            made = Create(ids.new_id(ids.MEMORY), f"/{number}/{number % 8}", b"")
            other.memories.apply(store.id, [made, *changes, *gone], actor)

        for _ in range(20):
            write()
        data = b""
        for line in history_objects(workspace, store.id):
            data += json_line(line)
            write()
    before = [line for line in data.splitlines() if b'"type": "memory_version"' in line]
    after = exported(workspace, store.id).splitlines()
    assert after[1 : len(before) + 1] == before
    assert len(after) > len(before) + 50
    with Workspace.open(tmp_path / "copy.db", create=True) as copy:
        copy.engine.insert_store(store)
        assert len(taken_in(copy, store.id, data).paths) == 6
        assert exported(copy, store.id) == data


def test_a_head_that_is_redacted_while_it_is_exported_ends_the_export(
    workspace: Workspace, store: Store, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "PAGE", 1)
    for path in ("/a", "/b"):
        workspace.memories.create(store.id, path, path.encode(), actor)
    objects = history_objects(workspace, store.id)
    assert [next(objects)["type"] for _ in range(2)] == ["memory_store", "memory_version"]
    head = workspace.memories.get(store.id, "/b").memory_version_id
    workspace.memories.update(store.id, "/b", actor, content=b"harmless")
    workspace.versions.redact(store.id, [head], actor)
    assert next(objects)["redacted_at"] is not None
    with pytest.raises(HistoryGone, match="/b held"):
        next(objects)


def test_what_is_made_after_the_export_began_is_not_in_it(workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.memories.create(store.id, "/a", b"", actor)
    objects = history_objects(workspace, store.id)
    next(objects)
    workspace.memories.create(store.id, "/b", b"", actor)
    workspace.memories.delete(store.id, "/a", actor)
    assert [each["path"] for each in objects] == ["/a", "/a"]


# Anything


SEPARATORS = st.sampled_from(["", "\0", "\r\n", "\ufeff", "\u2028\u2029\x85", "\U0010ffff"])
NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"], exclude_characters="/"), min_size=1, max_size=8
)
ACTIONS = st.sampled_from(["write", "rename", "delete", "restore", "redact", "prune"])
STEPS = st.lists(st.tuples(ACTIONS, st.integers(0, 9), NAMES, st.text(max_size=40) | SEPARATORS), max_size=12)
KINDS = st.sampled_from(get_args(ActorType))
ACTORS = st.builds(Actor, KINDS, st.sampled_from(["a", "é \U0001f600"]))


def do(workspace: Workspace, store: Store, step: tuple[str, int, str, str], actor: Actor) -> None:
    """One step; what the rules refuse is not done."""
    action, number, name, words = step
    live = workspace.memories.list(store.id)
    told = workspace.versions.list(store.id)
    one = live[number % len(live)] if live else None
    try:
        if action == "write" and one is not None and number % 2:
            workspace.memories.update(store.id, one.id, actor, content=words.encode())
        elif action == "write":
            workspace.memories.create(store.id, f"/{name}", words.encode(), actor)
        elif action == "rename" and one is not None:
            workspace.memories.update(store.id, one.id, actor, path=f"/d/{name}")
        elif action == "delete" and one is not None:
            workspace.memories.delete(store.id, one.id, actor)
        elif action == "restore" and told:
            workspace.versions.restore(store.id, told[number % len(told)].id, actor)
        elif action == "redact" and told:
            workspace.engine.redact(store.id, [told[number % len(told)].id], told[0].created_at, actor)
        elif action == "prune" and told:
            workspace.retention.prune(store.id, told[number % len(told)].created_at)
    except MemfsError:
        pass


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, actor=ACTORS)
def test_whatever_happened_to_a_store_goes_out_and_comes_back(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, str, str]], actor: Actor
) -> None:
    top = tmp_path_factory.mktemp("history")
    with (
        Workspace.open(top / "one.db", create=True) as workspace,
        Workspace.open(top / "two.db", create=True) as other,
    ):
        store = workspace.stores.create("x")
        for step in steps:
            do(workspace, store, step, actor)
        data = exported(workspace, store.id)
        other.engine.insert_store(store)
        taken_in(other, store.id, data)
        assert exported(other, store.id) == data
        assert other.memories.list(store.id, content=True) == workspace.memories.list(store.id, content=True)
        again = workspace.stores.create("again")
        taken_in(workspace, again.id, data)
        assert len(exported(workspace, again.id).splitlines()) == len(data.splitlines())


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_a_file_holds_it_is_taken_in_or_refused(
    workspace: Workspace, store: Store, data: st.DataObject
) -> None:
    """Any JSON value in the place of any field: refused with the line, or fine; never a fault."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(TIME) | st.just(ALICE),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
        max_leaves=4,
    )
    first = version()
    objects: list[JsonObject] = [dict(HEADER), first, version("modified"), memory(first)]
    broken = data.draw(st.sampled_from(objects))
    broken[data.draw(st.sampled_from(sorted(broken)))] = data.draw(values)
    try:
        taken_in(workspace, store.id, text(objects), dry_run=True)
    except InvalidRequest as error:
        message = str(error)
    else:
        message = "nothing was imported"
    assert message.endswith("nothing was imported")
