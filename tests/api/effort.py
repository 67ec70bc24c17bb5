"""How much is tried where chance is at work: little by default, much by ``make fuzz-api`` and ``make fuzz-mount``."""

import os

EFFORT = int(os.environ.get("MEMFS_FUZZ", "1"))
"""How many times as many examples as by default; over 1 they are other ones each time."""

SEED = 1 if EFFORT == 1 else int.from_bytes(os.urandom(4))
"""What randomness begins with; a failure that it finds tells it."""
