"""The command ``memfs`` that waits no longer than a test can: run by tests, in processes of their own.

Everything else is the product's. What is waited for is never another test's or machine's work, only what the test
itself holds back, and so short times make nothing flaky.
"""

import os

from memfs.cli.main import main
from memfs.engine import opening
from memfs.mount import worker
from memfs.vfs import saving, transactions

LOCK_SECONDS = 2.0
"""Where ``MEMFS_TEST_LOCK_SECONDS`` does not say otherwise."""

AGED_SECONDS = 1.0


def hasten() -> None:
    """Shorten the times for which memfs waits for others, and keeps what it could not save."""
    seconds = float(os.environ.get("MEMFS_TEST_LOCK_SECONDS", LOCK_SECONDS))
    opening.LOCK_TIMEOUT_SECONDS = seconds
    transactions.ENOUGH_SECONDS = seconds / 2
    worker.FINISH_SECONDS = 1.5 * seconds
    saving.DIRTY_SECONDS = AGED_SECONDS


if __name__ == "__main__":
    hasten()
    main(prog_name="memfs")
