"""The supervisor of one root: starts a worker for each store, restarts those that die, takes all down at the end.

It is one thread that waits for signals, so that it can fork at any time; all serving is done by the workers.
"""

import logging
import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from memfs.model.errors import MemfsError, MountFailed
from memfs.model.records import Session
from memfs.mount import worker
from memfs.mount.backoff import Backoff
from memfs.mount.processes import Answer, asked, forget_environment, set_process_name
from memfs.mount.root import Root, make_store_directory, plan_root, prepare_root, unguarded, unmount
from memfs.mount.runtime import MountRecord, RootRecord, RootState
from memfs.mount.worker import StoreMount
from memfs.vfs.temporaries import DEFAULT_NAMES, TemporaryNames
from memfs.workspace import Workspace

log = logging.getLogger(__name__)

START_SECONDS = 20.0
"""How long a mount may take until it answers."""

STOP_SECONDS = 30.0
"""How long a worker may take to commit and unmount; longer than a commit waits for the database's lock."""

SETTLE_SECONDS = 5.0
"""How long the end of a session may wait for another process, which can be at a scrub for minutes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What shall be mounted. ``scratch_size`` is in bytes."""

    root: Path
    database: Path
    session: Session
    scratch_size: int
    allow_other: bool
    ends_session: bool
    """Whether the session was begun for these mounts, and so ends with them."""
    temporaries: TemporaryNames = DEFAULT_NAMES
    owner: tuple[int, int] | None = None
    """User and group that own every file; None: those of whoever mounts."""
    umask: int | None = None
    """See ``StoreMount``."""
    strict: bool = False
    """See ``StoreMount``."""


@dataclass(slots=True)
class WorkerState:
    """A store and the worker that serves it, if there is one now."""

    mount: StoreMount
    pid: int = 0
    started: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)
    restart_at: float | None = None
    gone: bool = field(default=False)


