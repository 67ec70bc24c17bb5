"""What a sandboxed command sees: the caller's system without the database, and its stores. bubblewrap makes it so.

Everything is shown as it is, but for

- the directory of the database and ours of records, at every place where they would show;
- what is mounted by memfs for others, and other views of /proc than the sandbox's own;
- /run, where services listen that would run a command outside for whoever asks (the user's systemd, containers);
- /dev, of which there are the harmless devices;
- /sys and what /proc has of the kernel's settings, which can only be read.
"""

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memfs.model.errors import MountFailed
from memfs.mount.processes import MountPoint, mount_points
from memfs.mount.root import SOURCES

_OWN = (Path("/dev"), Path("/proc"), Path("/sys"), Path("/run"))
"""What the sandbox has its own of."""

_SETTINGS = ("/sys", "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi")
"""What sets the kernel, and asks root for no capability: kernel.core_pattern names a program to run outside."""

_NAME_RESOLUTION = ("systemd/resolve", "NetworkManager", "resolvconf", "netconfig", "connman")
"""What /etc/resolv.conf may link to below /run."""

_SYSTEM = ("/usr", "/etc", "/opt", "/tmp", "/var/tmp")
"""Directories that a command needs, whatever lies in them."""


@dataclass(frozen=True, slots=True)
class Bind:
    """A directory or file of the host, shown at another place or, where ``read_only``, without its writes."""

    source: Path
    target: Path
    read_only: bool


@dataclass(frozen=True, slots=True)
class View:
    """What a command shall see. Paths are absolute and without links; ``scratch_size`` is in bytes.

    The stores are to be mounted below ``root``, beside scratch. ``private`` are directories of ours that it must not
    see, beside the database's.
    """

    root: Path
    database: Path
    private: tuple[Path, ...]
    workdir: Path
    binds: tuple[Bind, ...] = ()
    network: bool = True
    scratch_size: int = 0


@dataclass(frozen=True, slots=True)
class Made:
    """What bubblewrap is told, and what to tell the person who runs it."""

    arguments: list[str]
    notes: list[str]


def make(view: View, names: Iterable[str]) -> Made:
    """The arguments for bubblewrap that make a view with a directory for each store by name.

    Raises MountFailed where the database could not be hidden, or the view could not be had.
    """
    _check_places(view)
    points = mount_points()
    database = Path(os.path.realpath(view.database))
    _check_one_name(database)
    notes: list[str] = []
    home = Path(os.path.realpath(os.path.expanduser("~")))
    needed = {view.workdir, home, *map(Path, _SYSTEM), *(bind.target for bind in view.binds)}
    beside = any(path.is_relative_to(database.parent) for path in needed)
    if beside:
        notes.append(
            f"{database.parent} holds the database, so the command cannot make or rename anything directly in it:"
            " a database in a directory of its own would not be in the way"
        )
    shown_in_part: dict[Path, str] = {}
    hidden: dict[Path, Path] = {}
    for directory in (
        database.parent,
        *view.private,
        *_of_memfs(points),
        *(point.path for point in points if point.kind == "proc" and not _is_below(point.path, _OWN)),
    ):
        hidden |= _places(directory, view.binds, points)
    if beside:
        shown_in_part[database.parent] = database.name
        del hidden[database.parent]
    above = _missing_from(view.root)
    if above is not None and not _is_below(above, [*_OWN, *hidden]):
        if above in (view.workdir, home):
            raise MountFailed(f"{view.root} is missing: make that directory first, it stays empty outside the sandbox")
        shown_in_part.setdefault(above, "")
    arguments = _base(shown_in_part)
    for directory in sorted(shown_in_part, key=lambda path: len(path.parts)):
        if directory != Path("/"):
            arguments += _in_part(directory, shown_in_part[directory])
    for bind in view.binds:
        arguments += ["--ro-bind" if bind.read_only else "--bind", str(bind.source), str(bind.target)]
    closed = [path for path in sorted(hidden) if _is_shown(path, hidden[path]) and not path.is_relative_to(view.root)]
    for path in closed:
        arguments += ["--perms", "0555", "--tmpfs", str(path)]
    arguments += ["--perms", "0755"]
    if view.scratch_size:
        arguments += ["--size", str(view.scratch_size)]
    arguments += ["--tmpfs", str(view.root)]
    for name in names:
        # What is not mounted takes no writes, and the command cannot change that: nothing it saves is lost silently.
        arguments += ["--perms", "0555", "--tmpfs", str(view.root / name), "--remount-ro", str(view.root / name)]
    for path in [*closed, *shown_in_part]:
        arguments += ["--remount-ro", str(path)]
    if not view.network:
        arguments.append("--unshare-net")
    return Made([*arguments, "--chdir", str(view.workdir)], notes)


