"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured. Sizes in bytes, ``sample`` in milliseconds."""

    rounds: int = 15
    searches: int = 5
    """Rounds of grep, each with fresh mounts."""
    sample: int = 60
    memories: int = 2_000
    size: int = 2_000
    starts: int = 7
    stores: int = 8
    changes: int = 200
    changes_seconds: float = 60.0
    """The changes that are waited for end then, however many there were."""
    versions: int = 1_000_000
    history_rounds: int = 300
    history_memories: int = 1_000
    curve_rounds: int = 4
    curve_memories: tuple[int, ...] = (10, 30, 100, 300, 1_000, 2_000)
    curve_versions: tuple[int, ...] = (10_000, 100_000)
    """Beside those that every memory has, and ``versions``."""
    curve_sessions: tuple[int, ...] = (1, 2, 4, 8, 16)
    curve_bytes: tuple[int, ...] = (100, 1_000, 10_000, 100_000)


FULL = Plan()

QUICK = Plan(
    rounds=5,
    searches=3,
    sample=25,
    starts=2,
    changes=60,
    changes_seconds=8.0,
    versions=20_000,
    history_rounds=60,
    curve_rounds=2,
    curve_memories=(10, 2_000),
    curve_versions=(),
    curve_sessions=(1, 4),
    curve_bytes=(100, 100_000),
)
