"""Scrubbing: writing the whole file anew, so that no byte of what was redacted or deleted is left in it."""

import sqlite3
import time
from contextlib import nullcontext, suppress
from pathlib import Path

from memfs.engine import opening
from memfs.engine.locking import waiting
from memfs.engine.opening import is_busy
from memfs.engine.rows import scrubs
from memfs.model.errors import Busy


def scrub(db: sqlite3.Connection, path: Path, *, anyway: bool, wait: bool) -> bool:
    """Do what ``Engine.scrub`` says with a connection that nobody else writes with meanwhile.

    Raises Busy where others keep an old state of the database, sqlite3.Error.
    """
    # Counted, so that what another process removes meanwhile is not taken for scrubbed.
    if anyway:
        db.execute("UPDATE workspace SET scrubs_wanted = scrubs_wanted + 1")
    wanted, done = scrubs(db)
    if wanted == done:
        return False
    try:
        _rewrite(db, path, wait=wait)
    except (Busy, sqlite3.Error):
        if anyway and wanted - 1 == done:
            # Only space was to be given back: nobody has to try that again before every command.
            with suppress(sqlite3.Error):
                db.execute("UPDATE workspace SET scrubs_done = ?1 WHERE scrubs_wanted = ?1", (wanted,))
        raise
    db.execute("UPDATE workspace SET scrubs_done = max(scrubs_done, ?)", (wanted,))
    return True


def _rewrite(db: sqlite3.Connection, path: Path, *, wait: bool) -> None:
    """Write the whole file anew, and leave nothing in the log."""
    try:
        with nullcontext() if wait else waiting(db, 0):
            db.execute("VACUUM")  # deleted cells leave copies in pages that were split or merged since
    except sqlite3.Error as error:
        if not is_busy(error):
            # What it wrote before it failed is in the log, perhaps in the last of the disk's space.
            with suppress(Busy, sqlite3.Error):
                _empty_log(db, path, 1.0)
        raise
    _empty_log(db, path, opening.LOCK_TIMEOUT_SECONDS if wait else 1.0)


def _empty_log(db: sqlite3.Connection, path: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    # Each try waits for readers with the writer lock held, so it has to be short, or all writers stand. Where
    # another process moves pages from the log, which it does after a large commit, SQLite does not wait at all.
    with waiting(db, min(seconds, 0.1)):
        while db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() >= deadline:
                raise Busy(
                    f"the log of {path} could not be emptied because another process reads an old state of"
                    " it: what was removed may still be there; run this again"
                )
            time.sleep(0.02)
