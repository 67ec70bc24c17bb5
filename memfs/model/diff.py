"""The difference between two texts as a unified diff that patch(1) and ``git apply`` take.

Lines end at LF alone, as they do for those two and for a memory: a CR belongs to its line.
"""

import difflib
from dataclasses import dataclass
from itertools import islice


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: a memory's path and text, and a label for the header. ``text`` None: there was no memory."""

    memory_id: str
    path: str
    label: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Diff:
    """The lines of a diff, each with its LF; both lists are empty where nothing differs."""

    header: list[str]
    hunks: list[str]

    @property
    def text(self) -> str:
        """All of it."""
        return "".join([*self.header, *self.hunks])


def unified(before: Side, after: Side) -> Diff:
    """The diff from one side to the other, with three lines of context.

    Its header is git's, so that several diffs can follow one another in a file. A memory that only moved has the lines
    of a rename and no more; two memories are compared, but one cannot be patched to be the other.
    """
    hunks = _hunks(_lines(before.text), _lines(after.text))
    header: list[str] = []
    if before.memory_id == after.memory_id:
        header = _header(before, after, changed=bool(hunks))
    if hunks:
        header += [f"--- {_label('a', before)}\n", f"+++ {_label('b', after)}\n"]
    return Diff(header, hunks)


def _header(before: Side, after: Side, *, changed: bool) -> list[str]:
    match before.text, after.text:
        case None, None:
            return []
        case None, _:
            lines, before = [_NEW] if changed else [_NEW, _NEW_AND_EMPTY], after
        case _, None:
            lines, after = [_GONE] if changed else [_GONE, _GONE_AND_EMPTY], before
        case _ if before.path != after.path:
            lines = [f"rename from {_quoted(before.path[1:])}\n", f"rename to {_quoted(after.path[1:])}\n"]
        case _ if changed:
            lines = []
        case _:
            return []
    return [f"diff --git {_name('a', before)} {_name('b', after)}\n", *lines]


_NEW = "new file mode 100644\n"
_GONE = "deleted file mode 100644\n"
# With git's hash of an empty text: without it patch(1) asks whether such a patch was meant the other way.
_NEW_AND_EMPTY = "index 0000000..e69de29\n"
_GONE_AND_EMPTY = "index e69de29..0000000\n"


def _lines(text: str | None) -> list[str]:
    """The lines of a text with their ends; the last may have none."""
    if not text:
        return []
    *ended, last = text.split("\n")
    return [f"{line}\n" for line in ended] + ([last] if last else [])


def _hunks(before: list[str], after: list[str]) -> list[str]:
    marked: list[str] = []
    for line in islice(difflib.unified_diff(before, after), 2, None):  # without its own header
        if line.endswith("\n"):
            marked.append(line)
        else:
            marked += [f"{line}\n", "\\ No newline at end of file\n"]
    return marked


def _label(letter: str, side: Side) -> str:
    """A name in a header and, after the tab that ends a name, what nobody but a reader needs."""
    name = "/dev/null" if side.text is None else _name(letter, side)
    return f"{name}\t{side.label}" if side.label else name


def _name(letter: str, side: Side) -> str:
    return _quoted(f"{letter}{side.path}")


def _quoted(name: str) -> str:
    """A name as git writes it, and one with a space too, because patch(1) ends a name in a git header there."""
    if not any(character in name for character in ' "\\'):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
