"""Where an import of files gets them from: a stream of items that can be read again, and the one of a directory."""

import os
import stat
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

from memfs.model.errors import InvalidPath, InvalidRequest
from memfs.model.paths import MAX_SEGMENTS, check_path
from memfs.model.records import MAX_CONTENT_BYTES

MAX_ITEMS = 100_000
"""Items of one source: 50 times what a store holds. More is a mistake, and a list of them helps nobody."""

GIT = "git's own data: a repository cannot live in a store"


@dataclass(frozen=True, slots=True)
class File:
    """What may become a memory: its content has at most 102,400 bytes, and nothing else of it is checked yet."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Problem:
    """An item that cannot become a memory, and why.

    ``placed`` is False where ``path`` is a name that is no path in a store.
    """

    path: str
    reason: str
    placed: bool = True


Item = File | Problem

Items = Generator[Item, None, None]

Source = Callable[[], Items]
"""Reads all items from the start; where a path comes twice, the later item holds. Raises InvalidRequest where the
source as a whole cannot be read."""


def name_problem(path: str) -> Problem | None:
    """Why no memory can be at a path; a name that is not UTF-8 has surrogates for its bytes (os.fsdecode)."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return Problem(path, "its name is not UTF-8")
    try:
        check_path(path)
    except InvalidPath as error:
        return Problem(path, str(error))
    return None


def size_problem(path: str, size: int) -> Problem | None:
    """Why a file of so many bytes cannot be a memory, told before it is read."""
    if size <= MAX_CONTENT_BYTES:
        return None
    return Problem(path, f"it has {size} bytes, and a memory at most {MAX_CONTENT_BYTES}: split it")


def directory(top: Path) -> Source:
    """The files below a directory. Symbolic links are problems, and are not followed even when swapped in meanwhile."""

    def items() -> Items:
        try:
            descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError:
            raise InvalidRequest(f"{top} is not a directory") from None
        except OSError as error:
            raise InvalidRequest(f"{top} cannot be listed: {error.strerror}") from error
        yield from _below(descriptor, "")

    return items


def _below(descriptor: int, prefix: str) -> Items:
    """What lies in an open directory, which is closed at the end. Raises InvalidRequest for an unreadable root."""
    try:
        try:
            with os.scandir(descriptor) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if not prefix:
                raise InvalidRequest(f"the directory cannot be listed: {error.strerror}") from error
            yield _unlisted(prefix, error)
            return
        for entry in listed:
            yield from _entry(descriptor, entry, f"{prefix}/{entry.name}")
    finally:
        os.close(descriptor)


def _entry(parent: int, entry: os.DirEntry[str], path: str) -> Items:
    try:
        if entry.is_symlink():
            yield Problem(path, "a symbolic link")
        elif entry.name == ".git":
            yield Problem(path, GIT)
        elif entry.is_dir(follow_symlinks=False):
            yield from _directory(parent, entry.name, path)
        elif entry.is_file(follow_symlinks=False):
            yield _file(parent, entry.name, path)
        else:
            yield Problem(path, "neither a file nor a directory")
    except OSError as error:  # some file systems are asked for the kind of an entry, and may fail to tell
        yield _unread(path, error)


def _directory(parent: int, name: str, path: str) -> Items:
    if path.count("/") > MAX_SEGMENTS:
        # Each level below would hold one more descriptor, and nothing in it could be a memory.
        yield Problem(path, f"what lies in it would have a path of over {MAX_SEGMENTS} segments")
        return
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError as error:
        yield _unlisted(path, error)
        return
    yield from _below(descriptor, path)


def _file(parent: int, name: str, path: str) -> Item:
    problem = name_problem(path)
    if problem is not None:
        return problem
    try:
        # Not followed and not blocking: the entry may have been swapped for a link or a pipe since it was listed.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return Problem(path, "neither a file nor a directory")
            # What grows while it is read is judged by what was read of it.
            content = b"" if status.st_size > MAX_CONTENT_BYTES else file.read(MAX_CONTENT_BYTES + 1)
            return size_problem(path, max(status.st_size, len(content))) or File(path, content)
    except OSError as error:
        return _unread(path, error)


def _unread(path: str, error: OSError) -> Problem:
    return Problem(path, f"it cannot be read: {error.strerror}")


def _unlisted(path: str, error: OSError) -> Problem:
    return Problem(path, f"it cannot be listed: {error.strerror}")
