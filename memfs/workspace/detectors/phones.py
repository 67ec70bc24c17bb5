"""Phone numbers: patterns and words in front propose them, and phonenumbers says whether there can be such a number."""

import functools
import re
from collections.abc import Callable, Iterator

from memfs.workspace.detectors.rules import Rule, Span, View

Check = Callable[[str, str], Iterator[Span]]
"""The phone numbers in a piece of text as somebody in a region dials them."""


def rules() -> tuple[Rule, ...]:
    """Raises ImportError where phonenumbers is missing."""
    from phonenumbers import PhoneNumberMatcher

    def dialled(piece: str, region: str) -> Iterator[Span]:
        for match in PhoneNumberMatcher(piece, region):
            yield match.start, match.end

    return (Rule("personal_data", "phone number", (), functools.partial(_phones, dialled)),)


# Numbers that say by their form what they are, and numbers that a word in front says it of.
_INTERNATIONAL = re.compile(
    r"(?:\+(?<![A-Za-z_+/.].)[1-9]|0(?<![\w+/.].)0[1-9][0-9]{0,2}[ ./(-])[0-9 ()./\xa0-]{5,22}[0-9](?!\w)"
)
_NORTH_AMERICAN = (
    re.compile(r"\([2-9][0-9]{2}\)[ -]?[2-9][0-9]{2}-[0-9]{4}(?![\w-]|\.[0-9])"),
    re.compile(r"[1-9](?<![\w.+/-].)(?:(?<=1)-[2-9])?[0-9]{2}-[2-9][0-9]{2}-[0-9]{4}(?![\w-]|\.[0-9])"),
)
_ANY_NUMBER = re.compile(r"[(0-9](?<![\w+/.].)[0-9 ()./\xa0-]{6,20}[0-9](?!\w)")
_CALLED = re.compile(
    r"(?<![a-z])(?:tel|telefon|telephone|phone|fon|mobile|mobil|cell|handy|fax|whatsapp|signal|sms|rufnummer|hotline)"
    r"(?:nummer|[ \t]?(?:number|no|nr|nummer))?[\"'`*.]{0,3}[ \t]{0,3}(?:[:=|#]|is|ist)?[ \t*\"'`]{0,4}\Z"
)
_ISO_DATE = re.compile(r"(?:19|20)[0-9]{2}[-./]?[01][0-9][-./]?[0-3][0-9](?![0-9])")

# Where a national number may be from; in the first no number begins with 0.
_REGIONS = ("US", "DE", "GB", "FR", "AT", "CH", "NL", "IT", "ES", "IN", "AU", "JP", "BR")


def _phones(dialled: Check, view: View) -> Iterator[Span]:
    for number in _INTERNATIONAL.finditer(view.text):
        yield from _of_one_region(dialled, number, ("DE",))  # where one dials 00 for +, as nearly everywhere
    for pattern in _NORTH_AMERICAN:
        for number in pattern.finditer(view.text):
            yield from _of_one_region(dialled, number, ("US",))
    for number in _ANY_NUMBER.finditer(view.text):
        called = _CALLED.search(view.lowered, max(0, number.start() - 40), number.start())
        if called and not _ISO_DATE.match(number[0]):
            yield from _of_one_region(dialled, number, _REGIONS[number[0].startswith("0") :])


def _of_one_region(dialled: Check, number: re.Match[str], regions: tuple[str, ...]) -> Iterator[Span]:
    for region in regions:
        found = [(number.start() + start, number.start() + end) for start, end in dialled(number[0], region)]
        if found:
            yield from found
            return
