"""What the commands share: which database, who acts, and how the name of a store is given and completed."""

import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

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

        return Workspace.open(self.db, create=create, read_only=read_only)


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


def complete_store(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list["CompletionItem"]:
    """The stores that begin with what was typed: by slug, which needs no quoting; by id if it is shared."""
    from collections import Counter

    from click.shell_completion import CompletionItem

    from memfs.model.paths import slug

    try:
        db = ctx.find_root().params.get("db") or default_database()
        with Invocation(Path(db)).workspace(read_only=True) as workspace:
            stores = workspace.stores.list()
    except Exception:  # a completion that fails completes nothing; it must not print into the prompt
        return []
    slugs = {store.id: slug(store.name, store.id) for store in stores}
    uses = Counter(slugs.values())
    words = {store.id: slugs[store.id] if uses[slugs[store.id]] == 1 else store.id for store in stores}
    return [
        CompletionItem(words[store.id], help=store.name) for store in stores if words[store.id].startswith(incomplete)
    ]


Function = TypeVar("Function", bound=Callable[..., Any])


def store_argument(function: Function) -> Function:
    """The argument STORE, completed from the database."""
    return click.argument("store_name", metavar="STORE", shell_complete=complete_store)(function)
