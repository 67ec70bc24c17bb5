"""Kinds: calls that few programs make, what asks too often, figures of the filesystem, and watching."""

import array
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import stat
import struct
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from memfs.vfs.saving import DIRTY_SECONDS
from tests.cases.scene import Here, errno_of, opened
from tests.mount.harness import LIMIT, wait_until

pytestmark = pytest.mark.mount


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))


FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FICLONE, FIBMAP = 0x80086601, 0x40086602, 0x40049409, 1

# What each may answer; None is that it works. A local filesystem differs from another in just these.
REFUSED: set[int | None] = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS, errno.EINVAL, errno.EXDEV}
UNUSUAL: dict[str, tuple[Callable[[Path, int], object], set[int | None]]] = {
    "mkfifo": (lambda f, fd: os.mkfifo(f"{f}2"), {errno.EPERM}),
    "device": (lambda f, fd: os.mknod(f"{f}2", stat.S_IFCHR | 0o600, os.makedev(1, 3)), {errno.EPERM}),
    "block device": (lambda f, fd: os.mknod(f"{f}2", stat.S_IFBLK | 0o600, os.makedev(7, 0)), {errno.EPERM}),
    "socket": (lambda f, fd: bound(Path(f"{f}2")), {errno.EPERM}),
    "symlink": (lambda f, fd: os.symlink("x" * 4000, f"{f}2"), {errno.EPERM}),
    "link": (lambda f, fd: os.link(f, f"{f}2"), {errno.EPERM}),
    "readlink": (lambda f, fd: os.readlink(f), {errno.EINVAL}),
    "get flags": (lambda f, fd: fcntl.ioctl(fd, FS_IOC_GETFLAGS, array.array("l", [0])), REFUSED),
    "set flags": (lambda f, fd: fcntl.ioctl(fd, FS_IOC_SETFLAGS, array.array("l", [16])), REFUSED),
    "clone": (lambda f, fd: fcntl.ioctl(fd, FICLONE, fd), REFUSED),
    "map of blocks": (lambda f, fd: fcntl.ioctl(fd, FIBMAP, array.array("i", [0])), {None, *REFUSED}),
    "advice": (lambda f, fd: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED), {None}),
    "allocate": (lambda f, fd: os.posix_fallocate(fd, 0, 4), {None}),
    "no bytes": (lambda f, fd: os.pwrite(fd, b"", 0), {None}),
    "far read": (lambda f, fd: os.pread(fd, 10, 1 << 40), {None}),
    "negative": (lambda f, fd: os.pread(fd, 10, -1), {errno.EINVAL}),
    "chown to nobody else": (lambda f, fd: os.chown(f, -1, -1), {None}),
    "sync of the directory": (lambda f, fd: sync_of_directory(f.parent), {None}),
    "sync of all": (lambda f, fd: syncfs(fd), {None}),
    "sendfile": (lambda f, fd: os.sendfile(fd, fd, 0, 0), {None, errno.EINVAL}),
    "splice": (lambda f, fd: through_a_pipe(fd), {None}),
    "get xattr": (lambda f, fd: os.getxattr(f, "user.x"), {errno.EOPNOTSUPP, errno.ENODATA}),
    "set xattr": (lambda f, fd: os.setxattr(f, "user.x", b"1"), {errno.EOPNOTSUPP}),
    "remove xattr": (lambda f, fd: os.removexattr(f, "user.x"), {errno.EOPNOTSUPP, errno.ENODATA}),
    "list xattr": (lambda f, fd: os.listxattr(f), {None, errno.EOPNOTSUPP}),
    "acl": (lambda f, fd: os.setxattr(f, "system.posix_acl_access", b"\2\0\0\0"), {errno.EOPNOTSUPP, errno.EINVAL}),
    "chroot-like open": (lambda f, fd: os.close(os.open(f, os.O_RDONLY | os.O_DIRECTORY)), {errno.ENOTDIR}),
}


def sync_of_directory(path: Path) -> None:
    with opened(path, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)


def syncfs(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor):
        raise OSError(ctypes.get_errno(), "syncfs")


