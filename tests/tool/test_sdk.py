"""The memory tool in the real SDK's tool runner, with a scripted model."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anthropic.lib.tools import BetaFunctionToolResultType, ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from hypothesis import given
from hypothesis import strategies as st

import memfs.tool
from memfs.engine import VersionFilter
from memfs.model.records import Actor, Store
from memfs.tool import SDK, OpenMemory, ToolResult, open_memory
from memfs.tool.sdk import AsyncMemoryTool, MemoryTool
from memfs.tool.threads import _Work
from memfs.workspace import Workspace
from tests.processes import finish, python
from tests.tool.scripted import ScriptedModel, Turn

FILE = "/memories/notes/plan.md"
TURNS: list[Turn] = [
    [{"command": "view", "path": "/memories"}],
    [{"command": "create", "path": FILE, "file_text": "one\ntwo\nthree\n"}],
    [
        {"command": "str_replace", "path": FILE, "old_str": "two", "new_str": "2"},
        {"command": "str_replace", "path": FILE, "old_str": "two", "new_str": "2"},
    ],
    [{"command": "str_replace", "path": FILE, "old_str": "\nthree"}, {"command": "view", "path": "/memories/../etc"}],
    [{"command": "delete", "path": FILE}, {"command": "open", "path": FILE}],
    "Done.",
]
RESULTS = [
    (
        "toolu_1_0",
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"
        "0B\t/memories",
        False,
    ),
    ("toolu_2_0", f"File created successfully at: {FILE}", False),
    ("toolu_3_0", "The memory file has been edited.\n     1\tone\n     2\t2\n     3\tthree", False),
    ("toolu_3_1", f"No replacement was performed, old_str `two` did not appear verbatim in {FILE}.", True),
    ("toolu_4_0", "The memory file has been edited.\n     1\tone\n     2\t2", False),
    (
        "toolu_4_1",
        "Error: The path '/memories/../etc' is not valid: a path may not hold '.', '..' or NUL as a part, in whatever"
        " spelling, and stays in /memories",
        True,
    ),
    ("toolu_5_0", f"Successfully deleted {FILE}", False),
    (
        "toolu_5_1",
        "Error: unknown command 'open': it is one of view, create, str_replace, insert, delete, rename",
        True,
    ),
]
QUESTION: dict[str, Any] = {"model": "scripted", "max_tokens": 100, "messages": [{"role": "user", "content": "Go on."}]}


@pytest.fixture
def memory(db: Path, store: Store) -> Iterator[OpenMemory]:
    with open_memory(db, [store.id]) as opened:
        yield opened


def came_back(model: ScriptedModel) -> list[tuple[str, str, bool]]:
    assert all(result["type"] == "tool_result" for result in model.results)
    return [(result["tool_use_id"], result["content"], result.get("is_error", False)) for result in model.results]


def history(workspace: Workspace, store: Store) -> list[tuple[str, Actor]]:
    found = workspace.versions.list(store.id, VersionFilter(), limit=100)
    return [(version.operation, version.created_by) for version in reversed(found)]


# The runner


def test_the_runner_sends_our_answers_and_the_history_says_who(
    workspace: Workspace, store: Store, memory: OpenMemory
) -> None:
    model = ScriptedModel(*TURNS)
    with model.client() as client:
        last = client.beta.messages.tool_runner(tools=[MemoryTool(memory)], **QUESTION).until_done()
    assert last.content[0].type == "text"
    assert model.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    assert came_back(model) == RESULTS
    by = Actor("session_actor", memory.session.id)
    assert history(workspace, store) == [("created", by), ("modified", by), ("modified", by), ("deleted", by)]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_so_does_the_async_runner(workspace: Workspace, store: Store, memory: OpenMemory, backend: str) -> None:
    model = ScriptedModel(*TURNS)

    async def run() -> None:
        async with model.async_client() as client:
            runner = client.beta.messages.tool_runner(tools=[AsyncMemoryTool(memory)], **QUESTION)
            await runner.until_done()

    anyio.run(run, backend=backend)
    assert came_back(model) == RESULTS
    by = Actor("session_actor", memory.session.id)
    assert history(workspace, store) == [("created", by), ("modified", by), ("modified", by), ("deleted", by)]


def test_caching_is_passed_on(memory: OpenMemory) -> None:
    model = ScriptedModel("Nothing to do.")
    tool = MemoryTool(memory, cache_control={"type": "ephemeral"})
    with model.client() as client:
        client.beta.messages.tool_runner(tools=[tool], **QUESTION).until_done()
    wanted = {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}}
    assert model.requests[0]["tools"] == [wanted]
    assert AsyncMemoryTool(memory, cache_control={"type": "ephemeral"}).to_dict() == wanted


def test_a_failure_of_ours_is_told_to_the_model_and_logged(
    caplog: pytest.LogCaptureFixture, memory: OpenMemory
) -> None:
    memory.close()
    model = ScriptedModel([{"command": "view", "path": "/memories"}], "Then without.")
    with model.client() as client:
        client.beta.messages.tool_runner(tools=[MemoryTool(memory)], **QUESTION).until_done()
    (result,) = model.results
    assert result["is_error"] is True
    assert "cannot be reached" in result["content"]
    assert "Error occurred while calling tool" not in caplog.text, "that is what the runner says of other exceptions"


# The tool by itself


def test_the_six_methods_take_the_models_of_the_sdk(memory: OpenMemory) -> None:
    tool = MemoryTool(memory)
    path = "/memories/a.md"
    create = BetaMemoryTool20250818CreateCommand(command="create", path=path, file_text="one\n")
    assert tool.create(create) == f"File created successfully at: {path}"
    insert = BetaMemoryTool20250818InsertCommand(command="insert", path=path, insert_line=1, insert_text="two")
    assert tool.insert(insert) == f"The file {path} has been edited."
    replace = BetaMemoryTool20250818StrReplaceCommand(command="str_replace", path=path, old_str="one", new_str="1")
    assert tool.str_replace(replace) == "The memory file has been edited.\n     1\t1\n     2\ttwo"
    omitted = BetaMemoryTool20250818StrReplaceCommand.construct(command="str_replace", path=path, old_str="1\n")
    assert tool.str_replace(omitted) == "The memory file has been edited.\n     1\ttwo"
    rename = BetaMemoryTool20250818RenameCommand(command="rename", old_path=path, new_path="/memories/b.md")
    assert tool.rename(rename) == f"Successfully renamed {path} to /memories/b.md"
    view = BetaMemoryTool20250818ViewCommand(command="view", path="/memories/b.md", view_range=[1, -1])
    assert tool.view(view) == tool.call(view) == tool.execute(view)
    assert tool.view(view) == "Here's the content of /memories/b.md with line numbers:\n     1\ttwo"
    delete = BetaMemoryTool20250818DeleteCommand(command="delete", path="/memories/b.md")
    assert tool.delete(delete) == "Successfully deleted /memories/b.md"
    with pytest.raises(ToolError) as refused:
        tool.delete(delete)
    assert refused.value.content == "Error: The path /memories/b.md does not exist"


def test_a_call_goes_through_what_somebody_put_before_a_command(memory: OpenMemory) -> None:
    class Careful(MemoryTool):
        def create(self, command: BetaMemoryTool20250818CreateCommand) -> BetaFunctionToolResultType:
            if "password" in command.file_text:
                raise ToolError("Error: no passwords")
            return super().create(command)

    tool = Careful(memory)
    with pytest.raises(ToolError, match="no passwords"):
        tool.call({"command": "create", "path": "/memories/a", "file_text": "password: 1"})
    assert tool.call({"command": "create", "path": "/memories/a", "file_text": "tea"}) is not None


COMMANDS = st.sampled_from(["view", "create", "str_replace", "insert", "delete", "rename", "open", "", "VIEW"])
FIELDS = st.sampled_from(["path", "file_text", "old_str", "new_str", "insert_line", "insert_text", "view_range"])
# What construct() of the SDK's models has as parameters, among others.
STRAYS = st.sampled_from(["old_path", "new_path", "_fields_set", "self", "__cls", "values", "ä", "command"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["/memories", "\ud800"])
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=5), SCALARS, max_size=3)


class Recorder:
    """A memory that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def handle(self, given: object) -> ToolResult:
        self.asked.append(given)
        return ToolResult("no", is_error=True)

    def clear(self) -> str:
        return ""


