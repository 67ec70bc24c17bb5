"""``memfs doctor``."""

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfs.cli.context import Invocation, pass_invocation
from memfs.cli.exits import REFUSED
from memfs.cli.output import Column, Format, format_option, line, write_list

if TYPE_CHECKING:
    from memfs.model.findings import Finding


@click.command()
@format_option
@pass_invocation
@click.pass_context
def doctor(ctx: click.Context, invocation: Invocation, format_: Format) -> None:
    """Check what mounts and sandboxes need of this system, and the database's health.

    Each check is ok, warning (it works, but not for everything, or not for long) or missing (what it is good for does
    not work); below the table stands what to do. It looks as the user who runs it, and changes nothing. The exit code
    is 0 where nothing is missing, else 1.

    \b
    Example:
      memfs doctor
      memfs doctor --format json
    """
    found = list(findings(invocation.db))
    columns = [Column("CHECK", fixed=True), Column("STATE", fixed=True), Column("GOOD FOR"), Column("FOUND")]
    write_list(
        format_,
        map(asdict, found),
        columns,
        lambda item: [item["check"], item["state"], item["good_for"], item["found"]],
    )
    if format_ == "table":
        for each in found:
            if each.next_step:
                line(f"{each.check}: {each.next_step}")
    if any(each.state == "missing" for each in found):
        ctx.exit(REFUSED)


def findings(database: Path) -> "Iterator[Finding]":
    """Every check, of this system and this database."""
    from memfs.engine.health import examine
    from memfs.mount import stale, system
    from memfs.mount.hints import LIBRARY
    from memfs.mount.processes import can_mount
    from memfs.mount.runtime import runtime_place

    proc, profiles = Path("/proc"), Path("/etc/apparmor.d")
    search = os.environ.get("PATH", os.defpath)
    mounting = _asked(can_mount)
    yield system.kernel(os.uname().release, proc / "filesystems")
    yield system.fuse_device(Path("/dev/fuse"))
    yield system.hints(LIBRARY)
    yield system.fusermount3(search, proc / "self/status", mounting=mounting)
    yield system.apparmor_fusermount3(Path("/sys/module/apparmor/parameters/enabled"), profiles, mounting=mounting)
    yield system.user_allow_other(Path("/etc/fuse.conf"), mounting=mounting)
    yield system.user_namespaces(proc, mounting=mounting)
    yield system.apparmor_userns(proc, profiles, mounting=mounting)
    yield from system.bubblewrap(search, mounting=mounting)
    yield system.inotify(proc)
    yield system.runtime(runtime_place(), os.getuid())
    yield stale.finding(runtime_place())
    yield from examine(database)


def _asked(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:  # without /proc nothing can be said
        return False
