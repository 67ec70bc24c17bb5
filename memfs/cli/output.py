"""What the commands print: tables for people, JSON for programs, exact bytes for pipes.

Results go to stdout and all else to stderr, so that stdout can be piped. JSON is UTF-8 in every locale.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import click

Format = Literal["table", "json", "jsonl"]
JsonObject = dict[str, Any]

Function = TypeVar("Function", bound=Callable[..., Any])


def format_option(function: Function) -> Function:
    """The option ``--format`` of every command that lists or shows."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(["table", "json", "jsonl"]),
        default="table",
        show_default=True,
        help="A table for people, one JSON document, or one JSON object a line.",
    )(function)


def quiet_option(what: str = "id") -> Callable[[Function], Function]:
    """The option ``-q`` of a command that has an id to give."""
    return click.option("-q", "--quiet", is_flag=True, help=f"Print the {what} and nothing else.")


# Characters that could end a line, drive a terminal or reorder its text: C0, C1, line and paragraph
# separators, bidirectional controls, and the surrogates that stand for bytes which are not UTF-8.
_ESCAPED = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (
        *range(0x20),
        *range(0x7F, 0xA0),
        0x061C,
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),
    )
}
_ESCAPED |= {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}

# json escapes C0 itself. The others would drive a terminal, or end a line for readers that split at U+2028.
_ESCAPED_IN_JSON = {code: f"\\u{code:04x}" for code in _ESCAPED if code >= 0x7F}


def printable(text: str) -> str:
    """``text`` on one line, without anything that acts on a terminal."""
    return text.translate(_ESCAPED)


def note(text: str) -> None:
    """Say something to the person, on stderr."""
    click.echo(printable(text), err=True)


def write_bytes(content: bytes) -> None:
    """Write exactly these bytes to stdout."""
    click.echo(content, nl=False)


def line(text: str) -> None:
    """Write one line to stdout, in whatever encoding it has."""
    _echo(printable(text))


def _echo(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    click.echo(text.encode(encoding, "backslashreplace").decode(encoding))


_ESCAPED_IN_TEXT = {code: escape for code, escape in _ESCAPED.items() if code != ord("\t")}


def text_line(text: str, **style: Any) -> None:
    """Write one line of a memory's text to a terminal: with its tabs, but without anything else that acts on it.

    ``style`` is what ``click.style`` takes, and heeded where the terminal's user wants colours.
    """
    shown = text.translate(_ESCAPED_IN_TEXT)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    _echo(shown if plain or not style else click.style(shown, **style))


def write_text(text: str) -> None:
    """Write a memory's text below something else: exactly, but on a terminal without what would act on it."""
    if sys.stdout.isatty():
        for part in text.removesuffix("\n").split("\n"):
            text_line(part)
    else:
        write_bytes(text.encode() + (b"" if text.endswith("\n") else b"\n"))


def json_line(value: JsonObject) -> bytes:
    """An object as one line of JSON."""
    return _json(value).encode() + b"\n"


def _json(value: JsonObject, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent).translate(_ESCAPED_IN_JSON)


def moment(text: str | None) -> str:
    """A time for a table: without the fraction of a second."""
    return "" if text is None else text[:19] + "Z"


FOLDED_WIDTH = 16
"""Characters that a column of foldable text has at least."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. On a terminal long text is folded into the room there is, ``fixed`` never."""

    title: str
    right: bool = False
    fixed: bool = False


def write_list(
    format_: Format,
    objects: Iterable[JsonObject],
    columns: Sequence[Column],
    row: Callable[[JsonObject], Sequence[str]],
) -> None:
    """Write a list: ``row`` gives the cells of an object. JSON is written as the objects come."""
    if format_ == "jsonl":
        for item in objects:
            write_bytes(json_line(item))
    elif format_ == "json":
        separator = "[\n"
        for item in objects:
            text = _json(item, 2).replace("\n", "\n  ")
            write_bytes(f"{separator}  {text}".encode())
            separator = ",\n"
        write_bytes(b"[]\n" if separator == "[\n" else b"\n]\n")
    else:
        _write_table(columns, [[printable(cell) for cell in row(item)] for item in objects])


def write_object(
    format_: Format, item: JsonObject, facts: Callable[[], Iterable[tuple[str, str]]], text: str | None = None
) -> None:
    """Write one object: as a table, its facts one a line and then, after an empty line, ``text``."""
    if format_ == "jsonl":
        write_bytes(json_line(item))
    elif format_ == "json":
        write_bytes(_json(item, 2).encode() + b"\n")
    else:
        listed = list(facts())
        width = max(len(name) for name, _ in listed)
        for name, value in listed:
            line(f"{name:<{width}}  {value}".rstrip())
        if text is not None:
            line("")
            write_text(text)


def _write_table(columns: Sequence[Column], rows: list[list[str]]) -> None:
    if sys.stdout.isatty():
        _write_terminal_table(columns, rows)
        return
    # In a pipe nothing is cut, whatever the width.
    cells = [[column.title for column in columns], *rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    for row in cells:
        line(
            "  ".join(
                cell.rjust(width) if column.right else cell.ljust(width)
                for column, cell, width in zip(columns, row, widths, strict=True)
            ).rstrip()
        )


def _write_terminal_table(columns: Sequence[Column], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    needed = 0
    for index, column in enumerate(columns):
        widest = max(len(column.title), *(len(row[index]) for row in rows)) if rows else len(column.title)
        width = widest if column.fixed else min(widest, FOLDED_WIDTH)
        needed += width + 2
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=column.fixed,
            min_width=width,
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: a name in brackets is no markup
    console = Console()
    # Where the fixed columns alone are too wide, the terminal breaks the lines, but nothing is lost.
    console.width = max(console.width, needed)
    console.print(table)


def write_result(format_: Format, item: JsonObject, sentence: str, *, quiet: bool = False) -> None:
    """Write what a change came to: a sentence for people, the object for programs, with ``quiet`` its id alone."""
    if quiet:
        line(item["id"])
    elif format_ == "table":
        line(sentence)
    else:
        write_object(format_, item, list)


def counted(number: int, singular: str, plural: str) -> str:
    """``1 memory``, ``2 memories``."""
    return f"{number} {singular if number == 1 else plural}"
