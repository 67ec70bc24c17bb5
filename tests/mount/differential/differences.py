"""Where a mount answers otherwise than a tmpfs by design: one table, each line with its reason.

Everything that is not in ``DIFFERENCES`` must be the same. A line says when it may apply, from what the tmpfs holds
just before; how the two come together again is its remedy.
"""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import PurePosixPath

from memfs.model.records import MAX_CONTENT_BYTES
from memfs.vfs.temporaries import Temporaries
from tests.mount.differential import operations as op

NAMES = {"b\tc": errno.EINVAL, "cafe\u0301": errno.EINVAL, "\udcff": errno.EILSEQ, ".git": errno.EPERM}
"""Names that no file of a store may have, and what making one says."""

_temporaries = Temporaries()


@dataclass(frozen=True)
class Entry:
    """What the tmpfs has at a path."""

    inode: int
    directory: bool
    data: bytes = b""
    mtime_ns: int = 0


@dataclass(frozen=True)
class Slot:
    """A descriptor: of which inode, by which open, how it was opened, and whether that made the file."""

    inode: int
    opened: int
    flags: int
    made: bool

    @property
    def writable(self) -> bool:
        """Whether its close commits: it can be written through, or has made or emptied the file.

        O_CREAT alone is no sign of it: a reader who asks for it, and finds the file there, holds up nobody's refusal.
        """
        return self.made or self.flags & os.O_ACCMODE != os.O_RDONLY or bool(self.flags & os.O_TRUNC)


@dataclass(frozen=True)
class Moment:
    """An operation that the mount has just answered with this errno, and the tmpfs as it was before."""

    operation: op.Operation
    errno: int
    tree: dict[str, Entry]
    slot: Slot | None
    """Which descriptor the operation is about."""
    position: int
    """Where the descriptor stands that the operation writes to."""
    spoiled: frozenset[int]
    """Inodes a write to which was refused for its size since they were last committed or given up."""

    @property
    def path(self) -> str:
        """The path that the operation is about; "" where it has none, or none any more."""
        if isinstance(self.operation, op.OfPath):
            return self.operation.path
        return path_of(self.tree, self.slot.inode) if self.slot is not None else ""

    @property
    def entry(self) -> Entry | None:
        """What is there."""
        return self.tree.get(self.path)

    def makes_name(self) -> bool:
        """Whether the operation would make its path, and nothing but the name is in the way."""
        above = self.path.rpartition("/")[0]
        free = self.entry is None and (above == "" or (above in self.tree and self.tree[above].directory))
        if isinstance(self.operation, op.Rename | op.Link):
            return free and self.operation.old in self.tree
        if isinstance(self.operation, op.Open):
            return free and bool(self.operation.flags & os.O_CREAT)
        return free and isinstance(self.operation, op.WriteFile | op.Mkdir | op.Mknod | op.Symlink)


class Remedy(Enum):
    """How mount and tmpfs come together again."""

    SKIP = auto()
    """Nothing happened in the mount: the tmpfs does not do it."""
    FOLLOW = auto()
    """It happened in the mount too: the tmpfs does it, with success."""
    DROP = auto()
    """The same, and where nobody else writes at the file, the mount has then dropped the text for its last version."""


@dataclass(frozen=True)
class Difference:
    """One line of the table."""

    name: str
    reason: str
    applies: Callable[[Moment], bool]
    remedy: Remedy


def path_of(tree: dict[str, Entry], inode: int) -> str:
    """Where an inode is; "" where it is nowhere."""
    return next((path for path, entry in tree.items() if entry.inode == inode), "")


def is_scratch(path: str) -> bool:
    """Whether a file of this path is an editor temporary."""
    return _temporaries.plain(PurePosixPath(path).name)


def is_text(data: bytes) -> bool:
    """Whether a memory can hold these bytes."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return len(data) <= MAX_CONTENT_BYTES


def _refused_kind(moment: Moment) -> bool:
    asked = moment.operation
    links = isinstance(asked, op.Symlink | op.Link) or (isinstance(asked, op.Mknod) and not stat.S_ISREG(asked.kind))
    return links and moment.errno == errno.EPERM and moment.makes_name()


def _refused_name(moment: Moment) -> bool:
    return NAMES.get(PurePosixPath(moment.path).name) == moment.errno and moment.makes_name()


def _too_large(moment: Moment) -> bool:
    if moment.errno != errno.EFBIG or (moment.path and is_scratch(moment.path)):
        return False
    entry, asked = moment.entry, moment.operation
    size = len(entry.data) if entry is not None else MAX_CONTENT_BYTES
    if isinstance(asked, op.Ftruncate | op.Truncate):
        return asked.size > MAX_CONTENT_BYTES
    if isinstance(asked, op.Allocate):
        return asked.offset + asked.size > MAX_CONTENT_BYTES
    if isinstance(asked, op.WriteFile):  # others are too short to come near it
        return entry is not None and bool(asked.flags & os.O_APPEND) and size + len(asked.data) > MAX_CONTENT_BYTES
    if isinstance(asked, op.CopyRange):
        return moment.position + asked.size > MAX_CONTENT_BYTES
    if isinstance(asked, op.Write | op.Pwrite):
        assert moment.slot is not None
        start = asked.offset if isinstance(asked, op.Pwrite) else moment.position
        return (size if moment.slot.flags & os.O_APPEND else start) + len(asked.data) > MAX_CONTENT_BYTES
    return False


def _unfit(moment: Moment, entry: Entry | None) -> bool:
    """Whether the mount says truly that a file's text cannot become a version."""
    if entry is None or entry.directory:
        return False
    if moment.errno == errno.EILSEQ:
        return not is_text(entry.data)
    return moment.errno == errno.EFBIG and (entry.inode in moment.spoiled or len(entry.data) > MAX_CONTENT_BYTES)


