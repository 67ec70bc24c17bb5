"""What requests ask for in their query: a view, a page, a span of time."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Query

from memfs.model.contract import JsonObject
from memfs.model.errors import InvalidRequest
from memfs.model.records import format_time
from memfs.workspace.stores import is_encodable

View = Literal["basic", "full"]

MAX_LIMIT = 100
MAX_FULL = 20
"""Items of a page that shows contents."""

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description=f"With view=full a page has at most {MAX_FULL} items.")]
Page = Annotated[str | None, Query(max_length=4_096, description="The next_page of the page before.")]
ViewQuery = Annotated[View | None, Query(description="Whether contents are shown: full, or basic (they are null).")]
IncludeArchived = Annotated[bool, Query(description="Whether archived ones are listed too.")]

DEFAULT_LIMIT = 20

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+ -]\d\d:\d\d)?")
_MICROSECOND = timedelta(microseconds=1)

Item = TypeVar("Item")


def page_size(limit: int, *, full: bool) -> int:
    """How many items a page has."""
    return min(limit, MAX_FULL) if full else limit


def page_token(*cursor: str | int) -> str:
    """Where the next page begins, as opaque text."""
    return base64.urlsafe_b64encode(json.dumps(cursor).encode()).decode().rstrip("=")


def read_page_token(kind: str, token: str | None, *form: type) -> tuple[Any, ...] | None:
    """Where a page of a list of this kind begins: a value of each type; None for the first.

    Raises InvalidRequest for what is no token of such a list.
    """
    if not token:
        return None
    try:
        cursor = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        cursor = None
    if (
        not isinstance(cursor, list)
        or [type(value) for value in cursor] != [str, *form]
        or cursor[0] != kind
        or not all(0 <= value < 2**63 if isinstance(value, int) else is_encodable(value) for value in cursor)
    ):
        raise InvalidRequest("page must be the next_page of an answer to the same request")
    return tuple(cursor[1:])


def page_of(
    kind: str,
    found: Sequence[Item],
    size: int,
    shown: Callable[[Item], JsonObject],
    position: Callable[[Item], tuple[Any, ...]],
) -> JsonObject:
    """A page of what was found, which is one more than the page holds where there are others behind."""
    data = found[:size]
    more = len(found) > size
    return {
        "data": [shown(item) for item in data],
        "next_page": page_token(kind, *position(data[-1])) if more else None,
    }


def moment(text: str | None, name: str, *, after: bool = False, before: bool = False, up: bool = False) -> str | None:
    """A time from a query, as records have them.

    Without a zone it is UTC. Records are exact to a microsecond: a finer time is cut, or with ``up`` rounded up.
    ``after`` and ``before`` make an exclusive bound the next inclusive one. What a zone takes out of the years 1 to
    9999 is their first moment or their last. Raises InvalidRequest.
    """
    if text is None:
        return None
    found = _TIME.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError
        day, clock, fraction, zone = found[1], found[2], found[3] or "", found[4] or "Z"
        exact = (fraction + "000000")[:6]
        time = datetime.fromisoformat(f"{day}T{clock}.{exact}{zone.replace(' ', '+').upper()}")
    except ValueError:
        raise InvalidRequest(f"{name} must be a time in RFC 3339, such as 2026-11-30T09:12:01Z") from None
    finer = fraction[6:].strip("0") != ""
    try:
        time = time.astimezone(UTC)
        if after or (up and finer):
            time += _MICROSECOND
        if before and not finer:
            time -= _MICROSECOND
    except OverflowError:
        time = (datetime.min if time.year == 1 else datetime.max).replace(tzinfo=UTC)
    return format_time(time)
