"""What the database says of a part of a store, read beside the mount that writes it."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True)
class Head:
    """A live memory."""

    memory: str
    version: str
    text: bytes


@dataclass(frozen=True)
class Version:
    """A row of a memory's history; ``text`` is None where it was deleted."""

    sequence: int
    id: str
    memory: str
    operation: str
    path: str
    text: bytes | None


@dataclass(frozen=True)
class Database:
    """A database that only this test's mount writes."""

    rows: sqlite3.Connection

    def heads(self, below: str) -> dict[str, Head]:
        """Live memories below a directory of the store, by their paths from there."""
        found = self.rows.execute(
            "SELECT memories.path, memories.id, head_version_id, bytes, contents.sha256 FROM memories"
            " JOIN memory_versions AS head ON head.id = head_version_id JOIN contents ON contents.id = head.content_id"
            " WHERE memories.path >= ? AND memories.path < ?",
            (f"{below}/", f"{below}0"),
        )
        heads = {}
        for path, memory, version, text, digest in found:
            assert sha256(text).hexdigest() == digest
            heads[path.removeprefix(below)] = Head(memory, version, text)
        return heads

    def last(self) -> int:
        """The sequence number of the newest version."""
        (found,) = self.rows.execute("SELECT max(sequence) FROM memory_versions").fetchone()
        return found or 0

    def versions(self, after: int) -> list[Version]:
        """All versions after a sequence number, oldest first."""
        return [
            Version(*row)
            for row in self.rows.execute(
                "SELECT sequence, memory_versions.id, memory_id, operation, path, bytes FROM memory_versions"
                " LEFT JOIN contents ON contents.id = content_id WHERE sequence > ? ORDER BY sequence",
                (after,),
            )
        ]


@contextmanager
def reading(path: Path) -> Iterator[Database]:
    """Read a database while others write it."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)) as rows:
        database = Database(rows)
        database.last()  # SQLite opens the rest of its files with the first question
        yield database


def check_history(versions: list[Version], heads: dict[str, Head]) -> None:
    """Each memory's versions are a life, each another than the one before, up to its head."""
    lives: dict[str, list[Version]] = defaultdict(list)
    for version in versions:
        lives[version.memory].append(version)
    live = {head.memory: (path, head) for path, head in heads.items()}
    assert live.keys() <= lives.keys()
    for memory, life in lives.items():
        assert life[0].operation == "created", life
        for before, after in pairwise(life):
            assert before.operation != "deleted", f"a life after death: {before}, {after}"
            assert after.operation in ("modified", "deleted"), f"{before}, {after}"
            assert (before.path, before.text) != (after.path, after.text), f"a version without a change: {after}"
            assert before.id < after.id
        end = life[-1]
        assert (end.operation == "deleted") == (end.text is None) == (memory not in live), end
        if memory in live:
            path, head = live[memory]
            assert end.id == head.version
            assert end.text == head.text
            assert end.path.endswith(path)
