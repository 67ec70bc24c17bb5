"""Rules for memories: what a path and a content may be, whoever writes."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TypeVar

from memfs.engine import Engine, Limits, VersionFilter
from memfs.model import ids
from memfs.model.errors import (
    ContentNotText,
    ContentTooLarge,
    InvalidRequest,
    MemoryChanged,
    NotFound,
    PreconditionFailed,
    WriteRefused,
)
from memfs.model.merge import merge as merged
from memfs.model.mutations import Applied, Create, Delete, KeepDirectory, MoveDirectory, Mutation, Update
from memfs.model.paths import check_path, check_prefix
from memfs.model.records import (
    MAX_CONTENT_BYTES,
    MAX_DIRECTORIES,
    MAX_MEMORIES,
    AccessedMemory,
    Actor,
    ConflictPolicy,
    Guards,
    Head,
    Memory,
    MemoryPrefix,
    Merged,
)
from memfs.workspace.accesses import Accesses
from memfs.workspace.guards import guard_content, guard_path, searches

_SHA256 = re.compile("[0-9a-fA-F]{64}")


def check_content(content: bytes) -> None:
    """Check a memory's content as a whole. Raises ContentTooLarge over 102,400 bytes, ContentNotText if not UTF-8."""
    if len(content) > MAX_CONTENT_BYTES:
        raise ContentTooLarge(
            f"the content has {len(content)} bytes, and a memory at most {MAX_CONTENT_BYTES}: split it"
        )
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise ContentNotText(
            f"the content is not UTF-8 text (byte {content[error.start]:#04x} at offset {error.start})"
        ) from None


def check_sha256(text: str) -> str:
    """A hash as the engine keeps it: lower case. Raises InvalidRequest for what is none."""
    if not _SHA256.fullmatch(text):
        raise InvalidRequest(f"a content hash is 64 hexadecimal digits, not {text[:80]!r}")
    return text.lower()


def prepared(
    guards: Guards, mutations: Sequence[Mutation], path_of: Callable[[str], str] | None = None
) -> list[Mutation]:
    """Mutations that the rules allow, with what a store's guards made of their contents.

    ``path_of`` tells where a live memory is, for updates that leave its path. Raises InvalidPath, ContentTooLarge,
    ContentNotText, WriteRefused, InvalidRequest where one memory is changed twice, and what ``path_of`` raises.
    """
    named = [m.memory_id for m in mutations if isinstance(m, Create | Update | Delete)]
    if len(set(named)) < len(named):
        # Each would be judged by the same head: a path would be lost, or a history go on after its end.
        raise InvalidRequest("a batch creates, updates or deletes each memory once at most")
    several = len(mutations) > 1
    ready: list[Mutation] = []
    for mutation in mutations:
        match mutation:
            case Create() | Update():
                path = mutation.path
                if path is not None:
                    check_path(path)
                elif guards.allowed_paths and path_of is not None:
                    path = path_of(mutation.memory_id)
                if path is not None:
                    guard_path(guards, path)
                if mutation.content is not None:
                    try:
                        content = _guarded(guards, mutation.content)
                    except WriteRefused as error:
                        raise WriteRefused(
                            f"{path or mutation.memory_id}: {error}" if several else str(error)
                        ) from None
                    if content is not mutation.content:
                        if isinstance(mutation, Update) and mutation.edit is not None and mutation.edit.appended:
                            appended = _still_appended(guards, mutation.content, content, mutation.edit.appended)
                            mutation = replace(mutation, edit=replace(mutation.edit, appended=appended))
                        mutation = replace(mutation, content=content)
            case KeepDirectory(path=directory) | MoveDirectory(new_path=directory):
                check_path(directory)
            case _:
                pass
        ready.append(mutation)
    return ready


