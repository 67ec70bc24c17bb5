"""``memfs memory edit``: change a memory in an editor."""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfs.cli.contents import tell_if_masked
from memfs.cli.context import (
    Invocation,
    actor,
    default_database,
    pass_invocation,
    path_argument,
    store_argument,
)
from memfs.cli.output import Format, format_option, note, quiet_option, write_result
from memfs.model.contract import memory_object
from memfs.model.errors import MemfsError, NotFound, PathConflict, PreconditionFailed, StoreArchived

if TYPE_CHECKING:
    from memfs.model.records import Memory
    from memfs.workspace import Workspace


@click.command()
@store_argument
@path_argument
@format_option
@quiet_option()
@pass_invocation
def edit(invocation: Invocation, store_name: str, path: str, format_: Format, quiet: bool) -> None:
    """Change a memory in your editor.

    The editor is the command in VISUAL, else in EDITOR, else vi or nano. Where there is no memory at PATH, one is
    made, unless the text stays empty. Ctrl-C goes to the editor.

    Nothing is saved where the text is as before, where the editor ends with an error, or where somebody else has
    changed the memory meanwhile. A text that cannot be saved is kept in a file, and the error says where.

    \b
    Example:
      memfs memory edit user-preferences /editor/vim.md
      EDITOR="code --wait" memfs memory edit user-preferences /editor/vim.md
    """
    from memfs.cli.editing import Draft, editor

    with invocation.workspace() as workspace:
        store_id, before = _to_edit(workspace, store_name, path)
    at = path if before is None else before.path

    def how_to_save(error: MemfsError, file: str) -> str:
        exists = before is not None and not isinstance(error, NotFound)
        if isinstance(error, PathConflict) and error.conflicting_path == at:
            exists = True
        words = ["memory", "update" if exists else "create", store_name, at, "--file"]
        over = " over what is there now" if isinstance(error, PreconditionFailed) else ""
        return f"to save it{over}, run: {shlex.join([*_program(invocation.db), *words])} {file}"

    # The workspace is closed meanwhile: an editor may stay open for days.
    with Draft(at.rpartition("/")[2], b"" if before is None else before.content or b"", how_to_save) as draft:
        text = draft.edit(editor())
        if text == draft.original:
            made, word = before, "unchanged"
        else:
            with invocation.workspace() as workspace:
                if before is None:
                    made, word = workspace.memories.create(store_id, at, text, actor()), "created"
                else:
                    made, word = (
                        workspace.memories.update(
                            store_id, before.id, actor(), content=text, expected_sha256=before.content_sha256
                        ).memory,
                        "updated",
                    )
    if made is None:
        note("the text is empty: no memory was made")
        return
    tell_if_masked(text, made.content)
    write_result(format_, memory_object(replace(made, content=None)), f"{word} {made.path} ({made.id})", quiet=quiet)


def _to_edit(workspace: "Workspace", store_name: str, path: str) -> tuple[str, "Memory | None"]:
    """The store's id and the memory, None where it will be a new one.

    Refuses what could never be saved before anything is typed. Raises StoreArchived, WriteRefused, PathConflict,
    NotFound for an id, InvalidPath.
    """
    from memfs.workspace.guards import guard_path

    store = workspace.stores.resolve(store_name)
    if store.archived_at is not None:
        raise StoreArchived(f"the store {store.name!r} ({store.id}) is archived: it can only be read")
    try:
        found = workspace.memories.get(store.id, path)
    except NotFound:
        if not path.startswith("/"):
            raise
    else:
        guard_path(store.guards, found.path)
        return store.id, found
    guard_path(store.guards, path)
    for below in workspace.memories.list(store.id, path + "/", limit=1):
        raise PathConflict(
            f"{path} is a directory; to see what lies in it, run: memfs memory list {shlex.quote(store_name)} --prefix"
            f" {shlex.quote(path)}/",
            conflicting_memory_id=below.id,
            conflicting_path=below.path,
        )
    return store.id, None


def _program(db: Path) -> list[str]:
    """``memfs``, with the database where a command typed here would not use that one."""
    usual = os.environ.get("MEMFS_DB") or default_database()
    return ["memfs"] if db == Path(usual) else ["memfs", "--db", os.fspath(db)]
