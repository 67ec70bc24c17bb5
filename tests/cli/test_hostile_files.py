"""Files and inputs of strangers: sessions as YAML, archives, what a model sends. All or nothing, and never a fault."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from memfs.cli import exits
from memfs.cli.main import main
from memfs.engine import SessionFilter, VersionFilter
from memfs.model.records import Actor
from memfs.tool import MemoryCommands
from memfs.workspace import Workspace
from tests.api.effort import EFFORT, fuzzed

pytestmark = pytest.mark.timeout(120 * EFFORT)

CODES = {0, *exits.EXIT_CODES.values()}


@pytest.fixture
def here(db: Path) -> Path:
    """A database with a store ``notes``."""
    with Workspace.open(db, create=True) as workspace:
        workspace.stores.create("notes")
    return db


def run(db: Path, *words: str | Path) -> Result:
    """A command, whose answer is of the contract."""
    done = CliRunner().invoke(main, ["--db", str(db), *map(str, words)], prog_name="memfs")
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in CODES, done.output
    assert "Traceback" not in done.output
    assert len(done.stderr) < 20_000
    return done


# ---- sessions --------------------------------------------------------------------------------------------------------

GOOD = "resources:\n- {type: memory_store, name: notes, access: read_only}\n"

YAML = {
    "an anchor that holds itself": "resources: &a [*a]",
    "a key that holds itself": "&a {*a : 1}",
    "merge keys that double": "a: &a {x: 1, y: 2}\n"
    + "\n".join(f"{chr(98 + n)}: &{chr(98 + n)} {{<<: [{', '.join([f'*{chr(97 + n)}'] * 9)}]}}" for n in range(20)),
    "anchors that double": "\n".join(f"k{n}: &a{n} [*a{max(0, n - 1)}, *a{max(0, n - 1)}]" for n in range(200)),
    "nested lists": "[" * 20_000,
    "nested maps": "{a: " * 20_000,
    "nested blocks": "- " * 20_000,
    "a number without end": "title: " + "1" * 100_000,
    "a number to the base of 60": "title: " + "1:" * 200_000 + "1",
    "a tag of Python": "title: !!python/object/apply:os.system [id]",
    "a truth that is none": "title: !!bool abc",
    "a time that is none": "title: !!timestamp abc",
    "a number that is empty": "title: !!int ''",
    "a day that never was": "title: 2026-02-30",
    "infinity": "agent: {id: a, version: .inf}\n" + GOOD,
    "a version of a hundred bits": f"agent: {{id: a, version: {10**28}}}\n" + GOOD,
    "a list as a key": "? [a]\n: b",
    "a field twice": GOOD + GOOD,
    "too many stores": "resources:\n" + "- {type: memory_store, name: notes}\n" * 9,
    "control characters": 'title: "\\0\\e[31m"\n' + GOOD,
    "half of a character": 'title: "\\ud800"\n' + GOOD,
    "a long title": f"title: {'t' * 600}\n{GOOD}",
    "two documents": f"{GOOD}---\n{GOOD}",
    "no bytes": "",
    "UTF-16": GOOD.encode("utf-16").decode("latin-1"),
    "a byte order mark": "\ufeff" + GOOD,
}


@pytest.mark.parametrize("name", YAML)
def test_a_session_of_a_stranger_is_read_or_refused(here: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "session.yaml"
    path.write_bytes(YAML[name].encode("latin-1" if name == "UTF-16" else "utf-8"))
    done = run(here, "session", "create", "--file", path)
    with Workspace.open(here) as workspace:
        made = len(workspace.sessions.list(SessionFilter()))
    assert made == (done.exit_code == 0)
    taken = {"a field twice", "control characters", "UTF-16", "a byte order mark"}
    assert done.exit_code == (0 if name in taken else exits.INVALID), done.output


def test_any_yaml(here: Path, tmp_path: Path) -> None:
    path = tmp_path / "session.yaml"
    word = st.sampled_from(
        (
            *("resources", "type", "memory_store", "name", "notes", "access", "agent", "version", "metadata", "title"),
            *(
                "<<",
                "&a",
                "*a",
                "!!int",
                "!x",
                "0x1F",
                "1e9",
                "~",
                "yes",
                "2026-11-30",
                "''",
                '"',
                "|",
                ">",
                "---",
                "@",
            ),
        )
    )
    mark = st.sampled_from((": ", "- ", "\n", "\n  ", "\n    ", ", ", "{", "}", "[", "]", "? ", " ", "#", "\t", "\0"))

    @fuzzed(80)
    @given(
        st.one_of(
            st.lists(st.one_of(word, mark, st.text(max_size=3)), max_size=25).map("".join),
            st.tuples(st.integers(0, len(GOOD)), st.one_of(word, mark)).map(
                lambda put: GOOD[: put[0]] + put[1] + GOOD[put[0] :]
            ),
        )
    )
    def attempt(text: str) -> None:
        path.write_bytes(text.encode(errors="surrogatepass"))
        run(here, "session", "create", "--file", path)

    attempt()


# ---- archives --------------------------------------------------------------------------------------------------------


def packed() -> bytes:
    """An archive with files that are good, and their headers of every kind."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "x" * 600}) as made:
        for name in ("a.md", "d/b.md", "d/" + "long" * 40 + ".md", "d/é.md", "e/f/g.md"):
            info = tarfile.TarInfo(name)
            info.size = 40
            made.addfile(info, io.BytesIO(name.encode()[:40].ljust(40, b".")))
    return data.getvalue()


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def damage(data: bytearray, chance: Random) -> None:
    """One of: flipped bits, a cut, something put in, a block moved, a number of a header changed."""
    match chance.randrange(6):
        case 0:
            for _ in range(chance.choice((1, 1, 5, 50))):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case 1:
            del data[chance.randrange(len(data)) :]
        case 2:
            at = chance.randrange(len(data))
            data[at:at] = chance.randbytes(chance.choice((1, 100, 512, 5_000)))
        case 3:
            at, to = (chance.randrange(len(data)) // 512 * 512 for _ in range(2))
            data[to : to + 512] = data[at : at + 512]
        case 4:
            at = chance.randrange(len(data)) // 512 * 512 + chance.choice((100, 108, 124, 136, 148, 156, 257, 345))
            data[at : at + 8] = chance.choice((b"77777777", b"\x80" + bytes(7), b"\xff" * 8, b"-1\0     ", b"12345670"))
        case _:
            data += chance.randbytes(chance.choice((1, 512, 10_000)))


def test_any_archive_is_imported_as_a_whole_or_not_at_all(here: Path, tmp_path: Path) -> None:
    path = tmp_path / "files.tar"
    good = packed()

    @fuzzed(80)
    @given(st.sampled_from(sorted(PACKINGS)), st.integers(0, 1 << 32), st.booleans())
    def attempt(packing: str, number: int, first: bool) -> None:
        data = bytearray(good)
        if first:
            damage(data, Random(number))
        data = bytearray(PACKINGS[packing](bytes(data)))
        if not first:
            damage(data, Random(number))
        path.write_bytes(data)
        with Workspace.open(here) as workspace:
            store = workspace.stores.resolve("notes").id
            before = {memory.path: memory.content for memory in workspace.memories.list(store, content=True)}
            versions = len(workspace.versions.list(store, VersionFilter()))
        done = run(here, "store", "import", "notes", path)
        with Workspace.open(here) as workspace:
            after = {memory.path: memory.content for memory in workspace.memories.list(store, content=True)}
            if done.exit_code:
                assert after == before, done.output
                assert len(workspace.versions.list(store, VersionFilter())) == versions
            for memory in workspace.memories.list(store):
                workspace.memories.delete(store, memory.id, Actor("user_actor", "ada"))

    attempt()


# ---- what a model sends ----------------------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(), max_size=20), st.just(10**4_000)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)),
    max_leaves=6,
)
FIELDS = ("path", "file_text", "old_str", "new_str", "insert_line", "insert_text", "old_path", "new_path", "view_range")
SENSIBLE = {
    "path": st.sampled_from(("/memories", "/memories/a.md", "/memories/d", "/memories/d/b.md", "/memories/../x")),
    "old_path": st.sampled_from(("/memories/a.md", "/memories/d", "/memories/d/b.md")),
    "new_path": st.sampled_from(("/memories/c.md", "/memories/d/e", "/memories/d/b.md", "/memories")),
    "insert_line": st.integers(-2, 5),
    "view_range": st.lists(st.integers(-2, 9), max_size=3),
    "old_str": st.sampled_from(("text", "t", "", "\n")),
}


