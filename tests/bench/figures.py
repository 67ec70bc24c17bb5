"""Arithmetic: several measurements of one thing, and what two things measured in turns say of each other."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, quartiles and ends of some values."""

    median: float
    first_quartile: float
    third_quartile: float
    least: float
    greatest: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of at least one value. The quartiles are those of the values, not of what they are a sample of: with few of
        those, no quartile lies beyond the least or greatest."""
        if not values:
            raise ValueError("there is nothing to say of no value")
        first, third = (values[0], values[0])
        if len(values) > 1:
            first, _, third = quantiles(values, n=4, method="inclusive")
        return cls(median(values), first, third, min(values), max(values), len(values))

    def as_json(self) -> dict[str, Any]:
        """With the names of the fields."""
        return asdict(self)


def percentile(values: Sequence[float], percent: float) -> float:
    """The least of the values that so many percent are not above (nearest rank): one that was really measured."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Round by round, one contestant's time by another's. What else the machine did in a round was there for both."""
    return [mine / theirs for mine, theirs in zip(above, below, strict=True)]
