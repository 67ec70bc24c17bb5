"""Checking a whole database against its invariants, and repairing it.

A check reads one state of the database, whatever is written meanwhile, and holds no writer up. It changes nothing, and
makes no file beside a database that nobody has open. A repair needs the database for itself.
"""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from memfs.engine import opening
from memfs.engine.copying import copy_pages, placed_file
from memfs.engine.damage import LONGEST, shown
from memfs.engine.invariants import INVARIANTS, Invariant
from memfs.model.errors import Busy, NotFound, StorageFailed, UnusableDatabase
from memfs.model.findings import Checked, Violation

MOST = 100
"""Violations of one invariant that are told one by one."""

Stage = Callable[[str, int, int], None]
"""Told what is looked at, and how many of how many there are done."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """For who wants no signs of life."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair found, what is left, and where everything is as it was before; None where nothing was repaired."""

    before: Checked
    after: Checked
    backup: Path | None


def check(path: Path, stage: Stage = silent) -> Checked:
    """Look at everything in the database at ``path``.

    Raises NotFound where there is none, UnusableDatabase where it cannot be read as one of this memfs at all.
    """
    require_file(path)

    def look(connection: sqlite3.Connection, untouched: bool) -> Checked:
        opening.require_current(path, connection)
        in_wal_mode = _file_is_in_wal_mode(path) if untouched else _is_in_wal_mode(connection)
        return checked(connection, stage, in_wal_mode=in_wal_mode)

    with opening.translated(path):
        return opening.ask_quietly(path, look, sure=lambda found: not found.violations)


def checked(db: sqlite3.Connection, stage: Stage = silent, *, in_wal_mode: bool = True) -> Checked:
    """What a check finds through a connection: one state of the database, unless a transaction is open already."""
    found: list[Violation] = []
    own = not db.in_transaction
    if own:
        db.execute("BEGIN")
    # What is no UTF-8 is for the check to tell, not for SQLite to refuse.
    db.text_factory = lambda data: data.decode(errors="surrogateescape")
    try:
        if not in_wal_mode:
            said = "the file is not in WAL mode: whoever reads it holds writers up"
            found.append(Violation("journal", said, repair="switches it"))
        for number, invariant in enumerate(INVARIANTS):
            stage(invariant.name, number, len(INVARIANTS))
            found += _violations(db, invariant, stage)
        return Checked(found, *_counts(db))
    finally:
        db.text_factory = str
        if own:
            db.execute("ROLLBACK")


def _violations(db: sqlite3.Connection, invariant: Invariant, stage: Stage) -> list[Violation]:
    """The first violations of an invariant, and how many more there are."""
    found: list[Violation] = []
    more = repairable = 0
    try:
        for each in invariant.find(db, lambda done, total: stage(invariant.name, done, total)):
            if len(found) < MOST:
                found.append(_told(each))
            else:
                more += 1
                repairable += bool(each.repair)
    except sqlite3.DatabaseError as error:
        if not _says_damaged(error):
            raise
        # Where and why is told by the checks of the file and of the schema; here only what could not be looked at.
        found.append(Violation(invariant.name, f"not looked at to the end: {error}"))
    if more:
        repair = "all of them" if repairable == more else ""
        found.append(Violation(invariant.name, f"and {more:,} more", repair=repair))
    return found


def _told(violation: Violation) -> Violation:
    """With texts only, and none without end: in a damaged row, an id or a path may be anything."""
    places = {
        name: shown(value)
        for name in ("store_id", "memory_id", "version_id", "path")
        if (value := getattr(violation, name)) is not None
    }
    found = violation.found
    return replace(violation, found=found if len(found) <= LONGEST else f"{found[:LONGEST]}…", **places)


def _counts(db: sqlite3.Connection) -> Iterator[int]:
    for table in ("memory_stores", "memories", "memory_versions", "contents"):
        try:
            yield db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if not _says_damaged(error):
                raise
            yield 0