class Supervisor:
    """Runs a plan until it is told to stop."""

    def __init__(self, plan: Plan, state: RootState, private: Sequence[int]) -> None:
        """``private`` are descriptors that tell of our life, the lock's first; workers must not keep them."""
        self.plan = plan
        self.state = state
        self.private = list(private)
        self._lock = self.private[0]
        self._signals: set[signal.Signals] = set()
        self._root: Root | None = None
        self._stores: list[WorkerState] = []

    def _plan_stores(self, place: Path) -> None:
        self._stores = [
            WorkerState(
                StoreMount(
                    path=place / Path(attachment.mount_path).name,
                    database=self.plan.database,
                    store_id=attachment.memory_store_id,
                    store_name=attachment.name,
                    access=attachment.access,
                    on_conflict=attachment.on_conflict,
                    session_id=self.plan.session.id,
                    allow_other=self.plan.allow_other,
                    refusals=self.state.refusals_path(Path(attachment.mount_path).name),
                    temporaries=self.plan.temporaries,
                    owner=self.plan.owner,
                    umask=self.plan.umask,
                    strict=self.plan.strict,
                )
            )
            for attachment in self.plan.session.attachments
        ]

    def run(self, ready: Callable[[], None], stopping: Callable[[], None] = lambda: None) -> None:
        """Mount everything, call ``ready``, and serve until SIGTERM, SIGINT or the last mount is gone.

        Then call ``stopping``, and take everything down. Raises MountFailed, with nothing left mounted, where a mount
        cannot be made.
        """
        set_process_name("memfs")
        forget_environment()
        os.chdir("/")
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by the caller, children would end unseen
        self._signals = worker.ending_signals() | {signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        try:
            self._prepare()
            self._start(*self._stores)
            for store in self._stores:
                if self._asked(store.mount.path, START_SECONDS) == "silent":
                    raise MountFailed(f"{store.mount.path} does not answer: see {self.state.log_path}")
            self._record()
            ready()
            log.info("mounted root=%s stores=%d", self.plan.root, len(self._stores))
            self._watch()
            stopping()
        finally:
            self._stop()

    # Where the stores are mounted; ``memfs.mount.inside`` mounts them in a sandbox instead.

    def _prepare(self) -> None:
        """Make the place for the stores. Raises MountFailed."""
        names = [Path(attachment.mount_path).name for attachment in self.plan.session.attachments]
        self._root = plan_root(self.plan.root, self.state.private_place(shared=self.plan.allow_other))
        self._plan_stores(self._root.place)
        # Before anything is made, so that whatever ends us, what we made can be found and taken away.
        self._record()
        prepare_root(self._root, names, size=self.plan.scratch_size, shared=self.plan.allow_other)

    def _opened(self, store: WorkerState) -> AbstractContextManager[None]:
        """Around the start of a store's worker. Raises MountFailed."""
        return unguarded(store.mount.path)

    def _asked(self, path: Path, seconds: float) -> Answer:
        return asked(path, seconds)

    def _unmount(self, path: Path) -> None:
        """Take down what is left of a mount of ours. Never raises."""
        unmount(path)

    def _make_point(self, path: Path) -> None:
        """Make sure that there is something to mount on again. Raises OSError."""
        make_store_directory(path)

    def _take_away(self) -> None:
        """Take away the place and what tells of it."""
        if self._root is not None:
            self._root.clear()
            self._settle()
        self.state.remove(self._lock)

    # Starting

    def _start(self, *stores: WorkerState) -> None:
        """Fork workers, which load their stores beside each other, and wait until all have mounted.

        Raises MountFailed with what the first of those said that could not mount.
        """
        with ExitStack() as stack:
            said: list[int] = []
            for store in stores:
                stack.enter_context(self._opened(store))
                said.append(self._fork(store, said))
                stack.callback(os.close, said[-1])
            for store, receiving in zip(stores, said, strict=True):
                self._await_mounted(store, receiving)

    def _fork(self, store: WorkerState, others: Sequence[int]) -> int:
        """Fork a worker; returns the descriptor on which it will say that it has mounted. ``others`` are such ones."""
        receiving, ready = os.pipe()
        parent = os.getpid()
        store.started = time.monotonic()
        store.pid = 0
        store.restart_at = None
        store.pid = os.fork()
        if store.pid == 0:
            status = worker.EXIT_FAILED
            try:
                os.close(receiving)
                devices = [other.mount.device for other in self._stores if other is not store]
                for descriptor in (*self.private, *others, *(device for device in devices if device is not None)):
                    os.close(descriptor)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
                _log_as(store.mount)
                status = worker.serve(store.mount, ready, parent)
            except BaseException:
                log.exception("the worker failed path=%s", store.mount.path)
            finally:
                logging.shutdown()
                os._exit(status)
        os.close(ready)
        return receiving

    def _await_mounted(self, store: WorkerState, receiving: int) -> None:
        said = _read_line(receiving, START_SECONDS)
        if said != "ok":
            if not said:
                os.kill(store.pid, signal.SIGKILL)  # where it hangs; one that has said why ends with its own status
            raise MountFailed(said or f"the worker of {store.mount.path} did not start: see {self.state.log_path}")

    def _record(self) -> None:
        assert self._root is not None
        self.state.write(
            RootRecord(
                root=os.fspath(self.plan.root),
                database=os.fspath(self.plan.database),
                session_id=self.plan.session.id,
                pid=os.getpid(),
                place=os.fspath(self._root.place),
                existed=self._root.existed,
                tmpfs=self._root.tmpfs,
                temporaries=self.plan.temporaries,
                ends_session=self.plan.ends_session,
                mounts=self._mounts(),
            )
        )

    def _mounts(self) -> tuple[MountRecord, ...]:
        """What others are told of the mounts."""
        return tuple(
            MountRecord(
                path=os.fspath(self.plan.root / store.mount.path.name),
                memory_store_id=store.mount.store_id,
                name=store.mount.store_name,
                access=store.mount.access,
                pid=store.pid,
            )
            for store in self._stores
        )

    # Watching

    def _watch(self) -> None:
        while True:
            due = min((store.restart_at for store in self._stores if store.restart_at is not None), default=None)
            received: signal.struct_siginfo | None
            if due is None:
                received = signal.sigwaitinfo(self._signals)
            else:
                received = signal.sigtimedwait(self._signals, max(0.0, due - time.monotonic()))
            if received is not None and received.si_signo != signal.SIGCHLD:
                log.info("stopping signal=%s", signal.Signals(received.si_signo).name)
                return
            if not self._reap():
                return
            for store in self._stores:
                if store.restart_at is not None and store.restart_at <= time.monotonic():
                    self._restart(store)
            if all(store.gone for store in self._stores):
                return

    def _reap(self) -> bool:
        """Note who has ended; False when nothing is left to serve."""
        for pid, status in _ended():
            for store in self._stores:
                if store.pid != pid:
                    continue
                store.pid = 0
                if status == worker.EXIT_UNMOUNTED:
                    store.gone = True
                    log.info("unmounted from outside path=%s", store.mount.path)
                elif status == worker.EXIT_DELETED:
                    store.gone = True
                    log.warning("not mounted again, for the store is deleted path=%s", store.mount.path)
                else:
                    self._schedule(store, status)
        return not all(store.gone for store in self._stores)

    def _schedule(self, store: WorkerState, status: int) -> None:
        delay = store.backoff.after(time.monotonic() - store.started)
        store.restart_at = time.monotonic() + delay
        if store.backoff.told:
            log.error("a worker died path=%s status=%s restart_in=%ss", store.mount.path, status, delay)

    def _restart(self, store: WorkerState) -> None:
        self._unmount(store.mount.path)
        store.restart_at = None
        try:
            self._make_point(store.mount.path)
            self._start(store)
        except MountFailed as error:
            if store.backoff.told:
                log.error("could not mount again path=%s reason=%s", store.mount.path, error)
        except OSError as error:
            # Nothing of one store's may take the others down.
            if store.backoff.told:
                log.error("could not start a worker path=%s reason=%s", store.mount.path, error)
        else:
            log.info("mounted again path=%s", store.mount.path)
            try:
                self._record()
            except OSError as error:
                log.error("the record could not be renewed: %s", error)
            return
        if not store.pid:
            self._schedule(store, worker.EXIT_FAILED)
        # Else its end is reaped like any other's, and schedules the next try.

    # Stopping

    def _stop(self) -> None:
        self._stop_workers([store for store in self._stores if store.pid])
        for store in self._stores:
            self._unmount(store.mount.path)
        self._take_away()

    def _settle(self) -> None:
        """Note the end of a session that was begun for these mounts.

        So the last connection that closes is one that may write, and moves the WAL into the database file.
        """
        try:
            with Workspace.open(self.plan.database) as workspace:
                workspace.hurry(SETTLE_SECONDS)
                if self.plan.ends_session:
                    workspace.sessions.end(self.plan.session.id)
        except MemfsError as error:
            log.info("the WAL stays beside the database, and the session has no end reason=%s", error)

    def _stop_workers(self, workers: list[WorkerState]) -> None:
        """Ask workers to commit and unmount, and wait until they are gone; kill those that cannot."""
        for stopping in workers:
            os.kill(stopping.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while True:
            ended = {pid for pid, _ in _ended()}
            for store in self._stores:
                if store.pid in ended:
                    store.pid = 0
            left = [stopping for stopping in workers if stopping.pid]
            if not left:
                return
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                for stuck in left:
                    log.error("a worker did not end in %s s and is killed pid=%d", STOP_SECONDS, stuck.pid)
                    os.kill(stuck.pid, signal.SIGKILL)
                deadline = float("inf")
                continue
            # A second SIGTERM or SIGINT while we wait changes nothing: it stays blocked.
            signal.sigtimedwait({signal.SIGCHLD}, min(remaining, 1.0))


def _ended() -> list[tuple[int, int]]:
    """Children that have ended: process id and exit status, negative for a signal."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, os.waitstatus_to_exitcode(status)))


def _read_line(descriptor: int, seconds: float) -> str:
    """A line from a pipe, "" where it ends or nothing comes in time."""
    deadline = time.monotonic() + seconds
    said = b""
    while not said.endswith(b"\n"):
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return ""
        part = os.read(descriptor, 4096)
        if not part:
            break
        said += part
    return said.decode(errors="replace").strip()


def configure_log(path: Path | None) -> None:
    """Log to a file, or to standard error: one line an event, ``key=value``."""
    logging.basicConfig(
        filename=path,
        level=logging.INFO,
        force=True,
        format="%(asctime)s level=%(levelname)s pid=%(process)d %(message)s",
    )


class RateLimit(logging.Filter):
    """Lets so many lines of what clients provoke through in a second, so that an agent's loop cannot fill the log.

    What is left out is counted and told with the next line. A text that a guard refuses is a warning, so those are
    held back too, by a count of their own. Errors always pass, and what is told ``once``: that a trouble is over.

    A loop that goes on for days would fill the disk all the same, twenty lines a second: of more than FREELY bytes in
    the life of a process, only a line a minute is written.
    """

    LINES_A_SECOND = 20
    FREELY = 8 * 1024 * 1024
    RARELY_SECONDS = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._bytes = 0
        self._latest = 0.0
        self._second = 0
        self._passed: Counter[int] = Counter()
        self._left_out: Counter[int] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write a record."""
        level = record.levelno
        if level > logging.WARNING or hasattr(record, "once"):
            return True
        second = int(record.created)
        if second != self._second:
            self._second = second
            self._passed.clear()
        rarely = self._bytes > self.FREELY and record.created - self._latest < self.RARELY_SECONDS
        if rarely or self._passed[level] >= self.LINES_A_SECOND:
            self._left_out[level] += 1
            return False
        self._passed[level] += 1
        self._latest = record.created
        self._bytes += len(record.getMessage())
        left_out = self._left_out.pop(level, 0)
        if left_out:
            record.msg = f"{record.getMessage()} left_out_before={left_out}"
            record.args = ()
        return True


def _log_as(mount: StoreMount) -> None:
    """Let every line of this process name its session and store."""
    formatter = logging.Formatter(
        f"%(asctime)s level=%(levelname)s pid=%(process)d session={mount.session_id} store={mount.store_id} %(message)s"
    )
    for logger_handler in logging.getLogger().handlers:
        logger_handler.setFormatter(formatter)
        logger_handler.addFilter(RateLimit())
