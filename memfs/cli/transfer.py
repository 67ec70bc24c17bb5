"""``memfs store import`` and ``memfs store export``: files and whole histories into a store, and out of it."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import click

from memfs.cli.asking import refuse
from memfs.cli.context import Invocation, actor, pass_invocation, store_argument
from memfs.cli.files import whole_file
from memfs.cli.output import Format, JsonObject, counted, format_option, json_line, line, note, write_object
from memfs.cli.progress import progress
from memfs.model.errors import InvalidRequest, PathConflict, PreconditionFailed, StoreFull
from memfs.model.records import Store

if TYPE_CHECKING:
    from memfs.workspace import Workspace
    from memfs.workspace.histories import ImportedHistory
    from memfs.workspace.importing import ImportPlan
    from memfs.workspace.sources import Source

Kind = Literal["directory", "tar", "jsonl"]

_KIND = click.Choice(["directory", "tar", "jsonl"])

ATTEMPTS = 5
"""How often an import is planned for a store or files that others change meanwhile."""


@click.command("import")
@store_argument
@click.argument("source", metavar="SOURCE", type=click.Path(allow_dash=True))
@click.option("--from", "kind", type=_KIND, help="What SOURCE is, where looking at it does not tell.")
@click.option("--skip-invalid", is_flag=True, help="Leave out what cannot be a memory, and import the rest.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@format_option
@pass_invocation
def import_(
    invocation: Invocation,
    store_name: str,
    source: str,
    kind: Kind | None,
    skip_invalid: bool,
    dry_run: bool,
    format_: Format,
) -> None:
    """Import files, or a whole history, into a store.

    SOURCE is a directory, a tar archive (also compressed by gzip, bzip2 or xz), a history as JSON lines, or - for an
    archive or a history on standard input.

    Each regular file becomes a memory at the same path. A memory that is there already gets a new version, or none
    where nothing changed; others stay. It is all one transaction. What cannot be a memory (not UTF-8 text, over
    102,400 bytes, a link, a name that breaks the rules, a path below a file, what a guard refuses, what the store
    has no room for) is reported, and then nothing is imported unless --skip-invalid.

    A history, as 'memfs store export --as jsonl' and 'memfs version export' write it, goes into a store that never
    had a memory, whole or not at all: with its times, actors and redactions, and with its ids where they are free.

    \b
    Example:
      memfs store import user-preferences ./notes --dry-run
      memfs store import user-preferences ./notes --skip-invalid
      git archive HEAD:docs | memfs store import user-preferences -
    """
    if source == "-" and kind == "directory":
        raise click.UsageError("a directory cannot come from standard input: name it, or pipe a tar archive")
    with invocation.workspace() as workspace:
        found = workspace.stores.resolve(store_name)
        with _incoming(source, kind) as (kind, file):
            if kind == "jsonl":
                if skip_invalid:
                    raise click.UsageError("a history is imported whole or not at all: leave --skip-invalid out")
                assert file is not None
                _import_history(workspace, found, file, dry_run, format_)
            else:
                _import_files(workspace, found, source, file, skip_invalid, dry_run, format_)


# What comes in


@contextmanager
def _incoming(source: str, kind: Kind | None) -> Iterator[tuple[Kind, BinaryIO | None]]:
    """What a source is, and the open file unless it is a directory. Raises InvalidRequest.

    It can be read more than once: what a pipe gives is kept in a temporary file meanwhile.
    """
    with ExitStack() as stack:
        if source != "-" and os.path.isdir(source):
            if kind not in (None, "directory"):
                raise InvalidRequest(f"{source} is a directory, and no {kind} file: leave --from out")
            yield "directory", None
            return
        if kind == "directory":
            raise InvalidRequest(f"{source} is not a directory")
        try:
            file: BinaryIO = sys.stdin.buffer if source == "-" else stack.enter_context(open(source, "rb"))
        except OSError as error:
            raise InvalidRequest(
                f"{source} cannot be read: {error.strerror}; SOURCE is a directory, a tar archive, a history as JSON"
                " lines, or - for standard input"
            ) from None
        if file.isatty():
            raise click.UsageError("nothing is piped in, but a terminal: pipe an archive or a history, or name one")
        if source == "-" or not file.seekable():
            spooled = stack.enter_context(tempfile.TemporaryFile())
            try:
                shutil.copyfileobj(file, spooled)
            except OSError as error:
                name = "standard input" if source == "-" else source
                raise InvalidRequest(f"{name} cannot be read or kept meanwhile: {error.strerror}") from None
            file = spooled
        yield kind or _looks_like(source, file), file


def _looks_like(source: str, file: BinaryIO) -> Kind:
    """Raises InvalidRequest where it looks like nothing that can be imported."""
    from memfs.workspace.archives import looks_like_archive

    file.seek(0)
    start = file.read(1024)
    if looks_like_archive(start):
        return "tar"
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{") or (not start and source.lower().endswith(".jsonl")):
        return "jsonl"
    name = "standard input" if source == "-" else source
    if not start:
        raise InvalidRequest(f"{name} is empty: nothing was imported")
    raise InvalidRequest(
        f"{name} is neither a directory nor a tar archive nor JSON lines: say what it is with --from,"
        " or import the directory that it is in"
    )


# Files


def _import_files(
    workspace: "Workspace",
    store: Store,
    name: str,
    file: BinaryIO | None,
    skip_invalid: bool,
    dry_run: bool,
    format_: Format,
) -> None:
    from memfs.workspace.archives import archive
    from memfs.workspace.importing import apply_import, plan_import
    from memfs.workspace.sources import directory

    source = directory(Path(name)) if file is None else archive(file)
    plan = _planned(workspace, store, name, source, is_directory=file is None)
    for attempt in range(1, ATTEMPTS + 1):
        if dry_run or (plan.problems and not skip_invalid):
            break
        try:
            apply_import(workspace, plan, source, actor())
            break
        except (PreconditionFailed, PathConflict, StoreFull):
            if attempt == ATTEMPTS:
                raise
            note("memfs: the store or a file was changed meanwhile: planning again")
            plan = plan_import(workspace, store.id, source)
    _report(plan, format_, skip_invalid=skip_invalid, dry_run=dry_run)


def _planned(workspace: "Workspace", store: Store, name: str, source: "Source", *, is_directory: bool) -> "ImportPlan":
    from memfs.workspace.importing import plan_import

    total = None
    if is_directory and sys.stderr.isatty():
        total = sum(len(files) for _, _, files in os.walk(name))
    with progress("importing", total) as advance:
        return plan_import(workspace, store.id, source, progress=advance)


def _report(plan: "ImportPlan", format_: Format, *, skip_invalid: bool, dry_run: bool) -> None:
    """Say what became of an import. Ends the command with exit code 1 where something is in its way."""
    refused = bool(plan.problems) and not skip_invalid
    if format_ == "table":
        for problem in plan.problems:
            note(f"memfs: {problem.path}: {problem.reason}")
        if dry_run:
            for action, paths in (("create", plan.created), ("modify", plan.modified)):
                for path in paths:
                    line(f"{action} {path}")
        if dry_run or not refused:
            line(
                _summary(
                    plan, "create {}, modify {}, unchanged {}" if dry_run else "created {}, modified {}, unchanged {}"
                )
            )
    else:
        item: JsonObject = {
            "created": plan.created,
            "modified": plan.modified,
            "unchanged": plan.unchanged,
            "problems": [{"path": problem.path, "reason": problem.reason} for problem in plan.problems],
            "applied": not dry_run and not refused,
        }
        write_object(format_, item, list)
    if refused:
        items = counted(len(plan.problems), "item", "items")
        refuse(f"nothing was imported: {items} cannot be a memory; --skip-invalid imports the rest")
    if dry_run:
        note("nothing was imported: this was a dry run")


def _summary(plan: "ImportPlan", words: str) -> str:
    skipped = f", skipped {len(plan.problems)}" if plan.problems else ""
    return words.format(len(plan.created), len(plan.modified), plan.unchanged) + skipped


# Histories


def _import_history(workspace: "Workspace", store: Store, file: BinaryIO, dry_run: bool, format_: Format) -> None:
    from memfs.workspace.histories import import_history

    with progress("importing", None) as advance:
        imported = import_history(workspace, store.id, file, dry_run=dry_run, progress=advance)
    _report_history(imported, dry_run, format_)


def _report_history(imported: "ImportedHistory", dry_run: bool, format_: Format) -> None:
    if format_ == "table":
        versions = counted(imported.versions, "version", "versions")
        memories = counted(len(imported.paths), "live memory", "live memories")
        renewed = "" if imported.ids_kept else ", with new ids because some of them are in the workspace already"
        line(f"{'import' if dry_run else 'imported'} {versions}, {memories}{renewed}")
    else:
        item: JsonObject = {
            "created": imported.paths,
            "modified": [],
            "unchanged": 0,
            "problems": [],
            "applied": not dry_run,
            "versions": imported.versions,
            "ids_kept": imported.ids_kept,
        }
        write_object(format_, item, list)
    if dry_run:
        note("nothing was imported: this was a dry run")


# Export


@click.command()
@store_argument
@click.argument("target", metavar="DEST", type=click.Path(allow_dash=True))
@click.option("--as", "kind", type=_KIND, help="What to write, where the name of DEST does not tell.")
@click.option("--force", is_flag=True, help="Replace DEST where it is a file.")
@pass_invocation
def export(invocation: Invocation, store_name: str, target: str, kind: Kind | None, force: bool) -> None:
    """Export the memories of a store, or its whole history.

    DEST is a new or empty directory, which gets a file for each memory, byte for byte; a tar archive, told by a
    name like x.tar, x.tar.gz, x.tar.bz2 or x.tar.xz; or a name like x.jsonl for the whole history as JSON lines,
    which 'memfs store import' reads back with ids, times and actors. With - it goes to standard output, and --as
    says what.

    What is written is the store at one moment, and DEST appears whole or not at all. An archived store can be
    exported too.

    \b
    Example:
      memfs store export user-preferences ./backup
      memfs store export user-preferences backup.tar.gz
      memfs store export user-preferences history.jsonl
      memfs store export user-preferences - --as jsonl | gzip -c
    """
    if target == "-":
        if kind is None or kind == "directory":
            raise click.UsageError("what shall go to standard output? Say --as tar or --as jsonl")
        if kind == "tar" and sys.stdout.isatty():
            raise click.UsageError("an archive is not for a terminal: redirect standard output, or name a file")
    chosen = kind or _kind_of_name(target)
    with invocation.workspace() as workspace:
        store = workspace.stores.resolve(store_name)
        if chosen == "directory":
            sentence = _export_directory(workspace, store, Path(target))
        elif target == "-":
            sentence = _export_file(workspace, store, chosen, target, sys.stdout.buffer)
        else:
            with whole_file(Path(target), force=force) as file:
                sentence = _export_file(workspace, store, chosen, target, file)
    if target == "-":
        note(f"exported {sentence}")
    else:
        line(f"exported {sentence} to {target}")


def _kind_of_name(name: str) -> Kind:
    from memfs.workspace.exporting import is_archive_name

    if name.lower().endswith(".jsonl"):
        return "jsonl"
    return "tar" if is_archive_name(name) else "directory"


def _export_directory(workspace: "Workspace", store: Store, target: Path) -> str:
    from memfs.workspace.exporting import export_directory

    with progress("exporting", len(workspace.memories.list(store.id))) as advance:
        number = export_directory(workspace, store.id, target, progress=advance)
    return counted(number, "memory", "memories")


def _export_file(workspace: "Workspace", store: Store, kind: Kind, name: str, file: BinaryIO) -> str:
    """Write an archive or a history; returns what it was."""
    from memfs.workspace.exporting import compression_of, export_archive
    from memfs.workspace.histories import history_objects

    if kind == "tar":
        with progress("exporting", len(workspace.memories.list(store.id))) as advance:
            number = export_archive(workspace, store.id, file, compression=compression_of(name), progress=advance)
        file.flush()
        return counted(number, "memory", "memories")
    versions = 0
    with progress("exporting", None) as advance:
        for item in history_objects(workspace, store.id):
            file.write(json_line(item))
            versions += item["type"] == "memory_version"
            advance(1)
    file.flush()
    return counted(versions, "version", "versions")
