"""Rounds of crashes: all write, one or two are killed at a moment of chance, and afterwards everything is looked at."""

import os
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from memfs.engine.checking import check
from memfs.engine.copying import COMPANIONS
from memfs.model.errors import NotFound
from tests.crashes import journal
from tests.crashes.scene import Hand, Mounts, Scene, scene
from tests.crashes.worlds import Oracle, Version
from tests.crashes.writing import BACK_SECONDS, COMMON
from tests.mount.harness import kill, wait_until
from tests.mount.together.checks import tree

WINDOW_SECONDS = 0.6
"""How long all write in a round."""

VICTIMS = {
    "worker": 6,
    "supervisor": 3,
    "everything of a mount": 2,
    "everything, and then its mount command": 1,
    "server": 3,
    "writer": 4,
}
"""Who is killed how often, beside the commands that their writer kills itself."""

ACTORS = {"mount": "session_actor", "api": "api_actor", "command": "user_actor"}

Row = tuple[Any, ...]

Struck = tuple[object, Callable[[], None]]
"""What was hit, and what starts it again."""


@dataclass
class Figures:
    """What was done, and what came of it."""

    rounds: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    """By kind and result: acknowledged, failed or in flight."""
    errors: Counter[str] = field(default_factory=Counter)
    versions: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        """Those of other rounds too."""
        self.rounds += other.rounds
        self.killed += other.killed
        self.operations += other.operations
        self.errors += other.errors
        self.versions += other.versions
        self.seconds += other.seconds
        self.wrong += other.wrong