@given(
    VALUES | st.fixed_dictionaries({"command": COMMANDS | VALUES}) | st.dictionaries(FIELDS | STRAYS, VALUES), COMMANDS
)
def test_any_input_reaches_the_commands_as_it_came(input_: object, command: str) -> None:
    if isinstance(input_, dict):
        input_.setdefault("command", command)
    recorder = Recorder()
    with pytest.raises(ToolError):
        MemoryTool(recorder).call(input_)
    (asked,) = recorder.asked
    if isinstance(input_, dict):
        if asked["command"] in ("view", "create", "delete"):
            assert ("path" in asked) is ("path" in input_)
        assert all(repr(asked[field]) == repr(input_[field]) for field in asked)
        assert repr(asked["command"]) == repr(input_["command"])  # which may be no number
    else:
        assert asked is input_


@pytest.mark.parametrize(
    "input_",
    [
        {"command": "str_replace", "path": "/memories/a"},
        {"command": "create", "path": 7, "file_text": ["x"]},
        {"command": "view", "path": "/memories/a", "view_range": {"from": 1}},
        {"command": "insert", "path": "/memories/a", "insert_line": "1", "insert_text": "x"},
        {"path": "/memories/a"},
        {},
        None,
        "view",
    ],
)
def test_a_malformed_input_is_an_error_for_the_model(memory: OpenMemory, input_: object) -> None:
    memory.handle({"command": "create", "path": "/memories/a", "file_text": "x\n"})
    expected = memory.handle(input_)
    assert expected.is_error
    with pytest.raises(ToolError) as refused:
        MemoryTool(memory).call(input_)
    assert refused.value.content == expected.content


