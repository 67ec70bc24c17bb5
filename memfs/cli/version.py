"""``memfs version``: the history of memories."""

from collections.abc import Iterator

import click

from memfs.cli.context import Invocation, pass_invocation, store_argument
from memfs.cli.output import (
    Column,
    Format,
    JsonObject,
    format_option,
    moment,
    write_bytes,
    write_list,
    write_object,
)
from memfs.model.contract import version_object
from memfs.model.errors import NotFound

PAGE = 1_000
"""Versions read at a time: a history can be far longer than what fits in memory."""


@click.group()
def version() -> None:
    """Read the history of memories.

    Every change is kept as a version: what was created, modified or deleted, when, and by whom.

    \b
    Example:
      memfs version list user-preferences --limit 20
    """


def _by(actor: dict[str, str] | None) -> str:
    """An actor in a table: ``session sesn_…``, ``user alice``."""
    if actor is None:
        return ""
    identity = next(value for name, value in actor.items() if name != "type")
    return f"{actor['type'].removesuffix('_actor')} {identity}"


@version.command("list")
@store_argument
@click.option(
    "--memory",
    "path",
    metavar="PATH",
    help="Only the history of one memory: its path, also a former one, or its id.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most the N newest.")
@format_option
@pass_invocation
def list_(invocation: Invocation, store_name: str, path: str | None, limit: int | None, format_: Format) -> None:
    """List the versions of a store, the newest first.

    The history of a memory goes on when it is renamed, and outlives it when it is deleted. JSON leaves the
    content null; 'memfs version show' has it.

    \b
    Example:
      memfs version list user-preferences --memory /editor/vim.md
      memfs version list user-preferences --limit 20 --format jsonl
    """
    with invocation.workspace() as workspace:
        # Imported late, like everything that loads the engine.
        from memfs.engine import VersionFilter

        store_id = workspace.stores.resolve(store_name).id
        where = VersionFilter()
        if path is not None:
            memory_id = workspace.versions.memory_id(store_id, path)
            if memory_id is None:
                raise NotFound(f"the store {store_name!r} never had a memory at {path!r}")
            where = VersionFilter(memory_id=memory_id)

        def pages() -> Iterator[JsonObject]:
            left, before = limit, None
            while left is None or left > 0:
                size = PAGE if left is None else min(PAGE, left)
                found = workspace.versions.list(store_id, where, limit=size, before=before)
                yield from map(version_object, found)
                if len(found) < size:
                    return
                before = found[-1].sequence
                left = None if left is None else left - len(found)

        write_list(
            format_,
            pages(),
            [
                Column("CREATED", fixed=True),
                Column("OPERATION", fixed=True),
                Column("PATH"),
                Column("BYTES", right=True, fixed=True),
                Column("BY"),
                Column("ID", fixed=True),
            ],
            lambda item: [
                moment(item["created_at"]),
                item["operation"],
                "(redacted)" if item["redacted_at"] else item["path"],
                "" if item["content_size_bytes"] is None else str(item["content_size_bytes"]),
                _by(item["created_by"]),
                item["id"],
            ],
        )


@version.command()
@click.argument("version_id", metavar="VERSION")
@click.option("--content", "content_only", is_flag=True, help="Print the exact bytes and nothing else.")
@format_option
@pass_invocation
def show(invocation: Invocation, version_id: str, content_only: bool, format_: Format) -> None:
    """Show one version with its content.

    A deleted or redacted version has no content. To roll back, write an old version's content into the
    memory's file.

    \b
    Example:
      memfs version show memver_01M8NMQFRQEHGZHQHXSA2763V0
      memfs version show --content memver_01M8NMQFRQEHGZHQHXSA2763V0
    """
    with invocation.workspace() as workspace:
        found = workspace.versions.get(version_id)
    if content_only:
        if found.content is None:
            raise NotFound(f"the version {version_id} has no content: it was deleted or redacted")
        write_bytes(found.content)
        return
    item = version_object(found)

    def facts() -> Iterator[tuple[str, str]]:
        yield "id", found.id
        yield "store", found.memory_store_id
        yield "memory", found.memory_id
        yield "operation", found.operation
        if found.path is not None:
            yield "path", found.path
        if found.content_size_bytes is not None:
            yield "bytes", str(found.content_size_bytes)
        if found.content_sha256 is not None:
            yield "sha256", found.content_sha256
        yield "created", found.created_at
        yield "by", _by(item["created_by"])
        if found.redacted_at is not None:
            yield "redacted", found.redacted_at
            yield "redacted by", _by(item["redacted_by"])

    write_object(format_, item, facts, item["content"])
