"""Rounds of chance: writers in a mount, by the API and by commands while calls below them fail, and what must be there
afterwards.

Each round makes one or two faults at random, lets the writers work, lifts the faults, and waits until all that was kept
is saved. Every path has one writer, every text is written once. What close, fsync, the API or a command acknowledged is
in the history, and a memory holds the last text that was acknowledged, or one that was written after it.
"""

import errno
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from memfs.cli import exits
from tests.api.harness import Server, serving
from tests.faults.injecting import ALWAYS, SHORT, Call, Fault, Faults
from tests.faults.places import SAVED_SECONDS, FaultySite
from tests.mount.harness import wait_until
from tests.soundness import assert_sound

FILES = 4
"""Paths of each writer."""

KEEPS_NOTHING = ("/api", "/command")
"""How the paths of those begin who are refused for good."""

LARGE = "x" * 60_000
"""Now and then a text is that long, so that the log is moved into the database again and again."""

DAY = 86_400.0

LOG, DATABASE, INDEX = "memfs.db-wal", "memfs.db", "memfs.db-shm"

KINDS: dict[str, tuple[Call, str, tuple[int, ...]]] = {
    "write of the log": (Call.WRITE, LOG, (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, SHORT)),
    "read of the log": (Call.READ, LOG, (errno.EIO,)),
    "sync of the log": (Call.SYNC, LOG, (errno.EIO, errno.ENOSPC)),
    "cut of the log": (Call.TRUNCATE, LOG, (errno.EIO,)),
    "write of the database": (Call.WRITE, DATABASE, (errno.EIO, errno.ENOSPC, SHORT)),
    "read of the database": (Call.READ, DATABASE, (errno.EIO,)),
    "sync of the database": (Call.SYNC, DATABASE, (errno.EIO,)),
    "write of the index": (Call.WRITE | Call.TRUNCATE, INDEX, (errno.EIO, errno.ENOSPC)),
    "mapping of the index": (Call.MAP, INDEX, (errno.ENOMEM,)),
    "open of the database": (Call.OPEN, DATABASE, (errno.EIO, errno.EMFILE)),
    "start of a thread": (Call.THREAD, "", (errno.EAGAIN,)),
}
"""What may fail, on which file, and with which errno. Beside these the clock jumps."""

OFTEN = ["write of the log"] * 6 + ["read of the log"] * 2
"""What is done at each write, and so can fail it."""


@dataclass
class Known:
    """What a writer knows of one path."""

    acknowledged: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    """Written since the last acknowledged one, and refused: kept, perhaps."""