def test_everything_can_be_cleared(workspace: Workspace, store: Store, db: Path, memory: OpenMemory) -> None:
    tool = MemoryTool(memory)
    tool.call({"command": "create", "path": FILE, "file_text": "x\n"})
    assert tool.clear_all_memory() == "All memory cleared"
    assert workspace.memories.list(store.id) == []
    tool.call({"command": "create", "path": FILE, "file_text": "x\n"})
    assert anyio.run(AsyncMemoryTool(memory).clear_all_memory) == "All memory cleared"
    assert workspace.memories.list(store.id) == []
    with MemoryTool.open(db, [(store.id, "read_only")]) as reader, pytest.raises(ToolError, match="read-only"):
        reader.clear_all_memory()


# Opening and closing


def test_a_tool_that_opened_its_memory_closes_it(workspace: Workspace, store: Store, db: Path) -> None:
    with MemoryTool.open(db, ["user-preferences"], wording=SDK) as tool:
        assert isinstance(tool.memory, OpenMemory)
        session = tool.memory.session.id
        assert tool.call({"command": "view", "path": "/memories"}) == (
            "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n0B\t/memories"
        )
        assert workspace.sessions.get(session).ended_at is None
    assert workspace.sessions.get(session).ended_at is not None

    async def run() -> str:
        async with AsyncMemoryTool.open(db, [(store.id, "read_only")], cache_control={"type": "ephemeral"}) as tool:
            with pytest.raises(ToolError, match="read-only"):
                await tool.call({"command": "create", "path": FILE, "file_text": ""})
            assert isinstance(tool.memory, OpenMemory)
            return tool.memory.session.id

    assert workspace.sessions.get(anyio.run(run)).ended_at is not None


def test_a_tool_leaves_a_memory_open_that_it_was_given(memory: OpenMemory) -> None:
    with MemoryTool(memory) as tool:
        pass
    assert tool.call({"command": "view", "path": "/memories"})


# Cancelling


class Slow:
    """A memory whose calls end when they are let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Event()

    def handle(self, given: object) -> ToolResult:
        self.begun.set()
        assert self.go_on.wait(30)
        self.ended.set()
        return ToolResult("done")

    def clear(self) -> str:
        return ""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_that_is_cancelled_is_waited_for(backend: str) -> None:
    slow = Slow()

    async def cancel(scope: anyio.CancelScope) -> None:
        await anyio.to_thread.run_sync(slow.begun.wait)
        scope.cancel()
        slow.go_on.set()

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(cancel, scope)
                await AsyncMemoryTool(slow).call({"command": "view"})
            assert slow.ended.is_set()

    anyio.run(run, backend=backend)


def test_so_is_one_that_asyncio_cancels() -> None:
    slow = Slow()

    async def run() -> None:
        call = asyncio.ensure_future(AsyncMemoryTool(slow).call({"command": "view"}))
        await asyncio.to_thread(slow.begun.wait)
        call.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not call.done()
        slow.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert slow.ended.is_set()

    asyncio.run(run())


def test_what_is_called_off_before_it_begins_does_not_begin() -> None:
    work, begun = _Work(), threading.Event()
    assert work.call_off()
    with pytest.raises(RuntimeError):
        work.run(begun.set)
    assert not begun.is_set()
    other = _Work()
    other.run(begun.set)
    assert not other.call_off()
    assert other.ended.is_set()


# With and without the SDK


def test_the_tools_are_loaded_on_use() -> None:
    assert memfs.tool.MemoryTool is MemoryTool
    assert memfs.tool.AsyncMemoryTool is AsyncMemoryTool
    with pytest.raises(AttributeError):
        memfs.tool.NoSuchTool  # noqa: B018 (looking is what raises)
    code = """
import sys
import memfs.tool
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"anthropic", "anyio", "mcp", "pydantic", "httpx2"}))
"""
    with python(code) as process:
        assert finish(process) == "\n"


@pytest.mark.parametrize("import_", ["from memfs.tool.sdk import MemoryTool", "from memfs.tool import MemoryTool"])
def test_without_the_sdk_the_error_names_the_extra(import_: str) -> None:
    code = f"""
import sys
sys.modules["anthropic"] = None
from memfs.tool import *
try:
    {import_}
except ImportError as error:
    print(error)
"""
    with python(code) as process:
        assert "memfs-agent[sdk]" in finish(process)
