"""Whole histories: a store's versions out as objects for lines of JSON, and back in, with ids, times and actors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from memfs.engine import VersionFilter
from memfs.model import ids
from memfs.model.contract import JsonObject, memory_object, store_object, version_object
from memfs.model.errors import HistoryGone, PreconditionFailed, StoreArchived, WriteRefused
from memfs.model.mutations import Create
from memfs.model.records import NO_GUARDS, Guards, MemoryVersion, Store
from memfs.workspace.history_lines import HistoryLines
from memfs.workspace.memories import LIMITS, memory_of, prepared
from memfs.workspace.workspace import Workspace

PAGE = 200
"""Versions read at a time: each may have 100 KiB, and there may be a million."""

Progress = Callable[[int], None]
"""Called with each number of versions that are done."""


def history_objects(workspace: Workspace, store_id: str) -> Iterator[JsonObject]:
    """The store, its versions with content from the oldest on, and its live memories in path order, at one moment.

    Versions never change and their numbers only grow, so those up to the last one of that moment are its history,
    whatever others write meanwhile. Raises NotFound, and HistoryGone where the last version of a memory was replaced
    and then redacted or pruned before it was read.
    """
    # Before the snapshot: a memory that is made between the two tells by its version when it was made.
    born = {memory.id: memory.created_at for memory in workspace.memories.list(store_id)}
    snapshot = workspace.engine.snapshot(store_id)
    missing = {head.version_id: head for head in snapshot.heads}
    live = {head.memory_id for head in snapshot.heads}
    yield store_object(snapshot.store)
    after = None
    while True:
        page = workspace.versions.list(
            store_id,
            VersionFilter(),
            limit=PAGE,
            after=after,
            before=snapshot.sequence + 1,
            oldest_first=True,
            content=True,
        )
        for version in page:
            if version.operation == "created" and version.memory_id in live:
                born.setdefault(version.memory_id, version.created_at)
            if version.redacted_at is None:
                missing.pop(version.id, None)
            yield version_object(version)
        if len(page) < PAGE:
            break
        after = page[-1].sequence
    if missing:
        path = next(iter(missing.values())).path
        raise HistoryGone(
            f"what {path} held when the export began was redacted or pruned meanwhile: run the command again"
        )
    for head in sorted(snapshot.heads, key=lambda head: head.path):
        yield memory_object(memory_of(store_id, head, born[head.memory_id]))


@dataclass(frozen=True, slots=True)
class ImportedHistory:
    """What a history came to: how many versions, the paths that live at its end, whether it has its own ids."""

    versions: int
    paths: list[str]
    ids_kept: bool


def import_history(
    workspace: Workspace,
    store_id: str,
    file: BinaryIO,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportedHistory:
    """Fill a store that never had a memory with the history in a file of JSON lines, all of it or nothing.

    The file is read twice: to check every line, and to take the versions in, in one transaction. Ids are kept where
    none of them is in the workspace, else all are made anew. A guard is not applied to a history, since that would
    rewrite it: what it would refuse or mask is an error. ``progress`` is called twice for each version, or once in a
    dry run. Raises NotFound, StoreArchived, PreconditionFailed where the store has a history or gets other
    guards meanwhile, InvalidRequest for what is no history.
    """
    store = workspace.engine.store(store_id)
    _check_target(workspace, store)
    check = _guard(store.guards)
    result, created_at = _checked(workspace, HistoryLines(file, check), progress)
    if not dry_run:
        versions = _counted(HistoryLines(file, check).versions(), progress)
        if not result.ids_kept:
            versions = _renewed(versions, created_at)
        workspace.engine.insert_history(store_id, versions, created_at, limits=LIMITS, guards=store.guards)
    return result


def _checked(
    workspace: Workspace, lines: HistoryLines, progress: Progress | None
) -> tuple[ImportedHistory, dict[str, str]]:
    """What a history will come to, and when its memories were made."""
    versions = _counted(lines.versions(), progress)
    known = workspace.engine.knows_any(versions)
    for _ in versions:  # what the engine need not look at is checked all the same
        pass
    return ImportedHistory(lines.count, lines.paths, not known), dict(lines.created_at)


def _check_target(workspace: Workspace, store: Store) -> None:
    if store.archived_at is not None:
        raise StoreArchived(f"the store {store.name!r} ({store.id}) is archived: it can only be read")
    if workspace.versions.list(store.id, limit=1):
        raise PreconditionFailed(
            f"the store {store.name!r} ({store.id}) has a history of its own: import into a new one, which"
            " 'memfs store create NAME' makes"
        )


def _guard(guards: Guards) -> Callable[[str, bytes], None] | None:
    """What refuses a version that the guards would not let be written as it is; None where there are none."""
    if guards == NO_GUARDS:
        return None

    def check(path: str, content: bytes) -> None:
        (ready,) = prepared(guards, [Create("", path, content)])
        if not isinstance(ready, Create) or ready.content != content:
            raise WriteRefused(
                "a guard of the store would mask a part of the text, and a history is not rewritten: import into a"
                " store without that guard"
            )

    return check


def _counted(versions: Iterator[MemoryVersion], progress: Progress | None) -> Iterator[MemoryVersion]:
    for version in versions:
        yield version
        if progress is not None:
            progress(1)


def _renewed(versions: Iterator[MemoryVersion], created_at: dict[str, str]) -> Iterator[MemoryVersion]:
    """Versions with new ids, in the same order; ``created_at`` gets the new ids of memories before they are needed."""
    memory_ids: dict[str, str] = {}
    for version in versions:
        memory_id = memory_ids.get(version.memory_id)
        if memory_id is None:
            memory_id = memory_ids[version.memory_id] = ids.new_id(ids.MEMORY)
            if version.memory_id in created_at:
                created_at[memory_id] = created_at[version.memory_id]
        yield replace(version, id=ids.new_id(ids.MEMORY_VERSION), memory_id=memory_id)
