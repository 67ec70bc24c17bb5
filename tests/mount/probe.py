"""Run in a sandbox: looks for a database by every way there is, and prints what it found as JSON.

Needs nothing but Python. Arguments: a JSON object with ``marker`` (bytes of the database, as text), ``paths`` that
were it or its directory outside, and ``pids`` of processes that have it open there.
"""

import ctypes
import errno
import json
import os
import platform
import signal
import socket
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

GIVEN = json.loads(sys.argv[1])
MARKER = GIVEN["marker"].encode()
found: list[str] = []
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER, MNT_DETACH, MS_BIND = 0x20000, 0x10000000, 2, 4096
PTRACE_ATTACH = 16
CLONE, CLONE3 = {"x86_64": 56, "aarch64": 220}, 435

SETTINGS = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/drop_caches",
    "/proc/sysrq-trigger",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/profiling",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/power/state",
)
"""What root may write without any capability, and makes the kernel run something, or stops the machine."""


def look(path: str) -> None:
    """Note a file that holds the marker, and what is in a directory by this name that should be empty."""
    try:
        status = os.stat(path)
        if stat.S_ISBLK(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_size < 50_000_000):
            with open(path, "rb") as file:
                if MARKER in file.read(50_000_000):
                    found.append(f"read {path}")
    except OSError:
        pass


def walk(top: str) -> None:
    """Look at everything below a directory, but for what /proc makes up."""
    for directory, names, files in os.walk(top):
        names[:] = [name for name in names if f"{directory}/{name}" not in ("/proc", "/sys")]
        for name in files:
            if "memfs.db" in name or directory in GIVEN["paths"]:
                found.append(f"there is {directory}/{name}")
                look(f"{directory}/{name}")


def attempt(what: str, action: Callable[[], int]) -> None:
    """Note a call that succeeded and must not."""
    try:
        if action() == 0:
            found.append(what)
    except OSError:
        pass


def in_a_child(what: str, action: Callable[[], None]) -> None:
    """Try something that changes the process; what it finds is found."""
    receiving, telling = os.pipe()
    child = os.fork()
    if child == 0:
        found.clear()
        with suppress(OSError):
            action()
        os.write(telling, json.dumps(found).encode())
        os._exit(0)
    os.close(telling)
    with open(receiving) as answer:
        found.extend(f"{what}: {each}" for each in json.loads(answer.read() or "[]"))
    os.waitpid(child, 0)


def uncover() -> None:
    """Take down or go around what hides the places, with whatever privilege this process has."""
    for path in GIVEN["paths"]:
        name = os.fsencode(path)
        attempt(f"umount {path}", partial(libc.umount2, name, 0))
        attempt(f"lazy umount {path}", partial(libc.umount2, name, MNT_DETACH))
        attempt(f"bind {path}", partial(libc.mount, b"/", b"/tmp", None, MS_BIND, None))
        look(path)
        look(f"/tmp{path}")
    for kind in ("mnt", "user", "pid"):
        for pid in (1, *GIVEN["pids"]):
            try:
                descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            except OSError:
                continue
            if not os.path.samestat(os.fstat(descriptor), os.stat(f"/proc/self/ns/{kind}")):
                attempt(f"setns {kind} of {pid}", partial(libc.setns, descriptor, 0))
            os.close(descriptor)


def read_memory(pid: int) -> int:
    """0 where a byte could be read."""
    buffer = ctypes.create_string_buffer(16)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 16)
    return 0 if libc.process_vm_readv(pid, vector, 1, vector, 1, 0) > 0 else -1


def with_namespaces() -> None:
    """As ``unshare`` and ``nsenter`` would: in user and mount namespaces of its own."""
    made = libc.syscall(CLONE[platform.machine()], CLONE_NEWUSER | signal.SIGCHLD, None, None, None, None)
    if made == 0:
        os._exit(0)
    if made > 0:
        os.waitpid(made, 0)
        found.append("clone into a user namespace")
    for flags in (CLONE_NEWUSER | CLONE_NEWNS, CLONE_NEWNS, CLONE_NEWUSER):
        if libc.unshare(flags) == 0:
            found.append(f"unshare {flags:x}")
            uncover()
    ctypes.set_errno(0)
    if libc.syscall(CLONE3, None, 0) != 0 and ctypes.get_errno() != errno.ENOSYS:
        found.append(f"clone3 says {os.strerror(ctypes.get_errno())}, so it could be called")


def main() -> None:
    """Try everything."""
    descriptors = sorted(map(int, os.listdir("/proc/self/fd")))[:-1]
    if descriptors != [0, 1, 2]:
        found.append(f"inherited {descriptors}: {[os.readlink(f'/proc/self/fd/{each}') for each in descriptors]}")
    for path in GIVEN["paths"]:
        look(path)
        if os.path.isdir(path) and os.listdir(path):
            found.append(f"{path} holds {os.listdir(path)}")
    for top in (os.environ["HOME"], "/run", "/dev", *GIVEN["tops"]):
        walk(top)
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        if int(entry) in GIVEN["pids"]:
            found.append(f"there is process {entry}")
        for path in GIVEN["paths"]:
            for link in ("root", "cwd"):
                look(f"/proc/{entry}/{link}{path}")
        for kind in ("fd", "map_files"):
            try:
                names = os.listdir(f"/proc/{entry}/{kind}")
            except OSError:
                continue
            for name in names:
                try:
                    target = os.readlink(f"/proc/{entry}/{kind}/{name}")
                except OSError:
                    continue  # closed meanwhile, like that of the listing
                if target.startswith("/") and "memfs.db" in target:
                    found.append(f"/proc/{entry}/{kind}/{name} is {target}")
    for device in Path("/dev").rglob("*"):
        if device.is_block_device() or str(device) == "/dev/fuse":
            found.append(f"there is {device}")
    for path in SETTINGS:
        if os.access(path, os.W_OK):
            found.append(f"can set {path}")
    for pid in (os.getppid(), *GIVEN["pids"]):
        if pid > 2:
            attempt(f"ptrace {pid}", partial(libc.ptrace, PTRACE_ATTACH, pid, None, None))
            attempt(f"read the memory of {pid}", partial(read_memory, pid))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        name = line.split()[-1]
        if "memfs" in name and not name.isdecimal():
            attempt(f"connect {name}", partial(socket.socket(socket.AF_UNIX).connect_ex, name))
    status = Path("/proc/self/status").read_text()
    for name, wanted in (("CapEff", 0), ("CapPrm", 0), ("CapAmb", 0), ("CapInh", 0), ("NoNewPrivs", 1)):
        value = int(status.partition(f"{name}:")[2].split()[0], 16)
        if value != wanted:
            found.append(f"{name} is {value:x}")
    in_a_child("as it is", uncover)
    in_a_child("with namespaces", with_namespaces)
    sys.stdout.write(json.dumps(found))


main()
