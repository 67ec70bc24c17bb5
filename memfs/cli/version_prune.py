"""``memfs version prune``: removing old versions."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from memfs.cli.asking import agreed, refuse, somebody_there
from memfs.cli.context import Invocation, complete_store, pass_invocation
from memfs.cli.history import COLUMNS, row
from memfs.cli.output import (
    Column,
    Format,
    JsonObject,
    counted,
    format_option,
    line,
    moment,
    note,
    write_list,
    write_object,
)
from memfs.cli.progress import progress, spinner
from memfs.cli.times import AGE
from memfs.model.contract import version_object
from memfs.model.errors import Busy, MemfsError, NotFound
from memfs.model.records import Store

if TYPE_CHECKING:
    from memfs.workspace import Workspace


@click.command()
@click.argument("store_name", metavar="[STORE]", required=False, shell_complete=complete_store)
@click.option(
    "--older-than",
    type=AGE,
    metavar="AGE",
    help="How old a version must be, such as 12h, 30d or 8w.  [default: the workspace's retention]",
)
@click.option("--dry-run", is_flag=True, help="Only list what would be removed, the oldest first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@format_option
@pass_invocation
def prune(
    invocation: Invocation,
    store_name: str | None,
    older_than: timedelta | None,
    dry_run: bool,
    yes: bool,
    format_: Format,
) -> None:
    """Remove old versions, of one store or of all.

    What a memory holds now always stays, and so does the newest version of a deleted memory. Without an age it is
    that of the workspace, which 'memfs settings set' changes. The space goes back to the disk. To keep what is
    removed, 'memfs version export' it first.

    On a terminal it asks first. JSON holds what was removed as counts; with --dry-run, the versions.

    \b
    Example:
      memfs version prune user-preferences --older-than 90d --dry-run
      memfs version prune user-preferences --older-than 90d --yes
      memfs version prune --yes                       # from cron: all stores
    """
    with invocation.workspace() as workspace:
        before = workspace.retention.cutoff(older_than)
        if store_name is None:
            stores = workspace.stores.list(include_archived=True)
        else:
            stores = [workspace.stores.resolve(store_name)]
        if dry_run:
            _list(workspace, stores, before, format_, with_stores=store_name is None)
            return
        number = _count(workspace, stores, before) if sys.stderr.isatty() else None
        if number and not yes and somebody_there():
            what = counted(number, "version", "versions")
            if not agreed(f"remove {what} from before {moment(before)}? They cannot be brought back"):
                refuse("nothing was removed")
        removed: Counter[str] = Counter()
        try:
            with progress("removing", number) as advance:
                for store in stores:
                    _prune(workspace, store, before, removed, advance)
        except MemfsError:
            if removed.total():  # in transactions of their own
                what = counted(removed.total(), "version is", "versions are")
                note(f"memfs: {what} removed; run this again for the rest")
            raise
        _write(before, {store_id: count for store_id, count in removed.items() if count}, format_)
        if removed.total():
            try:
                with spinner("giving the space back"):
                    workspace.scrub(anyway=True)
            except Busy as error:
                # Not a failure: new versions use the space.
                note(f"memfs: the versions are removed, but the file keeps its size for now: {error}")


def _prune(
    workspace: "Workspace", store: Store, before: str, removed: Counter[str], advance: Callable[[int], None]
) -> None:
    """Prune a store, and count in ``removed`` what is gone, also where an error ends it."""

    def note_batch(count: int) -> None:
        removed[store.id] += count
        advance(count)

    with suppress(NotFound):  # somebody deleted the store meanwhile, with all its versions
        workspace.retention.prune(store.id, before, progress=note_batch)


def _count(workspace: "Workspace", stores: Sequence[Store], before: str) -> int:
    return sum(1 for store in stores for _ in workspace.retention.prunable(store.id, before))


def _write(before: str, removed: dict[str, int], format_: Format) -> None:
    total = sum(removed.values())
    if format_ == "table":
        places = f" in {counted(len(removed), 'store', 'stores')}" if removed else ""
        line(f"removed {counted(total, 'version', 'versions')} from before {moment(before)}{places}")
        return
    item = {
        "before": before,
        "versions": total,
        "stores": [{"memory_store_id": store_id, "versions": count} for store_id, count in removed.items()],
    }
    write_object(format_, item, list)


def _list(workspace: "Workspace", stores: Sequence[Store], before: str, format_: Format, *, with_stores: bool) -> None:
    names = {store.id: store.name for store in stores}
    number = 0

    def found() -> Iterator[JsonObject]:
        nonlocal number
        for store in stores:
            for version in workspace.retention.prunable(store.id, before):
                number += 1
                yield version_object(version)

    if with_stores:
        write_list(
            format_,
            found(),
            [Column("STORE"), *COLUMNS],
            lambda version: [names[version["memory_store_id"]], *row(version)],
        )
    else:
        write_list(format_, found(), COLUMNS, row)
    note(f"{counted(number, 'version', 'versions')} from before {moment(before)} would be removed")
