"""Private keys in text form: PEM, OpenSSH, PGP and PuTTY."""

import re
from collections.abc import Iterator
from itertools import pairwise

from memfs.workspace.detectors.rules import Rule, Span, View

_KEY_LINE = re.compile(r"-----(BEGIN|END) ((?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?)-----")
_KEY_BODY_LINE = re.compile(r"(?:\r?\n|\\r|\\n)[ \t>|*#\"',+]*(?:[A-Za-z0-9+/=]{16,}|[A-Za-z-]{4,20}: [^\r\n]{0,100})")
_PUTTY_LINE = re.compile(r"(PuTTY-User-Key-File-\d:)|Private-MAC: [0-9a-f]+")


def _pem_keys(view: View) -> Iterator[Span]:
    """Private keys whole, from the first line to the last; where the last is missing, the lines that belong to one."""
    for mark, following in pairwise([*_KEY_LINE.finditer(view.text), None]):
        if mark is None or mark[1] != "BEGIN":
            continue
        if following and following[1] == "END" and following[2] == mark[2]:
            body = view.text[mark.end() : following.start()]
            # Lines of base64, or one with \n in it, as in JSON. Between two markers in prose there are words.
            words = re.sub(r"\\[rn]", "\n", re.sub(r"(?m)^[ \t>]*[A-Za-z-]+: .*$", "", body)).split()
            if words and sum(map(len, words)) >= max(40, 16 * len(words)):
                yield mark.start(), following.end()
                continue
        end = mark.end()
        while line := _KEY_BODY_LINE.match(view.text, end):
            end = line.end()
        if end > mark.end():
            yield mark.start(), end


def _putty_keys(view: View) -> Iterator[Span]:
    for first, last in pairwise(_PUTTY_LINE.finditer(view.text)):
        if first[1] and not last[1]:
            yield first.start(), last.end()


RULES = (
    Rule("secret", "private key", ("private key",), _pem_keys, over_hidden=True),
    Rule("secret", "private key", ("putty-user-key-file",), _putty_keys, over_hidden=True),
)
