"""``memfs store archive`` and ``memfs store delete``: what ends a store, and cannot be undone."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfs.cli.asking import agreed, refuse, somebody_there
from memfs.cli.clearing import not_all_cleared
from memfs.cli.context import Invocation, pass_invocation, store_argument
from memfs.cli.output import Format, counted, format_option, note, write_result
from memfs.cli.progress import spinner
from memfs.model.contract import deleted_store_object, store_object
from memfs.model.errors import MemfsError, NotFound

if TYPE_CHECKING:
    from memfs.model.records import Store
    from memfs.workspace import Workspace

COUNTED = 10_000
"""Versions that are counted for a question; a history can be far longer."""


@click.command()
@store_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@format_option
@pass_invocation
def archive(invocation: Invocation, store_name: str, yes: bool, format_: Format) -> None:
    """Make a store one that can only be read, for good.

    Its memories and its history stay, and can be listed, shown, exported and copied; memories can still be deleted
    and versions redacted. Nothing can be written or mounted any more: where it is mounted, writing is refused from
    now on. There is no way back but a copy.

    On a terminal it asks first. Archiving a store again changes nothing.

    \b
    Example:
      memfs store archive user-preferences
    """
    with invocation.workspace() as workspace:
        found = workspace.stores.resolve(store_name)
        sentence = f"the store {found.name!r} ({found.id}) is archived already"
        if found.archived_at is None:
            question = (
                f"archive the store {found.name!r} ({found.id})? It can only be read afterwards, and there is no way"
                " back"
            )
            if not yes and somebody_there() and not agreed(question):
                refuse("nothing was archived")
            sentence = f"archived the store {found.name!r} ({found.id})"
        archived = workspace.stores.archive(found.id)
    write_result(format_, store_object(archived), sentence)


@click.command()
@store_argument
@click.option("--yes", is_flag=True, help="Do not ask; needed where no terminal is.")
@format_option
@pass_invocation
def delete(invocation: Invocation, store_name: str, yes: bool, format_: Format) -> None:
    """Delete a store with its memories and its whole history.

    Nothing of it can be brought back: every byte is taken out of the database's file, which takes a while where that
    is large. To keep a store but end the writing, archive it; to keep its texts, export it first.

    On a terminal it asks first, and says what would go and where it is mounted. Elsewhere it needs --yes.

    \b
    Example:
      memfs store delete user-preferences --yes
    """
    with invocation.workspace() as workspace:
        found = workspace.stores.resolve(store_name)
        mounts = _mounts(invocation.db, found.id)
        if not yes:
            if not somebody_there():
                refuse(f"deleting the store {found.name!r} ({found.id}) cannot be undone: say --yes")
            for mount in mounts:
                note(f"it is mounted at {mount}, where everything will answer 'Stale file handle'")
            if not agreed(f"delete {_contents(workspace, found)}? Nothing of it can be brought back"):
                refuse("nothing was deleted")
        left = _delete(workspace, found.id)
    if yes and mounts:
        note(f"memfs: it was mounted at {', '.join(mounts)}, where everything answers 'Stale file handle' now")
    write_result(format_, deleted_store_object(found), f"deleted the store {found.name!r} ({found.id})")
    if left is not None:
        not_all_cleared("it is deleted", left)


def _contents(workspace: "Workspace", store: "Store") -> str:
    """A store and what is in it, for a question."""
    memories = counted(len(workspace.memories.list(store.id)), "memory", "memories")
    number = len(workspace.versions.list(store.id, limit=COUNTED + 1))
    versions = counted(number, "version", "versions") if number <= COUNTED else f"more than {COUNTED} versions"
    return f"the store {store.name!r} ({store.id}) with {memories} and {versions}"


def _mounts(db: Path, store_id: str) -> list[str]:
    """Where a store is mounted by this user."""
    try:
        # Not control.status(): whether the mounts answer does not matter, and asking a silent one takes seconds.
        from memfs.mount.runtime import RUNS, records

        return [
            f"{mount.path} (of memfs run {record.pid})" if record.sandbox else mount.path
            for state, record in (*records(), *records(kind=RUNS))
            if _same(record.database, db) and state.alive()
            for mount in record.mounts
            if mount.memory_store_id == store_id
        ]
    except Exception:  # a warning that cannot be given must not stop the deletion
        return []


def _same(database: str, db: Path) -> bool:
    """Whether it is our database that a store is mounted from: a copy of it has stores with the same ids."""
    try:
        return os.path.samefile(database, db)
    except OSError:
        return False


def _delete(workspace: "Workspace", store_id: str) -> MemfsError | KeyboardInterrupt | None:
    """Delete a store; returns why not all of its bytes are gone, where the store itself is."""
    with spinner("deleting, and clearing the file of it"):
        try:
            workspace.stores.delete(store_id)
        except NotFound:
            raise
        except (MemfsError, KeyboardInterrupt) as error:
            try:
                workspace.stores.get(store_id)
            except NotFound:
                return error
            raise
    return None
