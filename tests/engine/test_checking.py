"""Each invariant of a database: damaged for real, found, and repaired where that invents nothing."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest

from memfs.engine import checking
from memfs.engine.checking import check, repair
from memfs.engine.invariants import INVARIANTS, Invariant
from memfs.model import ids
from memfs.model.errors import Busy, NotFound, StorageFailed, UnusableDatabase
from memfs.model.findings import Violation
from memfs.model.mutations import Edit, KeepDirectory, Update
from memfs.model.records import Actor
from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource
from tests.processes import environment, python, tell

NOBODY = "memstore_01M8NMQFRQEHGZHQHXSA2763V0"


@pytest.fixture
def filled(db: Path, damaged: None, actor: Actor) -> Path:
    """A database with a row in every table, that nobody has open."""
    with Workspace.open(db, create=True) as workspace:
        store = workspace.stores.create("Notes", metadata={"team": "platform"})
        session = workspace.sessions.create([Resource(store, instructions="Look here first.")])
        for name in ("kept", "modified", "deleted", "redacted", "below/memory"):
            workspace.memories.create(store.id, f"/{name}.md", f"{name}\n".encode(), actor)
        for text in (b"second\n", b"third\n"):
            workspace.memories.update(store.id, "/modified.md", actor, content=text)
        workspace.memories.delete(store.id, "/deleted.md", Actor("session_actor", session.id))
        workspace.memories.update(store.id, "/redacted.md", actor, content=b"clean\n")
        (first,) = [v for v in workspace.versions.list(store.id, content=True) if v.content == b"redacted\n"]
        workspace.versions.redact(store.id, [first.id], actor)
        workspace.keys.create("ci", stores=[store])
        workspace.memories.get(store.id, "/kept.md")
        workspace.accesses.record()
        attached = workspace.attached(store.id, actor, "read_write")
        attached.commit([KeepDirectory("/empty/inside")])
        stale = next(v for v in workspace.versions.list(store.id, content=True) if v.content == b"modified\n")
        edit = Edit(stale.id, stale.content_sha256, stale.content)
        attached.commit([Update(stale.memory_id, content=b"ours\n", edit=edit)])
    with closing(sqlite3.connect(db)) as rows:
        tables = [name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert [name for name in tables if not rows.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone()] == []
    assert check(db).violations == []
    return db


def wrong(path: Path, *statements: str, values: Sequence[object] = ()) -> None:
    """Change rows past all rules; ``values`` are those of the last statement."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements[:-1]:
            connection.execute(statement)
        connection.execute(statements[-1], values)


def rewrite(path: Path, table: str, old: str, new: str) -> None:
    """Make a table anew with another definition, as no statement of SQLite would change it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        assert old in made
        later = [
            sql
            for (sql,) in connection.execute(
                "SELECT sql FROM sqlite_master WHERE type != 'table' AND sql IS NOT NULL ORDER BY type"
            )
        ]
        for name, kind in connection.execute("SELECT name, type FROM sqlite_master WHERE type = 'view'").fetchall():
            connection.execute(f"DROP {kind} {name}")
        connection.execute("PRAGMA legacy_alter_table = ON")
        connection.execute(f"ALTER TABLE {table} RENAME TO old")
        connection.execute(made.replace(old, new))
        connection.execute(f"INSERT INTO {table} SELECT * FROM old")
        connection.execute("DROP TABLE old")
        there = {name for (name,) in connection.execute("SELECT sql FROM sqlite_master")}
        for statement in later:
            if statement not in there:
                connection.execute(statement)


def history(path: Path) -> list[tuple[object, ...]]:
    """All versions with their texts, but where it is that these lie."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes  # a path may be no text
        return connection.execute(
            "SELECT v.sequence, v.id, v.store_id, v.memory_id, operation, path, content_sha256, v.created_at, bytes"
            " FROM memory_versions AS v LEFT JOIN contents ON contents.id = content_id ORDER BY v.sequence"
        ).fetchall()


def files(path: Path) -> dict[str, bytes]:
    """Every file beside a database, and itself."""
    return {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}


