"""``memfs run``."""

import os
from contextlib import suppress
from pathlib import Path

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
from memfs.cli.context import Invocation, default_database, pass_invocation
from memfs.cli.mount import DEFAULT_ROOT, DEFAULT_SCRATCH_BYTES
from memfs.cli.output import note
from memfs.cli.sizes import SizeType
from memfs.model.errors import NotFound
from memfs.model.records import Access, ConflictPolicy, Session

MAX_VARIABLE_BYTES = 128 * 1024 - 64
"""Bytes that the kernel lets a variable of the environment have, its name and its end included."""

KEPT_WHEN_CLEARED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


class BindType(click.ParamType[tuple[Path, Path]]):
    """SOURCE or SOURCE:TARGET."""

    name = "bind"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Path, Path]:
        """Both as absolute paths without links. Raises click.BadParameter."""
        if isinstance(value, tuple):
            return value
        source, _, target = str(value).partition(":")
        if not source:
            self.fail(f"{value!r} names nothing to show: write SOURCE or SOURCE:TARGET", param, ctx)
        real = Path(os.path.realpath(source))
        if not real.exists():
            self.fail(f"{source!r} does not exist", param, ctx)
        return real, Path(os.path.realpath(target or source))


@click.command(context_settings={"allow_interspersed_args": False})
@stores_option("A store to give to the command")
@policy_option
@temporaries_options
@strict_option
@session_option
@click.option(
    "--at",
    "root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the command finds its stores.  [default: where the session has them, /mnt/memory]",
)
@click.option(
    "--bind",
    "binds",
    type=BindType(),
    multiple=True,
    metavar="SOURCE[:TARGET]",
    help="Show something that is hidden, or show it elsewhere.",
)
@click.option(
    "--ro-bind",
    "ro_binds",
    type=BindType(),
    multiple=True,
    metavar="SOURCE[:TARGET]",
    help="The same, and it cannot be written there.",
)
@click.option("--no-network", is_flag=True, help="Run without any network.")
@click.option("--clearenv", is_flag=True, help="Keep the caller's variables from the command, but for a few like PATH.")
@click.option(
    "--workdir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the command begins.  [default: the working directory]",
)
@click.option(
    "--scratch-size",
    type=SizeType(),
    default=DEFAULT_SCRATCH_BYTES,
    show_default="64M",
    help="How much may be written beside the stores; it is gone at the end.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@pass_invocation
@click.pass_context
def run(
    context: click.Context,
    invocation: Invocation,
    stores: tuple[tuple[str, Access], ...],
    policies: tuple[tuple[str, ConflictPolicy], ...],
    added: tuple[str, ...],
    excepted: tuple[str, ...],
    defaults: bool,
    strict: bool,
    session_id: str | None,
    root: Path | None,
    binds: tuple[tuple[Path, Path], ...],
    ro_binds: tuple[tuple[Path, Path], ...],
    no_network: bool,
    clearenv: bool,
    workdir: Path | None,
    scratch_size: int,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND in a sandbox that has stores mounted, and ends with it.

    The command sees the system as you do, but for the database, and nothing of it can get there. It finds its stores
    in MEMFS_ROOT, its session in MEMFS_SESSION_ID, and the note for a system prompt in MEMFS_PROMPT. Its exit status
    is returned, 128 and the signal's number where a signal ended it. Needs bubblewrap, and no root.

    \b
    Example:
      memfs run -s notes -- bash
      memfs run -s notes -s team-standards:read_only -- claude -p "Tidy up /mnt/memory/notes"
    """
    from memfs.mount import control, running
    from memfs.mount.runtime import runtime_directory
    from memfs.mount.sandbox import Bind, View
    from memfs.mount.supervisor import Plan

    check_policies(stores, policies)
    names = temporary_names(added=added, excepted=excepted, defaults=defaults)
    running.check_runnable()
    root = Path(os.path.realpath(root)) if root is not None else _root_of(invocation, session_id)
    binds_asked = [Bind(*bind, read_only=False) for bind in binds] + [Bind(*bind, read_only=True) for bind in ro_binds]
    view = View(
        root=root,
        database=invocation.db.absolute(),
        private=(runtime_directory(), *_terminals()),
        workdir=Path(os.path.realpath(workdir or os.getcwd())),
        binds=tuple(binds_asked),
        network=not no_network,
        scratch_size=scratch_size,
        others=_other_databases(),
    )
    session, ends = take_up(invocation, stores, root, session_id, policies)
    try:
        plan = Plan(
            root=root,
            database=view.database,
            session=session,
            scratch_size=scratch_size,
            allow_other=False,
            ends_session=ends,
            temporaries=names,
            strict=strict,
        )
        variables = _environment(session, root, cleared=clearenv)
        status = running.run(running.Run(plan, view, command, variables, lambda text: note(f"memfs: {text}")))
    except BaseException:
        if ends:
            control.end_session(invocation.db, session.id)
        raise
    context.exit(status)


def _root_of(invocation: Invocation, session_id: str | None) -> Path:
    """Where the stores of a session are to be mounted, if it is known and says so."""
    if session_id is not None:
        with suppress(NotFound), invocation.workspace(read_only=True) as workspace:
            for attachment in workspace.sessions.get(session_id).attachments:
                return Path(attachment.mount_path).parent
    return DEFAULT_ROOT


def _other_databases() -> tuple[Path, ...]:
    """What memfs would open in the sandbox, where ``--db`` names another: the caller's memory all the same."""
    found = [Path(os.path.abspath(given))] if (given := os.environ.get("MEMFS_DB")) else []
    with suppress(click.UsageError):
        found.append(default_database())
    return tuple(found)


def _terminals() -> list[Path]:
    """Where tmux listens, which types into shells outside for whoever asks; screen does so below /run."""
    given = os.environ.get("TMUX_TMPDIR", "")
    places = [Path(given) if os.path.isabs(given) else Path("/tmp"), Path("/tmp")]
    return [Path(os.path.realpath(place / f"tmux-{os.getuid()}")) for place in dict.fromkeys(places)]


def _environment(session: Session, root: Path, *, cleared: bool) -> dict[str, str]:
    """The command's variables: the caller's, without what tells of the database, and what tells of its memory."""
    from memfs.mount.prompt import text_note

    variables = {
        name: value
        for name, value in os.environ.items()
        if name != "MEMFS_DB" and (not cleared or name in KEPT_WHEN_CLEARED)
    }
    told = text_note(str(root), session.attachments)
    if len(told.encode()) > MAX_VARIABLE_BYTES:
        told = text_note(str(root), session.attachments, brief=True)
        note("memfs: MEMFS_PROMPT is without descriptions and instructions, which are too long for it: 'memfs prompt'")
    return variables | {"MEMFS_ROOT": str(root), "MEMFS_SESSION_ID": session.id, "MEMFS_PROMPT": told}
