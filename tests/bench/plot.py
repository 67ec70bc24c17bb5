"""Plots: how far each row is from its bar, and the scaling curves.

With pygal, and not with a library that is built on numpy: sqlite-utils imports that wherever it is installed, and every
worker of memfs that is measured would be 8 MB larger.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pygal
from pygal.style import DefaultStyle

from tests.bench.figures import Spread
from tests.bench.rows import Curve, Row

LEAST = 1e-3
"""What is drawn for a value that is infinitely far from its bar: the axis is logarithmic."""

MET, MISSED = "#2a7f3f", "#b3261e"

COMMON: dict[str, Any] = {"style": DefaultStyle, "js": (), "disable_xml_declaration": True}
"""Without the script that pygal's pages load from elsewhere."""


def draw(rows: Sequence[Row], curves: Sequence[Curve], directory: Path) -> list[Path]:
    """Write SVG files: bars.svg, and one for each curve; returns them."""
    written = [directory / "bars.svg"]
    written[0].write_text(_bars(rows))
    for curve in curves:
        written.append(directory / f"curve-{slug(curve.name)}.svg")
        written[-1].write_text(_curve(curve))
    return written


def slug(name: str) -> str:
    """A name as part of a file's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def goodness(row: Row) -> float:
    """How many times as good as the bar asks; under 1 where it is missed, 0 where nothing but its limit is enough."""
    if not row.bar.limit:
        return 1.0 if row.bar.met(row.value) else 0.0
    return row.value / row.bar.limit if row.bar.sense == "at least" else row.bar.limit / row.value


def _bars(rows: Sequence[Row]) -> str:
    chart = pygal.HorizontalBar(
        title="times as good as its bar asks: at 1 a row just meets it",
        show_legend=False,
        logarithmic=True,
        height=60 + 40 * len(rows),
        value_formatter=lambda value: f"{value:.3g}",
        print_values=True,
        **COMMON,
    )
    chart.y_labels = [10.0**exponent for exponent in range(-3, 2)]
    values = [max(LEAST, goodness(row)) for row in rows][::-1]
    chart.x_labels = [row.work for row in rows][::-1]
    chart.add("", [{"value": value, "color": MET if value >= 1 else MISSED} for value in values])
    rendered: str = chart.render(is_unicode=True)
    return rendered


def _curve(curve: Curve) -> str:
    medians = {
        name: [(size, Spread.of(values).median) for size, values in points] for name, points in curve.series.items()
    }
    heights = [value for points in medians.values() for _, value in points]
    chart = pygal.XY(
        title=curve.name,
        x_title=curve.size,
        y_title=curve.unit,
        logarithmic=max(heights) > 20 * min(heights),
        legend_at_bottom=True,
        dots_size=3,
        value_formatter=lambda value: f"{value:,.4g}",
        x_value_formatter=lambda exponent: f"{10**exponent:,.0f}",
        **COMMON,
    )
    # pygal has a logarithmic axis for values alone, so sizes are given to it as their exponents.
    sizes = sorted({size for points in medians.values() for size, _ in points})
    chart.x_labels = [{"value": math.log10(size), "label": f"{size:,}"} for size in sizes]
    for name, points in medians.items():
        chart.add(name, [(math.log10(size), value) for size, value in points])
    rendered: str = chart.render(is_unicode=True)
    return rendered
