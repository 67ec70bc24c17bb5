"""Telling the kernel to forget what a change elsewhere made stale.

A request that is under way can hold what an invalidation waits for (a directory, a page), so they are sent from threads
of their own, names and inodes apart, and a handler waits for one only while it lets others run. That the kernel has
forgotten an entry already is no error.
"""

import logging
import threading

import trio

from memfs.mount.hints import pyfuse3
from memfs.vfs.tree import Stale, StaleEntry, StaleInode

log = logging.getLogger(__name__)

WITHDRAWAL_SECONDS = 0.2
"""How long a handler waits for an invalidation that is being sent."""


class _Sender:
    """Sends invalidations one after the other, each at most once however often it was asked for while it waited."""

    def __init__(self, name: str) -> None:
        self._pending: dict[Stale, None] = {}
        self._sending: Stale | None = None
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, stale: list[Stale]) -> None:
        with self._wake:
            self._pending.update(dict.fromkeys(stale))
            self._wake.notify()

    def concerns(self, stale: Stale) -> bool:
        """Whether this is still to be sent, or just being sent."""
        with self._wake:
            return stale in self._pending or stale == self._sending

    def withdraw(self, stale: Stale) -> bool:
        """Do not send this; returns whether it is being sent already."""
        with self._wake:
            self._pending.pop(stale, None)
            return stale == self._sending

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._sending = None
                self._wake.wait_for(lambda: self._pending or self._closed)
                if self._closed:
                    return
                self._sending = next(iter(self._pending))
                del self._pending[self._sending]
            self._send(self._sending)

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


class Invalidator:
    """Sends invalidations. A name waits for whoever is changing its directory, and must not hold up the others."""

    def __init__(self) -> None:
        self._names = _Sender("stale-names")
        self._inodes = _Sender("stale-inodes")

    def start(self) -> None:
        """Begin to send; what was dropped before is sent now."""
        self._names.start()
        self._inodes.start()

    def drop(self, stale: list[Stale]) -> None:
        """Take over a list of stale things, and empty it."""
        if not stale:
            return
        self._inodes.add([each for each in stale if isinstance(each, StaleInode)])
        self._names.add([each for each in stale if isinstance(each, StaleEntry)])
        stale.clear()

    def concerns(self, entry: StaleEntry) -> bool:
        """Whether the kernel is still to be told of a name."""
        return self._names.concerns(entry)

    async def withdraw(self, inode: StaleInode, stale: list[Stale]) -> None:
        """Do not send this, which may still be in a list that was not dropped; where it is being sent, wait until the
        kernel has it.
        """
        while inode in stale:
            stale.remove(inode)
        with trio.move_on_after(WITHDRAWAL_SECONDS):
            # It waits for pages, if for anything, which other requests are about to fill.
            while self._inodes.withdraw(inode):  # noqa: ASYNC110 (the sender is a thread, and nearly always done)
                await trio.sleep(0.0005)

    def close(self) -> None:
        """Send nothing more."""
        self._names.close()
        self._inodes.close()
