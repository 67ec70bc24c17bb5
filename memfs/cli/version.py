"""``memfs version``: the group, and reading the history."""

from collections.abc import Iterator

import click

from memfs.cli.context import Invocation, pass_invocation, store_argument
from memfs.cli.history import COLUMNS, Selection, by, came_about, item, newest_first, row, selection_options
from memfs.cli.output import Format, format_option, line, quiet_option, write_bytes, write_list, write_object
from memfs.cli.version_changes import redact, restore
from memfs.cli.version_diff import diff
from memfs.cli.version_export import export
from memfs.cli.version_prune import prune


@click.group()
def version() -> None:
    """Read the history of memories, go back in it, and remove from it.

    Every change is kept as a version: what was created, modified or deleted, when, and by whom. VERSION is a
    version's id, which 'memfs version list' shows.

    \b
    Example:
      memfs version list user-preferences --limit 20
    """


for _command in (diff, restore, redact, prune, export):
    version.add_command(_command)


@version.command("list")
@store_argument
@selection_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most the N newest.")
@quiet_option("ids")
@format_option
@pass_invocation
def list_(
    invocation: Invocation, store_name: str, selection: Selection, limit: int | None, quiet: bool, format_: Format
) -> None:
    """List the versions of a store, the newest first.

    The history of a memory goes on when it is renamed, and outlives it when it is deleted. JSON leaves the
    content null; 'memfs version show' has it. Of several options each must fit.

    Where two sessions change a memory at once, the later version is a merge of both texts; with --conflicts those
    are listed in which lines of the earlier one gave way: that text is the version before.

    TIME is a point in time (without a zone it is local time), or an age: 30s, 15m, 2h, 7d, 1w ago.

    \b
    Example:
      memfs version list user-preferences --memory /editor/vim.md
      memfs version list user-preferences --operation deleted --since 7d
      memfs version list user-preferences --user alice --until 2026-11-30T09:12:01Z
      memfs version list user-preferences --conflicts --since 1d
      memfs version list user-preferences --limit 20 --format jsonl
    """
    with invocation.workspace() as workspace:
        store = workspace.stores.resolve(store_name)
        found = newest_first(workspace, store.id, selection.where(workspace, store), limit)
        if quiet:
            for one in found:
                line(one.id)
        else:
            write_list(format_, map(item, found), COLUMNS, row)


@version.command()
@store_argument
@click.argument("version_id", metavar="VERSION")
@click.option("--content", "content_only", is_flag=True, help="Print the exact bytes and nothing else.")
@format_option
@pass_invocation
def show(invocation: Invocation, store_name: str, version_id: str, content_only: bool, format_: Format) -> None:
    """Show one version with its content.

    A deleted or redacted version has no content. 'memfs version diff' shows what has changed since, and 'memfs
    version restore' goes back to it.

    \b
    Example:
      memfs version show user-preferences memver_01M8NMQFRQEHGZHQHXSA2763V0
      memfs version show --content user-preferences memver_01M8NMQFRQEHGZHQHXSA2763V0
    """
    with invocation.workspace() as workspace:
        store_id = workspace.stores.resolve(store_name).id
        if content_only:
            write_bytes(workspace.versions.content(store_id, version_id))
            return
        found = workspace.versions.get(store_id, version_id)
    shown = item(found)

    def facts() -> Iterator[tuple[str, str]]:
        yield "id", found.id
        yield "store", found.memory_store_id
        yield "memory", found.memory_id
        yield "operation", found.operation
        if found.path is not None:
            yield "path", found.path
        if found.content_size_bytes is not None:
            yield "bytes", str(found.content_size_bytes)
        if found.content_sha256 is not None:
            yield "sha256", found.content_sha256
        yield "created", found.created_at
        yield "by", by(shown["created_by"])
        if found.merged is not None:
            yield "made from", found.merged.base_version_id or "nothing that is known"
            yield came_about(shown), "lines of the version before gave way" if found.merged.conflict else "yes"
        if found.redacted_at is not None:
            yield "redacted", found.redacted_at
            yield "redacted by", by(shown["redacted_by"])

    write_object(format_, shown, facts, shown["content"])
