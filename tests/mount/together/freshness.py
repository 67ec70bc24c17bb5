"""Close-to-open between two sessions: one changes a file and closes it, then the other opens it, again and again.

The reader has looked at everything just before the change, at what is there and at what is not, so that its kernel
holds it all; and it looks again when it is told that the change is over. Nobody sleeps: the two take turns by pipes.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, product
from pathlib import Path
from statistics import quantiles
from typing import Any

from tests.mount.harness import wait_until
from tests.mount.together.foreign import Writer
from tests.mount.together.hands import Hands

SEEN_SECONDS = 2.0
"""Within which a change must be seen by who does not open."""

FILES = 12
"""At a time. A change is then mostly to something that was read before."""

POLL_SECONDS = 0.0001


@dataclass
class Freshness:
    """What was seen. A pair is a close in one session and then an open in the other."""

    pairs: Counter[str] = field(default_factory=Counter)
    """By kind of change."""
    stale: Counter[str] = field(default_factory=Counter)
    """Of those, in how many the open did not show it."""
    lags: list[tuple[str, float]] = field(default_factory=list)
    """Of those, after how many seconds it did; infinite where it did not in ``SEEN_SECONDS``."""
    examples: list[str] = field(default_factory=list)

    def wrong(self) -> list[str]:
        """A line for each kind of change that was ever stale."""
        return [
            f"{kind}: stale at {count} of {self.pairs[kind]} opens, for up to"
            f" {max(lag for of, lag in self.lags if of == kind) * 1000:.1f} ms; {self._example(kind)}"
            for kind, count in sorted(self.stale.items())
        ]

    def _example(self, kind: str) -> str:
        return next(text for text in self.examples if text.startswith(kind))

    def figures(self) -> dict[str, Any]:
        """For people."""
        return {"pairs": self.pairs.total(), "stale": dict(self.stale), "kinds": dict(self.pairs)}


def read(path: Path) -> str | None:
    """Open, read, close; None where nothing is there."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


