"""The command as a process of its own: its streams, its start, its completion, a terminal."""

import os
import pty
import re
import shutil
import struct
import subprocess
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

from memfs.cli import exits
from memfs.model import ids
from memfs.model.mutations import Create
from memfs.model.records import Actor, Store
from memfs.workspace import Workspace
from tests.cli.readers import stops_reading
from tests.processes import PYTHON, environment, finish, python

MEMFS = [*PYTHON, "-m", "memfs.cli"]


def memfs(db: Path, *arguments: str | Path, **changes: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*MEMFS, "--db", db, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(**changes),
        check=False,
    )


def on_terminal(columns: int, command: list[str | Path]) -> str:
    """Run a command on a terminal of so many columns; returns the text that it was sent."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = environment(TERM="xterm", NO_COLOR="1")
    env.pop("COLUMNS", None)
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        sent = b""
        try:
            while chunk := os.read(ours, 65_536):
                sent += chunk
        except OSError:  # what a terminal's end reads like on Linux
            pass
        os.close(ours)
        assert process.wait() == 0, sent
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent.decode())  # without colours and cursor movements


def test_a_whole_run(tmp_path: Path) -> None:
    db = tmp_path / "memfs.db"
    store_id = memfs(db, "store", "create", "-q", "Notes").stdout.decode().strip()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.md").write_bytes(b"one\r\n")
    assert memfs(db, "store", "import", "notes", tmp_path / "source").returncode == 0
    shown = memfs(db, "memory", "show", store_id, "/a.md")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, b"one\r\n", b"")


def test_a_refusal_has_no_traceback(tmp_path: Path) -> None:
    result = memfs(tmp_path / "memfs.db", "store", "list")
    assert (result.returncode, result.stdout) == (exits.NOT_FOUND, b"")
    assert result.stderr.startswith(b"memfs: there is no database")
    assert result.stderr.count(b"\n") == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_locale_will_do(workspace: Workspace, db: Path, encoding: str) -> None:
    store = workspace.stores.create("日本 é")
    changes = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    table = memfs(db, "store", "list", **changes)
    assert (table.returncode, table.stderr) == (0, b"")
    assert store.id.encode() in table.stdout
    assert "日本 é".encode() in memfs(db, "store", "list", "--format", "json", **changes).stdout
    failed = memfs(db, "store", "show", "日本", **changes)
    assert (failed.returncode, failed.stderr.count(b"\n")) == (exits.NOT_FOUND, 1)


def test_a_reader_that_stops_reading_ends_us_quietly(workspace: Workspace, store: Store, db: Path) -> None:
    content = [Create(ids.new_id(ids.MEMORY), f"/{number}", b"") for number in range(1_000)]
    workspace.memories.apply(store.id, content, Actor("user_actor", "alice"))
    for format_ in ("table", "json", "jsonl"):
        stops_reading(db, "memory", "list", store.id, "--format", format_)


def test_a_full_disk_under_stdout_is_an_error(workspace: Workspace, store: Store, db: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [*MEMFS, "--db", db, "store", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert result.returncode == exits.REFUSED
    assert result.stderr == b"memfs: No space left on device\n"


@pytest.mark.parametrize(
    "command", ["memory update {store} /a -", "memory create {store} /b -", "store import {store} -"]
)
def test_a_closed_standard_input_is_no_empty_text(workspace: Workspace, store: Store, db: Path, command: str) -> None:
    actor = Actor("user_actor", "alice")
    workspace.memories.create(store.id, "/a", b"precious", actor)
    words = [*MEMFS, "--db", str(db), *command.format(store=store.id).split()]
    result = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *words], capture_output=True, env=environment(), check=False, timeout=120
    )
    assert result.returncode == exits.INVALID
    assert result.stderr.startswith(b"memfs: standard input cannot be read")
    assert [(each.path, each.content) for each in workspace.memories.list(store.id, content=True)] == [
        ("/a", b"precious")
    ]


def test_help_and_usage_load_nothing_heavy() -> None:
    code = """
