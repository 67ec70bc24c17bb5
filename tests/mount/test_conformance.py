"""What POSIX and Linux say of open, unlink, rename, mkdir, rmdir, truncate, ftruncate, utimensat, chmod and
posix_fallocate: who may do what, with which errno, and what it does to modes, links, sizes and times.

Each script is run on a mount and on a tmpfs, by root, by a member of root's group and by a stranger, and each call must
answer the same and leave the same. (It truncates no file to the size that it has: that moves times in a mount, as on an
ext4, and none on a tmpfs.) What a store cannot answer as a tmpfs does stands at the end, with its errno.
"""

import errno
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from memfs.mount.processes import detach, mount_tmpfs
from tests.cases.scene import errno_of
from tests.mount.callers import MEMBER, OTHER, RECENT_NS, ROOT, By, Caller, tick
from tests.mount.differential.operations import EXCHANGE, NOREPLACE, Begin
from tests.mount.differential.worker import Worker, workers
from tests.mount.harness import LIMIT, site

pytestmark = pytest.mark.mount

Step = tuple[object, ...]
"""A call by root and its arguments; by somebody else where a ``Caller`` comes first."""

LONGEST = "n" * 255
TOO_LONG = "n" * 256
DEEP = "d/" * 2048 + "f"
"""A path of 4,097 bytes, one too many with the byte that ends it."""

R, W, RW = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
CREAT, EXCL, TRUNC, APPEND = os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND

TAKING_A_PATH: dict[str, tuple[object, ...]] = {
    "open": (R,),
    "truncate": (3,),
    "unlink": (),
    "rmdir": (),
    "chmod": (0o600,),
    "utime": (1, 2),
    "create": (0o644,),
    "mkdir": (0o755,),
    "stat": (),
}
"""Calls of one path, with what they want besides."""

FILE_MODES = [0o000, 0o400, 0o200, 0o600, 0o040, 0o020, 0o060, 0o004, 0o002, 0o006, 0o477, 0o747, 0o774, 0o277, 0o772]


def every(path: str, *who: Caller) -> list[Step]:
    """Every call of one path, by each of these."""
    return [(caller, call, path, *rest) for caller in who for call, rest in TAKING_A_PATH.items()]


def renames(old: str, new: str, *who: Caller) -> list[Step]:
    """To and fro, so that either path is the one in question."""
    return [step for caller in who for step in ((caller, "rename", old, new), (caller, "rename", new, old))]


