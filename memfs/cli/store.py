"""``memfs store``: make, list, import and export stores."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from memfs.cli import exits
from memfs.cli.context import Invocation, actor, pass_invocation, store_argument
from memfs.cli.output import (
    Column,
    Format,
    counted,
    format_option,
    line,
    moment,
    note,
    write_list,
    write_object,
)
from memfs.model.contract import store_object


@click.group()
def store() -> None:
    """Make, list, import and export stores.

    A store is a named collection of up to 2,000 memories. STORE is a store's id, or its name or slug (the
    name of its directory when mounted) where no other store has the same.

    \b
    Example:
      memfs store list
    """


def _metadata(pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} has no '=': write KEY=VALUE", param_hint="--metadata")
        if key in found:
            raise click.BadParameter(f"the key {key!r} is given twice", param_hint="--metadata")
        found[key] = value
    return found


@store.command()
@click.argument("name")
@click.option("--description", default="", metavar="TEXT", help="What the store is for; agents are told.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A pair to keep with it; up to 16.")
@click.option("-q", "--quiet", is_flag=True, help="Print the id and nothing else.")
@pass_invocation
def create(invocation: Invocation, name: str, description: str, metadata: tuple[str, ...], quiet: bool) -> None:
    """Make a store and print its id.

    The first store makes the database too. The id goes to stdout, a word about what to do next to stderr.

    \b
    Example:
      memfs store create "Team standards" --description "How we write code" --metadata team=platform
      id=$(memfs store create -q Scratchpad)
    """
    from memfs.model.paths import slug
    from memfs.workspace.stores import check_store

    pairs = _metadata(metadata)
    check_store(name, description, pairs)  # before a database is made for a store that cannot be
    with invocation.workspace(create=True) as workspace:
        made = workspace.stores.create(name, description, pairs)
    line(made.id)
    if not quiet:
        note(f"created the store {name!r} in {invocation.db}; its directory is named {slug(name, made.id)}")


@store.command("list")
@click.option("--include-archived", is_flag=True, help="Show archived stores too.")
@format_option
@pass_invocation
def list_(invocation: Invocation, include_archived: bool, format_: Format) -> None:
    """List the stores, oldest first.

    Archived stores, which can only be read, are left out unless asked for.

    \b
    Example:
      memfs store list --include-archived --format json
    """
    with invocation.workspace() as workspace:
        stores = workspace.stores.list(include_archived=include_archived)
    write_list(
        format_,
        map(store_object, stores),
        [
            Column("ID", fixed=True),
            Column("CREATED", fixed=True),
            *([Column("ARCHIVED", fixed=True)] if include_archived else []),
            Column("NAME"),
            Column("DESCRIPTION"),
        ],
        lambda item: [
            item["id"],
            moment(item["created_at"]),
            *([moment(item["archived_at"])] if include_archived else []),
            item["name"],
            item["description"],
        ],
    )


@store.command()
@store_argument
@format_option
@pass_invocation
def show(invocation: Invocation, store_name: str, format_: Format) -> None:
    """Show one store.

    The table also counts its memories; JSON holds the store alone.

    \b
    Example:
      memfs store show user-preferences
    """
    from memfs.model.paths import slug

    with invocation.workspace() as workspace:
        found = workspace.stores.resolve(store_name)

        def facts() -> Iterator[tuple[str, str]]:
            memories = workspace.memories.list(found.id)
            yield "id", found.id
            yield "name", found.name
            yield "directory", slug(found.name, found.id)
            yield "description", found.description
            for key, value in sorted(found.metadata.items()):
                yield "metadata", f"{key}={value}"
            yield "memories", str(len(memories))
            yield "bytes", str(sum(memory.content_size_bytes for memory in memories))
            yield "created", moment(found.created_at)
            yield "updated", moment(found.updated_at)
            if found.archived_at is not None:
                yield "archived", moment(found.archived_at)

        write_object(format_, store_object(found), facts)


@contextmanager
def _progress(text: str, total: int | None) -> Iterator[Callable[[str], None] | None]:
    """A progress bar on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(text, total=total)
        yield lambda _path: bar.advance(task)


@store.command("import")
@store_argument
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--skip-invalid", is_flag=True, help="Leave out what cannot be a memory, and import the rest.")
@pass_invocation
def import_(invocation: Invocation, store_name: str, directory: Path, skip_invalid: bool) -> None:
    """Make each file below DIR a memory at the same path.

    A memory that is there already gets a new version, or none where nothing changed; others stay. It is all
    one transaction. What cannot be a memory (not UTF-8 text, over 102,400 bytes, a link, a name that breaks
    the rules) is reported, and then nothing is imported unless --skip-invalid.

    \b
    Example:
      memfs store import user-preferences ./notes --skip-invalid
    """
    from memfs.workspace.transfer import import_directory

    with invocation.workspace() as workspace:
        found = workspace.stores.resolve(store_name)
        total = sum(len(files) for _, _, files in os.walk(directory)) if sys.stderr.isatty() else None
        with _progress("importing", total) as progress:
            report = import_directory(
                workspace, found, directory, actor(), skip_invalid=skip_invalid, progress=progress
            )
    for problem in report.problems:
        note(f"memfs: {problem.path}: {problem.reason}")
    if report.problems and not skip_invalid:
        items = counted(len(report.problems), "item", "items")
        note(f"memfs: nothing was imported: {items} cannot be a memory; --skip-invalid imports the rest")
        raise click.exceptions.Exit(exits.REFUSED)
    counts = [
        f"created {len(report.created)}",
        f"modified {len(report.modified)}",
        f"unchanged {len(report.unchanged)}",
        *([f"skipped {len(report.problems)}"] if report.problems else []),
    ]
    line(", ".join(counts))


@store.command()
@store_argument
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@pass_invocation
def export(invocation: Invocation, store_name: str, directory: Path) -> None:
    """Write each memory to a file below DIR, byte for byte.

    DIR must be empty or missing. An archived store can be exported too.

    \b
    Example:
      memfs store export user-preferences ./backup
    """
    from memfs.workspace.transfer import export_directory

    with invocation.workspace() as workspace:
        found = workspace.stores.resolve(store_name)
        with _progress("exporting", len(workspace.memories.list(found.id))) as progress:
            number = export_directory(workspace, found, directory, progress=progress)
    line(f"exported {counted(number, 'memory', 'memories')} to {directory}")
