"""The directory that the stores are mounted in, and the scratch beside them.

Whoever may mount gets a tmpfs at the root. An ordinary user cannot have one there, nor can the stores hang in a FUSE
tree of the user's (fusermount3 is setuid root, and FUSE keeps root out of a user's mount): so the stores are mounted
in a directory on a tmpfs that the user owns already, and the root is a symbolic link to it, unless it lies on a tmpfs
itself. Either way the scratch is in memory and goes at unmount, and a store's directory refuses writes while its store
is not mounted in it: what an agent learns must not land in a plain directory that nobody keeps.
"""

import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memfs.model.errors import MountFailed
from memfs.mount.processes import (
    can_mount,
    check_device,
    detach,
    kind_at,
    mount_tmpfs,
    mounted_at,
    mounted_below,
    set_immutable,
)

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
    if not can_mount() and not Path("/etc/mtab").exists():
        raise MountFailed(
            "fusermount3 cannot unmount without /etc/mtab: let root run ln -s /proc/self/mounts /etc/mtab"
        )
    location = Path(os.path.realpath(database))
    if location.is_relative_to(root):
        raise MountFailed(f"the database {database} lies below the root {root}, which would hide it: move one of them")
    if mounted_at(root):
        raise MountFailed(f"{root} is mounted already: 'memfs umount {root}' takes it down, or choose another --root")
    try:
        if root.exists() or root.is_symlink():
            if root.is_symlink() or not root.is_dir():
                raise MountFailed(f"the root {root} is not a directory: choose another --root")
            if any(root.iterdir()):
                raise MountFailed(f"the root {root} is not empty: choose an empty or new directory with --root")
        if not can_mount():
            changed = root if root.exists() and kind_at(root) == "tmpfs" else _existing_parent(root)
            if not os.access(changed, os.W_OK):
                raise MountFailed(f"{changed} is not yours to write to: choose a --root in a directory of your own")
    except OSError as error:
        raise MountFailed(f"the root {root} cannot be used: {error.strerror}") from None


def _existing_parent(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.exists())


@dataclass(frozen=True, slots=True)
class Root:
    """A root that is ready for stores.

    ``place`` is where they are mounted: the root itself, or what it links to. ``existed`` tells whether the root is to
    be left as an empty directory, ``tmpfs`` whether one is mounted there.
    """

    root: Path
    place: Path
    existed: bool
    tmpfs: bool

    def clear(self) -> None:
        """Unmount and remove everything of it; safe where parts are gone already. Never raises."""
        if self.tmpfs:
            unmount(self.root)
        elif mounted_below(self.place):
            log.error("something is still mounted, so the scratch stays path=%s", self.place)
            return
        else:
            for entry in _entries(self.place):
                _remove(entry)
        if self.place != self.root:
            if self.root.is_symlink():
                _try(self.root.unlink, self.root)
            _try(self.place.rmdir, self.place)
            if self.existed and not self.root.exists():
                _try(self.root.mkdir, self.root)
        elif not self.existed:
            _try(self.root.rmdir, self.root)


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        _try(lambda: entry.chmod(0o700), entry)
        for top, directories, _ in os.walk(entry):  # from the top, so that a closed one is opened before it is entered
            for name in directories:
                below = Path(top, name)
                if not below.is_symlink():
                    _try(partial(below.chmod, 0o700), below)
        _try(lambda: shutil.rmtree(entry), entry)
    else:
        _try(entry.unlink, entry)


def _try(action: Callable[[], object], path: Path) -> None:
    try:
        action()
    except FileNotFoundError:
        pass
    except OSError as error:
        log.info("stays path=%s reason=%s", path, error.strerror)


def plan_root(root: Path, private: Path) -> Root:
    """What the root will be; nothing is made yet. ``private`` is where an ordinary user's place may be."""
    on_tmpfs = can_mount() or kind_at(root) == "tmpfs"
    return Root(root, root if on_tmpfs else private, root.exists(), tmpfs=can_mount())


def prepare_root(planned: Root, names: list[str], *, size: int, shared: bool) -> None:
    """Make the root with a directory for each store; other users may enter it where it is ``shared``.

    Raises MountFailed; ``planned.clear()`` takes away what was made until then.
    """
    root, place = planned.root, planned.place
    try:
        if place == root:
            root.mkdir(parents=True, exist_ok=True)
            if planned.tmpfs:
                mount_tmpfs(root, size=size, mode=0o1777)
        else:
            place.mkdir(mode=0o755 if shared else 0o700)
            root.parent.mkdir(parents=True, exist_ok=True)
            if planned.existed:
                root.rmdir()
            root.symlink_to(place)
        for name in names:
            make_store_directory(place / name)
    except OSError as error:
        raise MountFailed(f"the root {root} could not be made ready: {error.strerror} ({error.filename})") from None


def make_store_directory(directory: Path) -> None:
    """Make a directory that a store is to be mounted on, where it is not there (any more). Raises OSError."""
    if not directory.exists():
        directory.mkdir()
        guard(directory)


def guard(directory: Path) -> None:
    """Make an empty directory refuse writes, as long as nothing is mounted on it."""
    if can_mount() and set_immutable(directory, immutable=True):
        return  # which binds root too
    directory.chmod(0o555)
    if can_mount():
        # An old kernel's tmpfs has no such flag: a read-only mount below the store's does the same, at the price of a
        # second line in the list of mounts.
        mount_tmpfs(directory, size=4096, mode=0o555, read_only=True)


def unguarded(directory: Path) -> AbstractContextManager[None]:
    """Let a store be mounted on its directory: fusermount3 asks that its user may write there."""
    return nullcontext() if can_mount() else _opened_up(directory)


@contextmanager
def _opened_up(directory: Path) -> Iterator[None]:
    # The descriptor stays with the directory itself when something is mounted over it.
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    itself = f"/proc/self/fd/{descriptor}"
    try:
        os.chmod(itself, 0o755)
        try:
            yield
        finally:
            os.chmod(itself, 0o555)
    finally:
        os.close(descriptor)


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
            command = ["fusermount3", "-u", "-z", "-q", "--", os.fspath(path)]
            try:
                done = subprocess.run(command, capture_output=True, text=True)
            except OSError as error:  # no process to be had, for one
                log.warning("could not unmount path=%s reason=%s", path, error.strerror)
                return
            if done.returncode:
                log.warning("could not unmount path=%s reason=%s", path, done.stderr.strip())
                return
