"""``memfs tool``: the memory tool for programs in any language, as lines of JSON."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from memfs.cli.context import Invocation, pass_invocation
from memfs.cli.output import json_line, note, write_bytes
from memfs.cli.signals import ending, held_back
from memfs.cli.tool_options import open_tool, tool_options
from memfs.model.records import Access

if TYPE_CHECKING:
    from memfs.tool import ToolResult

TOOL_NAME = "memory"
MAX_LINE_BYTES = 8 * 1024 * 1024
"""More than two texts of a memory's size, with every character escaped."""


@click.command()
@tool_options
@click.option(
    "--wording",
    type=click.Choice(["seed", "sdk"]),
    default="seed",
    show_default=True,
    help="The words of the answers: those of the tool's documentation, or of the SDK's own file tool.",
)
@pass_invocation
def tool(
    invocation: Invocation,
    stores: tuple[tuple[str, Access], ...],
    session_id: str | None,
    overwrite: bool,
    view_characters: int,
    wording: str,
) -> None:
    """Answer the memory tool's calls, one a line, until the input ends.

    Each line of standard input is a tool_use block of a model's message, or its input alone; each line of standard
    output is the tool_result block to send back, written at once and in the order of the calls. An error is a result
    with is_error, and the next line is read. One store fills /memories; of several each has a directory there.

    \b
    Example:
      memfs tool -s user-preferences
      memfs tool -s user-preferences:read_only --view-characters 4000
    """
    from memfs.tool.wording import WORDINGS

    if sys.stdin.isatty():
        note('type calls, as {"command": "view", "path": "/memories"}, and end with Ctrl-D on a line of its own')
    with ending(), open_tool(invocation, stores, session_id, overwrite, view_characters, wording) as memory:
        for line in _lines(sys.stdin.buffer):
            # Ctrl-C and the like do not cut a call off in the middle.
            with held_back():
                answer = _answer(line, memory.handle, WORDINGS[wording].other)
            write_bytes(json_line(answer))


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """The lines that are not empty; None for one that is too long, which is read to its end and not kept."""
    while line := stream.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := stream.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield None
        elif line.strip():
            yield line


def _answer(line: bytes | None, handle: "Callable[[object], ToolResult]", error: str) -> dict[str, Any]:
    """The tool_result for a line; ``tool_use_id`` is null where the line has none."""
    given: object = None
    wrong = None
    if line is None:
        wrong = f"the line is longer than {MAX_LINE_BYTES:,} bytes"
    else:
        try:
            given = json.loads(line.decode("utf-8-sig"))
        except UnicodeDecodeError:
            wrong = "the line is not UTF-8"
        except (ValueError, RecursionError) as reason:
            wrong = f"the line is not JSON: {reason}"
    use_id: object = None
    if isinstance(given, dict) and ("input" in given or given.get("type") == "tool_use"):
        use_id, name, given = given.get("id"), given.get("name", TOOL_NAME), given.get("input")
        if name != TOOL_NAME:
            wrong = f"this is the tool {TOOL_NAME!r}, and the call is for {name!r}"
    if wrong is not None:
        content, is_error = error.format(text=wrong), True
    else:
        result = handle(given)
        content, is_error = result.content, result.is_error
    return {
        "type": "tool_result",
        "tool_use_id": use_id if isinstance(use_id, str) else None,
        "content": content,
        "is_error": is_error,
    }
