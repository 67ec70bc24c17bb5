"""``memfs settings``: how long old versions are kept."""

from collections.abc import Iterator
from dataclasses import asdict

import click

from memfs.cli.context import Invocation, pass_invocation
from memfs.cli.output import Format, counted, format_option, write_object
from memfs.model.records import Settings


@click.group()
def settings() -> None:
    """Show and change the settings of the database.

    They hold for all its stores: after how many days a version may be removed, and whether that happens by
    itself.

    \b
    Example:
      memfs settings show
    """


@settings.command()
@format_option
@pass_invocation
def show(invocation: Invocation, format_: Format) -> None:
    """Show the settings.

    The newest version of a memory is never removed, whatever its age.

    \b
    Example:
      memfs settings show --format json
    """
    with invocation.workspace() as workspace:
        found = workspace.retention.settings()
    _write(format_, found)


@settings.command("set")
@click.option("--retention-days", type=int, metavar="N", help="Versions older than N days are old: 1 to 36500.")
@click.option(
    "--prune-automatically/--no-prune-automatically",
    default=None,
    help="Whether mounts remove old versions, once a day.",
)
@format_option
@pass_invocation
def set_(invocation: Invocation, retention_days: int | None, prune_automatically: bool | None, format_: Format) -> None:
    """Change settings, and show them all.

    What is not named stays as it is. 'memfs version prune' removes what is old when it is asked to, whether or not
    that happens automatically too; 'memfs version prune --dry-run' shows what that would be.

    \b
    Example:
      memfs settings set --retention-days 90
      memfs settings set --prune-automatically
    """
    if retention_days is None and prune_automatically is None:
        raise click.UsageError("name what to change: --retention-days or --[no-]prune-automatically")
    with invocation.workspace() as workspace:
        changed = workspace.retention.set(retention_days=retention_days, prune_automatically=prune_automatically)
    _write(format_, changed)


def _write(format_: Format, found: Settings) -> None:
    def facts() -> Iterator[tuple[str, str]]:
        yield "retention", counted(found.retention_days, "day", "days")
        yield "prune automatically", "yes" if found.prune_automatically else "no"

    write_object(format_, asdict(found), facts)
