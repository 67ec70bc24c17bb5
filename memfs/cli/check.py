"""``memfs check``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfs.cli.context import Invocation, pass_invocation
from memfs.cli.exits import DATABASE
from memfs.cli.output import Column, Format, JsonObject, counted, format_option, line, write_list, write_object
from memfs.cli.progress import stages

if TYPE_CHECKING:
    from memfs.model.findings import Checked, Violation

_COLUMNS = [Column("CHECK", fixed=True), Column("PLACE"), Column("FOUND"), Column("REPAIR")]


@click.command()
@click.option("--repair", is_flag=True, help="Put right what can be without inventing data.")
@format_option
@pass_invocation
@click.pass_context
def check(ctx: click.Context, invocation: Invocation, repair: bool, format_: Format) -> None:
    """Check everything in the database, and repair what can be.

    Looks at every row: whether each memory is what its newest version says, each text has its hash, paths, histories,
    references and limits are as they must be, and no page of the file is damaged. It reads one state of the
    database, may run while stores are mounted, and changes nothing.

    With --repair it puts right what is recorded twice, and takes out what belongs to nothing. It never removes a
    version or its text, and never makes a wrong hash right. It needs the database for itself, and keeps a copy
    from before beside it.

    The exit code is 0 where nothing is wrong, or no longer, else 5.

    \b
    Example:
      memfs check
      memfs check --format json | jq .sound
    """
    from memfs.engine import checking

    backup: Path | None = None
    with stages() as stage:
        if repair:
            done = checking.repair(invocation.db, stage)
            before, found, backup = done.before, done.after, done.backup
        else:
            before = found = checking.check(invocation.db, stage)
    repaired = [each for each in before.violations if each not in found.violations] if repair else []
    if format_ == "table":
        _write(before, found, repaired, backup, repair=repair)
    else:
        item = {
            "database": str(invocation.db),
            "sound": not found.violations,
            **{name: value for name, value in asdict(found).items() if name != "violations"},
            "violations": [asdict(each) for each in found.violations],
            "repaired": [asdict(each) for each in repaired],
            "backup": None if backup is None else str(backup),
        }
        write_object(format_, item, list)
    if found.violations:
        ctx.exit(DATABASE)


def _write(
    before: "Checked", found: "Checked", repaired: "list[Violation]", backup: Path | None, *, repair: bool
) -> None:
    if before.violations:
        write_list(
            "table",
            [asdict(each) | {"repaired": each in repaired} for each in before.violations],
            _COLUMNS,
            lambda item: [item["invariant"], _place(item), item["found"], _fate(item, asked=repair)],
        )
    if backup is not None:
        line(f"repaired; everything as it was before is in {backup}: delete it when nothing is missed")
    if not found.violations:
        counts = (
            counted(found.stores, "store", "stores"),
            counted(found.memories, "memory", "memories"),
            counted(found.versions, "version", "versions"),
            counted(found.texts, "text", "texts"),
        )
        line(f"sound: {', '.join(counts)}")
        return
    from memfs.engine.invariants import INVARIANTS

    advice = {each.name: each.advice for each in INVARIANTS}
    if not repair and any(each.repair for each in found.violations):
        line("what has a REPAIR is put right by 'memfs check --repair'")
    for name in dict.fromkeys(each.invariant for each in found.violations if not each.repair):
        if advice.get(name):
            line(f"{name}: {advice[name]}")


def _place(item: JsonObject) -> str:
    """Where it is: the path or else the memory, and the version; else the store."""
    named = [item["path"] or item["memory_id"], item["version_id"]]
    return " ".join(filter(None, named)) or item["store_id"] or ""


def _fate(item: JsonObject, *, asked: bool) -> str:
    if asked:
        return "repaired" if item["repaired"] else "left"
    return str(item["repair"])