def _unfit_at_close(moment: Moment) -> bool:
    if isinstance(moment.operation, op.WriteFile):
        before = b"" if moment.entry is None or moment.operation.flags & os.O_TRUNC else moment.entry.data
        start = len(before) if moment.operation.flags & os.O_APPEND else 0
        data = moment.operation.data
        after = before[:start] + data + before[start + len(data) :]
        inode = moment.entry.inode if moment.entry is not None else 0
        return _unfit(moment, Entry(inode, False, after))
    return isinstance(moment.operation, op.Close) and _unfit(moment, moment.entry)


def _unfit_at_fsync(moment: Moment) -> bool:
    return isinstance(moment.operation, op.Fsync) and _unfit(moment, moment.entry)


def _unfit_at_rename(moment: Moment) -> bool:
    asked = moment.operation
    return isinstance(asked, op.Rename) and not asked.flags & op.EXCHANGE and _unfit(moment, moment.tree.get(asked.old))


def _unfit_at_truncate(moment: Moment) -> bool:
    asked, entry = moment.operation, moment.entry
    if not isinstance(asked, op.Truncate) or entry is None:
        return False
    return _unfit(moment, Entry(entry.inode, False, entry.data[: asked.size]))


def _exchanged_temporary(moment: Moment) -> bool:
    asked = moment.operation
    if not isinstance(asked, op.Rename) or asked.flags != op.EXCHANGE or moment.errno != errno.EINVAL:
        return False
    both = [(path, moment.tree.get(path)) for path in (asked.path, asked.old)]
    return all(entry for _, entry in both) and any(
        entry is not None and not entry.directory and is_scratch(path) for path, entry in both
    )


def _emulated(moment: Moment) -> bool:
    by_libc = moment.slot is not None and (
        bool(moment.slot.flags & os.O_APPEND) or moment.slot.flags & os.O_ACCMODE == os.O_WRONLY
    )
    return isinstance(moment.operation, op.Allocate) and by_libc and moment.errno == errno.EBADF


def _nameless(moment: Moment) -> bool:
    asked, entry = moment.operation, moment.entry
    return (
        isinstance(asked, op.Open)
        and asked.flags & os.O_TMPFILE == os.O_TMPFILE
        and moment.errno == errno.EOPNOTSUPP
        and (asked.path == "" or (entry is not None and entry.directory))  # "" is the top, which is in no tree
    )


DIFFERENCES = [
    Difference("links", "a store has files and directories only", _refused_kind, Remedy.SKIP),
    Difference("names", "a memory's name is text without control characters, in NFC", _refused_name, Remedy.SKIP),
    Difference("size", "a memory has at most 102,400 bytes, and says so at the write", _too_large, Remedy.SKIP),
    Difference("text", "what is no text is refused at close, and dropped with it", _unfit_at_close, Remedy.DROP),
    Difference("fsync", "fsync commits, so it refuses too, and drops nothing", _unfit_at_fsync, Remedy.FOLLOW),
    Difference("rename", "a rename that makes a version refuses as close does", _unfit_at_rename, Remedy.SKIP),
    Difference("truncate", "truncate(2) by path is a save of its own", _unfit_at_truncate, Remedy.SKIP),
    Difference("exchange", "a temporary is no memory to exchange with", _exchanged_temporary, Remedy.SKIP),
    Difference("fallocate", "libc's emulation reads, and writes at places", _emulated, Remedy.SKIP),
    Difference("nameless", "a memory has a path: there is no O_TMPFILE", _nameless, Remedy.SKIP),
]

HOLES = "a memory has no holes: SEEK_DATA finds data everywhere, SEEK_HOLE only the end"
"""Judged by itself (``Pair``), because there is no error to tell it."""

MAPPED = "a write through a mapping moves the time of modification in a mount and not in a tmpfs; fallocate vice versa"
"""So such a file's time is not compared."""

SHORT = "a write over the limit of size may put a part of it where there is room, as on a disk that is full"
"""Judged by itself too: it is no error yet."""

SAME_SIZE = (
    "truncate(2) of a file to its size moves its time of modification, but not on a tmpfs that has no page of it"
)
"""Such as of an empty file; ext4 does as the mount does (docs/design/conformance.md). So the time of a file that the
tmpfs has left where it was is not compared until it moves there too.
"""

SET_ASIDE = (
    "what a rename to an editor's backup set aside goes at once where a directory is made, or removed, at its name"
)
"""For some seconds it waits for a file of its name, which would go on with its history. So there mkdir and rmdir, which
make no version otherwise, make its \"deleted\".
"""

LATE = "a close that leaves its process another descriptor of the file may be that of a shell, which is yet to write"
"""If it was not, and the open file is gone with it, the mount makes the version then: a moment after close() returned.
"""

DROPPED = "what a refused close drops, the tmpfs writes once more"
"""So the times of that file and its directory are not compared."""
