"""The figures for people: tables as text and in Markdown."""

from collections.abc import Sequence

from tests.bench.figures import Spread
from tests.bench.rows import Curve, Row


def number(value: float) -> str:
    """Three digits that count, and none after the point where it has three before it."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3}f}"


def spread(values: Sequence[float]) -> str:
    """Median and quartiles."""
    found = Spread.of(values)
    if found.count == 1:
        return number(found.median)
    return f"{number(found.median)} ({number(found.first_quartile)}–{number(found.third_quartile)})"


def measured(row: Row) -> str:
    """What is held against the bar."""
    unit = f" {row.bar.unit}".rstrip()
    if row.work == "change elsewhere, not seen by open":
        return f"{row.value:.0f} of {row.notes['opened']}"
    if row.judged is None:
        return f"{spread(row.values)}{unit}"
    if "percentiles_ms" in row.notes:
        figures = row.notes["percentiles_ms"]
        return f"{number(row.judged)}{unit}; p50 {number(figures['p50'])}, max {number(figures['max'])}"
    worst = max(row.notes["operations"], key=row.notes["operations"].get)
    return f"{number(row.judged)}{unit}, the most: {worst}"


def bars_table(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Work, bar, what was measured, and whether that is enough."""
    lines: list[tuple[str, ...]] = [("work", "bar", "measured", "")]
    return lines + [(row.work, str(row.bar), measured(row), row.bar.verdict(row.value)) for row in rows]


def times_table(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The times behind the ratios: a line for each row, a column for each contestant."""
    compared = [row for row in rows if row.bar.than in row.times]
    names = list(dict.fromkeys(name for row in compared for name in row.times))
    lines: list[tuple[str, ...]] = [("", *names)]
    seen: list[dict[str, list[float]]] = []
    for row in compared:
        if row.times in seen:
            continue  # two bars on the same times
        seen.append(row.times)
        cells = (spread(row.times[name]) if name in row.times else "" for name in names)
        lines.append((f"{row.work.partition(', read_')[0]}, {row.unit}", *cells))
    return lines


def memory_table(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Memory of a worker, in MB."""
    (row,) = (row for row in rows if row.unit == "MB")
    return [("memory of a worker, MB", ""), *((name, spread(values)) for name, values in row.times.items())]


def curve_table(curve: Curve) -> list[tuple[str, ...]]:
    """The medians of a curve: a line for each series, a column for each size."""
    sizes = sorted({size for points in curve.series.values() for size, _ in points})
    lines: list[tuple[str, ...]] = [(f"{curve.name}, {curve.unit}", *(f"{size:,}" for size in sizes))]
    for name, points in curve.series.items():
        values = {size: number(Spread.of(values).median) for size, values in points}
        lines.append((name, *(values.get(size, "") for size in sizes)))
    return lines


def tables(rows: Sequence[Row], curves: Sequence[Curve] = ()) -> list[list[tuple[str, ...]]]:
    """All of them."""
    return [bars_table(rows), times_table(rows), memory_table(rows), *map(curve_table, curves)]


def as_text(lines: Sequence[tuple[str, ...]]) -> str:
    """Columns of equal width."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def as_markdown(lines: Sequence[tuple[str, ...]]) -> str:
    """A table of a page."""
    rows = [*lines[:1], ("---",) * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in rows)
