"""What is said where a text is gone from a store, but not yet every byte of it from the database's file."""

from typing import NoReturn

import click

from memfs.cli import exits
from memfs.cli.output import note
from memfs.model.errors import MemfsError


def not_all_cleared(done: str, error: MemfsError | KeyboardInterrupt) -> NoReturn:
    """End a command that did what it should (``done``), but was kept from clearing the file of it.

    Also where that was Ctrl-C: whoever pressed it has to know that it came too late to keep anything.
    """
    interrupted = isinstance(error, KeyboardInterrupt)
    why = "interrupted" if interrupted else str(error)
    note(f"memfs: {done}, but not every byte is out of the file yet; the next command tries again: {why}")
    raise click.exceptions.Exit(exits.INTERRUPTED if interrupted else exits.REFUSED)
