"""What a writer puts on record of each operation, outside of everything that is mounted: before it, and after it.

An operation with a record of its success is acknowledged. One with a record of an error, or with none because its
writer or what it wrote to was killed, was in flight: it may have been done once, or not at all.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def text_of(token: str, lines: int) -> str:
    """The text that an operation writes: each line tells whose it is, so that no part of it passes for another's."""
    return "".join(f"{token} {number}/{lines}\n" for number in range(1, lines + 1))


def pieces_of(text: str, count: int) -> list[str]:
    """A text as the arguments of so many calls of write()."""
    size = -(-len(text) // count)
    return [text[start : start + size] for start in range(0, len(text), size)]


@dataclass
class Operation:
    """One operation of a writer. ``done`` is None while it is in flight, and for ever where nobody lived to tell."""

    number: int
    kind: str
    given: dict[str, Any] = field(default_factory=dict)
    done: bool | None = None
    told: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        state = {True: "acknowledged", False: f"failed with {self.told.get('error')}", None: "in flight"}[self.done]
        return f"operation {self.number}, {self.kind} {self.given}: {state}"


class Journal:
    """The record that a writer keeps."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._number = 0
        self._began = 0.0

    @property
    def number(self) -> int:
        """That of the next operation."""
        return self._number

    def begin(self, kind: str, **given: Any) -> None:
        """An operation is about to be tried."""
        self._write({"n": self._number, "kind": kind, **given})
        self._began = time.monotonic()

    def end(self, *, ok: bool, **told: Any) -> None:
        """It has succeeded, or not; its seconds are in ``took``."""
        self._write({"n": self._number, "ok": ok, "took": time.monotonic() - self._began, **told})
        self._number += 1

    def _write(self, entry: dict[str, Any]) -> None:
        # In one call, so that a kill leaves whole lines.
        os.write(self._descriptor, json.dumps(entry).encode() + b"\n")


def read(path: Path) -> Iterator[Operation]:
    """The operations of a journal, in their order."""
    last: Operation | None = None
    for line in path.read_bytes().splitlines():
        entry = json.loads(line)
        number = entry.pop("n")
        if "kind" in entry:
            if last is not None:
                yield last
            last = Operation(number, entry.pop("kind"), entry)
        else:
            assert last is not None
            assert last.number == number
            last.done, last.told = entry.pop("ok"), entry
    if last is not None:
        yield last
