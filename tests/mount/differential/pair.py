"""The same operations on a mount and on a tmpfs, compared after each, and the mount's database with both."""

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from memfs.model.records import MAX_CONTENT_BYTES
from tests.mount.differential import operations as op
from tests.mount.differential.database import Database, Head, Version, check_history
from tests.mount.differential.differences import (
    DIFFERENCES,
    Difference,
    Entry,
    Moment,
    Remedy,
    Slot,
    is_scratch,
    path_of,
)
from tests.mount.differential.worker import Worker
from tests.mount.harness import wait_until

PROCESSES = 3

YOUNG_SECONDS = 4.0
"""For so long nothing of an example can have been committed by the timer."""

TICK_NS = 20_000_000
"""How far apart times must be to be compared after a touch: the kernel sends its clock's last tick (up to 10 ms old) to
be the present, and pyfuse3 does not say that the present was asked for. So a touch may show as older than a write just
before it.
"""

QUIET = (op.Read, op.Pread, op.Seek, op.Fstat, op.Stat, op.Dup, op.ReadFile, op.ListDirectory)
QUIET_TOO = (op.OpenDirectory, op.ReadDirectory, op.CloseDirectory, op.Chmod, op.Fchmod, op.Utimens, op.Mkdir, op.Rmdir)
"""What makes no version, whatever it answers."""


@dataclass(frozen=True)
class Side:
    """One of the two filesystems: a directory, and the processes that work there."""

    directory: Path
    workers: list[Worker]


@dataclass
class Reading:
    """A directory that is being read: names that it has had all the time, and that it had at any time."""

    always: set[str]
    ever: set[str]


