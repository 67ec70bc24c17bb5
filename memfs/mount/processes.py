"""What the kernel says of processes and mounts: descriptors that are held, capabilities, mount points."""

import ctypes
import errno
import fcntl
import os
import re
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memfs.model.errors import MountFailed

_libc = ctypes.CDLL(None, use_errno=True)

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_CAP_SYS_ADMIN = 21
_FS_IOC_GETFLAGS = 0x80086601
_FS_IOC_SETFLAGS = 0x40086602
_FS_IMMUTABLE_FL = 0x10
_FLAGS = re.compile(r"^flags:\s*(\d+)$", re.MULTILINE)


def holds_open(pid: int, inode: int) -> bool:
    """Whether the process of a thread has an inode open for writing, by number; False where /proc does not tell.

    /proc/PID/fdinfo names the inode itself, so that asking does not touch the mount (which is waiting for us).
    """
    if pid <= 0:
        return False
    directory = f"/proc/{pid}/fdinfo"
    wanted = f"ino:\t{inode}\n"
    try:
        for descriptor in os.listdir(directory):
            try:
                with open(f"{directory}/{descriptor}") as info:
                    text = info.read()
                if wanted in text and int(_FLAGS.findall(text)[0], 8) & os.O_ACCMODE != os.O_RDONLY:
                    return True
            except OSError:
                continue  # closed meanwhile
    except OSError:
        return False
    return False


def same_process(thread: int, other: int, moment: float) -> bool:
    """Whether a thread is of the process of which ``other`` was one at a moment (seconds of CLOCK_BOOTTIME), by their
    numbers; False where one of them has ended. Numbers are given again: who began later is somebody else.
    """
    if thread <= 0 or (thread != other and (_process_of(thread) or thread) != (_process_of(other) or other)):
        return False
    began = _began(other)
    return began is None or began <= moment


def _began(thread: int) -> float | None:
    """When a thread began, in seconds of CLOCK_BOOTTIME and at most one tick too early."""
    ticks = began_ticks(thread)
    return None if ticks is None else ticks / os.sysconf("SC_CLK_TCK")


def began_ticks(thread: int) -> int | None:
    """When a thread began, in clock ticks (proc_pid_stat(5)); None where it is gone."""
    try:
        with open(f"/proc/{thread}/stat") as status:
            return int(status.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def _process_of(thread: int) -> int | None:
    try:
        with open(f"/proc/{thread}/status") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("Tgid:")), None)
    except OSError:
        return None


def die_with_parent(parent: int, signal_number: int) -> None:
    """Get a signal when the parent process ends, even if that is why this was not called in time."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal_number)


def adopt_orphans() -> None:
    """Be the parent of what our children leave behind, so that it can be waited for."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def set_process_name(name: str) -> None:
    """What ps and top show of this thread; at most 15 bytes."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def close_inherited(keep: set[int]) -> None:
    """Close all descriptors but the standard ones and ``keep``: a caller's lock or pipe must not outlive the caller."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in keep:
            with suppress(OSError):  # the one that the listing itself had open
                os.close(descriptor)


KEPT_VARIABLES = re.compile(rb"(PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|PYTHON\w*|MEMFS_\w+|COVERAGE\w*)=")
"""What a daemon may want of its caller's environment, or who looks for the daemon: nothing that is secret."""


def forget_environment() -> None:
    """Blot out what this process was started with in its environment, but for ``KEPT_VARIABLES``.

    A daemon lives long, and its caller's keys and tokens are in /proc/PID/environ until then.
    """
    for name in [name for name in os.environb if KEPT_VARIABLES.match(name + b"=") is None]:
        del os.environb[name]
    # The kernel shows the memory that the process began with, which deleting a variable does not touch.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    place = start
    for variable in ctypes.string_at(start, end - start).split(b"\0"):
        if KEPT_VARIABLES.match(variable) is None:
            ctypes.memset(place, 0, len(variable))
        place += len(variable) + 1


def can_mount() -> bool:
    """Whether this process has CAP_SYS_ADMIN."""
    text = Path("/proc/self/status").read_text()
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", text, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> _CAP_SYS_ADMIN & 1)


LEAST_INODES = 1_024
"""What a tmpfs has of them, however small it is."""


