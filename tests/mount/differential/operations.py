"""What a program can ask of a directory of files, as values that know how to be done.

An operation is done by a worker process with the operating system's own calls. It returns what both filesystems must
agree on; what they cannot agree on (inode numbers, the values of times) is a ``Seen``'s ``own`` part.
"""

import ctypes
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

NOREPLACE, EXCHANGE = 1, 2
AT_FDCWD = -100
NO_FILE = 1 << 20
"""A descriptor that nobody has."""


@dataclass(frozen=True)
class Seen:
    """What an operation returned: ``value`` is the same on both filesystems, ``own`` is each one's own."""

    value: object
    own: Any = None


@dataclass(frozen=True)
class Outcome:
    """What became of an operation: what it returned, or its errno."""

    seen: Seen | None
    errno: int | None = None

    @property
    def value(self) -> object:
        """What both filesystems must agree on."""
        return None if self.seen is None else self.seen.value


@dataclass
class Hands:
    """What one process holds: its open files, and directories that it is in the middle of reading."""

    base: str
    files: list[int] = field(default_factory=list)
    directories: list[tuple[int, list[str]]] = field(default_factory=list)

    def at(self, path: str) -> str:
        """Where a path is here."""
        return f"{self.base}{path}"

    def file(self, slot: int) -> int:
        """An open file; EBADF where there is none."""
        return self.files[slot % len(self.files)] if self.files else NO_FILE


class Long(bytes):
    """A text of many equal bytes, which a report can show in one line."""

    def __repr__(self) -> str:
        return f"{self[:1]!r} * {len(self)}"


@dataclass(frozen=True)
class Operation:
    """Something to do."""

    def run(self, hands: Hands) -> Seen:
        """Do it. Raises OSError."""
        raise NotImplementedError


@dataclass(frozen=True)
class OfPath(Operation):
    """Something that is done to a path."""

    path: str


@dataclass(frozen=True)
class OfFile(Operation):
    """Something that is done to one of the open files, counted round."""

    slot: int


def looks(status: os.stat_result) -> tuple[object, ...]:
    """What of a stat is the same on every filesystem: a directory's size is not."""
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    return status.st_mode, status.st_nlink, size, status.st_uid, status.st_gid


def write_all(descriptor: int, data: bytes) -> None:
    """write(2) that must take everything."""
    count = os.write(descriptor, data)
    assert count == len(data), f"{count} of {len(data)} bytes written"


