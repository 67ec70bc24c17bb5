"""``memfs mount``, ``memfs umount`` and ``memfs status``."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfs.cli.attaching import (
    check_policies,
    policy_option,
    session_option,
    stores_option,
    strict_option,
    take_up,
    temporaries_options,
    temporary_names,
)
from memfs.cli.context import Invocation, pass_invocation
from memfs.cli.output import Column, Format, format_option, line, moment, note, write_list
from memfs.cli.owning import chosen_owner, owner_options
from memfs.cli.sizes import SizeType
from memfs.model.records import Access, ConflictPolicy

if TYPE_CHECKING:
    from memfs.vfs.temporaries import TemporaryNames

DEFAULT_ROOT = Path("/mnt/memory")
DEFAULT_SCRATCH_BYTES = 64 * 1024 * 1024


@click.command()
@stores_option("A store to mount")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_ROOT,
    show_default=True,
    help="An empty or new directory to mount the stores in.",
)
@session_option
@policy_option
@click.option(
    "--scratch-size",
    type=SizeType(),
    help="How much may be written beside the stores (default 64M); it is gone at unmount. Only for root.",
)
@click.option("--foreground", is_flag=True, help="Stay, log to stderr, and unmount at Ctrl-C.")
@click.option(
    "--allow-other/--no-allow-other",
    default=None,
    help="Let other users in, as far as file permissions let them. The default for root.",
)
@owner_options
@temporaries_options
@strict_option
@pass_invocation
def mount(
    invocation: Invocation,
    stores: tuple[tuple[str, Access], ...],
    root: Path,
    session_id: str | None,
    policies: tuple[tuple[str, ConflictPolicy], ...],
    scratch_size: int | None,
    foreground: bool,
    allow_other: bool | None,
    uid: int | None,
    gid: int | None,
    umask: int | None,
    added: tuple[str, ...],
    excepted: tuple[str, ...],
    defaults: bool,
    strict: bool,
) -> None:
    """Mount stores as directories of plain files.

    Each store appears under ROOT by its slug; whatever else is written under ROOT is scratch and gone at unmount.
    Returns when every mount answers, and prints the path of each.

    \b
    Example:
      memfs mount -s notes -s team-standards:read_only
      memfs mount -s notes --uid 1000 --gid 1000
      memfs mount -s notes --root ./drafts --temporary '*.draft' --not-temporary 'keep*'
      ls /mnt/memory
    """
    from memfs.mount import control
    from memfs.mount.processes import can_mount
    from memfs.mount.root import check_root
    from memfs.mount.runtime import RootState
    from memfs.mount.supervisor import Plan

    check_policies(stores, policies)
    names = temporary_names(added=added, excepted=excepted, defaults=defaults)
    root = real_root(root)
    if scratch_size is None:
        scratch_size = DEFAULT_SCRATCH_BYTES
    elif not can_mount():
        raise click.UsageError(
            "--scratch-size needs root with CAP_SYS_ADMIN: other users' scratch shares the runtime directory's space"
        )
    if allow_other is None:
        allow_other = os.getuid() == 0
    elif allow_other:
        _check_allow_other()
    owner = chosen_owner(uid, gid, umask, allow_other=allow_other)
    state = RootState(root)
    with state.hold() as lock:
        try:
            control.prepare(state)
            check_root(root, invocation.db)
            control.check_not_nested(root)
            session, ends = take_up(invocation, stores, root, session_id, policies)
            plan = Plan(
                root=root,
                database=invocation.db.absolute(),
                session=session,
                scratch_size=scratch_size,
                allow_other=allow_other,
                temporaries=names,
                ends_session=ends,
                owner=owner,
                umask=umask,
                strict=strict,
            )

            def announce() -> None:
                for attachment in session.attachments:
                    click.echo(attachment.mount_path)

            if foreground:
                control.run_foreground(plan, state, lock, announce)
            else:
                control.run_background(plan, state, lock)
                announce()
        except BaseException:
            if not state.record_path.exists():
                state.remove(lock)
            raise


def real_root(root: Path) -> Path:
    """A root's path without links above it; one that is ours itself is not followed."""
    from memfs.mount.runtime import RootState

    parent, name = os.path.split(os.path.abspath(root))
    named = Path(os.path.realpath(parent)) / name
    return named if RootState(named).read() is not None else Path(os.path.realpath(root))