SCRIPTS: dict[str, list[Step]] = {
    # Paths
    "a-component-is-no-directory": [
        ("create", "f"),
        ("create", "g"),
        *every("f/x", ROOT, OTHER),
        *renames("f/x", "y", ROOT),
        *renames("f/x", "g", ROOT),
        *every("f/", ROOT),
        *renames("f/", "y", ROOT),
        *renames("f", "y/", ROOT),
        ("open", "f", R | os.O_DIRECTORY),
        ("open", "new/", CREAT | W, 0o644),
    ],
    "a-component-is-not-there": [
        ("create", "f"),
        *every("x/y", ROOT, OTHER),
        *renames("x/y", "z", ROOT),
        *renames("x/y", "f", ROOT),
        *renames("x", "z", ROOT),
        *every("", ROOT),
        *renames("", "f", ROOT),
        ("open", "x", W),
        ("open", "x", RW | TRUNC),
        ("open", "x", R),
        ("unlink", "x"),
        ("rmdir", "x"),
        ("chmod", "x", 0o600),
        ("truncate", "x", 3),
        ("utime", "x", 1, 2),
    ],
    "names-have-255-bytes-at-most": [
        ("create", LONGEST),
        ("chmod", LONGEST, 0o600),
        ("truncate", LONGEST, 5),
        ("rename", LONGEST, "f"),
        ("rename", "f", LONGEST),
        ("open", LONGEST, RW),
        ("utime", LONGEST, 5, 6),
        ("unlink", LONGEST),
        ("mkdir", LONGEST),
        ("create", f"{LONGEST}/{LONGEST}"),
        ("unlink", f"{LONGEST}/{LONGEST}"),
        ("rmdir", LONGEST),
        ("create", "f"),
        *every(TOO_LONG, ROOT, OTHER),
        *every(f"x/{TOO_LONG}", ROOT),
        *renames(TOO_LONG, "f", ROOT),
        *renames(TOO_LONG, "x", ROOT),
    ],
    "paths-have-4095-bytes-at-most": [
        ("mkdir", "d"),
        ("create", "f"),
        *every(DEEP, ROOT, OTHER),
        *renames(DEEP, "f", ROOT),
        *renames(DEEP, "x", ROOT),
    ],
    "a-directory-that-may-not-be-searched": [
        ("mkdir", "d", 0o777),
        ("chmod", "d", 0o777),
        ("create", "d/f"),
        ("chmod", "d/f", 0o666),
        ("create", "g"),
        ("chmod", "d", 0o666),
        *every("d/f", OTHER, MEMBER),
        *every("d/x", OTHER, MEMBER),
        *renames("d/f", "d/g", OTHER),
        *renames("d/f", "g", OTHER),
        ("chmod", "d", 0o707),
        *every("d/f", MEMBER),
        ("chmod", "d", 0o711),
        (OTHER, "open", "d/f", RW),
        (OTHER, "list", "d"),
        (OTHER, "truncate", "d/f", 3),
        ("chmod", "d", 0o777),
        (OTHER, "unlink", "d/f"),
    ],
    "a-directory-that-may-not-be-written": [
        ("mkdir", "d"),
        ("create", "d/f"),
        ("chmod", "d/f", 0o666),
        ("mkdir", "d/e"),
        ("mkdir", "free"),
        ("chmod", "free", 0o777),
        ("create", "free/f"),
        *[
            step
            for mode in (0o755, 0o555, 0o711)
            for step in (
                ("chmod", "d", mode),
                ("open", "d/f", W | TRUNC),
                *every("d/f", OTHER),
                *every("d/x", OTHER),
                *renames("d/f", "d/g", OTHER),
                *renames("d/f", "free/g", OTHER),
                *renames("free/f", "d/g", OTHER),
                *renames("free/f", "d/f", OTHER),
                (OTHER, "rmdir", "d/e"),
                (OTHER, "open", "d/x", CREAT | R, 0o644),
                (OTHER, "open", "d/f", CREAT | R, 0o644),
                (OTHER, "open", "d/f", CREAT | EXCL | R, 0o644),
            )
        ],
        ("chmod", "d", 0o775),
        (MEMBER, "rename", "d/f", "d/g"),
        (MEMBER, "rename", "d/g", "free/g"),
        (MEMBER, "rmdir", "d/e"),
        (MEMBER, "mkdir", "d/e"),
    ],
    "dots": [
        ("mkdir", "d"),
        ("mkdir", "d/e"),
        ("create", "f"),
        *[
            step
            for path in ("d/.", "d/..", "d/e/..", ".", "..")
            for step in (
                ("rmdir", path),
                ("unlink", path),
                ("mkdir", path),
                ("create", path),
                ("open", path, R),
                ("open", path, W),
                *renames(path, "x", ROOT),
                *renames(path, "f", ROOT),
            )
        ],
        ("chmod", ".", 0o711),
        ("chmod", "d/..", 0o755),
        ("mkdir", "x/."),
        ("mkdir", "slash/"),
        ("rename", "slash/", "slash2/"),
        ("rmdir", "slash2/"),
    ],
    # open
    "open-makes-files": [
        *[
            step
            for mask in (0o022, 0o077, 0o070, 0o501, 0o000)
            for mode in (0o755, 0o151, 0o345, 0o666, 0o000, 0o1644, 0o4755)
            for step in (
                (Caller(0, 0, mask), "open", "f", CREAT | W, mode),
                ("stat", "f"),
                ("unlink", "f"),
            )
        ],
        ("open", "f", CREAT | W, 0),
        ("open", "g", CREAT | RW, 0),
        ("open", "h", CREAT | R, 0),
        ("open", "f", CREAT | R, 0o644),
        ("open", "f", CREAT | EXCL | W, 0o644),
        ("open", "f", CREAT | TRUNC | W, 0o644),
    ],
    "open-of-what-is-there": [
        ("create", "f"),
        ("mkdir", "d"),
        ("write", "f", b"test\n"),
        ("open", "f", CREAT | R, 0o600),
        ("open", "f", CREAT | W, 0o600),
        ("open", "f", W | TRUNC),
        ("open", "f", W | TRUNC),
        ("write", "f", b"test\n"),
        ("open", "f", R | TRUNC),
        ("open", "f", CREAT | EXCL, 0o600),
        ("open", "d", CREAT | EXCL, 0o600),
        ("open", "d", CREAT, 0o600),
        ("open", "d", W),
        ("open", "d", RW),
        ("open", "d", R | TRUNC),
        ("open", "d", W | TRUNC),
        ("open", "d", R),
        ("open", "f", W | RW),
        ("open", "f", W | RW | TRUNC),
        ("open", "f", R | os.O_NOFOLLOW),
        (OTHER, "open", "f", R | os.O_NOATIME),
        ("open", "f", R | os.O_NOATIME),
        ("write", "f", b"more", W | APPEND),
        ("write", "f", b"", W | APPEND),
    ],
    "open-heeds-permissions": [
        ("create", "f"),
        ("write", "f", b"x"),
        ("mkdir", "d"),
        *[
            step
            for mode in FILE_MODES
            for step in (
                ("chmod", "f", mode),
                *[(who, "open", "f", flags) for who in (ROOT, OTHER, MEMBER) for flags in (R, W, RW)],
                *[(who, "open", "f", R | TRUNC) for who in (OTHER, MEMBER)],
                *[(who, "access", "f", os.R_OK | os.W_OK) for who in (OTHER, MEMBER)],
                ("chmod", "d", mode),
                *[(who, "open", "d", R) for who in (OTHER, MEMBER)],
            )
        ],
        ("chmod", "f", 0o111),
        *[(who, "access", "f", os.X_OK) for who in (ROOT, OTHER, MEMBER)],
        ("chmod", "f", 0o600),
        *[(who, "access", "f", os.X_OK) for who in (ROOT, OTHER, MEMBER)],
    ],
    "only-the-flags-of-open-count-afterwards": [
        ("mkdir", "d"),
        ("chmod", "d", 0o777),
        *[
            step
            for who in (ROOT, OTHER)
            for step in (
                (who, "ftruncate", "d/f", 0, CREAT | RW),
                ("unlink", "d/f"),
                (Caller(who.uid, who.gid, 0o777), "write", "d/f", b"text", CREAT | RW),
                ("stat", "d/f"),
                (who, "open", "d/f", R),
                ("unlink", "d/f"),
                (Caller(who.uid, who.gid, 0o777), "fallocate", "d/f", 0, 1, CREAT | RW),
                ("unlink", "d/f"),
            )
        ],
    ],
    # unlink and rmdir
    "unlink": [
        ("mkdir", "d"),
        ("create", "d/f"),
        ("unlink", "d/f"),
        ("unlink", "d/f"),
        ("unlink", "d"),
        (OTHER, "unlink", "d"),
        ("create", "f"),
        ("write", "f", b"Hello, World!"),
        (OTHER, "unlink", "f"),
        ("unlinked", "f"),
        ("stat", "f"),
        ("create", "g"),
        ("rmdir", "g"),
    ],
    "rmdir": [
        ("mkdir", "d"),
        ("mkdir", "d/e"),
        ("rmdir", "d"),
        ("create", "d/e/f"),
        ("rmdir", "d/e"),
        ("unlink", "d/e/f"),
        ("rmdir", "d/e"),
        (OTHER, "rmdir", "d"),
        ("rmdir", "d"),
        ("rmdir", "d"),
        ("in_removed", "d", "create", "f"),
        ("in_removed", "d", "mkdir", "e"),
        ("in_removed", "d", "list", "."),
        ("in_removed", "d", "rename", "../x", "x"),
        ("in_removed", "d", "stat", ".."),
    ],
    # mkdir
    "mkdir": [
        *[
            step
            for mask in (0o022, 0o077, 0o070, 0o501, 0o000)
            for mode in (0o755, 0o151, 0o345, 0o777, 0o000, 0o1777)
            for step in (
                (Caller(0, 0, mask), "mkdir", "d", mode),
                ("stat", "d"),
                ("rmdir", "d"),
            )
        ],
        ("create", "f"),
        ("mkdir", "d"),
        ("mkdir", "f"),
        ("mkdir", "d"),
        (OTHER, "mkdir", "d"),
        (OTHER, "mkdir", "d/e"),
        ("mkdir", "d/e"),
        ("mkdir", "d/e/g"),
    ],
    "a-directory-with-setgid-hands-it-on": [
        ("mkdir", "d"),
        ("chmod", "d", 0o2777),
        ("mkdir", "d/e"),
        ("mkdir", "d/e/f", 0o700),
        ("create", "d/file"),
        (OTHER, "mkdir", "d/g"),
        (OTHER, "create", "d/h", 0o644),
        ("rename", "d/e/f", "moved"),
        ("mkdir", "moved/below"),
        ("chmod", "d", 0o755),
        ("chmod", "d", 0o0755),
        ("mkdir", "d/without"),
    ],
    # rename
    "rename-of-files": [
        ("create", "a"),
        ("write", "a", b"text"),
        ("chmod", "a", 0o640),
        ("mkdir", "d"),
        ("same_inode", "rename", "a", "b"),
        ("same_inode", "rename", "b", "d/a"),
        ("rename", "a", "x"),
        ("create", "b"),
        ("same_inode", "rename", "d/a", "b"),
        ("rename", "b", "b"),
        ("rename", "b", "d"),
        ("rename", "d", "b"),
        ("rename", "b", "x/y"),
        (OTHER, "rename", "b", "c"),
        ("create", "c"),
        (OTHER, "rename", "b", "c"),
        ("rename2", "b", "c", NOREPLACE),
        ("rename2", "b", "new", NOREPLACE),
        ("rename2", "new", "c", EXCHANGE),
        ("rename2", "new", "x", EXCHANGE),
        ("rename2", "new", "d", EXCHANGE),
        ("rename2", "new", "d", NOREPLACE),
        ("rename2", "c", "x", NOREPLACE | EXCHANGE),
        ("rename2", "c", "x", 1 << 10),
    ],
    "rename-of-directories": [
        ("mkdir", "a"),
        ("mkdir", "b"),
        ("mkdir", "a/s", 0o750),
        ("create", "a/s/f"),
        ("above", "a/s"),
        ("same_inode", "rename", "a/s", "b/t"),
        ("above", "b/t"),
        ("rename", "b/t", "a"),
        ("mkdir", "a/t"),
        ("rename", "b/t", "a"),
        ("rename", "b/t", "a/t"),
        ("rename", "a", "a/x"),
        ("rename", "a", "a/t/x"),
        ("rename", "a/t", "a"),
        ("rename", "b", "a"),
        ("create", "file"),
        ("rename", "a", "file"),
        ("rename", "file", "a"),
        ("rename", "file", "b"),
        ("mkdir", "full"),
        ("create", "full/f"),
        ("rename", "b", "full"),
        ("rename", "a", "full"),
        ("rename", "full", "b"),
        ("rename2", "a", "b", EXCHANGE),
        ("rename2", "a", "b/t", EXCHANGE),
        ("above", "b/t"),
        ("rename", "a", "a"),
        ("chmod", "b", 0o000),
        ("rename", "b", "c"),
        ("chmod", "c", 0o755),
    ],
    "rename-heeds-permissions": [
        ("mkdir", "a"),
        ("chmod", "a", 0o777),
        ("mkdir", "b"),
        ("chmod", "b", 0o777),
        ("mkdir", "a/d", 0o700),
        *renames("a/d", "a/e", OTHER),
        *renames("a/d", "b/d", OTHER),
        ("chmod", "a/d", 0o707),
        *renames("a/d", "b/d", OTHER),
        ("create", "a/f", 0o600),
        *renames("a/f", "a/g", OTHER),
        *renames("a/f", "b/f", OTHER),
        ("create", "b/f", 0o400),
        (OTHER, "rename", "a/f", "b/f"),
        (OTHER, "rename", "b/f", "a/d"),
    ],
    "sticky-directories": [
        ("mkdir", "s"),
        ("chmod", "s", 0o1777),
        ("mkdir", "a"),
        ("chmod", "a", 0o777),
        ("create", "s/f", 0o666),
        ("chmod", "s/f", 0o666),
        ("mkdir", "s/d"),
        ("chmod", "s/d", 0o777),
        ("mkdir", "s/e"),
        ("create", "a/f"),
        ("mkdir", "a/d"),
        ("chmod", "a/d", 0o777),
        *[
            step
            for who in (OTHER, MEMBER)
            for step in (
                (who, "unlink", "s/f"),
                (who, "rmdir", "s/d"),
                *renames("s/f", "a/g", who),
                *renames("s/f", "a/f", who),
                *renames("s/f", "s/g", who),
                *renames("s/d", "a/e", who),
                *renames("s/d", "a/d", who),
                *renames("a/d", "s/d", who),
                (who, "rename2", "a/f", "s/f", EXCHANGE),
                (who, "write", "s/f", b"may"),
                (who, "create", "s/new"),
                (who, "unlink", "s/new"),
                ("unlink", "s/new"),
                (who, "rename", "a/f", "s/moved"),
                (who, "rename", "s/moved", "a/f"),
                ("rename", "s/moved", "a/f"),
            )
        ],
        ("unlink", "s/f"),
        ("rmdir", "s/d"),
    ],
    # truncate and ftruncate
    "truncate": [
        ("create", "f"),
        ("truncate", "f", 12_345),
        ("truncate", "f", 567),
        ("write", "f", b"text"),
        ("truncate", "f", 0),
        ("truncate", "f", 102_400),
        ("truncate", "f", -1),
        ("truncate", "f", -(2**63)),
        (OTHER, "truncate", "f", 123),
        ("chmod", "f", 0o444),
        ("truncate", "f", 9),
        ("mkdir", "d"),
        ("truncate", "d", 0),
        (OTHER, "truncate", "d", 0),
        ("chmod", "f", 0o666),
        (OTHER, "truncate", "f", 3),
        ("chmod", "f", 0o464),
        (MEMBER, "truncate", "f", 2),
        (OTHER, "truncate", "f", 2),
    ],
    "ftruncate": [
        ("create", "f"),
        ("ftruncate", "f", 12_345),
        ("ftruncate", "f", 567),
        ("ftruncate", "f", 567),
        ("ftruncate", "f", 1, RW),
        ("ftruncate", "f", 0),
        ("ftruncate", "f", 0),
        ("ftruncate", "f", 123, R),
        (OTHER, "ftruncate", "f", 123, R),
        ("ftruncate", "f", -1),
        ("ftruncate", "f", -(2**63), RW),
        ("mkdir", "d"),
        ("ftruncate", "d", 0, R),
    ],
    # chmod
    "chmod": [
        ("create", "f"),
        ("mkdir", "d"),
        *[
            step
            for path in ("f", "d")
            for mode in (0o111, 0o222, 0o7777, 0o1621, 0o4700, 0o2070, 0o6666, 0o0, 0o644)
            for step in (("chmod", path, mode), ("stat", path))
        ],
        ("fchmod", "f", 0o755),
        ("fchmod", "f", 0o755),
        *[(who, "chmod", path, 0o777) for who in (OTHER, MEMBER) for path in ("f", "d")],
        *[(who, "fchmod", path, 0o777) for who in (OTHER, MEMBER) for path in ("f", "d")],
        ("chmod", "x", 0o644),
    ],
    "chown-that-changes-nothing": [
        ("create", "f"),
        ("mkdir", "d"),
        ("chmod", "f", 0o6755),
        ("chmod", "d", 0o6755),
        ("chown", "d", 0, 0),
        ("chown", "f", 0, 0),
        ("chmod", "f", 0o2745),
        ("chown", "f", 0, 0),
        ("chmod", "f", 0o4755),
        ("chown", "f", -1, 0),
        ("chmod", "f", 0o4755),
        ("chown", "f", -1, -1),
        (OTHER, "chown", "f", -1, -1),
        (OTHER, "chown", "f", 0, 0),
        (OTHER, "chown", "f", 65534, -1),
        (MEMBER, "chown", "f", -1, 0),
        (MEMBER, "chown", "d", 65533, -1),
    ],
    "who-writes-and-does-not-own-clears-setuid-and-setgid": [
        ("create", "f"),
        *[
            step
            for mode in (0o4777, 0o2777, 0o6777)
            for who in (OTHER, MEMBER, ROOT)
            for call in (
                ("write", "f", b"x"),
                ("write", "f", b"x", W | APPEND),
                ("write", "f", b""),
                ("open", "f", RW),
                ("open", "f", W | TRUNC),
                ("open", "f", R | TRUNC),
                ("truncate", "f", 3),
                ("ftruncate", "f", 5),
                ("fallocate", "f", 0, 9),
                ("now", "f"),
            )
            for step in (("chmod", "f", mode), (who, *call))
        ],
    ],
    # utimensat
    "utimensat": [
        ("create", "f"),
        ("mkdir", "d"),
        *[
            ("utime", path, *times)
            for path in ("f", "d")
            for times in (
                (1_900_000_000_000_000_000, 1_950_000_000_000_000_000),
                (1_950_000_000_000_000_000, 1_900_000_000_000_000_000),
                (100_000_000_100_000_000, 200_000_000_200_000_000),
                (2**31 * 10**9, 2**32 * 10**9 + 1),
                (123_456_789, 987_654_321),
                (0, 0),
                (-1, -1_500_000_000),
            )
        ],
        ("futimens", "f", 5, 6),
        ("futimens", "d", 5, 6),
        ("now", "f"),
        ("now", "d"),
        ("stat", "f"),
    ],
    "utimensat-heeds-permissions": [
        ("create", "f"),
        *[
            step
            for mode in (0o644, 0o666, 0o444, 0o464)
            for step in (
                ("chmod", "f", mode),
                *[
                    (who, *call)
                    for who in (OTHER, MEMBER)
                    for call in (("now", "f"), ("utime", "f", 1, 2), ("futimens", "f", 1, 2))
                ],
                ("now", "f"),
                ("utime", "f", 3, 4),
            )
        ],
    ],
    "utimensat-of-one-time": [
        ("create", "f"),
        ("chmod", "f", 0o666),
        ("times", "f", (7, 1), None),
        ("times", "f", None, (8, 2)),
        ("times", "f", None, None),
        ("times", "f", "now", (9, 3)),
        ("times", "f", (10, 4), "now"),
        ("times", "f", "now", "now"),
        ("times", "f", None, "now"),
        ("times", "f", "now", None),
        *[
            (OTHER, "times", "f", *times)
            for times in (
                ("now", "now"),
                (None, None),
                (None, (9, 9)),
                ((9, 9), None),
                ((9, 9), (9, 9)),
                ("now", None),
                (None, "now"),
                ("now", (9, 9)),
            )
        ],
        ("times", "f", (1, 1_000_000_000), (1, 0)),
        ("times", "f", (1, 0), (1, -1)),
        ("mkdir", "d"),
        ("times", "d", (7, 1), (8, 2)),
    ],
    # posix_fallocate
    "posix-fallocate": [
        ("create", "f"),
        ("fallocate", "f", 0, 567),
        ("fallocate", "f", 20_000, 3_456),
        ("fallocate", "f", 0, 0),
        ("fallocate", "f", 0, 0, W),
        ("fallocate", "f", -1, 5),
        ("fallocate", "f", 0, -1),
        ("fallocate", "f", 0, 123, R),
        ("fallocate", "f", 0, 123),
        ("mkdir", "d"),
        ("fallocate", "d", 0, 123, R),
        ("create", "g"),
        ("fallocate", "g", 0, 123, W),
    ],
}


