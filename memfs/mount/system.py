"""What this system offers to mounts and sandboxes.

Each function takes the paths and values that it looks at, changes nothing, and raises for nothing that it finds.
"""

import errno
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

from memfs.model.errors import MountFailed
from memfs.model.findings import Finding
from memfs.mount.processes import check_device
from memfs.mount.running import LEAST_BUBBLEWRAP

LEAST_KERNEL = (5, 3)
"""The first with pidfd_open, by which processes are waited for."""

PROBE_SECONDS = 15.0

_MOUNTS = "'memfs mount' and 'memfs run'"
_USERS = "'memfs mount' by ordinary users"
_OTHERS = "--allow-other: mounts of ordinary users that other users may enter"
_RUNS = "'memfs run'"
_RUNS_USERS = "'memfs run' by ordinary users"
_LOOKS = "'memfs status', and taking mounts down"
_FOLLOWS = "noticing at once what other processes change"


def fuse_device(path: Path) -> Finding:
    """``path`` is /dev/fuse. It is opened: a container's rules for devices show in no mode."""
    if path == Path("/dev/fuse"):
        try:
            check_device()
        except MountFailed as error:
            return Finding("fuse-device", "missing", *_split(str(error), _MOUNTS))
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        step = {
            errno.ENOENT: "load the fuse module (modprobe fuse), or run the container with --device /dev/fuse",
            errno.EACCES: f"as root: chmod 666 {path}, which is what Debian does",
            errno.EPERM: "run the container with --device /dev/fuse, which also lets it use the device",
            errno.ENODEV: "as root: modprobe fuse; or use a kernel that has FUSE",
            errno.ENXIO: "as root: modprobe fuse; or use a kernel that has FUSE",
        }.get(error.errno or 0, "look at what the error means; nothing can be mounted without it")
        return Finding("fuse-device", "missing", f"{path}: {error.strerror}", _MOUNTS, step)
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISCHR(status.st_mode) or status.st_rdev != os.makedev(10, 229):
        step = "run the container with --device /dev/fuse"
        return Finding("fuse-device", "missing", f"{path} is not the FUSE device", _MOUNTS, step)
    return Finding("fuse-device", "ok", f"{path} can be opened", _MOUNTS)


def _split(text: str, good_for: str) -> tuple[str, str, str]:
    """An error of ours as what was found, what it is good for, and what to do."""
    found, _, step = text.partition(": ")
    return found, good_for, step


def kernel(release: str, filesystems: Path) -> Finding:
    """``release`` is that of uname, ``filesystems`` /proc/filesystems."""
    found = re.match(r"(\d+)\.(\d+)", release)
    wanted = ".".join(map(str, LEAST_KERNEL))
    if found is None or (int(found[1]), int(found[2])) < LEAST_KERNEL:
        return Finding("kernel", "missing", f"Linux {release}", _MOUNTS, f"use Linux {wanted} or newer")
    try:
        known = set(filesystems.read_text().split())
    except OSError as error:
        step = "make sure that /proc is mounted"
        return Finding("kernel", "warning", f"Linux {release}; {filesystems}: {error.strerror}", _MOUNTS, step)
    lacking = [name for name in ("fuse", "tmpfs") if name not in known]
    if lacking:
        step = f"as root: modprobe {lacking[0]}; or use a kernel that has it"
        return Finding("kernel", "warning", f"Linux {release}, without {' and '.join(lacking)} so far", _MOUNTS, step)
    return Finding("kernel", "ok", f"Linux {release}, with fuse and tmpfs", _MOUNTS)


def hints(library: Path) -> Finding:
    """``library`` is that of ``memfs.mount.hints``, which is compiled when memfs is installed."""
    good_for = "opening, closing and listing without asking the daemon"
    if library.exists():
        return Finding("kernel-hints", "ok", f"{library.name} is compiled", good_for)
    step = "install gcc, pkg-config and libfuse3-dev, then memfs again (pip install --force-reinstall --no-deps …)"
    return Finding("kernel-hints", "warning", f"{library.name} could not be compiled at installation", good_for, step)


