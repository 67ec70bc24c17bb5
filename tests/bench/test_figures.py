"""The benchmark's own arithmetic: spreads, ratios, bars, and how they are told."""

import math

import pytest

from tests.bench.bars import BARS, Bar
from tests.bench.contestants import NEEDLE, NEEDLES, texts
from tests.bench.figures import Spread, percentile, ratios
from tests.bench.report import as_markdown, as_text, bars_table, curve_table, number, spread, times_table
from tests.bench.rows import Curve, Row

FASTER = Bar("at least", 0.5, than="tmpfs")
SHORTER = Bar("at most", 20, "ms")


def test_a_spread_holds_median_quartiles_and_ends() -> None:
    found = Spread.of([5.0, 1.0, 4.0, 2.0, 3.0])
    assert (found.least, found.first_quartile, found.median, found.third_quartile, found.greatest) == (1, 2, 3, 4, 5)
    assert found.count == 5


def test_the_quartiles_of_few_values_lie_within_them() -> None:
    found = Spread.of([1.0, 9.0])
    assert (found.first_quartile, found.median, found.third_quartile) == (3, 5, 7)
    only = Spread.of([7.0])
    assert {only.first_quartile, only.median, only.third_quartile, only.least, only.greatest} == {7.0}


def test_there_is_no_spread_of_nothing() -> None:
    with pytest.raises(ValueError, match="no value"):
        Spread.of([])


@pytest.mark.parametrize("percent, expected", [(0, 1), (50, 50), (99, 99), (99.5, 100), (100, 100)])
def test_a_percentile_is_one_of_the_values(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], percent) == expected


def test_a_percentile_of_few_values_is_no_less_than_it_says() -> None:
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([3.0, 1.0, 2.0], 99) == 3.0
    assert percentile([3.0], 1) == 3.0


def test_ratios_are_those_of_rounds() -> None:
    # A round in which all was twice as slow says the same as the others.
    assert ratios([2.0, 4.0, 2.0], [1.0, 2.0, 1.0]) == [2.0, 2.0, 2.0]
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    "bar, value, met, by",
    [
        pytest.param(FASTER, 0.5, True, 1.0, id="just fast enough"),
        pytest.param(FASTER, 0.9, True, 1.0, id="faster"),
        pytest.param(FASTER, 0.25, False, 2.0, id="half as fast"),
        pytest.param(SHORTER, 20.0, True, 1.0, id="just short enough"),
        pytest.param(SHORTER, 30.0, False, 1.5, id="half as long again"),
        pytest.param(Bar("at most", 0, ""), 0.0, True, 1.0, id="none of none"),
        pytest.param(Bar("at most", 0, ""), 1.0, False, math.inf, id="one where none may be"),
    ],
)
def test_a_bar_says_whether_it_is_met_and_by_how_much_not(bar: Bar, value: float, met: bool, by: float) -> None:
    assert bar.met(value) is met
    assert bar.missed_by(value) == by
    assert (bar.verdict(value) == "met") is met


def test_bars_are_told_as_people_say_them() -> None:
    assert str(FASTER) == "at least 0.5 × tmpfs"
    assert str(SHORTER) == "at most 20 ms"
    assert FASTER.verdict(0.25) == "missed by 2.00 ×"
    assert BARS["change elsewhere, not seen by open"].verdict(3) == "missed"


@pytest.mark.parametrize(
    "value, expected",
    [(0.0, "0"), (0.0067, "0.007"), (0.5, "0.500"), (1.6, "1.60"), (41.79, "41.8"), (1597.8, "1,598")],
)
def test_numbers_have_the_digits_that_count(value: float, expected: str) -> None:
    assert number(value) == expected


def test_a_row_is_judged_by_its_median_unless_it_says_otherwise() -> None:
    row = Row("stat, warm", [0.7, 0.95, 0.99], BARS["stat, warm"])
    assert row.value == 0.95
    assert row.as_json()["met"] is True
    assert row.as_json()["missed_by"] is None
    row.judged = 0.45
    assert row.value == 0.45
    assert row.as_json()["missed_by"] == 2.0


def test_tables_show_each_row_with_its_bar_and_each_time_once() -> None:
    times = {"tmpfs": [1.0, 1.0], "memfs": [2.0, 4.0], "memfs ro": [2.0, 2.0]}
    rows = [
        Row("stat, warm", [0.5, 0.25], BARS["stat, warm"], times, "µs"),
        Row("stat, warm, read_only", [0.5, 0.5], BARS["stat, warm, read_only"], times, "µs"),
    ]
    assert bars_table(rows)[1] == ("stat, warm", "at least 0.9 × tmpfs", "0.375 (0.312–0.438) ×", "missed by 2.40 ×")
    assert times_table(rows) == [
        ("", "tmpfs", "memfs", "memfs ro"),
        ("stat, warm, µs", "1.00 (1.00–1.00)", "3.00 (2.50–3.50)", "2.00 (2.00–2.00)"),
    ]
    assert as_text([("a", "b"), ("ccc", "")]) == "a    b\nccc"
    assert as_markdown([("", "b"), ("c", "d")]) == "| | b |\n| --- | --- |\n| c | d |"
    assert spread([3.0]) == "3.00"


def test_a_curve_keeps_its_values() -> None:
    curve = Curve("reading", "bytes", "µs")
    curve.add("memfs", 100, [1.0, 2.0, 3.0])
    curve.add("memfs", 1_000, [5.0])
    points = curve.as_json()["series"]["memfs"]
    assert [(point["size"], point["median"]) for point in points] == [(100, 2.0), (1_000, 5.0)]
    assert points[0]["values"] == [1.0, 2.0, 3.0]
    curve.add("tmpfs", 1_000, [0.5])
    assert curve_table(curve) == [
        ("reading, µs", "100", "1,000"),
        ("memfs", "2.00", "5.00"),
        ("tmpfs", "", "0.500"),
    ]


def test_texts_differ_have_their_size_and_hold_needles() -> None:
    made = texts(2_000, 2_000)
    assert len(made) == 2_000
    assert {len(text) for text in made.values()} == {2_000}
    assert len(set(made.values())) == 2_000
    assert sum(NEEDLE.encode() in text for text in made.values()) == 2_000 // NEEDLES
    assert [path for path in made if path.startswith("/d0/")] == [f"/d0/note-{n:04}.md" for n in range(500)]
    assert texts(2_000, 2_000) == made