@contextmanager
def mapped(descriptor: int, size: int, protection: int, flags: int) -> Iterator[int]:
    """mmap(2) of the first bytes of a file, at this address, and munmap(2).

    Not Python's: that closes a duplicate of the descriptor, which saves, and where mmap(2) is refused says what that
    close said.
    """
    address = _libc.mmap(None, size, protection, flags, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    try:
        yield address
    finally:
        _libc.munmap(address, size)


# Open files


@dataclass(frozen=True)
class Open(OfPath):
    """open(2) with any flags; ``own`` is the inode."""

    flags: int
    mode: int

    def run(self, hands: Hands) -> Seen:
        descriptor = os.open(hands.at(self.path), self.flags | os.O_CLOEXEC, self.mode)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return Seen("a directory")
        hands.files.append(descriptor)
        return Seen(len(hands.files), os.fstat(descriptor).st_ino)


@dataclass(frozen=True)
class Close(OfFile):
    """close(2)."""

    def run(self, hands: Hands) -> Seen:
        if not hands.files:
            return Seen(None)
        # Gone whatever close() says.
        os.close(hands.files.pop(self.slot % len(hands.files)))
        return Seen(None)


@dataclass(frozen=True)
class Dup(OfFile):
    """dup(2)."""

    def run(self, hands: Hands) -> Seen:
        hands.files.append(os.dup(hands.file(self.slot)))
        return Seen(None)


@dataclass(frozen=True)
class Fork(Operation):
    """A child inherits every descriptor and ends, which closes them all once more."""

    def run(self, hands: Hands) -> Seen:
        child = os.fork()
        if child == 0:
            os._exit(0)
        return Seen(os.waitpid(child, 0)[1])


@dataclass(frozen=True)
class Read(OfFile):
    """read(2)."""

    size: int

    def run(self, hands: Hands) -> Seen:
        return Seen(os.read(hands.file(self.slot), self.size))


@dataclass(frozen=True)
class Pread(OfFile):
    """pread(2)."""

    size: int
    offset: int

    def run(self, hands: Hands) -> Seen:
        return Seen(os.pread(hands.file(self.slot), self.size, self.offset))


@dataclass(frozen=True)
class Write(OfFile):
    """write(2)."""

    data: bytes

    def run(self, hands: Hands) -> Seen:
        return Seen(os.write(hands.file(self.slot), self.data))


@dataclass(frozen=True)
class Pwrite(OfFile):
    """pwrite(2)."""

    data: bytes
    offset: int

    def run(self, hands: Hands) -> Seen:
        return Seen(os.pwrite(hands.file(self.slot), self.data, self.offset))


@dataclass(frozen=True)
class Seek(OfFile):
    """lseek(2)."""

    offset: int
    whence: int

    def run(self, hands: Hands) -> Seen:
        return Seen(os.lseek(hands.file(self.slot), self.offset, self.whence))


@dataclass(frozen=True)
class Ftruncate(OfFile):
    """ftruncate(2)."""

    size: int

    def run(self, hands: Hands) -> Seen:
        os.ftruncate(hands.file(self.slot), self.size)
        return Seen(None)


@dataclass(frozen=True)
class Fsync(OfFile):
    """fsync(2)."""

    data_only: bool

    def run(self, hands: Hands) -> Seen:
        (os.fdatasync if self.data_only else os.fsync)(hands.file(self.slot))
        return Seen(None)


@dataclass(frozen=True)
class Fstat(OfFile):
    """fstat(2)."""

    def run(self, hands: Hands) -> Seen:
        return Seen(looks(os.fstat(hands.file(self.slot))))


@dataclass(frozen=True)
class Fchmod(OfFile):
    """fchmod(2)."""

    mode: int

    def run(self, hands: Hands) -> Seen:
        os.fchmod(hands.file(self.slot), self.mode)
        return Seen(None)


@dataclass(frozen=True)
class MapRead(OfFile):
    """Read through a private mapping of the whole file."""

    def run(self, hands: Hands) -> Seen:
        descriptor = hands.file(self.slot)
        size = os.fstat(descriptor).st_size
        if size == 0:
            return Seen(b"")
        with mapped(descriptor, size, mmap.PROT_READ, mmap.MAP_PRIVATE) as address:
            return Seen(ctypes.string_at(address, size))


@dataclass(frozen=True)
class MapWrite(OfFile):
    """Write through a shared mapping of the whole file, as much as fits into it; ``own`` is whether any did."""

    data: bytes
    offset: int

    def run(self, hands: Hands) -> Seen:
        descriptor = hands.file(self.slot)
        size = os.fstat(descriptor).st_size
        if size == 0:
            return Seen(0, False)
        with mapped(descriptor, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED) as address:
            start = self.offset % size
            data = self.data[: size - start]
            ctypes.memmove(address + start, data, len(data))
            return Seen(len(data), bool(data))


@dataclass(frozen=True)
class Allocate(OfFile):
    """posix_fallocate(3)."""

    offset: int
    size: int

    def run(self, hands: Hands) -> Seen:
        os.posix_fallocate(hands.file(self.slot), self.offset, self.size)
        return Seen(None)


@dataclass(frozen=True)
class CopyRange(OfFile):
    """copy_file_range(2) between two open files, at their positions."""

    into: int
    size: int

    def run(self, hands: Hands) -> Seen:
        source, target = hands.file(self.slot), hands.file(self.into)
        if os.fstat(source).st_ino == os.fstat(target).st_ino:
            return Seen("the same")
        return Seen(os.copy_file_range(source, target, self.size))


# Whole files


@dataclass(frozen=True)
class ReadFile(OfPath):
    """Open, read, close."""

    def run(self, hands: Hands) -> Seen:
        return Seen(Path(hands.at(self.path)).read_bytes())


@dataclass(frozen=True)
class WriteFile(OfPath):
    """Open with these flags beside O_WRONLY and O_CREAT, write, close."""

    data: bytes
    flags: int

    def run(self, hands: Hands) -> Seen:
        descriptor = os.open(hands.at(self.path), os.O_WRONLY | os.O_CREAT | self.flags, 0o644)
        try:
            write_all(descriptor, self.data)
        finally:
            os.close(descriptor)
        return Seen(None)


# Paths


@dataclass(frozen=True)
class Truncate(OfPath):
    """truncate(2)."""

    size: int

    def run(self, hands: Hands) -> Seen:
        os.truncate(hands.at(self.path), self.size)
        return Seen(None)


@dataclass(frozen=True)
class Stat(OfPath):
    """stat(2)."""

    def run(self, hands: Hands) -> Seen:
        return Seen(looks(os.stat(hands.at(self.path))))


@dataclass(frozen=True)
class Chmod(OfPath):
    """chmod(2)."""

    mode: int

    def run(self, hands: Hands) -> Seen:
        os.chmod(hands.at(self.path), self.mode)
        return Seen(None)


@dataclass(frozen=True)
class Utimens(OfPath):
    """utimensat(2); without nanoseconds the present. ``own`` is what stat shows where they were given."""

    ns: int | None

    def run(self, hands: Hands) -> Seen:
        if self.ns is None:
            os.utime(hands.at(self.path))
            return Seen(None)
        os.utime(hands.at(self.path), ns=(self.ns, self.ns))
        return Seen(os.stat(hands.at(self.path)).st_mtime_ns)


@dataclass(frozen=True)
class Mkdir(OfPath):
    """mkdir(2)."""

    mode: int

    def run(self, hands: Hands) -> Seen:
        os.mkdir(hands.at(self.path), self.mode)
        return Seen(None)


@dataclass(frozen=True)
class Rmdir(OfPath):
    """rmdir(2)."""

    def run(self, hands: Hands) -> Seen:
        os.rmdir(hands.at(self.path))
        return Seen(None)


@dataclass(frozen=True)
class Unlink(OfPath):
    """unlink(2)."""

    def run(self, hands: Hands) -> Seen:
        os.unlink(hands.at(self.path))
        return Seen(None)


@dataclass(frozen=True)
class Mknod(OfPath):
    """mknod(2) of a regular file or a named pipe."""

    kind: int

    def run(self, hands: Hands) -> Seen:
        os.mknod(hands.at(self.path), self.kind | 0o644)
        return Seen(None)


@dataclass(frozen=True)
class Symlink(OfPath):
    """symlink(2)."""

    def run(self, hands: Hands) -> Seen:
        os.symlink("a", hands.at(self.path))
        return Seen(None)


@dataclass(frozen=True)
class Link(OfPath):
    """link(2) of ``old`` at the path."""

    old: str

    def run(self, hands: Hands) -> Seen:
        os.link(hands.at(self.old), hands.at(self.path))
        return Seen(None)


@dataclass(frozen=True)
class Rename(OfPath):
    """renameat2(2) of ``old`` to the path."""

    old: str
    flags: int

    def run(self, hands: Hands) -> Seen:
        old, new = os.fsencode(hands.at(self.old)), os.fsencode(hands.at(self.path))
        if _libc.renameat2(AT_FDCWD, old, AT_FDCWD, new, self.flags):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), self.path)
        return Seen(None)


