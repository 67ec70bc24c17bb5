"""``memfs version export``: the history as lines of JSON."""

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from memfs.cli.context import Invocation, pass_invocation, store_argument
from memfs.cli.files import whole_file
from memfs.cli.history import Selection, oldest_first, selection_options
from memfs.cli.output import counted, json_line, note
from memfs.cli.progress import progress
from memfs.cli.times import AGE
from memfs.model.contract import version_object
from memfs.model.records import Store

if TYPE_CHECKING:
    from memfs.engine import VersionFilter
    from memfs.workspace import Workspace


@click.command()
@store_argument
@click.argument("file", metavar="[FILE|-]", type=click.Path(path_type=Path), default="-")
@selection_options
@click.option("--older-than", type=AGE, metavar="AGE", help="Only versions this old, such as 12h, 30d or 8w.")
@click.option("--force", is_flag=True, help="Replace FILE where it is there already.")
@pass_invocation
def export(
    invocation: Invocation,
    store_name: str,
    file: Path,
    selection: Selection,
    older_than: timedelta | None,
    force: bool,
) -> None:
    """Write versions with their content, one JSON object a line.

    The oldest comes first, so that 'memfs store import' can read a whole history back. FILE is written as a whole
    or not at all, and only its owner can read it; without FILE, or with -, the lines go to standard output. The
    options choose versions as they do for 'memfs version list'. How many were written goes to standard error.

    \b
    Example:
      memfs version export user-preferences history.jsonl
      memfs version export user-preferences --memory /editor/vim.md | gzip -c
      memfs version export user-preferences old.jsonl --older-than 30d
    """
    with invocation.workspace() as workspace:
        store = workspace.stores.resolve(store_name)
        where = selection.where(workspace, store)
        if older_than is not None:
            before = workspace.retention.cutoff(older_than)
            where = replace(where, created_to=min(before, where.created_to or before))
        if file == Path("-"):
            number = _export(workspace, store, where, sys.stdout.buffer, lambda _number: None)
            note(f"exported {counted(number, 'version', 'versions')}")
        else:
            with whole_file(file, force=force) as target, progress("exporting", None) as advance:
                number = _export(workspace, store, where, target, advance)
            note(f"exported {counted(number, 'version', 'versions')} to {file}")


def _export(
    workspace: "Workspace",
    store: Store,
    where: "VersionFilter",
    target: BinaryIO,
    advance: Callable[[int], None],
) -> int:
    """Write versions as they come; returns how many."""
    number = 0
    for version in oldest_first(workspace, store.id, where):
        target.write(json_line(version_object(version)))
        number += 1
        advance(1)
    target.flush()
    return number
