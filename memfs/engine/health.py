"""The health of a database: whether it can be read, is whole and consistent, and has room to go on.

Looking changes nothing: where no other process has the database open, not even the files that SQLite keeps beside one
are made.
"""

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from memfs.engine import opening
from memfs.engine.invariants import live, versions
from memfs.engine.rows import scrubs
from memfs.model.errors import MemfsError
from memfs.model.findings import Finding

CHECK_SECONDS = 30.0
"""How long reading the whole file may take; some 10 GB from a disk that gives 400 MB a second."""

LARGE_LOG = 64 * 1024 * 1024
"""Bytes of a WAL that somebody's long read must have kept from being moved into the database."""

LEAST_FREE = 100 * 1024 * 1024
"""Bytes that should be free beside a database."""

_OPENS = "everything: stores, memories and their history"
_WHOLE = "trusting what is read"
_PRIVATE = "keeping memories from other users of this machine"
_SCRUBBED = "redaction and deletion: that nothing of it is left in the file"
_LOG = "fast reads, and space on the disk"
_SPACE = "writing, and redaction, which writes the file anew"

_DAMAGED = (
    "'memfs check' says what and where, and what can be repaired; for the rest unmount what uses it, keep a copy of it"
    " and of the -wal beside it, and restore a backup; what can still be read comes out with 'memfs store export' and"
    " 'memfs version export'"
)


def examine(path: Path, *, seconds: float = CHECK_SECONDS, least_free: int = LEAST_FREE) -> list[Finding]:
    """What is found of the database at ``path``. Never raises for what is wrong with it."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return [
            Finding("database", "warning", f"there is none at {path}", _OPENS, "'memfs store create NAME' makes it"),
        ]
    except OSError as error:
        step = f"get access to {path}, or name another database with --db"
        return [Finding("database", "missing", f"{path}: {error.strerror}", _OPENS, step)]
    if not stat.S_ISREG(status.st_mode):
        what = "is a directory" if stat.S_ISDIR(status.st_mode) else "is no file"
        return [Finding("database", "missing", f"{path} {what}", _OPENS, "name the database's file with --db")]
    return [*_inside(path, seconds), *_around(path, status, least_free)]


def _inside(path: Path, seconds: float) -> list[Finding]:
    try:
        with opening.translated(path):
            return opening.ask_quietly(
                path,
                lambda connection, _untouched: list(_asked(path, connection, seconds)),
                sure=lambda found: all(each.state == "ok" for each in found),
            )
    except MemfsError as error:
        step = _DAMAGED if "damaged" in str(error) else "as it says, or name another database with --db"
        return [Finding("database", "missing", str(error), _OPENS, step)]


def _asked(path: Path, connection: sqlite3.Connection, seconds: float) -> Iterator[Finding]:
    needed = opening.check(path, connection)
    if "0001_workspace" in needed:
        yield Finding("database", "warning", f"{path} is empty", _OPENS, "'memfs store create NAME' makes one of it")
        return
    if needed:
        step = "'memfs store list' brings it up to date; an older memfs cannot open it then"
        yield Finding("database", "warning", f"{path}, made by an older memfs", _OPENS, step)
    else:
        yield Finding("database", "ok", os.fspath(path), _OPENS)
    yield _whole(path, connection, seconds, current=not needed)
    if needed:
        return
    wanted, done = scrubs(connection)
    if wanted > done:
        text = "what was redacted or deleted may still be in the file"
        step = "'memfs store list' ends what could not be ended: no process may have an old state of it open meanwhile"
        yield Finding("database-scrub", "warning", text, _SCRUBBED, step)
    else:
        yield Finding("database-scrub", "ok", "nothing is pending", _SCRUBBED)


def _whole(path: Path, connection: sqlite3.Connection, seconds: float, *, current: bool) -> Finding:
    """SQLite's own quick check, references that lead nowhere, and two of the invariants: enough to send somebody to the
    check of all of them."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    wrong = []
    try:
        wrong += [said for (said,) in connection.execute("PRAGMA quick_check(3)") if said != "ok"]
        lost = len(connection.execute("PRAGMA foreign_key_check").fetchall())
        if lost:
            wrong.append(f"{lost} rows refer to others which are not there")
        for find, what in (
            (live.heads, "memories that differ from their newest version"),
            (versions.texts, "versions that differ from their content"),
        ):
            count = sum(1 for _ in find(connection)) if current else 0
            if count:
                wrong.append(f"{count} {what}")
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT:
            step = f"look at it alone: sqlite3 {path} 'PRAGMA quick_check'"
            return Finding("database-content", "warning", f"not read to the end in {seconds:.0f} s", _WHOLE, step)
        if code != sqlite3.SQLITE_CORRUPT:
            raise
        wrong.append(str(error))
    finally:
        connection.set_progress_handler(None, 0)
    if wrong:
        return Finding("database-content", "missing", "; ".join(wrong).replace("\n", " "), _WHOLE, _DAMAGED)
    return Finding("database-content", "ok", "whole and consistent", _WHOLE)


def _around(path: Path, status: os.stat_result, least_free: int) -> Iterator[Finding]:
    """What the file system says."""
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        step = f"chmod 600 {path}, unless that is meant"
        yield Finding("database-mode", "warning", f"other users may open it (mode {mode:o})", _PRIVATE, step)
    else:
        yield Finding("database-mode", "ok", f"its owner's alone (mode {mode:o})", _PRIVATE)
    try:
        log = opening.log_of(path).stat().st_size
    except OSError:
        log = 0
    if log > LARGE_LOG:
        step = "end what has been reading for long; the log is emptied when the last process lets go of the database"
        yield Finding("database-log", "warning", f"{_megabytes(log)} in the -wal", _LOG, step)
    else:
        yield Finding("database-log", "ok", f"{_megabytes(log)} in the -wal", _LOG)
    try:
        there = os.statvfs(path)
    except OSError as error:
        step = f"make sure that {path.parent} can be read"
        yield Finding("database-space", "warning", f"not known: {error.strerror}", _SPACE, step)
        return
    free, needed = there.f_bavail * there.f_frsize, max(least_free, 2 * status.st_size)
    if free < needed:
        # VACUUM writes a second file, and then the log with all of it.
        step = f"make room beside {path}: {_megabytes(needed)} should be free"
        yield Finding("database-space", "warning", f"{_megabytes(free)} are free", _SPACE, step)
    else:
        yield Finding("database-space", "ok", f"{_megabytes(free)} are free", _SPACE)


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB" if size < 100_000_000 else f"{size // 1_000_000:,} MB"