# Directories


@dataclass(frozen=True)
class ListDirectory(OfPath):
    """All of a directory at once."""

    def run(self, hands: Hands) -> Seen:
        with os.scandir(hands.at(self.path)) as entries:
            return Seen(sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries))


@dataclass(frozen=True)
class OpenDirectory(OfPath):
    """Begin to read a directory, to go on while it changes."""

    def run(self, hands: Hands) -> Seen:
        descriptor = os.open(hands.at(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        hands.directories.append((descriptor, []))
        return Seen(len(hands.directories))


def some_names(descriptor: int, room: int) -> list[str]:
    """getdents64(2) into a buffer of so many bytes; nothing at the end."""
    buffer = ctypes.create_string_buffer(room)
    count = _libc.getdents64(descriptor, buffer, room)
    if count < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    found, at = [], 0
    while at < count:
        length = int.from_bytes(buffer.raw[at + 16 : at + 18], "little")
        found.append(os.fsdecode(buffer.raw[at + 19 : at + length].split(b"\0", 1)[0]))
        at += length
    return found


@dataclass(frozen=True)
class ReadDirectory(Operation):
    """Read a little more of the directory that was opened last; with ``rewind`` from the start again."""

    rewind: bool

    def run(self, hands: Hands) -> Seen:
        if hands.directories:
            descriptor, names = hands.directories[-1]
            if self.rewind:
                os.lseek(descriptor, 0, os.SEEK_SET)
                names.clear()
            names += some_names(descriptor, 64)
        return Seen(None)


@dataclass(frozen=True)
class CloseDirectory(Operation):
    """Read the rest of the directory that was opened last; ``own`` are the names that all its reading gave."""

    def run(self, hands: Hands) -> Seen:
        if not hands.directories:
            return Seen(None)
        descriptor, names = hands.directories.pop()
        try:
            while more := some_names(descriptor, 64):
                names += more
        finally:
            os.close(descriptor)
        return Seen(None, names)


@dataclass(frozen=True)
class NamesNow(Operation):
    """``own`` are the names that each directory being read has now, whatever it is called by now."""

    def run(self, hands: Hands) -> Seen:
        return Seen(None, [os.listdir(f"/proc/self/fd/{descriptor}") for descriptor, _ in hands.directories])


@dataclass(frozen=True)
class Position(OfFile):
    """``own`` is where an open file stands."""

    def run(self, hands: Hands) -> Seen:
        return Seen(None, os.lseek(hands.file(self.slot), 0, os.SEEK_CUR))


# The executor's own


@dataclass(frozen=True)
class Tree(Operation):
    """Everything: what stat says, and the bytes; ``own`` are the times of modification."""

    def run(self, hands: Hands) -> Seen:
        found: dict[str, tuple[object, ...]] = {}
        times: dict[str, int] = {}

        def walk(path: str) -> None:
            with os.scandir(hands.at(path) or "/") as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
            for entry in listed:
                name = f"{path}/{entry.name}"
                status = os.stat(entry.path, follow_symlinks=False)
                times[name] = status.st_mtime_ns
                if stat.S_ISDIR(status.st_mode):
                    found[name] = (looks(status), None)
                    walk(name)
                else:
                    found[name] = (looks(status), Path(entry.path).read_bytes())
                    # The kernel may know a size that is not the text's.
                    assert len(Path(entry.path).read_bytes()) == status.st_size, name

        walk("")
        return Seen(found, times)


@dataclass(frozen=True)
class Restore(OfPath):
    """Let a file hold what it held before, in its place; None: let it be gone."""

    data: bytes | None
    mode: int = 0o644

    def run(self, hands: Hands) -> Seen:
        place = Path(hands.at(self.path))
        if self.data is None:
            place.unlink()
        else:
            place.write_bytes(self.data)
            place.chmod(self.mode)
        return Seen(None)


@dataclass(frozen=True)
class Begin(Operation):
    """Close everything, and go on in another directory."""

    base: str

    def run(self, hands: Hands) -> Seen:
        for descriptor in [*hands.files, *(descriptor for descriptor, _ in hands.directories)]:
            try:
                os.close(descriptor)
            except OSError:
                continue  # refused text of an example that failed
        hands.files.clear()
        hands.directories.clear()
        hands.base = self.base
        return Seen(None)
