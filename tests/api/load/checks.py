"""Looking back: the database, the API, the mounts and the logs against what was noted."""

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from memfs.engine.checking import check
from memfs.model.records import Actor
from memfs.workspace import Workspace
from tests.api.harness import Server
from tests.api.load.clients import JOURNAL
from tests.api.load.notes import Noted, Notes, digest

PRELOADER = Actor("user_actor", "preloader")
"""Who has made what was there before the load."""

SETTLE_SECONDS = 20.0
"""How long mounts get to show the last change."""


def opened(database: Path) -> sqlite3.Connection:
    """A connection that only reads."""
    connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    return connection


def version_ids(database: Path, store: str) -> tuple[list[str], int]:
    """The store's versions in their order, and the number of the last."""
    with closing(opened(database)) as connection:
        rows = connection.execute(
            "SELECT id, sequence FROM memory_versions WHERE store_id = ? ORDER BY sequence", (store,)
        ).fetchall()
    return [row["id"] for row in rows], rows[-1]["sequence"]


def check_database(database: Path) -> Iterator[str]:
    """Each invariant holds."""
    yield from (str(each) for each in check(database).violations)


def check_versions(database: Path, notes: Notes) -> Iterator[str]:
    """Each write that was acknowledged is a version, as it was acknowledged, and there is no other."""
    with closing(opened(database)) as connection:
        rows = connection.execute("SELECT * FROM memory_versions WHERE created_by_id != ?", (PRELOADER.id,)).fetchall()
    unclaimed = {row["id"]: row for row in rows}
    redacted = set(notes.redacted)
    for write in notes.writes:
        if write.version_id is None:
            continue
        row = unclaimed.pop(write.version_id, None)
        if row is None:
            yield f"lost, or one version for two writes: {write}"
            continue
        rest = (None, None) if write.version_id in redacted else (write.path, write.sha256)
        if (row["memory_id"], row["operation"], row["path"], row["content_sha256"]) != (
            write.memory_id,
            write.operation,
            *rest,
        ):
            yield f"stored otherwise: {write} as {tuple(row)}"
        if (row["redacted_at"] is not None) != (write.version_id in redacted):
            yield f"wrongly redacted, or not: {write}"
        if (row["created_by_id"] != write.actor) if write.actor else (row["created_by_type"] != "user_actor"):
            yield f"of somebody else: {write} by {row['created_by_id']}"
    wanted = Counter(_known(write) for write in notes.writes if write.version_id is None)
    found = Counter(_knowable(row) for row in unclaimed.values())
    yield from (f"lost: {each}" for each in (wanted - found).elements())
    yield from (f"nobody has written this: {each}" for each in (found - wanted).elements())


Told = tuple[str | None, ...]


def _known(write: Noted) -> Told:
    return write.actor, write.operation, write.path, write.sha256, write.memory_id


def _knowable(row: sqlite3.Row) -> Told:
    """What its writer can know of a version whose id it was not told."""
    if row["created_by_type"] == "session_actor":
        return row["created_by_id"], row["operation"], row["path"], row["content_sha256"], None
    if row["operation"] == "deleted":
        return row["created_by_id"], row["operation"], None, None, row["memory_id"]
    return tuple(row)


def check_texts(database: Path, stores: tuple[str, ...], notes: Notes) -> Iterator[str]:
    """Each line of the journals is there once, and files that nobody else writes are as they were left."""
    with Workspace.open(database, read_only=True) as workspace:
        for store in stores:
            journal = workspace.memories.get(store, JOURNAL).content or b""
            lines = sorted(line for of, line in notes.lines if of == store)
            if sorted(journal.decode().splitlines(keepends=True)) != lines:
                yield f"the journal of {store} has not exactly the {len(lines)} lines that were added"
        own = {memory.path: memory.content_sha256 for memory in workspace.memories.list(stores[0], "/mounts/")}
    for path, content in sorted(own.items() ^ notes.files.items()):
        yield f"not as it was left through a mount: {path} {content}"


def check_mounts(server: Server, store: str, directories: list[Path]) -> Iterator[str]:
    """Mounts show exactly what the API lists."""
    listed: dict[str, str] = {}
    page = None
    while page is None or page["next_page"] is not None:
        query = {"limit": 100} | ({} if page is None else {"page": page["next_page"]})
        page = server.get(f"/v1/memory_stores/{store}/memories", **query).ok()
        listed |= {item["path"]: item["content_sha256"] for item in page["data"]}
    for directory in directories:
        deadline = time.monotonic() + SETTLE_SECONDS
        # A mount hears of the last changes a moment after they were acknowledged.
        while (shown := _files(directory)) != listed and time.monotonic() < deadline:
            time.sleep(0.05)
        for path, content in sorted(shown.items() ^ listed.items()):
            yield f"in {directory} not what the API lists: {path} {content}"


def _files(directory: Path) -> dict[str, str]:
    found = {}
    for above, _, names in os.walk(directory):
        for name in names:
            path = Path(above, name)
            found[f"/{path.relative_to(directory)}"] = digest(path.read_bytes())
    return found


def check_log(log: Path) -> Iterator[str]:
    """Nothing above INFO."""
    for line in log.read_text().splitlines():
        if (" level=" in line and " level=INFO " not in line) or "Traceback" in line:
            yield f"in the log {log.name}: {line}"
