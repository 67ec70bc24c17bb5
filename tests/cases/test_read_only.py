"""Kind: a read_only mount. Every change is EROFS at the call that asks for it, and reading works for every tool."""

import errno
import fcntl
import mmap
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.scene import Here, errno_of, opened

pytestmark = pytest.mark.mount


def closing(path: Path, flags: int) -> None:
    os.close(os.open(path, flags, 0o644))


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "append": lambda rules, own: closing(rules / "a.md", os.O_WRONLY | os.O_APPEND),
    "write": lambda rules, own: closing(rules / "a.md", os.O_WRONLY),
    "read and write": lambda rules, own: closing(rules / "a.md", os.O_RDWR),
    "empty": lambda rules, own: closing(rules / "a.md", os.O_WRONLY | os.O_TRUNC),
    "empty for reading": lambda rules, own: closing(rules / "a.md", os.O_RDONLY | os.O_TRUNC),
    "create over": lambda rules, own: closing(rules / "a.md", os.O_WRONLY | os.O_CREAT),
    "create": lambda rules, own: closing(rules / "new", os.O_WRONLY | os.O_CREAT),
    "create exclusively": lambda rules, own: closing(rules / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    "create for reading": lambda rules, own: closing(rules / "new", os.O_RDONLY | os.O_CREAT),
    "create a temporary": lambda rules, own: closing(rules / "a.md.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    "nameless": lambda rules, own: closing(rules, os.O_TMPFILE | os.O_RDWR),
    "truncate": lambda rules, own: os.truncate(rules / "a.md", 0),
    "grow": lambda rules, own: os.truncate(rules / "a.md", 1000),
    "unlink": lambda rules, own: os.unlink(rules / "a.md"),
    "rmdir": lambda rules, own: os.rmdir(rules / "d"),
    "mkdir": lambda rules, own: os.mkdir(rules / "e"),
    "mknod": lambda rules, own: os.mknod(rules / "new"),
    "mkfifo": lambda rules, own: os.mkfifo(rules / "new"),
    "socket": lambda rules, own: bound(rules / "new"),
    "symlink": lambda rules, own: os.symlink("a.md", rules / "new"),
    "link": lambda rules, own: os.link(rules / "a.md", rules / "new"),
    "rename": lambda rules, own: os.rename(rules / "a.md", rules / "b.md"),
    "rename over": lambda rules, own: os.replace(rules / "b.md", rules / "a.md"),
    "rename in": lambda rules, own: os.rename(own, rules / "new"),
    "rename in over": lambda rules, own: os.replace(own, rules / "a.md"),
    "rename out": lambda rules, own: os.rename(rules / "a.md", own),
    "utime": lambda rules, own: os.utime(rules / "a.md", (1, 1)),
    "touch": lambda rules, own: os.utime(rules / "a.md"),
    "chmod": lambda rules, own: os.chmod(rules / "a.md", 0o600),
    "chmod of the root": lambda rules, own: os.chmod(rules, 0o700),
    "chown": lambda rules, own: os.chown(rules / "a.md", 0, 0),
    "setxattr": lambda rules, own: os.setxattr(rules / "a.md", "user.x", b"1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_refused_where_it_is_asked_for(here: Here, change: str) -> None:
    """L01: by each call, also for root; and nothing came of it."""
    rules = here.rules
    own = here / "own"
    own.write_text("own")
    before = here.at.operations("rules")
    times = [path.stat().st_mtime_ns for path in (rules, rules / "a.md", rules / "b.md")]
    refused = errno_of(lambda: CHANGES[change](rules, own))
    # Between two mounts the kernel may look at that first.
    fine = {"rename in", "rename in over", "rename out"}
    assert refused == errno.EROFS or (change in fine and refused == errno.EXDEV), refused
    assert [path.stat().st_mtime_ns for path in (rules, rules / "a.md", rules / "b.md")] == times
    assert (rules / "a.md").read_text() == "# Rules\n\nTabs.\n"
    assert sorted(os.listdir(rules)) == ["a.md", "b.md"]
    assert own.read_text() == "own"
    assert here.at.operations("rules") == before


def test_descriptors_and_mappings_for_reading_change_nothing(here: Here) -> None:
    """L01: by descriptor, and by memory."""
    with opened(here.rules / "b.md", os.O_RDONLY) as descriptor:
        assert errno_of(lambda: os.write(descriptor, b"x")) == errno.EBADF
        assert errno_of(lambda: os.ftruncate(descriptor, 1)) in (errno.EINVAL, errno.EBADF)
        assert errno_of(lambda: os.fchmod(descriptor, 0o600)) == errno.EROFS
        assert errno_of(lambda: os.utime(descriptor, (1, 1))) == errno.EROFS
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as mapped:
            assert mapped[:4] == b"two\n"
        with pytest.raises(PermissionError):
            mmap.mmap(descriptor, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)


def test_it_says_that_it_is_read_only(here: Here) -> None:
    """L02: by its options, its modes and access(), so that editors ask nobody to save."""
    rules = here.rules
    for path in (rules, rules / "a.md"):
        assert os.access(path, os.R_OK)
        assert not os.access(path, os.W_OK)
        assert not stat.S_IMODE(path.stat().st_mode) & 0o222
        assert os.statvfs(path).f_flag & os.ST_RDONLY
    assert "ro" in here.shell(f"findmnt -no OPTIONS -T '{rules}'").strip().split(",")


def test_locks_for_reading(here: Here) -> None:
    """L02: a program that locks what it reads goes on."""
    with opened(here.rules / "a.md", os.O_RDONLY) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        here.shell(f"flock -n -s '{here.rules}/a.md' true")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        fcntl.lockf(descriptor, fcntl.LOCK_SH)


def test_tools_read_it_and_say_what_they_cannot(here: Here) -> None:
    """L03: copying, searching, comparing, packing; `mv` out of it says why not and leaves the source."""
    rules = here.rules
    here.shell(
        f"""
        grep -r Tabs '{rules}'; find '{rules}' -type f; tar -C '{rules}' -cf copy.tar .
        diff '{rules}/a.md' '{rules}/a.md'
        python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); open(sys.argv[1] + "/a.md").read()' '{rules}'
        rm copy.tar; cp -a '{rules}' c; cmp c/a.md '{rules}/a.md'; cmp c/b.md '{rules}/b.md'
        for command in "mv '{rules}/a.md' taken" "sed -i s/a/b/ '{rules}/a.md'" "cp c/a.md '{rules}/a.md'" \\
            "rm -f '{rules}/a.md'" "touch '{rules}/a.md'" "tee -a '{rules}/a.md' < /dev/null" "mkdir '{rules}/x'"; do
            if eval "$command" 2> err; then echo "went through: $command"; exit 1; fi
            grep -qi 'read-only' err || {{ echo "$command"; cat err; exit 1; }}
        done
        """
    )
    shutil.copy2(rules / "a.md", here / "mine")
    assert here.heads()["mine"] == b"# Rules\n\nTabs.\n"
    assert sorted(os.listdir(rules)) == ["a.md", "b.md"]
