"""Two sessions on one memory, with real programs on real mounts: no edit is lost (DESIGN.md 8)."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.mount.harness import LIMIT, Site, shell, site

pytestmark = pytest.mark.mount

LINES = [f"line {number:02}" for number in range(40)]


@pytest.fixture
def others(at: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The store ``notes``, mounted by another session."""
    directory = tmp_path_factory.mktemp("other")
    with site(directory, MEMFS_DB=str(at.db)) as other:
        (mounted,) = other.mount("notes")
        yield mounted


def replace(directory: Path, old: str, new: str) -> None:
    """``sed -i``, which reads the file, writes another and renames it."""
    shell(f"sed -i 's/{old}/{new}/' f.md", directory)


def conflicts(at: Site) -> list[dict[str, object]]:
    """What ``memfs version list --conflicts`` tells."""
    found: list[dict[str, object]] = json.loads(
        at.run("version", "list", "notes", "--conflicts", "--format", "json").stdout
    )
    return found


class Agent:
    """A process of its own that reads a file when it is told to, and writes it changed when it is told to."""

    def __init__(self, path: Path) -> None:
        code = (
            "import sys\n"
            "path, old, new = sys.argv[1], *input().split(',')\n"
            "text = open(path).read()\n"
            "print('read', flush=True)\n"
            "input()\n"
            "with open(path, 'w') as file: file.write(text.replace(old, new))\n"
            "print('written', flush=True)\n"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        # A process that hangs is not waited for.
        self._timer = threading.Timer(LIMIT, self._process.kill)
        self._timer.start()

    def _tell(self, line: str, answer: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        assert self._process.stdout.readline().strip() == answer

    def read(self, old: str, new: str) -> None:
        """Read, and mean to put one text for another."""
        self._tell(f"{old},{new}", "read")

    def write(self) -> None:
        """Write what was read, changed."""
        self._tell("", "written")

    def end(self) -> None:
        """Wait for its end."""
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def agent(notes: Path) -> Iterator[Agent]:
    made = Agent(notes / "f.md")
    yield made
    made.end()


def test_an_agent_that_read_before_another_sessions_edit(at: Site, notes: Path, others: Path, agent: Agent) -> None:
    """Its save is merged, and its own next read shows that."""
    (notes / "f.md").write_text("\n".join(LINES))
    agent.read("line 07", "LINE 07")
    replace(others, "line 08", "LINE 08")
    agent.write()
    merged = "\n".join(LINES).replace("line 07", "LINE 07").replace("line 08", "LINE 08")
    assert (notes / "f.md").read_text() == merged
    assert (others / "f.md").read_text() == merged
    assert at.heads("notes") == {"/f.md": merged.encode()}
    created, _, version = at.history("notes", "/f.md")
    assert version.merged is not None
    assert version.merged.base_version_id == created.id
    assert conflicts(at) == []


def test_a_conflict_is_told_by_version_list_and_status(at: Site, notes: Path, others: Path, agent: Agent) -> None:
    (notes / "f.md").write_text("one\ntwo\n")
    agent.read("one", "ONE")
    replace(others, "one", "1")
    agent.write()
    assert (others / "f.md").read_text() == "ONE\ntwo\n"
    (conflict,) = conflicts(at)
    created, theirs, version = at.history("notes", "/f.md")
    assert (conflict["id"], conflict["conflict"], conflict["base_version_id"]) == (version.id, True, created.id)
    assert theirs.content == b"1\ntwo\n"
    (told,) = at.status()[0]["conflicts"]
    assert told == {
        "at": version.created_at,
        "path": "/f.md",
        "version_id": version.id,
        "base_version_id": created.id,
    }
    assert f"conflict {version.created_at[:10]}" in at.run("status").stdout
    assert "modified, conflict" in at.run("version", "list", "notes").stdout
    shown = at.run("version", "show", "notes", version.id).stdout
    assert created.id in shown
    assert "conflict" in shown


def test_the_commands_of_an_agent_are_many_processes(at: Site, notes: Path, others: Path) -> None:
    """One shows the file, another one writes it anew from what it showed."""
    (notes / "f.md").write_text("one\ntwo\nthree\n")
    text = shell("cat f.md", notes)
    replace(others, "three", "THREE")
    shell("cat > f.md <<'EOF'\n" + text.replace("one", "ONE") + "EOF", notes)
    assert (notes / "f.md").read_text() == "ONE\ntwo\nTHREE\n"


def test_every_line_of_four_who_edit_and_append_at_once_is_there(at: Site, notes: Path, others: Path) -> None:
    """By sed -i and by >>, two in each session, each at lines of its own, all neighbours of another's."""
    (notes / "f.md").write_text("".join(f"{line}\n" for line in LINES))
    (notes / "log.md").write_text("")
    commands = [
        subprocess.Popen(
            [
                "bash",
                "-euc",
                f"for n in $(seq {first} 4 39); do"
                " n=$(printf %02d $n);"
                ' flock .lock.tmp sed -i "s/^line $n$/line $n by $1/" f.md; echo "$1 $n" >> log.md; done',
                "bash",
                name,
            ],
            cwd=directory,
        )
        for first, (name, directory) in enumerate([("a", notes), ("b", others), ("c", notes), ("d", others)])
    ]
    try:
        for command in commands:
            assert command.wait(LIMIT) == 0
    finally:
        for command in commands:
            command.kill()
            command.wait()
    expected = [f"line {n:02} by {'abcd'[n % 4]}" for n in range(40)]
    for directory in (notes, others):
        assert (directory / "f.md").read_text().splitlines() == expected
        assert sorted((directory / "log.md").read_text().splitlines()) == sorted(
            f"{'abcd'[n % 4]} {n:02}" for n in range(40)
        )
    assert conflicts(at) == []


APPENDING = """
import errno, os, sys
for line in sys.argv[1:]:
    while True:
        file = os.open("a.md", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(file, f"{line}\\n".encode())
            break
        except OSError as error:  # the file has gone since it was opened
            if error.errno != errno.ESTALE:
                raise
        finally:
            os.close(file)
"""


def test_nothing_that_others_append_is_lost_with_a_file_that_is_moved_over_another(notes: Path, others: Path) -> None:
    """Each line is in what was moved, or still where it was added; and the mount shows what it has moved."""
    (notes / "b.md").write_text("")
    lines = [f"line {number}" for number in range(100)]
    appending = subprocess.Popen([sys.executable, "-c", APPENDING, *lines], cwd=others)
    timer = threading.Timer(LIMIT, appending.kill)
    timer.start()
    found: set[str] = set()
    moves = 0
    try:
        while appending.poll() is None:
            with suppress(FileNotFoundError):
                (notes / "a.md").rename(notes / "b.md")
                moves += 1
            text = (notes / "b.md").read_text()
            assert (notes / "b.md").stat().st_size == len(text)
            found |= set(text.splitlines())
        assert appending.returncode == 0
    finally:
        timer.cancel()
        appending.kill()
        appending.wait()
    for name in os.listdir(notes):
        found |= set((notes / name).read_text().splitlines())
    assert found == set(lines)
    assert moves > 5


def test_what_an_attachment_wants_done(at: Site, notes: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """fail: ESTALE at close, and what is there stays; overwrite: the text as it is."""
    at.store("other", f_md="one\n")
    (notes / "f.md").write_text("one\n")
    with site(tmp_path_factory.mktemp("careful"), MEMFS_DB=str(at.db)) as careful:
        options = ["-s", "notes", "-s", "other", "--on-conflict", "fail", "--on-conflict", "other=overwrite"]
        careful.run("mount", "--root", careful.root, *options)
        careful.note_logs()
        careful.expected_log.append("dropped f.md: the memory has changed since it was read")
        failing, overwriting = careful.root / "notes", careful.root / "other"
        (failing / "f.md").read_text()
        (overwriting / "f.md").read_text()
        (notes / "f.md").write_text("1\n")
        at.run("memory", "update", "other", "/f.md", "--content", "1\nand more\n")
        with pytest.raises(OSError, match="Stale file handle"), open(failing / "f.md", "w") as file:
            file.write("ONE\n")
        assert (failing / "f.md").read_text() == "1\n"
        (overwriting / "f.md").write_text("ONE\n")
        assert (overwriting / "f.md").read_text() == "ONE\n"
        assert conflicts(at) == []


@pytest.mark.parametrize(
    "options, said",
    [
        (["--on-conflict", "never"], "'never' is no policy: write merge, overwrite or fail"),
        (["--on-conflict", "other=fail"], "no -s names a store 'other'"),
    ],
)
def test_policies_that_are_none(at: Site, options: list[str], said: str) -> None:
    """Nothing is mounted."""
    refused = at.run("mount", "--root", at.root, "-s", "notes", *options, check=False)
    assert refused.returncode == 2
    assert said in refused.stderr
    assert not os.path.exists(at.root)
