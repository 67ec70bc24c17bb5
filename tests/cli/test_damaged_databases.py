"""Whatever is in the database's file, a command answers with one line and a documented code."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from memfs.cli import exits
from memfs.cli.main import main
from memfs.engine.schema import TABLES
from memfs.model.errors import MemfsError, UnusableDatabase
from memfs.model.records import Actor
from memfs.vfs import Filesystem
from memfs.workspace import Workspace
from tests.api.effort import EFFORT, fuzzed

pytestmark = pytest.mark.timeout(120 * EFFORT)

CODES = {0, *exits.EXIT_CODES.values()}
"""Of these none says that memfs itself has failed."""

PAGE = 4_096

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("check",),
    ("check", "--repair"),
    ("backup", "OUT/copy.db"),
    ("store", "list", "--all"),
    ("store", "show", "notes"),
    ("store", "create", "another"),
    ("store", "import", "notes", "SOURCE"),
    ("store", "export", "notes", "OUT/files"),
    ("store", "restore", "notes", "--at", "2026-11-30T09:00:00Z", "--dry-run"),
    ("store", "delete", "notes", "--yes"),
    ("memory", "list", "notes"),
    ("memory", "list", "notes", "--depth", "1"),
    ("memory", "show", "notes", "/d1/f1"),
    ("memory", "create", "notes", "/new", "-"),
    ("memory", "update", "notes", "/d1/f1", "-"),
    ("memory", "delete", "notes", "/d2/f2"),
    ("memory", "expire", "notes", "--older-than", "1d", "--dry-run"),
    ("version", "list", "notes"),
    ("version", "export", "notes", "OUT/history.jsonl"),
    ("version", "prune", "--dry-run"),
    ("session", "list"),
    ("session", "create", "-s", "notes"),
    ("settings", "show"),
    ("key", "list"),
    ("tool", "notes", '{"command": "view", "path": "/memories"}'),
    ("doctor",),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a database that has everything, its log moved into it."""
    path = tmp_path_factory.mktemp("sound") / "memfs.db"
    with Workspace.open(path, create=True) as workspace:
        store, actor = workspace.stores.create("notes", metadata={"a": "b"}), Actor("user_actor", "ada")
        for number in range(30):
            text = f"line {number}\n".encode() * number * 9
            made = workspace.memories.create(store.id, f"/d{number % 5}/f{number}", text, actor)
            if number % 2:
                workspace.memories.update(store.id, made.id, actor, content=text + b"more\n")
        workspace.keys.create("a key")
    assert CliRunner().invoke(main, ["--db", str(path), "session", "create", "-s", "notes"]).exit_code == 0
    return path.read_bytes()


def ask(directory: Path, command: Sequence[str]) -> None:
    """Run a command on ``memfs.db`` in a directory; its answer is of the contract."""
    given = [word.replace("OUT", f"{directory}/out").replace("SOURCE", f"{directory}/source") for word in command]
    done = CliRunner().invoke(main, ["--db", str(directory / "memfs.db"), *given], input=b"text\n", prog_name="memfs")
    assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exception)
    assert done.exit_code in CODES, (command, done.exit_code, done.output)
    assert "Traceback" not in done.output
    assert "fault of memfs" not in done.output
    if done.exit_code:
        assert len(done.stderr) < 20_000


def mirror(path: Path) -> None:
    """What a mount does with a store: take in its names, then read each text."""
    with suppress(MemfsError, OSError), Workspace.open(path) as workspace:
        for store in workspace.stores.list():
            files = Filesystem(workspace.attached(store.id, Actor("user_actor", "ada"), "read_write", "merge"))
            for node in files.tree.by_memory.values():
                assert node.path().count("/") <= 20
                files.contents.of(node)


