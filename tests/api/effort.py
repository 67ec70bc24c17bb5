"""How much is tried where chance is at work: little by default, much by ``make fuzz-api`` and ``make fuzz-mount``."""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, seed, settings

EFFORT = int(os.environ.get("MEMFS_FUZZ", "1"))
"""How many times as many examples as by default; over 1 they are other ones each time."""

SEED = 1 if EFFORT == 1 else int.from_bytes(os.urandom(4))
"""What randomness begins with; a failure that it finds tells it."""


def fuzzed(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """How often, and always the same ones unless there is more effort than by default."""
    chosen = settings(
        max_examples=examples * EFFORT,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    return lambda function: seed(SEED)(chosen(function))
