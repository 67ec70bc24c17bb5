"""What the commands share: which database, who acts, and how the name of a store is given and completed."""

import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memfs.cli.output import note
from memfs.model.errors import Busy, MemfsError
from memfs.model.records import Actor

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from memfs.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of the command line."""

    db: Path

    def workspace(self, *, create: bool = False, read_only: bool = False) -> "Workspace":
        """Open the workspace; only ``create`` makes a missing database. Raises as ``Workspace.open`` does."""
        # Imported late: --help, --version and usage errors answer without loading the engine.
        from memfs.workspace import Workspace

        workspace = Workspace.open(self.db, create=create, read_only=read_only)
        if not read_only:
            _finish_scrub(workspace)
        return workspace


def _finish_scrub(workspace: "Workspace") -> None:
    """Where a redaction ended before all was gone from the file (no space, kill -9), end it now."""
    try:
        workspace.scrub(wait=False)
    except Busy:
        pass  # most likely it is at it
    except MemfsError as error:
        note(f"memfs: what was redacted or deleted may still be in the file: {error}")


pass_invocation = click.make_pass_decorator(Invocation)


def default_database() -> Path:
    """``memfs/memfs.db`` below XDG_DATA_HOME, by default ``~/.local/share``.

    Raises click.UsageError where there is no home directory.
    """
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():  # the specification says to ignore a relative one
        try:
            data = Path.home() / ".local" / "share"
        except RuntimeError:
            raise click.UsageError("there is no home directory: name the database with --db or MEMFS_DB") from None
    return data / "memfs" / "memfs.db"


def actor() -> Actor:
    """The person at the command line: the login name of the user that runs it."""
    uid = os.getuid()
    try:
        # Not getpass.getuser(): the history shall not depend on what LOGNAME claims.
        return Actor("user_actor", pwd.getpwuid(uid).pw_name)
    except KeyError:
        return Actor("user_actor", str(uid))


def _completing(ctx: click.Context) -> Invocation:
    """The invocation whose words are completed; ``--db`` stands before the command or after it."""
    if isinstance(ctx.obj, Invocation):
        return ctx.obj
    return Invocation(Path(ctx.find_root().params.get("db") or default_database()))


def complete_store(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list["CompletionItem"]:
    """The stores that begin with what was typed: by slug, which needs no quoting; by id if it is shared."""
    from collections import Counter

    from click.shell_completion import CompletionItem

    from memfs.model.paths import slug

    try:
        with _completing(ctx).workspace(read_only=True) as workspace:
            stores = workspace.stores.list()
    except Exception:  # a completion that fails completes nothing; it must not print into the prompt
        return []
    slugs = {store.id: slug(store.name, store.id) for store in stores}
    uses = Counter(slugs.values())
    words = {store.id: slugs[store.id] if uses[slugs[store.id]] == 1 else store.id for store in stores}
    return [
        CompletionItem(words[store.id], help=store.name) for store in stores if words[store.id].startswith(incomplete)
    ]


def complete_memory(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list["CompletionItem"]:
    """The paths of the memories of the store that was named, a directory at a time; ids where one was begun."""
    from click.shell_completion import CompletionItem

    try:
        # An option that still waits for its value, which this is, keeps click from sorting the arguments.
        store_name = ctx.params.get("store_name") or ctx.args[0]
        with _completing(ctx).workspace(read_only=True) as workspace:
            store_id = workspace.stores.resolve(store_name).id
            if incomplete.startswith("mem_"):
                words = [memory.id for memory in workspace.memories.list(store_id)]
            else:
                words = _paths(workspace, store_id, incomplete or "/")
    except Exception:  # as above
        return []
    return [CompletionItem(_in_bash(word)) for word in words if word.startswith(incomplete)]


def _paths(workspace: "Workspace", store_id: str, typed: str) -> list[str]:
    """Memories and directories (with ``/``) that complete what was typed, up to its next ``/``."""
    directory = typed[: typed.rindex("/") + 1]
    while True:
        found = [item.path for item in workspace.memories.browse(store_id, directory, depth=1)]
        found = [path for path in found if path.startswith(typed)]
        if len(found) != 1 or not found[0].endswith("/"):
            return found
        # Shells put a space behind the only candidate, so that must not be a directory.
        directory = found[0]


def _in_bash(word: str) -> str:
    """A word as bash wants it: the other shells quote what they insert, bash does not."""
    import re

    if not os.environ.get("_MEMFS_COMPLETE", "").startswith("bash"):
        return word
    return re.sub(r"[^\w/.,:@%+=-]", r"\\\g<0>", word)


Function = TypeVar("Function", bound=Callable[..., Any])


def store_argument(function: Function) -> Function:
    """The argument STORE, completed from the database."""
    return click.argument("store_name", metavar="STORE", shell_complete=complete_store)(function)


def path_argument(function: Function) -> Function:
    """The argument PATH of a memory, completed from the store that stands before it."""
    return click.argument("path", metavar="PATH", shell_complete=complete_memory)(function)