def through_a_pipe(descriptor: int) -> None:
    reading, writing = os.pipe()
    try:
        assert os.splice(descriptor, writing, 4, offset_src=0) == 4
        assert os.splice(reading, descriptor, 4, offset_dst=0) == 4
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("call", UNUSUAL)
def test_an_unusual_call_has_its_answer_and_harms_nothing(here: Here, call: str) -> None:
    """D07, F13, J06: support, or the errno that makes programs do without; the mount lives on."""
    act, answers = UNUSUAL[call]
    (here / "f").write_text("text")
    with opened(here / "f", os.O_RDWR) as descriptor:
        assert errno_of(lambda: act(here / "f", descriptor)) in answers
    assert here.names() == ["f"]
    assert here.heads() == {"f": b"text"}
    assert (here / "f").stat().st_nlink == 1


FLAGS = {
    "sync": os.O_SYNC,
    "dsync": os.O_DSYNC,
    "noatime": os.O_NOATIME,
    "nonblock": os.O_CLOEXEC | os.O_NONBLOCK,
    "nofollow": os.O_NOFOLLOW,
    "direct": os.O_DIRECT,
    "noctty": os.O_NOCTTY,
    "async": os.O_ASYNC,
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags_of_open(here: Here, name: str) -> None:
    """M10: whatever else is asked for, reading, writing and appending are what they are."""
    flag = FLAGS[name]
    (here / "f").write_bytes(b"x" * 4096)
    try:
        with opened(here / "f", os.O_RDWR | flag) as descriptor:
            assert os.pread(descriptor, 4096, 0) == b"x" * 4096
    except OSError as refused:
        if (name, refused.errno) != ("direct", errno.EINVAL):
            raise
    if name == "direct":
        return  # its writes need aligned memory, where it is there at all
    with opened(here / "f", os.O_WRONLY | os.O_APPEND | flag) as descriptor:
        os.write(descriptor, b"end")
    with opened(here / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | flag) as descriptor:
        os.write(descriptor, b"new")
    with opened(here / "f", os.O_RDWR | flag) as descriptor:
        os.pwrite(descriptor, b"Y", 1)
    assert here.heads() == {"f": b"xY" + b"x" * 4094 + b"end", "new": b"new"}


def test_a_descriptor_of_a_path_only(here: Here) -> None:
    """M10: O_PATH reads nothing, and leads to a descriptor that does."""
    (here / "f").write_text("x" * 100)
    with opened(here / "f", os.O_PATH) as place:
        assert os.fstat(place).st_size == 100
        assert errno_of(lambda: os.read(place, 1)) == errno.EBADF
        with opened(Path(f"/proc/self/fd/{place}"), os.O_RDWR) as descriptor:
            os.pwrite(descriptor, b"Y", 0)
    with opened(here.path, os.O_PATH | os.O_DIRECTORY) as place:
        held = os.open("g", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=place)
        os.close(held)
    assert here.heads() == {"f": b"Y" + b"x" * 99, "g": b""}


@pytest.mark.parametrize("size", [1, 4095, 4096, 10_000, 102_400])
def test_there_are_no_holes(here: Here, size: int) -> None:
    """M09: data to the end and a hole there, also of what is not committed and of NUL that nobody wrote."""
    with opened(here / "f", os.O_CREAT | os.O_RDWR) as descriptor:
        os.pwrite(descriptor, b"x", size - 1)
        for place in {0, size // 2, size - 1}:
            assert os.lseek(descriptor, place, os.SEEK_DATA) == place
            assert os.lseek(descriptor, place, os.SEEK_HOLE) == size
        for place, which in ((size, os.SEEK_DATA), (size + 1, os.SEEK_HOLE), (size + 1, os.SEEK_DATA)):
            assert errno_of(partial(os.lseek, descriptor, place, which)) == errno.ENXIO
        assert os.lseek(descriptor, -1, os.SEEK_END) == size - 1
    here.shell("cp --sparse=always f s; cmp f s; cp --sparse=never s t; cmp f t; cp --reflink=auto t u; cmp f u")
    (here / "g").write_text("text\n" * (size // 5))
    # grep exits with 1 where it counts none; what is judged is the count.
    # grep ends with 1 where it counts none; the count is what is looked at.
    assert here.shell("grep -c text g || true") == f"{size // 5}\n"


def test_figures_of_the_filesystem(here: Here) -> None:
    """M07: none is 0, the name length is right, and free files are what can still be made."""
    before = os.statvfs(here.path)
    for name in ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail"):
        assert getattr(before, name) > 0, name
    assert before.f_namemax == 255
    for number in range(7):
        (here / f"{number}").write_text("x")
    assert before.f_ffree - os.statvfs(here.path).f_ffree == 7
    here.shell("rm ./*; df . > /dev/null; df -i . > /dev/null; stat -f . > /dev/null")
    assert os.statvfs(here.path).f_ffree == before.f_ffree


def test_no_attribute_is_asked_for_again_and_again(here: Here) -> None:
    """G03: the kernel knows after the first answer that there are none, and asks the daemon no more.

    Shown by a daemon that stands still: whoever asks it waits.
    """
    (here / "w").write_text("x")
    for name in ("security.capability", "user.x"):
        errno_of(partial(os.getxattr, here / "w", name))
    worker = here.at.worker("notes")
    asking = (
        "import os, sys\n"
        "held = os.open(sys.argv[1], os.O_RDONLY)\n"
        "print('open', flush=True); sys.stdin.readline()\n"
        "for name in ('security.capability', 'user.x'):\n"
        "    try: os.getxattr(held, name)\n"
        "    except OSError: pass\n"
        "print('answered', flush=True); sys.stdin.readline()\n"
    )
    process = subprocess.Popen(
        ["python3", "-c", asking, here / "w"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "open\n"
            os.kill(worker, signal.SIGSTOP)
            try:
                process.stdin.write("\n")
                process.stdin.flush()
                answered = select.select([process.stdout], [], [], LIMIT)[0]
            finally:
                os.kill(worker, signal.SIGCONT)
            assert answered, "it waits for the daemon"
            assert process.stdout.readline() == "answered\n"
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()


def test_many_small_writes(here: Here) -> None:
    """G03: none is a version of its own."""
    begin = time.monotonic()
    with opened(here / "w", os.O_CREAT | os.O_WRONLY) as descriptor:
        for _ in range(2000):
            os.write(descriptor, b"0123456789")
    by_timer = (time.monotonic() - begin) // DIRTY_SECONDS  # on a machine that takes so long
    texts = [content for _, _, content in here.at.operations("notes", f"/{here.path.name}/w")]
    assert len(texts) <= 1 + by_timer
    assert here.heads()["w"] == texts[-1] == b"0123456789" * 2000


CREATE, DELETE, MOVED_FROM, MOVED_TO, CLOSE_WRITE, MODIFY, ATTRIB = 0x100, 0x200, 0x40, 0x80, 0x8, 0x2, 0x4


class Watch:
    """An inotify watch of a directory."""

    def __init__(self, directory: Path, mask: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._libc.inotify_init1(os.O_NONBLOCK)
        assert self._libc.inotify_add_watch(self.descriptor, os.fsencode(directory), mask) > 0

    def events(self) -> list[tuple[int, str]]:
        """What happened since the last call: kind and name."""
        try:
            data = os.read(self.descriptor, 65_536)
        except BlockingIOError:
            return []
        found, place = [], 0
        while place < len(data):
            _, kind, _, length = struct.unpack_from("iIII", data, place)
            found.append((kind, os.fsdecode(data[place + 16 : place + 16 + length].rstrip(b"\0"))))
            place += 16 + length
        return found


def test_who_watches_sees_each_change_once(here: Here) -> None:
    """N03: in order, without what nobody did; a save by rename is two moves."""
    watch = Watch(here.path, CREATE | DELETE | MOVED_FROM | MOVED_TO | CLOSE_WRITE)
    try:
        (here / "t").write_text("x")
        assert watch.events() == [(CREATE, "t"), (CLOSE_WRITE, "t")]
        os.replace(here / "t", here / "f")
        assert watch.events() == [(MOVED_FROM, "t"), (MOVED_TO, "f")]
        (here / "f.tmp").write_text("saved")
        os.replace(here / "f.tmp", here / "f")
        expected = [(CREATE, "f.tmp"), (CLOSE_WRITE, "f.tmp"), (MOVED_FROM, "f.tmp"), (MOVED_TO, "f")]
        assert watch.events() == expected
        (here / "f").read_text()
        os.chmod(here / "f", 0o600)
        os.unlink(here / "f")
        assert watch.events() == [(DELETE, "f")]
        (here / "d").mkdir()
        assert watch.events() == [(CREATE | 0x40000000, "d")]
        begin = os.times().elapsed
        wait_until(lambda: os.times().elapsed > begin + 1.2, "the kernel's timeouts")
        here.names()
        assert watch.events() == []
    finally:
        os.close(watch.descriptor)