def _check_allow_other() -> None:
    """Raises click.UsageError where fusermount3 would refuse it without saying how to allow it."""
    if os.getuid() == 0:
        return
    try:
        lines = Path("/etc/fuse.conf").read_text().splitlines()
    except OSError:
        lines = []
    if not any(line.strip() == "user_allow_other" for line in lines):
        raise click.UsageError("--allow-other needs the line user_allow_other in /etc/fuse.conf: ask root to add it")


@click.command()
@click.argument("root", type=click.Path(path_type=Path, file_okay=False), required=False)
@click.option(
    "--stale",
    is_flag=True,
    help="Clear away what nobody serves any more: dead mounts, and logs of roots that are gone. None that lives.",
)
def umount(root: Path | None, stale: bool) -> None:
    """Unmount the stores under ROOT, with the scratch beside them.

    What was written is committed first; returns when the processes are gone. ROOT may be left out where only one is
    mounted. With --stale it clears away every mount whose processes died, and prints what it has cleared.

    \b
    Example:
      memfs umount /mnt/memory
      memfs umount --stale
    """
    from memfs.mount import control

    if stale:
        if root is not None:
            raise click.UsageError("--stale clears away all that is dead: leave ROOT out")
        _clear_stale()
        return
    state, record = control.find(None if root is None else real_root(root), DEFAULT_ROOT)
    users = control.holders(record)
    control.take_down(state, record)
    for user in users:
        note(f"memfs: {user.name} (pid {user.pid}) was using {record.root}; what it writes there from now on fails")


def _clear_stale() -> None:
    """Raises MountFailed where something stays."""
    from memfs.model.errors import MountFailed
    from memfs.mount import stale
    from memfs.mount.processes import mount_points
    from memfs.mount.runtime import runtime_directory

    found = stale.look(runtime_directory(), mount_points(), os.getuid())
    if not found:
        note("memfs: nothing is stale")
    cleared, failed = stale.clear(found)
    for path in cleared:
        line(path)
    if failed:
        raise MountFailed(f"could not be cleared away: {'; '.join(failed)}")


@click.command()
@format_option
def status(format_: Format) -> None:
    """Show what is mounted, for which session, and whether it answers; under RUN the process of 'memfs run', where it
    is in its sandbox.

    The state is mounted, silent (it does not answer), deleted (its store is), unmounted (taken down from outside),
    dead (its supervisor is gone; 'memfs umount' clears it away) or closed (another user's alone). Root sees what
    others have mounted too. Below, what a mount takes for temporaries where
    that is not the default; its newest operations that were refused, and why; and the newest saves of the session
    in which lines that another one had saved gave way.

    \b
    Example:
      memfs status
    """
    from memfs.mount import control

    mounts = control.status()
    own = control.user_name(os.getuid())
    others = any(mount.user != own for mount in mounts)
    write_list(
        format_,
        map(asdict, mounts),
        [
            Column("PATH", fixed=True),
            Column("STATE", fixed=True),
            Column("ACCESS", fixed=True),
            Column("SESSION", fixed=True),
            Column("PID", fixed=True, right=True),
            Column("RUN", fixed=True, right=True),
            *([Column("USER", fixed=True)] if others else []),
            Column("STORE"),
        ],
        lambda item: [
            item["path"],
            item["state"],
            item["access"],
            item["session_id"] or "-",
            str(item["pid"] or "-"),
            str(item["run"] or "-"),
            *([item["user"]] if others else []),
            item["name"],
        ],
    )
    if format_ == "table":
        for mount in mounts:
            said = _temporaries(mount.temporaries)
            if said:
                line(f"temporaries of {mount.path}: {said}")
        for mount in mounts:
            for refusal in mount.refusals:
                what = f"{refusal.reason} ({refusal.operation}, {refusal.errno})"
                # What is no path is a file that has none any more.
                between = "" if refusal.path.startswith("/") else " "
                line(f"refused {moment(refusal.at)} {mount.path}{between}{refusal.path}: {what}")
            for conflict in mount.conflicts:
                line(
                    f"conflict {moment(conflict.at)} {mount.path}{conflict.path}: lines that another session had saved"
                    f" gave way in {conflict.version_id}; compare with 'memfs version diff'"
                )


def _temporaries(names: "TemporaryNames") -> str:
    """What of a mount's temporaries is not the default."""
    parts = [] if names.defaults else ["none of the defaults"]
    parts += [
        f"{word} {' '.join(patterns)}"
        for word, patterns in (("also", names.added), ("not", names.excepted))
        if patterns
    ]
    return ", ".join(parts)
