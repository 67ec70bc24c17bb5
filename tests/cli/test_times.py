"""Times and ages as people write them."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import click
import pytest

from memfs.cli.times import AGE, TIME_FROM, TIME_TO


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two hours east of UTC, without summer time."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XXX-2")
        time.tzset()
        yield
    time.tzset()


def from_(text: str) -> str:
    return TIME_FROM.convert(text, None, None)


def to(text: str) -> str:
    return TIME_TO.convert(text, None, None)


@pytest.mark.parametrize(
    "text, age",
    [
        ("30s", timedelta(seconds=30)),
        ("15m", timedelta(minutes=15)),
        ("2h", timedelta(hours=2)),
        ("30d", timedelta(days=30)),
        ("8w", timedelta(weeks=8)),
        (" 7 d ", timedelta(days=7)),
        ("0s", timedelta()),
        ("36500d", timedelta(days=36_500)),
    ],
)
def test_an_age(text: str, age: timedelta) -> None:
    assert AGE.convert(text, None, None) == age
    assert AGE.convert(age, None, None) == age, "click converts a default too"


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5h", "30x", "30 days", "1h30m", "9999999999s", "\udcff"])
def test_what_is_no_age(text: str) -> None:
    with pytest.raises(click.BadParameter, match="such as 30d"):
        AGE.convert(text, None, None)


@pytest.mark.parametrize("text", ["999999d", "99999999w", "999999999w"])
def test_an_age_that_reaches_back_too_far(text: str) -> None:
    with pytest.raises(click.BadParameter):
        AGE.convert(text, None, None)
    with pytest.raises(click.BadParameter):
        from_(text)


@pytest.mark.parametrize(
    "text, first, last",
    [
        # What a table shows has no fraction: the whole second is meant.
        ("2026-11-30T09:12:01Z", "2026-11-30T09:12:01.000000Z", "2026-11-30T09:12:01.999999Z"),
        # What JSON shows has one: that very moment.
        ("2026-11-30T09:12:01.000123Z", "2026-11-30T09:12:01.000123Z", "2026-11-30T09:12:01.000123Z"),
        ("2026-11-30T09:12:01.5Z", "2026-11-30T09:12:01.500000Z", "2026-11-30T09:12:01.500000Z"),
        ("2026-11-30T09:12:01,5Z", "2026-11-30T09:12:01.500000Z", "2026-11-30T09:12:01.500000Z"),
        ("2026-11-30T09:12Z", "2026-11-30T09:12:00.000000Z", "2026-11-30T09:12:59.999999Z"),
        ("2026-11-30T09:12:01+05:30", "2026-11-30T03:42:01.000000Z", "2026-11-30T03:42:01.999999Z"),
        ("2026-11-30T09:12:01-0800", "2026-11-30T17:12:01.000000Z", "2026-11-30T17:12:01.999999Z"),
        # Without a zone it is local time.
        ("2026-11-30", "2026-11-29T22:00:00.000000Z", "2026-11-30T21:59:59.999999Z"),
        ("2026-11-30 09:12", "2026-11-30T07:12:00.000000Z", "2026-11-30T07:12:59.999999Z"),
        ("2026-11-30T09:12:01", "2026-11-30T07:12:01.000000Z", "2026-11-30T07:12:01.999999Z"),
        (" 2026-02-28 ", "2026-02-27T22:00:00.000000Z", "2026-02-28T21:59:59.999999Z"),
        # Four digits of a year, so that text order is time order.
        ("0500-01-02T00:00Z", "0500-01-02T00:00:00.000000Z", "0500-01-02T00:00:59.999999Z"),
    ],
)
def test_a_time_and_all_that_is_meant_by_it(text: str, first: str, last: str) -> None:
    assert from_(text) == first
    assert to(text) == last


def test_an_age_is_so_long_ago() -> None:
    for convert in (from_, to):
        before = datetime.now(UTC)
        found = datetime.fromisoformat(convert("2h"))
        after = datetime.now(UTC)
        assert before <= found + timedelta(hours=2) <= after


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026",
        "2026-11",
        "2026-13-01",
        "2026-11-31",
        "2026-11-30T25:00Z",
        "2026-11-30T09Z",
        "20261130",
        "2026-W49-1",
        "2026-11-30T09:12:01Z now",
        "0001-01-01",
        "\udcff",
    ],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time: write one like"):
        from_(text)


def test_the_last_day_there_is_has_an_end_that_cannot_be_said() -> None:
    with pytest.raises(click.BadParameter):
        to("9999-12-31")
