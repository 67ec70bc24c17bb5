"""``memfs memory expire``: delete what nobody uses."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from memfs.cli.asking import agreed, refuse, somebody_there
from memfs.cli.context import Invocation, actor, pass_invocation, store_argument
from memfs.cli.output import Column, Format, counted, format_option, line, moment, note, quiet_option, write_list
from memfs.cli.times import AGE
from memfs.model.contract import memory_object
from memfs.model.errors import NotFound, PreconditionFailed
from memfs.model.records import format_time

if TYPE_CHECKING:
    from memfs.model.records import AccessedMemory
    from memfs.workspace import Workspace

ATTEMPTS = 5
"""How often memories are found anew in a store that others change meanwhile."""


@click.command()
@store_argument
@click.option(
    "--not-accessed-for",
    "age",
    type=AGE,
    required=True,
    metavar="AGE",
    help="For how long: a number and s, m, h, d or w, such as 90d.",
)
@click.option("--prefix", default="/", show_default=True, metavar="/P/", help="Only what lies below it.")
@click.option("--dry-run", is_flag=True, help="Only show them.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where no terminal is.")
@format_option
@quiet_option("ids")
@pass_invocation
def expire(
    invocation: Invocation,
    store_name: str,
    age: timedelta,
    prefix: str,
    dry_run: bool,
    yes: bool,
    format_: Format,
    quiet: bool,
) -> None:
    """Delete the memories that nobody has read or written for a long time.

    All of them in one transaction; their history stays. JSON holds the memories with accessed_at, when each was last
    read, which is null where it never was. Listing is no reading. Reads are kept to the hour; those through a mount
    count up to ten minutes late.

    On a terminal it shows them and asks first. Elsewhere it needs --yes, unless --dry-run.

    \b
    Example:
      memfs memory expire user-preferences --not-accessed-for 90d --dry-run
      memfs memory expire user-preferences --not-accessed-for 90d --prefix /scratch/ --yes
    """
    asks = not yes and not dry_run
    if asks and not somebody_there():
        refuse("nobody can be asked here: say --yes to delete, or --dry-run to see what would be deleted")
    before = format_time(datetime.now(UTC) - age)
    with invocation.workspace() as workspace:
        store = workspace.stores.resolve(store_name)
        found = workspace.memories.unaccessed(store.id, before, prefix)
        if asks and found:
            if format_ == "table" and not quiet:
                _write(format_, found)
            number = counted(len(found), "memory", "memories")
            if not agreed(f"delete {number} of the store {store.name!r} ({store.id})?"):
                refuse("nothing was deleted")
            # An answer takes its time.
            found = _still(workspace, store.id, before, prefix, found)
        for attempt in range(0 if dry_run else ATTEMPTS, 0, -1):
            try:
                workspace.memories.expire(store.id, found, actor())
                break
            except (NotFound, PreconditionFailed):  # one was written or deleted since it was found
                if attempt == 1:
                    raise
                found = _still(workspace, store.id, before, prefix, found)
    if quiet:
        for each in found:
            line(each.memory.id)
    elif format_ != "table" or (found and not asks):
        _write(format_, found)
    if not found:
        note(f"nothing to delete: every memory was read or written since {moment(before)}")
    elif not quiet:
        number = counted(len(found), "memory", "memories")
        note(f"{number} would be deleted" if dry_run else f"deleted {number}; the history stays")


def _still(
    workspace: "Workspace", store_id: str, before: str, prefix: str, found: Sequence["AccessedMemory"]
) -> Sequence["AccessedMemory"]:
    """What of it nobody has used since it was found: whatever was read or written meanwhile is in use again."""
    return [each for each in workspace.memories.unaccessed(store_id, before, prefix) if each in found]


def _write(format_: Format, found: Sequence["AccessedMemory"]) -> None:
    write_list(
        format_,
        ({**memory_object(each.memory), "accessed_at": each.accessed_at} for each in found),
        [
            Column("PATH"),
            Column("BYTES", right=True, fixed=True),
            Column("WRITTEN", fixed=True),
            Column("READ", fixed=True),
            Column("ID", fixed=True),
        ],
        lambda item: [
            item["path"],
            str(item["content_size_bytes"]),
            moment(item["updated_at"]),
            moment(item["accessed_at"]) or "never",
            item["id"],
        ],
    )
