"""Where a command gets a memory's content from: its own words, a file or standard input."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, BinaryIO, TypeVar, cast

import click

from memfs.cli.output import note
from memfs.model.errors import ContentTooLarge, InvalidRequest
from memfs.model.records import MAX_CONTENT_BYTES

WAYS = "--content TEXT, --file FILE, or - for standard input"

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Source:
    """What the person named as the content: a text, a file, or neither for standard input."""

    text: str | None = None
    file: str | None = None

    def read(self) -> bytes:
        """The bytes, whatever they are: whether they are UTF-8 is for the rules to say.

        Raises ContentTooLarge, InvalidRequest where the file cannot be read.
        """
        if self.text is not None:
            return os.fsencode(self.text)  # what was not UTF-8 on the command line is those bytes again
        if self.file is None:
            return self._standard_input()
        try:
            with open(self.file, "rb") as stream:
                return read_bounded(stream, self.file)
        except OSError as error:
            raise InvalidRequest(f"the file {self.file} cannot be read: {error.strerror}") from None

    def _standard_input(self) -> bytes:
        stream = sys.stdin.buffer
        if stream.isatty():
            note("type the text, and end it with Ctrl-D on a line of its own")
        try:
            return read_bounded(stream, "standard input")
        except OSError as error:
            raise InvalidRequest(f"standard input cannot be read: {error.strerror}") from None


def read_bounded(stream: BinaryIO, name: str) -> bytes:
    """All that a stream has. Raises ContentTooLarge, having read one byte more than a memory can hold and no more."""
    content = stream.read(MAX_CONTENT_BYTES + 1)
    if len(content) > MAX_CONTENT_BYTES:
        raise ContentTooLarge(f"{name} has more than the {MAX_CONTENT_BYTES} bytes that a memory holds: split it")
    return content


def content_source(function: Function) -> Function:
    """``-``, ``--content`` and ``--file``; the command gets ``source``, which is None where none is given."""

    @click.argument("dash", metavar="[-]", required=False)
    @click.option("--content", metavar="TEXT", help="The text itself; no newline is added.")
    @click.option(
        "--file",
        type=click.Path(allow_dash=True),
        metavar="FILE",
        help="A file that holds the text, or - for standard input.",
    )
    @click.pass_context
    @wraps(function)  # innermost: it also takes over the parameters that the function has already
    def with_source(
        ctx: click.Context, /, *args: Any, dash: str | None, content: str | None, file: str | None, **named: Any
    ) -> Any:
        if dash not in (None, "-"):
            raise click.UsageError(f"{dash!r} is one argument too many: a content is given as {WAYS}", ctx)
        if [dash, content, file].count(None) < 2:
            raise click.UsageError(f"give one content, not several: {WAYS}", ctx)
        source = None
        if (dash, content, file) != (None, None, None):
            source = Source(content, None if file == "-" else file)
        return ctx.invoke(function, *args, source=source, **named)

    return cast(Function, with_source)


def tell_if_masked(given: bytes, stored: bytes | None) -> None:
    """Say so where what is stored is not what was given: a guard does that to what it finds."""
    if stored != given:
        note("memfs: a guard of the store masked a part of the text")
