"""Learning at once that a process, any process, wrote to the database: no polling, and no wake-up while it is idle.

Two parts. ``FileFeed`` is a descriptor that becomes readable when the database's files are written to. ``Looks``
says when to look at the database after that, because SQLite tells it too early: in WAL mode a commit is written to
the -wal file, which wakes us, and published a moment later in the -shm file, which is memory and wakes nobody. A look
in between sees the old state (two of three did, when measured), and who then waits for the next wake waits for ever.

A follower makes both before it reads the state that it starts from, and keeps the connection that it looks with:

    feed, looks = FileFeed(path), Looks(time.monotonic())
    ...                                                    # read the state
    while True:
        readable, _, _ = select.select([feed], [], [], looks.wait(time.monotonic()))
        if readable and feed.clear():                      # clear first: what comes during the look wakes again
            looks.woken(time.monotonic())
        if looks.due(time.monotonic()):
            ...                                            # compare the data version
"""

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from inotify_simple import Event, INotify, flags, parse_events  # type: ignore[import-untyped]  # has no types

from memfs.model.errors import StorageFailed

LOOK_AT_SECONDS = (0.0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""When to look after a wake. What is published t seconds after it was written is seen by 2.5 t, or 0.5 ms.

Between the two lies a system call, or with ``synchronous = FULL`` a sync, which a busy disk can hold up for seconds. A
writer that is stopped in between for longer than the last of these is noticed with whatever is written next.
"""

NAMES = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
DIRECTORY = NAMES | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR

READ_BYTES = 65_536
MOST_READS = 100
"""Empties the kernel's queue as it is by default (16,384 events of at most 272 bytes)."""


class Looks:
    """When to look at the database: at once after a wake, then ever more rarely, and after 10 s no more.

    Times are seconds of any one clock that only goes forward. A look that found something is no reason to stop: the
    wake may have been for two commits. At the start it is as after a wake, because what was written before the feed
    was there may not be published yet.
    """

    def __init__(self, now: float) -> None:
        self.woken(now)

    def woken(self, now: float) -> None:
        """Start over: something was written."""
        self._woken = now
        self._done = 0

    def due(self, now: float) -> bool:
        """Whether to look now. Looks that were missed are made up for by this one."""
        before = self._done
        while self._done < len(LOOK_AT_SECONDS) and self._woken + LOOK_AT_SECONDS[self._done] <= now:
            self._done += 1
        return self._done > before

    def wait(self, now: float) -> float | None:
        """Seconds until the next look; None where only a wake brings one."""
        if self._done == len(LOOK_AT_SECONDS):
            return None
        return max(0.0, self._woken + LOOK_AT_SECONDS[self._done] - now)


class FileFeed:
    """Says when the database may have changed, by whatever process.

    ``select``, trio and asyncio can wait for it to be readable; it stays so until ``clear``. It tells too much rather
    than too little (a checkpoint, a rollback), so that the follower compares the data version. Writes to other files
    do not wake it; other names that come and go in the directory do, and ``clear`` tells them apart.

    One thread at a time may use it. It must not be carried across fork(): both processes would take from one queue.
    """

    def __init__(self, path: Path) -> None:
        """Start to listen. The database need not be there yet, its directory must.

        Raises StorageFailed where there is no directory, or a limit of inotify is reached.
        """
        self.path = path
        try:
            # As SQLite does: it follows symbolic links, and keeps its log beside what they lead to.
            self._directory, name = os.path.split(os.path.realpath(path))
            self._inotify = INotify(nonblocking=True)  # and closed on exec
        except OSError as error:
            raise self._failed(error) from error
        self._names = {name, f"{name}-wal", f"{name}-journal"}  # in a rollback mode, to delete the journal is to commit
        self._written = [os.path.join(self._directory, file) for file in (name, f"{name}-wal")]
        try:
            # First the directory: a file that is made between the two is then told of.
            self._directory_watch = self._inotify.add_watch(self._directory, DIRECTORY)
            self._watch_files()
        except OSError as error:
            self.close()
            raise self._failed(error) from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the descriptor; safe to call twice. A loop that waits for it must have been told before."""
        self._inotify.close()

    def fileno(self) -> int:
        """The descriptor to wait for. Raises StorageFailed once it is closed."""
        if self._inotify.closed:
            raise StorageFailed(f"the feed of {self.path} is closed")
        descriptor: int = self._inotify.fileno()
        return descriptor

    def clear(self) -> bool:
        """Take what is pending, without waiting; returns whether any of it concerns the database.

        True also where the database or its directory was moved, replaced or deleted, and where so much happened that
        the kernel lost count. Raises StorageFailed where a limit of inotify keeps it from listening further.
        """
        changed = False
        for _ in range(MOST_READS):  # others may be faster than we: what is left keeps the descriptor readable
            try:
                events = parse_events(os.read(self.fileno(), READ_BYTES))
            except BlockingIOError:
                break
            for event in events:
                changed = self._concerns(event) or changed
        return changed

    def _concerns(self, event: Event) -> bool:
        """Whether an event says that the database may have changed."""
        if event.wd not in (self._directory_watch, -1):  # -1: the queue ran over
            return True  # one of the files
        if event.name and event.name not in self._names:
            return False
        try:
            self._watch_files()
        except OSError as error:
            raise self._failed(error) from error
        return True

    def _watch_files(self) -> None:
        """Listen to the files that are there; to one that is listened to already, this changes nothing.

        The files and not the writes in their whole directory: a log beside them would wake every follower at every
        line. A file that was moved away stays listened to until it is deleted: connections may still have it open.
        """
        for file in self._written:
            try:
                self._inotify.add_watch(file, flags.MODIFY)
            except (FileNotFoundError, NotADirectoryError):
                continue  # the -wal is there while somebody has the database open; when it comes, the directory says so

    def _failed(self, error: OSError) -> StorageFailed:
        """An error that says which of the limits was reached."""
        reasons = {
            errno.EMFILE: "too many inotify instances of this user (raise the sysctl fs.inotify.max_user_instances)"
            " or open files of this process (raise ulimit -n)",
            errno.ENOSPC: "too many inotify watches of this user (raise the sysctl fs.inotify.max_user_watches)",
            errno.ENOENT: "its directory is not there",
            errno.ENOTDIR: "its directory is not there",
        }
        return StorageFailed(
            f"cannot follow the changes of {self.path}: {reasons.get(error.errno or 0, error.strerror)}"
        )
