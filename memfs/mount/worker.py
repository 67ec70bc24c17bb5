"""A worker: the process that serves one mount. It is forked by the supervisor and ends with it."""

import logging
import math
import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import trio

from memfs.model.errors import MemfsError, MountFailed, NotFound
from memfs.model.records import Access, Actor, ConflictPolicy
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
        if feed is not None:
            feed.close()
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

    async def follow(feed: Feed) -> None:
        try:
            await _follow(feed, filesystem, invalidator)
        except MemfsError as error:
            if not isinstance(error, NotFound):  # a store that is gone: who asks next is told
                log.warning(UNFOLLOWED, error)
            operations.followed = False
            filesystem.tree.stale_all()
            invalidator.drop(filesystem.tree.stale)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_signals)
        if feed is not None:
            nursery.start_soon(follow, feed)
        nursery.start_soon(commit_aged)
        nursery.start_soon(keep_up)
        nursery.start_soon(operations.refusals.keep)
        invalidator.start(filesystem.is_known)
        os.write(ready, b"ok\n")
        os.close(ready)
        await pyfuse3.main(min_tasks=2, max_tasks=MAX_REQUESTS)
        stopping.set()  # or pruning a long history would keep us until we are killed, with what is unsaved
        nursery.cancel_scope.cancel()
    await filesystem.finish()
    return asked


def _feed(workspace: Workspace) -> Feed | None:
    """What tells of commits elsewhere; None where the system cannot."""
    try:
        return workspace.feed()
    except MemfsError as error:
        log.warning(UNFOLLOWED, error)
        return None


async def _follow(feed: Feed, filesystem: Filesystem, invalidator: Invalidator) -> None:
    """Let the kernel forget what a commit elsewhere made stale when it is made, not when the next request comes.

    Raises StorageFailed where the system cannot say any more when that is, and what ``refresh`` raises.
    """
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
            await filesystem.refresh()
        due = filesystem.follow_left() if filesystem.tree.left else None
        if filesystem.tree.stale:
            invalidator.drop(filesystem.tree.stale)
