"""Backups of a database whose stores are mounted, and putting one back, as the guide says."""

import errno
import os
from pathlib import Path

import pytest

from tests.mount.harness import Site

pytestmark = pytest.mark.mount


def put_back(at: Site, backup: Path) -> None:
    """Move everything of the database away, the log too, and the backup to its place."""
    at.shell(f"mkdir -m 700 replaced && mv db/memfs.db* replaced/ && cp {backup} db/memfs.db && chmod 600 db/memfs.db")


def test_a_backup_beside_mounts_is_put_back(at: Site, notes: Path) -> None:
    (notes / "a.md").write_text("before\n")
    backup = at.directory / "backup.db"
    assert "1 memory, 1 version; checked" in at.run("backup", backup).stdout
    (notes / "a.md").write_text("after\n")
    (notes / "b.md").write_text("after too\n")
    at.run("umount", at.root)
    put_back(at, backup)
    assert at.run("check").stdout.startswith("sound: ")
    (notes,) = at.mount("notes")
    assert [path.name for path in notes.iterdir()] == ["a.md"]
    assert (notes / "a.md").read_text() == "before\n"
    (notes / "a.md").write_text("goes on\n")
    assert at.operations("notes") == [("created", "/a.md", b"before\n"), ("modified", "/a.md", b"goes on\n")]


def test_a_mount_writes_nothing_to_a_database_that_was_put_back_under_it(at: Site, notes: Path) -> None:
    (notes / "a.md").write_text("before\n")
    backup = at.directory / "backup.db"
    at.run("backup", backup)
    (notes / "b.md").write_text("after\n")
    put_back(at, backup)
    at.expected_log.append("(commit|unsaved text of) /c.md.*: the database .* was replaced while it was open")
    at.expected_log.append("nothing can be saved for now: the database .* was (removed|replaced) while it was open")
    for what in (lambda: (notes / "c.md").write_text("lost\n"), lambda: (notes / "b.md").unlink()):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            what()
    assert (notes / "b.md").read_text() == "after\n", "it shows what it had until it is mounted anew"
    assert "was replaced while it was open" in at.refusals()[-1]["reason"]
    at.run("umount", at.root, check=False)
    (notes,) = at.mount("notes")
    assert [path.name for path in notes.iterdir()] == ["a.md"]


def test_a_repair_is_refused_while_a_store_is_mounted(at: Site, notes: Path) -> None:
    (notes / "a.md").write_text("a\n")
    assert at.run("check").stdout == "sound: 1 store, 1 memory, 1 version, 1 text\n"
    refused = at.run("check", "--repair", check=False)
    assert refused.returncode == 75
    assert str(at.worker("notes")) in refused.stderr
    assert "memfs umount" in refused.stderr
    (notes / "a.md").write_text("still written\n")
