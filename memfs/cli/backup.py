"""``memfs backup``."""

import os
from pathlib import Path

import click

from memfs.cli.context import Invocation, pass_invocation
from memfs.cli.output import Format, counted, format_option, line, write_object
from memfs.cli.progress import stages


@click.command()
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE where it is there already.")
@format_option
@pass_invocation
def backup(invocation: Invocation, target: Path, force: bool, format_: Format) -> None:
    """Copy the whole database into FILE, while it is in use.

    The copy is of one moment, checked as 'memfs check' does, and there whole or not at all; FILE is its owner's alone
    (mode 0600). Nobody who writes has to wait. What was redacted does not come back with it, and what is redacted
    later stays in it.

    To put it back, end what uses the database and move FILE to its place.

    \b
    Example:
      memfs backup memfs-2026-11-30.db
      memfs backup --force latest.db
    """
    from memfs.engine.backup import back_up

    with stages() as stage:
        made = back_up(invocation.db, target, replace=force, stage=stage)
    found = made.checked
    if format_ == "table":
        what = "made by an older memfs, so SQLite alone has checked it"
        if found is not None:
            counts = (
                counted(found.stores, "store", "stores"),
                counted(found.memories, "memory", "memories"),
                counted(found.versions, "version", "versions"),
            )
            what = f"{', '.join(counts)}; checked"
        line(f"backed up to {made.file}: {made.size_bytes:,} bytes, {what}")
        return
    item = {
        "file": os.fspath(made.file),
        "size_bytes": made.size_bytes,
        "database": os.fspath(invocation.db),
        "checked": found is not None,
        "stores": None if found is None else found.stores,
        "memories": None if found is None else found.memories,
        "versions": None if found is None else found.versions,
    }
    write_object(format_, item, list)
