"""The six commands of the memory tool (``memory_20250818``), on stores. CONTRACT.md 4 has every answer word by word."""

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TypeVar

from memfs.model import ids, mutations
from memfs.model.contract import as_text
from memfs.model.errors import (
    InvalidPath,
    InvalidRequest,
    MemfsError,
    NotFound,
    PathConflict,
    PreconditionFailed,
    StoreFull,
)
from memfs.model.mutations import DropDirectory, KeepDirectory, MoveDirectory, Mutation, Update
from memfs.model.paths import ancestors
from memfs.model.records import Head, Memory, Snapshot
from memfs.tool import inputs
from memfs.tool.answers import UNAVAILABLE, sentence
from memfs.tool.lines import line_of, lines_with, listed, numbered, size_text, split_lines
from memfs.tool.places import ROOT, Place, Places
from memfs.tool.wording import SEED, Wording
from memfs.workspace import AttachedStore

log = logging.getLogger(__name__)

VIEW_CHARACTERS = 16_000
MAX_LINES = 999_999
TRIES = 20
"""How often a change is tried where each time somebody else was faster."""

PAUSE_SECONDS = 0.005
"""By how much the pause before a try may be longer than the one before: else many at once stay in each other's way."""

CONTEXT_LINES = 2
LEVELS = 2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What goes into a ``tool_result``."""

    content: str
    is_error: bool = False


class _Refused(Exception):
    """An answer that is an error."""


class MemoryCommands:
    """Answers the inputs of ``tool_use`` blocks. May be called from several threads."""

    def __init__(
        self,
        stores: AttachedStore | Mapping[str, AttachedStore],
        *,
        overwrite: bool = False,
        view_characters: int = VIEW_CHARACTERS,
        wording: Wording = SEED,
    ) -> None:
        """``stores`` is the one that fills ``/memories``, or several by the names of their directories there.

        ``overwrite`` lets create replace a file. ``view_characters`` is how much text view shows at once. Raises
        InvalidRequest where that is less than 1.
        """
        if view_characters < 1:
            raise InvalidRequest(f"view shows at least 1 character, not {view_characters}")
        self._places = Places(stores)
        self._overwrite = overwrite
        self._view_characters = view_characters
        self._words = wording

    def handle(self, given: object) -> ToolResult:
        """Carry out what a ``tool_use`` input asks for. Never raises: an error is an answer with ``is_error``."""
        try:
            return ToolResult(self._run(inputs.parse(given)))
        except _Refused as error:
            return ToolResult(str(error), is_error=True)
        except MemfsError as error:
            text = sentence(error)
            if text == UNAVAILABLE:
                log.error("the memory cannot be reached: %s", error)  # the answer does not say why
            return ToolResult(self._words.other.format(text=text), is_error=True)
        except Exception:
            log.exception("the memory tool failed")
            return ToolResult(self._words.other.format(text=UNAVAILABLE), is_error=True)

    def clear(self) -> str:
        """Delete every file and directory of every store. Raises ReadOnly and what the workspace raises."""
        for store in self._places.all():
            self._again(partial(self._empty, store))
        return "All memory cleared"

    @staticmethod
    def _empty(store: AttachedStore) -> None:
        store.commit(_removal(store.snapshot(), "/"))

    def _run(self, command: inputs.Command) -> str:
        match command:
            case inputs.View():
                return self._view(command)
            case inputs.Create():
                return self._create(command)
            case inputs.StrReplace():
                return self._str_replace(command)
            case inputs.Insert():
                return self._insert(command)
            case inputs.Delete():
                return self._delete(command)
            case inputs.Rename():
                return self._rename(command)

    # Looking

    def _view(self, command: inputs.View) -> str:
        place = self._find(command.path)
        if place.store is None and place.path == ROOT:
            return self._list_stores()
        if place.store is None:
            raise _Refused(self._words.missing.format(path=command.path))
        memory = self._memory(place)
        if memory is not None:
            return self._view_file(command, _text(memory))
        snapshot = place.store.snapshot()
        if not _is_directory(snapshot, place.inside):
            raise _Refused(self._words.missing.format(path=command.path))
        prefix = place.path.removesuffix(place.inside) if place.inside != "/" else place.path
        return self._listing(place.path, [_Entries(prefix, snapshot)])

    def _list_stores(self) -> str:
        entries = [_Entries(f"{ROOT}/{slug}", store.snapshot()) for slug, store in self._places.stores.items()]
        return self._listing(ROOT, entries)

    def _listing(self, path: str, stores: Sequence["_Entries"]) -> str:
        """A directory with what is in it up to two levels down; sizes are those of all that lies below."""
        sizes = {path: 0}
        for entries in stores:
            for directory in entries.directories():
                _add(sizes, path, directory, 0)
            for file, size in entries.files():
                _add(sizes, path, file, size)
        lines = [f"{size_text(size, exact=self._words.exact_sizes)}\t{item}" for item, size in sorted(sizes.items())]
        return "\n".join([self._words.directory.format(path=path), *lines])

    def _view_file(self, command: inputs.View, text: str) -> str:
        lines = split_lines(text)
        if len(lines) > MAX_LINES:
            raise _Refused(self._words.too_many_lines.format(path=command.path))
        first, last, limit = 1, len(lines), self._view_characters
        if command.view_range is not None:
            first, last = self._range(command, len(lines))
            if first == last:  # no range can ask for a part of a line, so the rest of a long one is read so
                limit = max(limit, len(lines[first - 1]))
        shown = numbered(lines[first - 1 : last], first, limit)
        return "\n".join([self._words.file.format(path=command.path), *shown])

    def _range(self, command: inputs.View, count: int) -> tuple[int, int]:
        wanted = command.view_range
        if isinstance(wanted, list | tuple) and len(wanted) == 2 and all(type(number) is int for number in wanted):
            first, end = max(1, wanted[0]), wanted[1]
            if first <= max(1, count) and (end == -1 or first <= end):  # an empty file can be asked for line 1
                return first, count if end == -1 else min(end, count)
        raise self._refused(
            f"Invalid `view_range` parameter: {inputs.shown(wanted)}. {command.path} has {count} lines: give"
            " [start, end] with 1 <= start <= end, or -1 as the end"
        )

    # Changing

    def _create(self, command: inputs.Create) -> str:
        exists = self._words.exists.format(path=command.path)
        place = self._writable(command.path, root=exists)
        if place.directory:
            raise self._names_a_directory(command.path)
        content = command.file_text.encode()

        def attempt(store: AttachedStore) -> None:
            memory = self._memory(place)
            if memory is not None and self._overwrite:
                store.commit([Update(memory.id, content=content, expected_version=memory.memory_version_id)])
            elif memory is not None or _is_directory(store.snapshot(), place.inside):
                raise _Refused(exists)
            else:
                self._make(exists, place, store, content)

        self._again(lambda: attempt(_store(place)))
        return self._words.created.format(path=command.path)

    def _make(self, exists: str, place: Place, store: AttachedStore, content: bytes) -> None:
        try:
            store.commit([mutations.Create(ids.new_id(ids.MEMORY), place.inside, content)])
        except PathConflict as conflict:
            if conflict.conflicting_path in ancestors(place.inside):
                raise self._below_a_file(place, conflict.conflicting_path) from None
            if self._overwrite and conflict.conflicting_path == place.inside:
                raise PreconditionFailed("somebody else has made it meanwhile") from conflict
            raise _Refused(exists) from None

    def _str_replace(self, command: inputs.StrReplace) -> str:
        absent = self._words.no_file.format(path=command.path)
        text, at = self._edit(command.path, absent, lambda old: self._replaced(old, command))
        lines = split_lines(text)
        first = line_of(text, at)
        last = line_of(text, at + max(len(command.new_str) - 1, 0))
        start = max(first - CONTEXT_LINES, 1)
        snippet = numbered(lines[start - 1 : last + CONTEXT_LINES], start, self._view_characters)
        return "\n".join([self._words.replaced, *snippet])

    def _replaced(self, text: str, command: inputs.StrReplace) -> tuple[str, int]:
        if not command.old_str:
            raise self._refused("old_str is empty: give the text that is to be replaced")
        at = text.find(command.old_str)
        if at == -1:
            raise _Refused(self._words.not_found.format(old_str=command.old_str, path=command.path))
        if text.find(command.old_str, at + len(command.old_str)) != -1:
            lines = listed(lines_with(text, command.old_str))
            raise _Refused(self._words.not_unique.format(old_str=command.old_str, lines=lines))
        return text[:at] + command.new_str + text[at + len(command.old_str) :], at

    def _insert(self, command: inputs.Insert) -> str:
        absent = self._words.absent_for_insert.format(path=command.path)
        self._edit(command.path, absent, lambda old: self._inserted(old, command))
        return self._words.inserted.format(path=command.path)

    def _inserted(self, text: str, command: inputs.Insert) -> tuple[str, int]:
        lines = split_lines(text)
        number = command.insert_line
        if type(number) is not int or not 0 <= number <= len(lines):
            raise _Refused(self._words.bad_line.format(insert_line=inputs.shown(number), count=len(lines)))
        at = sum(len(line) + 1 for line in lines[:number])
        # The one byte that has to be added elsewhere: without it the text would go on with the file's last line.
        before = text if at <= len(text) else text + "\n"
        new = command.insert_text if command.insert_text.endswith("\n") else command.insert_text + "\n"
        return before[:at] + new + before[at:], at

    def _delete(self, command: inputs.Delete) -> str:
        absent = self._words.absent.format(path=command.path)
        place = self._writable(command.path, absent=absent)

        def attempt() -> None:
            snapshot = _store(place).snapshot()
            if not _exists(snapshot, place):
                raise _Refused(absent)
            _commit_removal(_store(place), _removal(snapshot, place.inside), _left_empty(snapshot, place.inside))

        self._again(attempt)
        return self._words.deleted.format(path=command.path)

    def _rename(self, command: inputs.Rename) -> str:
        absent = self._words.absent.format(path=command.old_path)
        exists = self._words.destination_exists.format(path=command.new_path)
        source = self._writable(command.old_path, absent=absent)
        target = self._writable(command.new_path, root=exists)
        if _store(source) is not _store(target):
            raise self._refused(
                f"{command.old_path} and {command.new_path} are in different memory stores: create it there, then"
                " delete it here"
            )

        def attempt() -> None:
            snapshot = _store(source).snapshot()
            if not _exists(snapshot, source):
                raise _Refused(absent)
            if _entry(snapshot, target.inside):
                raise _Refused(exists)
            if target.directory and not _is_directory(snapshot, source.inside):
                raise self._names_a_directory(command.new_path)
            if target.inside.startswith(source.inside + "/"):
                raise self._refused(f"{command.old_path} cannot be moved into itself")
            for above in ancestors(target.inside):
                if _file(snapshot, above):
                    raise self._below_a_file(target, above)
            try:
                _commit_removal(
                    _store(source),
                    _moves(snapshot, source.inside, target.inside),
                    _left_empty(snapshot, source.inside, target.inside),
                )
            except PathConflict:
                raise _Refused(exists) from None

        self._again(attempt)
        return self._words.renamed.format(old_path=command.old_path, new_path=command.new_path)

    # What they share

    def _refused(self, text: str) -> _Refused:
        return _Refused(self._words.other.format(text=text))

    def _below_a_file(self, place: Place, above: str) -> _Refused:
        prefix = place.path.removesuffix(place.inside)
        return self._refused(f"{prefix}{above} is a file, so nothing can be below it")

    def _find(self, path: str) -> Place:
        try:
            return self._places.find(path)
        except InvalidPath as error:
            raise self._refused(f"The path {path[:200]!r} is not valid: {error}") from None

    def _names_a_directory(self, path: str) -> _Refused:
        return self._refused(f"{path} ends with '/': a file's path does not")

    def _writable(self, path: str, *, root: str | None = None, absent: str | None = None) -> Place:
        """Where a path leads, unless it is what nothing can be made of or done to.

        ``root`` and ``absent`` are the command's own words for the root, and for where there is no store.
        """
        place = self._find(path)
        if place.is_root:
            text = f"{place.path} is the memory directory itself: name something below it"
            raise _Refused(root) if root is not None else self._refused(text)
        if place.store is None:
            text = f"there is no memory store for {path}: 'view {ROOT}' shows those there are"
            raise _Refused(absent) if absent is not None else self._refused(text)
        return place

    @staticmethod
    def _memory(place: Place) -> Memory | None:
        """The memory at a place, unless the path says that it is a directory."""
        if place.directory or place.is_root:
            return None
        try:
            return _store(place).memory_at(place.inside)
        except NotFound:
            return None

    def _edit(self, path: str, absent: str, change: Callable[[str], tuple[str, int]]) -> tuple[str, int]:
        """Change a file's text; again on the new one where somebody was faster.

        ``change`` gives the new text and where in it the change begins. Returns both, of the text as it was stored.
        """
        place = self._writable(path, root=absent, absent=absent)

        def attempt() -> tuple[str, int, Head | None]:
            memory = self._memory(place)
            if memory is None:
                raise _Refused(absent)
            text, at = change(_text(memory))
            # Not the hash: with that, of two who add the same line at once one would add nothing.
            edit = Update(memory.id, content=text.encode(), expected_version=memory.memory_version_id)
            return text, at, _store(place).commit([edit]).heads[memory.id]

        text, at, head = self._again(attempt)
        if head is not None and head.sha256 != sha256(text.encode()).hexdigest():  # a guard has masked something
            try:
                text = as_text(_store(place).content(head.version_id))
            except MemfsError:  # the edit is made, so this is no error
                text = ""
        return text, min(at, len(text))

    @staticmethod
    def _again(attempt: Callable[[], T]) -> T:
        """Try until nobody else changes what the attempt was decided on. Raises what the last one raises."""
        for tried in range(TRIES - 1):
            try:
                return attempt()
            except (PreconditionFailed, NotFound):
                time.sleep(random.uniform(0, tried * PAUSE_SECONDS))
        return attempt()


def _store(place: Place) -> AttachedStore:
    assert place.store is not None
    return place.store


def _text(memory: Memory) -> str:
    return as_text(memory.content or b"")


# What a snapshot says of a path


def _below(path: str) -> str:
    """What the paths below a directory begin with."""
    return path.removesuffix("/") + "/"


def _file(snapshot: Snapshot, path: str) -> bool:
    return any(head.path == path for head in snapshot.heads)


def _is_directory(snapshot: Snapshot, path: str) -> bool:
    if path == "/" or any(directory.path == path for directory in snapshot.directories):
        return True
    paths = [*(head.path for head in snapshot.heads), *(directory.path for directory in snapshot.directories)]
    return any(other.startswith(_below(path)) for other in paths)


def _entry(snapshot: Snapshot, path: str) -> bool:
    return _file(snapshot, path) or _is_directory(snapshot, path)


def _exists(snapshot: Snapshot, place: Place) -> bool:
    return _is_directory(snapshot, place.inside) if place.directory else _entry(snapshot, place.inside)


def _heads(snapshot: Snapshot, path: str) -> list[Head]:
    """The memory at a path, or all below a directory."""
    return [head for head in snapshot.heads if head.path == path or head.path.startswith(_below(path))]


def _kept_directories(snapshot: Snapshot, path: str) -> list[str]:
    """The directories at and below a path that are kept for their own sake."""
    paths = [directory.path for directory in snapshot.directories]
    return [directory for directory in paths if directory == path or directory.startswith(_below(path))]


# Mutations


def _removal(snapshot: Snapshot, path: str) -> list[Mutation]:
    return [
        *(mutations.Delete(head.memory_id, expected_version=head.version_id) for head in _heads(snapshot, path)),
        *(DropDirectory(directory) for directory in _kept_directories(snapshot, path)),
    ]


def _moves(snapshot: Snapshot, old: str, new: str) -> list[Mutation]:
    moves: list[Mutation] = [
        Update(head.memory_id, path=new + head.path.removeprefix(old), expected_version=head.version_id)
        for head in _heads(snapshot, old)
    ]
    if _kept_directories(snapshot, old):
        moves.append(MoveDirectory(old, new))
    return moves


def _left_empty(snapshot: Snapshot, path: str, arriving: str | None = None) -> list[Mutation]:
    """What keeps the directory that a path leaves empty, as it would stay on a disk (DESIGN.md 11)."""
    parent = path.rpartition("/")[0]
    if not parent or (arriving is not None and arriving.startswith(_below(parent))):
        return []
    going = {*(head.path for head in _heads(snapshot, path)), *_kept_directories(snapshot, path)}
    staying = {*(head.path for head in _heads(snapshot, parent)), *_kept_directories(snapshot, parent)} - going
    return [] if staying else [KeepDirectory(parent)]


def _commit_removal(store: AttachedStore, removal: Sequence[Mutation], keeping: Sequence[Mutation]) -> None:
    try:
        store.commit([*removal, *keeping])
    except StoreFull:
        if not keeping:
            raise
        store.commit(removal)  # a store with no room for another directory must not refuse a removal


# Listings


@dataclass(frozen=True, slots=True)
class _Entries:
    """All that a store holds, with the paths that the tool has for it."""

    prefix: str
    snapshot: Snapshot

    def directories(self) -> list[str]:
        """The store's own directory, and those that are kept."""
        return [self.prefix, *(self.prefix + directory.path for directory in self.snapshot.directories)]

    def files(self) -> list[tuple[str, int]]:
        """Paths and sizes in bytes."""
        return [(self.prefix + head.path, head.size) for head in self.snapshot.heads]


def _add(sizes: dict[str, int], top: str, path: str, size: int) -> None:
    """Count something for the directories it is in, and list it, or the one that it is in, down to two levels.

    What is hidden is not listed, but counted.
    """
    if not path.startswith(top + "/"):
        return
    sizes[top] += size
    item = top
    for name in path[len(top) + 1 :].split("/")[:LEVELS]:
        if name.startswith(".") or name == "node_modules":
            return
        item = f"{item}/{name}"
        sizes[item] = sizes.get(item, 0) + size
