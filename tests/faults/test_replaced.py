"""The database, or a file beside it, deleted, replaced or cut while it is in use."""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memfs.engine import SqliteEngine
from memfs.model.errors import StorageFailed
from memfs.model.records import Store
from memfs.workspace import Workspace
from tests.api.harness import serving
from tests.faults.places import FaultySite, answer, saved
from tests.mount.harness import LIMIT, wait_until
from tests.soundness import assert_sound

pytestmark = pytest.mark.mount


def moved(at: FaultySite) -> Path:
    """The database moved away with all that belongs to it."""
    away = at.directory / "away"
    at.db.parent.rename(away)
    return away


def put_back(at: FaultySite, away: Path) -> None:
    """The database where it was."""
    shutil.rmtree(at.db.parent, ignore_errors=True)
    away.rename(at.db.parent)


def removed(at: FaultySite) -> None:
    """Nothing is there."""


def replaced(at: FaultySite) -> None:
    """Another database is there."""
    FaultySite(at.directory).run("store", "create", "-q", "notes")


@pytest.mark.parametrize("how", [removed, replaced], ids=["removed", "replaced"])
def test_without_its_database_a_mount_shows_what_it_knows_and_saves_when_it_is_back(
    at: FaultySite, notes: Path, how: Callable[[FaultySite], None]
) -> None:
    worker = at.worker("notes")
    away = moved(at)
    how(at)
    assert saved(notes / "kept.md", "kept\n") == "EIO"
    assert answer((notes / "known.md").unlink) == "EIO"
    assert (notes / "known.md").read_text() == "known\n"
    wait_until(lambda: "nothing can be saved for now: the database" in at.log(), "the log says so")
    for number in range(30):
        assert saved(notes / "kept.md", f"kept {number}\n") == "EIO"
    if how is replaced:
        assert at.heads("notes") == {}, "nothing is written into another database"
    put_back(at, away)
    assert saved(notes / "after.md", "after\n") == "ok"
    at.wait_until_saved("/kept.md", "kept 29\n")
    wait_until(lambda: "the database is in its place again" in at.log(), "the log says so")
    assert at.worker("notes") == worker
    at.expect("nothing can be saved for now", "could not commit")
    assert at.log().count("nothing can be saved for now") == 1, at.log()
    assert at.log().count("could not commit") <= 2, "one line for each reason"


def test_no_read_comes_from_the_database_that_has_taken_the_place(db: Path, workspace: Workspace, store: Store) -> None:
    """Several reads at the same time need more connections, which are made when they are needed."""
    engine = workspace.engine
    assert isinstance(engine, SqliteEngine)
    files = [db.with_name(f"{db.name}{end}") for end in ("", "-wal", "-shm")]
    away = db.with_name("away")
    away.mkdir()
    for file in files:
        file.rename(away / file.name)
    with Workspace.open(db, create=True):
        with pytest.raises(StorageFailed, match="was replaced while it was open"):
            engine.database._reader()
        with ThreadPoolExecutor(1) as pool:
            with engine.database.read() as busy:
                assert busy.execute("SELECT count(*) FROM memory_stores").fetchone() == (1,)
                read = pool.submit(workspace.stores.get, store.id)
                wait_until(read.running, "the read began")
            assert read.result(LIMIT) == store
    for file in files:
        (away / file.name).replace(file)


def test_a_log_that_is_removed_is_rescued_and_nothing_is_written_beside_it(at: FaultySite, notes: Path) -> None:
    """What is closed lies in the log alone, which only those still have who use the database."""
    (notes / "closed.md").write_text("closed\n")
    for end in ("-wal", "-shm"):
        at.db.with_name(f"memfs.db{end}").unlink()
    assert saved(notes / "kept.md", "kept\n") == "EIO"
    assert (notes / "closed.md").read_text() == "closed\n"
    assert "the log .* was removed while it was open".replace(".* ", f"{at.db}-wal ") in at.log()
    copied = at.directory / "copy.db"
    shutil.copyfile(at.db, copied)
    assert_sound(copied)
    at.expect("nothing can be saved for now", "unsaved text of /kept.md", "could not commit")
    at.run("umount", at.root)
    assert at.heads("notes") == {"/known.md": b"known\n", "/closed.md": b"closed\n"}
    at.mount("notes")
    assert saved(notes / "kept.md", "kept\n") == "ok"


def test_a_database_that_is_cut_is_told_and_brings_nothing_down(at: FaultySite, notes: Path) -> None:
    """Nothing can be done but to take a backup; neither mount, server nor command runs into a loop of crashes."""
    at.run("backup", at.directory / "backup.db")
    worker = at.worker("notes")
    with serving(at.db, expected_warnings=True, damaged=True) as server:
        os.truncate(at.db, at.db.stat().st_size // 2)
        said = {saved(notes / f"{number}.md", "text\n") for number in range(5)}
        assert said <= {"ok", "EIO"}, said
        answers = {server.get("/v1/memory_stores").status for _ in range(5)}
        assert answers <= {200, 500}
        assert server.process.poll() is None
    assert at.worker("notes") == worker
    assert at.run("check", check=False).returncode == 5
    at.run("umount", at.root)
    at.damaged = True
    at.allow("could not commit", "may be seen", "unsaved text")
    for path in at.db.parent.iterdir():
        path.unlink()
    shutil.copyfile(at.directory / "backup.db", at.db)
    assert at.heads("notes") == {"/known.md": b"known\n"}


def test_a_server_without_its_database_refuses_to_write_and_goes_on_when_it_is_back(at: FaultySite) -> None:
    with serving(at.db, expected_warnings=True) as server:
        store = server.store("More")
        log = server.log.rename(at.directory / "serve.log")
        away = moved(at)
        replaced(at)
        error = server.post(f"{store}/memories", {"path": "/a", "content": "a"}).refused(500, "api_error")
        assert str(at.directory) not in error["message"]
        assert server.get(f"{store}/memories").ok()["data"] == []
        assert server.request("GET", "/healthz", key=None).status == 503
        assert "was replaced while it was open" in log.read_text()
        put_back(at, away)
        log.rename(server.log)
        server.post(f"{store}/memories", {"path": "/a", "content": "a"}).ok()
