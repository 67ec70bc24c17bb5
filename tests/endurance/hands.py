"""Processes that do for hours what an agent does with files: told how long each round is, they say what they did.

Each has a directory of its own, in which nobody else changes anything, so that it knows what every file must hold; a
journal is appended to by all.
"""

import errno
import json
import mmap
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from subprocess import Popen

from memfs.model.records import MAX_CONTENT_BYTES
from memfs.mount.processes import die_with_parent
from tests.processes import hear, python, tell

FILES = 30
"""Of each process, at most, in its own directory."""

FULL_BYTES = 60_000
"""Nothing is appended to a file of this size; a journal goes on in the next one."""

SED_SECONDS = 60.0


@dataclass
class Round:
    """What one process did in one round."""

    operations: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """What had to be refused, and was, by errno."""
    files: dict[str, str] = field(default_factory=dict)
    """Path in the store to SHA-256, of all files that nobody else touches."""
    lines: list[str] = field(default_factory=list)
    """Appended to the journals."""
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Hands:
    """A process at work on a mount."""

    process: Popen[str]

    def begin(self, number: int, seconds: float) -> None:
        """Let it work for so long."""
        tell(self.process, json.dumps(["work", number, seconds]))

    def end(self) -> Round:
        """Wait until it is over."""
        found = json.loads(hear(self.process))
        return Round(**found | {key: Counter(found[key]) for key in ("operations", "refused")})

    def clear(self) -> None:
        """Let it remove what it made, and wait for that. Raises AssertionError with what it could not."""
        tell(self.process, json.dumps(["clear", 0, 0]))
        wrong = json.loads(hear(self.process))["wrong"]
        assert not wrong, wrong


@contextmanager
def hands(directory: Path, name: str, per_second: float) -> Iterator[Hands]:
    """A process at work on the store that is mounted at a directory; ended at the end."""
    code = "from tests.endurance.hands import main; main()"
    with python(code, str(os.getpid()), directory, name, str(per_second)) as process:
        yield Hands(process)


