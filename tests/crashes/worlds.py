"""The oracle: what a history may be, by the journal of whoever wrote it.

One writer alone writes below a directory, so the versions there are those of its operations, in their order. What an
acknowledged operation did is known. One in flight did one of a few things: then there are several *worlds*, and each
version, each look and the heads rule out those that they do not fit. Where none is left, something was lost, made up,
halved, done twice or put out of order.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, combinations, starmap

from tests.crashes.journal import Operation, pieces_of, text_of

SLOW_SECONDS = 4.0
"""What takes longer may be committed in between, after five seconds unsaved (DESIGN.md 1)."""

PAGE_SIZE = 4096
"""Bytes of a page of a file, at the end of which the kernel may leave a write() whose process is killed."""


@dataclass(frozen=True)
class Version:
    """What the history says of one change."""

    operation: str
    path: str
    text: str | None

    def __str__(self) -> str:
        text = "nothing" if self.text is None else f"{len(self.text)} characters, {self.text[:30]!r}…"
        return f"{self.operation} {self.path}: {text}"


Commit = tuple[Version, ...]
"""The versions of one transaction: all or none, in any order."""


@dataclass(frozen=True)
class World:
    """One way in which things may be: memories and directories, and how many of the versions are told by now."""

    files: tuple[tuple[str, str], ...] = ()
    directories: frozenset[str] = frozenset()
    told: int = 0

    def after(self, files: dict[str, str], directories: frozenset[str] | None = None) -> "World":
        """This one with other memories."""
        return replace(
            self,
            files=tuple(sorted(files.items())),
            directories=self.directories if directories is None else directories,
        )


Outcome = tuple[list[Commit], World]


def outcomes(operation: Operation, world: World) -> Iterator[Outcome]:
    """Everything that an operation may have done in a world. Nothing, where it cannot have succeeded in it."""
    if operation.kind in ("look", "join", "backup"):
        if operation.kind != "look" or operation.done is not True or _fits(operation, world):
            yield [], world
        return
    if operation.done is not True:
        yield [], world
    yield from _effects(operation, world)


def _fits(operation: Operation, world: World) -> bool:
    """Whether a world is what was seen."""
    told = operation.told
    same = told["files"] == dict(world.files)
    return same and ("directories" not in told or set(told["directories"]) == world.directories)


def _effects(operation: Operation, world: World) -> Iterator[Outcome]:
    given, files = operation.given, dict(world.files)
    path = given["path"]
    match operation.kind:
        case "save":
            whole = text_of(given["token"], given["lines"])
            yield from _saved(operation, world, path, pieces_of(whole, given["count"]), "")
        case "append":
            old = files.get(path)
            if old is not None or operation.done is not True:
                yield from _saved(operation, world, path, [text_of(given["token"], 1)], old or "")
        case "replace" | "create":
            text = text_of(given["token"], given["lines"])
            if operation.kind == "replace" or path not in files:
                yield [(_version(files, path, text),)], world.after(files | {path: text})
        case "unlink":
            if path in files:
                del files[path]
                yield [(Version("deleted", path, None),)], world.after(files)
        case "rename":
            if path in files:
                target = given["to"]
                over = (Version("deleted", path, None),) if target in files else ()
                text = files.pop(path)
                moved = () if files.get(target) == text else (Version("modified", target, text),)
                yield [(*moved, *over)], world.after(files | {target: text})
        case "move":
            yield from _moved(world, path, given["to"])
        case "mkdir":
            yield [], world.after(files, world.directories | {path})
        case "rmdir":
            yield [], world.after(files, world.directories - {path})
        case _:
            raise ValueError(operation.kind)


def _version(files: dict[str, str], path: str, text: str) -> Version:
    return Version("modified" if path in files else "created", path, text)


def _saved(operation: Operation, world: World, path: str, pieces: list[str], before: str) -> Iterator[Outcome]:
    """A text written in place, piece by piece: on a local disk too, who is killed in between leaves a part of it.

    Never anything but what whole calls of write() have brought, or one that was cut off in between at the end of a page
    of the file: the kernel looks for a deadly signal before each page, on a tmpfs too. ``before`` is what the text was
    added to, in ASCII as all that is written here.
    """
    files = dict(world.files)
    whole = before + "".join(pieces)
    ends = set(accumulate(map(len, pieces), initial=len(before)))
    slow = operation.told.get("took", SLOW_SECONDS) >= SLOW_SECONDS
    if slow:  # or its writer was killed
        ends |= set(range(len(before) // PAGE_SIZE * PAGE_SIZE + PAGE_SIZE, len(whole), PAGE_SIZE))
    parts = [whole[:end] for end in sorted(ends - {len(whole)})]

    def through(*texts: str) -> Outcome:
        commits: list[Commit] = []
        now = dict(files)
        for text in texts:
            if now.get(path) != text:
                commits.append((_version(now, path, text),))
                now[path] = text
        return commits, world.after(now)

    yield through(whole)
    if operation.done is not True:
        yield from map(through, parts)
    if slow:
        yield from (through(part, whole) for part in parts)
        if operation.done is not True:
            yield from starmap(through, combinations(parts, 2))


def _moved(world: World, path: str, target: str) -> Iterator[Outcome]:
    if path not in world.directories:
        return

    def new(name: str) -> str:
        return target + name.removeprefix(path) if name == path or name.startswith(f"{path}/") else name

    files = {new(name): text for name, text in world.files}
    changed = tuple(Version("modified", new(name), text) for name, text in world.files if new(name) != name)
    yield [changed] if changed else [], world.after(files, frozenset(map(new, world.directories)))


def _matches(commits: list[Commit], versions: list[Version], start: int) -> int | None:
    """How many versions are told with these, where they are the next ones."""
    for commit in commits:
        if Counter(versions[start : start + len(commit)]) != Counter(commit):
            return None
        start += len(commit)
    return start


class Oracle:
    """Follows one writer's directory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.worlds: frozenset[World] = frozenset({World()})
        self.versions: list[Version] = []
        self._known = 0
        """How many operations the worlds stand after; what a dead writer had in flight may still come."""

    def look(
        self, operations: list[Operation], versions: Iterable[Version], heads: dict[str, str], kept: set[str]
    ) -> list[str]:
        """What is wrong, given the whole journal, the versions that are new, and what the store holds now.

        ``kept`` are the directories that the store has, with and without memories.
        """
        self.versions += versions
        worlds = self.worlds
        for operation in operations[self._known :]:
            before = worlds
            worlds = self._after(operation, worlds)
            if not worlds:
                return [self._unfit(operation, before)]
            if operation.done is not None:
                self.worlds = worlds
                self._known = operation.number + 1
        told = max(world.told for world in worlds)
        if told < len(self.versions):
            return [f"{self.name}: nobody wrote {self.versions[told]}, after all that was written"]
        complete = [world for world in worlds if world.told == told]
        fitting = [world for world in complete if dict(world.files) == heads and world.directories <= kept]
        if fitting:
            return []
        return [f"{self.name}: the store holds {_differs(heads, kept, complete[0])}"]

    def _after(self, operation: Operation, worlds: frozenset[World]) -> frozenset[World]:
        found = set()
        for world in worlds:
            for commits, after in outcomes(operation, world):
                told = _matches(commits, self.versions, world.told)
                if told is not None:
                    found.add(replace(after, told=told))
        return frozenset(found)

    def _unfit(self, operation: Operation, worlds: frozenset[World]) -> str:
        world = max(worlds, key=lambda each: each.told)
        came = "; ".join(map(str, self.versions[world.told : world.told + 3])) or "no version"
        seen = f"; seen was {_differs(operation.told['files'], None, world)}" if operation.kind == "look" else ""
        return f"{self.name}: {operation}, but the history goes on with: {came}{seen}"


def _differs(files: dict[str, str], kept: set[str] | None, world: World) -> str:
    expected = dict(world.files)
    wrong = [f"{path} missing" for path in sorted(expected.keys() - files.keys())]
    wrong += [f"{path} that should not be" for path in sorted(files.keys() - expected.keys())]
    wrong += [
        f"{path} as {files[path][:30]!r}… ({len(files[path])}) instead of {text[:30]!r}… ({len(text)})"
        for path, text in sorted(expected.items())
        if path in files and files[path] != text
    ]
    if kept is not None:
        wrong += [f"no directory {path}" for path in sorted(world.directories - kept)]
    return ", ".join(wrong) or "other directories"
