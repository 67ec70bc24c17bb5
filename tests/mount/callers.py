"""Calls that somebody makes in a directory, and what they did to everything in it.

A worker of the differential test does them (``tests.mount.differential.worker``): in a process of its own, as whichever
user a call is made by, so that the kernel judges them as it judges that user.
"""

import ctypes
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.mount.differential.operations import AT_FDCWD, Hands, Operation, Seen

_libc = ctypes.CDLL(None, use_errno=True)

CLOCK_REALTIME_COARSE = 5
"""Linux's number of it, which Python has no name for."""

RECENT_NS = 1_600_000_000_000_000_000
"""A time after this one is the present, or was not long ago."""


@dataclass(frozen=True)
class Caller:
    """Who makes a call. Only the given group, no further ones."""

    uid: int
    gid: int
    umask: int = 0o022

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Be this user: for the kernel's file systems, also without any capability of root."""
        before = os.umask(self.umask)
        os.setgroups([])
        os.setegid(self.gid)
        os.seteuid(self.uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.umask(before)


ROOT = Caller(0, 0)
OTHER = Caller(65534, 65534)
"""Neither the owner of anything nor in its group."""
MEMBER = Caller(65533, 0)
"""In the group of everything."""


def _short(status: os.stat_result) -> tuple[str, int]:
    return oct(stat.S_IMODE(status.st_mode)), _size(status)


def _size(status: os.stat_result) -> int:
    """Of a file; of directories each file system has an own idea."""
    return 0 if stat.S_ISDIR(status.st_mode) else status.st_size


def _create(path: str, mode: int = 0o644) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))


def _open(path: str, flags: int, mode: int = 0) -> None:
    os.close(os.open(path, flags, mode))


def _on_file(path: str, flags: int, action: Callable[[int], object]) -> Any:
    descriptor = os.open(path, flags, 0o644)
    try:
        action(descriptor)
        return _short(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _write(path: str, data: bytes, flags: int = os.O_WRONLY) -> Any:
    return _on_file(path, flags, lambda descriptor: os.write(descriptor, data))


def _ftruncate(path: str, size: int, flags: int = os.O_WRONLY) -> Any:
    return _on_file(path, flags, lambda descriptor: os.ftruncate(descriptor, size))


def _fallocate(path: str, offset: int, size: int, flags: int = os.O_RDWR) -> Any:
    return _on_file(path, flags, lambda descriptor: os.posix_fallocate(descriptor, offset, size))


def _fchmod(path: str, mode: int) -> Any:
    return _on_file(path, os.O_RDONLY, lambda descriptor: os.fchmod(descriptor, mode))


def _futimens(path: str, atime_ns: int, mtime_ns: int) -> Any:
    return _on_file(path, os.O_RDONLY, lambda descriptor: os.utime(descriptor, ns=(atime_ns, mtime_ns)))


def _utime(path: str, atime_ns: int, mtime_ns: int) -> Any:
    os.utime(path, ns=(atime_ns, mtime_ns))
    status = os.stat(path)
    return status.st_atime_ns, status.st_mtime_ns


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


When = tuple[int, int] | str | None
"""A time for utimensat(2): seconds and nanoseconds, "now", or None to leave it."""


def _times(path: str, atime: When, mtime: When) -> Any:
    """utimensat(2) as it is. Answers both times, but for the present."""
    spoken = {"now": (0, (1 << 30) - 1), None: (0, (1 << 30) - 2)}  # UTIME_NOW, UTIME_OMIT
    pairs = [spoken[when] if when is None or isinstance(when, str) else when for when in (atime, mtime)]
    both = (_Timespec * 2)(*(_Timespec(*pair) for pair in pairs))
    if _libc.utimensat(AT_FDCWD, os.fsencode(path), both, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    status = os.stat(path)
    return [moment for moment in (status.st_atime_ns, status.st_mtime_ns) if moment < RECENT_NS]


def _now(path: str) -> bool:
    begin = time.time()
    os.utime(path)
    status = os.stat(path)
    # The kernel's present is its clock's last tick.
    return all(begin - 0.1 <= moment <= time.time() for moment in (status.st_atime, status.st_mtime))


def _rename2(old: str, new: str, flags: int) -> None:
    if _libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), new)


