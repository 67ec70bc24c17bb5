"""Import of files into a store: what would become of each, and doing it.

A source is read twice: once to judge every item, when no content is kept, and once to take what is imported. So an
import needs no more memory than the texts that a store can hold, whatever is in the source.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256

from memfs.model import ids
from memfs.model.errors import InvalidRequest, MemfsError, PreconditionFailed, StoreArchived
from memfs.model.mutations import Create, Mutation, Update
from memfs.model.paths import ancestors
from memfs.model.records import Actor, Guards, Head
from memfs.workspace.memories import LIMITS, prepared
from memfs.workspace.sources import MAX_ITEMS, File, Problem, Source
from memfs.workspace.workspace import Workspace

Progress = Callable[[int], None]
"""Called with each number of items that are done."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A valid file: the hash of its bytes, and of what a guard lets be stored of them."""

    sha256: str
    stored_sha256: str


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do. Paths and problems are in path order; ``unchanged`` counts files that are there already.

    It holds as long as neither the source nor the memories that it names change.
    """

    store_id: str
    created: list[str]
    modified: list[str]
    unchanged: int
    problems: list[Problem]
    heads: dict[str, Head]
    """The memories that get a new version, by path."""
    wanted: dict[str, str]
    """The hash of the file that each path gets."""


def plan_import(workspace: Workspace, store_id: str, source: Source, *, progress: Progress | None = None) -> ImportPlan:
    """Judge every item of a source: by the rules for memories, by the store's guards, and by what else is in the store.

    Raises NotFound, StoreArchived, InvalidRequest where the source cannot be read or has over 100,000 items.
    """
    snapshot = workspace.engine.snapshot(store_id)
    store = snapshot.store
    if store.archived_at is not None:
        raise StoreArchived(f"the store {store.name!r} ({store.id}) is archived: it can only be read")
    found, problems = _judged(store.guards, source, progress)
    heads = {head.path: head for head in snapshot.heads}
    directories = {above: path for path in heads for above in ancestors(path)}
    created: dict[str, str] = {}
    modified: dict[str, str] = {}
    unchanged = 0
    for path in sorted(found):
        file = found[path]
        head = heads.get(path)
        if head is not None:
            if head.sha256 == file.stored_sha256:
                unchanged += 1
            else:
                modified[path] = file.sha256
            continue
        reason = _in_the_way(path, heads, directories, created)
        if reason is None and len(heads) + len(created) >= LIMITS.memories:
            reason = f"the store has no room for it: it holds at most {LIMITS.memories} memories"
        if reason is None:
            created[path] = file.sha256
        else:
            problems.append(Problem(path, reason))
    return ImportPlan(
        store_id,
        list(created),
        list(modified),
        unchanged,
        sorted(problems, key=lambda problem: problem.path),
        {path: heads[path] for path in modified},
        created | modified,
    )


def _judged(guards: Guards, source: Source, progress: Progress | None) -> tuple[dict[str, _Found], list[Problem]]:
    """The valid files of a source by path, and what else is in it."""
    found: dict[str, _Found | Problem] = {}
    misplaced = []
    number = 0
    with closing(source()) as items:
        for item in items:
            number += 1
            if number > MAX_ITEMS:
                raise InvalidRequest(f"there are over {MAX_ITEMS} items to import: name what holds only the memories")
            if isinstance(item, Problem) and not item.placed:
                misplaced.append(item)
            else:
                # Where a path comes twice, the later item takes its place, also where it is no file.
                found[item.path] = item if isinstance(item, Problem) else _judge(guards, item)
            if progress is not None:
                progress(1)
    files = {path: each for path, each in found.items() if isinstance(each, _Found)}
    return files, [*misplaced, *(each for each in found.values() if isinstance(each, Problem))]


def _judge(guards: Guards, file: File) -> _Found | Problem:
    try:
        (mutation,) = prepared(guards, [Create("", file.path, file.content)])
    except MemfsError as error:
        return Problem(file.path, str(error))
    assert isinstance(mutation, Create)
    return _Found(sha256(file.content).hexdigest(), sha256(mutation.content).hexdigest())


def _in_the_way(path: str, heads: dict[str, Head], directories: dict[str, str], created: dict[str, str]) -> str | None:
    """Why no new memory can be at a path: something is above or below it, in the store or, before it, in the source."""
    if path in directories:
        return f"it is a directory in the store, with a memory at {directories[path]}"
    for above in ancestors(path):
        if above in heads:
            return f"there is a memory at {above}, so that nothing can be below it"
        if above in created:
            return f"{above} is imported as a file too, so that nothing can be below it"
    return None


def apply_import(workspace: Workspace, plan: ImportPlan, source: Source, actor: Actor) -> None:
    """Carry out a plan, without its problems, in one transaction.

    Raises PreconditionFailed where a file or a memory has changed since the plan; PathConflict, StoreFull where a
    memory was made meanwhile; and what else ``Memories.apply`` raises.
    """
    if not plan.wanted:
        return
    contents: dict[str, bytes] = {}
    with closing(source()) as items:
        for item in items:
            if isinstance(item, File) and plan.wanted.get(item.path) == sha256(item.content).hexdigest():
                contents[item.path] = item.content
                if len(contents) == len(plan.wanted):
                    break
    mutations: list[Mutation] = []
    for path in plan.wanted:
        if path not in contents:
            raise PreconditionFailed(f"{path} changed while it was imported: run the command again")
        head = plan.heads.get(path)
        if head is None:
            mutations.append(Create(ids.new_id(ids.MEMORY), path, contents[path]))
        else:
            mutations.append(Update(head.memory_id, content=contents[path], expected_version=head.version_id))
    workspace.memories.apply(plan.store_id, mutations, actor)
