"""Times and ages as people write them on a command line."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from memfs.model.records import format_time

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(\d{1,9})\s*([smhdw])")
# What fromisoformat() takes, but for its rarer forms; the fraction tells how exact a time is meant.
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?P<clock>[T ]\d\d:\d\d(?P<second>:\d\d(?P<fraction>[.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?)?"
)


def _age(text: str) -> timedelta | None:
    """None for what is none. Raises OverflowError for one that reaches back before the year 1."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        return None
    age = timedelta(**{_UNITS[found[2]]: int(found[1])})
    _ = datetime.now(UTC) - age
    return age


class AgeType(click.ParamType[timedelta]):
    """An age: a number and s, m, h, d or w, such as ``30d``; a timedelta."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Raises click.BadParameter."""
        if isinstance(value, timedelta):
            return value
        try:
            age = _age(value)
        except OverflowError:  # longer than a timedelta can be
            age = None
        if age is None:
            self.fail(f"{value!r} is no age: write a number and s, m, h, d or w, such as 30d", param, ctx)
        return age


class TimeType(click.ParamType[str]):
    """A point in time: RFC 3339 text, or an age such as ``2h`` (that long ago).

    Without a zone it is local time. What is left out of a time means its first moment, or with ``end`` its last: the
    whole second, minute or day. So a time that a table shows without its fraction still covers what happened in it.
    """

    name = "time"

    def __init__(self, *, end: bool = False) -> None:
        self.end = end

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Raises click.BadParameter."""
        text = str(value).strip()
        try:
            age = _age(text)
            if age is not None:
                return format_time(datetime.now(UTC) - age)
            found = _TIME.fullmatch(text)
            if found is None:
                raise ValueError
            moment = datetime.fromisoformat(text.replace(",", "."))
            if self.end and found["fraction"] is None:
                span = "seconds" if found["second"] else "minutes" if found["clock"] else "days"
                moment += timedelta(**{span: 1}) - timedelta(microseconds=1)
            return format_time(moment)
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is no time: write one like 2026-11-30T09:12:01Z, 2026-11-30, or 2h for two hours ago",
                param,
                ctx,
            )


class ExpiryType(click.ParamType[str]):
    """A point in time to come: RFC 3339 text, or a span such as ``30d`` (that long from now)."""

    name = "expiry"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Raises click.BadParameter."""
        try:
            span = _age(str(value))
            if span is not None:
                return format_time(datetime.now(UTC) + span)
        except OverflowError:
            self.fail(f"{value!r} reaches too far", param, ctx)
        return TIME_FROM.convert(value, param, ctx)


AGE = AgeType()
EXPIRY = ExpiryType()
TIME_FROM = TimeType()
TIME_TO = TimeType(end=True)
