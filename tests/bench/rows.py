"""What was measured: lines of the table, and curves."""

from dataclasses import dataclass, field
from typing import Any

from tests.bench.bars import Bar
from tests.bench.figures import Spread


@dataclass(slots=True)
class Row:
    """One line of the table: the value that is held against the bar, and the times behind it by contestant."""

    work: str
    values: list[float]
    bar: Bar
    times: dict[str, list[float]] = field(default_factory=dict)
    """In ``unit``."""
    unit: str = ""
    notes: dict[str, Any] = field(default_factory=dict)
    judged: float | None = None
    """Where it is not the median that is held against the bar."""

    @property
    def value(self) -> float:
        """What is held against the bar."""
        return Spread.of(self.values).median if self.judged is None else self.judged

    def as_json(self) -> dict[str, Any]:
        return {
            "work": self.work,
            "bar": {"sense": self.bar.sense, "limit": self.bar.limit, "unit": self.bar.unit, "than": self.bar.than},
            "value": self.value,
            "spread": Spread.of(self.values).as_json(),
            "met": self.bar.met(self.value),
            "missed_by": None if self.bar.met(self.value) or not self.bar.limit else self.bar.missed_by(self.value),
            "unit": self.unit,
            "times": {name: {**Spread.of(each).as_json(), "values": each} for name, each in self.times.items()},
            **self.notes,
        }


@dataclass(slots=True)
class Curve:
    """How something changes with one size: by series, points of (size, values)."""

    name: str
    size: str
    unit: str
    series: dict[str, list[tuple[int, list[float]]]] = field(default_factory=dict)

    def add(self, series: str, size: int, values: list[float]) -> None:
        """Add a point."""
        self.series.setdefault(series, []).append((size, values))

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "size": self.size,
            "unit": self.unit,
            "series": {
                name: [{"size": size, **Spread.of(values).as_json(), "values": values} for size, values in points]
                for name, points in self.series.items()
            },
        }
