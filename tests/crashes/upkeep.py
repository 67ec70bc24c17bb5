"""What is recorded of commands that replace and remove: imports, a store put back, versions pruned, a store deleted, a
damage repaired. Here a history is no prefix of what it becomes, so it is told in chapters, one after each command."""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from memfs.engine.checking import check
from memfs.model import ids
from memfs.model.errors import MemfsError
from tests.crashes.lives import STORE, Life, Stage, staged
from tests.crashes.power import History, Promised, Row, rows_of
from tests.mount.harness import LIMIT
from tests.processes import PYTHON, environment

OLD_MEMORIES, OLD_VERSIONS = 20, 120
"""More versions than are pruned in one transaction."""

DAMAGE = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as db:
    db.execute("UPDATE memory_versions SET content_size_bytes = content_size_bytes + 1 WHERE id = ?", sys.argv[2:])
db.close()
"""


@dataclass(frozen=True)
class Chapter:
    """What is there after a command; ``gradual``: the command took several transactions to come there."""

    rows: list[Row]
    gradual: bool = False


@dataclass
class Chapters(History):
    """States that follow each other. A loss of power may leave any of them, whole, and nothing else."""

    chapters: list[Chapter] = field(default_factory=list)
    damage: Row = ()
    """The row of a version while it was damaged."""
    planted: list[str] = field(default_factory=list)
    """What a check finds meanwhile."""
    before_repair: list[Row] = field(default_factory=list)
    after_damage: str = ""
    """The version that was made between the damage and its repair."""

    def state(self, rows: list[Row]) -> str:
        """How far it came."""
        return "the whole history" if rows == self.chapters[-1].rows else "a part of the history"

    def differs(self, rows: list[Row], promised: Promised) -> Iterator[str]:
        """It must be one of the states. What was promised of removed texts is looked for in the files."""
        if promised.versions:
            raise ValueError("no command promises that a version survives a loss of power")
        if not any(self._fits(rows, number) for number in range(len(self.chapters))):
            yield f"{len(rows)} versions, as there never were at any time"

    def _fits(self, rows: list[Row], number: int) -> bool:
        chapter = self.chapters[number]
        if rows == chapter.rows:
            return True
        if not chapter.gradual:
            return False
        before, after, there = set(self.chapters[number - 1].rows), set(chapter.rows), set(rows)
        return before & after <= there <= before | after

    def damaged(self, rows: list[Row], violations: list[str]) -> Iterator[str]:
        """A check finds the damage as long as it is there, and nothing else."""
        expected = self.planted if self.damage in rows else []
        if violations != expected:
            yield f"a check finds {violations} instead of {expected}"

    def beside(self, directory: Path, rows: list[Row]) -> Iterator[str]:
        """The copy from before a repair is whole, and there once anything was repaired."""
        copies = [path for path in directory.rglob("*.before-repair-*") if path.name.endswith("Z")]
        for copy in copies:
            try:
                if [str(each) for each in check(copy).violations] != self.planted or rows_of(
                    copy
                ) != self.before_repair:
                    yield f"the copy {copy.name} is not what the database was"
            except MemfsError as error:
                yield f"the copy {copy.name} is not whole: {error}"
        if not copies and self.damage not in rows and self.after_damage in {row[1] for row in rows}:
            yield "it was repaired, and there is no copy of what it was"


def of_upkeep(directory: Path, seed: int) -> Life:
    """All that takes something away, with commands alone."""
    told = Chapters([])
    with staged(directory, "data/memfs/memfs.db", seed) as (stage, life):
        told.chapters.append(Chapter([]))

        def run(*arguments: str | Path, gradual: bool = False) -> str:
            said = stage.run(*arguments)
            stage.diary.done()
            told.chapters.append(Chapter(rows_of(stage.database), gradual))
            return said

        files = _files(stage, directory / "files")
        stage.run("store", "create", STORE)
        run("store", "import", STORE, directory / "files")
        point = told.chapters[-1].rows[-1][1]
        for path in files[::2]:
            path.write_text(stage.text(40))
        files[1].rename(files[1].with_suffix(".new"))
        run("store", "import", STORE, directory / "files")
        run("store", "restore", STORE, "--at", point)

        stage.run("store", "create", "old")
        run("store", "import", "old", _old_history(stage, directory / "old.jsonl"))
        run("version", "prune", "old", "--older-than", "30d", "--yes", gradual=True)

        stage.run("store", "create", "doomed")
        doomed = stage.text(20)
        (directory / "files" / "doomed.md").write_text(doomed)
        run("store", "import", "doomed", directory / "files")
        run("store", "delete", "doomed", "--yes")
        stage.diary.redacted("the deleted store", doomed)

        _repair(stage, told, run)
    told.rows = told.chapters[-1].rows
    life.history = told
    return life


def _files(stage: Stage, top: Path) -> list[Path]:
    paths = [top / f"{number % 5}" / f"{number}.md" for number in range(30)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stage.text(stage.chance.choice([1, 30, 400])))
    return paths


def _old_history(stage: Stage, path: Path) -> Path:
    """A history of years ago, as an export writes it."""
    with path.open("w") as file:
        for number in range(OLD_MEMORIES * OLD_VERSIONS):
            memory, version = number % OLD_MEMORIES, number // OLD_MEMORIES
            text = stage.text(2)
            said = {
                "id": f"{ids.MEMORY_VERSION}{number:026}",
                "type": "memory_version",
                "memory_store_id": f"{ids.MEMORY_STORE}{0:026}",
                "memory_id": f"{ids.MEMORY}{memory:026}",
                "operation": "modified" if version else "created",
                "path": f"/old/{memory}.md",
                "content": text,
                "content_size_bytes": len(text.encode()),
                "content_sha256": sha256(text.encode()).hexdigest(),
                "created_at": f"2020-01-01T{version // 60:02}:{version % 60:02}:{memory:02}Z",
                "created_by": {"type": "user_actor", "user_id": "somebody"},
                "redacted_at": None,
                "redacted_by": None,
            }
            file.write(json.dumps(said) + "\n")
    return path


def _repair(stage: Stage, told: Chapters, run: Callable[..., str]) -> None:
    """Damage a version, work on all the same, and repair it."""
    victim = told.chapters[-1].rows[3][1]
    command = [*PYTHON, "-c", DAMAGE, stage.database, victim]
    subprocess.run(command, check=True, timeout=LIMIT, env=environment(**stage.recorder.variables))
    told.chapters.append(Chapter(rows_of(stage.database)))
    (told.damage,) = set(told.chapters[-1].rows) - set(told.chapters[-2].rows)
    told.planted = [str(each) for each in check(stage.database).violations]
    run("memory", "create", STORE, "/after-damage.md", "--content", stage.text(3))
    told.before_repair = told.chapters[-1].rows
    told.after_damage = told.before_repair[-1][1]
    run("check", "--repair")
    run("memory", "create", STORE, "/in-the-end.md", "--content", stage.text(3))
