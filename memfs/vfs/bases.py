"""What writers started from (DESIGN.md 8): which text each process was last served of each memory.

One Base stands for everybody who was served the same text. Where a commit of this mount was made from it, it moves on
with that commit: within one mount the last writer wins, as on a local disk, and only what others have saved in between
is merged.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from memfs.model.mutations import Edit
from memfs.model.records import Head

KEPT_BASES = 8
"""Texts of one memory that are remembered, the latest ones."""
KEPT_PROCESSES = 64
"""Processes of each that are."""
KEPT_MEMORIES = 4_096
KEPT_SERVINGS = 16_384
"""In all, of the memories that were served last: some 2 MB. 64 processes that search a whole store are 12 MB."""
KEPT_TEXT_BYTES = 1 << 20
"""Of all texts that are no version's: those that were merged when they were saved, and whose writers go on in them."""

SameProcess = Callable[[int, int, float], bool]
"""Whether a thread is of the process of which another one was at a moment (``time.CLOCK_BOOTTIME``), by their numbers;
it is asked little."""


@dataclass(slots=True, eq=False)
class Base:
    """A text that writers start from: a version's, or ``text`` where they saw another one at that version. Without a
    version: nothing, a file that was made here.
    """

    version_id: str | None = None
    sha256: str | None = None
    text: bytes | None = None
    dropped: bool = False
    """Whether it was a text of its own, which is not kept any more: of it only the hash is known."""

    @classmethod
    def of(cls, head: Head) -> "Base":
        """The text of a head."""
        return cls(head.version_id, head.sha256)

    def edit(self, appended: int, begun: bytes | None = None) -> Edit:
        """What the engine must know of a text that was made from this; its last ``appended`` bytes were appended.
        ``begun`` is this text, where the caller has it; the version's may be gone when it is asked for.
        """
        text = begun if self.text is None else self.text
        return Edit(None if self.dropped else self.version_id, self.sha256, text, appended)


@dataclass(slots=True)
class _Served:
    base: Base
    processes: dict[int, float] = field(default_factory=dict)
    """Threads, and when each was served it last, the latest last."""


class Bases:
    """The bases of one mount's memories."""

    def __init__(self, same_process: SameProcess, is_held: Callable[[Base], bool] = lambda _base: False) -> None:
        """``is_held`` is whether somebody has a file open to write at places in this text; it is asked little."""
        self._same_process = same_process
        self._is_held = is_held
        self._texts: OrderedDict[Base, int] = OrderedDict()
        """Those with a text of their own, and its bytes, the latest last."""
        self._text_bytes = 0
        self._served: OrderedDict[str, list[_Served]] = OrderedDict()
        """By memory, the latest last."""
        self._servings = 0
        """How many processes all of them name."""

    def advance(self, base: Base, head: Head, text: bytes | None, sha256: str) -> None:
        """A commit made from this is ``head`` now; ``text``, with this hash, is what its writers hold where that is
        another, because it was merged.

        Where that is too much with all others', the oldest are dropped, those last that an open file holds. What is
        made from such a one is nobody's version and cannot be merged: it becomes the head, and the conflict is on
        record, as with a version that is redacted or pruned. What is only appended is.
        """
        self._text_bytes -= self._texts.pop(base, 0)
        base.version_id, base.sha256, base.text, base.dropped = head.version_id, sha256, text, False
        if text is None:
            return
        self._texts[base] = len(text)
        self._text_bytes += len(text)
        while self._text_bytes > KEPT_TEXT_BYTES:
            oldest = next((each for each in self._texts if not self._is_held(each)), next(iter(self._texts)))
            self._text_bytes -= self._texts.pop(oldest)
            oldest.text, oldest.dropped = None, True

    def served(self, memory_id: str, base: Base, pid: int) -> None:
        """A thread of a process was served this text, which is what there is now."""
        entries = self._served.get(memory_id)
        if entries is None:
            entries = self._served[memory_id] = []
        else:
            self._served.move_to_end(memory_id)
        self._servings -= _servings(entries)
        if not entries or entries[-1].base is not base:
            entries[:] = [entry for entry in entries if entry.base is not base][1 - KEPT_BASES :]
            entries.append(_Served(base))
        processes = entries[-1].processes
        processes.pop(pid, None)
        processes[pid] = time.clock_gettime(time.CLOCK_BOOTTIME)
        if len(processes) > KEPT_PROCESSES:
            del processes[next(iter(processes))]
        self._servings += _servings(entries)
        while len(self._served) > KEPT_MEMORIES or (self._servings > KEPT_SERVINGS and len(self._served) > 1):
            self._servings -= _servings(self._served.popitem(last=False)[1])

    def started_from(
        self, memory_id: str, pid: int, text: bytes, text_of: Callable[[Base], bytes | None]
    ) -> Base | None:
        """What a whole text was made from that a process wrote: what that process was last served, else what any was
        that it is nearest to; None where nobody was served anything.
        """
        latest = self._served.get(memory_id, [])[::-1]
        if len(latest) > 1:
            for served in latest:
                if pid and pid in served.processes and self._same_process(pid, pid, served.processes[pid]):
                    return served.base
            for served in latest:
                if any(self._same_process(pid, other, moment) for other, moment in served.processes.items()):
                    return served.base
            latest.sort(key=lambda served: _distance(text_of(served.base), text))  # stable: of equals the latest
        return latest[0].base if latest else None


def _servings(entries: list[_Served]) -> int:
    return sum(len(entry.processes) for entry in entries)


def _distance(before: bytes | None, after: bytes) -> float:
    """How many lines one text has that the other has not."""
    if before is None:
        return float("inf")
    old, new = Counter(before.split(b"\n")), Counter(after.split(b"\n"))
    return (old - new).total() + (new - old).total()
