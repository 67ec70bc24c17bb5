"""The memory tool for the tool runner of Anthropic's SDK. Needs the extra ``sdk``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from memfs.model.errors import MemfsError
from memfs.model.records import Access
from memfs.tool.answers import sentence
from memfs.tool.commands import VIEW_CHARACTERS, ToolResult
from memfs.tool.session import OpenMemory, open_memory
from memfs.tool.wording import SEED, Wording

try:
    import anyio
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        BetaFunctionToolResultType,
        ToolError,
    )
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818Command,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

    from memfs.tool.threads import in_thread
except ImportError as error:
    raise ImportError(
        "the memory tool for the SDK's runner needs the package anthropic, 2.14 or newer: pip install"
        f" 'memfs-agent[sdk]' ({error})",
        name=error.name,
    ) from error

_COMMANDS = (
    BetaMemoryTool20250818ViewCommand,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818RenameCommand,
)
_MODELS: dict[str, Any] = dict(
    zip(("view", "create", "str_replace", "insert", "delete", "rename"), _COMMANDS, strict=True)
)


class Memory(Protocol):
    """What the tools work on: an ``OpenMemory``, or ``MemoryCommands`` alone."""

    def handle(self, given: object) -> ToolResult:
        """Answer the input of a ``tool_use`` block; an error is an answer."""

    def clear(self) -> str:
        """Delete everything. Raises MemfsError."""


def _as_command(given: object) -> BetaMemoryTool20250818Command | None:
    """An input as the SDK's model of its command, unchecked; None where it has none of the six commands."""
    if isinstance(given, _COMMANDS):
        return given
    if not isinstance(given, Mapping):
        return None
    name = given.get("command")
    model = _MODELS.get(name) if isinstance(name, str) else None
    if model is None:
        return None
    # Only what the model declares: construct() takes other names for its own parameters.
    command: BetaMemoryTool20250818Command = model.construct(
        **{field: given[field] for field in model.model_fields if field in given}
    )
    return command


def _as_input(name: str, command: object) -> object:
    """The input that a command's model was made of, or a plain mapping; a field that was left out stays so."""
    if isinstance(command, Mapping):
        return {**command, "command": name}
    set_: set[str] = getattr(command, "model_fields_set", set())
    # Not to_dict(): it warns of values that are not of the declared types, and a model sends those.
    return {field: getattr(command, field) for field in set_ if field in _MODELS[name].model_fields} | {"command": name}


def _text(result: ToolResult) -> str:
    if result.is_error:
        raise ToolError(result.content)
    return result.content


def _cleared(memory: Memory) -> str:
    try:
        return memory.clear()
    except MemfsError as error:
        raise ToolError(f"Error: {sentence(error)}") from error


class _OnMemory:
    """What both tools have: the memory they work on, which is closed with them where they have opened it."""

    # Both tools are made with cache_control, which the SDK's class beside this one takes; here it types what ``open``
    # calls, and is of no use.
    def __init__(self, memory: Memory, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:  # noqa: ARG002
        self.memory = memory
        self._opened: OpenMemory | None = None

    @classmethod
    def open(
        cls,
        database: Path,
        stores: Sequence[str | tuple[str, Access]] = (),
        *,
        session_id: str | None = None,
        overwrite: bool = False,
        view_characters: int = VIEW_CHARACTERS,
        wording: Wording = SEED,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> Self:
        """The tool on stores of a database, closed with it. Everything else is as in ``open_memory``."""
        memory = open_memory(
            database,
            stores,
            session_id=session_id,
            overwrite=overwrite,
            view_characters=view_characters,
            wording=wording,
        )
        tool = cls(memory, cache_control=cache_control)
        tool._opened = memory
        return tool


class MemoryTool(_OnMemory, BetaAbstractMemoryTool):
    """The memory tool for ``client.beta.messages.tool_runner(tools=[…])``.

    Every error is a ToolError with the text for the model, which the runner sends with ``is_error``. A context manager
    that closes the memory where the tool has opened it.
    """

    def __init__(self, memory: Memory, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        _OnMemory.__init__(self, memory)
        BetaAbstractMemoryTool.__init__(self, cache_control=cache_control)

    def close(self) -> None:
        """Close the memory, where ``open`` has opened it. Raises MemfsError where the end cannot be put on record."""
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> "MemoryTool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, input: object) -> BetaFunctionToolResultType:
        """Answer a ``tool_use`` input of any shape. Raises ToolError and nothing else."""
        command = _as_command(input)
        # By way of the six methods: who derives from this class may have put something before one of them.
        return _text(self.memory.handle(input)) if command is None else self.execute(command)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> BetaFunctionToolResultType:
        """Show a file or a directory. Raises ToolError, as the others."""
        return _text(self.memory.handle(_as_input("view", command)))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> BetaFunctionToolResultType:
        """Make a file."""
        return _text(self.memory.handle(_as_input("create", command)))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> BetaFunctionToolResultType:
        """Replace a text that a file has once."""
        return _text(self.memory.handle(_as_input("str_replace", command)))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> BetaFunctionToolResultType:
        """Insert lines."""
        return _text(self.memory.handle(_as_input("insert", command)))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> BetaFunctionToolResultType:
        """Delete a file or a directory."""
        return _text(self.memory.handle(_as_input("delete", command)))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> BetaFunctionToolResultType:
        """Move a file or a directory."""
        return _text(self.memory.handle(_as_input("rename", command)))

    def clear_all_memory(self) -> BetaFunctionToolResultType:
        """Delete everything in every store; the history stays. Raises ToolError where a store cannot be changed."""
        return _cleared(self.memory)


class AsyncMemoryTool(_OnMemory, BetaAsyncAbstractMemoryTool):
    """The memory tool for the runner of an ``AsyncAnthropic`` client, on asyncio or trio.

    As ``MemoryTool``; each call runs in a thread. One that is cancelled has not begun, or is waited for: nothing is
    written behind the caller's back.
    """

    def __init__(self, memory: Memory, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        _OnMemory.__init__(self, memory)
        BetaAsyncAbstractMemoryTool.__init__(self, cache_control=cache_control)

    async def aclose(self) -> None:
        """As ``MemoryTool.close``."""
        if self._opened is not None:
            await in_thread(self._opened.close)

    async def __aenter__(self) -> "AsyncMemoryTool":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.aclose()

    async def _answer(self, given: object) -> str:
        return _text(await in_thread(lambda: self.memory.handle(given)))

    async def call(self, input: object) -> BetaFunctionToolResultType:
        """Answer a ``tool_use`` input of any shape. Raises ToolError and nothing else."""
        command = _as_command(input)
        return await self._answer(input) if command is None else await self.execute(command)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> BetaFunctionToolResultType:
        """Show a file or a directory. Raises ToolError, as the others."""
        return await self._answer(_as_input("view", command))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> BetaFunctionToolResultType:
        """Make a file."""
        return await self._answer(_as_input("create", command))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> BetaFunctionToolResultType:
        """Replace a text that a file has once."""
        return await self._answer(_as_input("str_replace", command))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> BetaFunctionToolResultType:
        """Insert lines."""
        return await self._answer(_as_input("insert", command))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> BetaFunctionToolResultType:
        """Delete a file or a directory."""
        return await self._answer(_as_input("delete", command))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> BetaFunctionToolResultType:
        """Move a file or a directory."""
        return await self._answer(_as_input("rename", command))

    async def clear_all_memory(self) -> BetaFunctionToolResultType:
        """Delete everything in every store; the history stays. Raises ToolError where a store cannot be changed."""
        return await in_thread(lambda: _cleared(self.memory))
