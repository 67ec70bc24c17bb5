"""``memfs tool``: the memory tool as lines of JSON."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from memfs.cli import exits
from memfs.cli.attaching import AttachmentType
from memfs.cli.tool import MAX_LINE_BYTES, tool
from memfs.cli.tool_options import VIEW_CHARACTERS
from memfs.engine import VersionFilter
from memfs.model import ids
from memfs.model.records import MAX_CONTENT_BYTES, Actor, Store
from memfs.tool import commands
from memfs.tool.wording import WORDINGS
from memfs.workspace import Workspace
from tests.cli.conftest import Run
from tests.processes import PYTHON, environment
from tests.tool.signals import default_signals

FILE = "/memories/a.md"
VIEW = {"command": "view", "path": "/memories"}
EMPTY = (
    "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"
    "0B\t/memories"
)


def use(given: object, id_: str = "toolu_1") -> dict[str, object]:
    return {"type": "tool_use", "id": id_, "name": "memory", "input": given}


def create(text: str, path: str = FILE) -> dict[str, str]:
    return {"command": "create", "path": path, "file_text": text}


def lines(*calls: object) -> bytes:
    return b"".join(json.dumps(call).encode() + b"\n" for call in calls)


def results(output: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in output.splitlines()]
    assert all(list(result) == ["type", "tool_use_id", "content", "is_error"] for result in found)
    assert all(result["type"] == "tool_result" for result in found)
    return found


def answers(output: str) -> list[tuple[str | None, str, bool]]:
    return [(result["tool_use_id"], result["content"], result["is_error"]) for result in results(output)]


# What comes in and goes out


def test_whole_blocks_and_bare_inputs_are_answered_in_their_order(run: Run, workspace: Workspace, store: Store) -> None:
    stdin = lines(
        use(VIEW, "toolu_a"), create("one\n"), {"id": "b", "input": create("two\n")}, use({"command": "view"})
    )
    assert answers(run("tool", "-s", "user-preferences", stdin=stdin).stdout) == [
        ("toolu_a", EMPTY, False),
        (None, f"File created successfully at: {FILE}", False),
        ("b", f"Error: File {FILE} already exists", True),
        ("toolu_1", "Error: view needs path", True),
    ]
    assert workspace.memories.get(store.id, "/a.md").content == b"one\n"


def test_changes_are_attributed_to_the_session(run: Run, workspace: Workspace, store: Store) -> None:
    named = ids.new_id(ids.SESSION)
    run("tool", "-s", store.id, "--session", named, stdin=lines(create("x")))
    run("tool", "--session", named, stdin=lines({"command": "delete", "path": FILE}))
    found = workspace.versions.list(store.id, VersionFilter(), limit=10)
    assert [version.created_by for version in found] == [Actor("session_actor", named)] * 2
    assert workspace.sessions.get(named).ended_at is not None


@pytest.mark.parametrize(
    "line,error",
    [
        (b"{", "Error: the line is not JSON: "),
        (b"view /memories", "Error: the line is not JSON: "),
        (b"[" * 100_000, "Error: the line is not JSON: "),
        (b"1" * 5_000, "Error: the line is not JSON: "),
        (b"\xff", "Error: the line is not UTF-8"),
        (b"[]", "Error: the input is an object with a command"),
        (b"null", "Error: the input is an object with a command"),
        (b"7", "Error: the input is an object with a command"),
        (b"{}", "Error: unknown command None"),
        (b'{"type": "tool_use"}', "Error: the input is an object with a command"),
        (b'{"type": "tool_use", "id": {}, "input": 7}', "Error: the input is an object with a command"),
        (
            b'{"name": "bash", "input": {"command": "view"}}',
            "Error: this is the tool 'memory', and the call is for 'bash'",
        ),
        (b'{"name": null, "input": {"command": "view"}}', "Error: this is the tool 'memory', and the call is for None"),
        (b'{"command": "view", "path": "/memories/\\ud83d"}', "Error: path of view holds half of a character"),
        (b'{"command": "\\ud83d"}', "Error: unknown command '\\ud83d'"),
        (b" " * MAX_LINE_BYTES + b'{"command": "view"}', "Error: the line is longer than 8,388,608 bytes"),
    ],
    ids=range(16),
)
def test_a_line_that_is_no_call_is_an_error_and_the_next_is_read(
    run: Run, store: Store, line: bytes, error: str
) -> None:
    first, second = answers(run("tool", "-s", store.id, stdin=line + b"\n" + lines(VIEW)).stdout)
    assert first[0] is None
    assert first[1].startswith(error)
    assert first[2] is True
    assert second == (None, EMPTY, False)


def test_empty_lines_are_skipped(run: Run, store: Store) -> None:
    stdin = b"\n  \r\n\xef\xbb\xbf" + lines(VIEW) + b"\t\n" + json.dumps(VIEW).encode()
    assert answers(run("tool", "-s", store.id, stdin=stdin).stdout) == [(None, EMPTY, False)] * 2
    assert run("tool", "-s", store.id).stdout == ""


def test_an_id_comes_back_as_it_was(run: Run, store: Store) -> None:
    (result,) = results(run("tool", "-s", store.id, stdin=lines(use(VIEW, "é \ud83d \u2028 \x1b"))).stdout)
    assert result["tool_use_id"] == "é \ud83d \u2028 \x1b"


def test_the_longest_call_fits_a_line() -> None:
    longest = use(
        {"command": "str_replace", "path": FILE, "old_str": "\0" * MAX_CONTENT_BYTES, "new_str": "é" * 51_200}
    )
    assert len(json.dumps(longest)) < MAX_LINE_BYTES


# Options


def test_the_options_are_heeded(run: Run, store: Store) -> None:
    stdin = lines(create("one\n"), create("0123456789\n" * 9), {"command": "view", "path": FILE}, VIEW)
    words = ["--overwrite", "--view-characters", "50", "--wording", "sdk"]
    first, second, view, root = answers(run("tool", "-s", store.id, *words, stdin=stdin).stdout)
    assert first == second == (None, f"File created successfully at: {FILE}", False)
    assert "Cut at 50 characters" in view[1]
    assert root[1].startswith(
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:"
    )


def test_a_store_can_be_read_only(run: Run, workspace: Workspace, store: Store) -> None:
    workspace.stores.create("Rules: all")
    stdin = lines(create("", "/memories/rules-all/a"), create("", "/memories/user-preferences/a"))
    stores = ["-s", "Rules: all:read_only", "-s", f"{store.id}:read_write"]
    assert [is_error for _, _, is_error in answers(run("tool", *stores, stdin=stdin).stdout)] == [True, False]


def test_what_cannot_be_opened_is_an_error_of_the_command(run: Run, store: Store) -> None:
    assert run("tool", code=exits.INVALID).stderr.startswith("memfs: a session needs at least one store")
    assert run("tool", "-s", "nothing", code=exits.NOT_FOUND).stdout == ""
    assert "names no store" in run("tool", "-s", ":read_only", code=exits.INVALID).stderr
    assert "--view-characters" in run("tool", "-s", store.id, "--view-characters", "0", code=exits.INVALID).stderr


def test_what_help_says_is_what_the_tool_has() -> None:
    assert VIEW_CHARACTERS == commands.VIEW_CHARACTERS
    (wording,) = [parameter for parameter in tool.params if parameter.name == "wording"]
    assert isinstance(wording.type, click.Choice)
    assert list(wording.type.choices) == list(WORDINGS)
    assert AttachmentType().convert(("a", "read_only"), None, None) == ("a", "read_only")


# The process


@contextmanager
def answering(db: Path, *words: str, **changes: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command with pipes; killed at the end where it still runs."""
    with subprocess.Popen(
        [*PYTHON, "-m", "memfs.cli", "--db", str(db), "tool", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**changes),
        preexec_fn=default_signals,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(process: subprocess.Popen[bytes], call: object) -> dict[str, Any]:
    """Send one line and wait for the answer, before anything else is sent."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines(call))
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def test_each_answer_comes_at_once(workspace: Workspace, store: Store, db: Path) -> None:
    with answering(db, "-s", store.id) as process:
        for number in range(3):
            assert ask(process, create("x", f"/memories/{number}"))["is_error"] is False
        output, errors = process.communicate(timeout=120)
        assert (process.returncode, output, errors) == (0, b"", b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_any_locale_will_do(workspace: Workspace, store: Store, db: Path, encoding: str) -> None:
    with answering(db, "-s", store.id, PYTHONIOENCODING=encoding, PYTHONUTF8="0", LC_ALL="C") as process:
        output, errors = process.communicate(
            json.dumps(create("日本 é\n"), ensure_ascii=False).encode()
            + b"\n"
            + lines({"command": "view", "path": FILE}),
            timeout=120,
        )
    assert (process.returncode, errors) == (0, b"")
    assert "日本 é".encode() in output
    assert workspace.memories.get(store.id, "/a.md").content == "日本 é\n".encode()


@pytest.mark.parametrize(
    "number,status",
    [
        (signal.SIGINT, exits.INTERRUPTED),
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGHUP, -signal.SIGHUP),
    ],
)
def test_a_signal_ends_it_and_its_session(
    workspace: Workspace, store: Store, db: Path, number: signal.Signals, status: int
) -> None:
    with answering(db, "-s", store.id) as process:
        ask(process, create("x"))
        process.send_signal(number)
        assert process.wait(60) == status
        assert process.stderr is not None
        assert process.stderr.read() == b""
    (version,) = workspace.versions.list(store.id, VersionFilter(), limit=10)
    assert workspace.sessions.get(version.created_by.id).ended_at is not None


def test_a_reader_that_stops_reading_ends_it(workspace: Workspace, store: Store, db: Path) -> None:
    with answering(db, "-s", store.id) as process:
        ask(process, create("x"))
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(lines(VIEW))
        process.stdin.flush()
        assert process.wait(60) == exits.PIPE_CLOSED
        assert process.stderr.read() == b""
    (version,) = workspace.versions.list(store.id, VersionFilter(), limit=10)
    assert workspace.sessions.get(version.created_by.id).ended_at is not None
