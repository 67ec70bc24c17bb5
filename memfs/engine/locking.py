"""Transactions that hold the writer lock of a database, and how long they wait for it."""

import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from memfs.engine import opening
from memfs.engine.opening import is_busy

SCRUB_SECONDS = 300.0
"""How long a write waits where the lock is held by a scrub, which takes seconds for each gigabyte."""

SHORT_SECONDS = 0.1
"""A wait that is not worth to be taken from the time that a write waits at most."""


@contextmanager
def transaction(
    db: sqlite3.Connection,
    worth_waiting: Callable[[], bool] | None = None,
    began: float | None = None,
    patience: float = math.inf,
) -> Iterator[sqlite3.Connection]:
    """A transaction that holds the writer lock from its start; rolled back on any exception.

    ``worth_waiting`` is asked where the lock could not be had in the usual time, which counts from when its caller
    ``began`` to wait: several that wait one after the other would else wait many times that long. ``patience`` is in
    seconds.
    """
    start = time.monotonic()
    waited = 0.0 if began is None else start - began
    deadline = start - waited + SCRUB_SECONDS
    seconds = min(opening.LOCK_TIMEOUT_SECONDS - waited, patience)
    usual = waited <= SHORT_SECONDS and patience >= opening.LOCK_TIMEOUT_SECONDS
    left = nullcontext() if usual else waiting(db, max(0.0, seconds))
    while True:
        try:
            with left:
                db.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            if not is_busy(error) or worth_waiting is None or time.monotonic() > deadline or not worth_waiting():
                raise
            left = nullcontext()
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def waiting(db: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Wait for others' locks no longer than this."""
    db.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")
    try:
        yield
    finally:
        db.execute(f"PRAGMA busy_timeout = {opening.LOCK_TIMEOUT_SECONDS * 1000:.0f}")
