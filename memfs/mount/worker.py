"""A worker: the process that serves one mount. It is forked by the supervisor and ends with it."""

import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import trio

from memfs.model.errors import MemfsError, MountFailed, NotFound
from memfs.model.records import Access, Actor, ConflictPolicy
from memfs.model.repeats import Repeats
from memfs.mount.hints import pyfuse3
from memfs.mount.invalidation import Invalidator
from memfs.mount.operations import StoreOperations, mount_options
from memfs.mount.processes import die_with_parent, holds_open, same_process, set_process_name
from memfs.mount.refusals import Refusals
from memfs.vfs import Filesystem, Temporaries
from memfs.vfs.temporaries import DEFAULT_NAMES, TemporaryNames
from memfs.workspace import Feed, Looks, Workspace
from memfs.workspace.accesses import RECORD_SECONDS

log = logging.getLogger(__name__)

MAX_REQUESTS = 1_000
"""Requests under way at once. Closes that wait for the database's lock must leave room for reads."""

SWITCH_SECONDS = 0.0005
"""How long a thread that searches a text for secrets keeps Python's lock. A request takes it some ten times, because
each call of SQLite gives it back: with the usual 5 ms, opens would take 50 ms for as long as a search goes on."""

FINISH_SECONDS = 20.0
"""How long what is unsaved at the end may wait for another process. The supervisor kills a worker after 30, and then
nobody would say what is lost."""

AGAIN_SECONDS = 1.0
"""After what went wrong beside the requests, before it is tried again."""

UNFOLLOWED = "changes made elsewhere may be seen a second late: %s"

EXIT_FAILED = 1
EXIT_UNMOUNTED = 3
"""Somebody else took the mount down; it is not to be made again."""
EXIT_DELETED = 4
"""The store is gone; there is nothing to mount again."""


@dataclass(frozen=True, slots=True)
class StoreMount:
    """What a worker mounts: a store of a database, for a session."""

    path: Path
    database: Path
    store_id: str
    store_name: str
    access: Access
    on_conflict: ConflictPolicy
    session_id: str
    allow_other: bool
    refusals: Path
    temporaries: TemporaryNames = DEFAULT_NAMES
    device: int | None = None
    """An open /dev/fuse that is mounted at the path already, in a sandbox; None: the worker mounts."""
    owner: tuple[int, int] | None = None
    """User and group that own every file, as the mount counts them; None: those of the worker."""
    strict: bool = False
    """Whether each open looks for what others have closed, also where nothing is written; see ``StoreOperations``."""
    umask: int | None = None
    """Permission bits that nobody has, while all others may read, write and search; None: each file's own bits."""


def ending_signals() -> set[signal.Signals]:
    """What ends a supervisor or worker; not what whoever started it (nohup, a script's ``&``) wanted ignored."""
    optional = {signal.SIGINT, signal.SIGHUP}
    return {signal.SIGTERM} | {number for number in optional if signal.getsignal(number) != signal.SIG_IGN}