def pages(path: Path, number: int) -> None:
    """Overwrite the root page of the index of paths."""
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_memories_2'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(os.urandom(number))


def forgetful_index(path: Path) -> None:
    """Write a row while SQLite does not know of an index, which then lacks it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        row = connection.execute("SELECT * FROM sqlite_master WHERE name = 'memory_versions_of_actor'").fetchone()
        connection.execute("DELETE FROM sqlite_master WHERE name = 'memory_versions_of_actor'")
        connection.execute("PRAGMA writable_schema = RESET")
        connection.execute("UPDATE memory_versions SET created_by_id = 'bob' WHERE path = '/kept.md'")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)


def two_at_one_path(path: Path) -> None:
    rewrite(path, "memories", "UNIQUE (store_id, path)", "CHECK (1)")
    wrong(path, "UPDATE memories SET path = '/kept.md' WHERE path = '/modified.md'")
    wrong(path, "UPDATE memory_versions SET path = '/kept.md' WHERE path = '/modified.md'")


def too_many(path: Path) -> None:
    with Workspace.open(path) as workspace:
        (store,) = workspace.stores.list()
        actor = Actor("user_actor", "alice")
        for number in range(3):
            workspace.memories.create(store.id, f"/many-{number}.md", b"x\n", actor)
    names = (
        "id, store_id, path, head_version_id, content_sha256, content_size_bytes, content_id, created_at, updated_at"
    )
    versions = (
        "sequence, id, store_id, memory_id, operation, path, content_size_bytes, content_sha256, content_id,"
        " created_at, created_by_type, created_by_id"
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        (model,) = connection.execute(f"SELECT {versions} FROM memory_versions WHERE path = '/many-0.md'").fetchall()
        for number in range(2_000):
            version, memory = ids.new_id(ids.MEMORY_VERSION), ids.new_id(ids.MEMORY)
            row = (1_000 + number, version, model[2], memory, "created", f"/more-{number}.md", *model[6:])
            connection.execute(f"INSERT INTO memory_versions ({versions}) VALUES ({', '.join('?' * 12)})", row)
            connection.execute("INSERT INTO changes VALUES (?, ?, 'memory', ?)", (1_000 + number, model[2], memory))
            head = (memory, model[2], row[5], version, model[7], model[6], model[8], model[9], model[9])
            connection.execute(f"INSERT INTO memories ({names}) VALUES ({', '.join('?' * 9)})", head)


def too_many_directories(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO kept_directories SELECT id, ?, updated_at, NULL, NULL, NULL FROM memory_stores",
            [(f"/directory-{number}",) for number in range(4_000)],
        )


def large_text(path: Path) -> None:
    text = b"x" * 102_401
    digest = sha256(text).hexdigest()
    wrong(path, "INSERT INTO contents (sha256, size_bytes, bytes) VALUES (?, ?, ?)", values=(digest, len(text), text))
    for table in ("memory_versions", "memories"):
        wrong(
            path,
            f"UPDATE {table} SET content_sha256 = ?, content_size_bytes = ?, content_id ="
            " (SELECT max(id) FROM contents) WHERE path = '/kept.md'",
            values=(digest, len(text)),
        )
    wrong(path, "DELETE FROM contents WHERE bytes = ?", values=(b"kept\n",))


def not_text(path: Path) -> None:
    text = b"\xff\n"
    digest = sha256(text).hexdigest()
    where = "WHERE sha256 = (SELECT content_sha256 FROM memories WHERE path = '/kept.md')"
    wrong(path, f"UPDATE contents SET sha256 = ?, size_bytes = 2, bytes = ? {where}", values=(digest, text))
    for table in ("memory_versions", "memories"):
        wrong(
            path,
            f"UPDATE {table} SET content_sha256 = ?, content_size_bytes = 2 WHERE path = '/kept.md'",
            values=(digest,),
        )


def not_utf8_path(path: Path) -> None:
    for table in ("memory_versions", "memories"):
        wrong(path, f"UPDATE {table} SET path = CAST(X'2FFF' AS TEXT) WHERE path = '/kept.md'")


def long_instructions(path: Path) -> None:
    wrong(path, "UPDATE session_attachments SET instructions = ?", values=("x" * 4_097,))


def many_attachments(path: Path) -> None:
    for position in range(1, 9):
        wrong(
            path,
            "INSERT INTO session_attachments SELECT session_id, ?, store_id, access, store_name, store_description,"
            " mount_path, instructions, on_conflict FROM session_attachments WHERE position = 0",
            values=(position,),
        )


def renamed(path: Path, new: str) -> None:
    """Move a memory, and its history with it."""
    for table in ("memory_versions", "memories"):
        wrong(path, f"UPDATE {table} SET path = ? WHERE path = '/kept.md'", values=(new,))


Damage = Callable[[Path], None]


def sql(*statements: str) -> Damage:
    return lambda path: wrong(path, *statements)


def moved(new: str) -> Damage:
    return lambda path: renamed(path, new)


OFF = "PRAGMA foreign_keys = OFF"
HEAD = "(SELECT head_version_id FROM memories WHERE path = '/modified.md')"
NEWEST = f"id = {HEAD}"
FIRST = "(SELECT min(sequence) FROM memory_versions WHERE path = '/modified.md')"
KEPT = "(SELECT sequence FROM memory_versions WHERE path = '/kept.md')"
FORMER = "path = '/deleted.md' AND operation = 'created'"
DELETION = "operation = 'deleted'"
REDACTED = "redacted_at IS NOT NULL"
VERSIONS = "UPDATE memory_versions SET"
NO_TEXT = "content_size_bytes = NULL, content_sha256 = NULL, content_id = NULL"
HEAD_OF_VERSION = (
    "memory_id, store_id, path, id, content_sha256, content_size_bytes, content_id, created_at, created_at, NULL, NULL,"
    " NULL"
)
ATTACHED = (
    f"INSERT INTO session_attachments SELECT session_id, 7, '{NOBODY}', access, store_name, store_description,"
    " mount_path, instructions, on_conflict FROM session_attachments"
)


@dataclass(frozen=True)
class Case:
    """A damage, the invariants that it breaks, and those that a repair cannot put right."""

    name: str
    damage: Damage
    found: tuple[str, ...]
    left: tuple[str, ...] = ()
    keeps_history: bool = True


CASES = [
    Case("an index that lacks a row", forgetful_index, ("file",)),
    Case("a page of rubbish", lambda path: pages(path, 4_096), ("file",), ("file",)),
    Case("a missing index", sql("DROP INDEX memories_of_head"), ("schema",)),
    Case("a missing view", sql("DROP VIEW history"), ("schema",)),
    Case("a missing table", sql("DROP TABLE merges"), ("schema", "references"), ("schema",)),
    Case("another column", sql("ALTER TABLE contents ADD COLUMN more TEXT"), ("schema",), ("schema",)),
    Case("not in WAL mode", sql("PRAGMA journal_mode = DELETE"), ("journal",)),
    Case("no workspace", sql("DELETE FROM workspace"), ("workspace",), ("workspace",)),
    Case("no retention", sql("UPDATE workspace SET retention_days = 0"), ("workspace",), ("workspace",)),
    Case("scrubs that nobody wanted", sql("UPDATE workspace SET scrubs_done = 99"), ("workspace",)),
    Case(
        "a deletion with a text",
        sql(f"{VERSIONS} content_size_bytes = 5 WHERE {DELETION}"),
        ("states",),
        ("states",),
    ),
    Case(
        "a version without a path",
        sql(f"{VERSIONS} path = NULL WHERE {DELETION}"),
        ("states",),
        ("states",),
    ),
    Case(
        "a redacted version with a text",
        sql(f"{VERSIONS} path = '/p', content_id = 1 WHERE {REDACTED}"),
        ("states",),
        keeps_history=False,
    ),
    Case(
        "redacted by nobody",
        sql(f"{VERSIONS} redacted_by_id = NULL WHERE {REDACTED}"),
        ("states",),
        ("states",),
    ),
    Case(
        "not redacted, but by somebody",
        sql(f"UPDATE memory_versions SET redacted_by_id = 'ada' WHERE {NEWEST}"),
        ("states",),
        ("states",),
    ),
    Case(
        "a version whose text is gone",
        sql(OFF, "DELETE FROM contents WHERE bytes = CAST('second' || char(10) AS BLOB)"),
        ("texts",),
        ("texts",),
    ),
    Case(
        "a version with another's text",
        sql(f"UPDATE memory_versions SET content_id = 1 WHERE id = {HEAD}"),
        ("texts", "heads"),
        keeps_history=False,
    ),
    Case(
        "a version with another hash",
        sql(f"{VERSIONS} content_sha256 = 'x' WHERE {FORMER}"),
        ("texts",),
        ("texts",),
    ),
    Case(
        "a version with another size",
        sql(f"{VERSIONS} content_size_bytes = 99 WHERE {FORMER}"),
        ("texts",),
    ),
    Case("a text of another size", sql("UPDATE contents SET size_bytes = 99 WHERE id = 3"), ("texts", "hashes")),
    Case(
        "a changed text",
        sql(
            "UPDATE contents SET bytes = CAST('other' AS BLOB), size_bytes = 5 WHERE id = 1",
            "UPDATE memory_versions SET content_size_bytes = 5 WHERE content_id = 1",
            "UPDATE memories SET content_size_bytes = 5 WHERE content_id = 1",
        ),
        ("hashes",),
        ("hashes",),
    ),
    Case("a text that is no bytes", sql("UPDATE contents SET bytes = 12345 WHERE id = 1"), ("hashes",), ("hashes",)),
    Case("a text that is not UTF-8", not_text, ("hashes",), ("hashes",)),
    Case(
        "a second creation",
        sql(f"UPDATE memory_versions SET operation = 'created' WHERE id = {HEAD}"),
        ("operations",),
        ("operations",),
    ),
    Case(
        "a life after death",
        sql(f"{VERSIONS} operation = 'deleted', {NO_TEXT} WHERE sequence = {FIRST}"),
        ("operations", "orphans"),
        ("operations",),
        keeps_history=False,
    ),
    Case(
        "a memory in two stores",
        sql(
            f"INSERT INTO memory_stores SELECT '{NOBODY}', 'x', '', '{{}}', created_at, updated_at, NULL, '{{}}'"
            " FROM memory_stores",
            f"UPDATE changes SET store_id = '{NOBODY}' WHERE sequence = {FIRST}",
            f"{VERSIONS} store_id = '{NOBODY}' WHERE sequence = {FIRST}",
        ),
        ("operations",),
        ("operations",),
    ),
    Case(
        "a head at another path", sql("UPDATE memories SET path = '/other.md' WHERE path = '/modified.md'"), ("heads",)
    ),
    Case(
        "a head at an old version",
        sql(
            "UPDATE memories SET head_version_id = (SELECT id FROM memory_versions WHERE path = memories.path LIMIT 1)"
            " WHERE path = '/modified.md'"
        ),
        ("heads",),
    ),
    Case(
        "a head with another text",
        sql("UPDATE memories SET content_id = 1 WHERE path = '/modified.md'"),
        ("heads",),
    ),
    Case(
        "a head of another time",
        sql("UPDATE memories SET updated_at = '2020-01-01T00:00:00.000000Z' WHERE path = '/modified.md'"),
        ("heads",),
    ),
    Case(
        "exchanged heads",
        sql(
            "UPDATE memories SET path = '/x' WHERE path = '/kept.md'",
            "UPDATE memories SET path = '/kept.md' WHERE path = '/modified.md'",
            "UPDATE memories SET path = '/modified.md' WHERE path = '/x'",
        ),
        ("heads",),
    ),
    Case(
        "a lost head",
        sql(OFF, "DELETE FROM memory_accesses", "DELETE FROM memories WHERE path = '/modified.md'"),
        ("heads",),
    ),
    Case(
        "a head of a deleted memory",
        sql(f"INSERT INTO memories SELECT {HEAD_OF_VERSION} FROM memory_versions WHERE {FORMER}"),
        ("heads",),
    ),
    Case(
        "a memory without versions",
        sql(
            OFF,
            f"DELETE FROM changes WHERE sequence IN {KEPT}",
            "DELETE FROM memory_versions WHERE path = '/kept.md'",
        ),
        ("heads",),
        ("heads",),
    ),
    Case(
        "a lost head whose path is taken",
        sql(
            OFF,
            "DELETE FROM memory_accesses",
            "DELETE FROM memories WHERE path = '/modified.md'",
            "UPDATE memory_versions SET path = '/kept.md' WHERE path = '/modified.md'",
        ),
        ("heads",),
        ("heads",),
    ),
    Case("a session's row without a session", sql(OFF, "DELETE FROM sessions"), ("references",)),
    Case(
        "an attachment of no store",
        sql(ATTACHED),
        ("references",),
    ),
    Case("a merge of no version", sql(OFF, "INSERT INTO merges VALUES (999, NULL, 0)"), ("references",)),
    Case(
        "an access of no memory",
        sql(OFF, "INSERT INTO memory_accesses SELECT 'nobody', accessed_at FROM memory_accesses"),
        ("references",),
    ),
    Case(
        "a directory of no store",
        sql(
            OFF,
            f"INSERT INTO kept_directories SELECT '{NOBODY}', path, updated_at, 0, 0, 0 FROM kept_directories",
        ),
        ("references",),
    ),
    Case(
        "a change of no store",
        sql(OFF, f"INSERT INTO changes (store_id, subject) VALUES ('{NOBODY}', 'store')"),
        ("references",),
    ),
    Case("a store of no key", sql(OFF, "DELETE FROM api_keys"), ("references",)),
    Case("no store", sql(OFF, "DELETE FROM memory_stores"), ("references",), ("references",), keeps_history=True),
    Case(
        "a text of no version",
        sql(f"INSERT INTO contents (sha256, size_bytes, bytes) VALUES ('{sha256(b'').hexdigest()}', 0, X'')"),
        ("orphans",),
    ),
    Case(
        "a text that may be a version's",
        sql(f"{VERSIONS} content_id = NULL, content_sha256 = NULL WHERE {FORMER}"),
        ("texts", "orphans"),
        ("texts", "orphans"),
    ),
    Case("a version that is no change", sql("DELETE FROM changes WHERE sequence = 3"), ("sequence",)),
    Case(
        "a version that is another's change",
        sql("UPDATE changes SET subject = 'store', memory_id = NULL WHERE sequence = 3"),
        ("sequence",),
    ),
    Case(
        "a sequence that begins again", sql("UPDATE sqlite_sequence SET seq = 2 WHERE name = 'changes'"), ("sequence",)
    ),
    Case("a sequence that is not counted", sql("DELETE FROM sqlite_sequence"), ("sequence",)),
    Case("a path that is not in NFC", moved("/u\u0308.md"), ("paths",), ("paths",)),
    Case("a path with a control character", moved("/a\nb"), ("paths",), ("paths",)),
    Case("a path with a dot segment", moved("/a/../b"), ("paths",), ("paths",)),
    Case("a path with an empty segment", moved("/a//b"), ("paths",), ("paths",)),
    Case("a path without its slash", moved("kept.md"), ("paths",), ("paths",)),
    Case("a path of 21 segments", moved("/d" * 21), ("paths",), ("paths",)),
    Case("a path of 1,025 bytes", moved("/" + "x" * 1_024), ("paths",), ("paths",)),
    Case("a path that is not UTF-8", not_utf8_path, ("paths",), ("paths",)),
    Case(
        "a kept directory with such a path", sql("UPDATE kept_directories SET path = '/a//b'"), ("paths",), ("paths",)
    ),
    Case("two memories at a path", two_at_one_path, ("schema", "unique"), ("schema", "unique")),
    Case("a memory below another", moved("/modified.md/below.md"), ("ancestors",), ("ancestors",)),
    Case("a directory at a memory's path", sql("UPDATE kept_directories SET path = '/kept.md'"), ("directories",)),
    Case("a directory below a memory", sql("UPDATE kept_directories SET path = '/kept.md/a/b'"), ("directories",)),
    Case("too many memories", too_many, ("limits",), ("limits",)),
    Case("too many directories", too_many_directories, ("limits",), ("limits",)),
    Case("a text that is too large", large_text, ("limits",), ("limits",)),
    Case("too many stores of a session", many_attachments, ("limits",), ("limits",)),
    Case("instructions that are too long", long_instructions, ("limits",), ("limits",)),
    Case(
        "an id of no form",
        sql("UPDATE sessions SET id = 'sesn_1'", "UPDATE session_attachments SET session_id = 'sesn_1'"),
        ("forms",),
        ("forms",),
    ),
    Case("a time of no form", sql("UPDATE memory_stores SET created_at = 'yesterday'"), ("forms",), ("forms",)),
    Case(
        "a time that never was",
        sql("UPDATE memory_stores SET created_at = '2026-99-01T00:00:00.000000Z'"),
        ("forms",),
        ("forms",),
    ),
    Case("metadata that is no JSON", sql("UPDATE memory_stores SET metadata = '{'"), ("forms",), ("forms",)),
    Case("metadata that is no object", sql("UPDATE sessions SET metadata = '[]'"), ("forms",), ("forms",)),
    Case("a key without a secret's hash", sql("UPDATE api_keys SET secret_sha256 = ''"), ("forms",), ("forms",)),
    Case("a key for all and for certain stores", sql("UPDATE api_keys SET all_stores = 1"), ("forms",), ("forms",)),
]


def names(violations: Sequence[Violation]) -> set[str]:
    return {each.invariant for each in violations}


@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
def test_a_damage_is_found_and_repaired_where_that_invents_nothing(filled: Path, case: Case) -> None:
    case.damage(filled)
    before, stored = files(filled), history(filled) if "file" not in case.left else []
    found = check(filled).violations
    if "file" in case.left:  # and whatever could not be looked at
        assert "file" in names(found)
    else:
        assert names(found) == set(case.found)
    assert files(filled) == before, "a check changes nothing"
    if {"file", "schema"} & set(case.left):
        # Nothing is written to what is not understood.
        if any(each.repair for each in found):
            with pytest.raises(UnusableDatabase, match="nothing was changed"):
                repair(filled)
        else:
            assert repair(filled).backup is None
        assert files(filled)[filled.name] == before[filled.name]
        return
    assert {each.invariant for each in found if not each.repair} == set(case.left)
    done = repair(filled)
    assert names(done.after.violations) == names(check(filled).violations) == set(case.left)
    if case.keeps_history:
        assert history(filled) == stored, "no version and no text is touched"
    if set(case.left) == set(case.found):
        assert done.backup is None
        assert files(filled)[filled.name] == before[filled.name]
    else:
        assert done.backup is not None
        assert done.backup.stat().st_mode & 0o777 == 0o600
        assert names(check(done.backup).violations) == set(case.found), "the copy is from before"


def test_every_invariant_has_a_case() -> None:
    assert {name for case in CASES for name in case.found} == {*(each.name for each in INVARIANTS), "journal"}


# A check beside others


def test_a_check_reads_one_state_and_holds_no_writer_up(filled: Path, actor: Actor) -> None:
    """A writer commits in the midst of a check, which then tells of the state that it began with."""
    with Workspace.open(filled) as workspace:
        (store,) = workspace.stores.list()
        before = check(filled)
        written: list[object] = []

        def write(name: str, _done: int, _total: int) -> None:
            if name == "heads" and not written:
                written.append(workspace.memories.create(store.id, "/during.md", b"during\n", actor))

        during = check(filled, write)
        assert written
        assert (during.violations, during.memories) == ([], before.memories)
        assert check(filled).memories == before.memories + 1


def test_what_is_only_in_the_log_is_checked(filled: Path) -> None:
    with Workspace.open(filled):
        wrong(filled, "UPDATE memories SET path = '/other.md' WHERE path = '/kept.md'")
        assert names(check(filled).violations) == {"heads"}


def test_of_many_violations_of_one_kind_the_first_are_told_and_the_number(filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.executemany(
            "INSERT INTO contents (sha256, size_bytes, bytes) VALUES (?, 4, ?)",
            [(sha256(b"%04d" % number).hexdigest(), b"%04d" % number) for number in range(1_234)],
        )
    found = check(filled).violations
    assert len(found) == checking.MOST + 1
    assert found[-1].found == "and 1,134 more"
    assert repair(filled).after.violations == []


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM memories").fetchone()
print("open", flush=True)
sys.stdin.readline()
"""


