"""A database that lies where nothing can be written, from the beginning or all at once."""

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.mount.processes import mounted_at
from tests.faults.injecting import Call, Faults
from tests.faults.places import FaultySite, answer, remount, saved
from tests.mount.users import AS_NOBODY, give

pytestmark = pytest.mark.mount


def test_a_disk_that_can_only_be_read_is_named_with_what_to_do(small: FaultySite) -> None:
    """SQLite needs a log beside the database for reading too; memfs check and doctor read without one."""
    at, disk = small, small.db.parent
    at.run("memory", "create", "notes", "/a.md", "--content", "text\n")
    remount(disk, "ro")
    says = "can only be read, and SQLite keeps a log beside a database, for reading too"
    at.refused(5, "memory", "list", "notes", says=says)
    at.refused(
        5, "memory", "create", "notes", "/b.md", "--content", "b", says="copy the database, with the -wal beside it"
    )
    at.refused(5, "mount", "--root", at.root, "-s", "notes:read_only", says=says)
    assert not mounted_at(at.root)
    at.refused(5, "serve", "--port", "0", says=says)
    at.refused(5, "backup", at.directory / "backup.db", says=says)
    at.refused(5, "tool", "-s", "notes", says=says)
    assert at.run("check").stdout.startswith("sound: 1 store, 1 memory")
    assert "whole and consistent" in at.run("doctor", check=False).stdout
    # As the message says.
    copied = FaultySite(at.directory)
    copied.db.parent.mkdir()
    copied.db.write_bytes(at.db.read_bytes())
    assert copied.heads("notes") == {"/a.md": b"text\n"}
    remount(disk, "rw")
    assert at.heads("notes") == {"/a.md": b"text\n"}


def test_a_disk_that_becomes_read_only_keeps_what_is_unsaved(at: FaultySite, notes: Path, faults: Faults) -> None:
    """As a file system does that has found an error in itself: what is open stays open, and each write is EROFS."""
    with (
        faults.fail(Call.WRITE, "memfs.db-wal", errno.EROFS) as fault,
        faults.fail(Call.OPEN, str(at.db.parent), errno.EROFS),
    ):
        assert saved(notes / "kept.md", "kept\n") == "EROFS"
        assert answer((notes / "known.md").unlink) == "EROFS"
        assert (notes / "known.md").read_text() == "known\n"
        at.refused(5, "memory", "create", "notes", "/b.md", "--content", "b", says="can only be read")
        assert fault.injected >= 3
    at.wait_until_saved("/kept.md", "kept\n")
    at.expect(r"could not commit /kept\.md yet, .* can only be read")


@pytest.fixture
def users(prefix: tuple[str, ...]) -> Iterator[FaultySite]:
    """A site of an ordinary user, whom permissions stop."""
    with tempfile.TemporaryDirectory(prefix="memfs-user-") as directory:
        home = Path(directory)
        give(home)
        made = FaultySite(home, prefix, {"HOME": directory, "XDG_RUNTIME_DIR": directory})
        made.store("notes")
        yield made


@pytest.fixture
def prefix() -> tuple[str, ...]:
    """How to run as the user nobody."""
    return AS_NOBODY


@pytest.mark.parametrize("part", ["directory", "file"])
def test_an_ordinary_user_without_the_right_to_write_is_told_where(users: FaultySite, part: str) -> None:
    path = users.db.parent if part == "directory" else users.db
    mode = path.stat().st_mode
    path.chmod(0o500 if part == "directory" else 0o400)
    says = "must be writable, for reading too"
    users.refused(5, "memory", "create", "notes", "/a.md", "--content", "a", says=says)
    if part == "directory":
        users.refused(5, "memory", "list", "notes", says=says)
    assert users.run("check").stdout.startswith("sound: ")
    path.chmod(mode)
    if part == "file":
        # SQLite gave what it keeps beside the database the mode that this had.
        says = f" must be writable, as {users.db} is"
        users.refused(5, "memory", "create", "notes", "/a.md", "--content", "a", says=says)
        for beside in users.db.parent.iterdir():
            beside.chmod(mode)
    users.run("memory", "create", "notes", "/a.md", "--content", "a")
    assert os.listdir(users.db.parent) == ["memfs.db"]
