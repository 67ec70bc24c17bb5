"""Mounting in a sandbox: the stores are mounted in the mount namespace of a process, from outside.

What is mounted there belongs to that namespace alone: the host never sees it, a worker that was started anew can mount
again in it, and when its last process ends, however that was, the kernel takes the mounts away. Only a process that
is in the namespace can mount or ask there, so a child enters it for each, and ends.
"""

import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from memfs.model.errors import MountFailed
from memfs.mount.processes import (
    MNT_DETACH,
    MS_NODEV,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    Answer,
    began_ticks,
    mount_points,
)
from memfs.mount.root import SOURCES
from memfs.mount.runtime import MountRecord, RootRecord
from memfs.mount.supervisor import Plan, Supervisor, WorkerState

_libc = ctypes.CDLL(None, use_errno=True)

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_NS_GET_USERNS = 0xB701
_ENTER_SECONDS = 10.0

_MOUNTED, _DELETED, _SILENT = 0, 3, 4
"""What the child says that asks a mount, as its exit status."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A process whose namespaces are entered: its id, and a descriptor of it that tells whether it still is that."""

    pid: int
    descriptor: int

    def ended(self) -> bool:
        """Whether the process has ended."""
        return bool(select.select([self.descriptor], [], [], 0)[0])

    def enter(self, between: Callable[[], None] = lambda: None) -> None:
        """Make this process one of the sandbox's user and mount namespace; ``between`` is called in the first alone.

        Only for a process with one thread that ends soon: it keeps the namespace. Raises OSError, MountFailed.
        """
        try:
            mounts = os.open(f"/proc/{self.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise MountFailed("the sandbox has ended") from None
        if self.ended():  # else the number was still its own when it was opened
            raise MountFailed("the sandbox has ended")
        # The user namespace that owns the mounts, not the one that the command is in: bubblewrap makes one more.
        user = fcntl.ioctl(mounts, _NS_GET_USERNS)
        if not os.path.samestat(os.fstat(user), os.stat("/proc/self/ns/user")):
            _set_namespace(user, _CLONE_NEWUSER)
        between()
        _set_namespace(mounts, _CLONE_NEWNS)

    def mounted_at(self, path: Path) -> int:
        """How many mounts of ours lie at a path of the sandbox."""
        with suppress(OSError):
            return sum(point.path == path and point.source in SOURCES for point in mount_points(self.pid))
        return 0


def _set_namespace(descriptor: int, kind: int) -> None:
    _checked(_libc.setns(descriptor, kind))


def _checked(result: int) -> None:
    """Raises OSError for what a call of the C library has returned."""
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@dataclass(frozen=True, slots=True)
class Device:
    """An open /dev/fuse with a filesystem mounted on it; ``uid`` and ``gid`` are its owner's, as the mount counts."""

    descriptor: int
    uid: int
    gid: int


def mount(sandbox: Sandbox, path: Path, *, read_only: bool) -> Device:
    """Mount a filesystem at a path of the sandbox, in place of what is ours there, for a worker to serve.

    Raises MountFailed.
    """
    before = sandbox.mounted_at(path)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = os.fork()
        if child == 0:
            try:
                _mount(sandbox, path, before, read_only, theirs)
            except BaseException as error:
                theirs.sendall(f"{error}".encode())
            finally:
                os._exit(0)
        theirs.close()
        ours.settimeout(_ENTER_SECONDS)
        try:
            said, descriptors, _, _ = socket.recv_fds(ours, 4096, 1)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            said, descriptors = b"the sandbox could not be entered in time", []
        os.waitpid(child, 0)
    if not descriptors:
        raise MountFailed(f"{path} could not be mounted in the sandbox: {said.decode(errors='replace')}")
    os.set_inheritable(descriptors[0], False)
    uid, gid = map(int, said.split())
    return Device(descriptors[0], uid, gid)


def _mount(sandbox: Sandbox, path: Path, before: int, read_only: bool, telling: socket.socket) -> None:
    device = -1

    def open_device() -> None:
        nonlocal device
        # In the user namespace of the mounts, as the kernel demands, and while /dev is still the host's: the sandbox
        # has no such device.
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)

    sandbox.enter(open_device)
    for _ in range(before):
        _checked(_libc.umount2(os.fsencode(path), MNT_DETACH))
    uid, gid = os.getuid(), os.getgid()
    options = f"fd={device},rootmode=40000,user_id={uid},group_id={gid},default_permissions"
    flags = MS_NOSUID | MS_NODEV | (MS_RDONLY if read_only else 0)
    _checked(_libc.mount(b"memfs", os.fsencode(path), b"fuse.memfs", flags, options.encode()))
    socket.send_fds(telling, [f"{uid} {gid}".encode()], [device])