def rebased(guards: Guards, on_conflict: ConflictPolicy, update: Update, theirs: bytes, base: bytes | None) -> Update:
    """An update for a memory that is ``theirs`` by now, where its content was made from ``base`` (``Rebase``).

    What was only appended is appended. Else the policy ``fail`` raises MemoryChanged; with ``merge`` the two are
    merged, or the content stays as it is, a conflict on record, where nothing is known that it started from or the
    merged text would be one that the store does not take.
    """
    ours, edit = update.content, update.edit
    assert ours is not None
    assert edit is not None
    if ours == theirs and not edit.appended:
        return update
    end = len(ours) - edit.appended
    if base is None and edit.appended and sha256(ours[:end]).hexdigest() == edit.base_sha256:
        base = ours[:end]  # redacted or pruned since, and nothing but appended to
    appends = edit.appended > 0 and base is not None and ours[:end] == base
    if on_conflict == "fail" and not appends:
        raise MemoryChanged(
            "the memory has changed since it was read, and the attachment says on_conflict=fail: nothing was saved;"
            " read it again"
        )
    if base is None and end == 0:
        # Made here and elsewhere at the same moment: nothing stood here before what was appended, if anything was.
        base = theirs
        ours, end = theirs + ours, len(theirs)
    if base is None:
        return replace(update, merged=Merged(edit.base_version_id, conflict=True))
    merge = merged(base, ours[:end], theirs)
    try:
        (fitting,) = prepared(guards, [replace(update, content=merge.text + ours[end:], path=None)])
    except (ContentTooLarge, WriteRefused):
        if appends:
            raise  # or what stands there would go, for the sake of a few more lines
        return replace(update, merged=Merged(edit.base_version_id, conflict=True))
    assert isinstance(fitting, Update)
    return replace(fitting, path=update.path, merged=Merged(edit.base_version_id, conflict=merge.conflict))


def _guarded(guards: Guards, content: bytes) -> bytes:
    check_content(content)
    guarded = guard_content(guards, content)
    if guarded is not content:
        check_content(guarded)  # what stands for something masked may be longer than it
    return guarded


def _still_appended(guards: Guards, content: bytes, guarded: bytes, appended: int) -> int:
    """How many bytes at the end of a masked text stand for the last ``appended`` ones of the text that was written.

    They begin where the masked form of all before them ends: who appends to a text that was masked when it was saved
    goes on in what was written. None, where something was found that lies in both, or before is no text by itself.
    """
    try:
        before = _guarded(guards, content[: len(content) - appended])
    except (ContentNotText, ContentTooLarge, WriteRefused):
        return 0
    return len(guarded) - len(before) if guarded.startswith(before) else 0


@dataclass(frozen=True, slots=True)
class Written:
    """A memory after a write; ``changed`` is whether that made a version."""

    memory: Memory
    changed: bool


Result = TypeVar("Result")

LIMITS = Limits(memories=MAX_MEMORIES, directories=MAX_DIRECTORIES)


