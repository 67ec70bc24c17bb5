"""The bars: what DESIGN.md ("What it must be fast at") asks, and whether a measured value meets it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Bar:
    """A limit for one value, which is a ratio where ``than`` names what memfs is compared with."""

    sense: Literal["at least", "at most"]
    limit: float
    unit: str = "×"
    than: str = ""

    def met(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value >= self.limit if self.sense == "at least" else value <= self.limit

    def missed_by(self, value: float) -> float:
        """How many times better it would have to be: 1.5 where a time is 1.5 times the limit; 1 where it is met.

        Infinite where nothing is enough, as with a limit of 0.
        """
        if self.met(value):
            return 1.0
        worse, better = (value, self.limit) if self.sense == "at most" else (self.limit, value)
        return worse / better if better else float("inf")

    def __str__(self) -> str:
        if self.limit == 0:
            return "none"
        limit = f"{self.limit:g} {self.unit}".rstrip()
        return f"{self.sense} {limit} {self.than}".rstrip()

    def verdict(self, value: float) -> str:
        """For people."""
        if self.met(value):
            return "met"
        by = self.missed_by(value)
        return "missed" if by == float("inf") else f"missed by {by:.2f} ×"


TMPFS = "tmpfs"
PASSTHROUGH = "passthrough"

BARS: dict[str, Bar] = {
    "stat, warm": Bar("at least", 0.9, than=TMPFS),
    "stat, warm, read_only": Bar("at least", 0.9, than=TMPFS),
    "open-read-close, warm, read_only": Bar("at least", 0.5, than=TMPFS),
    "open-read-close, warm, read_write": Bar("at least", 0.6, than=PASSTHROUGH),
    "create-write-close": Bar("at least", 1.0, than=PASSTHROUGH),
    "list and stat 500, warm": Bar("at least", 0.5, than=TMPFS),
    "grep -r over 2,000, cold": Bar("at most", 3.0, than=PASSTHROUGH),
    "grep -r over 2,000, warm": Bar("at most", 1.5, than=PASSTHROUGH),
    "8 stores of 2,000: command to ready": Bar("at most", 1.5, "s"),
    "change elsewhere to stat here: p99": Bar("at most", 20, "ms"),
    "change elsewhere, not seen by open": Bar("at most", 0, ""),
    "head operations, long history": Bar("at most", 1.2, than="an empty one"),
    "resident memory for a store of 2,000": Bar("at most", 40, "MB"),
}
"""By row of the table. A bar on speed (at least) compares the other's time with ours, one on time (at most) ours with
the other's."""
