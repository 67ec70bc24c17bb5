"""``memfs version diff``: what changed between two versions."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from memfs.cli.context import Invocation, pass_invocation, store_argument
from memfs.cli.output import Format, JsonObject, format_option, text_line, write_bytes, write_object
from memfs.model.contract import as_text, memory_object, version_object
from memfs.model.diff import Diff, Side, unified
from memfs.model.errors import NotFound
from memfs.model.records import Memory, MemoryVersion

if TYPE_CHECKING:
    from memfs.workspace import Workspace

_STYLES = {"-": {"fg": "red"}, "+": {"fg": "green"}, "@": {"fg": "cyan"}}


@click.command()
@store_argument
@click.argument("version_id", metavar="VERSION")
@click.argument("other_id", metavar="[OTHER]", required=False)
@format_option
@pass_invocation
def diff(invocation: Invocation, store_name: str, version_id: str, other_id: str | None, format_: Format) -> None:
    """Show what changed from one version to another.

    Without OTHER the version is compared with what its memory holds now; with nothing, if that was deleted. A
    deletion counts as no text. Where nothing differs, nothing is printed. A redacted version cannot be compared.

    The output is a unified diff. In a pipe it is exact, and 'patch -p1' and 'git apply' take it; on a terminal it
    has colours (not with NO_COLOR set), and characters that would act on the terminal are written as escapes.

    \b
    Example:
      memfs version diff user-preferences memver_01M8NMQFRQEHGZHQHXSA2763V0
      memfs version diff user-preferences memver_01M8NMQFRQEHGZHQHXSA2763V0 memver_01M8NP6DRZ0JJCKNGD96Z9CQNS
      memfs version diff user-preferences memver_01M8NMQFRQEHGZHQHXSA2763V0 | patch -p1 --directory ./notes
    """
    to: JsonObject | None = None
    with invocation.workspace() as workspace:
        store_id = workspace.stores.resolve(store_name).id
        version = workspace.versions.get(store_id, version_id)
        before = _version_side(workspace, version)
        if other_id is not None:
            other = workspace.versions.get(store_id, other_id)
            after = _version_side(workspace, other)
            to = version_object(replace(other, content=None))
        else:
            after = replace(before, label="", text=None)
            try:
                memory = workspace.memories.get(store_id, version.memory_id)
            except NotFound:
                pass  # it was deleted
            else:
                after = _memory_side(memory)
                to = memory_object(replace(memory, content=None))
    found = unified(before, after)
    if format_ == "table":
        _write_diff(found)
    else:
        item = {"from": version_object(replace(version, content=None)), "to": to, "diff": found.text}
        write_object(format_, item, list)


def _version_side(workspace: "Workspace", version: MemoryVersion) -> Side:
    """Raises NotFound for a redacted version."""
    content: bytes | None = None
    if version.operation != "deleted" or version.redacted_at is not None:
        content = workspace.versions.content(version.memory_store_id, version.id)
    return Side(
        version.memory_id,
        version.path or "",
        f"{version.id} {version.created_at}",
        None if content is None else as_text(content),
    )


def _memory_side(memory: Memory) -> Side:
    content = memory.content or b""
    return Side(memory.id, memory.path, f"{memory.memory_version_id} {memory.updated_at}", as_text(content))


def _write_diff(found: Diff) -> None:
    if not sys.stdout.isatty():
        write_bytes(found.text.encode())
        return
    for header in found.header:
        text_line(header.removesuffix("\n"), bold=True)
    for text in found.hunks:
        text_line(text.removesuffix("\n"), **_STYLES.get(text[0], {}))
