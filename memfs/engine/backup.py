"""Backing a database up while it is in use: a copy of one moment, checked, in a file that is there whole or not at all.

What was redacted or deleted for good does not come back with it: where the file may still hold remains that were not
scrubbed, the copy is written anew without them, and where something is redacted during the copying, it begins again.
"""

import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from memfs.engine import opening
from memfs.engine.checking import Stage, check, require_file, silent
from memfs.engine.copying import COMPANIONS, copy_pages, placed_file
from memfs.engine.invariants import database
from memfs.engine.rows import scrubs
from memfs.model.errors import Busy, InvalidRequest, NotFound, UnusableDatabase
from memfs.model.findings import Checked

ATTEMPTS = 5
"""How often a copy is begun anew because something was redacted meanwhile."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy that was checked. ``checked`` is None where an older memfs has made the database: then SQLite alone has
    looked at it."""

    file: Path
    size_bytes: int
    checked: Checked | None


def back_up(path: Path, target: Path, *, replace: bool = False, stage: Stage = silent) -> Backup:
    """Copy the database at ``path`` into the file ``target`` (0600).

    Raises NotFound, UnusableDatabase where there is no database of memfs, or its copy is not sound, InvalidRequest
    where ``target`` is there already and may not be replaced, Busy where things are redacted all the time,
    StorageFailed. In all these cases ``target`` is as it was.
    """
    require_file(path)
    target = Path(os.path.realpath(target))
    _check_target(Path(os.path.realpath(path)), target, replace=replace)
    with placed_file(target, replace=replace) as file:
        with opening.translated(path), closing(opening.connect(path, "ro")) as source:
            needed = opening.check(path, source)
            if "0001_workspace" in needed:
                raise NotFound(f"{path} is empty: there is nothing to back up")
            counts_scrubs = "0002_upkeep" not in needed
            _copy(path, source, target, file, stage, counts_scrubs=counts_scrubs)
        with opening.translated(target):
            if counts_scrubs:
                _scrub(file)
            found = _sqlite_s_check(file) if needed else check(file, stage)
        if found.violations:
            first = found.violations[0]
            raise UnusableDatabase(
                f"{path} is not sound ({first.invariant}: {first.found}), and was not backed up: see 'memfs check'; to"
                " keep it as it is, end what uses it and copy it together with the -wal beside it"
            )
        size = file.stat().st_size
    return Backup(target, size, None if needed else found)


def _copy(
    path: Path, source: sqlite3.Connection, target: Path, file: Path, stage: Stage, *, counts_scrubs: bool
) -> None:
    for _ in range(ATTEMPTS):
        wanted = _scrubs(source)[0] if counts_scrubs else 0
        with opening.translated(target):
            copy_pages(source, file, lambda done, total: stage("copying", done, total))
        if not counts_scrubs or _scrubs(source)[0] == wanted:
            return
    raise Busy(f"something was redacted or deleted in {path} each time that it was copied: try again")


def _scrubs(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many scrubs were wanted, and done."""
    wanted, done = scrubs(connection)
    return wanted, done


def _scrub(file: Path) -> None:
    """Leave nothing in a copy that nobody else has open of what was removed in the database."""
    with closing(opening.connect(file, "rw", alone=True)) as copy:
        wanted, done = _scrubs(copy)
        if wanted > done:
            copy.execute("VACUUM")
            copy.execute("UPDATE workspace SET scrubs_done = scrubs_wanted")
            copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _sqlite_s_check(file: Path) -> Checked:
    with closing(opening.connect(file, "ro", untouched=True)) as copy:
        return Checked(list(database.file(copy)))


def _check_target(path: Path, target: Path, *, replace: bool) -> None:
    """Refuse what would replace something else than an earlier backup. Raises InvalidRequest."""
    if target in (path, *(path.with_name(path.name + end) for end in COMPANIONS)):
        raise InvalidRequest(f"{target} is the database itself: choose another name")
    if not target.parent.is_dir():
        raise InvalidRequest(f"there is no directory {target.parent}: make it first")
    try:
        mode = target.lstat().st_mode
    except OSError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        raise InvalidRequest(f"{target} is {'a directory' if stat.S_ISDIR(mode) else 'no file'}: name a file")
    if mode is not None and not replace:
        raise InvalidRequest(f"{target} is there already: choose another name, or --force to replace it")
    for end in COMPANIONS:
        if (other := target.with_name(target.name + end)).exists():
            raise InvalidRequest(f"{other} is there, and would be taken for a part of the backup: choose another name")
