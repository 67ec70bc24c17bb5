"""The command ``memfs``: its group, and what becomes of an error."""

import errno
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from memfs import __version__
from memfs.cli import exits
from memfs.cli.context import Invocation, default_database
from memfs.cli.output import note
from memfs.model.errors import MemfsError


def _store() -> click.Command:
    from memfs.cli.store import store

    return store


def _memory() -> click.Command:
    from memfs.cli.memory import memory

    return memory


def _version() -> click.Command:
    from memfs.cli.version import version

    return version


def _settings() -> click.Command:
    from memfs.cli.settings import settings

    return settings


def _session() -> click.Command:
    from memfs.cli.session import session

    return session


def _run() -> click.Command:
    from memfs.cli.run import run

    return run


def _prompt() -> click.Command:
    from memfs.cli.prompt import prompt

    return prompt


def _mount() -> click.Command:
    from memfs.cli.mount import mount

    return mount


def _umount() -> click.Command:
    from memfs.cli.mount import umount

    return umount


def _status() -> click.Command:
    from memfs.cli.mount import status

    return status


def _doctor() -> click.Command:
    from memfs.cli.doctor import doctor

    return doctor


def _check() -> click.Command:
    from memfs.cli.check import check

    return check


def _backup() -> click.Command:
    from memfs.cli.backup import backup

    return backup


def _stat() -> click.Command:
    from memfs.cli.stat import stat

    return stat


def _tool() -> click.Command:
    from memfs.cli.tool import tool

    return tool


def _mcp() -> click.Command:
    from memfs.cli.mcp import mcp

    return mcp


def _serve() -> click.Command:
    from memfs.cli.serve import serve

    return serve


def _key() -> click.Command:
    from memfs.cli.key import key

    return key


def _completion() -> click.Command:
    from memfs.cli.completion import completion

    return completion


COMMANDS: dict[str, Callable[[], click.Command]] = {
    "store": _store,
    "memory": _memory,
    "version": _version,
    "settings": _settings,
    "session": _session,
    "run": _run,
    "prompt": _prompt,
    "mount": _mount,
    "umount": _umount,
    "status": _status,
    "doctor": _doctor,
    "check": _check,
    "backup": _backup,
    "stat": _stat,
    "tool": _tool,
    "mcp": _mcp,
    "serve": _serve,
    "key": _key,
    "completion": _completion,
}
"""Every command and how to load it, in the order that help shows; on use, so that each starts quickly."""


DATABASE = click.Path(path_type=Path, readable=False)
"""Whether it can be read is for the engine to say: it knows why not, and what to do."""


_NEXT_STEPS = {
    errno.EAGAIN: "; if a process or thread was to be started: end some, or raise their limit (ulimit -u, pids.max)",
    errno.ENOMEM: "; memory is used up: end something, or raise its limit (ulimit -v, memory.max)",
    errno.EMFILE: "; close some, or raise their limit (ulimit -n)",
    errno.ENFILE: "; close some, or raise the system's limit (fs.file-max)",
}
"""What to do where the system itself gives no more, by the errno."""


def _fail(message: str, code: int) -> NoReturn:
    """End with one line on stderr; with MEMFS_DEBUG set, after the traceback of the error at hand."""
    if os.environ.get("MEMFS_DEBUG"):
        traceback.print_exc()
    note(f"memfs: {message}")
    raise click.exceptions.Exit(code)


def _abandon_output() -> None:
    """Nobody reads our output any more: what is still buffered must not fail at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _take_db(ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    if value is not None:
        ctx.obj = ctx.find_root().obj = Invocation(value)


def _accept_db(command: click.Command) -> None:
    """Let ``--db`` stand after a command too, where people put it; it is described once, with the program."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            _accept_db(below)
    elif not any("--db" in parameter.opts for parameter in command.params):
        command.params.append(
            click.Option(
                ["--db"],
                type=DATABASE,
                expose_value=False,
                hidden=True,
                callback=_take_db,
                help="The database, as before the command.",
            )
        )


class MemfsGroup(click.Group):
    """The root group: commands are loaded on use, and no error ends in a traceback."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run with all three standard streams: what is opened next must not become one that was closed.

        Reading one that was closed fails all the same: it is no empty text, which would replace a memory's.
        """
        for descriptor in range(3):
            try:
                os.fstat(descriptor)
            except OSError:
                # Takes the lowest free number, which is this one.
                os.open(os.devnull, os.O_RDWR if descriptor else os.O_WRONLY)
        sys.stdin = sys.stdin or os.fdopen(0)
        sys.stdout = sys.stdout or os.fdopen(1, "w")
        sys.stderr = sys.stderr or os.fdopen(2, "w")
        return super().main(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of the table."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        load = COMMANDS.get(cmd_name)
        if load is None:
            return super().get_command(ctx, cmd_name)
        command = load()
        _accept_db(command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; its errors become one line on stderr and the exit code of ``memfs.cli.exits``."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except MemfsError as error:
            _fail(str(error), exits.exit_code(error))
        except KeyboardInterrupt:
            raise click.exceptions.Exit(exits.INTERRUPTED) from None
        except BrokenPipeError:
            _abandon_output()
            raise click.exceptions.Exit(exits.PIPE_CLOSED) from None
        except OSError as error:
            try:
                sys.stdout.flush()
            except OSError:
                _abandon_output()  # it was our output that failed, and it would fail again at exit
            where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
            _fail(f"{where}{error.strerror or error}{_NEXT_STEPS.get(error.errno or 0, '')}", exits.REFUSED)
        except Exception as error:
            hint = "" if os.environ.get("MEMFS_DEBUG") else "; MEMFS_DEBUG=1 shows where"
            _fail(f"a fault of memfs: {type(error).__name__}: {error}{hint}", exits.INTERNAL)
        return result


@click.group(cls=MemfsGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--db",
    type=DATABASE,
    envvar="MEMFS_DB",
    help="The database; may also stand after the command."
    "  [env: MEMFS_DB; default: memfs/memfs.db in XDG_DATA_HOME, ~/.local/share]",
)
@click.version_option(__version__, prog_name="memfs")
@click.pass_context
def main(ctx: click.Context, db: Path | None) -> None:
    """Memory stores for agents: plain files when mounted, every change a version.

    A database holds stores, a store holds memories, and every change of a memory is kept as a version. The
    first store that is created makes the database.

    \b
    Example:
      memfs store create "User preferences"
      memfs store import user-preferences ./notes
      memfs memory list user-preferences

    \b
    Exit codes:
      0   done
      1   refused, or could not be done
      2   wrong usage or invalid input
      3   no such store, memory, version or session
      4   conflict: something else is there, or has changed
      5   the database could not be read or written
      70  a fault of memfs (MEMFS_DEBUG=1 shows where)
      75  another process held the database for too long; try again
    """
    ctx.obj = Invocation(db or default_database())


if __name__ == "__main__":
    main()
