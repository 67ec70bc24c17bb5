"""The directory that the stores are mounted in, and the scratch beside them.

Whoever may mount gets a kernel tmpfs; an ordinary user gets a FUSE tree of the same behaviour, kept in a worker's
memory. Either way a store's directory refuses writes while its store is not mounted in it: what an agent learns must
not land in a plain directory that nobody keeps.
"""

import errno
import logging
import os
import shutil
import subprocess
from pathlib import Path

from memfs.model.errors import MountFailed
from memfs.mount.processes import can_mount, check_device, detach, mount_tmpfs, mounted_at, set_immutable

log = logging.getLogger(__name__)

SOURCES = frozenset({"memfs", "memfs-scratch"})
"""What our mounts call themselves in /proc/self/mountinfo."""


def check_root(root: Path, database: Path) -> None:
    """Check that stores can be mounted below ``root``. Raises MountFailed with what to do.

    The root may be missing; it may not be a mount point, hold anything, or have the database below it.
    """
    check_device()
    if not can_mount() and shutil.which("fusermount3") is None:
        raise MountFailed("mounting takes root with CAP_SYS_ADMIN, or fusermount3: install the package fuse3")
    location = Path(os.path.realpath(database))
    if location.is_relative_to(root):
        raise MountFailed(f"the database {database} lies below the root {root}, which it would be hidden by: move one")
    if mounted_at(root):
        raise MountFailed(f"{root} is mounted already: 'memfs umount {root}' takes it down, or choose another --root")
    try:
        if root.exists():
            if not root.is_dir():
                raise MountFailed(f"the root {root} is not a directory: choose another --root")
            if any(root.iterdir()):
                raise MountFailed(f"the root {root} is not empty: choose an empty or new directory with --root")
        if not can_mount():
            place = root if root.exists() else _existing_parent(root)
            if not os.access(place, os.W_OK):
                raise MountFailed(f"{place} is not yours to write to: choose a directory of your own with --root")
    except OSError as error:
        raise MountFailed(f"the root {root} cannot be used: {error.strerror}") from None


def _existing_parent(path: Path) -> Path:
    for parent in path.parents:
        if parent.exists():
            return parent
    return Path("/")


def make_root(root: Path) -> bool:
    """Make the directory where it is missing; returns whether it was. Raises MountFailed."""
    if root.exists():
        return False
    try:
        root.mkdir(parents=True)
    except OSError as error:
        raise MountFailed(f"the root {root} cannot be made: {error.strerror}") from None
    return True


def mount_scratch(root: Path, directories: list[str], size: int) -> bool:
    """Mount the tmpfs and make each store's directory in it; False where this process may not mount.

    Raises MountFailed.
    """
    if not can_mount():
        return False
    try:
        mount_tmpfs(root, size=size, mode=0o1777)
    except OSError as error:
        if error.errno == errno.EPERM:
            return False
        raise MountFailed(f"the scratch tmpfs could not be mounted at {root}: {error.strerror}") from None
    for name in directories:
        directory = root / name
        directory.mkdir(mode=0o555)
        if not set_immutable(directory, immutable=True):
            # An old kernel's tmpfs: a read-only mount below the store's does the same, at the price of a second line
            # in the list of mounts.
            mount_tmpfs(directory, size=4096, mode=0o555)
            subprocess.run(["mount", "-o", "remount,ro", os.fspath(directory)], check=True)
    return True


def unmount(path: Path) -> None:
    """Unmount lazily everything that is ours at exactly this path; what is not ours stays. Never raises."""
    for point in reversed(mounted_at(path)):
        if point.source not in SOURCES:
            return
        try:
            detach(path)
        except OSError:
            if shutil.which("fusermount3") is None:
                log.warning("could not unmount path=%s", path)
                return
            done = subprocess.run(
                ["fusermount3", "-u", "-z", "-q", "--", os.fspath(path)], capture_output=True, text=True
            )
            if done.returncode:
                log.warning("could not unmount path=%s reason=%s", path, done.stderr.strip())
                return


def clear_dead(root: Path, paths: list[Path], *, created_root: bool) -> None:
    """Take down what a supervisor that died has left: the stores' mounts and the root's."""
    for path in paths:
        unmount(path)
    unmount(root)
    if created_root:
        remove_root(root)


def remove_root(root: Path) -> None:
    """Remove a root directory that we made, if nothing is in it."""
    try:
        root.rmdir()
    except OSError as error:
        log.info("the root stays path=%s reason=%s", root, error.strerror)
