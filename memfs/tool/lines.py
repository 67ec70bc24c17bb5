"""Text by lines: split at LF only, so that every other byte stays; a last newline makes no line of its own."""

from collections.abc import Sequence

MAX_LISTED = 100
"""Lines that an answer names: a short text can be in tens of thousands."""


def split_lines(text: str) -> list[str]:
    """The lines of a text without their LF; a CR before it stays. An empty text has none."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def line_of(text: str, offset: int) -> int:
    """The number of the line, from 1, that a character is in."""
    return text.count("\n", 0, offset) + 1


def lines_with(text: str, part: str) -> list[int]:
    """The numbers of the lines in which a part begins: counted without overlap, each line once."""
    numbers: list[int] = []
    number, start, at = 1, 0, text.find(part)
    while at != -1:
        number += text.count("\n", start, at)
        if numbers[-1:] != [number]:
            numbers.append(number)
        start, at = at, text.find(part, at + len(part))
    return numbers


def listed(numbers: Sequence[int]) -> str:
    """Numbers as a list for people, which says how many there are where it does not go on."""
    text = ", ".join(map(str, numbers[:MAX_LISTED]))
    return text if len(numbers) <= MAX_LISTED else f"{text}, … ({len(numbers):,} lines)"


def numbered(lines: Sequence[str], first: int, limit: int) -> list[str]:
    """Lines as ``%6d<TAB>text``, from the number ``first``; ``limit`` is how many characters of text are shown.

    What is left out is said in a last line, with the ranges that read on. At least a part of one line is shown. A last
    newline, which is not shown, does not count.
    """
    last = first + len(lines) - 1
    shown: list[str] = []
    left = limit
    for number, line in enumerate(lines, first):
        if len(line) > left:
            if shown:
                omitted = _omitted(number, last)
            else:
                shown.append(f"{number:6d}\t{line[:limit]}")
                omitted = f"line {number} has {len(line):,}, view_range [{number}, {number}] shows it whole"
                if number < last:
                    omitted += f"; {_omitted(number + 1, last)}"
            return [*shown, f"[Cut at {limit:,} characters: {omitted}]"]
        shown.append(f"{number:6d}\t{line}")
        left -= len(line) + 1
    return shown


def _omitted(first: int, last: int) -> str:
    lines = f"line {first} is" if first == last else f"lines {first} to {last} are"
    return f"{lines} left out, view_range [{first}, {last}] reads on"


def size_text(size: int, *, exact: bool) -> str:
    """A size for people: ``512B``, ``5.5K``, ``1.2M``; with ``exact`` a whole number of its unit without a decimal."""
    if size < 1024:
        return f"{size}B"
    number, unit = size / 1024, "K"
    for larger in "MG":
        if round(number, 1) >= 1024:
            number, unit = number / 1024, larger
    return f"{number:.0f}{unit}" if exact and number.is_integer() else f"{number:.1f}{unit}"
