"""How a command is told which stores it gives, with which access and which temporaries, and to which session."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from memfs.cli.context import Invocation, complete_store
from memfs.model.records import Access, ConflictPolicy, Session

if TYPE_CHECKING:
    from memfs.vfs.temporaries import TemporaryNames

Function = TypeVar("Function", bound=Callable[..., Any])


class AttachmentType(click.ParamType[tuple[str, Access]]):
    """STORE or STORE:read_only."""

    name = "store"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Access]:
        """What follows the last colon is part of the name unless it is an access mode. Raises click.BadParameter."""
        if isinstance(value, tuple):
            return value
        text = str(value)
        name, _, access = text.rpartition(":")
        chosen: Access = "read_write"
        if access == "read_only":
            chosen = "read_only"
        elif access != "read_write":
            name = text
        if not name:
            self.fail(f"{text!r} names no store: write STORE or STORE:read_only", param, ctx)
        return name, chosen


def stores_option(what: str) -> Callable[[Function], Function]:
    """The option ``-s``, repeated for each store; ``what`` begins its help."""
    return click.option(
        "-s",
        "--store",
        "stores",
        type=AttachmentType(),
        multiple=True,
        metavar="STORE[:read_only]",
        shell_complete=complete_store,
        help=f"{what}, by id, name or slug; at most 8. The default access is read_write.",
    )


class PolicyType(click.ParamType[tuple[str, ConflictPolicy]]):
    """POLICY, for all stores, or STORE=POLICY."""

    name = "policy"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ConflictPolicy]:
        """The store is empty where all are meant. Raises click.BadParameter."""
        if isinstance(value, tuple):
            return value
        store, _, policy = str(value).rpartition("=")
        chosen = next((known for known in get_args(ConflictPolicy) if known == policy), None)
        if chosen is None:
            self.fail(f"{policy!r} is no policy: write merge, overwrite or fail", param, ctx)
        return store, chosen


def policy_option(function: Function) -> Function:
    """The option ``--on-conflict``."""
    return click.option(
        "--on-conflict",
        "policies",
        type=PolicyType(),
        multiple=True,
        metavar="[STORE=]POLICY",
        help="What becomes of a text whose memory has changed since it was read: it is merged (merge, the default), it"
        " is saved as it is (overwrite), or close() says ESTALE and nothing is saved (fail). For all stores, or for one"
        " named as with -s.",
    )(function)


def policy_of(name: str, policies: Sequence[tuple[str, ConflictPolicy]]) -> ConflictPolicy:
    """What ``--on-conflict`` says of a store named so: the last that names it, else the last that names none."""
    chosen = [policy for store, policy in policies if store == name] or [
        policy for store, policy in policies if not store
    ]
    return chosen[-1] if chosen else "merge"


def check_policies(stores: Sequence[tuple[str, Access]], policies: Sequence[tuple[str, ConflictPolicy]]) -> None:
    """Raises click.UsageError for a policy of a store that ``-s`` does not name."""
    for store, policy in policies:
        if store and store not in (name for name, _ in stores):
            raise click.UsageError(
                f"--on-conflict {store}={policy}: no -s names a store {store!r}; name it there in the same way"
            )


def session_option(function: Function) -> Function:
    """The option ``--session``."""
    return click.option(
        "--session", "session_id", metavar="ID", help="Attribute changes to this session; else one is made."
    )(function)


def strict_option(function: Function) -> Function:
    """The option ``--strict``."""
    return click.option(
        "--strict",
        is_flag=True,
        help="Let each open in a read_only store ask for what was closed elsewhere, as it does in others. Without it"
        " the kernel reads there at once, and a change is seen some milliseconds later.",
    )(function)


def temporaries_options(function: Function) -> Function:
    """The options ``--temporary``, ``--not-temporary`` and ``--no-default-temporaries``, for ``temporary_names``."""
    decorators = (
        click.option(
            "--temporary",
            "added",
            multiple=True,
            metavar="PATTERN",
            envvar="MEMFS_TEMPORARY",
            show_envvar=True,
            help="Names that are scratch in these stores too, like '*.draft'. Repeated for more.",
        ),
        click.option(
            "--not-temporary",
            "excepted",
            multiple=True,
            metavar="PATTERN",
            envvar="MEMFS_NOT_TEMPORARY",
            show_envvar=True,
            help="Names that are memories whatever is said of temporaries. Repeated for more.",
        ),
        click.option(
            "--default-temporaries/--no-default-temporaries",
            "defaults",
            default=True,
            help="Whether what editors and tools are known to make counts. The default is yes.",
        ),
    )
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def temporary_names(*, added: tuple[str, ...], excepted: tuple[str, ...], defaults: bool) -> "TemporaryNames":
    """What the options say. Raises InvalidRequest where a pattern is none."""
    # Imported late: --help and usage errors answer without loading what a mount needs.
    from memfs.vfs.temporaries import TemporaryNames, check_names

    return check_names(TemporaryNames(defaults, tuple(dict.fromkeys(added)), tuple(dict.fromkeys(excepted))))


def take_up(
    invocation: Invocation,
    stores: Sequence[tuple[str, Access]],
    root: Path,
    session_id: str | None,
    policies: Sequence[tuple[str, ConflictPolicy]],
) -> tuple[Session, bool]:
    """The session to mount below ``root``: the one named, where it exists, else a new one with these stores.

    Also tells whether to end it afterwards. Raises what ``Sessions.take_up`` raises.
    """
    from memfs.workspace.sessions import Resource

    with invocation.workspace() as workspace:
        resources = [
            Resource(workspace.stores.resolve(name), access, on_conflict=policy_of(name, policies))
            for name, access in stores
        ]
        session, ends = workspace.sessions.take_up(resources, os.fspath(root), session_id)
        return placed(session, root), ends


def placed(session: Session, root: Path) -> Session:
    """The session with its stores below ``root``: one that is known may have been mounted elsewhere."""
    from dataclasses import replace

    return replace(
        session,
        attachments=tuple(
            replace(attachment, mount_path=os.fspath(root / Path(attachment.mount_path).name))
            for attachment in session.attachments
        ),
    )