@st.composite
def inputs(draw: st.DrawFn) -> object:
    """A tool's input: of the right fields, of which one or none is anything; or anything at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(ANYTHING)
    commands = ("view", "create", "str_replace", "insert", "delete", "rename", "View", "", "__class__")
    given_fields: dict[str, object] = {"command": draw(st.sampled_from(commands))}
    for field in FIELDS:
        given_fields[field] = draw(SENSIBLE.get(field, st.sampled_from(("text\n", "", "line one\nline two", "\x00"))))
    for field in draw(st.lists(st.sampled_from((*FIELDS, "command")), max_size=2)):
        given_fields[field] = draw(ANYTHING)
    for field in draw(st.lists(st.sampled_from(FIELDS), max_size=2)):
        given_fields.pop(field, None)
    return given_fields


def test_whatever_a_model_sends(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Workspace.open(here) as workspace:
        store = workspace.stores.resolve("notes").id
        commands = MemoryCommands(workspace.attached(store, Actor("session_actor", "sesn_1"), "read_write"))

        @fuzzed(150)
        @given(inputs())
        def attempt(sent: object) -> None:
            said = commands.handle(sent)
            assert isinstance(said.content, str)
            assert len(said.content) < 20_000
            assert "Traceback" not in said.content
            said.content.encode()

        attempt()
    assert "the memory tool failed" not in caplog.text


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "{" * 5, '{"command": ' * 50_000, "9" * 100_000, '"\\ud800"', "NaN", "", "null", '{"a":1,"a":2}'],
    ids=lambda text: text[:12] or "nothing",
)
def test_a_line_that_is_no_input(here: Path, text: str) -> None:
    done = CliRunner().invoke(main, ["--db", str(here), "tool", "notes", text], prog_name="memfs")
    assert done.exit_code in CODES - {0}, done.output
    assert "Traceback" not in done.output
    assert json.dumps(done.output)
