"""What a look at the system or at a database found, and what to do about it."""

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
