"""What guards refused on a mount: an errno cannot say why, so ``memfs status`` does.

Each worker keeps the newest ones in a file beside the record of its root, which goes when the root is unmounted.
"""

import json
import logging
import os
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path

from memfs.model.records import now

log = logging.getLogger(__name__)

KEPT = 10
"""How many are kept of each mount."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused write: when, where in the store, and why; never what was written."""

    at: str
    path: str
    reason: str


class Refusals:
    """The refusals of one mount."""

    def __init__(self, file: Path) -> None:
        """Goes on where an earlier worker of the same mount ended."""
        self._file = file
        self._kept: deque[Refusal] = deque(read_refusals(file), maxlen=KEPT)

    def add(self, path: str, reason: str) -> None:
        """Log a refusal and keep it."""
        log.warning("refused path=%s reason=%s", path, reason)
        self._kept.append(Refusal(now(), path, reason))
        temporary = self._file.with_suffix(".new")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w") as file:
                json.dump([asdict(refusal) for refusal in self._kept], file)
            temporary.replace(self._file)
        except OSError as error:
            log.warning("the refusal could not be put where 'memfs status' finds it: %s", error)


def read_refusals(file: Path) -> list[Refusal]:
    """The refusals in a mount's file, oldest first; none where there is no such file or it cannot be read."""
    try:
        found = [Refusal(**fields) for fields in json.loads(file.read_text())]
        if not all(isinstance(text, str) for each in found for text in (each.at, each.path, each.reason)):
            raise ValueError("what should be texts are none")
        return found
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, RecursionError) as error:
        log.warning("the refusals in %s cannot be read: %s", file, error)
        return []
