"""What those who make the load note: each write that was acknowledged, and what they saw."""

import random
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256


@dataclass(frozen=True, slots=True)
class Noted:
    """A write that was acknowledged.

    What its writer was not told is None: ids on a mount, a version's id where something was deleted over HTTP. A
    deletion has no hash. An actor without an id is the user of this machine.
    """

    actor: str
    operation: str
    path: str | None = None
    sha256: str | None = None
    memory_id: str | None = None
    version_id: str | None = None


@dataclass
class Notes:
    """What one process has done and seen."""

    writes: list[Noted] = field(default_factory=list)
    redacted: list[str] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)
    """Store and line of each entry of the journals."""
    seconds: list[tuple[str, float]] = field(default_factory=list)
    """What was done, and how long it took."""
    refused: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Errors that the contract knows, by status and type."""
    files: dict[str, str] = field(default_factory=dict)
    """Paths that nobody else writes to, with the hash of what was left there."""
    wrong: list[str] = field(default_factory=list)
    """Whatever should not be."""

    def add(self, other: "Notes") -> None:
        """Take over what another process has noted."""
        self.writes += other.writes
        self.redacted += other.redacted
        self.lines += other.lines
        self.seconds += other.seconds
        self.refused += other.refused
        self.files |= other.files
        self.wrong += other.wrong


def text_of(writer: str, number: int, chance: random.Random) -> str:
    """A text that nobody else writes, with all its lines alike, so that a mixture of two shows."""
    line = f"{writer} {number} {'.' * chance.randrange(60)}\n"
    return line * chance.choice((1, 3, 10, 10, 30, 300))


def is_whole(text: str) -> bool:
    """Whether a text is one that was written, and no mixture."""
    return len(set(text.splitlines())) <= 1


def digest(text: str | bytes) -> str:
    """The hash by which a content is known."""
    return sha256(text.encode() if isinstance(text, str) else text).hexdigest()