def serve(mount: StoreMount, ready: int, parent: int) -> int:
    """Mount, say so on the descriptor ``ready`` (a line ``ok``, or the reason why not), serve, and unmount.

    Returns the exit status. What was written is committed before the mount goes, however it ends.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent, signal.SIGTERM)
    set_process_name(f"memfs:{mount.path.name}")
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        read_only = mount.access == "read_only"
        workspace = Workspace.open(mount.database, read_only=read_only)
        actor = Actor("session_actor", mount.session_id)
        attached = workspace.attached(mount.store_id, actor, mount.access, mount.on_conflict)
        invalidator = Invalidator()
        filesystem = Filesystem(
            attached,
            temporaries=Temporaries(mount.temporaries),
            holds_open=holds_open,
            same_process=same_process,
            stale_name=invalidator.concerns,
        )
        feed = _feed(workspace)
        uid, gid = mount.owner or (os.getuid(), os.getgid())
        operations = StoreOperations(
            filesystem,
            invalidator,
            Refusals(mount.refusals),
            uid=uid,
            gid=gid,
            umask=mount.umask,
            followed=feed is not None,
        )
        path = mount.path if mount.device is None else Path(f"/dev/fd/{mount.device}")  # which libfuse knows
        _init(operations, path, mount_options(read_only=read_only, allow_other=mount.allow_other, name="memfs"))
        operations.begin(strict=mount.strict)
    except MemfsError as error:
        os.write(ready, f"{error}\n".encode())
        return EXIT_DELETED if isinstance(error, NotFound) and mount.database.exists() else EXIT_FAILED
    try:
        asked = trio.run(_serve, workspace, operations, feed, ready)
    finally:
        operations.refusals.close()
        invalidator.close()
        pyfuse3.close(unmount=True)
        workspace.close()
    return 0 if asked else EXIT_UNMOUNTED


def _init(operations: StoreOperations, path: Path, options: set[str]) -> None:
    """Mount. libfuse says why it could not on standard error only, so that is caught and told."""
    said = os.memfd_create("libfuse-stderr")
    before = os.dup(2)
    os.dup2(said, 2)
    try:
        pyfuse3.init(operations, os.fspath(path), options)
    except RuntimeError:
        os.lseek(said, 0, os.SEEK_SET)
        reason = " ".join(os.read(said, 4096).decode(errors="replace").split()) or "libfuse gave no reason"
        raise MountFailed(
            f"{path} could not be mounted ({reason}): it takes root with CAP_SYS_ADMIN, or the fuse3 package's"
            " fusermount3 and a directory of your own"
        ) from None
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
        os.close(said)


def _prune_if_due(workspace: Workspace, stop: threading.Event) -> None:
    try:
        removed = workspace.retention.prune_if_due(stop)
    except MemfsError as error:
        log.warning("old versions were not pruned: %s", error)
    else:
        if removed:
            log.info("pruned versions=%d", removed)


async def _serve(workspace: Workspace, operations: StoreOperations, feed: Feed | None, ready: int) -> bool:
    """Answer requests until a signal (True) or until somebody unmounts (False); then commit what is left."""
    filesystem, invalidator = operations.filesystem, operations.invalidator
    asked = False
    stopping = threading.Event()

    async def watch_signals() -> None:
        nonlocal asked
        ending = ending_signals()
        with trio.open_signal_receiver(*ending) as signals:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
            async for _ in signals:
                if not asked:
                    asked = True
                    workspace.hurry(FINISH_SECONDS)
                    pyfuse3.terminate()

    async def commit_aged() -> None:
        while True:
            filesystem.became_dirty = trio.Event()
            due = await filesystem.commit_aged(trio.current_time())
            invalidator.drop(filesystem.tree.stale)
            with trio.move_on_at(math.inf if due is None else due):
                await filesystem.became_dirty.wait()
            # Not at each write: a writer that is at it would have us look at every one.
            await trio.sleep(1)

    async def keep_up() -> None:
        """Now and then, put on record what was read, and prune where the workspace's settings ask for it."""
        while True:
            if not filesystem.read_only:
                await trio.to_thread.run_sync(_prune_if_due, workspace, stopping)
            await trio.sleep(RECORD_SECONDS)
            await trio.to_thread.run_sync(workspace.accesses.record)

    async with trio.open_nursery() as until_the_end:
        until_the_end.start_soon(watch_signals)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_outliving, _Following(workspace, operations, feed).run)
                nursery.start_soon(_outliving, commit_aged)
                nursery.start_soon(_outliving, keep_up)
                nursery.start_soon(_outliving, operations.refusals.keep)
                invalidator.start(filesystem.is_known)
                os.write(ready, b"ok\n")
                os.close(ready)
                await pyfuse3.main(min_tasks=2, max_tasks=MAX_REQUESTS)
                stopping.set()  # or pruning a long history would keep us until we are killed, with what is unsaved
                nursery.cancel_scope.cancel()
        finally:
            # However it ended: no memory for another request, perhaps.
            with trio.CancelScope(shield=True):
                if not asked:
                    workspace.hurry(FINISH_SECONDS)
                await filesystem.finish()
        until_the_end.cancel_scope.cancel()
    return asked