def _check_places(view: View) -> None:
    """Raises MountFailed where the stores cannot be mounted, or the command could not begin."""
    if view.root == Path("/") or _is_below(view.root, _OWN[:3]):
        raise MountFailed(f"stores cannot be mounted at {view.root}: choose another place with --at")
    if Path(os.path.realpath(view.database)).is_relative_to(view.root):
        raise MountFailed(f"the database {view.database} lies below {view.root}: choose another place with --at")
    if any(view.workdir.is_relative_to(bind.target) for bind in view.binds) or view.workdir == view.root:
        return
    if not view.workdir.is_dir():
        raise MountFailed(f"the working directory {view.workdir} is missing: choose another one with --workdir")
    if _is_below(view.workdir, [Path("/run"), *_private_runtime(), *view.private]):
        raise MountFailed(
            f"the working directory {view.workdir} is hidden in the sandbox: choose another one with --workdir,"
            " or show it with --bind"
        )


def _check_one_name(database: Path) -> None:
    if database.stat().st_nlink > 1:
        raise MountFailed(
            f"the database {database} has another name (a hard link), by which the command could open it: remove that"
        )


def _is_below(path: Path, directories: Iterable[Path]) -> bool:
    return any(path.is_relative_to(directory) for directory in directories)


def _places(directory: Path, binds: Sequence[Bind], points: Sequence[MountPoint]) -> dict[Path, Path]:
    """Where a directory of the host would show: where it is, where its filesystem is mounted once more, in binds.

    Each place is given with that which shows there, as a path of the host.
    """
    found = {directory}
    holding = [point for point in points if directory.is_relative_to(point.path)]
    if holding:
        # The last of the longest is the one on top.
        holder = max(enumerate(holding), key=lambda item: (len(item[1].path.parts), item[0]))[1]
        inside = holder.subtree / directory.relative_to(holder.path)
        found |= {
            point.path / inside.relative_to(point.subtree)
            for point in points
            if point.device == holder.device and inside.is_relative_to(point.subtree)
        }
    places = {path: path for path in found}
    for bind in binds:
        places |= {
            bind.target / path.relative_to(bind.source): path for path in found if path.is_relative_to(bind.source)
        }
    return places


def _of_memfs(points: Sequence[MountPoint]) -> set[Path]:
    """What memfs has mounted, for this session or others; of what lies in each other the outermost."""
    found: set[Path] = set()
    for path in sorted(point.path for point in points if point.source in SOURCES):
        if not _is_below(path, found):
            found.add(path)
    return found


def _missing_from(root: Path) -> Path | None:
    """The nearest directory above a missing root; None where the root is there. Raises MountFailed."""
    if root.is_dir():
        return None
    if os.path.lexists(root):
        raise MountFailed(f"{root} is not a directory: choose another one with --at")
    return next(parent for parent in root.parents if parent.is_dir())


def _is_shown(place: Path, path: Path) -> bool:
    """Whether a directory of the host would show at a place; what is dead or missing shows nothing."""
    if _is_below(place, [Path("/dev"), Path("/proc")]):
        return False  # the sandbox's own hides it
    try:
        return path.is_dir()
    except OSError:
        return False


def _base(shown_in_part: dict[Path, str]) -> list[str]:
    """The system below, with what the sandbox has its own of."""
    arguments: list[str] = []
    if Path("/") in shown_in_part:
        arguments += _entries(Path("/"), shown_in_part[Path("/")])
    else:
        arguments += ["--bind", "/", "/"]
    arguments += ["--dev", "/dev", "--proc", "/proc"]
    for path in _SETTINGS:
        arguments += ["--ro-bind-try", path, path]
    arguments += ["--tmpfs", "/run"]
    for name in _NAME_RESOLUTION:
        arguments += ["--ro-bind-try", f"/run/{name}", f"/run/{name}"]
    for runtime in _private_runtime():
        # Programs want it; the sockets in it are for those outside.
        arguments += ["--perms", "0700", "--dir" if _is_below(runtime, [Path("/run")]) else "--tmpfs", str(runtime)]
    return arguments


def _private_runtime() -> list[Path]:
    """The caller's runtime directory, where there is one, and it is the caller's alone as it should be."""
    given = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if given.is_absolute() and given.is_dir():
        status = given.stat()
        if status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return [given]
    return []


def _in_part(directory: Path, left_out: str) -> list[str]:
    """A directory of which each entry is shown, but none called as the database or its companions."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    return ["--perms", f"{mode:04o}", "--tmpfs", str(directory), *_entries(directory, left_out)]


def _entries(directory: Path, left_out: str) -> list[str]:
    arguments: list[str] = []
    for entry in sorted(directory.iterdir()):
        if entry in _OWN or (left_out and entry.name.startswith(left_out)):
            continue
        try:
            if entry.is_symlink():
                arguments += ["--symlink", os.readlink(entry), str(entry)]
            else:
                entry.stat()
                arguments += ["--bind-try", str(entry), str(entry)]
        except OSError:
            continue  # gone, dead, or another user's mount: there is nothing to show
    return arguments
