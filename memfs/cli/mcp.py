"""``memfs mcp``: the memory tool as an MCP server, for agents that take their tools from one."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from memfs.cli import exits
from memfs.cli.asking import refuse
from memfs.cli.context import Invocation, pass_invocation
from memfs.cli.output import note
from memfs.cli.signals import ENDING, die, handled
from memfs.cli.tool_options import open_tool, tool_options
from memfs.model.records import Access


@click.command()
@tool_options
@pass_invocation
def mcp(
    invocation: Invocation,
    stores: tuple[tuple[str, Access], ...],
    session_id: str | None,
    overwrite: bool,
    view_characters: int,
) -> None:
    """Serve stores to an MCP client, on standard input and output.

    For a client to start (an editor, a desktop application, an agent): it finds the tools memory_view, memory_create,
    memory_str_replace, memory_insert, memory_delete and memory_rename. One store fills /memories; of several each has
    a directory there. Needs the extra 'mcp' (pip install 'memfs-agent[mcp]').

    \b
    Example:
      memfs mcp -s user-preferences
      memfs mcp -s user-preferences:read_only
    """
    try:
        from memfs.tool.mcp import serve
    except ImportError as error:
        refuse(str(error))
    if sys.stdin.isatty():
        note("this waits for an MCP client, which starts it with the same words; Ctrl-C ends it")
    with open_tool(invocation, stores, session_id, overwrite, view_characters) as memory:

        def end(number: int, _frame: FrameType | None) -> NoReturn:
            # No exception: the server's threads wait for a client that may never write again, and an interpreter that
            # ends waits for its threads.
            for again in (signal.SIGINT, *ENDING):
                signal.signal(again, signal.SIG_DFL)
            try:
                memory.close()
            except Exception as error:
                note(f"memfs: the end of the session is not on record: {error}")
            if number == signal.SIGINT:
                os._exit(exits.INTERRUPTED)
            die(number)

        with handled(end, signal.SIGINT, *ENDING):
            serve(memory, overwrite=overwrite, view_characters=view_characters)
