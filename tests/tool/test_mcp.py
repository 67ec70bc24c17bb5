"""``memfs mcp`` with the real client of the MCP SDK, over pipes. Every wait has a limit."""

import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, Tool

from memfs import __version__
from memfs.cli import exits
from memfs.engine import VersionFilter
from memfs.model import ids
from memfs.model.records import Actor, Attachment, Store
from memfs.tool.descriptions import describe, introduce
from memfs.tool.inputs import _COMMANDS, _OPTIONAL
from memfs.workspace import Workspace
from tests.processes import PYTHON, environment, finish, python
from tests.tool.signals import default_signals

LIMIT = 60.0
TOOLS = ["memory_view", "memory_create", "memory_str_replace", "memory_insert", "memory_delete", "memory_rename"]
FILE = "/memories/notes/plan.md"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def command(db: Path, *words: str) -> list[str]:
    return [*PYTHON, "-m", "memfs.cli", "--db", str(db), "mcp", *words]


@asynccontextmanager
async def connected(db: Path, *words: str) -> AsyncIterator[ClientSession]:
    """A session with a server of its own, which has ended afterwards."""
    program, *arguments = command(db, *words)
    parameters = StdioServerParameters(command=program, args=arguments, env=environment())
    with anyio.fail_after(LIMIT):
        async with stdio_client(parameters) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
            await session.initialize()
            yield session


async def call(session: ClientSession, name: str, **arguments: Any) -> tuple[str, bool]:
    """A call's answer, and whether it is an error."""
    result = await session.call_tool(f"memory_{name}", arguments)
    assert isinstance(result, CallToolResult)
    (content,) = result.content
    assert content.type == "text"
    return content.text, result.is_error


def authors(workspace: Workspace, store: Store) -> list[Actor]:
    found = workspace.versions.list(store.id, VersionFilter(), limit=100)
    return [version.created_by for version in reversed(found)]


# A client and its server


def test_a_client_finds_the_tools_and_uses_each(workspace: Workspace, store: Store, db: Path) -> None:
    named = ids.new_id(ids.SESSION)

    async def run() -> None:
        async with connected(db, "-s", "user-preferences", "--session", named) as session:
            assert session.server_info is not None
            assert (session.server_info.name, session.server_info.version) == ("memfs", __version__)
            tools = (await session.list_tools()).tools
            assert [tool.name for tool in tools] == TOOLS
            assert await call(session, "view", path="/memories") == (
                "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and"
                " node_modules:\n0B\t/memories",
                False,
            )
            answers = [
                await call(session, "create", path=FILE, file_text="one\ntwo\n"),
                await call(session, "create", path=FILE, file_text="again"),
                await call(session, "str_replace", path=FILE, old_str="two", new_str="2 – zwei"),
                await call(session, "str_replace", path=FILE, old_str="two"),
                await call(session, "insert", path=FILE, insert_line=0, insert_text="zero"),
                await call(session, "insert", path=FILE, insert_line=9, insert_text="nine"),
                await call(session, "view", path=FILE, view_range=[2, -1]),
                await call(session, "rename", old_path=FILE, new_path="/memories/plan.md"),
                await call(session, "delete", path="/memories/plan.md"),
                await call(session, "delete", path="/memories/plan.md"),
                await call(session, "view", path="/memories/../../etc/passwd"),
                await call(session, "create", path=FILE),
                await call(session, "view"),
            ]
            assert answers[:10] == [
                (f"File created successfully at: {FILE}", False),
                (f"Error: File {FILE} already exists", True),
                ("The memory file has been edited.\n     1\tone\n     2\t2 – zwei", False),
                (f"No replacement was performed, old_str `two` did not appear verbatim in {FILE}.", True),
                (f"The file {FILE} has been edited.", False),
                (
                    "Error: Invalid `insert_line` parameter: 9. It should be within the range of lines of the file:"
                    " [0, 3]",
                    True,
                ),
                (f"Here's the content of {FILE} with line numbers:\n     2\tone\n     3\t2 – zwei", False),
                (f"Successfully renamed {FILE} to /memories/plan.md", False),
                ("Successfully deleted /memories/plan.md", False),
                ("Error: The path /memories/plan.md does not exist", True),
            ]
            assert all(is_error for _, is_error in answers[10:])
            assert answers[11][0] == "Error: create needs file_text"
            assert answers[12][0] == "Error: view needs path"
            with pytest.raises(MCPError, match="Unknown tool"):
                await session.call_tool("memory_forget", {})
            assert workspace.sessions.get(named).ended_at is None

    anyio.run(run)
    assert authors(workspace, store) == [Actor("session_actor", named)] * 5
    assert workspace.sessions.get(named).ended_at is not None