def fusermount3(search: str, own_status: Path, *, mounting: bool) -> Finding:
    """``search`` is like PATH, ``own_status`` /proc/self/status, ``mounting`` whether this process may mount itself."""
    program = shutil.which("fusermount3", path=search)
    if program is None:
        step = "sudo apt install fuse3"
        if mounting:
            return Finding("fusermount3", "ok", "not there; this process mounts without it", _USERS)
        return Finding("fusermount3", "missing", "not there", _USERS, step)
    try:
        status = os.stat(program)
        kept = not os.statvfs(program).f_flag & os.ST_NOSUID
    except OSError as error:
        return Finding("fusermount3", "missing", f"{program}: {error.strerror}", _USERS, "reinstall fuse3")
    if mounting:
        return Finding("fusermount3", "ok", program, _USERS)
    if not (status.st_mode & stat.S_ISUID and status.st_uid == 0):
        step = f"as root: chown root {program} && chmod 4755 {program}, which is what Debian does"
        return Finding("fusermount3", "missing", f"{program} is not setuid root", _USERS, step)
    if not kept:
        step = "install fuse3 on a file system that is not mounted nosuid, or use 'memfs run'"
        return Finding("fusermount3", "missing", f"{program} lies on a nosuid file system", _USERS, step)
    try:
        bound = "NoNewPrivs:\t1" in own_status.read_text()
    except OSError:
        bound = False
    if bound:
        step = "start this without no-new-privileges (Docker's --security-opt, systemd's NoNewPrivileges=)"
        return Finding("fusermount3", "missing", "this process may gain no privileges", _USERS, step)
    return Finding("fusermount3", "ok", f"{program}, setuid root", _USERS)


def user_allow_other(configuration: Path, *, mounting: bool) -> Finding:
    """``configuration`` is /etc/fuse.conf."""
    if mounting:
        return Finding("user-allow-other", "ok", "this process needs no leave for it", _OTHERS)
    step = f"where that is wanted, as root: echo user_allow_other >> {configuration}"
    try:
        lines = configuration.read_text(errors="replace").splitlines()
    except OSError as error:
        return Finding("user-allow-other", "warning", f"{configuration}: {error.strerror}", _OTHERS, step)
    if any(line.strip() == "user_allow_other" for line in lines):
        return Finding("user-allow-other", "ok", f"{configuration} allows it", _OTHERS)
    return Finding("user-allow-other", "warning", f"{configuration} does not allow it", _OTHERS, step)


def user_namespaces(proc: Path, *, mounting: bool) -> Finding:
    """``proc`` is /proc."""
    if mounting:
        return Finding("user-namespaces", "ok", "this process needs none", _RUNS_USERS)
    if not os.path.lexists(proc / "self/ns/user"):
        step = "use a kernel with CONFIG_USER_NS, or run it as root"
        return Finding("user-namespaces", "missing", "the kernel has none", _RUNS_USERS, step)
    for name, wanted in (("kernel/unprivileged_userns_clone", "1"), ("user/max_user_namespaces", "10000")):
        setting = name.replace("/", ".")
        if _setting(proc / "sys" / name) == "0":
            step = f"as root: sysctl -w {setting}={wanted}"
            return Finding("user-namespaces", "missing", f"{setting} is 0", _RUNS_USERS, step)
    return Finding("user-namespaces", "ok", "ordinary users may make them", _RUNS_USERS)


