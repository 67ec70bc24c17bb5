"""A newer memfs brings the database up to date while an older one has it open."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.api.harness import serving
from tests.faults.places import FaultySite, answer, saved

pytestmark = pytest.mark.mount


def upgrade(database: Path) -> None:
    """As a newer memfs would: a migration that this one does not know, here of rows alone."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " SELECT migration_set, '9999_future', applied_at FROM _sqlite_migrations LIMIT 1"
        )
        connection.execute("COMMIT")


def take_back(database: Path) -> None:
    """What nobody does but a test, which wants to see that nothing was lost."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = '9999_future'")


def test_nothing_is_written_in_an_old_format_into_a_newer_database(at: FaultySite, notes: Path) -> None:
    before = at.heads("notes")
    with serving(at.db, expected_warnings=True) as server:
        (store,) = (f"/v1/memory_stores/{each['id']}" for each in server.get("/v1/memory_stores").ok()["data"])
        upgrade(at.db)
        assert saved(notes / "kept.md", "kept\n") == "EIO"
        assert answer((notes / "known.md").unlink) == "EIO"
        assert (notes / "known.md").read_text() == "known\n"
        server.post(f"{store}/memories", {"path": "/a", "content": "a"}).refused(500, "api_error")
        assert len(server.get(f"{store}/memories").ok()["data"]) == 1
        assert "was brought up to date by a newer memfs while it was open here" in server.logged
        for command in (["memory", "list", "notes"], ["mount", "--root", at.directory / "other", "-s", "notes"]):
            at.refused(5, *command, says="was made by a newer memfs (9999_future): upgrade memfs-agent to open it")
        take_back(at.db)
        server.post(f"{store}/memories", {"path": "/a", "content": "a"}).ok()
    at.expect(
        r"could not commit /kept\.md yet, .* brought up to date by a newer memfs while it was open here: end this"
    )
    assert at.log().count("could not commit") == 1, at.log()
    at.wait_until_saved("/kept.md", "kept\n")
    assert at.heads("notes") == {**before, "/a": b"a", "/kept.md": b"kept\n"}
