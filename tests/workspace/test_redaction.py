"""After a redaction, or the deletion of a store, no byte of it is in any file of the database.

Secrets are made so that searching for them is cheap: a marker of 6 bytes stands at every 12th or 13th byte, so every
window of 24 bytes holds a whole marker. Hashes are searched for by all their windows of 24 digits.
"""

import os
import random
import re
import resource
import signal
import sqlite3
import string
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memfs.engine import SqliteEngine, opening
from memfs.model import ids
from memfs.model.errors import Busy, NotFound, StorageFailed
from memfs.model.mutations import Create, Delete, Mutation, Update
from memfs.model.records import Actor, Store, now
from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource
from tests.processes import finish, hear, python, tell

ALICE = Actor("user_actor", "alice")
MARKS = {"ascii": ("S3cr3t", string.ascii_letters), "not ascii": ("тай", "бвгджзклмнпрстфхц")}
"""What a block of 12 bytes begins with, and what fills it."""

WINDOW = 24


def secret(random: random.Random, alphabet: str, size: int) -> str:
    """A text of about ``size`` bytes, of which every window of 24 bytes holds the marker."""
    marker, letters = MARKS[alphabet]
    fill = (12 - len(marker.encode())) // len(letters[0].encode())
    return "".join(marker + "".join(random.choices(letters, k=fill)) for _ in range(size // 12))


def secret_path(random: random.Random, alphabet: str) -> str:
    return f"/{secret(random, alphabet, 60)}/{secret(random, alphabet, 60)}"


def test_every_window_of_a_secret_holds_its_marker() -> None:
    for alphabet, (marker, _) in MARKS.items():
        for text in (secret(random.Random(1), alphabet, 1_200), secret_path(random.Random(2), alphabet)):
            content = text.encode()
            windows = [content[start : start + WINDOW] for start in range(len(content) - WINDOW + 1)]
            assert all(marker.encode() in window for window in windows)


@dataclass
class Search:
    """What must not be in the files of a database."""

    db: Path
    hashes: set[str] = field(default_factory=set)
    words: set[bytes] = field(default_factory=set)

    def find(self) -> list[str]:
        """What there is of it: where, and what."""
        windows = {each[start : start + WINDOW] for each in self.hashes for start in range(64 - WINDOW + 1)}
        found = []
        for path in sorted(self.db.parent.iterdir()):
            data = path.read_bytes()
            for marker, _ in MARKS.values():
                found += [f"{path.name}: {marker}"] * data.count(marker.encode())
            for run in re.findall(rb"[0-9a-f]{%d,}" % WINDOW, data):
                digits = run.decode()
                if any(digits[start : start + WINDOW] in windows for start in range(len(digits) - WINDOW + 1)):
                    found.append(f"{path.name}: {digits}")
            found += [f"{path.name}: {word!r}" for word in self.words if word in data]
        return found


class Crowd:
    """Other memories, with random texts and names, that come, change, move and go."""

    def __init__(self, workspace: Workspace, store: Store, seed: int) -> None:
        self.workspace = workspace
        self.store = store
        self.random = random.Random(seed)
        self.live: list[str] = []

    def text(self) -> bytes:
        size = self.random.choice([0, 20, 200, 900, 2_000, 4_100, 9_000])
        return "".join(self.random.choices(string.ascii_uppercase + "\n", k=size)).encode()

    def path(self) -> str:
        name = "".join(self.random.choices(string.ascii_uppercase, k=self.random.randrange(4, 60)))
        return f"/{self.random.randrange(40)}/{name}"

    def moves(self, batches: int, size: int = 40) -> None:
        """Some of everything."""
        for _ in range(batches):
            batch: list[Mutation] = []
            going = set(self.random.sample(self.live, min(len(self.live), size // 2)))
            for memory_id in sorted(going):
                match self.random.randrange(6):
                    case 0 | 1:
                        batch.append(Update(memory_id, content=self.text()))
                    case 2:
                        batch.append(Update(memory_id, path=self.path()))
                    case 3 | 4:
                        batch.append(Delete(memory_id))
                        self.live.remove(memory_id)
                    case _:
                        batch.append(Update(memory_id, content=self.text(), path=self.path()))
            for _ in range(size // 2):
                self.live.append(ids.new_id(ids.MEMORY))
                batch.append(Create(self.live[-1], self.path(), self.text()))
            self.workspace.memories.apply(self.store.id, batch, ALICE)

    def prune(self) -> None:
        """All that can be."""
        self.workspace.retention.prune(self.store.id, now())


@contextmanager
def plain(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def is_due(db: Path) -> bool:
    with plain(db) as connection:
        (due,) = connection.execute("SELECT scrubs_wanted > scrubs_done FROM workspace").fetchone()
    return bool(due)


def hide(workspace: Workspace, store: Store, path: str, text: str) -> str:
    """Make a memory, then have it hold and be called something else; returns the id of its first version."""
    memory = workspace.memories.create(store.id, path, text.encode(), ALICE)
    workspace.memories.update(store.id, memory.id, ALICE, content=b"clean", path=f"/clean/{memory.id}")
    return memory.memory_version_id


@pytest.fixture
def other(workspace: Workspace) -> Store:
    return workspace.stores.create("Other")


@pytest.fixture
def search(db: Path) -> Search:
    return Search(db)


# Redacting


@pytest.mark.parametrize("alphabet", MARKS)
@pytest.mark.parametrize("size", [36, 3_600, 100_000], ids=["a line", "inline", "overflow pages"])
def test_nothing_is_left_of_a_redacted_version(
    workspace: Workspace, store: Store, other: Store, search: Search, alphabet: str, size: int
) -> None:
    chance = random.Random(size)
    crowd = Crowd(workspace, other, size)
    crowd.moves(3)
    version_id = hide(workspace, store, secret_path(chance, alphabet), secret(chance, alphabet, size))
    search.hashes.add(workspace.versions.get(store.id, version_id).content_sha256 or "")
    assert len(search.find()) > size // 12, "the search finds what is there"
    crowd.moves(3)
    (redacted,) = workspace.versions.redact(store.id, [version_id], ALICE)
    assert (redacted.path, redacted.content, redacted.content_sha256) == (None, None, None)
    assert search.find() == []
    crowd.moves(1)
    assert search.find() == []
    workspace.close()
    assert search.find() == []


def test_nothing_is_left_of_every_trace_of_a_memory(workspace: Workspace, store: Store, search: Search) -> None:
    """A memory that was made, changed, moved, deleted and made again under secret names."""
    chance = random.Random(7)
    memory = workspace.memories.create(
        store.id, secret_path(chance, "ascii"), secret(chance, "ascii", 500).encode(), ALICE
    )
    for alphabet in (*MARKS, "ascii"):
        workspace.memories.update(store.id, memory.id, ALICE, content=secret(chance, alphabet, 9_000).encode())
        workspace.memories.update(store.id, memory.id, ALICE, path=secret_path(chance, alphabet))
    workspace.memories.delete(store.id, memory.id, ALICE)
    workspace.versions.restore(store.id, memory.memory_version_id, ALICE)
    workspace.memories.delete(store.id, memory.id, ALICE)
    versions = workspace.versions.list(store.id)
    search.hashes = {version.content_sha256 for version in versions if version.content_sha256 is not None}
    assert search.find()
    workspace.versions.redact(store.id, [version.id for version in versions], ALICE)
    assert search.find() == []
    left = workspace.versions.list(store.id, content=True)
    assert [(v.operation, v.created_at, v.created_by) for v in left] == [
        (v.operation, v.created_at, v.created_by) for v in versions
    ]


def many(workspace: Workspace, store: Store, crowd: Crowd, search: Search, count: int) -> list[str]:
    """Secrets among other memories, in pages that were split and merged around them; returns their versions."""
    chance = random.Random(count)
    version_ids = []
    for start in range(0, count, 20):
        batch = [
            Create(
                ids.new_id(ids.MEMORY),
                secret_path(chance, alphabet := chance.choice([*MARKS])),
                secret(chance, alphabet, chance.choice([36, 120, 600, 1_800])).encode(),
            )
            for _ in range(20)
        ]
        heads = workspace.memories.apply(store.id, batch, ALICE).heads
        version_ids += [head.version_id for head in heads.values() if head is not None]
        search.hashes |= {head.sha256 for head in heads.values() if head is not None}
        crowd.moves(1)
        if start % 200 == 0:
            crowd.prune()
    return version_ids


def cover(workspace: Workspace, store: Store) -> None:
    """Move and change all memories of a store, so that no version with a secret is a head."""
    workspace.memories.apply(
        store.id,
        [Update(m.id, content=m.id.encode(), path=f"/clean/{m.id}") for m in workspace.memories.list(store.id)],
        ALICE,
    )


def test_nothing_is_left_in_pages_that_were_split_and_merged(
    workspace: Workspace, store: Store, other: Store, search: Search, db: Path
) -> None:
    """Overwriting what is deleted is not enough for this: SQLite moves cells between pages and leaves copies."""
    crowd = Crowd(workspace, other, 1)
    crowd.moves(10)
    version_ids = many(workspace, store, crowd, search, 1_000)
    cover(workspace, store)
    crowd.moves(10)
    assert len(search.find()) > 10_000
    workspace.versions.redact(store.id, version_ids, ALICE)
    assert search.find() == []
    assert not is_due(db)
    crowd.prune()
    workspace.retention.prune(store.id, now())
    crowd.moves(10)
    assert search.find() == []
    with plain(db) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA application_id").fetchone() == (0x6D656D66,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert len(workspace.memories.list(other.id)) == len(crowd.live)


UNTIL_TOLD = """
import random, sys, threading, time
from pathlib import Path
from memfs.model import ids
from memfs.model.mutations import Create, Delete, Update
from memfs.model.records import Actor
from memfs.workspace import Workspace

told = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
db, store_id = Path(sys.argv[1]), sys.argv[2]


def repeat(step):
    step()
    print("ready", flush=True)
    while not told.is_set():
        step()
        time.sleep(0.002)  # leave some for the others
    step()
    print("stopped", flush=True)
    sys.stdin.readline()  # the database stays open


"""
WRITER = """
workspace, live, chance = Workspace.open(db), [], random.Random(3)

def step():
    batch = [Create(ids.new_id(ids.MEMORY), f"/{chance.random()}", b"WRITTEN " * chance.randrange(900))]
    live.append(batch[0].memory_id)
    batch.append(Update(chance.choice(live[:-1]), path=f"/{chance.random()}")) if len(live) > 3 else None
    batch.append(Delete(live.pop(0))) if len(live) > 50 and batch[-1].memory_id != live[0] else None
    workspace.memories.apply(store_id, batch, Actor("user_actor", "writer"))
"""
READER = """
workspace = Workspace.open(db, read_only=True)

def step():
    for memory in workspace.memories.list(store_id, content=True):
        assert memory.content is not None
    workspace.versions.list(store_id, content=True)
    workspace.memories.get(store_id, memory.id)
    workspace.accesses.record()
"""
FOLLOWER = """
workspace = Workspace.open(db)
attached = workspace.attached(store_id, Actor("session_actor", ids.new_id(ids.SESSION)), "read_write")
seen = attached.data_version()
snapshot = attached.snapshot()
sequence, heads = snapshot.sequence, {head.memory_id: head for head in snapshot.heads}
contents = {head.version_id: attached.content(head.version_id) for head in snapshot.heads}

def step():
    global seen, sequence
    if attached.data_version() == seen:
        return
    seen = attached.data_version()
    changes = attached.changes(sequence)
    sequence = changes.sequence
    for memory_id, head in changes.heads.items():
        if head is None:
            del heads[memory_id]
        else:
            heads[memory_id] = head
            contents[head.version_id] = attached.content(head.version_id)
    if told.is_set():
        assert heads == {head.memory_id: head for head in attached.snapshot().heads}
"""


def test_nothing_is_left_while_others_have_the_database_open(
    workspace: Workspace, store: Store, other: Store, search: Search, db: Path
) -> None:
    """A writer, a reader and a mount's follower in processes of their own, which go on meanwhile."""
    third = workspace.stores.create("Third")
    crowd = Crowd(workspace, other, 2)
    version_ids = many(workspace, store, crowd, search, 200)
    with (
        python(UNTIL_TOLD + WRITER + "\nrepeat(step)", db, third.id) as writer,
        python(UNTIL_TOLD + READER + "\nrepeat(step)", db, store.id) as reader,
        python(UNTIL_TOLD + FOLLOWER + "\nrepeat(step)", db, store.id) as follower,
    ):
        processes = (writer, reader, follower)
        for process in processes:
            assert hear(process) == "ready"
        cover(workspace, store)
        assert search.find()
        for half in (version_ids[:100], version_ids[100:]):
            workspace.versions.redact(store.id, half, ALICE)
            crowd.moves(2)
        assert search.find() == []
        made = len(workspace.memories.list(third.id))
        for process in processes:
            tell(process)
        for process in processes:
            assert hear(process) == "stopped"
        assert len(workspace.memories.list(third.id)) >= made
        assert search.find() == [], "nobody wrote an old page back"
        workspace.close()
        for process in processes:
            tell(process)
        for process in processes:
            finish(process)
    assert search.find() == []


def test_a_text_that_other_versions_have_stays_until_the_last_is_redacted(
    workspace: Workspace, store: Store, other: Store, search: Search
) -> None:
    chance = random.Random(5)
    text = secret(chance, "ascii", 5_000)
    first = hide(workspace, store, "/first", text)
    second = hide(workspace, store, "/second", text)
    third = hide(workspace, other, "/third", text)
    search.hashes.add(workspace.versions.get(store.id, first).content_sha256 or "")
    for store_id, version_id, left in (
        (store.id, first, [(store.id, second), (other.id, third)]),
        (other.id, third, [(store.id, second)]),
    ):
        workspace.versions.redact(store_id, [version_id], ALICE)
        for where, there in left:
            assert workspace.versions.content(where, there) == text.encode()
        assert search.find()
    workspace.versions.redact(store.id, [second], ALICE)
    assert search.find() == []


# Deleting a store


def test_nothing_is_left_of_a_deleted_store(
    workspace: Workspace, store: Store, other: Store, search: Search, db: Path
) -> None:
    chance = random.Random(9)
    crowd = Crowd(workspace, other, 4)
    many(workspace, store, crowd, search, 400)
    shared = secret(chance, "ascii", 600).encode()[:18]  # too short to be told from chance, so no secret
    workspace.memories.create(store.id, "/shared", shared.replace(b"S3cr3t", b"shared"), ALICE)
    kept = workspace.memories.create(other.id, "/shared", shared.replace(b"S3cr3t", b"shared"), ALICE)
    workspace.memories.create(
        store.id, secret_path(chance, "ascii"), secret(chance, "not ascii", 100_000).encode(), ALICE
    )
    described = workspace.stores.update(
        store.id,
        name=secret(chance, "ascii", 120),
        description=secret(chance, "not ascii", 600),
        metadata={secret(chance, "ascii", 48): secret(chance, "not ascii", 240)},
    )
    session = workspace.sessions.create(
        [Resource(described, instructions=secret(chance, "ascii", 2_000)), Resource(other)], "/mnt/memory"
    )
    crowd.moves(5)
    search.words = {store.id.encode(), *(memory.id.encode() for memory in workspace.memories.list(store.id))}
    assert len(search.find()) > 5_000
    with python(UNTIL_TOLD + WRITER + "\nrepeat(step)", db, other.id) as writer:
        assert hear(writer) == "ready"
        workspace.stores.delete(store.id)
        assert search.find() == []
        tell(writer)
        assert hear(writer) == "stopped"
        assert search.find() == []
        tell(writer)
        finish(writer)
    assert workspace.memories.get(other.id, "/shared") == kept
    assert [each.memory_store_id for each in workspace.sessions.get(session.id).attachments] == [other.id]
    workspace.close()
    assert search.find() == []


# Where it cannot be done at once


def redact(workspace: Workspace, store: Store, version_id: str) -> None:
    workspace.versions.redact(store.id, [version_id], ALICE)


def delete(workspace: Workspace, store: Store, version_id: str) -> None:
    workspace.stores.delete(store.id)


Removal = Callable[[Workspace, Store, str], None]


def in_effect(workspace: Workspace, store: Store, version_id: str) -> bool:
    """Whether nobody can read the version any more, though its bytes may still be in the file."""
    try:
        version = workspace.versions.get(store.id, version_id)
    except NotFound:
        return store not in workspace.stores.list(include_archived=True)
    with pytest.raises(NotFound, match="redacted"):
        workspace.versions.content(store.id, version_id)
    return version.redacted_by == ALICE and version.path is None


def remove_again(workspace: Workspace, remove: Removal, store: Store, version_id: str) -> None:
    """As the errors say: redact once more; for a store, which is gone, scrub."""
    if remove is redact:
        redact(workspace, store, version_id)
    else:
        assert workspace.scrub()


@pytest.mark.parametrize("remove", [redact, delete])
def test_an_old_state_that_somebody_reads_keeps_the_bytes_and_the_duty(
    workspace: Workspace,
    store: Store,
    search: Search,
    db: Path,
    monkeypatch: pytest.MonkeyPatch,
    remove: Removal,
) -> None:
    chance = random.Random(11)
    version_id = hide(workspace, store, secret_path(chance, "ascii"), secret(chance, "ascii", 3_000))
    workspace.close()
    monkeypatch.setattr(opening, "LOCK_TIMEOUT_SECONDS", 0.05)
    with Workspace.open(db) as impatient, plain(db) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM memory_versions").fetchone() == (2,)
        with pytest.raises(Busy, match="run this again"):
            remove(impatient, store, version_id)
        assert in_effect(impatient, store, version_id)
        assert is_due(db)
        assert search.find(), "the reader can still see it"
        with pytest.raises(Busy):
            remove_again(impatient, remove, store, version_id)
        with pytest.raises(Busy):
            impatient.scrub(wait=False)
        assert is_due(db)
        reader.execute("ROLLBACK")
        remove_again(impatient, remove, store, version_id)
        assert search.find() == []
        assert not is_due(db)
        assert not impatient.scrub()


@pytest.mark.parametrize("remove", [redact, delete])
def test_a_full_disk_keeps_the_duty(
    workspace: Workspace, store: Store, other: Store, search: Search, db: Path, remove: Removal
) -> None:
    """Files may grow no further: the removal itself still fits, rebuilding the file does not."""
    chance = random.Random(12)
    crowd = Crowd(workspace, other, 12)
    crowd.moves(15)
    version_id = hide(workspace, store, secret_path(chance, "ascii"), secret(chance, "ascii", 3_000))
    with plain(db) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = db.stat().st_size
    assert size > 500_000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, before[1]))  # of the log, and of SQLite's temporary file
    try:
        with pytest.raises(StorageFailed):
            remove(workspace, store, version_id)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert in_effect(workspace, store, version_id)
    assert is_due(db)
    assert search.find()
    crowd.moves(1)
    remove_again(workspace, remove, store, version_id)
    assert search.find() == []
    assert not is_due(db)
    with plain(db) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("removed", [False, True])
def test_a_full_disk_leaves_no_duty_where_only_space_was_to_be_given_back(
    workspace: Workspace, store: Store, other: Store, db: Path, removed: bool
) -> None:
    """Or each command from then on would write the whole file, and say that something may not be gone."""
    chance = random.Random(12)
    crowd = Crowd(workspace, other, 12)
    crowd.moves(15)
    version_id = hide(workspace, store, secret_path(chance, "ascii"), secret(chance, "ascii", 3_000))
    with plain(db) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if removed:
        workspace.engine.redact(store.id, [version_id], now(), Actor("user_actor", "alice"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (db.stat().st_size // 2, before[1]))
    try:
        with pytest.raises(StorageFailed):
            workspace.scrub(anyway=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert is_due(db) is removed
    assert workspace.scrub() is removed
    assert not is_due(db)


@pytest.mark.parametrize("remove", ["redact", "delete_store"])
def test_whoever_comes_next_ends_what_a_killed_process_began(
    workspace: Workspace, store: Store, search: Search, db: Path, remove: str
) -> None:
    chance = random.Random(13)
    version_id = hide(workspace, store, secret_path(chance, "ascii"), secret(chance, "ascii", 3_000))
    workspace.close()
    code = """
import os, signal, sys
from pathlib import Path
from memfs.engine import SqliteEngine
from memfs.model.records import Actor, now

engine = SqliteEngine(Path(sys.argv[1]))
if sys.argv[4] == "redact":
    engine.redact(sys.argv[2], [sys.argv[3]], now(), Actor("user_actor", "alice"))
else:
    engine.delete_store(sys.argv[2])
os.kill(os.getpid(), signal.SIGKILL)
"""
    with python(code, db, store.id, version_id, remove) as process:
        assert process.wait() == -signal.SIGKILL
    assert search.find()
    with Workspace.open(db) as again:
        assert is_due(db)
        assert in_effect(again, store, version_id)
        assert again.scrub(wait=False)
        assert search.find() == []
        assert not is_due(db)
        assert not again.scrub()


def test_what_another_process_redacts_while_one_scrubs_stays_due(
    workspace: Workspace, store: Store, search: Search, db: Path
) -> None:
    """After the file was rebuilt, and before that is noted."""
    chance = random.Random(14)
    first, second = (hide(workspace, store, secret_path(chance, a), secret(chance, a, 3_000)) for a in MARKS)
    engine = workspace.engine
    assert isinstance(engine, SqliteEngine)
    assert engine.database._writer is not None
    with closing(SqliteEngine(db)) as other:
        interfered = False

        def interfere(statement: str) -> None:
            nonlocal interfered
            if statement.startswith("UPDATE workspace SET scrubs_done") and not interfered:
                interfered = True
                other.redact(store.id, [second], now(), ALICE)

        engine.database._writer.set_trace_callback(interfere)
        workspace.versions.redact(store.id, [first], ALICE)
        engine.database._writer.set_trace_callback(None)
        assert interfered
        assert is_due(db)
        assert search.find()
        assert other.scrub()
    assert search.find() == []
    assert not is_due(db)


def test_several_processes_that_redact_at_once_leave_nothing(
    workspace: Workspace, store: Store, search: Search, db: Path
) -> None:
    chance = random.Random(15)
    version_ids = [
        hide(workspace, store, secret_path(chance, "ascii"), secret(chance, "ascii", 900)) for _ in range(12)
    ]
    code = """
import sys
from pathlib import Path
from memfs.model.records import Actor
from memfs.workspace import Workspace

workspace = Workspace.open(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for version_id in sys.argv[3:]:
    workspace.versions.redact(sys.argv[2], [version_id], Actor("user_actor", "alice"))
"""

    def part(number: int) -> Sequence[str]:
        return version_ids[number::3]

    with (
        python(code, db, store.id, *part(0)) as one,
        python(code, db, store.id, *part(1)) as two,
        python(code, db, store.id, *part(2)) as three,
    ):
        for process in (one, two, three):
            assert hear(process) == "ready"
        for process in (one, two, three):
            tell(process)
        for process in (one, two, three):
            finish(process)
    assert search.find() == []
    assert not is_due(db)
    assert all(in_effect(workspace, store, version_id) for version_id in version_ids)


def test_scrubbing_is_nothing_for_a_connection_that_only_reads(workspace: Workspace, store: Store, db: Path) -> None:
    version_id = hide(workspace, store, "/a", "text")
    with Workspace.open(db, read_only=True) as reading:
        for refused in (
            lambda: reading.versions.redact(store.id, [version_id], ALICE),
            lambda: reading.stores.delete(store.id),
            lambda: reading.scrub(anyway=True),
        ):
            with pytest.raises(StorageFailed, match="reading only"):
                refused()
    assert not is_due(db)
    assert workspace.versions.content(store.id, version_id) == b"text"
    assert os.listdir(db.parent)
