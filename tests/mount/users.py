"""Who else than root mounts in tests: the user nobody."""

import fcntl
import json
import os
import pwd
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.mount.harness import LIMIT, Site

NOBODY = pwd.getpwnam("nobody")
AS_NOBODY = ("setpriv", "--reuid", str(NOBODY.pw_uid), "--regid", str(NOBODY.pw_gid), "--clear-groups")

DEVICE = Path("/dev/fuse")


@contextmanager
def opened_device() -> Iterator[None]:
    """/dev/fuse as Debian's udev makes it, open to all, also on a machine without udev.

    Several processes of tests want that at once: the last of them puts it back.
    """
    users = Path(tempfile.gettempdir()) / "memfs-tests-open-device"
    with _told(users) as told:
        told.setdefault("mode", stat.S_IMODE(DEVICE.stat().st_mode))
        told.setdefault("users", []).append(os.getpid())
        DEVICE.chmod(0o666)
    yield
    with _told(users) as told:
        told["users"].remove(os.getpid())
        if not any(Path(f"/proc/{pid}").exists() for pid in told["users"]):
            DEVICE.chmod(told["mode"])
            told.clear()


@contextmanager
def _told(path: Path) -> Iterator[dict[str, Any]]:
    """What processes tell each other in a file, one at a time."""
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        told = json.loads(file.read() or "{}")
        yield told
        file.truncate(0)
        file.write(json.dumps(told))


def as_user(at: Site, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script as the user: root itself cannot look into a user's mount."""
    return subprocess.run(
        [*at.prefix, "sh", "-euc", script], cwd=at.directory, capture_output=True, text=True, timeout=LIMIT, check=False
    )


def give(directory: Path) -> None:
    """Make a directory the user's."""
    os.chown(directory, NOBODY.pw_uid, NOBODY.pw_gid)
