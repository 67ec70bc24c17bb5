"""The detectors of detect-secrets that are used here, and how."""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from memfs.workspace.detectors.rules import Rule, Span, View, begins_in_a_word

if TYPE_CHECKING:
    from detect_secrets.plugins.base import RegexBasedDetector

Accept = Callable[[re.Match[str]], bool]

_WEB_TOKEN = re.compile(r"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)?")


def _is_any(match: re.Match[str]) -> bool:
    return bool(match)


def _is_no_commit(match: re.Match[str]) -> bool:
    """40 characters after "aws … key" may be a commit's hash."""
    return re.fullmatch(r"[0-9a-f]{40}", match[match.lastindex or 0]) is None


def _is_named_a_key(match: re.Match[str]) -> bool:
    """88 characters of base64 are also what a sha512 has, in any lock file, and a part of every embedded image."""
    before = match.string[max(0, match.start() - 60) : match.start()]
    return re.search(r"key\W{0,6}$", before, re.IGNORECASE) is not None


def _has_digits(match: re.Match[str]) -> bool:
    return any(char.isdigit() for char in match[match.lastindex or 0])


def _is_long(match: re.Match[str]) -> bool:
    return len(match[0]) >= 20


def rules() -> Iterator[Rule]:
    """Rules made of the patterns of detect-secrets, of which each detector shows its own as ``denylist``.

    Used in this way they have places, which the library's own scan does not give, no state that threads would share,
    and no ``verify``, which would send what was found to its provider. Left out, and why:

    - high entropy: every hash, id and embedded image is of high entropy.
    - keywords (password = …): takes all up to the line's end, passes every line that has "example" in it, and finds
      "token: the unit that a model reads". ``values`` does this with more care.
    - private keys: finds the first line and not the whole; CRLF ends it. ``private_keys`` finds all.
    - basic auth: no password with a sign in it, none without a user. ``values`` finds both.
    - JSON Web Tokens: its pattern takes seconds for a text that repeats "eyJ"; its check of what was found is used.
    - Artifactory's second pattern, slow in the same way for "jfrog"; the first one is used.
    - Cloudant, IBM, SoftLayer: ``key`` and any 44 characters, under the name of one provider. ``values`` finds them.
    - Twilio's account ids: no secret.
    """
    from detect_secrets.plugins.artifactory import ArtifactoryDetector
    from detect_secrets.plugins.aws import AWSKeyDetector
    from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
    from detect_secrets.plugins.github_token import GitHubTokenDetector
    from detect_secrets.plugins.jwt import JwtTokenDetector
    from detect_secrets.plugins.mailchimp import MailchimpDetector
    from detect_secrets.plugins.npm import NpmDetector
    from detect_secrets.plugins.sendgrid import SendGridDetector
    from detect_secrets.plugins.slack import SlackDetector
    from detect_secrets.plugins.square_oauth import SquareOAuthDetector
    from detect_secrets.plugins.stripe import StripeDetector
    from detect_secrets.plugins.twilio import TwilioKeyDetector

    def web_tokens(view: View) -> Iterator[Span]:
        for match in _WEB_TOKEN.finditer(view.text):
            with suppress(RecursionError):  # JSON nested so deep that no service made it
                if JwtTokenDetector.is_formally_valid(match[0]):
                    yield match.span()

    def only(detector: "type[RegexBasedDetector]", first: int = 0, last: int = 0) -> list[re.Pattern[str]]:
        return list(detector().denylist)[first : last + 1]

    chosen: tuple[tuple[str, tuple[str, ...], list[re.Pattern[str]], Accept], ...] = (
        ("AWS access key", ("akia", "asia", "abia", "acca", "a3t"), only(AWSKeyDetector), _is_any),
        ("AWS secret key", ("aws",), only(AWSKeyDetector, 1, 1), _is_no_commit),
        (
            "Azure storage key",
            ("accountkey", "account_key", "account-key", "storage"),
            only(AzureStorageKeyDetector),
            _is_named_a_key,
        ),
        ("Artifactory token", ("akc",), only(ArtifactoryDetector), _has_digits),
        ("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), only(GitHubTokenDetector), _is_any),
        ("Mailchimp API key", ("-us",), only(MailchimpDetector), _has_digits),
        ("npm token", ("npm", "_authtoken"), only(NpmDetector), _has_digits),
        ("SendGrid API key", ("sg.",), only(SendGridDetector), _is_any),
        ("Slack token", ("xox",), only(SlackDetector), _is_long),
        ("Slack webhook", ("hooks.slack.com",), only(SlackDetector, 1, 1), _is_any),
        ("Square secret", ("sq0csp-",), only(SquareOAuthDetector), _is_any),
        ("Stripe key", ("k_live_",), only(StripeDetector), _is_any),
        ("Twilio API key", ("sk",), only(TwilioKeyDetector, 1, 1), _has_digits),
    )
    yield Rule("secret", "JSON Web Token", ("eyj",), web_tokens)
    for label, anchors, patterns, accept in chosen:
        yield Rule("secret", label, anchors, functools.partial(_matches, patterns, accept))


_REST_OF_A_TOKEN = re.compile(r"[A-Za-z0-9_-]*")


def _matches(patterns: Sequence[re.Pattern[str]], accept: Accept, view: View) -> Iterator[Span]:
    """Matches of the library's patterns, from where the token begins to where it ends.

    The patterns do not look at what is around them: one may begin within a word, which is then no token, and stop
    within a token that is longer than its provider's once were.
    """
    for pattern in patterns:
        whole = 0
        for match in pattern.finditer(view.text):
            start, end = match.span(match.lastindex or 0)
            if end - start < 8:  # a group for alternatives: gh(p|o|u|s|r)_…
                start, end = match.span()
            token = match.string[start:end]
            start += len(token) - len(token.lstrip(" \t\r\n\"'=:`"))
            end -= len(token) - len(token.rstrip(" \t\r\n\"'`."))
            if start >= whole and accept(match) and not begins_in_a_word(view.text, start):
                rest = _REST_OF_A_TOKEN.match(view.text, end)
                whole = rest.end() if rest else end
                yield start, whole