def _unlinked(path: str) -> Any:
    """An open file without a name is there: it can be written, read, cut and asked about."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.unlink(path)
        os.pwrite(descriptor, b"Hello", 0)
        os.ftruncate(descriptor, 4)
        os.fchmod(descriptor, 0o600)
        return os.pread(descriptor, 9, 0), os.fstat(descriptor).st_nlink, _short(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _in_removed(path: str, call: str, *arguments: object) -> Any:
    """A call in a working directory that is removed."""
    before = os.getcwd()
    os.mkdir(path)
    os.chdir(path)
    try:
        os.rmdir(f"../{path}")
        return CALLS[call](*arguments)
    finally:
        os.chdir(before)


def _above(path: str) -> bool:
    """Whether a directory's ``..`` is the one that it is in now."""
    return os.stat(f"{path}/..").st_ino == os.stat(os.path.dirname(path) or ".").st_ino


def _same_inode(call: str, old: str, new: str) -> bool:
    inode = os.stat(old).st_ino
    CALLS[call](old, new)
    return os.stat(new).st_ino == inode


CALLS: dict[str, Callable[..., Any]] = {
    "access": lambda path, how: os.access(path, how, effective_ids=True),
    "above": _above,
    "chdir": lambda path: os.listdir(path) is None,
    "chmod": os.chmod,
    "chown": os.chown,
    "create": _create,
    "fallocate": _fallocate,
    "fchmod": _fchmod,
    "ftruncate": _ftruncate,
    "futimens": _futimens,
    "in_removed": _in_removed,
    "list": lambda path: sorted(os.listdir(path)),
    "mkdir": os.mkdir,
    "now": _now,
    "open": _open,
    "rename": os.rename,
    "rename2": _rename2,
    "rmdir": os.rmdir,
    "same_inode": _same_inode,
    "stat": lambda path: _short(os.stat(path)),
    "times": _times,
    "truncate": os.truncate,
    "unlink": os.unlink,
    "unlinked": _unlinked,
    "utime": _utime,
    "write": _write,
}
"""Those calls that a worker knows. What they return has to be the same on every file system."""


@dataclass(frozen=True)
class Entry:
    """What is known of a file or directory, but for who owns it."""

    kind: str
    mode: str
    links: int
    size: int
    changed: int
    modified: int

    @staticmethod
    def of(status: os.stat_result) -> "Entry":
        """As the kernel tells it."""
        directory = stat.S_ISDIR(status.st_mode)
        return Entry(
            "directory" if directory else "file",
            oct(stat.S_IMODE(status.st_mode)),
            status.st_nlink,
            _size(status),
            status.st_ctime_ns,
            status.st_mtime_ns,
        )

    def since(self, before: "Entry | None") -> str:
        """This in words, and which of its times have moved, forwards or back."""
        words = [self.kind, self.mode, f"links={self.links}", f"size={self.size}"]
        if before is not None:
            pairs = [("ctime", self.changed, before.changed), ("mtime", self.modified, before.modified)]
            words += [f"{name}{'+' if now > then else '-'}" for name, now, then in pairs if now != then]
        return " ".join(words)


@dataclass(frozen=True)
class By(Operation):
    """A call by somebody. Its value is what came of it: the call's own answer, and everything in the directory."""

    who: Caller
    call: str
    arguments: tuple[object, ...]

    def run(self, hands: Hands) -> Seen:
        """Make the call. An errno is an answer like any other: what it changed is looked at too."""
        os.chdir(hands.base)
        before = _everything()
        with self.who.acting():
            try:
                answer = repr(CALLS[self.call](*self.arguments))
            except OSError as error:
                answer = os.strerror(error.errno or 0)
        _give_to_root()
        after = _everything()
        return Seen((answer, {path: entry.since(before.get(path)) for path, entry in after.items()}))

    def __repr__(self) -> str:
        return f"{self.who.uid}:{self.who.gid} {self.call}{self.arguments}"


def tick() -> None:
    """Let the clock go on that file systems take their times from, so that what is changed next has another time."""
    begin = time.clock_gettime_ns(CLOCK_REALTIME_COARSE)
    while time.clock_gettime_ns(CLOCK_REALTIME_COARSE) == begin:
        os.sched_yield()


def _everything() -> dict[str, Entry]:
    found = {".": Entry.of(os.lstat("."))}
    for place, directories, files in os.walk("."):
        found |= {f"{place}/{name}": Entry.of(os.lstat(f"{place}/{name}")) for name in directories + files}
    return found


def _give_to_root() -> None:
    """In a store everything is the mount's, root's here, whoever made it. Elsewhere it has to be given away."""
    for place, directories, files in os.walk("."):
        for path in (f"{place}/{name}" for name in directories + files):
            if os.lstat(path).st_uid != 0 or os.lstat(path).st_gid != 0:
                os.chown(path, 0, 0)
