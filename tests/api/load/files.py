"""Processes that work with plain files on a mount."""

import os
import random
import time
from dataclasses import dataclass

from tests.api.load.notes import Noted, Notes, digest, is_whole, text_of

FULL_CHARACTERS = 90_000
"""Nothing is appended to a file of this size."""


NAMES = 40
"""Files of each kind in a process's own directory: a store's room is limited."""


@dataclass(frozen=True, slots=True)
class Files:
    """What one process has to do on a mount, from ``begin`` to ``end``, in monotonic time, which processes share."""

    directory: str
    session_id: str
    name: str
    per_second: float
    begin: float
    end: float
    seed: int


class Worker:
    """Works in a directory of its own, and reads what others change over HTTP."""

    def __init__(self, plan: Files) -> None:
        self.plan = plan
        self.notes = Notes()
        self.random = random.Random(f"{plan.seed} {plan.name}")
        self.own = f"/mounts/{plan.name}"
        self.count = 0
        self.texts: dict[str, str] = {}
        os.makedirs(plan.directory + self.own)

    def run(self) -> None:
        """Do one thing after the other, at the speed that is wanted."""
        steps = (self.write, self.append, self.rename, self.save, self.delete, self.read, self.read_others)
        weights = (30, 15, 10, 10, 5, 15, 15)
        # Each once, however long it takes, or a short run might leave one out.
        first = self.random.sample(steps, len(steps))
        turn = self.plan.begin
        while (turn := max(turn + 1 / self.plan.per_second, time.monotonic())) < self.plan.end or first:
            time.sleep(max(0.0, turn - time.monotonic()))
            self.count += 1
            step = first.pop() if first else self.random.choices(steps, weights)[0]
            began = time.perf_counter()
            try:
                step()
            except (OSError, AssertionError) as error:
                self.notes.wrong.append(f"{self.plan.name}, {step.__name__}: {type(error).__name__}: {error}")
            self.notes.seconds.append((f"file {step.__name__.replace('_', ' ')}", time.perf_counter() - began))
        self.notes.files = {path: digest(text) for path, text in self.texts.items()}

    def at(self, path: str) -> str:
        """Where a memory is mounted."""
        return self.plan.directory + path

    def noted(self, operation: str, path: str) -> None:
        """Whatever was closed, renamed or removed without an error."""
        content = None if operation == "deleted" else digest(self.texts[path])
        self.notes.writes.append(Noted(self.plan.session_id, operation, path, content))

    def some(self) -> str:
        """One of the own files."""
        if not self.texts:
            self.write()
        return self.random.choice(list(self.texts))

    def text(self) -> str:
        """A new text."""
        return text_of(self.plan.name, self.count, self.random)

    def write(self) -> None:
        """A file, new or as a whole; some are synced."""
        path, text = f"{self.own}/{self.random.randrange(NAMES)}.md", self.text()
        with open(self.at(path), "w") as file:
            file.write(text)
            if self.random.random() < 0.1:
                file.flush()
                os.fsync(file.fileno())
        operation = "modified" if path in self.texts else "created"
        self.texts[path] = text
        self.noted(operation, path)

    def append(self) -> None:
        """A line more."""
        path, line = self.some(), f"{self.plan.name} {self.count}\n"
        if len(self.texts[path]) > FULL_CHARACTERS:
            return
        with open(self.at(path), "a") as file:
            file.write(line)
        self.texts[path] += line
        self.noted("modified", path)

    def rename(self) -> None:
        """Another name."""
        path, new = self.some(), f"{self.own}/renamed {self.random.randrange(NAMES)}.md"
        if new in self.texts:
            return
        os.rename(self.at(path), self.at(new))
        self.texts[new] = self.texts.pop(path)
        self.noted("modified", new)

    def save(self) -> None:
        """As editors save: a temporary file, then its new name."""
        path, text = self.some(), self.text()
        with open(self.at(f"{path}~"), "w") as file:
            file.write(text)
        os.replace(self.at(f"{path}~"), self.at(path))
        self.texts[path] = text
        self.noted("modified", path)

    def delete(self) -> None:
        """A file less."""
        path = self.some()
        os.unlink(self.at(path))
        del self.texts[path]
        self.noted("deleted", path)

    def read(self) -> None:
        """A file that nobody else writes."""
        path = self.some()
        with open(self.at(path)) as file:
            assert file.read() == self.texts[path], f"{path} is not as it was written"

    def read_others(self) -> None:
        """A file that clients change, rename and delete meanwhile.

        Where one was deleted, another's rename below it makes a directory of its name.
        """
        directory = self.at("/notes")
        name = self.random.choice(os.listdir(directory))
        try:
            with open(f"{directory}/{name}") as file:
                text = file.read()
        except (FileNotFoundError, IsADirectoryError):
            return
        assert is_whole(text), f"/notes/{name} is a mixture"


def run_files(plan: Files) -> Notes:
    """One process on a mount."""
    worker = Worker(plan)
    worker.run()
    return worker.notes
