"""The errors of a local disk; where a rule of the store is broken, MemfsError is raised instead."""

import os


def os_error(number: int, what: str = "") -> OSError:
    """An OSError of this errno; ``what`` tells a reader of the log what it was about."""
    return OSError(number, os.strerror(number), what or None)
