"""What an invariant is, and how who looks at one tells that it still does."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memfs.model.findings import Violation

Told = Callable[[int, int], None]
"""Told how many of how many rows are looked at."""

ROWS_A_TIME = 500
"""Rows between two signs of life."""


def quiet(_done: int, _total: int) -> None:
    """For who wants no signs of life."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """One thing that always holds. ``advice`` is what a person can do about what cannot be repaired."""

    name: str
    holds: str
    find: Callable[[sqlite3.Connection, Told], Iterator[Violation]]
    repair: Callable[[sqlite3.Connection], None] | None = None
    advice: str = ""