def calls(script: list[Step]) -> Iterator[By]:
    """A script's steps as operations."""
    for step in script:
        who, call, *arguments = step if isinstance(step[0], Caller) else (ROOT, *step)
        assert isinstance(who, Caller)
        yield By(who, str(call), tuple(arguments))


@dataclass
class Ground:
    """The mounted store and a tmpfs, with a process that works in each."""

    mount: Path
    twin: Path
    here: Worker
    there: Worker
    names: Iterator[str] = field(default_factory=lambda: (f"r{number}" for number in count(1)))

    def compare(self, script: list[Step]) -> None:
        """Do every step on both sides, each of which has to be the same in every respect."""
        name = next(self.names)
        for directory, worker in ((self.mount, self.here), (self.twin, self.there)):
            (directory / name).mkdir()
            worker.do(Begin(str(directory / name)))
        done = []
        for call in calls(script):
            done.append(str(call))
            tick()
            found, expected = self.here.do(call), self.there.do(call)
            assert found == expected, "\n".join(["differs at the last of", *done])


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """One mount, one tmpfs and two processes for all scripts, each of which has a directory of its own."""
    directory = tmp_path_factory.mktemp("conformance")
    twin = directory / "twin"
    twin.mkdir()
    with site(directory) as at:
        at.store("notes")
        (notes,) = at.mount("notes")
        mount_tmpfs(twin, size=1 << 26, mode=0o755)
        try:
            with workers(2) as (here, there):
                yield Ground(notes, twin, here, there)
        finally:
            detach(twin)


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_call_answers_and_leaves_what_a_local_disk_does(ground: Ground, script: str) -> None:
    """DESIGN.md, "A file is a memory": modes, permissions, links, sizes, times, errnos."""
    ground.compare(SCRIPTS[script])


