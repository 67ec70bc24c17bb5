"""Import of a directory of text files into a store, and export of a store into a directory."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memfs.model import ids
from memfs.model.errors import ContentTooLarge, InvalidPath, InvalidRequest, MemfsError, NameNotUtf8
from memfs.model.mutations import Create, Mutation, Update
from memfs.model.paths import check_path
from memfs.model.records import MAX_CONTENT_BYTES, Actor, Store
from memfs.workspace.memories import check_content
from memfs.workspace.workspace import Workspace

Progress = Callable[[str], None]
"""Called with each item's path as it is done."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An item that cannot become a memory, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class Report:
    """What an import did: paths of memories."""

    created: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def _files(top: Path, report: Report) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Regular files below ``top`` as (memory path, entry), a directory at a time; everything else becomes a problem."""
    pending = [("", os.fspath(top))]
    while pending:
        prefix, directory = pending.pop()
        with os.scandir(directory) as entries:
            listed = sorted(entries, key=lambda entry: entry.name, reverse=True)
        files = []
        for entry in listed:
            path = f"{prefix}/{entry.name}"
            if entry.is_symlink():
                report.problems.append(Problem(path, "a symbolic link"))
            elif entry.is_dir():
                if entry.name == ".git":
                    report.problems.append(Problem(path, "a git directory: its history is not text"))
                else:
                    pending.append((path, entry.path))
            elif entry.is_file():
                files.append((path, entry))
            else:
                report.problems.append(Problem(path, "neither a file nor a directory"))
        yield from reversed(files)


def _read(path: str, entry: os.DirEntry[str]) -> bytes:
    """A file's content, checked. Raises InvalidRequest, OSError."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise NameNotUtf8("its name is not UTF-8") from None
    check_path(path)
    # Not followed and not blocking: the entry may have been swapped for a link or a pipe since it was listed.
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidPath("neither a file nor a directory")
        if status.st_size > MAX_CONTENT_BYTES:
            raise ContentTooLarge(f"it has {status.st_size} bytes, and a memory at most {MAX_CONTENT_BYTES}: split it")
        content = file.read(MAX_CONTENT_BYTES + 1)
    check_content(content)
    return content


def import_directory(
    workspace: Workspace,
    store: Store,
    directory: Path,
    actor: Actor,
    *,
    skip_invalid: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Make each file below ``directory`` a memory at its relative path, in one transaction.

    A memory that is there already gets the file's content as a new version, or none where it is the same. Where some
    file cannot be a memory, nothing is imported unless ``skip_invalid``; the report names each such file. Raises
    InvalidRequest where ``directory`` is none, and what ``Memories.apply`` raises.
    """
    if not directory.is_dir():
        raise InvalidRequest(f"{directory} is not a directory")
    report = Report()
    existing = {memory.path: memory for memory in workspace.memories.list(store.id)}
    mutations: list[Mutation] = []
    try:
        for path, entry in _files(directory, report):
            try:
                content = _read(path, entry)
            except MemfsError as error:
                report.problems.append(Problem(path, str(error)))
                continue
            except OSError as error:
                report.problems.append(Problem(path, f"it cannot be read: {error.strerror}"))
                continue
            memory = existing.get(path)
            if memory is None:
                mutations.append(Create(ids.new_id(ids.MEMORY), path, content))
                report.created.append(path)
            elif workspace.engine.content(memory.memory_version_id) != content:
                mutations.append(Update(memory.id, content=content, expected_version=memory.memory_version_id))
                report.modified.append(path)
            else:
                report.unchanged.append(path)
            if progress is not None:
                progress(path)
    except OSError as error:
        raise InvalidRequest(f"{error.filename} cannot be listed: {error.strerror}") from error
    report.problems.sort(key=lambda problem: problem.path)
    if report.problems and not skip_invalid:
        return Report(problems=report.problems)
    if mutations:
        workspace.memories.apply(store.id, mutations, actor)
    return report


def export_directory(workspace: Workspace, store: Store, directory: Path, *, progress: Progress | None = None) -> int:
    """Write each memory to a file below ``directory``, which must be empty or missing; returns their number.

    Raises InvalidRequest where the directory cannot be used.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise InvalidRequest(f"{directory} is not empty: export into a new directory")
        memories = workspace.memories.list(store.id, content=True)
        for memory in memories:
            target = directory / memory.path[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                file.write(memory.content or b"")
            if progress is not None:
                progress(memory.path)
    except OSError as error:
        raise InvalidRequest(f"cannot export into {directory}: {error.strerror} ({error.filename})") from error
    return len(memories)