def _setting(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def apparmor_userns(proc: Path, profiles: Path, *, mounting: bool) -> Finding:
    """``profiles`` is /etc/apparmor.d, where a profile may give bubblewrap what others are denied."""
    name = "apparmor-userns"
    setting = "kernel.apparmor_restrict_unprivileged_userns"
    if _setting(proc / "sys" / setting.replace(".", "/")) != "1":
        return Finding(name, "ok", "AppArmor does not restrict user namespaces", _RUNS_USERS)
    if mounting:
        return Finding(name, "ok", "AppArmor restricts them, but this process needs none", _RUNS_USERS)
    found = [each for each in ("bwrap-userns-restrict", "bwrap") if _in_force(profiles, each)]
    if found:
        return Finding(name, "ok", f"AppArmor restricts them, but has the profile {found[0]}", _RUNS_USERS)
    step = (
        f"install the profile that the distribution has for bwrap (Ubuntu: apt install apparmor-profiles, then copy"
        f" /usr/share/apparmor/extra-profiles/bwrap-userns-restrict to {profiles} and load it with apparmor_parser -r)"
    )
    return Finding(
        name, "warning", f"AppArmor restricts them ({setting} is 1), with no profile for bwrap", _RUNS_USERS, step
    )


def _in_force(profiles: Path, name: str) -> bool:
    return (profiles / name).exists() and not os.path.lexists(profiles / "disable" / name)


def apparmor_fusermount3(enabled: Path, profiles: Path, *, mounting: bool) -> Finding:
    """``enabled`` is /sys/module/apparmor/parameters/enabled, ``profiles`` /etc/apparmor.d."""
    name = "apparmor-fusermount3"
    if _setting(enabled) != "Y":
        return Finding(name, "ok", "AppArmor is not on", _USERS)
    if not _in_force(profiles, "fusermount3"):
        return Finding(name, "ok", "AppArmor has no profile for it", _USERS)
    if mounting:
        return Finding(name, "ok", "AppArmor has a profile for it, but this process mounts without it", _USERS)
    step = (
        "where mounting is denied, choose a --root that the profile allows, with XDG_RUNTIME_DIR in one too, or add to"
        f" {profiles}/local/fusermount3"
    )
    text = f"{profiles}/fusermount3 limits where it mounts, mostly to the home directory, /mnt, /media and /tmp"
    return Finding(name, "warning", text, _USERS, step)


def bubblewrap(search: str, *, mounting: bool, seconds: float = PROBE_SECONDS) -> list[Finding]:
    """Whether it is there, and whether it can make a sandbox, by making one for a moment; ``search`` is like PATH."""
    program = shutil.which("bwrap", path=search)
    if program is None:
        return [Finding("bubblewrap", "missing", "not there", _RUNS, "sudo apt install bubblewrap")]
    least = ".".join(map(str, LEAST_BUBBLEWRAP))
    said = _said([program, "--version"], seconds)
    found = re.search(r"(\d+)\.(\d+)", said[1])
    if found is None or (int(found[1]), int(found[2])) < LEAST_BUBBLEWRAP:
        what = said[1].strip() or "something else"
        step = f"install version {least} or newer"
        return [Finding("bubblewrap", "missing", f"{program} is {what}", _RUNS, step)]
    there = Finding("bubblewrap", "ok", f"{program}, {said[1].strip()}", _RUNS)
    options = ["--die-with-parent", "--unshare-pid", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc", "/proc"]
    if not mounting:
        options += ["--unshare-user", "--disable-userns"]
    status, text = _said([program, *options, "--", "true"], seconds)
    if status == 0:
        return [there, Finding("sandbox", "ok", "one could be made", _RUNS)]
    step = "look at user-namespaces and apparmor-userns above; in a container it takes --cap-add SYS_ADMIN"
    what = (text.strip().splitlines() or [f"bwrap ended with {status}"])[-1]
    return [there, Finding("sandbox", "missing", what, _RUNS, step)]


def _said(command: list[str], seconds: float) -> tuple[int, str]:
    """The exit status of a program, and what it wrote."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout.decode(errors="replace")


def runtime(place: Path, uid: int) -> Finding:
    """``place`` is where the records of mounts are, or would be made."""
    step = "set XDG_RUNTIME_DIR to a directory that is yours alone"
    existing = place
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        status = existing.stat()
    except OSError as error:
        return Finding("runtime-directory", "missing", f"{existing}: {error.strerror}", _LOOKS, step)
    if not stat.S_ISDIR(status.st_mode):
        return Finding("runtime-directory", "missing", f"{existing} is no directory", _LOOKS, step)
    if existing == place and (place.is_symlink() or status.st_uid != uid or status.st_mode & 0o022):
        return Finding("runtime-directory", "missing", f"{place} is not this user's alone", _LOOKS, step)
    if not os.access(existing, os.W_OK | os.X_OK):
        return Finding("runtime-directory", "missing", f"{existing} cannot be written", _LOOKS, step)
    return Finding("runtime-directory", "ok", os.fspath(place), _LOOKS)


def inotify(proc: Path) -> Finding:
    """Whether the limits let every mount have a watch; ``proc`` is /proc. Each worker takes one instance."""
    for name in ("max_user_instances", "max_user_watches"):
        said = _setting(proc / "sys/fs/inotify" / name)
        if said is None:
            step = "use a kernel with inotify; else changes are looked for once a second"
            return Finding("inotify", "warning", "the kernel has none", _FOLLOWS, step)
        if said.isdecimal() and int(said) < 16:
            step = f"as root: sysctl -w fs.inotify.{name}=1024; else changes are looked for once a second"
            return Finding("inotify", "warning", f"fs.inotify.{name} is {said}", _FOLLOWS, step)
    return Finding("inotify", "ok", "its limits leave room", _FOLLOWS)
