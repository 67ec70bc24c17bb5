"""``memfs version restore`` and ``memfs version redact``: going back to a version, and emptying one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from memfs.cli.asking import agreed, refuse, somebody_there
from memfs.cli.clearing import not_all_cleared
from memfs.cli.contents import tell_if_masked
from memfs.cli.context import Invocation, actor, pass_invocation, store_argument
from memfs.cli.history import newest_first
from memfs.cli.output import (
    Format,
    counted,
    format_option,
    line,
    note,
    quiet_option,
    write_list,
    write_object,
    write_result,
)
from memfs.cli.progress import spinner
from memfs.model.contract import memory_object, version_object
from memfs.model.errors import MemfsError, PathConflict
from memfs.model.records import MemoryVersion

if TYPE_CHECKING:
    from memfs.workspace import Workspace


@click.command()
@store_argument
@click.argument("version_id", metavar="VERSION")
@click.option("--path", metavar="NEW", help="Put it at this path; a memory that is live moves there.")
@quiet_option("memory's id")
@format_option
@pass_invocation
def restore(
    invocation: Invocation, store_name: str, version_id: str, path: str | None, quiet: bool, format_: Format
) -> None:
    """Write a version's content back, as a new version of its memory.

    Nothing is lost: what the memory holds now stays in its history. A live memory keeps its path; a deleted one
    is made again with its id, where the version had it. Where the memory has that text already, nothing changes.

    JSON holds the memory without its content.

    \b
    Example:
      memfs version restore user-preferences memver_01M8NMQFRQEHGZHQHXSA2763V0
      memfs version restore user-preferences memver_01M8NMQFRQEHGZHQHXSA2763V0 --path /editor/vim-old.md
    """
    with invocation.workspace() as workspace:
        store_id = workspace.stores.resolve(store_name).id
        version = workspace.versions.get(store_id, version_id)
        try:
            written = workspace.versions.restore(store_id, version_id, actor(), path=path)
        except PathConflict as error:
            raise PathConflict(
                f"{error} with --path",
                conflicting_memory_id=error.conflicting_memory_id,
                conflicting_path=error.conflicting_path,
            ) from None
        memory = written.memory
        again = written.changed and workspace.versions.get(store_id, memory.memory_version_id).operation == "created"
    if not written.changed:
        sentence = f"unchanged: {memory.path} has the text of {version_id} already"
    elif again:
        sentence = f"made {memory.path} again with the text of {version_id}; its version is {memory.memory_version_id}"
    else:
        sentence = f"restored {memory.path} to {version_id}; its version is now {memory.memory_version_id}"
    write_result(format_, memory_object(replace(memory, content=None)), sentence, quiet=quiet)
    tell_if_masked(version.content or b"", memory.content)


@click.command()
@store_argument
@click.argument("version_ids", metavar="VERSION...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@format_option
@pass_invocation
def redact(invocation: Invocation, store_name: str, version_ids: tuple[str, ...], yes: bool, format_: Format) -> None:
    """Take the content of versions out of the history, for good.

    A version's text, path, size and hash are removed, and every byte of the text from the database's file, which
    takes a while where that is large; who made it and when stays. Of several versions all are redacted or none.
    A text that other versions hold too stays with them. What a memory holds now cannot be redacted: change or
    delete the memory first.

    On a terminal it asks first. Redacting again changes nothing. JSON holds the version, or an array of several.

    \b
    Example:
      memfs version redact user-preferences memver_01M8NMQFRQEHGZHQHXSA2763V0
      memfs version redact user-preferences memver_01M8NMQFRQEHGZHQHXSA2763V0 memver_01M8NP6DRZ0JJCKNGD96Z9CQNS
    """
    wanted = list(dict.fromkeys(version_ids))
    with invocation.workspace() as workspace:
        store_id = workspace.stores.resolve(store_name).id
        before = [replace(workspace.versions.get(store_id, version_id), content=None) for version_id in wanted]
        if not yes and somebody_there():
            for version in before:
                note(_described(version))
            what = counted(len(before), "version", "versions")
            if not agreed(f"redact {what}? The text cannot be brought back"):
                refuse("nothing was redacted")
        redacted, left = _redact(workspace, store_id, wanted)
        others = [_others_with_the_text(workspace, version, wanted) for version in before]
    if format_ == "table":
        for version in before:
            line(_outcome(version))
    elif len(redacted) == 1:
        write_object(format_, version_object(redacted[0]), list)
    else:
        write_list(format_, map(version_object, redacted), [], lambda _item: [])
    for version, holding in zip(before, others, strict=True):
        if holding:
            number = counted(len(holding), "other version", "other versions")
            note(
                f"memfs: {number} of the same memory still {'holds' if len(holding) == 1 else 'hold'} the text of"
                f" {version.id}: {', '.join(holding[:3])}{', …' if len(holding) > 3 else ''}"
            )
    if left is not None:
        not_all_cleared("redacted", left)


def _redact(
    workspace: "Workspace", store_id: str, version_ids: list[str]
) -> tuple[Sequence[MemoryVersion], MemfsError | KeyboardInterrupt | None]:
    """Redact versions; also returns why not all of their bytes are gone, where they themselves are redacted."""
    with spinner("redacting, and clearing the file of it"):
        try:
            return workspace.versions.redact(store_id, version_ids, actor()), None
        except (MemfsError, KeyboardInterrupt) as error:
            versions = [workspace.versions.get(store_id, version_id) for version_id in version_ids]
            if any(version.redacted_at is None for version in versions):
                raise
            return versions, error


def _described(version: MemoryVersion) -> str:
    if version.redacted_at is not None:
        return f"{version.id}: redacted already"
    size = "" if version.content_size_bytes is None else f", {counted(version.content_size_bytes, 'byte', 'bytes')}"
    return f"{version.id}: {version.operation} {version.created_at}, {version.path}{size}"


def _outcome(version: MemoryVersion) -> str:
    if version.redacted_at is not None:
        return f"{version.id} was redacted already, at {version.redacted_at}"
    if version.operation == "deleted":
        return f"redacted {version.id}: its path is gone for good"
    return f"redacted {version.id}: its path, text, size and hash are gone for good"


def _others_with_the_text(workspace: "Workspace", version: MemoryVersion, redacted: Sequence[str]) -> list[str]:
    """Versions of the same memory with the text that one had; across memories nobody can look for it quickly."""
    from memfs.engine import VersionFilter

    if version.content_sha256 is None:
        return []
    history = newest_first(workspace, version.memory_store_id, VersionFilter(memory_id=version.memory_id))
    return [
        other.id for other in history if other.content_sha256 == version.content_sha256 and other.id not in redacted
    ]