def mount_tmpfs(path: Path, *, size: int, mode: int, read_only: bool = False) -> None:
    """Mount a tmpfs of ``size`` bytes. Raises OSError.

    A file without a byte counts for nothing against the size, but takes a kilobyte of the kernel's memory: there may be
    two for each page, which is more than files with anything in them can be.
    """
    flags = MS_NOSUID | MS_NODEV | (MS_RDONLY if read_only else 0)
    data = f"size={size},nr_inodes={max(LEAST_INODES, size // 2048)},mode={mode:o}".encode()
    if _libc.mount(b"memfs-scratch", os.fsencode(path), b"tmpfs", flags, data):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(path))


def detach(path: Path) -> None:
    """Unmount lazily: gone from the tree at once, from the kernel when its last user is. Raises OSError."""
    if _libc.umount2(os.fsencode(path), MNT_DETACH):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(path))


def set_immutable(path: Path, *, immutable: bool) -> bool:
    """Set or clear a directory's immutable flag, which binds root too; False where the filesystem has none."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, bytes(8)))
        flags = flags | _FS_IMMUTABLE_FL if immutable else flags & ~_FS_IMMUTABLE_FL
        fcntl.ioctl(descriptor, _FS_IOC_SETFLAGS, struct.pack("l", flags))
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EPERM, errno.EINVAL):
            return False
        raise
    finally:
        os.close(descriptor)
    return True


@dataclass(frozen=True, slots=True)
class MountPoint:
    """A line of /proc/self/mountinfo."""

    path: Path
    kind: str
    source: str
    device: str
    """The filesystem, as MAJOR:MINOR."""
    subtree: Path
    """Which directory of the filesystem is mounted; ``/`` for all of it."""
    owner: int | None = None
    """The user who mounted it, where it is FUSE's."""
    read_only: bool = False


def mount_points(pid: int | None = None) -> list[MountPoint]:
    """Everything mounted in our namespace, or in that of a process, in the order of mounting.

    Reading this asks no filesystem. Raises OSError where the process is gone or not ours.
    """

    def unescaped(field: bytes) -> Path:
        return Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), field)))

    points = []
    # Not splitlines: a carriage return is an ordinary character of a path here.
    for line in Path(f"/proc/{pid or 'self'}/mountinfo").read_bytes().split(b"\n"):
        before, separator, after = line.partition(b" - ")
        if not separator:
            continue
        fields, (kind, source, *options) = before.split(b" "), after.split(b" ")
        device = fields[2].decode()
        owner = re.search(rb"\buser_id=(\d+)", options[0]) if options and kind.startswith(b"fuse") else None
        points.append(
            MountPoint(
                unescaped(fields[4]),
                os.fsdecode(kind),
                os.fsdecode(source),
                device,
                unescaped(fields[3]),
                int(owner[1]) if owner else None,
                b"ro" in fields[5].split(b","),
            )
        )
    return points


def mounted_at(path: Path) -> list[MountPoint]:
    """What is mounted exactly at a path, the topmost last."""
    return [point for point in mount_points() if point.path == path]


def mounted_below(path: Path) -> list[MountPoint]:
    """What is mounted at or below a path."""
    return [point for point in mount_points() if point.path.is_relative_to(path)]


def kind_at(path: Path) -> str:
    """The kind of filesystem that holds a path (which may be missing), like ``tmpfs``."""
    holding = [point for point in mount_points() if path.is_relative_to(point.path)]
    return max(holding, key=lambda point: len(point.path.parts)).kind if holding else ""


Answer = Literal["mounted", "deleted", "closed", "silent"]


def asked(path: Path, seconds: float) -> Answer:
    """What the filesystem at a path says in time: ``silent`` is nothing, ``deleted`` that its store is gone, and
    ``closed`` is what the kernel says for it where it is another user's alone.

    Asked from a thread, so that a dead one cannot hold us.
    """
    answer: list[Answer] = []

    def ask() -> None:
        try:
            os.statvfs(path)
            os.stat(path)
        except OSError as error:
            if error.errno == errno.ESTALE:
                answer.append("deleted")
            elif error.errno == errno.EACCES:
                answer.append("closed")
        else:
            answer.append("mounted")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return answer[0] if answer else "silent"


def check_device() -> None:
    """Raises MountFailed where /dev/fuse is missing or something else."""
    try:
        status = os.stat("/dev/fuse")
    except OSError as error:
        raise MountFailed(
            f"/dev/fuse cannot be used ({error.strerror}): load the fuse module, or run the container"
            " with --device /dev/fuse"
        ) from None
    if status.st_rdev != os.makedev(10, 229):
        raise MountFailed("/dev/fuse is not the FUSE device: give the container --device /dev/fuse")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise MountFailed(
            "/dev/fuse is closed to you: root can open it to everyone as Debian does, chmod 666 /dev/fuse"
        )