async def _outliving(task: Callable[[], Awaitable[None]]) -> None:
    """Run what has no request that could be told what went wrong: begin it again, for the mount must live on."""
    repeats = Repeats()
    while True:
        try:
            await task()
        except Exception as error:
            if repeats.worth_telling(repr(error)):
                log.exception("beside the requests something failed, and is tried again")
            await trio.sleep(AGAIN_SECONDS)
        else:
            return


def _feed(workspace: Workspace) -> Feed | None:
    """What tells of commits elsewhere; None where the system cannot."""
    try:
        return workspace.feed()
    except MemfsError as error:
        log.warning(UNFOLLOWED, error)
        return None


class _Following:
    """Lets the kernel forget what a commit elsewhere made stale when it is made, not when the next request comes.

    Where that fails, the kernel is told to ask us again and again, until it works again.
    """

    def __init__(self, workspace: Workspace, operations: StoreOperations, feed: Feed | None) -> None:
        """``feed`` is None where it could not be had."""
        self._workspace = workspace
        self._operations = operations
        self._filesystem = operations.filesystem
        self._invalidator = operations.invalidator
        self._feed = feed
        self._trouble = ""
        """What was told of it last; empty where all is well."""
        self._displaced = False

    async def run(self) -> None:
        """Follow, until the store is gone."""
        try:
            while True:
                try:
                    if self._feed is None:
                        self._feed = self._workspace.feed()
                    await self._follow(self._feed)
                except NotFound:  # who asks next is told
                    self._unfollowed()
                    return
                except MemfsError as error:
                    if str(error) != self._trouble:
                        log.warning(UNFOLLOWED, error)
                        self._trouble = str(error)
                    self._unfollowed()
                self._close()
                await trio.sleep(AGAIN_SECONDS)
        finally:
            self._close()

    def _close(self) -> None:
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def _unfollowed(self) -> None:
        if self._operations.followed:
            self._operations.followed = False
            self._filesystem.tree.stale_all()
            self._invalidator.drop(self._filesystem.tree.stale)

    async def _follow(self, feed: Feed) -> None:
        """Raises StorageFailed where the system cannot say any more when that is, and what ``refresh`` raises."""
        looks = Looks(trio.current_time())
        due: float | None = None
        while True:
            wait = looks.wait(trio.current_time())
            deadline = math.inf if wait is None else trio.current_time() + wait
            with trio.move_on_at(deadline if due is None else min(deadline, due)):
                await trio.lowlevel.wait_readable(feed.fileno())
                if feed.clear():
                    looks.woken(trio.current_time())
            if looks.due(trio.current_time()):
                await self._filesystem.refresh()
                self._look_for_database()
                if not self._operations.followed:
                    self._operations.followed = True
                    self._trouble = ""
                    log.info("changes made elsewhere are seen at once again", extra={"once": True})
            due = self._filesystem.follow_left() if self._filesystem.tree.left else None
            if self._filesystem.tree.stale:
                self._invalidator.drop(self._filesystem.tree.stale)

    def _look_for_database(self) -> None:
        """Tell once that the database was moved away or replaced, and once that it is back: what is known is shown all
        the while, but nothing is saved.
        """
        try:
            self._workspace.engine.check_in_place()
        except MemfsError as error:
            if not self._displaced:
                log.error("nothing can be saved for now: %s", error)
            self._displaced = True
        else:
            if self._displaced:
                log.info("the database is in its place again", extra={"once": True})
            self._displaced = False