import sys
from click.testing import CliRunner
from memfs.cli.main import main
for arguments in (["--help"], ["--version"], ["store", "--help"], ["version", "list", "--help"], ["nothing"]):
    CliRunner().invoke(main, arguments)
loaded = {name.partition(".")[0] for name in sys.modules}
print(*sorted(loaded & {"rich", "sqlite_utils", "sqlite3", "trio", "pyfuse3"}))
"""
    with python(code) as process:
        assert finish(process) == "\n"


def test_on_a_terminal_a_table_fits_and_cuts_nothing(workspace: Workspace, store: Store, db: Path) -> None:
    name = "A store with a rather long name [bold]in brackets[/bold]"
    other = workspace.stores.create(name, "words " * 20)
    for columns in (60, 100):
        sent = on_terminal(columns, [*MEMFS, "--db", db, "store", "list"])
        assert store.id in sent
        assert other.id in sent
        assert "…" not in sent
    wide = on_terminal(250, [*MEMFS, "--db", db, "store", "list"])
    assert name in wide, "a name is not markup"
    assert max(map(len, wide.splitlines())) <= 250


def test_on_a_terminal_an_import_shows_its_progress(
    workspace: Workspace, store: Store, db: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3):
        (source / str(number)).write_bytes(b"")
    sent = on_terminal(100, [*MEMFS, "--db", db, "store", "import", store.id, source])
    assert "importing" in sent
    assert "3/3" in sent
    assert "created 3, modified 0, unchanged 0" in sent


# Shell completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_for_that_shell(shell: str) -> None:
    result = subprocess.run(
        [*MEMFS, "completion", shell], capture_output=True, text=True, env=environment(), check=True
    )
    assert f"_MEMFS_COMPLETE={shell}_complete" in result.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=result.stdout, text=True, check=True)


def complete(db: Path, line: str, words: int) -> list[str]:
    """What bash would be offered, given the line so far."""
    result = subprocess.run(
        MEMFS,
        capture_output=True,
        text=True,
        env=environment(_MEMFS_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(words), MEMFS_DB=str(db)),
        check=False,
    )
    assert result.stderr == ""
    return [offer.partition(",")[2] for offer in result.stdout.split()]


def test_commands_and_stores_are_completed(workspace: Workspace, db: Path) -> None:
    assert complete(db, "memfs st", 1) == ["store", "status", "stat"]
    assert complete(db, "memfs store s", 2) == ["show"]
    workspace.stores.create("User preferences")
    twins = [workspace.stores.create("Notes") for _ in range(2)]
    workspace.stores.archive(workspace.stores.create("User old").id)
    assert complete(db, "memfs store show us", 3) == ["user-preferences"]
    assert complete(db, "memfs store show memstore_", 3) == [store.id for store in twins]
    assert complete(db, "memfs memory list --prefix / us", 5) == ["user-preferences"]


def test_a_completion_that_fails_says_nothing(tmp_path: Path) -> None:
    assert complete(tmp_path / "none.db", "memfs store show us", 3) == []
    assert os.listdir(tmp_path) == []
    (tmp_path / "text.db").write_text("no database\n" * 500)
    assert complete(tmp_path / "text.db", "memfs store show us", 3) == []


def test_the_database_may_be_named_before_or_after_the_command(tmp_path: Path) -> None:
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    for words in (["--db", str(first), "store", "create", "one"], ["store", "create", "two", "--db", str(second)]):
        subprocess.run([*PYTHON, "-m", "memfs.cli", *words], env=environment(), check=True, capture_output=True)
    for path, name in ((first, "one"), (second, "two")):
        done = subprocess.run(
            [*PYTHON, "-m", "memfs.cli", "--db", str(tmp_path / "none"), "store", "list", "--db", str(path)],
            env=environment(),
            check=True,
            capture_output=True,
            text=True,
        )
        assert name in done.stdout
