"""Making, asking about and taking down mounts from another process."""

import logging
import os
import pwd
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memfs.model.errors import MemfsError, MountFailed
from memfs.model.records import Access
from memfs.mount.inside import asked_in_run
from memfs.mount.notifying import ServiceManager
from memfs.mount.processes import asked, close_inherited, mount_points, mounted_at
from memfs.mount.refusals import Refusal, read_refusals
from memfs.mount.root import SOURCES, Root, unmount
from memfs.mount.runtime import RUNS, MountRecord, RootRecord, RootState, records, records_of
from memfs.mount.supervisor import SETTLE_SECONDS, STOP_SECONDS, Plan, Supervisor, configure_log
from memfs.vfs.temporaries import DEFAULT_NAMES, TemporaryNames
from memfs.workspace import VersionFilter, Workspace

log = logging.getLogger(__name__)

ASKED_TIMES = 3
"""How often a mount is asked that changes meanwhile."""

ANSWER_SECONDS = 2.0


def prepare(state: RootState) -> None:
    """With the root's lock held: clear away what a supervisor that died has left there."""
    record = state.read()
    if record is not None:
        place = Path(record.place)
        for mount in record.mounts:
            unmount(place / Path(mount.path).name)
        Root(Path(record.root), place, record.existed, record.tmpfs).clear()
        if record.ends_session:
            end_session(Path(record.database), record.session_id)
        state.forget_refusals()  # they were told to another session
        state.record_path.unlink(missing_ok=True)


def end_session(database: Path, session_id: str) -> None:
    """Note the end of a session whose supervisor could not. Never raises: the mounts are gone all the same."""
    try:
        with Workspace.open(database) as workspace:
            workspace.hurry(SETTLE_SECONDS)
            workspace.sessions.end(session_id)
    except MemfsError as error:
        log.warning("the end of the session %s could not be noted: %s", session_id, error)


def end_dead_runs() -> None:
    """Note the ends of sessions whose ``memfs run`` was killed with everything of it, and forget these runs."""
    for state, _ in records(kind=RUNS):
        if not state.alive():
            with suppress(MountFailed, OSError):  # somebody else is at it
                end_dead_run(state)


def end_dead_run(state: RootState) -> None:
    """Note the end of a run that nobody is left of. Raises MountFailed where somebody is."""
    with state.hold() as lock:
        record = state.read()
        if record is not None and record.ends_session:
            end_session(Path(record.database), record.session_id)
        state.remove(lock)


def check_not_nested(root: Path) -> None:
    """Raises MountFailed where a root would lie in another one, whose unmounting would take it along."""
    real = Path(os.path.realpath(root))
    for _, record in records():
        for outer in (Path(record.root), Path(record.place)):
            if root != outer and (root.is_relative_to(outer) or real.is_relative_to(outer)):
                raise MountFailed(f"the root {root} lies in the one at {record.root}: choose another --root")


def run_foreground(plan: Plan, state: RootState, lock: int, ready: Callable[[], None]) -> None:
    """Supervise in this process until a signal; a service manager is told when all answer. Raises MountFailed."""
    configure_log(None)
    manager = ServiceManager.of_environment()

    def announce() -> None:
        ready()
        manager.tell("READY=1", f"STATUS=Serving {len(plan.session.attachments)} stores at {plan.root}")

    Supervisor(plan, state, [lock]).run(announce, lambda: manager.tell("STOPPING=1"))


