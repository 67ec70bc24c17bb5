"""Secrets that are known by what stands before them: a word, an option, a header, the user of a URL."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator

from memfs.workspace.detectors.judging import is_key, is_no_secret, is_password
from memfs.workspace.detectors.rules import Rule, Span, View

# After the word: which one it is, the end of a quoted name or of Markdown's bold, what it is for, a type; and then the
# value.
_ASSIGNMENT = r"""
    s? \d? (?: [_-] (?:base|value|prod|production|staging|dev|live|test|old|new|\d) )?
    [\\"'`*\])]{0,4} (?: [ \t]* \( [^()\r\n]{1,40} \) )?
    (?: [ \t]+ (?:for|of|to|on|für|zu|von) [ \t]+ [^\s:=]{1,40} (?: [ \t]+ [^\s:=]{1,30} ){0,2} )?
    (?:
        [ \t]* (?: : [ \t]* [a-z_.\[\] |]{1,30}? )? (?P<sign> => | := | ={1,3} | : | \| ) [ \t]* [*]{0,2} [ \t]*
    |
        [ \t]+ (?:is|was|ist|lautet) [ \t:]+
    )
    (?:
        [bfru@\\]{0,2} (?P<quote>["'`]) (?P<quoted> (?: (?!(?P=quote)) [^\r\n] ){4,300} ) (?P=quote)
    |
        (?P<plain> [^\s"'`]{4,2000} )
    )
"""


def _assigned(words: str) -> re.Pattern[str]:
    """What finds a value (``quoted`` or ``plain``) behind one of these words; for text in lower case."""
    return re.compile(rf"(?:{words}){_ASSIGNMENT}", re.VERBOSE)


_PASSWORDS = _assigned(r"pass(?:word|wd|phrase|code|wort|(?<![a-z]pass))|pwd|pw(?<![a-z]pw)|kennwort|contraseña")
_TOKEN_VALUES = _assigned(r"token|credential")
_SECRET_VALUES = _assigned(r"secret(?<!:secret)")  # an ARN names one: …:secret:Name-1a2b3c
_KEY_VALUES = _assigned(
    r"(?:api|access|auth|private|secret|encryption|signing|service|account|client|master|deploy|shared)[ _.-]?key"
)

# Where a list goes on, and what a form or a request is told apart by: made for one use, and no secret.
_PASSING_TOKEN = re.compile(r"(?:page|next|sync|continu\w*|csrf|xsrf|request|change|lock|idempotency)[_ -]?\Z")

_NEXT_ASSIGNMENT = re.compile(r"[,;&|](?=[\w.-]+[=:])")


def _value(text: str, start: int, end: int) -> Span:
    """A value without quotes, without what ends the sentence or the field around it."""
    cut = _NEXT_ASSIGNMENT.search(text, start, end)
    end = cut.start() if cut else end
    return start, start + len(text[start:end].rstrip(",;.:)]}>*|\\"))


def _assigned_values(pattern: re.Pattern[str], view: View) -> Iterator[tuple[str, Span, bool, bool]]:
    """The values that a pattern of ``_assigned`` finds: value, place, whether in quotes, whether by ``=``."""
    for match in pattern.finditer(view.lowered):
        if _PASSING_TOKEN.search(view.lowered, max(0, match.start() - 20), match.start()):
            continue
        quoted = match["quoted"] is not None
        start, end = match.span("quoted") if quoted else _value(view.text, *match.span("plain"))
        if quoted and view.text[end - 1] == "\\":  # JSON in a string: \"password\": \"…\"
            end -= 1
        yield view.text[start:end], (start, end), quoted, (match["sign"] or "").startswith("=")


def _passwords(view: View) -> Iterator[Span]:
    for value, span, quoted, assigned in _assigned_values(_PASSWORDS, view):
        if is_password(value, quoted=quoted, assigned=assigned):
            yield span


def _keys(pattern: re.Pattern[str]) -> Callable[[View], Iterator[Span]]:
    def spans(view: View) -> Iterator[Span]:
        for value, span, _, _ in _assigned_values(pattern, view):
            if is_key(value):
                yield span

    return spans


# On a command line, where a blank is all that stands between.
_PASSWORD_OPTIONS = tuple(
    re.compile(pattern)
    for pattern in (
        r"-pass(?:word|wd|phrase)?[ \t]+[\"']?([^\s\"']{4,200})",
        r"sshpass[ \t]+-p[ \t]*[\"']?([^\s\"']{4,200})",
        r"m(?:ysql|ariadb)\w*[ \t][^\r\n]{0,120}?(?<!\S)-p([^\s\"']{4,200})",
        r"curl[ \t][^\r\n]{0,120}?(?<!\S)(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,60}:([^\s\"']{4,200})",
        r"login[ \t]+\S{1,80}\s{1,3}password[ \t]+(\S{4,200})",  # .netrc
    )
)
_KEY_OPTION = re.compile(r"-(?:token|api-?key|secret|access-key)[ \t]+[\"']?([^\s\"']{16,500})")


def _password_options(view: View) -> Iterator[Span]:
    for pattern in _PASSWORD_OPTIONS:
        for match in pattern.finditer(view.lowered):
            start, end = _value(view.text, *match.span(1))
            if is_password(view.text[start:end], quoted=False, assigned=False):
                yield start, end


def _key_options(view: View) -> Iterator[Span]:
    for match in _KEY_OPTION.finditer(view.lowered):
        start, end = _value(view.text, *match.span(1))
        if is_key(view.text[start:end]):
            yield start, end


_BEARER = re.compile(r"\b(?:bearer|x-api-key:|authorization:[ \t]*token)[ \t]+([\w.~+/=:-]{16,4000})")
_BASIC = re.compile(r"\bbasic[ \t]+([a-z0-9+/]{8,400}={0,2})")


def _bearer_tokens(view: View) -> Iterator[Span]:
    for match in _BEARER.finditer(view.lowered):
        start, end = _value(view.text, *match.span(1))
        if is_key(view.text[start:end]):
            yield start, end


def _basic_credentials(view: View) -> Iterator[Span]:
    for match in _BASIC.finditer(view.lowered):
        start, end = match.span(1)
        try:
            decoded = base64.b64decode(view.text[start:end], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
        if re.fullmatch(r"[^\s:]+:\S+", decoded):
            yield start, end


_URL_PASSWORD = re.compile(r"://([^\s:/?#@\"'<>|\\`]{0,100}):([^\s/\"'<>`]{1,200})@(?=[\w\[.$-])")


def _passwords_in_urls(view: View) -> Iterator[Span]:
    for match in _URL_PASSWORD.finditer(view.text):
        user, password = match[1].lower(), match[2].lower()
        # user:password@ of an example, app:app@ of a development database, host:port@ of nothing at all.
        known = {user, "password", "passwd", "pass", "pwd", "pw", "secret", "token", "test", "guest"}
        if password not in known and not re.fullmatch(r"\d{1,5}", password) and not is_no_secret(match[2]):
            yield match.span(2)


CREDENTIAL_RULES = (
    Rule("secret", "password", ("://",), _passwords_in_urls),
    Rule("secret", "HTTP credentials", ("basic",), _basic_credentials),
    Rule("secret", "access token", ("bearer", "x-api-key", "authorization"), _bearer_tokens),
)

ASSIGNMENT_RULES = (
    Rule("secret", "password", ("pass", "kennwort", "contrase", "pw"), _passwords),
    Rule("secret", "password", ("-pass", "sshpass", "mysql", "mariadb", "curl", "login"), _password_options),
    Rule("secret", "secret key", ("key",), _keys(_KEY_VALUES)),
    Rule("secret", "token", ("token", "credential"), _keys(_TOKEN_VALUES)),
    Rule("secret", "secret", ("secret",), _keys(_SECRET_VALUES)),
    Rule("secret", "token", ("-token", "key", "-secret"), _key_options),
)