class Rounds:
    """Plays rounds on a scene."""

    def __init__(self, scene: Scene, seed: str) -> None:
        self.scene = scene
        self.random = random.Random(seed)
        self.figures = Figures()
        self.rows: list[Row] = []
        """All versions, as they were seen first."""
        self.oracles: dict[str, Oracle] = {}
        self._disturbed: list[object] = []
        self._looked_at: dict[str, int] = {}
        self._backups: set[Path] = set()
        self._pool = ThreadPoolExecutor(4)

    # Killing

    def _victims(self) -> list[tuple[float, str, Callable[[], Struck]]]:
        """Moments, words, and what kills."""
        kinds = self.random.choices(list(VICTIMS), list(VICTIMS.values()), k=self.random.choice([1, 2]))
        chosen = []
        # Who mounts again is not hit while at it, which its command would report, but where that is what is tried.
        left = self.random.sample(self.scene.mounts, len(self.scene.mounts))
        for kind in dict.fromkeys(kinds):
            moment = self.random.uniform(0, WINDOW_SECONDS)
            mounts = left.pop()
            ways: dict[str, Callable[[], Struck]] = {
                "worker": partial(self._kill_worker, mounts, self.random.choice(mounts.stores)),
                "supervisor": partial(self._kill_supervisor, mounts),
                "everything of a mount": partial(self._kill_all, mounts),
                "everything, and then its mount command": partial(self._kill_starting, mounts),
                "server": self._kill_server,
                "writer": partial(self._kill_writer, self.random.choice(self.scene.hands)),
            }
            chosen.append((moment, kind, ways[kind]))
        return sorted(chosen, key=lambda each: each[0])

    def _kill_worker(self, mounts: Mounts, store: str) -> Struck:
        if (pid := mounts.workers().get(store)) is not None:
            kill(pid)
        return mounts, mounts.wait

    def _kill_supervisor(self, mounts: Mounts) -> Struck:
        kill(mounts.pid())
        return mounts, mounts.restart

    def _kill_all(self, mounts: Mounts) -> Struck:
        supervisor, workers = mounts.pid(), mounts.workers().values()
        with suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGSTOP)  # so that it starts nobody anew in between
        for pid in workers:
            kill(pid)
        kill(supervisor)
        return mounts, mounts.restart

    def _kill_starting(self, mounts: Mounts) -> Struck:
        """Then the command that mounts again is killed too, at a moment of chance, and given once more."""
        self._kill_all(mounts)
        after = self.random.uniform(0, 1.0)

        def restart() -> None:
            mounts.start_and_kill(after)
            mounts.start_after_all()
            mounts.wait()

        return mounts, restart

    def _kill_server(self) -> Struck:
        self.scene.server.kill()
        return self.scene.server, self.scene.server.start

    def _kill_writer(self, hand: Hand) -> Struck:
        hand.kill()
        return hand, lambda: None

    # A round

    def play(self) -> list[str]:
        """One round; returns what is wrong after it."""
        began = time.monotonic()
        self._disturbed = []
        for hand in self.scene.hands:
            hand.tell(WINDOW_SECONDS)
        restarts: list[Future[None]] = []
        for moment, kind, strike in self._victims():
            time.sleep(max(0.0, began + moment - time.monotonic()))
            self.figures.killed[kind] += 1
            struck, restart = strike()
            self._disturbed.append(struck)
            restarts.append(self._pool.submit(restart))
        found = []
        for restarted in restarts:
            try:
                restarted.result(2 * BACK_SECONDS)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                found.append(f"what was killed did not come back: {error}")
        for hand in list(self.scene.hands):
            if hand.hear(WINDOW_SECONDS + 2 * BACK_SECONDS) != "done":
                assert hand.process.poll() is not None
                assert hand.process.stderr is not None
                hand.process.wait(BACK_SECONDS)
        found += self._look()
        for hand in list(self.scene.hands):
            found += self._refused_elsewhere(hand)
            if not hand.alive:
                if hand.process.returncode != -signal.SIGKILL:
                    found.append(f"{hand.work.name} ended by itself: {hand.errors()}")
                self.scene.replace(hand)
        self.figures.rounds += 1
        self.figures.seconds += time.monotonic() - began
        self.figures.wrong += found
        return found

    # Looking

    def _refused_elsewhere(self, hand: Hand) -> Iterator[str]:
        """What reported an error although nobody had done it anything."""
        if not os.path.exists(hand.work.journal):
            return
        disturbed = any(hand.place is struck for struck in self._disturbed)
        operations = list(journal.read(Path(hand.work.journal)))
        for each in operations[self._looked_at.get(hand.work.name, 0) :]:
            killed = hand.work.kind == "command" and each.told.get("error") == "killed"
            if each.done is False and not disturbed and not killed:
                yield f"{hand.work.name}: {each}, and nothing that it works with was killed"
        self._looked_at[hand.work.name] = len(operations)

    def _look(self) -> Iterator[str]:
        checked = check(self.scene.db)
        yield from (f"memfs check: {violation}" for violation in checked.violations)
        rows, heads, kept = self._read()
        for before, now in zip(self.rows, rows, strict=False):
            if before != now:
                yield f"a version was changed: {before[:6]} is now {now[:6]}"
        if len(rows) < len(self.rows):
            yield f"{len(self.rows) - len(rows)} versions are gone"
        news = rows[len(self.rows) :]
        self.rows = rows
        names = {work.name: work for work, _ in self.scene.works}
        new: dict[str, list[Version]] = {name: [] for name in names}
        for row in news:
            _, _, store, _, operation, path, content, actor, *_ = row
            owner = path.split("/")[1]
            if owner in names:
                new[owner].append(Version(operation, path, None if content is None else content.decode()))
                if ACTORS[names[owner].kind] != actor:
                    yield f"{path} was written by a {actor}"
            elif owner != COMMON:
                yield f"nobody wrote {operation} {path} in {store}"
        for (store, path), _ in heads.items():
            if path.split("/")[1] not in (*names, COMMON):
                yield f"nobody made {path} in {store}"
        joined: dict[str, list[journal.Operation]] = {}
        for work, store in self.scene.works:
            operations = list(journal.read(Path(work.journal))) if os.path.exists(work.journal) else []
            joined.setdefault(self.scene.stores[store], []).extend(each for each in operations if each.kind == "join")
            oracle = self.oracles.setdefault(work.name, Oracle(work.name))
            top = f"/{work.name}"
            mine = {
                path: text.decode()
                for (of, path), text in heads.items()
                if of == self.scene.stores[store] and path.startswith(f"{top}/")
            }
            yield from oracle.look(operations, new[work.name], mine, kept[self.scene.stores[store]])
        for store, operations in joined.items():
            yield from _look_at_common(operations, [row for row in rows if row[2] == store], heads, store)
        yield from self._look_at_files()

    def _read(self) -> tuple[list[Row], dict[tuple[str, str], bytes], dict[str, set[str]]]:
        """All versions in their order, the heads by store and path, and the directories of each store."""
        with closing(sqlite3.connect(f"{self.scene.db.as_uri()}?mode=ro", uri=True)) as db:
            db.execute("BEGIN")
            rows = db.execute(
                "SELECT sequence, v.id, store_id, memory_id, operation, path, bytes, created_by_type, created_by_id,"
                " created_at, content_size_bytes, content_sha256 FROM memory_versions AS v"
                " LEFT JOIN contents ON contents.id = content_id ORDER BY sequence"
            ).fetchall()
            heads = {
                (store, path): content
                for store, path, content in db.execute(
                    "SELECT store_id, path, bytes FROM memories JOIN contents ON contents.id = content_id"
                )
            }
            kept: dict[str, set[str]] = {store: set() for store in self.scene.stores.values()}
            for store, path in db.execute("SELECT store_id, path FROM kept_directories"):
                kept[store].add(path)
        for store, path in [*heads, *((store, path) for store, paths in kept.items() for path in set(paths))]:
            above = path.rpartition("/")[0]
            while above:
                kept[store].add(above)
                above = above.rpartition("/")[0]
        return rows, heads, kept

    def _look_at_files(self) -> Iterator[str]:
        """Nothing beside the database but what SQLite keeps there, and of backups those that were finished."""
        name = self.scene.db.name
        for found in sorted(os.listdir(self.scene.db.parent)):
            if found not in (name, *(name + end for end in COMPANIONS[:2])):
                yield f"{found} is beside the database"
        for work, _ in self.scene.works:
            if work.kind != "command" or not os.path.exists(work.journal):
                continue
            for each in journal.read(Path(work.journal)):
                if each.kind == "backup":
                    yield from self._look_at_backup(Path(each.given["file"]), acknowledged=each.done is True)

    def _look_at_backup(self, file: Path, *, acknowledged: bool) -> Iterator[str]:
        """One that was acknowledged is there; each that is there is whole. What a killed one leaves is documented."""
        try:
            checked = check(file)
        except NotFound:
            if acknowledged and file not in self._backups:
                yield f"the backup {file.name} is not there"
            return
        yield from (f"the backup {file.name}: {violation}" for violation in checked.violations)
        self._backups.add(file)
        file.unlink()
        for part in file.parent.glob(f".{file.name}.*"):
            part.unlink()

    # The end

    def finish(self) -> list[str]:
        """End everything as a user does; returns what is wrong or left."""
        found = [said for hand in self.scene.hands if (said := hand.end()) is not None]
        self.scene.hands.clear()
        found += self._views()
        found += self.scene.server.end()
        for mounts in self.scene.mounts:
            mounts.end()
            found += mounts.problems
        found += self._look()
        checked = self.scene.mounts[0].run("check", check=False)
        if checked.returncode:
            found.append(f"memfs check: {checked.stdout} {checked.stderr}")
        self.figures.versions += len(self.rows)
        for work, _ in self.scene.works:
            for each in journal.read(Path(work.journal)):
                result = {True: "acknowledged", False: "failed", None: "in flight"}[each.done]
                self.figures.operations[f"{work.kind} {each.kind}: {result}"] += 1
                if each.done is False:
                    self.figures.errors[re.sub(r"\d+ \{.*", "an error", str(each.told["error"]))[:60]] += 1
        self.figures.wrong += found
        self._pool.shutdown()
        return found

    def _views(self) -> Iterator[str]:
        """Each mount shows what the database holds."""
        _, heads, _ = self._read()
        for mounts in self.scene.mounts:
            for store in mounts.stores:
                expected = {path: text for (of, path), text in heads.items() if of == self.scene.stores[store]}
                try:
                    wait_until(partial(_shows, mounts.at(store), expected), "the mount to show it")
                except AssertionError:
                    seen = tree(mounts.at(store))
                    paths = {path for path in seen.keys() | expected.keys() if seen.get(path) != expected.get(path)}
                    yield f"{mounts.at(store)} shows something else at {sorted(paths)}"


