"""What a disk may hold after a loss of power: what was synced, and of the rest nothing, all, or any part.

A file's bytes are sure once it was synced, its name once the directory that has it was. Of what was done since, the
disk may have taken up any writes, in any order, in pieces of a sector: whatever POSIX leaves open. That is more than
what a journaling file system does, so what survives here survives there.
"""

import os
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.crashes.recording import Event, Kind

PAGE, SECTOR = 4096, 512
"""Bytes. What a disk writes at once is a sector; what the kernel writes back is a page."""

Taken = Literal["nothing", "all", "first", "some", "torn"]
"""What a disk has taken up of what was not synced: ``first`` is what came before a moment, ``some`` any writes and
names, ``torn`` any pieces of writes."""

TAKEN: tuple[Taken, ...] = ("nothing", "all", "first", "some", "torn")


@dataclass
class File:
    """An inode: what is sure of it, and what was done since, with the number of each event."""

    sure: bytearray = field(default_factory=bytearray)
    since: list[tuple[int, Event]] = field(default_factory=list)


@dataclass
class Names:
    """Names of a moment: path to inode. Directories have their own, so that one that is lost takes all below along."""

    files: dict[str, int] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)

    def copy(self) -> "Names":
        """Another one."""
        return Names(dict(self.files), set(self.directories))

    def do(self, event: Event) -> None:
        """What an event does to names. Does nothing where what it needs is not there."""
        match event.kind:
            case Kind.CREATE:
                self.files[event.path] = event.inode
            case Kind.LINK if event.path in self.files:
                self.files[event.other] = self.files[event.path]
            case Kind.RENAME if event.path in self.files:
                self.files[event.other] = self.files.pop(event.path)
            case Kind.UNLINK:
                self.files.pop(event.path, None)
            case Kind.MKDIR:
                self.directories.add(event.path)
            case Kind.RMDIR:
                self.directories.discard(event.path)
            case _:
                pass

    def reachable(self, below: str) -> dict[str, int]:
        """The files whose directories are all there."""
        return {
            path: inode
            for path, inode in self.files.items()
            if all(above in self.directories for above in _directories(path, below))
        }


NAMING = (Kind.CREATE, Kind.LINK, Kind.RENAME, Kind.UNLINK, Kind.MKDIR, Kind.RMDIR)


def _directories(path: str, below: str) -> Iterable[str]:
    above = os.path.dirname(path)
    while above != below:
        yield above
        above = os.path.dirname(above)


class Disk:
    """Follows events; at any moment it can tell what a loss of power may leave."""

    def __init__(self, below: Path) -> None:
        """``below`` is the directory that was there before, empty."""
        self.below = str(below)
        self.files: dict[int, File] = {}
        self.names = Names()
        """Those that are sure."""
        self.now = Names(directories={self.below})
        """Those that there are."""
        self.since: list[tuple[int, Event]] = []
        """What was done to names since their directory was synced."""
        self.count = 0

    def do(self, event: Event) -> None:
        """The next event."""
        self.count += 1
        if event.kind == Kind.UNSEEN:
            raise AssertionError(f"not recorded: {event}")
        if event.kind == Kind.MARK or event.path.endswith(" (deleted)"):
            return
        if event.kind in NAMING:
            self._name(event)
            return
        if event.path in self.now.directories:
            self._sync_names(event.path)
            return
        if self.now.files.get(event.path) != event.inode:
            # Made by a process that is not recorded: whoever asks what is mounted on this machine looks into its
            # databases, for reading, and then makes the empty log that is missing.
            self._name(Event(Kind.CREATE, event.inode, 0, 0, 0, event.path, b""))
        file = self.files[event.inode]
        if event.kind == Kind.SYNC:
            for _, each in file.since:
                _apply(file.sure, each)
            file.since.clear()
        else:
            file.since.append((self.count, event))

    def _name(self, event: Event) -> None:
        if event.kind == Kind.CREATE:
            self.files[event.inode] = File()  # a number may be given again
        self.now.do(event)
        self.since.append((self.count, event))

    def _sync_names(self, directory: str) -> None:
        left = []
        for number, each in self.since:
            paths = [each.path] + ([each.other] if each.kind in (Kind.RENAME, Kind.LINK) else [])
            if any(os.path.dirname(path) == directory for path in paths):
                self.names.do(each)
            else:
                left.append((number, each))
        self.since = left

    def left(self, taken: Taken, chance: random.Random) -> dict[str, bytes]:
        """What a loss of power now may leave: path, from ``below``, to bytes."""
        before = self.count if taken == "all" else 0
        if taken == "first":
            unsure = [number for number, _ in self.since]
            unsure += [number for file in self.files.values() for number, _ in file.since]
            before = chance.choice([0, *unsure])
        rate = chance.choice([0.1, 0.5, 0.9])
        names = self.names.copy()
        for number, event in self.since:
            if number <= before or (taken in ("some", "torn") and chance.random() < rate):
                names.do(event)
        found = {}
        for path, inode in sorted(names.reachable(self.below).items()):
            file = self.files[inode]
            content = bytearray(file.sure)
            for number, event in file.since:
                if number <= before or (taken == "some" and chance.random() < rate):
                    _apply(content, event)
                elif taken == "torn":
                    _apply_torn(content, event, chance, rate)
            found[os.path.relpath(path, self.below)] = bytes(content)
        return found


def _apply(content: bytearray, event: Event) -> None:
    if event.kind == Kind.TRUNCATE:
        _resize(content, event.first)
        return
    end = event.first + len(event.data)
    if len(content) < end:
        _resize(content, end)
    content[event.first : end] = event.data


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _apply_torn(content: bytearray, event: Event, chance: random.Random, rate: float) -> None:
    """Some pieces of a write; of the size of a file, the old or the new one."""
    if event.kind == Kind.TRUNCATE:
        if chance.random() < rate:
            _apply(content, event)
        return
    piece = chance.choice([SECTOR, PAGE])
    start, end = event.first, event.first + len(event.data)
    while start < end:
        stop = min(end, (start // piece + 1) * piece)
        if chance.random() < rate:
            part = event.data[start - event.first : stop - event.first]
            _apply(content, Event(Kind.WRITE, event.inode, start, 0, 0, event.path, part))
        start = stop


def put(image: dict[str, bytes], directory: Path) -> None:
    """Make the files of an image in an empty directory."""
    for name, content in image.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