def seclude(sandbox: Sandbox) -> bool:
    """Close a sandbox off from what is mounted on the host from now on; whether that could be done.

    bubblewrap lets it travel in, and what is hidden now could be mounted once more where it would show.
    """

    def close_off() -> int:
        sandbox.enter()
        return 1 if _libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) else 0

    return _in_child(close_off, _ENTER_SECONDS) == 0


def unmount(sandbox: Sandbox, path: Path) -> None:
    """Take down what is ours at a path of the sandbox. Never raises: it may be gone."""

    def detach() -> int:
        sandbox.enter()
        for _ in range(before):
            _libc.umount2(os.fsencode(path), MNT_DETACH)
        return 0

    before = sandbox.mounted_at(path)
    if before:
        _in_child(detach, _ENTER_SECONDS)


def ask(sandbox: Sandbox, path: Path, seconds: float) -> Answer:
    """What the filesystem at a path of the sandbox says in time; see ``memfs.mount.processes.asked``."""

    def look() -> int:
        sandbox.enter()
        try:
            os.statvfs(path)
            os.stat(path)
        except OSError as error:
            return _DELETED if error.errno == errno.ESTALE else _SILENT
        return _MOUNTED

    status = _in_child(look, seconds)
    if status == _MOUNTED:
        return "mounted"
    return "deleted" if status == _DELETED else "silent"


def _in_child(action: Callable[[], int], seconds: float) -> int:
    """The exit status of a child that does something; negative where it did not end in time and is killed."""
    child = os.fork()
    if child == 0:
        status = _SILENT
        try:
            status = action()
        except (OSError, MountFailed):
            pass
        finally:
            os._exit(status)
    descriptor = os.pidfd_open(child)
    try:
        if not select.select([descriptor], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(descriptor)
    # One that waits for a filesystem without an answer can be killed: FUSE's requests can.
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_record(
    plan: Plan, runner: int, sandbox: Sandbox | None = None, mounts: tuple[MountRecord, ...] = ()
) -> RootRecord:
    """What others are told of a run."""
    return RootRecord(
        root=os.fspath(plan.root),
        database=os.fspath(plan.database),
        session_id=plan.session.id,
        pid=runner,
        place=os.fspath(plan.root),
        existed=True,
        tmpfs=False,
        mounts=mounts,
        temporaries=plan.temporaries,
        ends_session=plan.ends_session,
        sandbox=sandbox.pid if sandbox is not None else 0,
        sandbox_began=(began_ticks(sandbox.pid) or 0) if sandbox is not None else 0,
    )


def asked_in_run(record: RootRecord, path: Path, seconds: float) -> Answer:
    """What the filesystem at a path of a run's sandbox says in time; ``silent`` too where the sandbox is gone."""
    try:
        descriptor = os.pidfd_open(record.sandbox) if record.sandbox else -1
    except OSError:
        descriptor = -1
    if descriptor < 0:
        return "silent"
    try:
        # The descriptor first: what has its number and began then is the process that it is of.
        if began_ticks(record.sandbox) != record.sandbox_began:
            return "silent"
        return ask(Sandbox(record.sandbox, descriptor), path, seconds)
    finally:
        os.close(descriptor)


class InsideSupervisor(Supervisor):
    """Supervises the stores of a sandbox. It ends when the sandbox does, for then all its mounts are gone."""

    sandbox: Sandbox
    runner: int
    """The process id of ``memfs run``."""
    run_lock: int
    """The descriptor of the run's lock, which workers hold too."""

    def _prepare(self) -> None:
        self._plan_stores(self.plan.root)

    @contextmanager
    def _opened(self, store: WorkerState) -> Iterator[None]:
        device = mount(self.sandbox, store.mount.path, read_only=store.mount.access == "read_only")
        try:
            store.mount = replace(store.mount, device=device.descriptor, owner=(device.uid, device.gid))
            yield
        finally:
            # The worker alone keeps it: so when the worker is gone the mount fails, rather than waits.
            store.mount = replace(store.mount, device=None)
            os.close(device.descriptor)

    def _schedule(self, store: WorkerState, status: int) -> None:
        if self.sandbox.ended():
            store.gone = True
        else:
            super()._schedule(store, status)

    def _record(self) -> None:
        """For who asks what is mounted; there is nothing to take down but what the sandbox's end does."""
        with suppress(OSError):
            self.state.write(run_record(self.plan, self.runner, self.sandbox, self._mounts()))

    def _asked(self, path: Path, seconds: float) -> Answer:
        return ask(self.sandbox, path, seconds)

    def _unmount(self, path: Path) -> None:
        unmount(self.sandbox, path)

    def _make_point(self, path: Path) -> None:
        """It is there: a directory of the sandbox's that nobody can write to or take away."""

    def _take_away(self) -> None:
        self._settle()
        self.state.remove(self.run_lock)