def _shows(directory: Path, expected: dict[str, bytes]) -> bool:
    return tree(directory) == expected


def _look_at_common(
    operations: list[journal.Operation], rows: list[Row], heads: dict[tuple[str, str], bytes], store: str
) -> Iterator[str]:
    """Files to which many append: each line that was acknowledged is there once, one in flight at most once."""
    expected: dict[str, dict[str, bool]] = {}
    for each in operations:
        line = journal.text_of(each.given["token"], 1)
        expected.setdefault(each.given["path"], {})[line] = each.done is True
    top = f"/{COMMON}/"
    for row in rows:
        if row[5].startswith(top):
            if row[6] is None:
                yield f"{row[5]} was deleted"
                continue
            for line, count in Counter(row[6].decode().splitlines(keepends=True)).items():
                if line not in expected.get(row[5], {}):
                    yield f"{row[5]} has a line that nobody wrote: {line!r}"
                elif count > 1:
                    yield f"{row[5]} has a line {count} times: {line!r}"
    for path, lines in expected.items():
        there = heads.get((store, path), b"").decode()
        for line, acknowledged in lines.items():
            if acknowledged and line not in there:
                yield f"{path} lacks {line!r}, which was acknowledged"


def play(
    directory: Path, seed: int, rounds: int, told: Callable[[int, list[str]], None] = lambda _, __: None
) -> Figures:
    """So many rounds on a new scene in an empty directory, then its end; stops after a round with which something is
    wrong. ``told`` is called after each.
    """
    began = time.monotonic()
    with scene(directory, str(seed)) as made:
        played = Rounds(made, str(seed))
        for number in range(rounds):
            wrong = played.play()
            told(number, wrong)
            if wrong:
                break
        else:
            played.finish()
    played.figures.seconds = time.monotonic() - began
    return played.figures
