"""``memfs session``: which stores an agent's run has, told before it begins or as it is on record."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from memfs.cli.attaching import check_policies, policy_of, policy_option, stores_option
from memfs.cli.context import Invocation, complete_store, pass_invocation
from memfs.cli.output import (
    Column,
    Format,
    format_option,
    line,
    moment,
    quiet_option,
    write_list,
    write_object,
    write_result,
)
from memfs.model.contract import session_object
from memfs.model.records import Access, ConflictPolicy, Session

if TYPE_CHECKING:
    from memfs.workspace import Workspace
    from memfs.workspace.sessions import Resource


@click.group()
def session() -> None:
    """Begin, list and end sessions: which stores one run of an agent has.

    A session's stores are fixed when it begins. 'memfs mount' and 'memfs run' begin one themselves where none is
    named, and end it with the mounts; one that is begun here ends here.

    \b
    Example:
      memfs session list
    """


@session.command()
@stores_option("A store of the session")
@policy_option
@click.option(
    "--instructions",
    "instructions",
    type=(str, str),
    multiple=True,
    metavar="STORE TEXT",
    shell_complete=complete_store,
    help="How the agent shall use a store; at most 4,096 characters.",
)
@click.option(
    "-f",
    "--file",
    "file",
    type=click.Path(allow_dash=True, path_type=Path),
    help="A YAML file with the list of stores as the hosted API has it; - for stdin.",
)
@click.option("--root", default="/mnt/memory", show_default=True, help="Where its stores are to be mounted.")
@click.option("--title", help="What it is for; at most 512 characters.")
@quiet_option()
@format_option
@pass_invocation
def create(
    invocation: Invocation,
    stores: tuple[tuple[str, Access], ...],
    policies: tuple[tuple[str, ConflictPolicy], ...],
    instructions: tuple[tuple[str, str], ...],
    file: Path | None,
    root: str,
    title: str | None,
    quiet: bool,
    format_: Format,
) -> None:
    """Begin a session with up to 8 stores, and show where each is to be mounted.

    A file has the fields agent, environment_id, title, metadata and resources. Each resource has type (memory_store),
    memory_store_id or name, access and instructions.

    \b
    Example:
      memfs session create -s notes -s team:read_only --instructions notes "Check before any task."
      SESSION=$(memfs session create -q -f session.yaml)
    """
    from memfs.cli.session_file import read_session_file
    from memfs.workspace.sessions import SessionDescription

    if (file is None) == (not stores):
        raise click.UsageError("name either stores with -s, or a file with --file")
    if file is not None and (instructions or policies):
        raise click.UsageError("a file says all of its stores: leave --instructions and --on-conflict out")
    check_policies(stores, policies)
    _check_root(root)
    content = b"" if file is None else _content(file)
    with invocation.workspace() as workspace:
        if file is None:
            resources = resources_of(workspace, stores, instructions, policies)
            description = SessionDescription(title=title)
        else:
            resources, description = read_session_file(content, workspace, title)
        made = workspace.sessions.create(resources, root, description=description)
    if quiet or format_ != "table":
        write_result(format_, session_object(made), "", quiet=quiet)
        return
    line(f"began {made.id}")
    for attachment in made.attachments:
        line(f"  {attachment.mount_path}  {attachment.access}  {attachment.name}")


def _content(file: Path) -> bytes:
    """Raises OSError, and click.UsageError where it is more than a session could need: /dev/zero has no end."""
    from memfs.cli.session_file import MAX_BYTES

    with sys.stdin.buffer if str(file) == "-" else file.open("rb") as source:
        content = source.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise click.UsageError(f"{file} has more than {MAX_BYTES:,} bytes, so it is no session: name another file")
    return content


def _check_root(root: str) -> None:
    if not root.startswith("/") or "//" in root or {".", ".."} & set(root.split("/")):
        raise click.UsageError(f"--root must be an absolute path, not {root!r}")


def resources_of(
    workspace: "Workspace",
    stores: Iterable[tuple[str, Access]],
    instructions: Iterable[tuple[str, str]],
    policies: Sequence[tuple[str, ConflictPolicy]] = (),
) -> "list[Resource]":
    """What ``-s`` and ``--instructions`` say. Raises click.UsageError for instructions of no store, or twice."""
    from memfs.workspace.sessions import Resource

    told: dict[str, str] = {}
    for name, text in instructions:
        store = workspace.stores.resolve(name)
        if store.id in told:
            raise click.UsageError(f"--instructions names the store {name!r} twice")
        told[store.id] = text
    resources = []
    for name, access in stores:
        store = workspace.stores.resolve(name)
        resources.append(Resource(store, access, told.get(store.id, ""), policy_of(name, policies)))
    if told.keys() - {resource.store.id for resource in resources}:
        raise click.UsageError("--instructions names a store that the session does not have: add it with -s")
    return resources


@session.command("list")
@click.option(
    "--state", type=click.Choice(["running", "ended", "all"]), default="all", show_default=True, help="Which ones."
)
@click.option(
    "-s", "--store", "store_name", metavar="STORE", shell_complete=complete_store, help="Those with this store."
)
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@format_option
@pass_invocation
def list_sessions(
    invocation: Invocation,
    state: Literal["running", "ended", "all"],
    store_name: str | None,
    limit: int | None,
    format_: Format,
) -> None:
    """List sessions, the newest first.

    \b
    Example:
      memfs session list --state running
      memfs session list --store notes --limit 10
    """
    from memfs.workspace import SessionFilter

    with invocation.workspace(read_only=True) as workspace:
        where = SessionFilter(
            include_archived=True,
            ended=None if state == "all" else state == "ended",
            store_id=None if store_name is None else workspace.stores.resolve(store_name).id,
        )
        found = workspace.sessions.list(where, limit=limit)
    columns = [
        Column("ID", fixed=True),
        Column("STATE", fixed=True),
        Column("BEGAN", fixed=True),
        Column("ENDED", fixed=True),
        Column("STORES"),
        Column("TITLE"),
    ]
    known = {each.id: each for each in found}
    write_list(format_, map(session_object, found), columns, lambda item: _row(known[item["id"]]))


def _row(each: Session) -> list[str]:
    stores = ", ".join(
        attachment.name + (":read_only" if attachment.access == "read_only" else "") for attachment in each.attachments
    )
    return [each.id, _state(each), moment(each.created_at), moment(each.ended_at), stores, each.title or ""]


def _state(each: Session) -> str:
    return "running" if each.ended_at is None else "ended"


@session.command()
@click.argument("session_id", metavar="SESSION")
@format_option
@pass_invocation
def show(invocation: Invocation, session_id: str, format_: Format) -> None:
    """Show one session: its stores, where each is to be mounted, and what the agent is told of it.

    \b
    Example:
      memfs session show "$SESSION"
      memfs session show "$SESSION" --format json
    """
    with invocation.workspace(read_only=True) as workspace:
        found = workspace.sessions.get(session_id)
    write_object(format_, session_object(found), lambda: _facts(found))


def _facts(found: Session) -> Iterator[tuple[str, str]]:
    yield "id", found.id
    yield "state", _state(found)
    yield "began", moment(found.created_at)
    if found.ended_at is not None:
        yield "ended", moment(found.ended_at)
    for name, text in (("title", found.title), ("agent", found.agent_id), ("environment", found.environment_id)):
        if text is not None:
            yield name, text
    for key, value in found.metadata.items():
        yield "metadata", f"{key}={value}"
    for attachment in found.attachments:
        yield "store", f"{attachment.mount_path}  {attachment.access}  {attachment.memory_store_id}  {attachment.name}"
        if attachment.description:
            yield "  description", attachment.description
        if attachment.instructions:
            yield "  instructions", attachment.instructions


@session.command()
@click.argument("session_id", metavar="SESSION")
@quiet_option()
@format_option
@pass_invocation
def end(invocation: Invocation, session_id: str, quiet: bool, format_: Format) -> None:
    """End a session for good: nothing can be mounted for it any more.

    What is mounted for it already stays until it is unmounted. A second time changes nothing.

    \b
    Example:
      memfs session end "$SESSION"
    """
    with invocation.workspace() as workspace:
        ended = workspace.sessions.archive(session_id)
    write_result(format_, session_object(ended), f"ended {ended.id}", quiet=quiet)
