"""What a look at the system or at a database found, what to do about it, and what a check of every row found."""

from dataclasses import dataclass
from typing import Literal

FindingState = Literal["ok", "warning", "missing"]
"""``missing``: what it is good for does not work. ``warning``: it works, but not for everything, or not for long."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """Its name, which stays the same from version to version."""
    state: FindingState
    found: str
    good_for: str
    next_step: str = ""
    """What to do; empty where nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant of a database that does not hold, at one place of it."""

    invariant: str
    """Its name, which stays the same from version to version."""
    found: str
    store_id: str | None = None
    memory_id: str | None = None
    version_id: str | None = None
    path: str | None = None
    repair: str = ""
    """What a repair does; empty where that could only invent data."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of a whole database found, and how much there was to look at."""

    violations: list[Violation]
    stores: int = 0
    memories: int = 0
    versions: int = 0
    texts: int = 0
