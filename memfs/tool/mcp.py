"""The memory tool as a server of the Model Context Protocol, on standard input and output. Needs the extra ``mcp``."""

import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from typing import Any, BinaryIO, cast

from memfs import __version__
from memfs.tool.commands import VIEW_CHARACTERS
from memfs.tool.descriptions import Described, describe, introduce
from memfs.tool.session import OpenMemory

try:
    import anyio
    import anyio.to_thread
    from mcp import MCPError
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.types import (
        INVALID_PARAMS,
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
        TextContent,
        Tool,
        ToolAnnotations,
    )
except ImportError as error:
    raise ImportError(
        f"the MCP server needs the package mcp, 2.3 or newer: pip install 'memfs-agent[mcp]' ({error})", name=error.name
    ) from error


def _tool(described: Described) -> Tool:
    return Tool(
        name=described.name,
        title=described.title,
        description=described.description,
        input_schema=described.schema,
        annotations=ToolAnnotations(
            read_only_hint=not described.changes, destructive_hint=described.destroys, open_world_hint=False
        ),
    )


def server(memory: OpenMemory, *, overwrite: bool = False, view_characters: int = VIEW_CHARACTERS) -> Server[Any]:
    """A server of the six commands on an open memory; ``overwrite`` and ``view_characters`` as that was opened with.

    Where all stores are read_only, only the tool that reads is offered.
    """
    described = describe(overwrite=overwrite, view_characters=view_characters)
    roots = memory.roots
    writable = any(attachment.access == "read_write" for attachment in roots.values())
    tools = [_tool(one) for one in described if writable or not one.changes]
    commands = {one.name: one.command for one in described}
    # A client may send the calls of one turn together: they are carried out in the order that it sent them.
    in_order = anyio.CapacityLimiter(1)

    async def list_tools(_context: object, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(_context: object, params: CallToolRequestParams) -> CallToolResult:
        command = commands.get(params.name)
        if command is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        given = {**(params.arguments or {}), "command": command}
        result = await anyio.to_thread.run_sync(memory.handle, given, limiter=in_order)
        return CallToolResult(content=[TextContent(type="text", text=result.content)], is_error=result.is_error)

    return Server(
        "memfs",
        version=__version__,
        title="Memory",
        instructions=introduce(roots),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _whole(line: bytes) -> str:
    """A line without halves of characters (a lone ``\\ud83d``): U+FFFD stands for each.

    The SDK drops a message that has one, and its client would wait for the answer for ever. JSON.stringify() writes
    them, and a model's text that was cut can end with one.
    """
    text = line.decode(errors="replace")
    if _SURROGATE.search(line) is None:
        return text
    try:
        text = json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


async def _lines(stream: BinaryIO) -> AsyncIterator[str]:
    while line := await anyio.to_thread.run_sync(stream.readline):
        yield _whole(line)


def serve(memory: OpenMemory, *, overwrite: bool = False, view_characters: int = VIEW_CHARACTERS) -> None:
    """Serve one client on standard input and output until it closes them.

    What else is written to standard output meanwhile goes to standard error. Raises BrokenPipeError where the client
    reads no more.
    """

    async def run() -> None:
        served = server(memory, overwrite=overwrite, view_characters=view_characters)
        lines = cast(anyio.AsyncFile[str], _lines(sys.stdin.buffer))  # it is iterated over, and that is all
        async with stdio_server(stdin=lines) as (incoming, outgoing):
            # The SDK turns the descriptor elsewhere; what print() has buffered would come out when it turns it back.
            with redirect_stdout(sys.stderr):
                await served.run(incoming, outgoing, served.create_initialization_options())

    try:
        anyio.run(run)
    except BaseExceptionGroup as group:
        if group.subgroup(BrokenPipeError) is None:
            raise
        raise BrokenPipeError from None  # whatever else failed, failed of that
