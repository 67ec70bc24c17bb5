"""What a detector is: a rule that finds places in a view of a text."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["secret", "personal_data"]

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret or a piece of personal data, and where it is: ``start`` and ``end`` count characters of the text.

    ``label`` says for people what it is, and holds nothing of the text.
    """

    kind: Kind
    label: str
    start: int
    end: int


# Stands for a masked part in the text that is searched: a noncharacter, which no text has and no pattern takes for a
# letter, a digit or a space.
HIDDEN = "\ufdd0"

_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class View:
    """A text with its hidden parts as one character each, which is how it looks before and after they are masked.

    ``lowered`` is the same with ASCII letters in lower case: no place in it is shifted, as str.lower() can do.
    """

    __slots__ = ("_removed", "_starts", "lowered", "text")

    def __init__(self, text: str, hidden: Sequence[Span]) -> None:
        parts: list[str] = []
        self._starts: list[int] = []
        self._removed = [0]
        end = 0
        for start, stop in hidden:
            parts += (text[end:start], HIDDEN)
            self._starts.append(start - self._removed[-1])
            self._removed.append(self._removed[-1] + stop - start - 1)
            end = stop
        self.text = "".join(parts) + text[end:]
        self.lowered = self.text.lower() if self.text.isascii() else self.text.translate(_ASCII_LOWER)

    def original(self, start: int, end: int) -> Span:
        """Where a span of the view is in the text."""
        return (
            start + self._removed[bisect_left(self._starts, start)],
            end + self._removed[bisect_left(self._starts, end)],
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """One detector. Where none of ``anchors`` (lower case) is in a text, the text holds nothing for it."""

    kind: Kind
    label: str
    anchors: tuple[str, ...]
    spans: Callable[[View], Iterable[Span]]
    over_hidden: bool = False
    """Whether what it finds may have hidden parts: a private key that has lost some lines to a mask is one still."""


_IN_A_WORD = re.compile(r"[A-Za-z0-9]")


def begins_in_a_word(text: str, start: int) -> bool:
    """Whether what begins here is the rest of something longer.

    Asked of a match: a lookbehind in front of a pattern keeps the search from looking for the pattern's first letter,
    and costs ten times as much.
    """
    return start > 0 and _IN_A_WORD.match(text, start - 1) is not None
