"""The inputs of the memory tool, checked: what a model sends may have any shape."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memfs.model.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class View:
    """``view_range`` is as it came: which shapes are good depends on the file."""

    path: str
    view_range: object = None


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    file_text: str


@dataclass(frozen=True, slots=True)
class StrReplace:
    path: str
    old_str: str
    new_str: str = ""


@dataclass(frozen=True, slots=True)
class Insert:
    """``insert_line`` is as it came: its error names the file's lines."""

    path: str
    insert_line: object
    insert_text: str


@dataclass(frozen=True, slots=True)
class Delete:
    path: str


@dataclass(frozen=True, slots=True)
class Rename:
    old_path: str
    new_path: str


SHOWN = 100
"""How many characters of a malformed value an answer repeats."""

Command = View | Create | StrReplace | Insert | Delete | Rename

_COMMANDS: dict[str, type[Command]] = {
    "view": View,
    "create": Create,
    "str_replace": StrReplace,
    "insert": Insert,
    "delete": Delete,
    "rename": Rename,
}
_OPTIONAL = {"view_range", "new_str"}
_ANY_SHAPE = {"view_range", "insert_line"}


def shown(value: object) -> str:
    """A value of any shape as an answer may repeat it: short, and without what text cannot hold."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deep, or more digits than Python writes
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def parse(given: object) -> Command:
    """The command that a tool_use input asks for; a null is as good as leaving a field out.

    Raises InvalidRequest, saying which field is missing or is no text.
    """
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"the input is an object with a command ({', '.join(_COMMANDS)})")
    name = given.get("command")
    command = _COMMANDS.get(name) if isinstance(name, str) else None
    if command is None:
        raise InvalidRequest(f"unknown command {shown(name)}: it is one of {', '.join(_COMMANDS)}")
    fields: dict[str, Any] = {}
    for field in command.__dataclass_fields__:
        value = given.get(field)
        if value is None:
            if field not in _OPTIONAL:
                raise InvalidRequest(f"{name} needs {field}")
            continue
        if field not in _ANY_SHAPE and not isinstance(value, str):
            raise InvalidRequest(f"{field} of {name} is text, not {type(value).__name__}")
        if isinstance(value, str) and _broken(value):
            raise InvalidRequest(f"{field} of {name} holds half of a character (a lone surrogate)")
        fields[field] = value
    return command(**fields)


def _broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
