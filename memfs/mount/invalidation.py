"""Telling the kernel to forget what a change elsewhere made stale.

A request that is under way can hold what an invalidation waits for, so they are sent from a thread of their own and
never waited for by a handler. That the kernel has forgotten an entry already is no error.
"""

import logging
import threading

import pyfuse3

from memfs.vfs.tree import Stale, StaleEntry, StaleInode

log = logging.getLogger(__name__)


class Invalidator:
    """Sends invalidations, each at most once however often it was asked for while it waited."""

    def __init__(self) -> None:
        self._pending: dict[Stale, None] = {}
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="invalidator", daemon=True)

    def start(self) -> None:
        """Begin to send; what was dropped before is sent now."""
        self._thread.start()

    def drop(self, stale: list[Stale]) -> None:
        """Take over a list of stale things, and empty it."""
        if not stale:
            return
        with self._wake:
            self._pending.update(dict.fromkeys(stale))
            self._wake.notify()
        stale.clear()

    def close(self) -> None:
        """Send nothing more."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._pending or self._closed)
                batch = list(self._pending)
                self._pending.clear()
                if self._closed:
                    return
            for stale in batch:
                self._send(stale)

    def _send(self, stale: Stale) -> None:
        try:
            match stale:
                case StaleInode(inode):
                    pyfuse3.invalidate_inode(inode)
                case StaleEntry(parent, name):
                    pyfuse3.invalidate_entry(parent, name)
        except FileNotFoundError:
            pass  # the kernel does not know it: nothing to forget
        except OSError as error:
            # While the mount is going away (ENODEV, ENOTCONN) there is nothing left to keep coherent.
            if not self._closed:
                log.debug("invalidation of %s failed: %s", stale, error)