def run_background(plan: Plan, state: RootState, lock: int) -> None:
    """Supervise in a process of its own; returns when every mount answers. Raises MountFailed."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by the caller, our child would end unseen
    receiving, telling = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            os.close(receiving)
            os.setsid()
            if os.fork() == 0:
                _supervise(plan, state, lock, telling)
        finally:
            os._exit(0)
    os.close(telling)
    supervisor = ""
    with open(receiving) as answer:
        try:
            os.waitpid(child, 0)
            supervisor = answer.readline().strip()
            said = answer.readline().strip()
        except KeyboardInterrupt:
            # Whoever asked does not want it any more: nothing may stay half-mounted. A supervisor that has not said
            # its id yet finds nobody to say "ok" to, and ends by itself.
            if supervisor:
                _end(int(supervisor), state)
            raise
    if said != "ok":
        raise MountFailed(said or f"the supervisor ended before anything was mounted: see {state.log_path}")


def _end(supervisor: int, state: RootState) -> None:
    """Let a supervisor take everything down, and wait until it has. Raises MountFailed."""
    try:
        descriptor = os.pidfd_open(supervisor)
    except ProcessLookupError:
        if state.alive():
            raise MountFailed(f"another mount of {state.root} is under way: try again") from None
        return
    try:
        # The descriptor first: what is found to be the supervisor by its number is then the one that is signalled.
        if not state.held_by(supervisor):
            raise MountFailed(
                f"the supervisor of {state.root} cannot be told for sure: a mount is under way (try again),"
                " or it runs in another PID namespace (unmount it there)"
            )
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        seconds = 2 * STOP_SECONDS
        if not select.select([descriptor], [], [], seconds)[0]:
            raise MountFailed(f"the supervisor {supervisor} did not end in {seconds:.0f} s: see {state.log_path}")
    except PermissionError:
        raise MountFailed(f"{state.root} is another user's mount: only they can take it down") from None
    finally:
        os.close(descriptor)


def _supervise(plan: Plan, state: RootState, lock: int, telling: int) -> None:
    """The life of a supervisor in the background.

    Says its process id on ``telling``, and ``ok`` or what failed, a line each; then closes it.
    """
    close_inherited(keep={lock, telling})
    os.write(telling, f"{os.getpid()}\n".encode())
    null = os.open(os.devnull, os.O_RDWR)
    log_file = os.open(state.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(null, 0)
    os.dup2(log_file, 1)
    os.dup2(log_file, 2)
    configure_log(state.log_path)
    supervisor = Supervisor(plan, state, [lock, telling])

    def tell(text: str) -> None:
        if telling in supervisor.private:
            supervisor.private.remove(telling)
            try:
                os.write(telling, text.encode())
            finally:
                os.close(telling)

    try:
        supervisor.run(lambda: tell("ok"))
    except BrokenPipeError:
        log.info("who asked for the mounts is gone, so they are taken down again")
    except MountFailed as error:
        log.error("%s", error)
        with suppress(BrokenPipeError):
            tell(str(error))
    except BaseException as error:
        log.exception("the supervisor failed")
        with suppress(BrokenPipeError):
            tell(f"the supervisor failed ({error}): see {state.log_path}")


KEPT_CONFLICTS = 10
"""How many of a mount's conflicts are told."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A save of a mount's session in which lines that somebody else had saved gave way."""

    at: str
    path: str | None
    version_id: str
    base_version_id: str | None


@dataclass(frozen=True, slots=True)
class MountStatus:
    """One mount, as it is now: ``mounted``, ``silent`` (it does not answer), ``deleted`` (its store is), ``unmounted``
    (taken down from outside), ``dead`` (its supervisor is gone) or ``closed`` (it lets nobody but its user ask).

    Of another user's mount, what only its record tells is empty where none can be found. ``run`` is the process id of
    the ``memfs run`` in whose sandbox it is, None for one that is outside.
    """

    root: str
    path: str
    name: str
    memory_store_id: str
    access: Access
    session_id: str
    pid: int
    state: str
    log: str
    database: str
    user: str
    """Who mounted it."""
    run: int | None
    temporaries: TemporaryNames
    refusals: list[Refusal]
    """The newest operations that were refused or failed, oldest first."""
    conflicts: list[Conflict]
    """The newest conflicts, oldest first."""


def status() -> list[MountStatus]:
    """Every mount of this user, then those in sandboxes, and for root then those of other users.

    Notes the ends of runs that were killed.
    """
    end_dead_runs()
    found = []
    for state, record in records():
        found += status_of_root(state, record)
    for state, record in records(kind=RUNS):
        found += [
            _status_of(state, record, mount, asked_in_run(record, Path(mount.path), ANSWER_SECONDS))
            for mount in record.mounts
        ]
    if os.getuid() == 0:
        found += _of_others([Path(record.place) for _, record in records()])
    return found


def status_of_root(state: RootState, record: RootRecord) -> list[MountStatus]:
    """The mounts of one root, which alone are asked."""
    alive, found = state.alive(), []
    for mount in record.mounts:
        condition = _condition(mount, Path(record.place) / Path(mount.path).name) if alive else "dead"
        found.append(_status_of(state, record, mount, condition))
    return found


def _condition(mount: MountRecord, point: Path) -> str:
    """What a mount at a point is, whose supervisor lives."""
    condition = "unmounted"
    for _ in range(ASKED_TIMES):
        before = mounted_at(point)
        if not before:
            return "unmounted"
        condition = asked(Path(mount.path), ANSWER_SECONDS)
        # Else a worker has died meanwhile, and it was the directory below that answered.
        if mounted_at(point) == before:
            break
    return condition


def _of_others(own: Sequence[Path]) -> list[MountStatus]:
    """What the kernel says is mounted by other users, with what their records add. ``own`` are the places of ours."""
    points = {
        point.path: point
        for point in mount_points()
        if point.kind.startswith("fuse")
        and point.source in SOURCES
        and point.owner
        and not any(point.path.is_relative_to(place) for place in own)
    }
    told = {
        (uid, Path(record.place) / Path(mount.path).name): (record, mount)
        for uid in {point.owner for point in points.values() if point.owner}
        for record in records_of(uid)
        for mount in record.mounts
    }
    found = []
    for path, point in sorted(points.items()):
        owner = point.owner or 0
        record, mount = told.get((owner, path), (None, None))
        found.append(
            MountStatus(
                root=record.root if record else os.fspath(path.parent),
                path=mount.path if mount else os.fspath(path),
                name=mount.name if mount else path.name,
                memory_store_id=mount.memory_store_id if mount else "",
                access="read_only" if point.read_only else "read_write",
                session_id=record.session_id if record else "",
                pid=mount.pid if mount else 0,
                state=asked(path, ANSWER_SECONDS),
                log="",
                database=record.database if record else "",
                user=user_name(owner),
                run=None,
                temporaries=DEFAULT_NAMES,
                refusals=[],
                conflicts=[],
            )
        )
    return found


def user_name(uid: int) -> str:
    """The name of a user, the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _status_of(state: RootState, record: RootRecord, mount: MountRecord, condition: str) -> MountStatus:
    return MountStatus(
        root=record.root,
        path=mount.path,
        name=mount.name,
        memory_store_id=mount.memory_store_id,
        access=mount.access,
        session_id=record.session_id,
        pid=mount.pid,
        state=condition,
        log=os.fspath(state.log_path),
        database=record.database,
        user=user_name(os.getuid()),
        run=record.pid if state.record_path.suffix == RUNS else None,
        temporaries=record.temporaries,
        refusals=read_refusals(state.refusals_path(Path(mount.path).name)),
        conflicts=_conflicts(Path(record.database), mount.memory_store_id, record.session_id),
    )


