"""Personal data that has a form of its own: e-mail addresses, credit cards, IBANs, US social security numbers.

A form alone would take every number of that length: each is checked by python-stdnum as its issuer says.
IP addresses are left out: notes are full of them, and they tell servers, not persons.
"""

import functools
import re
from collections.abc import Callable, Iterator

from memfs.workspace.detectors.rules import Rule, Span, View

Check = Callable[[str], bool]
"""Whether a number is one that its issuer could have given."""


def rules() -> tuple[Rule, ...]:
    """Raises ImportError where python-stdnum is missing."""
    from stdnum import iban, luhn
    from stdnum.us import ssn

    # What a country asks of the numbers in its IBANs is left out: it would load a module for each country.
    is_iban = functools.partial(iban.is_valid, check_country=False)
    return (
        Rule("personal_data", "IBAN", (), functools.partial(_ibans, is_iban)),
        Rule("personal_data", "credit card number", (), functools.partial(_cards, luhn.is_valid)),
        Rule("personal_data", "US social security number", (), functools.partial(_ssns, ssn.is_valid)),
        Rule("personal_data", "e-mail address", ("@",), _emails),
    )


_EMAIL = re.compile(
    r"(?<![A-Za-z0-9À-ɏ._%+/-])(?P<local>[A-Za-z0-9À-ɏ][A-Za-z0-9À-ɏ._%+'-]{0,63})"
    r"@(?P<domain>(?:[A-Za-z0-9À-ɏ](?:[A-Za-z0-9À-ɏ-]{0,61}[A-Za-z0-9À-ɏ])?\.){1,8}(?:[A-Za-z]{2,24}|xn--[a-z0-9-]{2,59}))"
    r"(?![A-Za-z0-9_-])"
)
_NOBODY = frozenset({"git", "hg", "svn", "noreply", "no-reply", "donotreply", "do-not-reply", "mailer-daemon"})
_NO_DOMAIN = re.compile(
    r"[v\d]+\.\d|\d+x\."  # package@1.2.3-beta.rc, logo@2x.png
    r"|.*\.(?:png|jpe?g|gif|svg|webp|ico|pdf|js|ts|css|html?|json|ya?ml|toml|txt)$",
    re.IGNORECASE,
)


def _emails(view: View) -> Iterator[Span]:
    for match in _EMAIL.finditer(view.text):
        local = match["local"].lower()
        before = view.text[max(0, match.start() - 110) : match.start()]
        in_url = re.search(r"://[^\s/@]*$", before) is not None  # https://user:pass@host, ssh://me@host
        # noreply and git are nobody's; 12345+ada@users.noreply.github.com is somebody's, and made to be shown.
        nobody = local in _NOBODY or ".noreply." in f".{match['domain'].lower()}"
        if not (in_url or nobody or _NO_DOMAIN.match(match["domain"])):
            yield match.span()


_CARD = re.compile(
    r"[2-6](?<![\w.,+#-].)(?:[0-9]{12,18}|[0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
    r"|[0-9]{3}([ -])[0-9]{6}\2[0-9]{4,5})(?![\w-]|[.,][0-9])"
)
_ISSUED = re.compile(
    r"4\d{15}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"  # Visa, Mastercard
    r"|3[47]\d{13}|6(?:011|5\d\d|4[4-9]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}"  # American Express, Discover, Diners
    r"|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}"  # JCB, UnionPay
)


def _cards(is_valid: Check, view: View) -> Iterator[Span]:
    for match in _CARD.finditer(view.text):
        digits = re.sub(r"\D", "", match[0])
        if _ISSUED.fullmatch(digits) and is_valid(digits):
            yield match.span()


_IBAN = re.compile(
    r"[A-Z](?<![A-Za-z0-9_].)[A-Z][0-9]{2}(?:[0-9A-Z]{11,30}|(?: [0-9A-Z]{4}){2,7}(?: [0-9A-Z]{1,3})?)(?![A-Za-z0-9_])"
)


def _ibans(is_valid: Check, view: View) -> Iterator[Span]:
    for match in _IBAN.finditer(view.text):
        number = match[0]
        # In groups, what follows the number looks like one more group: "… 0130 00 BIC".
        while number:
            if is_valid(number):
                yield match.start(), match.start() + len(number)
                break
            number = number.rpartition(" ")[0]


_SSN = re.compile(r"[0-9](?<![\w.+-].)[0-9]{2}-[0-9]{2}-[0-9]{4}(?![\w-])")
_SSN_NAMED = re.compile(
    r"s(?:sn|ocial security (?:number|no\.?))[\"']?[ \t]*(?:is|[:=#])?[ \t]*[\"']?([0-9]{9})(?![\w-])"
)


def _ssns(is_valid: Check, view: View) -> Iterator[Span]:
    for pattern in (_SSN, _SSN_NAMED):
        for match in pattern.finditer(view.lowered):
            start, end = match.span(match.lastindex or 0)
            if is_valid(view.text[start:end]):
                yield start, end