class Reader:
    """In one session, with the hands of another."""

    def __init__(self, writer: Hands, directory: Path, seed: int = 0) -> None:
        self.found = Freshness()
        self._writer = writer
        self._top = directory
        self._random = random.Random(seed)
        self._count = 0
        self._files: dict[str, str] = {}
        self._steps: tuple[Callable[[], None], ...] = (
            self._rewrite,
            self._replace,
            self._grow,
            self._shrink,
            self._shrink_by_name,
            self._empty,
            self._remake,
            self._delete,
            self._appear,
            self._rename,
            self._rename_over,
            self._directory,
            self._rename_directory,
        )

    def pairs(self, count: int) -> Freshness:
        """So many pairs, or a few more."""
        goal = self.found.pairs.total() + count
        first = self._random.sample(self._steps, len(self._steps))
        while self.found.pairs.total() < goal:
            if not self._files:
                self._appear()
            (first.pop() if first else self._random.choice(self._steps))()
        return self.found

    def pairs_with(self, kind: str, writer: Writer, count: int) -> Freshness:
        """So many pairs, or a few more, with somebody else as the writer; ``kind`` names them."""
        goal = self.found.pairs.total() + count
        while self.found.pairs.total() < goal:
            path = self._new()
            for how in ("make", "write", "write", "unlink", "make"):
                text = self._text()
                self._look(path)
                writer.do(how, path, text)
                self._see(f"{kind}: {how}", path, None if how == "unlink" else text)
            writer.do("unlink", path)
        return self.found

    # Changes

    def _rewrite(self) -> None:
        self._change("rewritten", "write", self._some(), self._text())

    def _replace(self) -> None:
        self._change("replaced", "replace", self._some(), self._text())

    def _grow(self) -> None:
        path = self._some()
        added = f"{self._count} more\n" * self._random.choice((1, 3, 200))
        if len(self._files[path]) < 80_000:
            self._change("grown", "append", path, added, self._files[path] + added)

    def _shrink(self) -> None:
        self._shrunk("shrunk", "cut")

    def _shrink_by_name(self) -> None:
        self._shrunk("shrunk by name", "cut by name")

    def _shrunk(self, kind: str, how: str) -> None:
        path = self._some()
        if text := self._files[path]:
            size = self._random.randrange(len(text))
            self._change(kind, how, path, str(size), text[:size])

    def _empty(self) -> None:
        path = self._some()
        if self._files[path]:
            self._change("emptied", "write", path, "")

    def _remake(self) -> None:
        self._change("deleted and made again", "remake", self._some(), self._text())

    def _delete(self) -> None:
        path = self._some()
        self._look(path)
        self._writer.do("unlink", path)
        del self._files[path]
        self._see("deleted", path, None)

    def _appear(self) -> None:
        if len(self._files) >= FILES:
            self._delete()
        self._change("made", "write", self._new(), self._text())

    def _rename(self) -> None:
        old, new = self._some(), self._new()
        self._look(old, new)
        self._writer.do("rename", old, new)
        self._files[new] = self._files.pop(old)
        self._see("renamed: the new name", new, self._files[new])
        self._see("renamed: the old name", old, None)

    def _rename_over(self) -> None:
        if len(self._files) < 2:
            return
        old, new = self._random.sample(sorted(self._files), 2)
        self._look(old, new)
        self._writer.do("rename", old, new)
        self._files[new] = self._files.pop(old)
        self._see("renamed over: the target", new, self._files[new])
        self._see("renamed over: the old name", old, None)

    def _directory(self) -> None:
        """A directory that did not exist, a file in it, and both gone again."""
        directory, text = f"/d{self._number()}", self._text()
        inside = f"{directory}/inside.md"
        self._look(directory, inside)
        self._writer.do("mkdir", directory)
        self._list("directory made", directory, [])
        self._look(inside)
        self._writer.do("write", inside, text)
        self._see("made in a new directory", inside, text)
        self._list("made in a new directory: the listing", directory, ["inside.md"])
        self._writer.do("unlink", inside)
        self._list("deleted: the listing", directory, [])
        self._writer.do("rmdir", directory)
        self._list("directory removed", directory, None)

    def _rename_directory(self) -> None:
        old, new, text = f"/d{self._number()}", f"/d{self._number()}", self._text()
        self._writer.do("mkdir", old)
        self._writer.do("write", f"{old}/inside.md", text)
        self._look(old, new, f"{old}/inside.md", f"{new}/inside.md")
        self._writer.do("rename", old, new)
        self._see("directory renamed: the new name", f"{new}/inside.md", text)
        self._see("directory renamed: the old name", f"{old}/inside.md", None)
        self._list("directory renamed: the listing", new, ["inside.md"])
        self._writer.do("unlink", f"{new}/inside.md")
        self._writer.do("rmdir", new)
        self._see("directory removed: what was in it", f"{new}/inside.md", None)

    # Helpers

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _some(self) -> str:
        if not self._files:
            self._appear()
        return self._random.choice(sorted(self._files))

    def _new(self) -> str:
        return f"/n{self._number()}.md"

    def _text(self) -> str:
        """Each is another one. Sizes on both sides of a page, and often the same as that of others."""
        start = f"text {self._number():06}\n"
        return start + "x" * (self._random.choice((13, 13, 20, 300, 4096, 4097, 20_000)) - len(start))

    def _at(self, path: str) -> Path:
        return self._top / path[1:]

    def _look(self, *paths: str) -> None:
        """Let the kernel have whatever it can have: attributes, names, names that are not there, pages."""
        for path in paths:
            for _ in range(2):
                with suppress(FileNotFoundError):
                    self._at(path).stat()
            with suppress(FileNotFoundError, IsADirectoryError):
                self._at(path).read_bytes()

    def _change(self, kind: str, how: str, path: str, argument: str, text: str | None = None) -> None:
        self._look(path)
        self._writer.do(how, path, argument)
        self._files[path] = argument if text is None else text
        self._see(kind, path, self._files[path])

    def _see(self, kind: str, path: str, text: str | None) -> None:
        self._expect(kind, path, lambda: read(self._at(path)), text)

    def _list(self, kind: str, path: str, names: list[str] | None) -> None:
        def listing() -> list[str] | None:
            try:
                return os.listdir(self._at(path))
            except FileNotFoundError:
                return None

        self._expect(kind, path, listing, names)

    def _expect(self, kind: str, path: str, ask: Callable[[], object], wanted: object) -> None:
        self.found.pairs[kind] += 1
        began = time.monotonic()
        found = ask()
        if found == wanted:
            return
        self.found.stale[kind] += 1
        self.found.examples.append(f"{kind}: {path} was {_shown(found)}, not {_shown(wanted)}")
        while found != wanted and time.monotonic() < began + SEEN_SECONDS:
            time.sleep(POLL_SECONDS)
            found = ask()
        self.found.lags.append((kind, time.monotonic() - began if found == wanted else float("inf")))


def _shown(what: object) -> str:
    return f"{what[:20]!r} of {len(what)}" if isinstance(what, str) else repr(what)


# Without opening


