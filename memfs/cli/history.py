"""Stretches of a store's history: which versions are meant, reading them page by page, and a table's row of one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from memfs.cli.output import Column, JsonObject, moment
from memfs.cli.times import TIME_FROM, TIME_TO
from memfs.model.contract import version_object
from memfs.model.errors import NotFound
from memfs.model.records import MemoryVersion, Operation, Store

if TYPE_CHECKING:
    from memfs.engine import VersionFilter
    from memfs.workspace import Workspace

PAGE = 1_000
"""Versions read at a time: a history can be far longer than what fits in memory."""
CONTENT_PAGE = 100
"""The same with their texts, each of which may have 100 KiB."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which versions of a store are meant, as options say it."""

    memory: str | None
    operation: Operation | None
    session: str | None
    key: str | None
    user: str | None
    since: str | None
    until: str | None
    conflicts: bool

    def where(self, workspace: "Workspace", store: Store) -> "VersionFilter":
        """The same as the engine takes it. Raises NotFound where the store never had the memory, InvalidPath."""
        # Imported late, like everything that loads the engine.
        from memfs.engine import VersionFilter

        if self.since is not None and self.until is not None and self.since > self.until:
            raise click.UsageError(f"--since ({self.since}) is after --until ({self.until}): nothing can be between")
        memory_id = None
        if self.memory is not None:
            memory_id = workspace.versions.memory_id(store.id, self.memory)
            if memory_id is None:
                raise NotFound(
                    f"the store {store.name!r} never had a memory at {self.memory!r}:"
                    " 'memfs version list' without --memory shows what it had"
                )
        return VersionFilter(
            memory_id=memory_id,
            operation=self.operation,
            session_id=self.session,
            api_key_id=self.key,
            user_id=self.user,
            created_from=self.since,
            created_to=self.until,
            conflicts=self.conflicts,
        )


_OPTIONS = [
    click.option(
        "--memory",
        metavar="PATH",
        help="Only the history of one memory: its path, also a former one, or its id.",
    ),
    click.option(
        "--operation", type=click.Choice(["created", "modified", "deleted"]), help="Only versions that did this."
    ),
    click.option("--session", metavar="ID", help="Only what this session did."),
    click.option("--key", metavar="ID", help="Only what this API key did."),
    click.option("--user", metavar="NAME", help="Only what this user did at the command line."),
    click.option("--since", type=TIME_FROM, metavar="TIME", help="Not older: 2026-11-30T09:12:01Z, 2026-11-30 or 2h."),
    click.option(
        "--until",
        type=TIME_TO,
        metavar="TIME",
        help="Not newer; a second, minute or day is meant with all that happened in it.",
    ),
    click.option(
        "--conflicts",
        is_flag=True,
        help="Only versions that took the place of lines which another session had changed meanwhile.",
    ),
]

Function = TypeVar("Function", bound=Callable[..., Any])


def selection_options(function: Function) -> Function:
    """The options that choose versions; the command gets them as one ``selection``."""

    @wraps(function)
    def command(*arguments: Any, **options: Any) -> Any:
        chosen = {name: options.pop(name) for name in Selection.__dataclass_fields__}
        return function(*arguments, selection=Selection(**chosen), **options)

    for option in reversed(_OPTIONS):
        command = option(command)
    return cast(Function, command)


def newest_first(
    workspace: "Workspace", store_id: str, where: "VersionFilter", limit: int | None = None
) -> Iterator[MemoryVersion]:
    """Versions without content, at most so many."""
    left, before = limit, None
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        found = workspace.versions.list(store_id, where, limit=size, before=before)
        yield from found
        if len(found) < size:
            return
        before = found[-1].sequence
        left = None if left is None else left - size


def oldest_first(workspace: "Workspace", store_id: str, where: "VersionFilter") -> Iterator[MemoryVersion]:
    """Versions with content."""
    after = None
    while True:
        found = workspace.versions.list(
            store_id, where, limit=CONTENT_PAGE, after=after, oldest_first=True, content=True
        )
        yield from found
        if len(found) < CONTENT_PAGE:
            return
        after = found[-1].sequence


COLUMNS = [
    Column("CREATED", fixed=True),
    Column("OPERATION", fixed=True),
    Column("PATH"),
    Column("BYTES", right=True, fixed=True),
    Column("BY"),
    Column("ID", fixed=True),
]


def item(version: MemoryVersion) -> JsonObject:
    """A version as JSON; one that was merged also tells from which version its writer started, and whether lines of
    the version before it gave way.
    """
    merged = version.merged
    if merged is None:
        return version_object(version)
    return {**version_object(version), "base_version_id": merged.base_version_id, "conflict": merged.conflict}


def row(version: JsonObject) -> list[str]:
    """The cells of a version below ``COLUMNS``."""
    return [
        moment(version["created_at"]),
        f"{version['operation']}, {how}" if (how := came_about(version)) else version["operation"],
        "(redacted)" if version["redacted_at"] else version["path"],
        "" if version["content_size_bytes"] is None else str(version["content_size_bytes"]),
        by(version["created_by"]),
        version["id"],
    ]


def came_about(version: JsonObject) -> str:
    """``merged`` or ``conflict`` where a version's writer had not started from the one before it."""
    conflict = version.get("conflict")
    return "" if conflict is None else "conflict" if conflict else "merged"


def by(actor: dict[str, str] | None) -> str:
    """An actor in a table: ``session sesn_…``, ``user alice``."""
    if actor is None:
        return ""
    identity = next(value for name, value in actor.items() if name != "type")
    return f"{actor['type'].removesuffix('_actor')} {identity}"
