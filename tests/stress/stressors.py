"""Which stressors are run on a mount, how, and which are left out and why: the table behind docs/design/stress.md.

It covers stress-ng's classes ``filesystem`` and ``io`` as Debian 12 has them (0.15.06), and four of its other
stressors that work on a file in the directory that they are given. Nearly all of them remove the name of their file at
once and go on with its descriptor; what has no name is nobody's memory, and may hold any bytes, 64 MiB of all together.
"""

from dataclasses import dataclass
from pathlib import Path

VERSION = "0.15.06"

INSTANCES = 2
"""Of each stressor, in directories of their own."""


KEPT = "{kept}"
"""Stands for the directory of the files that nothing may change."""


@dataclass(frozen=True)
class Stressor:
    """One of stress-ng's. ``options`` are for the sizes that a store has; ``note`` says what they, or its answers, are.

    ``refused`` is what stress-ng says where it finds that a mount does not have what it needs, and skips it. ``times``
    is how many times as long as others it is given.
    """

    name: str
    options: tuple[str, ...] = ()
    note: str = ""
    refused: str | None = None
    times: int = 1

    def arguments(self, kept: Path, instances: int = INSTANCES) -> list[str]:
        """Of stress-ng's command line. ``kept`` is the directory of the files that nothing may change."""
        return [f"--{self.name}", str(instances), *(option.replace(KEPT, str(kept)) for option in self.options)]


def _small(name: str, option: str = "bytes", size: str = "1M", note: str = "the smallest that it takes") -> Stressor:
    return Stressor(name, (f"--{name}-{option}", size), note)


STRESSORS = (
    # stress-ng --class 'filesystem?'
    Stressor("access"),
    Stressor("chattr"),
    Stressor("chdir", ("--chdir-dirs", "256"), "of 8,192 by default; a store keeps 4,000"),
    Stressor("chmod"),
    Stressor("chown"),
    Stressor("dentry", ("--dentries", "400"), "a store holds 2,000 memories"),
    Stressor("dir", ("--dir-dirs", "256"), "as `chdir`"),
    Stressor("dirdeep", ("--dirdeep-dirs", "2", "--dirdeep-files", "2"), "with files, as deep as 20 names allow"),
    Stressor("dirmany"),
    Stressor("dnotify"),
    Stressor("dup"),
    _small("fallocate"),
    Stressor("fanotify"),
    Stressor("fcntl"),
    Stressor("file-ioctl"),
    Stressor("filename", note="finds out first which bytes a name may hold, and keeps to these", times=10),
    Stressor("flock"),
    Stressor("fpunch"),
    Stressor("fstat", ("--fstat-dir", KEPT), "where the files are that must stay as they are"),
    Stressor(
        "fsize",
        ("--fsize-ops", "4"),
        "by count: cut off by the clock, it complains of what it then left out itself",
        times=10,
    ),
    _small("hdd"),
    Stressor("inode-flags"),
    Stressor("inotify"),
    _small("iomix"),
    Stressor("ioprio"),
    Stressor("lease", times=5),
    Stressor("link", note="EPERM", refused="link calls not allowed on the filesystem"),
    Stressor("lockf"),
    Stressor("mknod", note="regular files are made, devices and sockets are EPERM"),
    Stressor("open", ("--open-max", "1000"), "flags and their combinations, `O_TMPFILE` among them"),
    Stressor("rename"),
    Stressor("symlink", note="EPERM", refused="link calls not allowed on the filesystem"),
    _small("sync-file"),
    Stressor("touch"),
    Stressor("utime"),
    Stressor("xattr", note="EOPNOTSUPP", refused="filesystem does not support xattr"),
    # stress-ng --class 'io?', beyond those above
    Stressor("aio"),
    _small("readahead"),
    _small("revio"),
    Stressor("seek", ("--seek-size", "1M", "--seek-punch"), "the smallest that it takes"),
    # others that work on a file in their directory
    Stressor("mmap", ("--mmap-file", "--mmap-bytes", "64K"), "of a file, and not of memory alone"),
    _small("msync"),
    Stressor("msyncmany"),
    _small("sendfile", "size", "64K", "its file keeps its name, and is a memory"),
)

LEFT_OUT = {
    "aiol": "writes as far as 256 MiB, where ENOSPC is right, and complains of what it then does not find; on a tmpfs"
    " of 64 MiB too. fio's `libaio` is run instead",
    "bind-mount": "mounts the machine's own directories over one another, and nothing of ours",
    "binderfs": "mounts a filesystem of its own",
    "copy-file": "its file has at least 128 MiB, and all that is no memory has 64 MiB together",
    "eventfd": "makes no file",
    "fiemap": "asks for the blocks of a file on a disk; a tmpfs has none either",
    "getdent": "lists what is anywhere on the machine, and of its own directory only that it is empty",
    "handle": "asks for fixed files of the system",
    "io": "makes no file; it syncs the whole machine",
    "io-uring": "fails on a tmpfs as well, with this kernel. fio's `io_uring` is run instead",
    "locka": "its file has 1 MiB and a name: more than a memory may hold. `fcntl`, `lockf` and `flock` are run instead",
    "lockofd": "the same",
    "procfs": "reads /proc",
    "rawdev": "reads the disk itself",
    "verity": "wants fs-verity, for a file of 961 KiB with a name; a tmpfs has none either",
}

TOGETHER = ("dentry", "dir", "flock", "hdd", "inotify", "mmap", "rename", "touch")
"""What is run all at once in the end, one of each."""

NAMES = {stressor.name: stressor for stressor in STRESSORS}