def _conflicts(database: Path, store_id: str, session_id: str) -> list[Conflict]:
    """Those of one mount; none where the database cannot be asked, which others tell."""
    where = VersionFilter(session_id=session_id, conflicts=True)
    try:
        with Workspace.open(database, read_only=True) as workspace:
            found = workspace.versions.list(store_id, where, limit=KEPT_CONFLICTS)
    except MemfsError:
        return []
    return [
        Conflict(version.created_at, version.path, version.id, version.merged.base_version_id)
        for version in reversed(found)
        if version.merged is not None
    ]


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has something below a root open, or works there."""

    pid: int
    name: str


def holders(record: RootRecord) -> list[Holder]:
    """Who uses a root, as far as this user may see; asks /proc only, never the mounts."""
    prefix = f"{record.place}/"
    ours = {os.getpid(), record.pid, *(mount.pid for mount in record.mounts)}
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdecimal() or int(entry) in ours:
            continue
        links = [f"/proc/{entry}/cwd"]
        try:
            links += [f"/proc/{entry}/fd/{descriptor}" for descriptor in os.listdir(f"/proc/{entry}/fd")]
            if any(f"{os.readlink(link)}/".startswith(prefix) for link in links):
                name = Path(f"/proc/{entry}/comm").read_text().strip()
                found.append(Holder(int(entry), name))
        except OSError:
            continue  # not ours to see, or gone
    return found


def find(root: Path | None, default: Path) -> tuple[RootState, RootRecord]:
    """The root that is meant: the one given, else the only one there is, else the default. Raises MountFailed."""
    known = records()
    if root is None:
        wanted = [item for item in known if item[1].root == os.fspath(default)] if len(known) != 1 else known
    else:
        wanted = [item for item in known if item[1].root == os.fspath(root)]
    if wanted:
        return wanted[0]
    if root is None and known:
        raise MountFailed(f"{len(known)} roots are mounted: name one ({', '.join(record.root for _, record in known)})")
    raise MountFailed(f"nothing of memfs is mounted at {root or default}: 'memfs status' shows what is")


def take_down(state: RootState, record: RootRecord) -> None:
    """Commit and unmount everything of a root, and return when its processes are gone. Raises MountFailed."""
    if state.alive():
        _end(record.pid, state)
    else:
        with state.hold() as lock:
            prepare(state)
            state.remove(lock)
    left = [mount.path for mount in record.mounts if mounted_at(Path(record.place) / Path(mount.path).name)]
    if left:
        raise MountFailed(f"{', '.join(left)} could not be unmounted: see {state.log_path}")
