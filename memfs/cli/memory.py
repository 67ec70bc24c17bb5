"""``memfs memory``: list and read the memories of a store."""

import click

from memfs.cli.context import Invocation, pass_invocation, store_argument
from memfs.cli.output import Column, Format, format_option, moment, write_bytes, write_list, write_object
from memfs.model.contract import memory_object


@click.group()
def memory() -> None:
    """List and read the memories of a store.

    A memory is one UTF-8 text of up to 102,400 bytes at a path. To change memories, mount their store.

    \b
    Example:
      memfs memory list user-preferences
    """


@memory.command("list")
@store_argument
@click.option("--prefix", default="/", show_default=True, metavar="/P/", help="Only what lies below it.")
@format_option
@pass_invocation
def list_(invocation: Invocation, store_name: str, prefix: str, format_: Format) -> None:
    """List the memories of a store, by path.

    JSON leaves the content null; 'memfs memory show' has it.

    \b
    Example:
      memfs memory list user-preferences --prefix /editor/ --format jsonl
    """
    with invocation.workspace() as workspace:
        memories = workspace.memories.list(workspace.stores.resolve(store_name).id, prefix)
    write_list(
        format_,
        map(memory_object, memories),
        [
            Column("PATH"),
            Column("BYTES", right=True, fixed=True),
            Column("UPDATED", fixed=True),
            Column("ID", fixed=True),
        ],
        lambda item: [item["path"], str(item["content_size_bytes"]), moment(item["updated_at"]), item["id"]],
    )


@memory.command()
@store_argument
@click.argument("path")
@format_option
@pass_invocation
def show(invocation: Invocation, store_name: str, path: str, format_: Format) -> None:
    """Print a memory's content.

    The table format prints the exact bytes and nothing else, so that they can be piped; JSON holds the memory
    with its content. PATH is the memory's path, or its id.

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
