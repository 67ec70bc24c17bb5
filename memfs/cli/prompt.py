"""``memfs prompt``."""

import os
from pathlib import Path
from typing import Literal

import click

from memfs.cli.attaching import placed, stores_option
from memfs.cli.context import Invocation, complete_store, pass_invocation
from memfs.cli.output import write_bytes, write_object
from memfs.model.records import Access, Session

DEFAULT_ROOT = Path("/mnt/memory")


@click.command()
@stores_option("A store to tell of")
@click.option("--session", "session_id", metavar="ID", help="Tell of this session's stores instead.")
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
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the stores are mounted.  [default: where the session has them, /mnt/memory]",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="Plain text, Markdown, or a JSON document with the text and what it is made of.",
)
@pass_invocation
def prompt(
    invocation: Invocation,
    stores: tuple[tuple[str, Access], ...],
    session_id: str | None,
    instructions: tuple[tuple[str, str], ...],
    root: Path | None,
    format_: Literal["text", "markdown", "json"],
) -> None:
    """Print the note on an agent's memory, for its system prompt.

    It says of each store its path, name, access, description and instructions, and what to do with them. Whatever a
    name or description claims to be, it is quoted. 'memfs run' gives its command the same in MEMFS_PROMPT.

    \b
    Example:
      claude --append-system-prompt "$(memfs prompt -s notes)"
      memfs prompt --session "$SESSION" --format markdown
    """
    from memfs.mount import prompt as notes

    if (session_id is None) == (not stores):
        raise click.UsageError("name either stores with -s, or a session with --session")
    if session_id is not None and instructions:
        raise click.UsageError("a session's instructions are fixed: leave --instructions out")
    root = None if root is None else Path(os.path.abspath(root))
    session = _session(invocation, stores, session_id, instructions, root)
    below = root or (Path(session.attachments[0].mount_path).parent if session.attachments else DEFAULT_ROOT)
    if format_ == "json":
        write_object("json", notes.note_object(str(below), session.attachments, session_id), list)
    else:
        write = notes.markdown_note if format_ == "markdown" else notes.text_note
        write_bytes(write(str(below), session.attachments).encode())


def _session(
    invocation: Invocation,
    stores: tuple[tuple[str, Access], ...],
    session_id: str | None,
    instructions: tuple[tuple[str, str], ...],
    root: Path | None,
) -> Session:
    """The session there is, or what one with these stores would be."""
    from memfs.cli.session import resources_of

    with invocation.workspace(read_only=True) as workspace:
        if session_id is not None:
            session = workspace.sessions.get(session_id)
            return session if root is None else placed(session, root)
        return workspace.sessions.describe(resources_of(workspace, stores, instructions), str(root or DEFAULT_ROOT))