def _bind(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(os.fspath(path))


def _by_descriptor(path: Path, flags: int, action: Callable[[int], object]) -> None:
    descriptor = os.open(path, flags)
    try:
        action(descriptor)
    finally:
        os.close(descriptor)


FAR = 2 * 1024**3 + 1
"""Past 2 GiB, where files of 32 bits end."""

CANNOT_HOLD: dict[str, tuple[int, Callable[[Path], object]]] = {
    "symlink": (errno.EPERM, lambda at: (at / "new").symlink_to("f")),
    "link": (errno.EPERM, lambda at: os.link(at / "f", at / "new")),
    "mkfifo": (errno.EPERM, lambda at: os.mkfifo(at / "new")),
    "mknod-block": (errno.EPERM, lambda at: os.mknod(at / "new", stat.S_IFBLK | 0o644, os.makedev(1, 2))),
    "mknod-character": (errno.EPERM, lambda at: os.mknod(at / "new", stat.S_IFCHR | 0o644, os.makedev(1, 2))),
    "mknod-fifo": (errno.EPERM, lambda at: os.mknod(at / "new", stat.S_IFIFO | 0o644)),
    "bind": (errno.EPERM, lambda at: _bind(at / "new")),
    "truncate": (errno.EFBIG, lambda at: os.truncate(at / "f", 1_234_567)),
    "truncate-far": (errno.EFBIG, lambda at: os.truncate(at / "f", 999_999_999_999_999)),
    "ftruncate": (errno.EFBIG, lambda at: _by_descriptor(at / "f", RW, lambda f: os.ftruncate(f, 1_234_567))),
    "write-far": (errno.EFBIG, lambda at: _by_descriptor(at / "f", W, lambda f: os.pwrite(f, b"a", FAR))),
    "posix-fallocate-far": (
        errno.EFBIG,
        lambda at: _by_descriptor(at / "f", RW, lambda f: os.posix_fallocate(f, FAR, 1)),
    ),
    "posix-fallocate-for-writing-only": (
        errno.EBADF,
        lambda at: _by_descriptor(at / "f", W, lambda f: os.posix_fallocate(f, 0, 4)),
    ),
    "long-path": (errno.ENAMETOOLONG, lambda at: (at / "d" / LONGEST / LONGEST / LONGEST / LONGEST).touch()),
    "deep-path": (errno.ENAMETOOLONG, lambda at: (at / "d" / "/".join("abcdefghijklmnopqrs")).mkdir()),
}
"""What a store of texts cannot hold, whoever asks, and how it says so (docs/semantics.md)."""


@pytest.mark.parametrize("call", CANNOT_HOLD)
def test_what_a_store_cannot_hold_is_refused_and_changes_nothing(ground: Ground, call: str) -> None:
    """DESIGN.md 9, 10, 12: with one errno, and no time, size or name is another afterwards."""
    number, attempt = CANNOT_HOLD[call]
    at = ground.mount / f"c-{call}"
    (at / "d" / LONGEST / LONGEST / LONGEST).mkdir(parents=True)
    (at / "d" / "/".join("abcdefghijklmnopqr")).mkdir(parents=True)  # with the two above, 20 names
    (at / "f").write_text("text")

    def everything() -> dict[str, tuple[int, ...]]:
        found = {str(at): at.lstat(), **{str(path): path.lstat() for path in at.rglob("*")}}
        return {path: (s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_nlink) for path, s in found.items()}

    before = everything()
    assert errno_of(lambda: attempt(at)) == number
    assert everything() == before
    assert (at / "f").read_text() == "text"


def test_the_top_directory_has_the_times_of_its_store(ground: Ground) -> None:
    """Not those of 1970, for what nobody has read yet."""
    status = ground.mount.stat()
    assert min(status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns) > RECENT_NS


def test_owner_and_group_are_the_mounts(ground: Ground) -> None:
    """DESIGN.md 12: whoever makes a file, and whatever root gives it to; it is a change all the same."""
    at = ground.mount / "owners"
    at.mkdir()
    at.chmod(0o1777)
    ground.here.do(Begin(str(at)))
    for who, call, arguments in [
        (OTHER, "create", ("f",)),
        (OTHER, "mkdir", ("d",)),
        (ROOT, "chown", ("f", 65534, 65534)),
    ]:
        assert ground.here.do(By(who, call, arguments)).value[0] == "None"  # type: ignore[index]  # an answer is a tuple
    assert {(path.stat().st_uid, path.stat().st_gid) for path in at.iterdir()} == {(0, 0)}
    # So who made a file has the rights that its mode gives to others.
    for call, arguments in [("chmod", ("f", 0o666)), ("utime", ("f", 1, 2)), ("unlink", ("f",)), ("rmdir", ("d",))]:
        answer = ground.here.do(By(OTHER, call, arguments)).value
        assert answer[0] == os.strerror(errno.EPERM), call  # type: ignore[index]  # an answer is a tuple


def test_a_running_program_is_not_written(ground: Ground) -> None:
    """ETXTBSY. A memory is no program of machine code, but a temporary may be one."""
    program = ground.mount / "program.tmp"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, str(LIMIT)]) as running:
        try:
            for flags in (W, RW, W | TRUNC):
                with pytest.raises(OSError, match="Text file busy"):
                    os.close(os.open(program, flags))
            with pytest.raises(OSError, match="Text file busy"):
                os.truncate(program, 3)
        finally:
            running.kill()
    os.truncate(program, 3)
    program.unlink()


def test_a_mount_point_is_not_removed(ground: Ground) -> None:
    """EBUSY, for a directory of the store that something is mounted at."""
    point = ground.mount / "point"
    point.mkdir()
    mount_tmpfs(point, size=1 << 16, mode=0o755)
    try:
        for attempt in (lambda: point.rmdir(), lambda: point.rename(ground.mount / "elsewhere")):
            with pytest.raises(OSError, match="busy"):
                attempt()
    finally:
        detach(point)
    point.rmdir()
