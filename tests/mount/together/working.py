"""A process of a session at work: it says that it is ready, and begins when it is told to.

It logs each operation when it is over, a JSON object a line, outside of everything that is mounted. One that reported
an error counts as not done, and what it would have written as something that may yet arrive, for a buffer can be kept
for the next try.
"""

import errno
import fcntl
import json
import os
import random
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from memfs.mount.processes import die_with_parent
from tests.mount.together import plan as p

SED_SECONDS = 60.0
MOST_FILES = 20
UNREADABLE = "unreadable"
"""What is logged for an errno where what was read cannot be what anybody wrote."""
SIGKILL = 9

SED_ERRORS = {os.strerror(number): name for number, name in errno.errorcode.items()}


class Reported(Exception):
    """An operation whose program reported an error."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class Owned:
    """A line of ours: its acknowledged value, and those written since whose write reported an error."""

    value: str = "start"
    uncertain: list[str] = field(default_factory=list)


class Worker:
    """Does one thing after the other."""

    def __init__(self, work: p.Work) -> None:
        self.work = work
        self.name = f"p{work.number:02}"
        self.random = random.Random(f"{work.seed} {self.name}")
        self.log = os.open(work.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.count = 0
        self.tokens = 0
        self.journal = 0
        self.owned = {key: Owned() for key in p.owned(work.number)}
        self.seen: dict[str, int] = {}
        """Of each line of others, the highest count that was read: it must not be seen to go back."""
        self.files: dict[str, str] = {}
        """What nobody else touches: path to text."""
        self.directory: str | None = None
        self.last: dict[str, Any] = {}

    def run(self) -> None:
        """Work until it is time to stop."""
        steps: dict[Callable[[], None], int] = {
            self.append: 28,
            self.edit_by_sed: 9,
            self.edit_by_truncation: 9,
            self.edit_by_replacement: 9,
            self.contest: 9,
            self.create: 10,
            self.delete: 7,
            self.share: 5,
            self.move: 7,
            self.move_over: 3,
            self.move_directory: 4,
        }
        # Each once, however long it takes, or a short run might leave one out.
        first = self.random.sample(list(steps), len(steps))
        turn = time.monotonic()
        end = turn + self.work.seconds
        while first or time.monotonic() < end:
            self.count += 1
            step = first.pop() if first else self.random.choices(list(steps), list(steps.values()))[0]
            self.do(step)
            if self.work.per_second:
                turn = max(turn + self.random.uniform(0.5, 1.5) / self.work.per_second, time.monotonic())
                time.sleep(max(0.0, turn - time.monotonic()))

    def do(self, step: Callable[[], None]) -> None:
        """One operation, and its entry in the log."""
        self.last = {}
        began = time.time()
        try:
            step()
        except OSError as error:
            self.last["errno"] = errno.errorcode.get(error.errno or 0, str(error))
            self.last["where"] = traceback.extract_tb(error.__traceback__)[-1].line
        except Reported as error:
            self.last["errno"] = error.name
        entry = {"kind": step.__name__, "at": began, "took": round(time.time() - began, 6), **self.last}
        self._log(entry)

    def close(self) -> None:
        """Log how everything was left."""
        owned = {key: mine.value for key, mine in self.owned.items()}
        self._log({"kind": "end", "files": self.files, "owned": owned})
        os.close(self.log)

    # Helpers

    def _log(self, entry: dict[str, Any]) -> None:
        os.write(self.log, (json.dumps(entry) + "\n").encode())

    def at(self, path: str) -> str:
        """Where a memory is mounted."""
        return self.work.directory + path

    def token(self) -> str:
        """Something that is written once, of varying length; later ones have higher numbers."""
        self.tokens += 1
        return f"{self.name}:{self.tokens}" + "é" * self.random.choice((0, 0, 1, 7, 40))

    def text(self) -> str:
        """A small text that is written once."""
        return f"{self.token()}\n" + "a line\n" * self.random.randrange(8)

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        """Keep the other processes of this session out, as on a local disk."""
        with open(f"{self.work.locks}{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self, path: str) -> str:
        """Open, read, close."""
        with open(self.at(path), "rb") as file:
            found = file.read()
        try:
            return found.decode()
        except UnicodeDecodeError:
            self.wrong(f"{path} was read as {len(found)} bytes that end in the middle of a character")
            raise Reported(UNREADABLE) from None

    def rewrite(self, path: str, text: str) -> None:
        """Write in place, emptied first."""
        with open(self.at(path), "w", encoding="utf-8") as file:
            file.write(text)

    def replace(self, path: str, text: str) -> None:
        """Write a temporary, then rename it over the file."""
        temporary = f"{path}.{self.name}.tmp"
        self.rewrite(temporary, text)
        try:
            os.replace(self.at(temporary), self.at(path))
        except OSError:
            with suppress(OSError):
                os.unlink(self.at(temporary))
            raise

    def wrong(self, what: str) -> None:
        """Note what should not be, and go on."""
        self.last.setdefault("wrong", []).append(what)

    # Appending

    def append(self) -> None:
        """A line more in what everybody appends to, without any lock."""
        line = f"{self.name}n{self.count}\n"
        while True:
            path = f"/journal-{self.journal}.md"
            try:
                if os.stat(self.at(path)).st_size < p.JOURNAL_BYTES:
                    break
            except FileNotFoundError:
                break
            self.journal += 1
        self.last = {"path": path, "token": line.rstrip()}
        descriptor = os.open(self.at(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    # Editing lines of our own

    def edit_by_sed(self) -> None:
        """``sed -i``, which reads the file itself."""

        def edit(key: str, value: str) -> None:
            program = f"s/^{re.escape(key)} = .*$/{key} = {value}/"
            done = subprocess.run(
                ["sed", "-i", program, self.at(p.LINES)],
                capture_output=True,
                text=True,
                timeout=SED_SECONDS,
                check=False,
            )
            if done.returncode:
                said = done.stderr.rpartition(": ")[2].strip()
                raise Reported(SED_ERRORS.get(said, done.stderr.strip()))

        self._edit(edit)

    def edit_by_truncation(self) -> None:
        """Read, close, change the line, write in place."""
        self._edit(lambda key, value: self.rewrite(p.LINES, self._changed(key, value)))

    def edit_by_replacement(self) -> None:
        """Read, close, change the line, write a temporary and rename it over the file."""
        self._edit(lambda key, value: self.replace(p.LINES, self._changed(key, value)))

    def _edit(self, edit: Callable[[str, str], None]) -> None:
        key, value = self.random.choice(list(self.owned)), self.token()
        self.last = {"path": p.LINES, "key": key, "value": value}
        mine = self.owned[key]
        with self.locked(p.LINES):
            try:
                edit(key, value)
            except (OSError, Reported):
                mine.uncertain.append(value)
                raise
        mine.value, mine.uncertain = value, []

    def _changed(self, key: str, value: str) -> str:
        """The file as it is now, with one line changed; on the way, everything that an open must show is checked."""
        before = self.read(p.LINES)
        found = p.values(before)
        for own, mine in self.owned.items():
            if found.get(own) not in (mine.value, *mine.uncertain):
                self.wrong(f"{own} was read as {found.get(own)!r} after {mine.value!r} was acknowledged")
        for other, there in found.items():
            number = int(there.partition(":")[2].rstrip("é") or 0)
            if number < self.seen.get(other, 0):
                self.wrong(f"{other} was read as {there!r} after number {self.seen[other]}")
            self.seen[other] = max(number, self.seen.get(other, 0))
        lines = before.splitlines(keepends=True)
        return "".join(p.line(key, value) if each.startswith(f"{key} = ") else each for each in lines)

    # Editing lines that others edit too

    def contest(self) -> None:
        """Change a line that everybody changes; logs what was read of it."""
        key, value = f"c{self.random.randrange(p.CONTESTED_LINES)}", self.token()
        self.last = {"path": p.CONTESTED, "key": key, "value": value}
        save = self.random.choice((self.rewrite, self.replace))
        with self.locked(p.CONTESTED):
            before = self.read(p.CONTESTED)
            if key not in p.values(before):
                self.wrong(f"{p.CONTESTED} was read without {key}: {len(before)} characters")
                return
            self.last["read"] = p.values(before)[key]
            lines = before.splitlines(keepends=True)
            text = "".join(p.line(key, value) if each.startswith(f"{key} = ") else each for each in lines)
            save(p.CONTESTED, text)

    # Files that come and go

    def create(self) -> None:
        """A new file, which must not be there yet; one less where there are many, for a store has room for 2,000."""
        if sum(path.startswith("/box/") for path in self.files) >= MOST_FILES:
            self.delete()
            return
        path, text = f"/box/{self.name}-{self.count}.md", self.text()
        self.last = {"versions": [["created", path, text]]}
        with open(self.at(path), "x", encoding="utf-8") as file:
            file.write(text)
        self.files[path] = text

    def delete(self) -> None:
        """A file less."""
        path = self._some("/box/")
        self.last = {"versions": [["deleted", path, None]]}
        os.unlink(self.at(path))
        del self.files[path]
        if os.path.exists(self.at(path)):
            self.wrong(f"{path} is there after it was deleted")

    def share(self) -> None:
        """Make, write or delete what others make, write and delete; each may be too late."""
        path, text = self.random.choice(p.SHARED_NAMES), self.text()
        how = self.random.choice(("x", "w", "unlink"))
        self.last = {"path": path, "how": how}
        try:
            # Within a session as on a local disk: what is unlinked while it is written is gone.
            with self.locked("/any"):
                if how == "unlink":
                    os.unlink(self.at(path))
                else:
                    with open(self.at(path), how, encoding="utf-8") as file:
                        file.write(text)
                    self.last["token"] = text.partition("\n")[0]
        except (FileExistsError, FileNotFoundError) as error:
            self.last["late"] = type(error).__name__

    # Names that change

    def move(self) -> None:
        """Another name, in another directory or not."""
        path = self._some("/moving/")
        new = f"/moving/{self.random.choice('ab')}/{self.name}-{self.count}.md"
        self.last = {"versions": [["modified", new, self.files[path]]]}
        os.rename(self.at(path), self.at(new))
        self.files[new] = self.files.pop(path)
        self._check(new, gone=path)

    def move_over(self) -> None:
        """One file takes the place of another: that goes on with its history, the one that moved ends."""
        source, target = self._some("/moving/"), f"/moving/{self.name}-target.md"
        if target not in self.files:
            self._write_new(target)
        elif source != target:
            text = self.files[source]
            self.last = {"versions": [["modified", target, text], ["deleted", source, None]]}
            os.rename(self.at(source), self.at(target))
            self.files[target] = self.files.pop(source)
            self._check(target, gone=source)

    def move_directory(self) -> None:
        """All that lies in a directory, with it."""
        new = f"/moving/{self.name}-{self.count}"
        if self.directory is None:
            os.mkdir(self.at(new))
            self.directory = new
            self._write_new(f"{new}/inside.md")
            return
        old = self.directory
        below = {path: text for path, text in self.files.items() if path.startswith(f"{old}/")}
        moved = {new + path.removeprefix(old): text for path, text in below.items()}
        self.last = {"versions": [["modified", path, text] for path, text in moved.items()]}
        os.rename(self.at(old), self.at(new))
        self.directory = new
        self.files = {path: text for path, text in self.files.items() if path not in below} | moved
        for path in moved:
            self._check(path)

    def _some(self, below: str) -> str:
        """One of our own files; directories move as a whole, so what is in them is left out."""
        own = [path for path in self.files if path.startswith(below) and not path.endswith("/inside.md")]
        if not own:
            path = f"{below}{self.name}-{self.count}-first.md"
            self._write_new(path)
            self._over()
            return path
        return self.random.choice(own)

    def _write_new(self, path: str) -> None:
        text = self.text()
        self.last = {"versions": [["created", path, text]]}
        with open(self.at(path), "x", encoding="utf-8") as file:
            file.write(text)
        self.files[path] = text

    def _over(self) -> None:
        """Log what was done before the step itself."""
        self._log({"kind": "create", "at": time.time(), "took": 0.0, **self.last})
        self.last = {}

    def _check(self, path: str, gone: str | None = None) -> None:
        """What we did ourselves we must see."""
        if (found := self.read(path)) != self.files[path]:
            self.wrong(f"{path} was read as {found!r}, not {self.files[path]!r}")
        if gone is not None and os.path.exists(self.at(gone)):
            self.wrong(f"{gone} is there after it was renamed")


def main() -> None:
    """Work, until the end or until whoever started us (by its process id) is gone; ``Work`` comes as JSON."""
    die_with_parent(int(sys.argv[1]), SIGKILL)
    worker = Worker(p.Work(**json.loads(sys.argv[2])))
    os.write(1, b"ready\n")
    sys.stdin.readline()
    worker.run()
    worker.close()