def stat_lags(writer: Hands, directory: Path, seconds: float, most: int) -> list[float]:
    """How long after a close stat shows the new size in the other session: seconds, at most ``most`` times.

    A name that did not exist, a file that grows, and a name that goes are asked for in turns; the kernel has each.
    """
    lags: list[float] = []
    path = directory / "watched.md"
    until = time.monotonic() + seconds
    number = 0
    while len(lags) < most and time.monotonic() < until:
        number = number % 20 + 1
        size = None if number == 20 else number
        for _ in range(2):
            _size(path)
        when = writer.do(*(("unlink", "/watched.md") if size is None else ("write", "/watched.md", "x" * size)))
        while _size(path) != size:
            if time.monotonic() > when + 10 * SEEN_SECONDS:
                lags.append(float("inf"))
                return lags
            time.sleep(POLL_SECONDS)
        lags.append(time.monotonic() - when)
    return lags


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def percentile(seconds: list[float], percent: int) -> float:
    """Seconds that so many percent do not exceed."""
    return quantiles(seconds, n=100, method="inclusive")[percent - 1] if len(seconds) > 1 else seconds[0]


# Descriptors that were opened before


@dataclass(frozen=True)
class Held:
    """A reader that opened before the other session saved, and reads afterwards."""

    saved: str
    """How the other saved."""
    had_read: bool
    """Whether it had read the old text through this descriptor."""
    followed: bool
    """Whether its mount had something else to do in between, at which it heard of the change."""
    got: str
    """``old``, ``new``, ``cut``: the new text up to the old size, ``padded``: with zeros, or ``mixture``."""


def judge(got: bytes, old: bytes, new: bytes) -> str:
    """What a reader got."""
    if got in (old, new):
        return "old" if got == old else "new"
    if got == new[: len(got)]:
        return "cut"
    return "padded" if b"\0" in got else "mixture"


def held_descriptors(writer: Hands, directory: Path, rounds: int, seed: int = 0) -> Iterator[Held]:
    """Let the other session save while we have the file open, in each way and to each size."""
    chance = random.Random(seed)
    sizes = (10, 11, 500, 4096, 5000, 30_000)
    writer.do("write", "/held-other.md", "another")
    for number in range(rounds):
        for saved in ("write", "replace", "append", "cut"):
            for had_read, followed in product((False, True), repeat=2):
                old = f"{number:04} old ".ljust(chance.choice(sizes[1:]), "o")
                name = f"/held-{saved}-{had_read}-{followed}.md"
                path = directory / name[1:]
                writer.do("write", name, old)
                if saved == "append":
                    argument = " and more"
                    new = old + argument
                elif saved == "cut":
                    argument = str(len(old) // 2)
                    new = old[: len(old) // 2]
                else:
                    argument = new = f"{number:04} new ".ljust(chance.choice(sizes), "n")
                # So that the kernel has pages; that a new name may be late is not looked for here.
                wait_until(partial(_holds, path, old), "the old text")
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    if had_read:
                        _all(descriptor)
                    writer.do(saved, name, argument)
                    if followed:
                        (directory / "held-other.md").read_bytes()
                    yield Held(saved, had_read, followed, judge(_all(descriptor), old.encode(), new.encode()))
                finally:
                    os.close(descriptor)


def _holds(path: Path, text: str) -> bool:
    return read(path) == text


def _all(descriptor: int) -> bytes:
    """From the first byte to the end, as programs do: until nothing comes."""
    parts, position = [], 0
    while part := os.pread(descriptor, 65_536, position):
        parts.append(part)
        position += len(part)
    return b"".join(parts)


def runs(text: str) -> str:
    """How long which character goes on: what a text is a mixture of. NUL is shown as 0."""
    parts = (f"{len(list(same))} x {letter}" for letter, same in groupby(text.replace("\0", "0")))
    return ", ".join(parts) or "nothing"


def torn_reads(writer: Hands, other: Hands, directory: Path, rounds: int) -> Counter[str]:
    """Open and read a file again and again while another session saves it: how often it was whole, or which ``runs`` of
    letters instead.

    The reader does not wait for the writer, and ``other`` writes to something else in the reader's session meanwhile,
    so that opens, reads, commits and what is heard of the save meet in every order. Each text is of one letter and a
    size that no other has.
    """
    texts = [letter * size for letter, size in (("a", 30_000), ("b", 10), ("c", 4_096), ("d", 60_000))]
    writer.do("write", "/torn.md", texts[0])
    found: Counter[str] = Counter()
    path = directory / "torn.md"
    for number in range(rounds):
        how = ("write", "replace")[number % 2]
        text = texts[(number + 1) % len(texts)]
        writer.begin(how, "/torn.md", text)
        other.begin("write", "/beside.md", str(number))
        while not writer.is_over():
            got = path.read_text()
            found["whole" if got in texts else runs(got)] += 1
        writer.end()
        other.end()
    return found
