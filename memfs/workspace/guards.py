"""Guards: what a store refuses or masks in every write, whoever writes and by whatever way."""

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

from memfs.model.errors import InvalidPath, InvalidRequest, WriteRefused
from memfs.model.paths import check_path, split
from memfs.model.records import MAX_CONTENT_BYTES, NO_GUARDS, GuardAction, Guards
from memfs.workspace import detectors

MAX_PATTERNS = 64

KEPT_SEARCHES = 8
"""Of so many texts that were searched last it is remembered where what was found: by hash, and nothing of the text."""


def check_guards(guards: Guards) -> None:
    """Check what somebody wants as a store's guards. Raises InvalidRequest, also where the detectors are missing."""
    if guards.secrets is not None or guards.personal_data is not None:
        detectors.find("", {"secret", "personal_data"})
    limit = guards.max_content_bytes
    if limit is not None and not 1 <= limit <= MAX_CONTENT_BYTES:
        raise InvalidRequest(f"a size limit is 1 to {MAX_CONTENT_BYTES} bytes, not {limit}")
    if len(guards.allowed_paths) > MAX_PATTERNS:
        raise InvalidRequest(f"there are at most {MAX_PATTERNS} patterns of paths, not {len(guards.allowed_paths)}")
    for pattern in guards.allowed_paths:
        try:
            check_path(pattern)
        except InvalidPath as error:
            raise InvalidRequest(f"no memory's path can match the pattern {pattern!r}: {error}") from None


ANY_NUMBER = "**"


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    """A glob pattern of whole paths, a segment each; None stands for any number of them."""
    segments = split(pattern)
    if segments[-1] == ANY_NUMBER:
        segments.append("*")  # what lies below, not the directory itself
    return tuple(None if segment == ANY_NUMBER else _segment_matcher(segment) for segment in segments)


def _segment_matcher(text: str) -> re.Pattern[str]:
    """``*`` and ``?`` within one segment. Each ``*`` but the last is done with once what follows it was found: going
    back to it would find nothing else, and would take whoever chooses a path as long as they like."""
    first, *others = [re.escape(part).replace(r"\?", ".") for part in re.split(r"\*+", text)]
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    return re.compile(f"{first}{''.join(f'(?>.*?{part})' for part in middle)}.*{last}", re.DOTALL)


def _matches(pattern: str, path: str) -> bool:
    parts = _matcher(pattern)

    def beyond(places: set[int]) -> set[int]:
        """Places in the pattern, with those that are reached by taking no segment at all."""
        for place in sorted(places):
            while place < len(parts) and parts[place] is None:
                place += 1
                places.add(place)
        return places

    places = beyond({0})
    for segment in split(path):
        reached = set()
        for place in places - {len(parts)}:
            part = parts[place]
            if part is None:
                reached.add(place)
            elif part.fullmatch(segment):
                reached.add(place + 1)
        places = beyond(reached)
    return len(parts) in places


def guard_path(guards: Guards, path: str) -> None:
    """Check a path that is about to be written. Raises WriteRefused."""
    if guards.allowed_paths and not any(_matches(pattern, path) for pattern in guards.allowed_paths):
        raise WriteRefused(f"a guard of the store allows no memory at {path}: only {', '.join(guards.allowed_paths)}")


def guard_content(guards: Guards, content: bytes) -> bytes:
    """What may be stored of a checked content: the same, or with what was found masked.

    Raises WriteRefused; its message names kinds and lines, never what was found.
    """
    if guards == NO_GUARDS:
        return content
    _check_size(guards, content)
    actions = _actions(guards)
    if not actions:
        return content
    text = content.decode()
    findings = _searches.find(content, text, frozenset(actions))
    refused = [finding for finding in findings if actions[finding.kind] == "reject"]
    if refused:
        found = ", ".join(f"{each.label} in line {text.count(chr(10), 0, each.start) + 1}" for each in refused[:5])
        more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
        raise WriteRefused(f"a guard of the store refuses the text: {found}{more}; remove it and save again")
    if not findings:
        return content
    masked = detectors.mask(text, findings).encode()
    _check_size(guards, masked)  # or what is stored could be neither copied nor restored
    return masked


def searches(guards: Guards) -> bool:
    """Whether texts are searched under these guards, which can take long."""
    return bool(_actions(guards))


def _actions(guards: Guards) -> dict[detectors.Kind, GuardAction]:
    actions: dict[detectors.Kind, GuardAction | None] = {
        "secret": guards.secrets,
        "personal_data": guards.personal_data,
    }
    return {kind: action for kind, action in actions.items() if action is not None}


class _Searches:
    """The last searches of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[bytes, frozenset[detectors.Kind]], Sequence[detectors.Finding]] = OrderedDict()

    def find(self, content: bytes, text: str, kinds: frozenset[detectors.Kind]) -> Sequence[detectors.Finding]:
        key = sha256(content).digest(), kinds
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        findings = detectors.find(text, kinds)
        with self._lock:
            self._kept[key] = findings
            if len(self._kept) > KEPT_SEARCHES:
                self._kept.popitem(last=False)
        return findings


_searches = _Searches()


def _check_size(guards: Guards, content: bytes) -> None:
    limit = guards.max_content_bytes
    if limit is not None and len(content) > limit:
        raise WriteRefused(
            f"a guard of the store allows {limit} bytes a memory, this text has {len(content)}: split it"
        )
