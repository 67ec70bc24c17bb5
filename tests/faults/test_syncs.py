"""An fsync that fails once. The kernel says so once, and may have dropped what it could not write: that the next fsync
succeeds means nothing. So none is acknowledged until all that the log held is in the database, written anew.
"""

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memfs.engine import opening
from memfs.model.errors import Busy, StorageFailed
from memfs.model.records import Actor, Store
from memfs.workspace import Workspace
from tests.faults.injecting import Call, Faults
from tests.faults.places import FaultySite, answer

pytestmark = pytest.mark.mount

LOG, DATABASE = "memfs.db-wal", "memfs.db"


def test_after_a_failed_fsync_none_is_acknowledged_before_all_is_written_anew(
    at: FaultySite, notes: Path, faults: Faults
) -> None:
    (notes / "before.md").write_text("is in the log, and was never synced\n")
    with (notes / "a.md").open("w") as file:
        file.write("text\n")
        file.flush()
        with faults.fail(Call.SYNC, LOG) as fault:
            assert answer(lambda: os.fsync(file.fileno())) == "EIO"
            assert fault.injected
        assert at.heads("notes")["/a.md"] == b"text\n", "it is a version all the same, which others see"
        # Nothing has changed since, so a plain fsync would say that all is well.
        with faults.fail(Call.WRITE, DATABASE) as fault:
            assert answer(lambda: os.fsync(file.fileno())) == "EIO"
            assert fault.injected, "it was not tried to write it anew"
        with faults.fail(Call.SYNC, DATABASE) as fault:
            assert answer(lambda: os.fsync(file.fileno())) == "EIO"
            assert fault.injected
        with faults.watch(Call.WRITE, DATABASE) as written, faults.watch(Call.SYNC, DATABASE) as synced:
            assert answer(lambda: os.fsync(file.fileno())) == "ok"
            assert written.seen > 0
            assert synced.seen > 0
        assert at.db.with_name("memfs.db-wal").stat().st_size == 0, "what is on the disk of it is never read again"
        with faults.watch(Call.WRITE, DATABASE) as written:
            assert answer(lambda: os.fsync(file.fileno())) == "ok"
            assert written.seen == 0, "all is as before"
    assert "could not be synced: Input/output error" in at.log()


def test_the_descriptor_that_is_synced_is_one_that_was_there_before_the_error(
    workspace: Workspace, store: Store, db: Path
) -> None:
    """Linux tells of an error only those who had the file open when it came."""
    log = os.stat(f"{db}-wal")

    def held() -> set[int]:
        found = set()
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            try:
                if os.path.samestat(os.fstat(descriptor), log):
                    found.add(descriptor)
            except OSError:
                continue  # that of the listing
        return found

    before = held()
    workspace.memories.create(store.id, "/a", b"a", Actor("user_actor", "alice"))
    workspace.engine.sync()
    assert held() == before


def test_a_log_that_cannot_be_emptied_is_no_synced_log(db: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody reads an old state of it, so that a checkpoint has to leave it as it is."""
    monkeypatch.setattr(opening, "LOCK_TIMEOUT_SECONDS", 0.05)
    actor = Actor("user_actor", "alice")
    real = os.fdatasync

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Workspace.open(db) as impatient, closing(sqlite3.connect(db, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM memories").fetchall()
        impatient.memories.create(store.id, "/a", b"a", actor)
        monkeypatch.setattr(os, "fdatasync", failing)
        with pytest.raises(StorageFailed, match="could not be synced: Input/output error"):
            impatient.engine.sync()
        monkeypatch.setattr(os, "fdatasync", real)
        for _ in range(2):
            with pytest.raises(Busy, match="could not be synced, nor yet be emptied"):
                impatient.engine.sync()
        reader.execute("ROLLBACK")
        impatient.engine.sync()
        assert os.stat(f"{db}-wal").st_size == 0