def test_a_client_of_the_newest_protocol_is_served_too(workspace: Workspace, store: Store, db: Path) -> None:
    program, *arguments = command(db, "-s", store.id)
    parameters = StdioServerParameters(command=program, args=arguments, env=environment())

    async def run() -> None:
        with anyio.fail_after(LIMIT):
            async with Client(stdio_client(parameters)) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
                result = await client.call_tool("memory_create", {"path": FILE, "file_text": "x\n"})
                assert not result.is_error
                assert client.instructions is not None
                assert "User preferences" in client.instructions

    anyio.run(run)
    assert [found.path for found in workspace.memories.list(store.id)] == ["/notes/plan.md"]


def test_several_stores_are_introduced_with_their_access(workspace: Workspace, store: Store, db: Path) -> None:
    workspace.stores.create("Team rules", "What we\nall keep to.")

    async def run() -> str:
        async with connected(db, "-s", store.id, "-s", "team-rules:read_only") as session:
            assert [tool.name for tool in (await session.list_tools()).tools] == TOOLS
            text, is_error = await call(session, "create", path="/memories/team-rules/a", file_text="")
            assert is_error
            assert "read-only" in text
            assert await call(session, "create", path="/memories/user-preferences/a", file_text="") == (
                "File created successfully at: /memories/user-preferences/a",
                False,
            )
            assert session.instructions is not None
            return session.instructions

    assert anyio.run(run).splitlines()[-2:] == [
        "- /memories/user-preferences (to be read and written): User preferences.",
        "- /memories/team-rules (only to be read): Team rules. What we all keep to.",
    ]


def test_where_nothing_can_be_changed_no_tool_offers_it(workspace: Workspace, store: Store, db: Path) -> None:
    async def run() -> None:
        async with connected(db, "-s", f"{store.id}:read_only") as session:
            assert [tool.name for tool in (await session.list_tools()).tools] == ["memory_view"]
            assert session.instructions is not None
            assert "Write down" not in session.instructions
            text, is_error = await call(session, "create", path="/memories/a", file_text="")
            assert is_error
            assert "read-only" in text

    anyio.run(run)


def test_the_options_are_heeded_and_told(workspace: Workspace, store: Store, db: Path) -> None:
    async def run() -> list[Tool]:
        async with connected(db, "-s", store.id, "--overwrite", "--view-characters", "50") as session:
            for text in ("one\n", "0123456789\n" * 9):
                assert await call(session, "create", path=FILE, file_text=text) == (
                    f"File created successfully at: {FILE}",
                    False,
                )
            assert "Cut at 50 characters" in (await call(session, "view", path=FILE))[0]
            return (await session.list_tools()).tools

    view, create, *_ = anyio.run(run)
    assert view.description is not None
    assert "50 characters" in view.description
    assert create.description is not None
    assert "is replaced" in create.description
    assert create.annotations is not None
    assert create.annotations.destructive_hint


def test_two_clients_at_once(workspace: Workspace, store: Store, db: Path) -> None:
    async def run() -> None:
        async with connected(db, "-s", store.id) as one, connected(db, "-s", store.id) as other:
            await call(one, "create", path=FILE, file_text="start\n")
            assert "start" in (await call(other, "view", path=FILE))[0]

            async def write(session: ClientSession, name: str) -> None:
                for _ in range(10):
                    _text, is_error = await call(session, "insert", path=FILE, insert_line=1, insert_text=name)
                    assert not is_error

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write, one, "a")
                tasks.start_soon(write, other, "b")

    anyio.run(run)
    text = workspace.memories.get(store.id, "/notes/plan.md").content
    assert text is not None
    assert sorted(text.decode().split()) == ["a"] * 10 + ["b"] * 10 + ["start"]
    assert len(set(authors(workspace, store))) == 2


def test_calls_that_are_sent_together_are_carried_out_in_their_order(
    workspace: Workspace, store: Store, db: Path
) -> None:
    async def run() -> None:
        async with connected(db, "-s", store.id) as session, anyio.create_task_group() as tasks:
            for number in range(20):
                arguments = {"path": f"/memories/{number}", "file_text": ""}
                tasks.start_soon(session.call_tool, "memory_create", arguments)

    anyio.run(run)
    found = workspace.versions.list(store.id, VersionFilter(), limit=100)
    assert [version.path for version in reversed(found)] == [f"/{number}" for number in range(20)]


# What a model is told


def test_the_tools_are_the_commands() -> None:
    described = describe(overwrite=False, view_characters=16_000)
    assert [one.name for one in described] == TOOLS
    assert [one.command for one in described] == list(_COMMANDS)
    for one in described:
        fields = _COMMANDS[one.command].__dataclass_fields__
        assert set(one.schema["properties"]) == set(fields)
        assert set(one.schema["required"]) == set(fields) - _OPTIONAL
        assert all(field["description"] for field in one.schema["properties"].values())
        assert one.description.endswith(".")
        assert one.changes is (one.command != "view")
    assert "/memories" in described[0].description


def test_instructions_of_an_attachment_are_told() -> None:
    attachment = Attachment("memstore_x", "read_write", "Notes", "All of them.", "/memories/notes", "Keep it short.")
    assert introduce({"/memories": attachment}).endswith(
        "- /memories (to be read and written): Notes. All of them. Keep it short."
    )


