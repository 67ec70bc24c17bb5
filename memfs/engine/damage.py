"""Rows that cannot be what memfs wrote: told as SQLite tells of a damaged page, so that nobody trips over them later.

A flipped bit or a foreign program can leave any type in any column, whatever the schema says. What is looked at here
would otherwise be a KeyError in the middle of a command. Whether what a row says is right is for ``invariants``.
"""

import json
import re
import sqlite3
from datetime import datetime
from typing import Any, get_args

from memfs.model.records import ActorType, Head

MAX_PATH_BYTES = 1_024

Kinds = tuple[type, ...]

TEXT: Kinds = (str,)
NUMBER: Kinds = (int,)
BLOB: Kinds = (bytes,)
NONE: Kinds = (type(None),)

_ACTOR_TYPES = frozenset(get_args(ActorType))
_PLACE = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[^/\0]+){1,20}")
"""What a tree can be made of. Not all rules for paths: which characters are controls changes with Python's Unicode, and
a store must not become unreadable by that."""


class DamagedRow(sqlite3.DatabaseError):
    """A row that SQLite could read and memfs cannot."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    sqlite_errorname = "SQLITE_CORRUPT"


class Form:
    """The types that the columns of a row may have. Those that were seen are remembered: most rows are alike."""

    def __init__(self, what: str, *columns: Kinds) -> None:
        self._what = what
        self._columns = columns
        self._seen: set[tuple[type, ...]] = set()

    def check(self, row: tuple[Any, ...]) -> None:
        """Raises DamagedRow. A row may be shorter, or longer, than the form: what is beyond is not looked at."""
        kinds = tuple(map(type, row[: len(self._columns)]))
        if kinds in self._seen:
            return
        for number, (kind, allowed) in enumerate(zip(kinds, self._columns, strict=False)):
            if kind not in allowed:
                raise DamagedRow(f"column {number + 1} of {self._what} {named(row[0])} is of the type {kind.__name__}")
        self._seen.add(kinds)


LONGEST = 1_200
"""Characters of a path or of what is said of one violation: more than a path has that memfs lets in."""


def named(value: object) -> str:
    """A value of a row as a message may repeat it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def shown(value: object) -> str:
    """An id or a word of a row as a message repeats it: anything that is no text so that it is seen to be none."""
    return value if isinstance(value, str) and len(value) <= LONGEST else named(value)


def text(value: object, of: object) -> bytes:
    """The bytes of a text. Raises DamagedRow where they are none."""
    if not isinstance(value, bytes):
        raise DamagedRow(f"the text of {named(of)} is no bytes, but {named(value)}")
    return value


def check_actor(kind: object, of: object) -> None:
    """Raises DamagedRow where there is no such kind of actor."""
    if kind not in _ACTOR_TYPES:
        raise DamagedRow(f"{named(of)} is by an actor of the unknown type {named(kind)}")


def as_object(text: str, of: object) -> dict[str, Any]:
    """A column of JSON. Raises DamagedRow where it is no object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedRow(f"a column of {named(of)} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise DamagedRow(f"a column of {named(of)} is no JSON object")
    return found


def check_placed(path: str) -> None:
    """Raises DamagedRow for a path that a tree cannot be made of."""
    if _PLACE.fullmatch(path) is None or len(path.encode()) > MAX_PATH_BYTES:
        raise DamagedRow(f"{named(path)} is no path")


def check_head(head: Head) -> None:
    """Raises DamagedRow for a head that no mirror can take in: by its path or its time."""
    check_placed(head.path)
    check_time(head.updated_at)


def check_time(text: str) -> None:
    """Raises DamagedRow for what is no time."""
    try:
        aware = datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        aware = False
    if not aware:
        raise DamagedRow(f"{named(text)} is no time")