def tried(directory: Path, data: bytes, beside: tuple[str, bytes] | None, command: Sequence[str] | None) -> None:
    """One command on a file of these bytes, perhaps with another one beside it; without a command, a mirror."""
    rmtree(directory / "out", ignore_errors=True)
    (directory / "out").mkdir()
    (directory / "source").mkdir(exist_ok=True)
    (directory / "source" / "file.md").write_text("imported\n")
    for left in directory.glob("memfs.db*"):
        left.unlink()
    path = directory / "memfs.db"
    path.write_bytes(data)
    if beside is not None:
        path.with_name(path.name + beside[0]).write_bytes(beside[1])
    if command is None:
        mirror(path)
    else:
        ask(directory, command)


# ---- the file --------------------------------------------------------------------------------------------------------


def flip(data: bytearray, chance: Random) -> None:
    for _ in range(chance.choice((1, 1, 3, 20, 200))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def cut(data: bytearray, chance: Random) -> None:
    del data[chance.randrange(len(data)) :]


def blank(data: bytearray, chance: Random) -> None:
    at = chance.randrange(len(data) // PAGE) * PAGE
    data[at : at + PAGE] = bytes(PAGE)


def swap(data: bytearray, chance: Random) -> None:
    one, other = (chance.randrange(len(data) // PAGE) * PAGE for _ in range(2))
    data[one : one + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[one : one + PAGE]


def header(data: bytearray, chance: Random) -> None:
    """Of the file: its size, format, encoding, version of the schema and so on."""
    for _ in range(chance.choice((1, 2, 5))):
        data[chance.randrange(100)] = chance.randrange(256)


def page_header(data: bytearray, chance: Random) -> None:
    at = chance.randrange(len(data) // PAGE) * PAGE + chance.randrange(16)
    data[at] = chance.randrange(256)


def rubbish(data: bytearray, chance: Random) -> None:
    at, size = chance.randrange(len(data)), chance.choice((1, 4, 16, 64, 512, PAGE))
    data[at : at + size] = chance.randbytes(size)


def schema(data: bytearray, chance: Random) -> None:
    """The statements that tables are made by."""
    data[chance.randrange(100, 4 * PAGE)] = chance.randrange(256)


def grow(data: bytearray, chance: Random) -> None:
    data += chance.randbytes(chance.choice((1, PAGE, 10 * PAGE)))


DAMAGES = (flip, cut, blank, swap, header, page_header, rubbish, schema, grow)


@st.composite
def companions(draw: st.DrawFn) -> tuple[str, bytes] | None:
    """A log, an index of one or a journal that is none; mostly nothing."""
    end = draw(st.sampled_from((None, None, None, "-wal", "-shm", "-journal")))
    if end is None:
        return None
    begin = draw(st.sampled_from((b"", b"\x37\x7f\x06\x82\x00\x2d\xe2\x18", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")))
    return end, begin + Random(draw(st.integers(0, 1 << 32))).randbytes(draw(st.sampled_from((0, 1, 24, 56, 40_000))))


def test_whatever_is_in_the_file(sound: bytes, tmp_path: Path) -> None:
    @fuzzed(150)
    @given(st.sampled_from(DAMAGES), st.integers(0, 1 << 32), companions(), st.sampled_from((None, *COMMANDS)))
    def attempt(
        damage: Callable[[bytearray, Random], None],
        number: int,
        beside: tuple[str, bytes] | None,
        command: tuple[str, ...] | None,
    ) -> None:
        data = bytearray(sound)
        damage(data, Random(number))
        tried(tmp_path, bytes(data), beside, command)

    attempt()


# ---- the rows --------------------------------------------------------------------------------------------------------

VALUES: tuple[object, ...] = (
    None,
    0,
    -1,
    2**63 - 1,
    1e308,
    float("inf"),
    "",
    "/",
    "no slash",
    "/a/../b",
    "/a//b",
    "/.",
    "/nul\0nul",
    "/" + "long" * 250_000,
    "/deep" * 300,
    "/d1",
    "/bidi\u202ebidi",
    "/e\u0301",
    "2026-02-30T00:00:00.000000Z",
    "yesterday",
    "[" * 100_000,
    "[]",
    '{"secrets": 1, "allowed_paths": 2}',
    '{"unknown": "guard"}',
    "mem_01M8NMQFRQEHGZHQHXSA2763V0",
    "memver_ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
    b"",
    b"\xff\xfe",
    bytes(200_000),
)


@pytest.fixture(scope="module")
def columns(sound: bytes, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Each column of each table, and that of the change sequence."""
    path = tmp_path_factory.mktemp("columns") / "memfs.db"
    path.write_bytes(sound)
    with closing(sqlite3.connect(path)) as db:
        found = [
            (table, name)
            for table in (*TABLES, "sqlite_sequence")
            for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))
        ]
    assert len(found) > 80
    return found


def with_row(path: Path, table: str, column: str, value: object, number: int, *, as_text: bool) -> None:
    """Put a value where SQLite would not let it: without checks, keys and what a column may hold."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute("PRAGMA writable_schema = ON")
        # No type and no NOT NULL: else SQLite would turn the value into the column's type, or refuse it.
        db.execute(
            "UPDATE sqlite_master SET sql = replace(replace(replace(sql, ' NOT NULL', ''), ' TEXT', ''), ' BLOB', '')"
            " WHERE name = ?",
            (table,),
        )
        (version,) = db.execute("PRAGMA schema_version").fetchone()
        db.execute(f"PRAGMA schema_version = {version + 1}")
        db.execute("PRAGMA writable_schema = RESET")
        place = "CAST(CAST(? AS BLOB) AS TEXT)" if as_text else "?"
        with suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
            db.execute(
                f"UPDATE {table} SET {column} = {place} WHERE rowid ="
                f" (SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET ?)",
                (value, number),
            )
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_whatever_is_in_the_rows(sound: bytes, columns: list[tuple[str, str]], tmp_path: Path) -> None:
    scratch = tmp_path / "made.db"

    @fuzzed(200)
    @given(
        st.sampled_from(columns),
        st.sampled_from(VALUES),
        st.integers(0, 3),
        st.booleans(),
        st.sampled_from((None, *COMMANDS)),
    )
    def attempt(
        place: tuple[str, str], value: object, number: int, as_text: bool, command: tuple[str, ...] | None
    ) -> None:
        for left in tmp_path.glob("made.db*"):
            left.unlink()
        scratch.write_bytes(sound)
        with_row(scratch, *place, value, number, as_text=as_text and isinstance(value, bytes))
        tried(tmp_path, scratch.read_bytes(), None, command)

    attempt()


def test_bytes_for_a_text_are_found_wherever_they_are(
    sound: bytes, columns: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Python compares them with no text: each place where a row is looked at has to see them for what they are."""
    scratch = tmp_path / "made.db"
    for place in columns:
        for number in (0, 41):
            scratch.unlink(missing_ok=True)
            scratch.write_bytes(sound)
            with_row(scratch, *place, b"", number, as_text=False)
            data = scratch.read_bytes()
            tried(tmp_path, data, None, None)
            tried(tmp_path, data, None, ("check", "--repair"))


@pytest.mark.parametrize(
    "place, value, command",
    [
        (("memory_versions", "created_by_type"), "userOactor", ("version", "list", "notes")),
        (("memory_versions", "content_sha256"), 1.5, ("version", "list", "notes")),
        (("memory_stores", "metadata"), "[", ("store", "list")),
        (("memory_stores", "guards"), '{"unknown": 1}', ("store", "list")),
        (("memories", "head_version_id"), 1.5, ("memory", "list", "notes")),
        (("contents", "bytes"), "text", ("memory", "show", "notes", "/d0/f0")),
        (("sessions", "metadata"), "[]", ("session", "list")),
        (("api_keys", "name"), b"", ("key", "list")),
        (("workspace", "retention_days"), None, ("settings", "show")),
        (("memories", "updated_at"), "yesterday", None),
        (("memories", "path"), "/a/../b", None),
    ],
    ids=lambda part: ".".join(map(str, part)) if isinstance(part, tuple) else None,
)
def test_a_row_that_cannot_be_is_told_as_damage(
    sound: bytes, tmp_path: Path, place: tuple[str, str], value: object, command: tuple[str, ...] | None
) -> None:
    path = tmp_path / "memfs.db"
    path.write_bytes(sound)
    with_row(path, *place, value, 0, as_text=False)
    if command is None:
        with Workspace.open(path) as workspace, pytest.raises(UnusableDatabase, match="memfs check"):
            workspace.attached(workspace.stores.list()[0].id, Actor("user_actor", "ada"), "read_write").snapshot()
        return
    done = CliRunner().invoke(main, ["--db", str(path), *command], prog_name="memfs")
    assert done.exit_code == exits.DATABASE, done.output
    assert "'memfs check' says" in done.stderr


# ---- what it is made of ----------------------------------------------------------------------------------------------


@pytest.fixture
def opened(sound: bytes, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "memfs.db"
    path.write_bytes(sound)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TRIGGER spy AFTER INSERT ON memory_versions BEGIN UPDATE memories SET path = '/moved'; END",),
        ("CREATE TRIGGER spy BEFORE UPDATE ON sessions BEGIN SELECT raise(ABORT, 'no'); END",),
        (
            "ALTER TABLE merges RENAME TO real_merges",
            "CREATE VIEW merges AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT i AS sequence, 'x' AS base_version_id, 0 AS conflict FROM n",
        ),
    ],
    ids=["after a version", "before a session", "an endless view in place of a table"],
)
def test_what_would_run_by_itself_is_refused(
    opened: sqlite3.Connection, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    for statement in statements:
        opened.execute(statement)
    for command in (("store", "list"), ("memory", "create", "notes", "/new", "-"), ("check",)):
        done = CliRunner().invoke(main, ["--db", str(tmp_path / "memfs.db"), *command], input=b"text\n")
        assert done.exit_code == exits.DATABASE, done.output
        assert "which memfs did not make" in done.stderr
    with pytest.raises(UnusableDatabase, match="did not make"), Workspace.open(tmp_path / "memfs.db", read_only=True):
        pass


def test_every_table_is_guarded(opened: sqlite3.Connection) -> None:
    made = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert made - {"sqlite_sequence"} == set(TABLES)


def test_what_others_put_beside_it_does_no_harm(opened: sqlite3.Connection, tmp_path: Path) -> None:
    """People look at the file with programs that keep a table of their own; nothing of memfs's is changed by it."""
    opened.execute("CREATE TABLE theirs (id INTEGER PRIMARY KEY, seen TEXT)")
    opened.execute("CREATE TRIGGER of_theirs AFTER INSERT ON theirs BEGIN DELETE FROM theirs WHERE seen = ''; END")
    opened.execute("CREATE VIEW by_them AS SELECT path FROM memories")
    done = CliRunner().invoke(main, ["--db", str(tmp_path / "memfs.db"), "check"])
    assert done.exit_code == 0, done.output


def test_a_schema_may_call_nothing_that_does_something(opened: sqlite3.Connection, tmp_path: Path) -> None:
    from memfs.engine.opening import connect

    with closing(connect(tmp_path / "memfs.db", "rw")) as db:
        db.create_function("deed", 0, lambda: 1)
        db.execute("CREATE TEMP VIEW own AS SELECT deed()")
        opened.execute("CREATE VIEW stranger AS SELECT deed()")
        assert db.execute("SELECT * FROM own").fetchall() == [(1,)]
        with pytest.raises(sqlite3.OperationalError, match="unsafe use of deed"):
            db.execute("SELECT * FROM stranger").fetchall()
        assert db.execute("PRAGMA cell_size_check").fetchone() == (1,)
