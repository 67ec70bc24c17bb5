"""Asking a person before something that cannot be undone."""

import sys
from typing import NoReturn

import click

from memfs.cli import exits
from memfs.cli.output import note, printable


def somebody_there() -> bool:
    """Whether somebody can be asked: they see what goes to stderr, and answer on stdin."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask a question on the terminal; anything but yes is no.

    Not click.confirm(): it writes a part of its prompt to stdout, which may be a pipe that wants JSON alone.
    """
    click.echo(f"{printable(question)} [y/N] ", nl=False, err=True)
    answer = sys.stdin.buffer.readline()
    if not answer.endswith(b"\n"):
        click.echo(err=True)  # at the end of input nobody has ended the line
    return answer.strip().lower() in (b"y", b"yes")


def refuse(message: str) -> NoReturn:
    """End with one line on stderr, as an error does."""
    note(f"memfs: {message}")
    raise click.exceptions.Exit(exits.REFUSED)
