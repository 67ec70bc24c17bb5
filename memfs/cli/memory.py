"""``memfs memory``: list, read and change the memories of a store."""

from dataclasses import replace

import click

from memfs.cli.contents import WAYS, Source, content_source, tell_if_masked
from memfs.cli.context import Invocation, actor, complete_memory, pass_invocation, path_argument, store_argument
from memfs.cli.memory_editing import edit
from memfs.cli.memory_expiring import expire
from memfs.cli.output import (
    Column,
    Format,
    JsonObject,
    format_option,
    line,
    moment,
    quiet_option,
    write_bytes,
    write_list,
    write_object,
    write_result,
)
from memfs.model.contract import deleted_memory_object, listed_object, memory_object
from memfs.model.errors import PathConflict
from memfs.model.records import Memory


@click.group()
def memory() -> None:
    """List, read and change the memories of a store.

    A memory is one UTF-8 text of up to 102,400 bytes at a path. PATH is that path, or the memory's id. Every
    change is kept as a version; 'memfs version list' has them.

    \b
    Example:
      memfs memory list user-preferences
    """


memory.add_command(edit)
memory.add_command(expire)

if_sha256_option = click.option(
    "--if-sha256", metavar="HASH", help="Only if the content still has this SHA-256 (content_sha256 in JSON)."
)


@memory.command()
@store_argument
@path_argument
@content_source
@format_option
@quiet_option()
@pass_invocation
def create(
    invocation: Invocation, store_name: str, path: str, source: Source | None, format_: Format, quiet: bool
) -> None:
    """Make a memory.

    Never overwrites: where there is a memory at PATH already, nothing is changed. The content is stored byte for
    byte.

    \b
    Example:
      memfs memory create user-preferences /editor/emacs.md --content "no tabs"
      memfs memory create user-preferences /notes/a.md --file notes/a.md
      date | memfs memory create user-preferences /today.md -
    """
    if source is None:
        raise click.UsageError(f"give the content: {WAYS}", click.get_current_context())
    with invocation.workspace() as workspace:
        store = workspace.stores.resolve(store_name)  # before anything is typed or waited for
        content = source.read()
        try:
            made = workspace.memories.create(store.id, path, content, actor())
        except PathConflict as error:
            if error.conflicting_path != path:
                raise
            raise PathConflict(
                f"there is a memory at {path} already ({error.conflicting_memory_id}): choose another path, or change"
                " it with 'memfs memory update'",
                conflicting_memory_id=error.conflicting_memory_id,
                conflicting_path=error.conflicting_path,
            ) from None
    tell_if_masked(content, made.content)
    write_result(format_, _basic(made), f"created {made.path} ({made.id})", quiet=quiet)


@memory.command()
@store_argument
@path_argument
@content_source
@click.option(
    "--path", "new_path", metavar="NEW", shell_complete=complete_memory, help="Move it there; its id and history stay."
)
@if_sha256_option
@format_option
@quiet_option()
@pass_invocation
def update(
    invocation: Invocation,
    store_name: str,
    path: str,
    source: Source | None,
    new_path: str | None,
    if_sha256: str | None,
    format_: Format,
    quiet: bool,
) -> None:
    """Change a memory's content, its path, or both.

    What already is as wanted makes no version. With --if-sha256 nothing is changed where somebody else has changed
    the content since you read it.

    \b
    Example:
      memfs memory update user-preferences /editor/vim.md --file notes/a.md --if-sha256 "$hash"
      memfs memory update user-preferences /editor/vim.md --content "set nonumber"
      memfs memory update user-preferences /editor/vim.md --path /editor/vimrc.md
      date | memfs memory update user-preferences /editor/vimrc.md -
    """
    if source is None and new_path is None:
        raise click.UsageError(f"nothing to change: give a content ({WAYS}) or --path NEW", click.get_current_context())
    with invocation.workspace() as workspace:
        store = workspace.stores.resolve(store_name)
        content = None if source is None else source.read()
        written = workspace.memories.update(
            store.id, path, actor(), content=content, path=new_path, expected_sha256=if_sha256
        )
    found = written.memory
    if content is not None:
        tell_if_masked(content, found.content)
    word = "updated" if written.changed else "unchanged"
    write_result(format_, _basic(found), f"{word} {found.path} ({found.id})", quiet=quiet)


@memory.command()
@store_argument
@path_argument
@if_sha256_option
@format_option
@quiet_option()
@pass_invocation
def delete(
    invocation: Invocation, store_name: str, path: str, if_sha256: str | None, format_: Format, quiet: bool
) -> None:
    """Delete a memory.

    Its history stays, so that its content can be found and written again. An archived store's memories can be deleted
    too.

    \b
    Example:
      memfs memory delete user-preferences /editor/vim.md
    """
    with invocation.workspace() as workspace:
        store = workspace.stores.resolve(store_name)
        gone = workspace.memories.delete(store.id, path, actor(), expected_sha256=if_sha256)
    write_result(
        format_,
        deleted_memory_object(gone),
        f"deleted {gone.path} ({gone.id}); its history stays",
        quiet=quiet,
    )


@memory.command("list")
@store_argument
@click.option("--prefix", default="/", show_default=True, metavar="/P/", help="Only what lies below it.")
@click.option(
    "--depth",
    type=click.IntRange(0, 1),
    default=0,
    show_default=True,
    help="0 for everything below, 1 for what lies directly below, with directories as such.",
)
@format_option
@quiet_option("ids")
@pass_invocation
def list_(invocation: Invocation, store_name: str, prefix: str, depth: int, format_: Format, quiet: bool) -> None:
    """List the memories of a store, by path.

    With --depth 1 what lies in a directory is one line, the directory with a '/' at its end; it has no id. JSON
    leaves the content null; 'memfs memory show' has it.

    \b
    Example:
      memfs memory list user-preferences --prefix /editor/ --format jsonl
      memfs memory list user-preferences --depth 1
    """
    with invocation.workspace() as workspace:
        found = workspace.memories.browse(workspace.stores.resolve(store_name).id, prefix, depth=depth)
    if quiet:
        for item in found:
            if isinstance(item, Memory):
                line(item.id)
        return
    write_list(
        format_,
        map(listed_object, found),
        [
            Column("PATH"),
            Column("BYTES", right=True, fixed=True),
            Column("UPDATED", fixed=True),
            Column("ID", fixed=True),
        ],
        lambda item: (
            [item["path"], "", "", ""]
            if item["type"] == "memory_prefix"
            else [item["path"], str(item["content_size_bytes"]), moment(item["updated_at"]), item["id"]]
        ),
    )


@memory.command()
@store_argument
@path_argument
@format_option
@pass_invocation
def show(invocation: Invocation, store_name: str, path: str, format_: Format) -> None:
    """Print a memory's content.

    The table format prints the exact bytes and nothing else, so that they can be piped; JSON holds the memory
    with its content.

    \b
    Example:
      memfs memory show user-preferences /editor/vim.md
      memfs memory show user-preferences /editor/vim.md --format json
    """
    with invocation.workspace() as workspace:
        found = workspace.memories.get(workspace.stores.resolve(store_name).id, path)
    if format_ == "table":
        write_bytes(found.content or b"")
    else:
        write_object(format_, memory_object(found), list)


def _basic(found: Memory) -> JsonObject:
    """A memory without its content: what a change answers (CONTRACT.md 2)."""
    return memory_object(replace(found, content=None))
