"""An exception in any handler is answered EIO, logged with its traceback, and the mount lives on."""

import ctypes
import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mount import faulty_mount
from tests.mount.harness import LIMIT, Site, wait_until
from tests.mount.savers import opened

pytestmark = pytest.mark.mount

_libc = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD = -100
_AT_STATX_FORCE_SYNC = 0x2000


def force_stat(path: Path) -> None:
    """statx(2) that asks the filesystem, whatever the kernel has cached."""
    if _libc.statx(_AT_FDCWD, os.fsencode(path), _AT_STATX_FORCE_SYNC, 0xFFF, ctypes.create_string_buffer(256)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def forgotten(directory: Path) -> None:
    """Make a kernel drop an inode: it looks a new file up, and then it is gone."""
    (directory / "short-lived.tmp").write_text("x")
    (directory / "short-lived.tmp").unlink()


class Open:
    """What is opened before the fault is there, and closed after it."""

    def __init__(self, directory: Path) -> None:
        self.reading = os.open(directory / "a.md", os.O_RDONLY)
        os.posix_fadvise(self.reading, 0, 0, os.POSIX_FADV_DONTNEED)  # or it would be read from the kernel's pages
        self.writing = os.open(directory / "w.md", os.O_WRONLY | os.O_CREAT)
        self.closing = os.open(directory / "c.md", os.O_WRONLY | os.O_CREAT)
        os.write(self.closing, b"text")
        self.released = os.open(directory / "a.md", os.O_RDONLY)
        self.directory = os.open(directory / "d", os.O_RDONLY | os.O_DIRECTORY)
        self.listed = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self.released_directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)

    def close(self, by: str) -> None:
        """Close what is still open after the action of this name."""
        descriptors = [self.reading, self.writing, self.directory, self.listed]
        closed = {"flush": self.closing, "release": self.released, "releasedir": self.released_directory}
        descriptors += [descriptor for name, descriptor in closed.items() if name != by]
        for descriptor in descriptors:
            os.close(descriptor)


def close_by_opening(path: Path, flags: int) -> None:
    """open(2), and close(2) where it worked."""
    with opened(path, flags):
        pass


ACTIONS: dict[str, Callable[[Path, Open], object]] = {
    "lookup": lambda d, o: os.stat(d / "never-looked-at"),
    "mkdir": lambda d, o: (d / "made").mkdir(),
    "mknod": lambda d, o: os.mknod(d / "node", stat.S_IFREG | 0o644),
    "symlink": lambda d, o: (d / "link").symlink_to("a.md"),
    "link": lambda d, o: os.link(d / "a.md", d / "hard"),
    "unlink": lambda d, o: (d / "u.md").unlink(),
    "rmdir": lambda d, o: (d / "d").rmdir(),
    "rename": lambda d, o: (d / "u.md").rename(d / "v.md"),
    "getattr": lambda d, o: force_stat(d / "a.md"),
    "setattr": lambda d, o: (d / "a.md").chmod(0o600),
    "statfs": lambda d, o: os.statvfs(d),
    "create": lambda d, o: close_by_opening(d / "new.md", os.O_WRONLY | os.O_CREAT),
    "open": lambda d, o: close_by_opening(d / "a.md", os.O_RDONLY),
    "read": lambda d, o: os.read(o.reading, 10),
    "write": lambda d, o: os.write(o.writing, b"x"),
    "flush": lambda d, o: os.close(o.closing),
    "fsync": lambda d, o: os.fsync(o.writing),
    "opendir": lambda d, o: os.listdir(d / "d"),
    "readdir": lambda d, o: os.listdir(o.listed),
    "fsyncdir": lambda d, o: os.fsync(o.directory),
}
"""What makes a kernel call each handler, and get its answer."""

UNANSWERED: dict[str, Callable[[Path, Open], object]] = {
    "forget": lambda d, o: forgotten(d),
    "release": lambda d, o: os.close(o.released),
    "releasedir": lambda d, o: os.close(o.released_directory),
}
"""And those whose answer nobody waits for."""


def test_every_handler_has_its_fault() -> None:
    """So that a new one is not left out."""
    assert sorted(faulty_mount.handlers()) == sorted([*ACTIONS, *UNANSWERED])


def test_a_fault_in_any_handler_is_eio_and_the_mount_lives_on(at: Site, tmp_path: Path) -> None:
    told = tmp_path / "fault"
    told.write_text("")
    at.extra["MEMFS_TEST_FAULT"] = str(told)
    at.extra["PYTHONPATH"] = os.fspath(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-bb", "-m", "tests.mount.faulty_mount", "mount", "--root", at.root, "-s", "notes"],
        env=at.environment(),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    at.note_logs()
    notes = at.root / "notes"
    for name in ("a.md", "u.md"):
        (notes / name).write_text("text")
    (notes / "d").mkdir()
    worker = at.worker("notes")
    log = Path(at.status()[0]["log"])

    def wait_for_traceback(name: str) -> None:
        def logged() -> bool:
            _, told, after = log.read_text().partition(f"operation={name} errno=EIO\nTraceback")
            return bool(told) and f"RuntimeError: a fault forced in {name}\n" in after

        wait_until(logged, f"the traceback of {name}")

    for name in (*ACTIONS, *UNANSWERED):
        use = Open(notes)
        told.write_text(name)
        try:
            if name in ACTIONS:
                with pytest.raises(OSError) as raised:  # noqa: PT011 (the errno is looked at)
                    ACTIONS[name](notes, use)
                assert raised.value.errno == errno.EIO, name
            else:
                UNANSWERED[name](notes, use)
            wait_for_traceback(name)
        finally:
            told.write_text("")
            use.close(name)
        assert (notes / "a.md").read_text() == "text", name
        (notes / "after.md").write_text(name)
        assert at.heads("notes")["/after.md"] == name.encode()
    assert {"a.md", "u.md", "d"} <= set(os.listdir(notes))
    (mount,) = at.status()
    assert (mount["pid"], mount["state"]) == (worker, "mounted")

    def newest() -> dict[str, str]:
        told = at.refusals()[-1]
        return told if told["operation"] == "releasedir" else {}

    told_last = wait_until(newest, "the last fault to be told")
    assert told_last["errno"] == "EIO"
    assert "RuntimeError" in told_last["reason"]
    at.expected_log += [r"failed path=.+ operation=\w+ errno=EIO", "Traceback"]
