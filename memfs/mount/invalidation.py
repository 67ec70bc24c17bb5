"""Telling the kernel to forget what a change elsewhere made stale.

A request that is under way can hold what an invalidation waits for (a directory, a page), so they are sent from threads
of their own, names and inodes apart, and a handler waits for one only while it lets others run. That the kernel has
forgotten an entry already is no error.

Nor does it know an inode yet while the answer that tells of it is on its way: what that says would then be kept for as
long as any attributes, though it was out of date already. So what the kernel does not know but should is sent again.
"""

import logging
import threading
import time
from collections.abc import Callable

import trio

from memfs.mount.hints import pyfuse3
from memfs.vfs.tree import Stale, StaleEntry, StaleInode

log = logging.getLogger(__name__)

WITHDRAWAL_SECONDS = 0.2
"""How long a handler waits for an invalidation that is being sent."""


AGAIN_SECONDS = 0.02
"""After this, what the kernel does not know yet is sent again."""

UNKNOWN_SECONDS = 10.0
"""How long it may take a kernel, on a machine that is busy, to take over an answer."""

IsKnown = Callable[[int], bool]
"""Whether a kernel was told of an inode and has not given it back; asked from a thread."""


class _Sender:
    """Sends invalidations one after the other, each at most once however often it was asked for while it waited."""

    def __init__(self, name: str) -> None:
        self._is_known: IsKnown = lambda _inode: False
        self._pending: dict[Stale, None] = {}
        self._unknown: dict[Stale, float] = {}
        """What the kernel does not know yet, and the moment (time.monotonic()) until which it may."""
        self._again = 0.0
        """When those are sent again."""
        self._sending: Stale | None = None
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, is_known: IsKnown) -> None:
        self._is_known = is_known
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
            self._unknown.pop(stale, None)
            return stale == self._sending

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _run(self) -> None:
        while (stale := self._next()) is not None:
            self._send(stale)

    def _next(self) -> Stale | None:
        """Wait for what is to be sent; None at the end."""
        with self._wake:
            self._sending = None
            while not self._closed:
                now = time.monotonic()
                if self._unknown and self._again <= now:
                    self._pending.update(dict.fromkeys(self._unknown))
                    self._again = now + AGAIN_SECONDS
                if self._pending:
                    self._sending = next(iter(self._pending))
                    del self._pending[self._sending]
                    return self._sending
                self._wake.wait(self._again - now if self._unknown else None)
            return None

    def _not_known(self, stale: Stale) -> None:
        """The kernel does not know this. Where it was told of it, it will: send it again, unless it was withdrawn."""
        now = time.monotonic()
        with self._wake:
            until = self._unknown.pop(stale, now + UNKNOWN_SECONDS)
            if isinstance(stale, StaleInode) and self._is_known(stale.inode) and now < until:
                self._again = self._again if self._unknown else now + AGAIN_SECONDS
                self._unknown[stale] = until

    def _send(self, stale: Stale) -> None:
        try:
            match stale:
                case StaleInode(inode):
                    pyfuse3.invalidate_inode(inode)
                case StaleEntry(parent, name):
                    pyfuse3.invalidate_entry(parent, name)
        except FileNotFoundError:
            self._not_known(stale)
        except OSError as error:
            # While the mount is going away (ENODEV, ENOTCONN) there is nothing left to keep coherent.
            if not self._closed:
                log.debug("invalidation of %s failed: %s", stale, error)
        else:
            with self._wake:
                self._unknown.pop(stale, None)


class Invalidator:
    """Sends invalidations. A name waits for whoever is changing its directory, and must not hold up the others."""

    def __init__(self) -> None:
        self._names = _Sender("stale-names")
        self._inodes = _Sender("stale-inodes")

    def start(self, is_known: IsKnown) -> None:
        """Begin to send; what was dropped before is sent now."""
        self._names.start(is_known)
        self._inodes.start(is_known)

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