class Memories:
    """The memories of all stores."""

    def __init__(self, engine: Engine, accesses: Accesses) -> None:
        self._engine = engine
        self._accesses = accesses

    def list(
        self,
        store_id: str,
        prefix: str = "/",
        *,
        content: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Memory]:
        """Live memories under a prefix (``/`` or ``/dir/``), in path order; ``after`` is the path that the page comes
        after. Raises InvalidRequest, NotFound."""
        check_prefix(prefix)
        return self._engine.memories(store_id, prefix, content=content, after=after, limit=limit)

    def browse(
        self,
        store_id: str,
        prefix: str = "/",
        *,
        depth: int = 0,
        content: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Memory | MemoryPrefix]:
        """Like ``list``; depth 1 shows only what lies directly below the prefix, directories as markers.

        Raises InvalidRequest, NotFound.
        """
        check_prefix(prefix)
        if depth not in (0, 1):
            raise InvalidRequest(f"depth is 0 (everything below) or 1 (what lies directly below), not {depth}")
        if depth == 1:
            return self._engine.children(store_id, prefix, content=content, after=after, limit=limit)
        return self._engine.memories(store_id, prefix, content=content, after=after, limit=limit)

    def get(self, store_id: str, path_or_id: str) -> Memory:
        """One live memory with its content, by path or by id; the read is noted. Raises NotFound, InvalidPath."""
        memory = self._find(store_id, path_or_id)
        self._accesses.note(memory.id)
        return memory

    def _find(self, store_id: str, path_or_id: str) -> Memory:
        if ids.is_id(path_or_id, ids.MEMORY):
            return self._engine.memory(store_id, path_or_id)
        check_path(path_or_id)
        return self._engine.memory_at(store_id, path_or_id)

    def _with_found(self, store_id: str, path_or_id: str, write: Callable[[Memory, str | None], Result]) -> Result:
        """Write to the memory that is meant; ``write`` gets the memory, and the path where it must still be.

        A memory that has moved since it was found is not the one at that path any more, and another one may be.
        Raises NotFound, InvalidPath and what ``write`` raises.
        """
        if ids.is_id(path_or_id, ids.MEMORY):
            return write(self._find(store_id, path_or_id), None)
        while True:
            found = self._find(store_id, path_or_id)
            try:
                return write(found, path_or_id)
            except NotFound:
                pass  # look again, which raises it where nothing is there now

    def create(self, store_id: str, path: str, content: bytes, actor: Actor, *, memory_id: str | None = None) -> Memory:
        """Make a memory; never overwrites. ``memory_id`` is that of one that was deleted, else it gets a new one.

        Raises PathConflict where the path, or one above or below it, is used, StoreFull, StoreArchived, WriteRefused,
        InvalidPath, ContentTooLarge, ContentNotText.
        """
        again = memory_id is not None
        mutation = Create(memory_id or ids.new_id(ids.MEMORY), path, content)
        _, head, stored = self._write(store_id, mutation, actor)
        created_at = head.updated_at
        if again:  # it is as old as the first of its versions
            where = VersionFilter(memory_id=memory_id)
            (first,) = self._engine.versions(store_id, where, limit=1, oldest_first=True)
            created_at = first.created_at
        return memory_of(store_id, head, created_at, stored)

    def update(
        self,
        store_id: str,
        path_or_id: str,
        actor: Actor,
        *,
        content: bytes | None = None,
        path: str | None = None,
        expected_sha256: str | None = None,
    ) -> Written:
        """Change a memory's content, path or both; None keeps what is there, and where nothing changes no version is
        made.

        Raises PreconditionFailed where the content has another hash than the expected one (but not where all is as
        wanted already), NotFound, and what ``create`` raises.
        """
        if expected_sha256 is not None:
            expected_sha256 = check_sha256(expected_sha256)

        def write(before: Memory, found_at: str | None) -> tuple[Memory, tuple[Applied, Head, bytes | None]]:
            mutation = Update(
                before.id, content=content, path=path, expected_sha256=expected_sha256, expected_path=found_at
            )
            return before, self._write(store_id, mutation, actor)

        before, (applied, head, stored) = self._with_found(store_id, path_or_id, write)
        if stored is None:
            stored = before.content if head.sha256 == before.content_sha256 else self._engine.content(head.version_id)
        memory = memory_of(store_id, head, before.created_at, stored)
        return Written(memory, changed=applied.previous < applied.sequence)

    def delete(self, store_id: str, path_or_id: str, actor: Actor, *, expected_sha256: str | None = None) -> Memory:
        """Delete a memory, also of an archived store; its history stays. Returns what it was.

        Raises NotFound, PreconditionFailed.
        """
        if expected_sha256 is not None:
            expected_sha256 = check_sha256(expected_sha256)

        def delete(memory: Memory, found_at: str | None) -> Memory:
            mutation = Delete(memory.id, expected_sha256=expected_sha256, expected_path=found_at)
            self._engine.apply(store_id, [mutation], actor, limits=LIMITS, archived=True)
            return memory

        return self._with_found(store_id, path_or_id, delete)

    def unaccessed(self, store_id: str, before: str, prefix: str = "/") -> Sequence[AccessedMemory]:
        """Live memories that were neither read nor written since a time. Raises InvalidRequest, NotFound."""
        check_prefix(prefix)
        self._accesses.record()
        found = self._engine.accessed_memories(store_id, prefix, before=before)
        # Where the database was busy, what was just read is not on record yet.
        return [each for each in found if (self._accesses.noted(each.memory.id) or "") < before]

    def expire(self, store_id: str, unaccessed: Sequence[AccessedMemory], actor: Actor) -> None:
        """Delete memories that nobody uses, in one transaction; their histories stay.

        Raises PreconditionFailed where one was changed since it was found, NotFound.
        """
        mutations = [Delete(found.memory.id, expected_version=found.memory.memory_version_id) for found in unaccessed]
        if mutations:
            self._engine.apply(store_id, mutations, actor, limits=LIMITS, archived=True)

    def look_ahead(self, store_id: str, content: bytes) -> None:
        """Search a text as its commit will, so that there is little left to search where that holds others up.

        Refuses nothing; raises NotFound.
        """
        with suppress(WriteRefused, ContentNotText, ContentTooLarge):
            _guarded(self._engine.guards(store_id), content)

    def searches(self, store_id: str) -> bool:
        """Whether the store's guards search texts. Raises NotFound."""
        return searches(self._engine.guards(store_id))

    def apply(
        self,
        store_id: str,
        mutations: Sequence[Mutation],
        actor: Actor,
        *,
        unchanged_since: int | None = None,
        on_conflict: ConflictPolicy = "overwrite",
    ) -> Applied:
        """Apply a batch in one transaction, all of it or nothing.

        What a guard masks is stored masked: the heads that come back tell by their hash. ``on_conflict`` is what
        becomes of an update whose memory is not what its ``edit`` started from. Raises what ``prepared`` and
        ``Engine.apply`` raise, and MemoryChanged.
        """
        applied, _ = self._judge_and_apply(store_id, mutations, actor, unchanged_since, on_conflict)
        return applied

    def _judge_and_apply(
        self,
        store_id: str,
        mutations: Sequence[Mutation],
        actor: Actor,
        unchanged_since: int | None = None,
        on_conflict: ConflictPolicy = "overwrite",
    ) -> tuple[Applied, Sequence[Mutation]]:
        """Also returns the mutations as the guards left them.

        Detectors take their time, so they judge before the transaction; which then holds only if the guards are still
        those, or a write would get past guards that were set while it was judged.
        """
        while True:
            guards = self._engine.guards(store_id)
            ready = prepared(guards, mutations, lambda memory_id: self._engine.memory(store_id, memory_id).path)
            try:
                applied = self._engine.apply(
                    store_id,
                    ready,
                    actor,
                    limits=LIMITS,
                    unchanged_since=unchanged_since,
                    guards=guards,
                    rebase=None if on_conflict == "overwrite" else partial(rebased, guards, on_conflict),
                )
            except PreconditionFailed:
                if self._engine.guards(store_id) == guards:
                    raise
            else:
                return applied, ready

    def _write(self, store_id: str, mutation: Create | Update, actor: Actor) -> tuple[Applied, Head, bytes | None]:
        """Apply one write; returns the head and the content as it was stored."""
        applied, (ready,) = self._judge_and_apply(store_id, [mutation], actor)
        assert isinstance(ready, Create | Update)
        head = applied.heads[mutation.memory_id]
        assert head is not None
        return applied, head, ready.content


def memory_of(store_id: str, head: Head, created_at: str, content: bytes | None = None) -> Memory:
    """A live memory by its head, which does not tell when it was made."""
    return Memory(
        id=head.memory_id,
        memory_store_id=store_id,
        memory_version_id=head.version_id,
        path=head.path,
        content_size_bytes=head.size,
        content_sha256=head.sha256,
        created_at=created_at,
        updated_at=head.updated_at,
        content=content,
    )
