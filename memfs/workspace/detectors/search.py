"""The search of a text by all rules, and the masking of what they find.

Rules propose, and this module decides: nothing is found in a placeholder that a mask has left, and one search goes on
until the text as it would be masked holds nothing more. So masked text can be saved again under the same guards and
stays as it is.
"""

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from memfs.model.errors import InvalidRequest
from memfs.workspace.detectors.rules import HIDDEN, Finding, Kind, Rule, Span, View

# What is masked ends a word, and so can bring out a neighbour. Two passes are the rule; the limit is for a text made to
# have one neighbour brought out after the other.
_MAX_PASSES = 16

# What ``mask`` leaves in a text. No label has a digit in it, so hardly a secret looks like one.
_PLACEHOLDER = re.compile(r"\[[A-Za-z][A-Za-z .-]{2,40} removed\]")


def find(text: str, kinds: Collection[Kind]) -> list[Finding]:
    """What a text holds of these kinds, in order and without overlaps; the same text always gives the same.

    Raises InvalidRequest where the libraries of the extra ``guards`` are not installed.
    """
    if not kinds:
        return []
    rules = list(enumerate(_rules(frozenset(kinds))))
    placeholders = [match.span() for match in _PLACEHOLDER.finditer(text)]
    found: list[Finding] = []
    for _ in range(_MAX_PASSES):
        view = View(text, _united([*placeholders, *((each.start, each.end) for each in found)]))
        new = _settled(candidate for rank, rule in rules for candidate in _candidates(rank, rule, view))
        if not new:
            break
        found = _merged(found, [_finding(view, candidate) for candidate in new])
    return found


def mask(text: str, findings: Sequence[Finding]) -> str:
    """The text with each finding replaced by a placeholder, ``[AWS access key removed]``, and nothing else changed.

    The findings are as ``find`` gives them.
    """
    parts: list[str] = []
    end = 0
    for finding in findings:
        parts += (text[end : finding.start], f"[{finding.label} removed]")
        end = finding.end
    return "".join(parts) + text[end:]


@functools.cache
def _rules(kinds: frozenset[Kind]) -> tuple[Rule, ...]:
    """All rules for these kinds, the most specific first. Raises InvalidRequest where a library is missing."""
    # Loaded by the first search: who guards nothing pays for no library and no pattern, who guards one kind for its.
    try:
        return tuple(rule for kind, load in _GROUPS if kind in kinds for rule in load())
    except ImportError as error:
        missing = (error.name or "a library").partition(".")[0]
        raise InvalidRequest(
            f"guards for secrets and personal data need {missing}, which is not installed: install memfs-agent[guards]"
        ) from error


def _known_forms() -> Iterable[Rule]:
    from memfs.workspace.detectors import library, private_keys, tokens

    return (*private_keys.RULES, *tokens.RULES, *library.rules(), *tokens.UNNAMED_RULES)


def _credentials() -> Iterable[Rule]:
    from memfs.workspace.detectors import values

    return values.CREDENTIAL_RULES


def _numbers_and_addresses() -> Iterable[Rule]:
    from memfs.workspace.detectors import personal_data

    return personal_data.rules()


def _assignments() -> Iterable[Rule]:
    from memfs.workspace.detectors import values

    return values.ASSIGNMENT_RULES


def _phone_numbers() -> Iterable[Rule]:
    from memfs.workspace.detectors import phones

    return phones.rules()


_GROUPS: tuple[tuple[Kind, Callable[[], Iterable[Rule]]], ...] = (
    ("secret", _known_forms),
    ("secret", _credentials),
    ("personal_data", _numbers_and_addresses),
    ("secret", _assignments),
    ("personal_data", _phone_numbers),
)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What a rule proposes; of two the one of lower rank is the more specific."""

    start: int
    end: int
    rank: int
    rule: Rule


def _candidates(rank: int, rule: Rule, view: View) -> Iterator[_Candidate]:
    if rule.anchors and not any(anchor in view.lowered for anchor in rule.anchors):
        return
    for start, end in rule.spans(view):
        if start < end and (rule.over_hidden or HIDDEN not in view.text[start:end]):
            yield _Candidate(start, end, rank, rule)


def _settled(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Candidates without overlaps, in order.

    Of two of one kind that overlap all is taken, and named by the more specific rule. Of two kinds the more specific
    one is taken alone: what is left of the other is seen by the next pass.
    """
    settled: list[_Candidate] = []
    for each in sorted(candidates, key=lambda candidate: (candidate.start, -candidate.end, candidate.rank)):
        last = settled[-1] if settled else None
        if last is None or last.end <= each.start:
            settled.append(each)
            continue
        best = min(last, each, key=lambda candidate: candidate.rank)
        if last.rule.kind == each.rule.kind:
            best = _Candidate(last.start, max(last.end, each.end), best.rank, best.rule)
        settled[-1] = best
    return settled


def _finding(view: View, candidate: _Candidate) -> Finding:
    return Finding(candidate.rule.kind, candidate.rule.label, *view.original(candidate.start, candidate.end))


def _united(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that overlap as one; those that only touch stay two, as their placeholders will."""
    united: list[Span] = []
    for start, end in sorted(spans):
        if united and start < united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united


def _merged(found: list[Finding], new: list[Finding]) -> list[Finding]:
    """Findings of earlier passes and of this one; one of before that is inside one of now gives way."""
    kept = [old for old in found if not any(now.start <= old.start and old.end <= now.end for now in new)]
    return sorted([*kept, *new], key=lambda finding: finding.start)