def test_a_repair_is_refused_while_another_process_has_the_database_open(filled: Path) -> None:
    wrong(filled, "UPDATE memories SET path = '/other.md' WHERE path = '/kept.md'")
    before = filled.read_bytes()
    with python(HOLD, filled) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(Busy, match=rf"process {holder.pid}\).*memfs umount"):
            repair(filled)
        tell(holder)
        holder.wait(30)
    assert filled.read_bytes() == before
    assert repair(filled).after.violations == []


def test_nobody_gets_in_while_a_repair_is_at_it(filled: Path) -> None:
    wrong(filled, "UPDATE memories SET path = '/other.md' WHERE path = '/kept.md'")
    refused = []

    def look(name: str, _done: int, _total: int) -> None:
        if name == "repairing heads":
            code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('SELECT * FROM memories')"
            done = subprocess.run(
                [sys.executable, "-c", code, filled], capture_output=True, text=True, timeout=120, env=environment()
            )
            refused.append("database is locked" in done.stderr)

    assert repair(filled, look).after.violations == []
    assert refused == [True]


def test_a_repair_that_would_break_something_else_is_taken_back(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(filled, "UPDATE memories SET path = '/other.md' WHERE path = '/kept.md'")
    before = history(filled), filled.read_bytes()

    def careless(invariant: Invariant) -> Invariant:
        def spoil(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM changes")

        return replace(invariant, repair=spoil) if invariant.name == "forms" else invariant

    monkeypatch.setattr(checking, "INVARIANTS", tuple(map(careless, INVARIANTS)))
    with pytest.raises(StorageFailed, match="taken back: sequence"):
        repair(filled)
    assert (history(filled), filled.read_bytes()) == before


def test_followers_are_told_what_a_repair_has_changed(filled: Path) -> None:
    wrong(filled, "UPDATE memories SET path = '/other.md' WHERE path = '/modified.md'")
    with Workspace.open(filled, read_only=True) as workspace:
        (store,) = workspace.stores.list()
        before = workspace.engine.snapshot(store.id)
    repair(filled)
    with Workspace.open(filled, read_only=True) as workspace:
        changes = workspace.engine.changes(store.id, before.sequence)
        assert [head.path for head in changes.heads.values() if head is not None] == ["/modified.md"]


def test_what_a_repair_took_out_is_scrubbed_by_the_next_command(filled: Path) -> None:
    text = b"nobody has this text"
    digest = sha256(text).hexdigest()
    wrong(filled, "INSERT INTO contents (sha256, size_bytes, bytes) VALUES (?, 20, ?)", values=(digest, text))
    done = repair(filled)
    assert done.backup is not None
    assert text in done.backup.read_bytes()
    with Workspace.open(filled) as workspace:
        assert workspace.scrub()
    assert text not in filled.read_bytes()


@pytest.mark.parametrize("look", [check, repair], ids=["check", "repair"])
def test_what_is_no_database_of_this_memfs_is_refused(tmp_path: Path, look: Callable[[Path], object]) -> None:
    path = tmp_path / "x.db"
    with pytest.raises(NotFound, match="no database"):
        look(path)
    with pytest.raises(UnusableDatabase, match="is a directory"):
        look(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(NotFound, match="is empty"):
        look(path)
    path.write_bytes(b"no database, however long" * 100)
    with pytest.raises(UnusableDatabase, match="damaged or no SQLite database"):
        look(path)
