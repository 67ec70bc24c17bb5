"""What a mount refused, and what failed in it: an errno cannot say why, so its log and ``memfs status`` do.

Each worker keeps the newest ones in a file beside the record of its root, which goes when the root is unmounted. An
agent's loop can have thousands a second refused, so neither the log nor the file takes one each.
"""

import errno
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import trio

from memfs.model.records import now

log = logging.getLogger(__name__)

KEPT = 10
"""How many are kept of each mount."""

BURST = 20
"""How many lines may come at once; after them one a second."""

SUMMARY_SECONDS = 10.0
"""How long after the last line it is told at the latest how many had none."""

FILE_SECONDS = 0.2
"""The least time between two writes of the file."""

LONGEST = 1_200
"""Characters of a path or reason that are told: more than a path has that a store may hold."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused operation: when, which, on what in the store, with which errno (its name) and why; never a text."""

    at: str
    path: str
    operation: str
    errno: str
    reason: str


def escaped(text: str) -> str:
    """A text in which nothing ends a line, drives a terminal or stands for another character."""
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return "".join(
        each if each.isprintable() and each != "\\" else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text
    )


def quoted(path: str) -> str:
    """A path as one value of a line of ``key=value``: in quotation marks where it holds anything unusual."""
    text = escaped(path).replace('"', '\\"')
    return text if text == path and not any(each in text for each in " =") else f'"{text}"'


class _Bucket:
    """Lets BURST through at once and then one a second, and counts what it does not."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tokens = float(BURST)
        self._filled = clock()
        self.left_out = 0
        self._since = 0.0
        """When the first of those left out came."""

    def take(self) -> bool:
        moment = self._clock()
        self._tokens = min(float(BURST), self._tokens + moment - self._filled)
        self._filled = moment
        if self._tokens < 1.0:
            if not self.left_out:
                self._since = moment
            self.left_out += 1
            return False
        self._tokens -= 1.0
        return True

    def due(self) -> bool:
        return self.left_out > 0 and self._clock() - self._since >= SUMMARY_SECONDS

    def told(self) -> str:
        """``more=N seconds=M`` of what was left out, which is forgotten."""
        text = f"more={self.left_out} seconds={self._clock() - self._since:.0f}"
        self.left_out = 0
        return text


class Refusals:
    """The refusals of one mount."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Goes on where an earlier worker of the same mount ended. ``clock`` gives seconds."""
        self._file = file
        self._kept: deque[Refusal] = deque(read_refusals(file), maxlen=KEPT)
        self._buckets = {"refused": _Bucket(clock), "failed": _Bucket(clock)}
        self._news = trio.Event()
        self._unwritten = False
        self._unwritable = False
        """Whether it was told that the file cannot be written, and it still cannot."""

    def add(self, path: str, operation: str, number: int, reason: str, *, level: int = logging.INFO) -> None:
        """Note that an operation was refused by a rule."""
        name = errno.errorcode.get(number, str(number))
        if self._line("refused"):
            log.log(
                level, "refused path=%s operation=%s errno=%s reason=%s", quoted(path), operation, name, escaped(reason)
            )
        self._keep(path, operation, name, reason)

    def fault(self, path: str, operation: str, error: Exception) -> None:
        """Note that something went wrong in memfs itself, with the traceback of the exception at hand."""
        if self._line("failed"):
            log.exception("failed path=%s operation=%s errno=EIO", quoted(path), operation)
        self._keep(path, operation, "EIO", f"a fault of memfs, {type(error).__name__}: its traceback is in the log")

    def _line(self, kind: str) -> bool:
        bucket = self._buckets[kind]
        if not bucket.take():
            return False
        self._tell(kind)
        return True

    def _tell(self, kind: str) -> None:
        bucket = self._buckets[kind]
        if bucket.left_out:
            log.info("%s %s", kind, bucket.told())

    def _keep(self, path: str, operation: str, name: str, reason: str) -> None:
        self._kept.append(Refusal(now(), path[:LONGEST], operation, name, reason[:LONGEST]))
        self._unwritten = True
        self._news.set()

    async def keep(self) -> None:
        """Put what was refused where ``memfs status`` finds it, and tell how much had no line, until cancelled."""
        while True:
            left_out = any(bucket.left_out for bucket in self._buckets.values())
            with trio.move_on_after(SUMMARY_SECONDS if left_out else float("inf")):
                await self._news.wait()
            self._news = trio.Event()
            self._write()
            for kind, bucket in self._buckets.items():
                if bucket.due():
                    self._tell(kind)
            await trio.sleep(FILE_SECONDS)

    def close(self) -> None:
        """Write and tell what is left."""
        self._write()
        for kind in self._buckets:
            self._tell(kind)

    def _write(self) -> None:
        if not self._unwritten:
            return
        self._unwritten = False
        temporary = self._file.with_suffix(".new")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w") as file:
                json.dump([asdict(refusal) for refusal in self._kept], file)
            temporary.replace(self._file)
        except OSError as error:
            if not self._unwritable:
                log.warning("what was refused could not be put where 'memfs status' finds it: %s", error)
            self._unwritable = True
        else:
            self._unwritable = False


def read_refusals(file: Path) -> list[Refusal]:
    """The refusals in a mount's file, oldest first; none where there is no such file or it cannot be read."""
    try:
        found = [Refusal(**fields) for fields in json.loads(file.read_text())]
        if not all(isinstance(text, str) for each in found for text in asdict(each).values()):
            raise ValueError("what should be texts are none")
        return found
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, RecursionError) as error:
        log.warning("the refusals in %s cannot be read: %s", file, error)
        return []
