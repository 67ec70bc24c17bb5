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
from contextlib import suppress
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

_TEMPORARY = ("/tmp", "/var/tmp")
_SYSTEM = ("/usr", "/etc", "/opt", *_TEMPORARY)
"""Directories that a command needs, whatever lies in them."""

_KERNEL = ("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "configfs", "securityfs")
"""Filesystems that set the kernel or tell of processes, wherever they are mounted once more, as for a chroot."""


@dataclass(frozen=True, slots=True)
class Bind:
    """A directory or file of the host, shown at another place or, where ``read_only``, without its writes."""

    source: Path
    target: Path
    read_only: bool


@dataclass(frozen=True, slots=True)
class View:
    """What a command shall see. Paths are absolute and without links; ``scratch_size`` is in bytes.

    The stores are to be mounted below ``root``, beside scratch. ``others`` are databases that it must see as little as
    its own, where they are there, and ``private`` directories of ours.
    """

    root: Path
    database: Path
    private: tuple[Path, ...]
    workdir: Path
    binds: tuple[Bind, ...] = ()
    network: bool = True
    scratch_size: int = 0
    others: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """What bubblewrap is told, and what to tell the person who runs it; ``closed`` are the directories it covers."""

    arguments: list[str]
    notes: list[str]
    closed: frozenset[Path]


def make(view: View, names: Iterable[str]) -> Made:
    """The arguments for bubblewrap that make a view with a directory for each store by name.

    Raises MountFailed where the database could not be hidden, or the view could not be had.
    """
    # What lies in another goes on top of it; of two at one place the last is seen.
    binds = sorted(view.binds, key=lambda bind: len(bind.target.parts))
    _check_places(view, binds)
    points = mount_points()
    _check_one_name(Path(os.path.realpath(view.database)), points)
    notes: list[str] = []
    home = Path(os.path.realpath(os.path.expanduser("~")))
    needed = {_showing(view.workdir, binds), home, *map(Path, _SYSTEM), *(bind.target for bind in binds)}
    in_part: dict[Path, list[str]] = {}
    hidden: dict[Path, Path] = {}
    others = [path for path in view.others if path.is_file()]
    for database in dict.fromkeys(Path(os.path.realpath(path)) for path in (view.database, *others)):
        found = _names_of(database.parent, points)
        _check_not_asked_for(database, found, binds)
        if not any(_is_below(path, found) for path in needed):
            hidden |= _places(found, binds)
            continue
        for place in _places(found, binds):
            in_part.setdefault(place, []).append(database.name)
        which = "the" if database.samefile(view.database) else "another"
        notes.append(
            f"{database.parent} holds {which} database, so the command cannot make or rename anything directly in it:"
            " a database in a directory of its own would not be in the way"
        )
    for directory in (*view.private, *_of_memfs(points), *(point.path for point in points if point.kind in _KERNEL)):
        hidden |= _places(_names_of(directory, points), binds)
    for wanted in (view.root, *(bind.target for bind in binds)):
        above = _missing_from(wanted, binds)
        if above is not None and not _is_below(above, [*_OWN, *hidden]):
            if above in (view.workdir, home, *map(Path, _TEMPORARY)):
                raise MountFailed(f"{wanted} is missing: make that directory first, it stays empty outside the sandbox")
            in_part.setdefault(above, [])
    closed = [path for path in sorted(hidden) if _is_shown(path, hidden[path]) and not path.is_relative_to(view.root)]
    arguments = _base(in_part.get(Path("/")))
    layers = [
        (bind.target, ["--ro-bind" if bind.read_only else "--bind", str(bind.source), str(bind.target)])
        for bind in binds
    ]
    layers += [(place, _in_part(place, left_out, binds)) for place, left_out in in_part.items() if place != Path("/")]
    # A stable order: what is shown in part stays so where it was asked for as a whole.
    for _, words in sorted(layers, key=lambda layer: len(layer[0].parts)):
        arguments += words
    for path in closed:
        arguments += ["--perms", "0555", "--tmpfs", str(path)]
    arguments += ["--perms", "0755"]
    if view.scratch_size:
        arguments += ["--size", str(view.scratch_size)]
    arguments += ["--tmpfs", str(view.root)]
    for name in names:
        # What is not mounted takes no writes, and the command cannot change that: nothing it saves is lost silently.
        arguments += ["--perms", "0555", "--tmpfs", str(view.root / name), "--remount-ro", str(view.root / name)]
    for path in [*closed, *in_part]:
        arguments += ["--remount-ro", str(path)]
    if not view.network:
        arguments.append("--unshare-net")
    return Made([*arguments, "--chdir", str(view.workdir)], notes, frozenset(closed))


def _check_places(view: View, binds: Sequence[Bind]) -> None:
    """Raises MountFailed where the stores cannot be mounted, or the command could not begin."""
    if view.root == Path("/") or _is_below(view.root, _OWN[:3]):
        raise MountFailed(f"stores cannot be mounted at {view.root}: choose another place with --at")
    if Path(os.path.realpath(view.database)).is_relative_to(view.root):
        raise MountFailed(f"the database {view.database} lies below {view.root}: choose another place with --at")
    for bind in binds:
        if bind.target == Path("/") or _is_below(bind.target, [view.root, Path("/proc")]):
            raise MountFailed(f"nothing can be shown at {bind.target}: choose another place for {bind.source}")
    if view.workdir == view.root:
        return
    if not _showing(view.workdir, binds).is_dir():
        raise MountFailed(f"the working directory {view.workdir} is missing: choose another one with --workdir")
    if any(view.workdir.is_relative_to(bind.target) for bind in binds):
        return
    if _is_below(view.workdir, [Path("/run"), *_private_runtime(), *view.private]):
        raise MountFailed(
            f"the working directory {view.workdir} is hidden in the sandbox: choose another one with --workdir,"
            " or show it with --bind"
        )


def _check_one_name(database: Path, points: Sequence[MountPoint]) -> None:
    """Raises MountFailed where the database, or what is not in it yet, has a name that hiding its directory leaves."""
    for path in (database, database.with_name(f"{database.name}-wal")):
        with suppress(FileNotFoundError):
            if path.stat().st_nlink > 1:
                raise MountFailed(
                    f"the database {path} has another name (a hard link), by which the command could open it:"
                    " remove that"
                )
    inside = _inside(database, points)
    for point in points:
        if inside is not None and (point.device, point.subtree) == inside:
            raise MountFailed(
                f"the database {database} is mounted at {point.path} by itself, where the command could open it:"
                " mount its directory, or unmount that"
            )


def _check_not_asked_for(database: Path, found: Iterable[Path], binds: Sequence[Bind]) -> None:
    """Raises MountFailed where somebody asks to show a database itself, by one of the names of its directory."""
    for bind in binds:
        if bind.source.parent in found and bind.source.name.startswith(database.name):
            raise MountFailed(
                f"{bind.source} is of the database, which the command must not see: leave that --bind out"
            )


def _is_below(path: Path, directories: Iterable[Path]) -> bool:
    return any(path.is_relative_to(directory) for directory in directories)


def _inside(path: Path, points: Sequence[MountPoint]) -> tuple[str, Path] | None:
    """The filesystem that holds a path, and where in it that is."""
    holding = [point for point in points if path.is_relative_to(point.path)]
    if not holding:
        return None
    # The last of the longest is the one on top.
    holder = max(enumerate(holding), key=lambda item: (len(item[1].path.parts), item[0]))[1]
    return holder.device, holder.subtree / path.relative_to(holder.path)


def _names_of(directory: Path, points: Sequence[MountPoint]) -> set[Path]:
    """Where a directory is on the host: its path, and those by which its filesystem is mounted once more."""
    found = {directory}
    inside = _inside(directory, points)
    if inside is not None:
        device, place = inside
        found |= {
            point.path / place.relative_to(point.subtree)
            for point in points
            if point.device == device and place.is_relative_to(point.subtree)
        }
    return found


def _places(found: Iterable[Path], binds: Sequence[Bind]) -> dict[Path, Path]:
    """Where a directory of the host, given by all its names, would show in the sandbox; each with the name shown."""
    places = {path: path for path in found}
    for bind in binds:
        places |= {
            bind.target / path.relative_to(bind.source): path
            for path in list(places.values())
            if path.is_relative_to(bind.source)
        }
    # Where something else is bound over it, it does not show, and hiding it would make a directory in that.
    return {place: path for place, path in places.items() if _showing(place, binds) == path}


def _covering(place: Path, binds: Sequence[Bind]) -> Bind | None:
    """The bind that says what is at a place; ``binds`` are in the order in which they are made."""
    return next((bind for bind in reversed(binds) if place.is_relative_to(bind.target)), None)


def _showing(place: Path, binds: Sequence[Bind]) -> Path:
    """What of the host shows at a place, where nothing is hidden."""
    bind = _covering(place, binds)
    return place if bind is None else bind.source / place.relative_to(bind.target)


def _of_memfs(points: Sequence[MountPoint]) -> set[Path]:
    """What memfs has mounted, for this session or others; of what lies in each other the outermost."""
    found: set[Path] = set()
    for path in sorted(point.path for point in points if point.source in SOURCES):
        if not _is_below(path, found):
            found.add(path)
    return found


def _missing_from(wanted: Path, binds: Sequence[Bind]) -> Path | None:
    """The nearest directory above a missing place for a mount; None where it is there. Raises MountFailed.

    bubblewrap would make it, and leave it in what is the caller's outside.
    """
    asked_for = next((bind for bind in binds if bind.target == wanted), None)
    below = [bind for bind in binds if len(bind.target.parts) < len(wanted.parts)]
    there = _showing(wanted, below)
    if asked_for is not None and not asked_for.source.is_dir():
        if there.exists() and not there.is_dir():
            return None
        if there.is_dir():
            raise MountFailed(f"{asked_for.source} is a file, and {wanted} a directory: it cannot be shown there")
    elif there.is_dir():
        return None
    elif os.path.lexists(there):
        raise MountFailed(f"{wanted} is not a directory: choose another place for it")
    return next(parent for parent in wanted.parents if _showing(parent, below).is_dir())


def _is_shown(place: Path, path: Path) -> bool:
    """Whether a directory of the host would show at a place; what is dead or missing shows nothing."""
    if _is_below(place, _OWN[:3]):
        return False  # the sandbox's own hides it
    try:
        return path.is_dir()
    except OSError:
        return False


def _base(left_out: Sequence[str] | None) -> list[str]:
    """The system below, with what the sandbox has its own of; of / without these names, where they are given."""
    arguments = ["--bind", "/", "/"] if left_out is None else _entries(Path("/"), Path("/"), left_out, "--bind-try")
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


def _in_part(place: Path, left_out: Sequence[str], binds: Sequence[Bind]) -> list[str]:
    """A directory of which each entry is shown, but none called as a database or its companions."""
    bind = _covering(place, binds)
    source = _showing(place, binds)
    mode = stat.S_IMODE(source.stat().st_mode)
    how = "--ro-bind-try" if bind is not None and bind.read_only else "--bind-try"
    return ["--perms", f"{mode:04o}", "--tmpfs", str(place), *_entries(source, place, left_out, how)]


def _entries(source: Path, place: Path, left_out: Sequence[str], how: str) -> list[str]:
    arguments: list[str] = []
    for entry in sorted(source.iterdir()):
        if entry in _OWN or entry.name.startswith(tuple(left_out)):
            continue
        try:
            if entry.is_symlink():
                arguments += ["--symlink", os.readlink(entry), str(place / entry.name)]
            else:
                entry.stat()
                arguments += [how, str(entry), str(place / entry.name)]
        except OSError:
            continue  # gone, dead, or another user's mount: there is nothing to show
    return arguments
