"""Putting a whole store back to what it was at a point in time, as new versions."""

from dataclasses import dataclass
from typing import Literal

from memfs.engine import Engine, VersionFilter
from memfs.model import ids
from memfs.model.errors import HistoryGone, InvalidRequest, NotFound, PathConflict, PreconditionFailed
from memfs.model.mutations import Create, Delete, Mutation, Update
from memfs.model.records import Actor, Head, MemoryVersion, PastState, now
from memfs.workspace.memories import Memories

Action = Literal["create", "modify", "rename", "delete"]


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of one memory: ``path`` is where it will be (``delete``: is), ``version_id`` whose text it gets.

    ``rename`` leaves the text; ``modify`` may rename too. ``head_version_id`` is the head that this replaces.
    """

    action: Action
    memory_id: str
    path: str
    former_path: str | None
    version_id: str | None
    head_version_id: str | None


@dataclass(frozen=True, slots=True)
class Lost:
    """A memory whose state of that time is gone; a restore leaves it as it is."""

    memory_id: str
    path: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What a restore would do. It holds as long as the store does not change after ``sequence``."""

    store_id: str
    sequence: int
    steps: list[Step]
    unchanged: int
    lost: list[Lost]


class Restoring:
    """Point-in-time restores of stores."""

    def __init__(self, engine: Engine, memories: Memories) -> None:
        self._engine = engine
        self._memories = memories

    def plan(self, store_id: str, *, at: str | None = None, version_id: str | None = None) -> RestorePlan:
        """What it takes to have a store as it was at a time (inclusive), or right after a version was made.

        Raises NotFound, InvalidRequest for a time to come or before the store had anything.
        """
        store = self._engine.store(store_id)
        if version_id is not None:
            version_id = self._last_made_with(store_id, version_id)
        if at is not None and at > now():
            raise InvalidRequest(f"{at} is still to come: give a time in the past")
        past = self._engine.past_state(store_id, at=at, version_id=version_id)
        if at is not None and not past.versions and at < store.created_at:
            raise InvalidRequest(f"the store {store.name!r} was made at {store.created_at}, after {at}")
        return _plan(store_id, past)

    def _last_made_with(self, store_id: str, version_id: str) -> str:
        """The last version of the transaction that made a version: halfway through an exchange of two names there is
        a state that never was, and that no store can have. One moment is one transaction."""
        if not ids.is_id(version_id, ids.MEMORY_VERSION):
            raise NotFound(f"{version_id!r} is no version: a version's id is memver_ and 26 characters")
        moment = self._engine.version(store_id, version_id).created_at
        (last,) = self._engine.versions(store_id, VersionFilter(created_from=moment, created_to=moment), limit=1)
        return last.id

    def restore(self, plan: RestorePlan, actor: Actor, *, keep_lost: bool = False) -> int:
        """Carry out a plan in one transaction; returns how many versions that made: one a step.

        Fewer only where a guard masks a text that is put back, and the memory has it masked already. Raises
        HistoryGone where something is lost, unless ``keep_lost`` leaves those memories as they are, and PathConflict
        where one that is left is in the way; PreconditionFailed where the store has changed since the plan; and what
        a write raises.
        """
        if plan.lost and not keep_lost:
            raise HistoryGone(
                f"{len(plan.lost)} memories cannot be put back, the first of them {plan.lost[0].path or '(redacted)'}:"
                f" {plan.lost[0].reason}"
            )
        if not plan.steps:
            return 0
        mutations = [self._mutation(step) for step in plan.steps]
        try:
            applied = self._memories.apply(plan.store_id, mutations, actor, unchanged_since=plan.sequence)
        except PathConflict as error:
            if error.conflicting_memory_id not in {lost.memory_id for lost in plan.lost}:
                raise
            raise PathConflict(
                f"{error.conflicting_path} cannot be put back and is in the way of what can: move or delete it first",
                conflicting_memory_id=error.conflicting_memory_id,
                conflicting_path=error.conflicting_path,
            ) from None
        made = 0
        for step in plan.steps:
            head = applied.heads[step.memory_id]
            made += head is None or head.version_id != step.head_version_id
        return made

    def _mutation(self, step: Step) -> Mutation:
        if step.action == "delete":
            return Delete(step.memory_id, expected_version=step.head_version_id)
        content = None if step.version_id is None else self._content(step.version_id)
        if step.action == "create":
            assert content is not None
            return Create(step.memory_id, step.path, content)
        return Update(step.memory_id, content=content, path=step.path, expected_version=step.head_version_id)

    def _content(self, version_id: str) -> bytes:
        try:
            return self._engine.content(version_id)
        except NotFound:
            # Redacted or pruned since the plan: neither is a change of the store.
            raise PreconditionFailed(f"the version {version_id} has lost its content meanwhile: look again") from None


def _plan(store_id: str, past: PastState) -> RestorePlan:
    heads = {head.memory_id: head for head in past.heads}
    steps: list[Step] = []
    lost = [
        Lost(first.memory_id, _path(heads.get(first.memory_id), first), "its history of that time was pruned")
        for first in past.unknown
    ]
    known = {first.memory_id for first in past.unknown}
    unchanged = 0
    for version in past.versions:
        known.add(version.memory_id)
        head = heads.get(version.memory_id)
        if version.operation == "deleted":
            if head is not None:
                steps.append(_deletion(head))
        elif head is not None and head.version_id == version.id:
            unchanged += 1
        elif version.redacted_at is not None:
            lost.append(Lost(version.memory_id, _path(head, version), "its version of that time was redacted"))
        elif head is not None and (head.path, head.sha256) == (version.path, version.content_sha256):
            unchanged += 1
        else:
            steps.append(_step(version, head))
    steps += [_deletion(head) for head in past.heads if head.memory_id not in known]
    steps.sort(key=lambda step: step.path)
    return RestorePlan(store_id, past.sequence, steps, unchanged, lost)


def _path(head: Head | None, version: MemoryVersion) -> str | None:
    return version.path if head is None else head.path


def _deletion(head: Head) -> Step:
    return Step("delete", head.memory_id, head.path, None, None, head.version_id)


def _step(version: MemoryVersion, head: Head | None) -> Step:
    assert version.path is not None
    if head is None:
        return Step("create", version.memory_id, version.path, None, version.id, None)
    former = None if head.path == version.path else head.path
    if head.sha256 == version.content_sha256:
        return Step("rename", version.memory_id, version.path, former, None, head.version_id)
    return Step("modify", version.memory_id, version.path, former, version.id, head.version_id)