class Worker:
    """Does one thing after the other."""

    def __init__(self, directory: str, name: str, per_second: float) -> None:
        self.directory = directory
        self.name = name
        self.per_second = per_second
        self.random = random.Random(name)
        self.own = f"/work/{name}"
        self.count = 0
        self.number = 0
        self.journal = 0
        self.texts: dict[str, bytes] = {}
        self.done = Round()

    def work(self, number: int, seconds: float) -> None:
        """One round."""
        steps: dict[Callable[[], None], int] = {
            self.write: 20,
            self.append: 15,
            self.replace: 12,
            self.rewrite_in_place: 6,
            self.write_through_a_mapping: 3,
            self.edit_by_sed: 2,
            self.rename: 8,
            self.delete: 6,
            self.tree: 3,
            self.note: 10,
            self.read: 12,
            self.look_around: 6,
            self.scratch: 5,
            self.read_what_is_unlinked: 3,
            self.be_refused: 4,
        }
        self.number, self.journal, self.done = number, 0, Round()
        os.makedirs(self.at(self.own), exist_ok=True)
        first = self.random.sample(list(steps), len(steps))  # each once, or a short run might leave one out
        turn = time.monotonic()
        end = turn + seconds
        while first or turn < end:
            time.sleep(max(0.0, turn - time.monotonic()))
            turn = max(turn + self.random.uniform(0.5, 1.5) / self.per_second, time.monotonic())
            self.count += 1
            step = first.pop() if first else self.random.choices(list(steps), list(steps.values()))[0]
            try:
                step()
            except (OSError, AssertionError, subprocess.SubprocessError) as error:
                self.done.wrong.append(f"{self.name}, {step.__name__}: {type(error).__name__}: {error}")
            self.done.operations[step.__name__] += 1
        self.done.files = {path: sha256(text).hexdigest() for path, text in self.texts.items()}

    def clear(self) -> None:
        """Remove everything of ours."""
        self.done, self.texts = Round(), {}
        try:
            shutil.rmtree(self.at(self.own))
        except OSError as error:
            self.done.wrong.append(f"{self.name}, clear: {error}")

    # What it needs

    def at(self, path: str) -> str:
        """Where a memory is mounted."""
        return self.directory + path

    def text(self) -> bytes:
        """A new text, mostly small."""
        line = f"{self.name} {self.count} {self.random.random()}\n"
        return (line * self.random.choice((1, 3, 20, 200))).encode()

    def some(self) -> str:
        """One of the own files."""
        if not self.texts:
            self.write()
        return self.random.choice(list(self.texts))

    # What agents do

    def write(self) -> None:
        """A file, new or as a whole; some are synced."""
        path, text = f"{self.own}/{self.random.randrange(FILES)}.md", self.text()
        with open(self.at(path), "wb") as file:
            file.write(text)
            if self.random.random() < 0.1:
                file.flush()
                os.fsync(file.fileno())
        self.texts[path] = text

    def append(self) -> None:
        """A line more."""
        path, line = self.some(), f"{self.name} {self.count}\n".encode()
        if len(self.texts[path]) < FULL_BYTES:
            with open(self.at(path), "ab") as file:
                file.write(line)
            self.texts[path] += line

    def replace(self) -> None:
        """As editors save: a temporary file, then its new name."""
        path, text = self.some(), self.text()
        with open(self.at(f"{path}.tmp"), "wb") as file:
            file.write(text)
        os.replace(self.at(f"{path}.tmp"), self.at(path))
        self.texts[path] = text

    def rewrite_in_place(self) -> None:
        """Part of a file, through a descriptor that reads and writes."""
        path = self.some()
        text = self.texts[path].replace(self.name.encode(), self.name.upper().encode())
        with open(self.at(path), "r+b") as file:
            assert file.read() == self.texts[path], f"{path} is not as it was written"
            file.seek(0)
            file.write(text)
        self.texts[path] = text

    def write_through_a_mapping(self) -> None:
        """The first byte."""
        path = self.some()
        with open(self.at(path), "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[0:1] = b"#"
            mapped.flush()
        self.texts[path] = b"#" + self.texts[path][1:]

    def edit_by_sed(self) -> None:
        """A process of its own, and a temporary file of its choice."""
        path = self.some()
        subprocess.run(
            ["sed", "-i", f"1s/^.*$/{self.name} by sed {self.count}/", self.at(path)],
            check=True,
            timeout=SED_SECONDS,
            capture_output=True,
        )
        _, newline, rest = self.texts[path].partition(b"\n")
        self.texts[path] = f"{self.name} by sed {self.count}".encode() + newline + rest

    def rename(self) -> None:
        """Another name, sometimes that of another file."""
        path, new = self.some(), f"{self.own}/renamed {self.random.randrange(FILES // 3)}.md"
        if new != path:
            os.rename(self.at(path), self.at(new))
            self.texts[new] = self.texts.pop(path)

    def delete(self) -> None:
        """A file less."""
        path = self.some()
        os.unlink(self.at(path))
        del self.texts[path]

    def tree(self) -> None:
        """Directories that come and go."""
        top = self.at(f"{self.own}/tree")
        for part in ("a/b/c", "a/d", "e"):
            os.makedirs(f"{top}/{part}")
            for name in ("one.md", "two.md"):
                Path(f"{top}/{part}/{name}").write_text(f"{part} {name}\n")
        os.rename(f"{top}/a", f"{top}/e/moved")
        assert sorted(os.listdir(f"{top}/e/moved/b/c")) == ["one.md", "two.md"]
        shutil.rmtree(top)

    def note(self) -> None:
        """A line in the journal of all."""
        line = f"{self.name} {self.count}"
        while True:
            path = self.at(f"/journal/{self.number}-{self.journal}.md")
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                if os.fstat(descriptor).st_size < FULL_BYTES:
                    os.write(descriptor, f"{line}\n".encode())
                    break
                self.journal += 1
            finally:
                os.close(descriptor)
        self.done.lines.append(line)

    def read(self) -> None:
        """A file that nobody else writes, and one that others do."""
        path = self.some()
        assert Path(self.at(path)).read_bytes() == self.texts[path], f"{path} is not as it was written"
        with suppress(FileNotFoundError, IsADirectoryError):
            others = self.at(f"/work/{self.random.choice(os.listdir(self.at('/work')))}")
            Path(others, self.random.choice(os.listdir(others) or ["none"])).read_bytes()

    def look_around(self) -> None:
        """Everything's attributes, as ``find`` asks for them."""
        for at, directories, files in os.walk(self.at(self.own)):
            for name in directories + files:
                os.lstat(os.path.join(at, name))
        found = {f"{self.own}/{name}" for name in os.listdir(self.at(self.own))}
        assert found == self.texts.keys(), (
            f"{self.own} lists {sorted(found ^ self.texts.keys())} too much or too little"
        )

    def scratch(self) -> None:
        """Temporary files of editors, and one in the root's scratch."""
        for path in (self.at(f"{self.own}/.{self.count}.md.swp"), f"{os.path.dirname(self.directory)}/{self.name}.tmp"):
            Path(path).write_bytes(os.urandom(20_000))
            assert os.stat(path).st_size == 20_000
            os.unlink(path)

    def read_what_is_unlinked(self) -> None:
        """A file that only a descriptor holds any more."""
        path, text = self.at(f"{self.own}/unlinked.md"), self.text()
        with open(path, "w+b") as file:
            os.unlink(path)
            file.write(text)
            file.seek(0)
            assert file.read() == text

    def be_refused(self) -> None:
        """What no memory can be: each has to fail, and to leave nothing."""
        path = self.at(f"{self.own}/refused.md")

        def not_text() -> None:
            with open(path, "wb", buffering=0) as file:
                file.write(b"\xff\xfe")

        def too_large() -> None:
            with open(path, "wb", buffering=0) as file:
                file.truncate(MAX_CONTENT_BYTES + 1)

        refusals: tuple[Callable[[], None], ...] = (
            not_text,
            too_large,
            lambda: os.symlink("anywhere", path),
            lambda: os.mkfifo(path),
            lambda: os.rmdir(self.at("/work")),
        )
        for each in refusals:
            try:
                each()
            except OSError as error:
                self.done.refused[errno.errorcode[error.errno or 0]] += 1
            else:
                raise AssertionError("what cannot be was not refused")
            with suppress(FileNotFoundError):
                os.unlink(path)


def main() -> None:
    """Work in rounds, as told on stdin, until that ends."""
    parent, directory, name, per_second = sys.argv[1:]
    die_with_parent(int(parent), 9)
    worker = Worker(directory, name, float(per_second))
    for line in sys.stdin:
        what, number, seconds = json.loads(line)
        if what == "work":
            worker.work(number, seconds)
        else:
            worker.clear()
        sys.stdout.write(json.dumps(vars(worker.done)) + "\n")
        sys.stdout.flush()