@dataclass
class Pair:
    """One example: a fresh directory on each side, and what is known of it.

    ``tree`` is what the tmpfs holds: it is the model that the mount and its database are judged by.
    """

    mount: Side
    twin: Side
    database: Database
    name: str
    met: set[str]
    """Collects the names of the differences that showed."""
    patience: float
    """For how many seconds the database may lag behind in the end."""
    tree: dict[str, Entry] = field(default_factory=dict)
    slots: list[list[Slot]] = field(default_factory=lambda: [[] for _ in range(PROCESSES)])
    directories: list[list[Reading]] = field(default_factory=lambda: [[] for _ in range(PROCESSES)])
    spoiled: set[int] = field(default_factory=set)
    untimed: set[int] = field(default_factory=set)
    """Inodes of the tmpfs whose time of modification says nothing."""
    touched: set[int] = field(default_factory=set)
    """Inodes of the tmpfs that were given the present as time of modification (``TICK_NS``)."""
    unmoved: dict[int, int] = field(default_factory=dict)
    """Times of modification that inodes of the tmpfs have kept where the mount moved them (``SAME_SIZE``)."""
    texts: set[bytes] = field(default_factory=set)
    """Every text that a file has had after some operation: versions hold no others."""
    acknowledged: list[tuple[str, bytes]] = field(default_factory=list)
    """Paths and texts of which a close, or its like, has said that they are kept."""
    late: set[tuple[str, bytes | None]] = field(default_factory=set)
    """Paths in the store and texts of closes that waited for their process's other descriptors (``LATE``)."""
    aside: set[str] = field(default_factory=set)
    """Memories renamed to an editor's backup; the store keeps their heads for some seconds."""
    exchanged: set[str] = field(default_factory=set)
    """Memories that an exchange of names brought to that of a temporary: they have no other, and stay memories."""
    done: list[str] = field(default_factory=list)
    opened: int = 0
    began: float = field(default_factory=time.monotonic)
    first: int = 0

    def begin(self) -> None:
        """Make the directories, and let every process go there."""
        self.first = self.database.last()
        for side in (self.mount, self.twin):
            (side.directory / self.name).mkdir()
            for worker in side.workers:
                worker.do(op.Begin(str(side.directory / self.name)))
        self._look()

    def end(self) -> None:
        """Close everything as it was opened, compare everything, and leave nothing."""
        for process in range(PROCESSES):
            while self.directories[process]:
                self.step(process, op.CloseDirectory())
            while self.slots[process]:
                self.step(process, op.Close(0))
        self.step(0, op.Tree())
        self._check_database()

    def clear(self) -> None:
        """Leave nothing, also where the example failed."""
        for side in (self.mount, self.twin):
            for worker in side.workers:
                if worker.process.poll() is None:
                    worker.do(op.Begin("/nowhere"))
            shutil.rmtree(side.directory / self.name, ignore_errors=True)

    # One operation

    def step(self, process: int, operation: op.Operation) -> None:
        """Do an operation on both sides. Raises AssertionError where they differ, and not by design."""
        self.done.append(f"{process}: {operation}")
        slot = self._slot(process, operation)
        before, heads, last = self.tree, self.database.heads(f"/{self.name}"), self.database.last()
        found = self.mount.workers[process].do(operation)
        difference = None
        if found.errno is not None:
            position = self._position(process, operation)
            moment = Moment(operation, found.errno, before, slot, position, frozenset(self.spoiled))
            difference = next((line for line in DIFFERENCES if line.applies(moment)), None)
        if isinstance(operation, op.Seek) and operation.whence in (os.SEEK_DATA, os.SEEK_HOLE):
            self._seek_without_holes(process, operation, slot, found)
        elif (
            isinstance(operation, op.Write | op.Pwrite)
            and slot is not None
            and found.value in range(len(operation.data))
        ):
            self._short(process, operation, slot, found)
        elif isinstance(operation, op.CopyRange) and slot is not None and self._is_cut(process, operation, found):
            self._short_copy(process, operation, found)
        elif difference is None:
            expected = self.twin.workers[process].do(operation)
            self._same((found.errno, found.value), (expected.errno, expected.value))
            if isinstance(operation, op.Tree):
                assert found.seen is not None
                assert expected.seen is not None
                self._same_order(found.seen.own, expected.seen.own)
            elif expected.seen is not None:
                self._note(process, operation, slot, expected.seen)
            if isinstance(operation, op.CloseDirectory) and self.directories[process]:
                reading = self.directories[process].pop()
                if found.seen is not None:  # else it was removed, which getdents64(2) calls ENOENT
                    self._check_reading(reading, found.seen.own)
        else:
            self.met.add(difference.name)
            self._make_good(process, operation, difference, found.errno, slot)
        if isinstance(operation, op.Close) and slot is not None:
            held = self.slots[process]
            del held[operation.slot % len(held)]  # not remove(), which takes an earlier duplicate of it
        self._look()
        if difference is not None and difference.remedy is Remedy.DROP:
            self._drop(process, operation, slot)
        self._follow_directories()
        self._check_step(operation, process, slot, found.errno, before, heads)
        if isinstance(operation, QUIET + QUIET_TOO) and time.monotonic() - self.began < YOUNG_SECONDS:
            made = [
                version
                for version in self.database.versions(last)
                if not self._ends_aside(operation, version) and (version.path, version.text) not in self.late
            ]
            self._true(made == [], lambda: f"versions: {made}")

    def _ends_aside(self, operation: op.Operation, version: Version) -> bool:
        """Whether a version is the end of what was set aside at the name of a directory (``SET_ASIDE``)."""
        return (
            isinstance(operation, op.Mkdir | op.Rmdir)
            and version.operation == "deleted"
            and version.memory in self.aside
            and f"{version.path}/".startswith(f"/{self.name}{operation.path}/")
        )

    def _fail(self, what: str) -> AssertionError:
        return AssertionError("\n".join([f"{what[:2000]}, after", *self.done]))

    def _true(self, holds: bool, what: Callable[[], str]) -> None:
        if not holds:
            raise self._fail(what())

    def _same(self, found: object, expected: object) -> None:
        self._true(found == expected, lambda: f"the mount: {found}\nthe tmpfs: {expected}")

    def _slot(self, process: int, operation: op.Operation) -> Slot | None:
        held = self.slots[process]
        if not isinstance(operation, op.OfFile) or not held:
            return None
        return held[operation.slot % len(held)]

    def _look(self) -> None:
        """See what the tmpfs holds."""
        top = str(self.twin.directory / self.name)
        self.tree = {}
        for place, directories, files in os.walk(top):
            for name in directories:
                path = f"{place}/{name}"
                self.tree[path.removeprefix(top)] = Entry(os.stat(path).st_ino, True)
            for name in files:
                path = f"{place}/{name}"
                data = Path(path).read_bytes()
                self.texts.add(data)
                status = os.stat(path)
                self.tree[path.removeprefix(top)] = Entry(status.st_ino, False, data, status.st_mtime_ns)

    def _note(self, process: int, operation: op.Operation, slot: Slot | None, seen: op.Seen) -> None:
        """Know what an operation changed that the tree does not show."""
        if isinstance(operation, op.Open) and seen.own is not None:
            self.opened += 1
            # Linux opens what cannot be read nor written where both are asked for; nobody here asks.
            made = operation.path not in self.tree
            self.slots[process].append(Slot(seen.own, self.opened, operation.flags, made))
            if operation.flags & os.O_TRUNC:
                self.spoiled.discard(seen.own)
        elif isinstance(operation, op.Dup) and slot is not None:
            # At the end, as the process has it; an equal one, since it is the same open file.
            self.slots[process].append(slot)
        elif isinstance(operation, op.MapWrite | op.Allocate) and slot is not None:
            self.untimed.add(slot.inode)
        elif isinstance(operation, op.Utimens) and operation.ns is None:
            if operation.path in self.tree:
                self.touched.add(self.tree[operation.path].inode)
        elif isinstance(operation, op.Truncate) and len(self.tree[operation.path].data) == operation.size:
            before = self.tree[operation.path]
            now_ns = os.stat(f"{self.twin.directory}/{self.name}{operation.path}").st_mtime_ns
            if now_ns == before.mtime_ns:
                self.unmoved[before.inode] = now_ns
        elif isinstance(operation, op.OpenDirectory):
            names = os.listdir(f"{self.twin.directory}/{self.name}{operation.path}")
            self.directories[process].append(Reading(set(names), set(names)))
        elif isinstance(operation, op.ReadDirectory) and operation.rewind and self.directories[process]:
            reading = self.directories[process][-1]
            (*_, now) = self._names_now(process)
            reading.always, reading.ever = set(now), set(now)
        elif isinstance(operation, op.Ftruncate) and slot is not None:
            self.spoiled.discard(slot.inode)

    # Differences

    def _make_good(
        self, process: int, operation: op.Operation, difference: Difference, number: int | None, slot: Slot | None
    ) -> None:
        if difference.name == "size":
            # libc's posix_fallocate writes, and its write is refused like any other.
            if slot is not None and isinstance(operation, op.Write | op.Pwrite | op.CopyRange | op.Allocate):
                into = slot
                if isinstance(operation, op.CopyRange):
                    held = self.slots[process]
                    into = held[operation.into % len(held)]
                self.spoiled.add(into.inode)
            elif isinstance(operation, op.WriteFile):
                self.spoiled.add(self.tree[operation.path].inode)
                self._write_what_fits(process, operation)
        if difference.remedy is Remedy.SKIP:
            return
        expected = self.twin.workers[process].do(operation)
        self._true(expected.errno is None, lambda: f"the mount: {number}\nthe tmpfs: {expected.errno}")

    def _write_what_fits(self, process: int, operation: op.WriteFile) -> None:
        """The kernel may send the pages of one write(2) one by one: what is below the limit is then written."""
        before = self.tree[operation.path].data
        fits = operation.data[: max(0, MAX_CONTENT_BYTES - len(before))]
        shown = self.mount.workers[process].do(op.ReadFile(operation.path))
        if fits and (shown.errno, shown.value) == (None, before + fits):
            again = self.twin.workers[process].do(replace(operation, data=fits))
            assert again.errno is None

    def _drop(self, process: int, operation: op.Operation, slot: Slot | None) -> None:
        """The mount shows the last version of a file again, unless somebody else writes at it."""
        if isinstance(operation, op.OfPath):
            path, inode = operation.path, self.tree[operation.path].inode
        else:
            assert slot is not None
            path, inode = path_of(self.tree, slot.inode), slot.inode
        if any(other.inode == inode and other.writable for held in self.slots for other in held):
            return
        self.spoiled.discard(inode)
        head = self.database.heads(f"/{self.name}").get(path)
        shown = self.mount.workers[process].do(op.ReadFile(path))
        want = (errno.ENOENT, None) if head is None else (None, head.text)
        self._same((shown.errno, shown.value), want)
        mode = 0o644
        if head is not None:
            mode = stat.S_IMODE((self.mount.directory / self.name / path[1:]).stat().st_mode)
        again = self.twin.workers[process].do(op.Restore(path, None if head is None else head.text, mode))
        assert again.errno is None
        above = path.rpartition("/")[0]
        self.untimed |= {inode, self.tree[above].inode if above else 0}
        self._look()

    def _seek_without_holes(self, process: int, operation: op.Seek, slot: Slot | None, found: op.Outcome) -> None:
        twin = self.twin.workers[process]
        if slot is None:
            self._same(found.errno, errno.EBADF)
            return
        size = self._size(process, operation)
        if not 0 <= operation.offset < size:
            self._same(found.errno, errno.ENXIO)
            return
        self._same(found.value, operation.offset if operation.whence == os.SEEK_DATA else size)
        assert isinstance(found.value, int)
        twin.do(op.Seek(operation.slot, found.value, os.SEEK_SET))

    def _size(self, process: int, operation: op.OfFile) -> int:
        """The size of the open file that an operation is about."""
        looks = self.twin.workers[process].do(op.Fstat(operation.slot)).value
        assert isinstance(looks, tuple)
        size = looks[2]
        assert isinstance(size, int)
        return size

    def _position(self, process: int, operation: op.Operation) -> int:
        """Where the descriptor stands that an operation writes to; 0 where there is none."""
        if not isinstance(operation, op.OfFile):
            return 0
        into = operation.into if isinstance(operation, op.CopyRange) else operation.slot
        seen = self.twin.workers[process].do(op.Position(into)).seen
        return 0 if seen is None else int(seen.own)

    def _short(self, process: int, operation: op.Operation, slot: Slot | None, found: op.Outcome) -> None:
        """A write over the limit of size: the kernel sends it page by page, and some of it went through."""
        assert isinstance(operation, op.Write | op.Pwrite)
        assert isinstance(found.value, int)
        assert slot is not None
        self.met.add("size")
        again = self.twin.workers[process].do(replace(operation, data=operation.data[: found.value]))
        self._same(found.value, again.value)
        self.spoiled.add(slot.inode)
        self._same(self._size(process, operation), MAX_CONTENT_BYTES)

    def _is_cut(self, process: int, operation: op.CopyRange, found: op.Outcome) -> bool:
        """Whether less was copied than there is, and all of it would go over the limit of size."""
        stands = self.twin.workers[process].do(op.Position(operation.slot)).seen
        assert stands is not None
        there = min(operation.size, self._size(process, operation) - int(stands.own))
        start = self._position(process, operation)
        return isinstance(found.value, int) and 0 < found.value < there and start + there > MAX_CONTENT_BYTES

    def _short_copy(self, process: int, operation: op.CopyRange, found: op.Outcome) -> None:
        """A copy over the limit of size: the kernel sends it in pieces, and the last one was refused."""
        assert isinstance(found.value, int)
        self.met.add("size")
        again = self.twin.workers[process].do(replace(operation, size=found.value))
        self._same(found.value, again.value)
        held = self.slots[process]
        self.spoiled.add(held[operation.into % len(held)].inode)

    # Directories that change while they are read

    def _names_now(self, process: int) -> list[list[str]]:
        seen = self.twin.workers[process].do(op.NamesNow()).seen
        assert seen is not None
        found = seen.own
        assert isinstance(found, list)
        return found

    def _follow_directories(self) -> None:
        for process, readings in enumerate(self.directories):
            if readings:
                for reading, names in zip(readings, self._names_now(process), strict=True):
                    reading.always &= set(names)
                    reading.ever |= set(names)

    def _check_reading(self, reading: Reading, names: list[str]) -> None:
        """Each name that was there all the time came once, none came twice, and none came that never was there."""
        found = [name for name in names if name not in (".", "..")]
        self._true(len(found) == len(set(found)), lambda: f"names that came twice: {found}")
        self._true(
            reading.always <= set(found) <= reading.ever,
            lambda: f"read: {found}\nalways there: {reading.always}\never there: {reading.ever}",
        )

    # Times

    def _same_order(self, found: dict[str, int], expected: dict[str, int]) -> None:
        """What was modified later here is it there; where the tmpfs's clock has one time for both, either may be."""
        timed = [
            path
            for path, entry in self.tree.items()
            if entry.inode not in self.untimed and self.unmoved.get(entry.inode) != expected[path]
        ]
        for one, other in combinations(timed, 2):
            touched = not self.touched.isdisjoint((self.tree[one].inode, self.tree[other].inode))
            if abs(expected[one] - expected[other]) > (TICK_NS if touched else 0):
                self._true(
                    (found[one] < found[other]) == (expected[one] < expected[other]) and found[one] != found[other],
                    lambda one=one, other=other: (  # type: ignore[misc]  # mypy infers no lambda with defaults
                        f"modified in another order: {one} and {other}, in the mount {found[one]} and {found[other]},"
                        f" in the tmpfs {expected[one]} and {expected[other]}"
                    ),
                )

    # The database

    def _check_step(
        self,
        operation: op.Operation,
        process: int,
        slot: Slot | None,
        number: int | None,
        before: dict[str, Entry],
        heads: dict[str, Head],
    ) -> None:
        now = self.database.heads(f"/{self.name}")
        if number is None:
            path = self._saved(operation, process, slot, before, heads)
            if path and path in self.tree and not is_scratch(path):
                text = self.tree[path].data
                head = now.get(path)
                self._true(
                    head is not None and head.text == text,
                    lambda: f"not in the database when it returned: {path} should be {text!r} and is {head}",
                )
                self.acknowledged.append((path, text))
            elif path == "":
                inode = slot.inode if isinstance(operation, op.Close) and slot is not None else 0
                if isinstance(operation, op.WriteFile):
                    inode = self.tree[operation.path].inode
                if at := path_of(self.tree, inode):
                    self.late.add((f"/{self.name}{at}", self.tree[at].data))
        moved = number is None and isinstance(operation, op.Rename) and operation.old != operation.path
        expected = {path: head.memory for path, head in heads.items()}
        if moved:
            assert isinstance(operation, op.Rename)
            expected = self._moved(operation, before, expected)
        for path, memory in expected.items():
            if path in now:
                self._true(now[path].memory == memory, lambda path=path: f"{path} has become another memory")  # type: ignore[misc]  # mypy infers no lambda with defaults

    def _saved(
        self,
        operation: op.Operation,
        process: int,
        slot: Slot | None,
        before: dict[str, Entry],
        heads: dict[str, Head],
    ) -> str:
        """The path whose text must be the head's now that an operation succeeded; "" where there is none."""
        if isinstance(operation, op.Close | op.Fsync) and slot is not None:
            # A shell's early close: the same process is about to write through another descriptor.
            about_to = isinstance(operation, op.Close) and any(
                other.writable and other.inode == slot.inode for other in self.slots[process]
            )
            fits = slot.writable or isinstance(operation, op.Fsync)
            return path_of(self.tree, slot.inode) if fits and not about_to else ""
        if isinstance(operation, op.WriteFile):
            inode = self.tree[operation.path].inode
            held = any(other.writable and other.inode == inode for other in self.slots[process])
            return "" if held and not operation.data else operation.path
        if isinstance(operation, op.Mknod):
            return operation.path
        written = {other.inode for held in self.slots for other in held if other.writable}
        if isinstance(operation, op.Truncate) and self.tree[operation.path].inode not in written:
            return operation.path
        if isinstance(operation, op.Rename) and operation.path in self.tree:
            entry = self.tree[operation.path]
            return "" if entry.directory or entry.inode in written else operation.path
        return ""

    def _moved(self, rename: op.Rename, before: dict[str, Entry], memories: dict[str, str]) -> dict[str, str]:
        """Which memory must be at which path after a rename."""
        old, new = rename.old, rename.path
        if before[old].directory or rename.flags & op.EXCHANGE:
            moved = {}
            for path, memory in memories.items():
                for here, there in ((old, new), (new, old)):
                    if path == here or path.startswith(f"{here}/"):
                        moved[there + path.removeprefix(here)] = memory
                        break
                else:
                    moved[path] = memory
            self.exchanged |= {memory for path, memory in moved.items() if is_scratch(path)}
            return moved
        if is_scratch(new) and not is_scratch(old):
            if old in memories:
                self.aside.add(memories[old])
            return memories
        # Over a memory its history goes on; to a free name the memory moves.
        after = {path: memory for path, memory in memories.items() if path != old}
        if new not in after and old in memories:
            after[new] = memories[old]
        return after

    def _check_database(self) -> None:
        """Heads are the tree's, no version is without a reason, and none is missing."""
        files = {}

        def agreed() -> bool:
            nonlocal files
            heads = self.database.heads(f"/{self.name}")
            kept = {path for path, head in heads.items() if head.memory in self.exchanged}
            files = {
                path: entry.data
                for path, entry in self.tree.items()
                if not entry.directory and (path in kept or not is_scratch(path))
            }
            shown = {path: head.text for path, head in heads.items() if head.memory not in self.aside or path in files}
            return shown == files

        try:
            # The kernel tells of a last close after it has returned.
            wait_until(agreed, "", self.patience)
        except AssertionError:
            raise self._fail(f"the heads: {self.database.heads(f'/{self.name}')}\nthe files: {files}") from None
        versions = self.database.versions(self.first)
        try:
            check_history(versions, self.database.heads(f"/{self.name}"))
        except AssertionError as error:
            raise self._fail(f"the history: {error}") from None
        for version in versions:
            self._true(
                version.text is None or version.text in self.texts,
                lambda version=version: f"no file ever held this text: {version}",  # type: ignore[misc]  # mypy infers no lambda with defaults
            )
        kept = {(version.path.removeprefix(f"/{self.name}"), version.text) for version in versions}
        for path, text in self.acknowledged:
            self._true(
                (path, text) in kept,
                lambda path=path, text=text: f"not in the history: {path} with {text!r}",  # type: ignore[misc]  # mypy infers no lambda with defaults
            )


__all__ = ["PROCESSES", "Pair", "Side"]