def _says_damaged(error: sqlite3.DatabaseError) -> bool:
    """Whether it is for what is in the file: a page that makes no sense, or a table or column that is not there."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)


def repair(path: Path, stage: Stage = silent) -> Repaired:
    """Put right what can be without inventing data, in one transaction, with a copy of the file from before beside it.

    Raises NotFound and UnusableDatabase as ``check``, Busy where anybody else has the database open, StorageFailed
    where it is damaged in a way that writing to it could make worse. In all these cases nothing was changed.
    """
    require_file(path)
    with opening.translated(path), _alone(path) as connection:
        opening.require_current(path, connection)
        before = checked(connection, stage, in_wal_mode=_is_in_wal_mode(connection))
        if not any(each.repair for each in before.violations):
            return Repaired(before, before, None)
        if any(each.invariant in ("file", "schema") and not each.repair for each in before.violations):
            raise UnusableDatabase(
                f"{path} is damaged, and writing to it could make that worse; nothing was changed: restore a backup, or"
                " take out what can be read with 'memfs store export' and 'memfs version export'"
            )
        backup = _keep(path, connection, stage)
        connection.execute("BEGIN IMMEDIATE")
        try:
            for number, invariant in enumerate(INVARIANTS):
                stage(f"repairing {invariant.name}", number, len(INVARIANTS))
                if invariant.repair is not None:
                    invariant.repair(connection)
            after = checked(connection, stage)
            if worse := _news(before, after):
                raise StorageFailed(
                    f"the repair would have broken something else, and was taken back: {worse[0].invariant}:"
                    f" {worse[0].found}; the database is as it was"
                )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("PRAGMA journal_mode = WAL")
    return Repaired(before, after, backup)


def _news(before: Checked, after: Checked) -> list[Violation]:
    """Violations of invariants that held before."""
    known = {each.invariant for each in before.violations}
    return [each for each in after.violations if each.invariant not in known]


def _keep(path: Path, connection: sqlite3.Connection, stage: Stage) -> Path:
    """A copy of the database as it is, faults and all; returns where."""
    name = f"{path.name}.before-repair-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    target = path.absolute().with_name(name)
    with placed_file(target) as file:
        copy_pages(connection, file, lambda done, total: stage("copying", done, total))
    return target


@contextmanager
def _alone(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection beside which there is no other, in this or any other process, and none can be made."""
    try:
        connection = opening.connect(path, "rw", alone=True)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        if not opening.is_busy(error):
            raise
        holders = _holders(path)
        whose = f" (process {', '.join(map(str, holders))})" if holders else ""
        raise Busy(
            f"a repair needs {path} for itself, and something has it open{whose}: unmount its stores ('memfs status'"
            " and 'memfs umount'), end 'memfs serve' and whatever else reads it, and try again"
        ) from error
    with closing(connection):
        # Nothing may go along with a row that is taken out.
        connection.execute("PRAGMA foreign_keys = OFF")
        yield connection


def _holders(path: Path) -> list[int]:
    """Other processes that have the file open, as far as this user may know."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name == str(os.getpid()):
            continue
        try:
            links = {os.readlink(link) for link in (entry / "fd").iterdir()}
        except OSError:
            continue  # ended, or another user's
        if os.path.realpath(path) in links:
            found.append(int(entry.name))
    return sorted(found)


def require_file(path: Path) -> None:
    """Refuse what is no file. Raises NotFound, UnusableDatabase, StorageFailed."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise NotFound(f"there is no database at {path}: name one with --db") from None
    except OSError as error:
        raise StorageFailed(f"the database {path} cannot be reached: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise UnusableDatabase(f"{path} is {'a directory' if path.is_dir() else 'no file'}: name the database's file")


_MODES_AT, _WAL = 18, b"\x02\x02"
"""Where a file says which versions of SQLite's formats write and read it, and both in WAL mode."""


def _is_in_wal_mode(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA journal_mode").fetchone() == ("wal",))


def _file_is_in_wal_mode(path: Path) -> bool:
    """The same of a file that nobody has open: a connection that touches nothing beside it says that there is no log.

    Never while this process has a connection to it: closing any descriptor of a file lets go of all locks on it.
    """
    with path.open("rb") as file:
        file.seek(_MODES_AT)
        return file.read(len(_WAL)) == _WAL