@dataclass
class Outcome:
    """What came of the rounds."""

    rounds: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Rounds:
    """A mount and a server on one store, and faults below both."""

    def __init__(self, at: FaultySite, faults: Faults, server: Server, seed: int) -> None:
        """The store is called ``notes`` and mounted."""
        self._at = at
        self._faults = faults
        self._server = server
        self._chance = random.Random(seed)
        self._notes = at.root / "notes"
        self._worker = at.worker("notes")
        self._texts: dict[str, Known] = {}
        self._lock = threading.Lock()
        self._count = 0
        (store,) = server.get("/v1/memory_stores").ok()["data"]
        self._memories = f"/v1/memory_stores/{store['id']}/memories"
        self.outcome = Outcome()

    # Writing

    def _new_text(self, chance: random.Random) -> str:
        with self._lock:
            self._count += 1
            return f"text {self._count}\n" + (LARGE if chance.random() < 0.2 else "")

    def _note(self, path: str, text: str, said: str) -> None:
        known = self._texts.setdefault(path, Known())
        if said == "ok":
            known.acknowledged.append(text)
            known.later.clear()
        else:
            known.later.append(text)
        with self._lock:
            if said == "ok":
                self.outcome.acknowledged += 1
            else:
                self.outcome.refused[said] += 1

    def _mounted(self, chance: random.Random, name: str) -> None:
        """Write a whole text, and close or sync it."""
        text = self._new_text(chance)
        try:
            descriptor = os.open(self._notes / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        except OSError as error:
            with self._lock:
                self.outcome.refused[f"open {errno.errorcode[error.errno or 0]}"] += 1
            return
        said = "ok"
        try:
            os.write(descriptor, text.encode())
            if chance.random() < 0.3:
                os.fsync(descriptor)
        except OSError as error:
            said = errno.errorcode[error.errno or 0]
        try:
            os.close(descriptor)
        except OSError as error:
            said = errno.errorcode[error.errno or 0]
        else:
            said = "ok"  # whatever fsync has said: it is a version
        self._note(f"/{name}", text, said)

    def _by_api(self, chance: random.Random, name: str) -> None:
        text = self._new_text(chance)
        answer = self._server.post(self._memories, {"path": f"/{name}", "content": text})
        if answer.status == 409:
            memory_id = answer.json["error"]["conflicting_memory_id"]
            answer = self._server.post(f"{self._memories}/{memory_id}", {"content": text})
        self._note(f"/{name}", text, "ok" if answer.status == 200 else str(answer.status))

    def _by_command(self, chance: random.Random, name: str) -> None:
        """A process of its own, which opens the database, while the others have it open."""
        text = self._new_text(chance)
        doing = "update" if f"/{name}" in self._texts and self._texts[f"/{name}"].acknowledged else "create"
        done = self._at.run("memory", doing, "notes", f"/{name}", "--content", text, check=False)
        if done.returncode == exits.INTERNAL:
            self.outcome.wrong.append(f"a command ended with a fault of memfs: {done.stderr}")
        self._note(f"/{name}", text, "ok" if done.returncode == 0 else f"exit {done.returncode}")

    def _work(self, how: Callable[[random.Random, str], None], prefix: str, seed: int, times: int) -> None:
        chance = random.Random(seed)
        for _ in range(times):
            try:
                how(chance, f"{prefix}-{chance.randrange(FILES)}.md")
            except Exception as error:
                self.outcome.wrong.append(f"a writer failed: {error!r}")
                return

    # Faults

    def _make(self, stack: ExitStack) -> None:
        for kind in sorted({self._chance.choice([*KINDS, *OFTEN]) for _ in range(self._chance.choice((1, 2)))}):
            calls, name, numbers = KINDS[kind]
            number = self._chance.choice(numbers)
            after = self._chance.choice((0, 0, 1, 3, 10))
            times = self._chance.choice((1, 3, ALWAYS, ALWAYS))
            fault = stack.enter_context(self._faults.fail(calls, name, number, after=after, times=times))
            stack.callback(self._count_fault, kind, fault)
        if self._chance.random() < 0.2:
            self._faults.set_clock(self._chance.choice((-400, -1, 1, 400)) * DAY)
            stack.callback(self._faults.set_clock, 0)
            self.outcome.injected["jump of the clock"] += 2

    def _count_fault(self, kind: str, fault: Fault) -> None:
        self.outcome.injected[kind] += fault.injected

    def run(self, rounds: int, told: Callable[[int], None] = lambda _: None) -> Outcome:
        """Do so many rounds, unless something is wrong before; ``told`` is told how many are done."""
        for number in range(rounds):
            self._round()
            self.outcome.rounds += 1
            told(number + 1)
            if self.outcome.wrong:
                break
        self._look(thoroughly=True)
        return self.outcome

    def _round(self) -> None:
        writers = [
            threading.Thread(target=self._work, args=(how, prefix, self._chance.randrange(1 << 30), times))
            for how, prefix, times in (
                (self._mounted, "a", 12),
                (self._mounted, "b", 12),
                (self._by_api, "api", 6),
                (self._by_command, "command", 2),
            )
        ]
        with ExitStack() as stack:
            self._make(stack)
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
        if self._chance.random() < 0.7:
            self._close_again()
        self._look(thoroughly=False)

    def _close_again(self) -> None:
        """The next close of a kept text saves it."""
        for path, known in self._texts.items():
            if known.later and not path.startswith(KEEPS_NOTHING):
                try:
                    os.close(os.open(self._at.root / "notes" / path[1:], os.O_WRONLY))
                except OSError as error:
                    self.outcome.wrong.append(f"{path} cannot be closed after the fault: {error}")

    # Looking

    def _look(self, *, thoroughly: bool) -> None:
        """What was acknowledged is there, and what was kept is saved."""

        def settled() -> bool:
            heads = self._at.heads("notes")
            return all(heads.get(path) in self._possible(path, known) for path, known in self._texts.items())

        try:
            wait_until(settled, "all that was kept is saved", SAVED_SECONDS)
        except AssertionError:
            heads = self._at.heads("notes")
            self.outcome.wrong += [
                f"{path} holds {(heads.get(path) or b'')[:30]!r}, not {list(self._possible(path, known))!r:.200}"
                for path, known in self._texts.items()
                if heads.get(path) not in self._possible(path, known)
            ]
        if not Path(f"/proc/{self._worker}").exists():
            self.outcome.wrong.append("the worker died")
        if thoroughly:
            there = Counter((version.path, version.content) for version in self._at.history("notes"))
            self.outcome.wrong += [
                f"{path}: {text[:30]!r} was acknowledged and is not in the history"
                for path, known in self._texts.items()
                for text in known.acknowledged
                if not there[path, text.encode()]
            ]
            assert_sound(self._at.db)

    @staticmethod
    def _possible(path: str, known: Known) -> set[bytes | None]:
        """What a memory may hold. A mount keeps the last text that was refused, and saves it; others keep nothing."""
        last = known.acknowledged[-1].encode() if known.acknowledged else None
        if not known.later:
            return {last}
        if path.startswith(KEEPS_NOTHING):
            return {last, *(text.encode() for text in known.later)}
        return {known.later[-1].encode()}


@contextmanager
def ready(directory: Path, library: Path, seed: int) -> Iterator[Rounds]:
    """A mount and a server for rounds of chance; taken down at the end."""
    faults = Faults(library, directory / "rules")
    at = FaultySite(directory, extra=faults.environment)
    at.store("notes")
    at.mount("notes")
    try:
        with serving(at.db, "--rate", "0", expected_warnings=True, variables=faults.environment) as server:
            yield Rounds(at, faults, server, seed)
    finally:
        at.allow(r"level=(WARNING|ERROR)", "Traceback")
        at.end()
        faults.close()
