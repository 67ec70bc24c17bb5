"""A database as one file: copying the pages of one that is in use, and files that are there whole, or not at all."""

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from memfs.model.errors import InvalidRequest, StorageFailed

PAGES_A_STEP = 1_000
"""Pages (4 MB) between two signs of life."""

COMPANIONS = ("-wal", "-shm", "-journal")
"""What SQLite takes for a part of the database before whose name it has."""

Told = Callable[[int, int], None]
"""Told how many of how many pages are copied."""


def copy_pages(source: sqlite3.Connection, target: Path, told: Told) -> None:
    """Copy the state of a database at this moment into an empty file.

    In a read transaction: without one SQLite's backup begins anew whenever another process has written between two
    steps, and does not end while somebody keeps writing. Nobody waits for the reader, but the log grows meanwhile.
    """
    source.execute("BEGIN")
    try:
        source.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the transaction begins with what is read
        with closing(sqlite3.connect(target, isolation_level=None)) as copy:
            source.backup(copy, pages=PAGES_A_STEP, progress=lambda _status, left, total: told(total - left, total))
    finally:
        source.execute("ROLLBACK")


@contextmanager
def placed_file(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """A new empty file (0600) beside ``target`` to fill, which becomes ``target`` when the block ends well.

    By then it is on the disk, and so is its name. An exception leaves nothing behind, and ``target`` as it was. Without
    ``replace`` a file that is there by then, whoever has made it, stays. Raises InvalidRequest, StorageFailed.
    """
    filled = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}.part")
    try:
        os.close(os.open(filled, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StorageFailed(f"cannot write to {target.parent}: {error.strerror}") from error
    try:
        yield filled
        try:
            _sync(filled)
            _name(filled, target, replace=replace)
            _sync(target.parent)
        except FileExistsError:
            raise InvalidRequest(
                f"{target} is there already: choose another name, or replace it with --force"
            ) from None
        except OSError as error:
            raise StorageFailed(f"cannot write {target}: {error.strerror}") from error
    finally:
        for end in ("", *COMPANIONS):
            with suppress(FileNotFoundError):
                filled.with_name(filled.name + end).unlink()


def _name(filled: Path, target: Path, *, replace: bool) -> None:
    if not replace:
        try:
            os.link(filled, target)  # a rename would replace what is there
        except PermissionError:
            # A file system without links, such as FAT: somebody may be faster between the two, but nobody is there.
            if target.exists():
                raise FileExistsError from None
        else:
            return
    os.rename(filled, target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
