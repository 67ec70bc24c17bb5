"""``memfs store restore``: a whole store back to what it was."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from memfs.cli.context import Invocation, actor, pass_invocation, store_argument
from memfs.cli.output import Column, Format, JsonObject, counted, format_option, line, note, write_list, write_object
from memfs.cli.times import TIME_FROM, TIME_TO
from memfs.model import ids
from memfs.model.errors import HistoryGone, PreconditionFailed, StoreArchived
from memfs.model.records import now

if TYPE_CHECKING:
    from memfs.workspace import Workspace
    from memfs.workspace.restoring import Lost, RestorePlan, Step

ATTEMPTS = 50
"""How often a plan is made for a store that others change meanwhile."""


@dataclass(frozen=True, slots=True)
class Point:
    """A time, or the moment after a version."""

    at: str | None = None
    version_id: str | None = None


class PointType(click.ParamType[Point]):
    """A time as ``TIME_TO`` takes it, or the id of a version."""

    name = "point"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Point:
        """Raises click.BadParameter."""
        if isinstance(value, Point):
            return value
        if value.startswith(ids.MEMORY_VERSION):
            return Point(version_id=value)
        last = TIME_TO.convert(value, param, ctx)
        present = now()
        if last > present >= TIME_FROM.convert(value, param, ctx):
            last = present  # the second or the day that is meant is not over yet
        return Point(at=last)


@click.command()
@store_argument
@click.option(
    "--at",
    "point",
    type=PointType(),
    required=True,
    metavar="TIME|VERSION",
    help="When the store was as it shall be: a time, an age such as 2h, or the id of a version.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--keep-lost", is_flag=True, help="Leave what cannot be put back as it is, and restore the rest.")
@format_option
@pass_invocation
def restore(
    invocation: Invocation, store_name: str, point: Point, dry_run: bool, keep_lost: bool, format_: Format
) -> None:
    """Put a whole store back to what it was.

    Memories that were made since are deleted, deleted ones are made again with their ids, changed and renamed ones
    get the text and the path that they had. It is one transaction, and each step is a new version: nothing of the
    history is lost, and a restore can itself be undone by another.

    TIME is RFC 3339, in local time where it has no zone, or an age such as 2h. A time without a fraction covers its
    whole second, so that one pasted from a list still holds what happened in it. With a VERSION the store becomes
    what it was right after the change that made it. 'memfs version list' shows both.

    A memory whose version of that time was redacted or pruned is lost. Then nothing is restored, unless --keep-lost.

    \b
    Example:
      memfs store restore user-preferences --at 2026-11-30T09:12:01Z --dry-run
      memfs store restore user-preferences --at 2026-11-30T09:12:01Z
      memfs store restore user-preferences --at memver_01M8NMQFRQEHGZHQHXSA2763V0
    """
    with invocation.workspace() as workspace:
        found = workspace.stores.resolve(store_name)
        if found.archived_at is not None and not dry_run:
            raise StoreArchived(f"the store {found.name!r} ({found.id}) is archived: it can only be read")
        if dry_run:
            plan = workspace.restoring.plan(found.id, at=point.at, version_id=point.version_id)
            made = None
            _show(plan, format_)
        else:
            plan, made = _carry_out(workspace, found.id, point, format_, keep_lost=keep_lost)
    if format_ != "table":
        write_object(format_, _plan_object(plan, applied=made is not None), list)
    elif made is None:
        needed = "; to restore, say --keep-lost too" if plan.lost and not keep_lost else ""
        line(f"nothing was changed: this was a dry run{needed}")
    elif not plan.steps:
        line(f"nothing to do: everything{' else' if plan.lost else ''} is as it was then")
    else:
        line(f"restored, in {counted(made, 'new version', 'new versions')}")


def _carry_out(
    workspace: "Workspace", store_id: str, point: Point, format_: Format, *, keep_lost: bool
) -> tuple["RestorePlan", int]:
    """Plan, show and restore; returns the plan that held, and how many versions it made.

    Where others changed the store in between, plan again and restore at once, or they would change it while a person is
    shown something; what was done instead is shown afterwards.
    """
    shown: list[Step] | None = None
    for attempt in range(1, ATTEMPTS + 1):
        plan = workspace.restoring.plan(store_id, at=point.at, version_id=point.version_id)
        if plan.lost and not keep_lost:
            for lost in plan.lost:
                note(f"memfs: {_lost_name(lost)}: {lost.reason}")
            raise HistoryGone(
                f"nothing was restored: {counted(len(plan.lost), 'memory', 'memories')} cannot be put back;"
                " --keep-lost leaves them as they are and restores the rest"
            )
        if shown is None:
            _show(plan, format_)
            shown = plan.steps
        try:
            made = workspace.restoring.restore(plan, actor(), keep_lost=keep_lost)
        except PreconditionFailed:
            if attempt == ATTEMPTS:
                raise
        else:
            if plan.steps != shown:
                note("memfs: the store was changed meanwhile, and what was done is this")
                _show(plan, format_)
            return plan, made
    raise AssertionError  # the last attempt returns or raises


def _show(plan: "RestorePlan", format_: Format) -> None:
    """Show a plan to a person; programs get it at the end, when it is known what became of it."""
    if format_ != "table":
        return
    if plan.steps:
        write_list(
            format_,
            map(_step_object, plan.steps),
            [Column("ACTION", fixed=True), Column("PATH"), Column("FROM"), Column("VERSION", fixed=True)],
            lambda item: [
                item["action"],
                item["path"],
                item["former_path"] or "",
                item["memory_version_id"] or "",
            ],
        )
    for lost in plan.lost:
        note(f"memfs: {_lost_name(lost)}: {lost.reason}")
    actions = [step.action for step in plan.steps]
    counts = [f"{action} {actions.count(action)}" for action in ("create", "modify", "rename", "delete")]
    line(", ".join([*counts, f"unchanged {plan.unchanged}", *([f"lost {len(plan.lost)}"] if plan.lost else [])]))


def _lost_name(lost: "Lost") -> str:
    return lost.path or f"{lost.memory_id} (its path was redacted)"


def _plan_object(plan: "RestorePlan", *, applied: bool) -> JsonObject:
    return {
        "store_id": plan.store_id,
        "applied": applied,
        "unchanged": plan.unchanged,
        "steps": [_step_object(step) for step in plan.steps],
        "lost": [{"memory_id": lost.memory_id, "path": lost.path, "reason": lost.reason} for lost in plan.lost],
    }


def _step_object(step: "Step") -> JsonObject:
    return {
        "action": step.action,
        "memory_id": step.memory_id,
        "path": step.path,
        "former_path": step.former_path,
        "memory_version_id": step.version_id,
    }