# The process


@contextmanager
def serving(db: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server that has been greeted; killed at the end where it still runs."""
    with subprocess.Popen(
        command(db, *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=default_signals,
    ) as process:
        try:
            assert ask(process, "initialize", HELLO)["result"]["serverInfo"]["name"] == "memfs"
            say(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def ask(process: subprocess.Popen[bytes], method: str, params: dict[str, Any]) -> dict[str, Any]:
    say(process, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    assert process.stdout is not None
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """How it ended, and what else it has written."""
    output, errors = process.communicate(timeout=LIMIT)
    return process.returncode, output, errors


def only_session(workspace: Workspace, store: Store) -> str:
    (author,) = set(authors(workspace, store))
    return author.id


@pytest.mark.parametrize(
    "number,status",
    [
        (None, 0),
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGHUP, -signal.SIGHUP),
        (signal.SIGINT, exits.INTERRUPTED),
    ],
)
def test_it_ends_cleanly(
    workspace: Workspace, store: Store, db: Path, number: signal.Signals | None, status: int
) -> None:
    with serving(db, "-s", store.id) as process:
        create = {"name": "memory_create", "arguments": {"path": FILE, "file_text": "x"}}
        assert ask(process, "tools/call", create)["result"]["isError"] is False
        if number is not None:
            process.send_signal(number)  # while it waits for a client that stays
            process.wait(LIMIT)
        assert ended(process) == (status, b"", b"")
    assert workspace.sessions.get(only_session(workspace, store)).ended_at is not None


def test_a_client_that_reads_no_more_ends_it(workspace: Workspace, store: Store, db: Path) -> None:
    with serving(db, "-s", store.id) as process:
        create = {"name": "memory_create", "arguments": {"path": FILE, "file_text": "x"}}
        ask(process, "tools/call", create)
        assert process.stdout is not None
        process.stdout.close()
        say(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        assert process.stderr is not None
        assert process.stdin is not None
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(LIMIT) in (0, exits.PIPE_CLOSED)
    assert workspace.sessions.get(only_session(workspace, store)).ended_at is not None


def test_nonsense_does_not_end_it(workspace: Workspace, store: Store, db: Path) -> None:
    with serving(db, "-s", store.id) as process:
        assert process.stdin is not None
        process.stdin.write(b"\n{\n[]\n\xff\xfe\n{}\n" + b"[" * 100_000 + b"\n")
        half = {"name": "memory_create", "arguments": {"path": FILE, "file_text": "cut \ud83d off"}}
        assert ask(process, "tools/call", half)["result"]["isError"] is False
        code, output, errors = ended(process)
        assert (code, output) == (0, b"")
        assert b"Traceback" not in errors
    content = workspace.memories.get(store.id, "/notes/plan.md").content
    assert content == "cut \N{REPLACEMENT CHARACTER} off".encode()


def test_what_else_is_printed_does_not_reach_the_client(workspace: Workspace, store: Store, db: Path) -> None:
    code = """
import os, sys
from memfs.cli.main import main
from memfs.tool import commands
handle = commands.MemoryCommands.handle
def loud(self, given):
    print("noise")
    os.write(1, b"noise\\n")
    return handle(self, given)
commands.MemoryCommands.handle = loud
main(["--db", sys.argv[1], "mcp", "-s", sys.argv[2]], prog_name="memfs")
"""
    with subprocess.Popen(
        [*PYTHON, "-c", code, db, store.id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        try:
            ask(process, "initialize", HELLO)
            view = {"name": "memory_view", "arguments": {"path": "/memories"}}
            assert "result" in ask(process, "tools/call", view)
            status, output, errors = ended(process)
            assert (status, output) == (0, b"")
            assert b"noise" in errors
        finally:
            process.kill()


def test_a_store_that_is_not_there_is_an_error_and_nothing_is_served(store: Store, db: Path) -> None:
    done = subprocess.run(
        command(db, "-s", "nothing"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(),
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (exits.NOT_FOUND, b"")
    assert done.stderr.startswith(b"memfs: ")


def test_without_the_extra_the_error_names_it(store: Store, db: Path) -> None:
    code = """
import sys
sys.modules["mcp"] = None
from memfs.cli.main import main
main(["--db", sys.argv[1], "mcp", "-s", sys.argv[2]], prog_name="memfs")
"""
    with python(code, db, store.id) as process:
        output, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, output) == (exits.REFUSED, "")
    assert errors.startswith("memfs: ")
    assert "memfs-agent[mcp]" in errors
    assert errors.count("\n") == 1


def test_help_loads_none_of_it() -> None:
    code = """
import sys
from click.testing import CliRunner
from memfs.cli.main import main
for arguments in (["mcp", "--help"], ["tool", "--help"]):
    assert CliRunner().invoke(main, arguments).exit_code == 0
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"mcp", "anyio", "pydantic", "sqlite3"}))
"""
    with python(code) as process:
        assert finish(process) == "\n"
