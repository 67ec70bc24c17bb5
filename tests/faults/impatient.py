"""The command ``memfs`` that waits no longer than a test can: run by tests, in processes of their own.

Everything else is the product's. What is waited for is never another test's or machine's work, only what the test
itself holds back, and so short times make nothing flaky.
"""

from memfs.cli.main import main
from memfs.engine import opening
from memfs.mount import worker
from memfs.vfs import saving, transactions

LOCK_SECONDS = 2.0
AGED_SECONDS = 1.0
FINISH_SECONDS = 5.0


def hasten() -> None:
    """Shorten the times for which memfs waits for others, and keeps what it could not save."""
    opening.LOCK_TIMEOUT_SECONDS = LOCK_SECONDS
    transactions.ENOUGH_SECONDS = LOCK_SECONDS / 2
    saving.DIRTY_SECONDS = AGED_SECONDS
    worker.FINISH_SECONDS = FINISH_SECONDS


if __name__ == "__main__":
    hasten()
    main(prog_name="memfs")
