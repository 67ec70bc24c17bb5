"""No space left where the database is, on a real small disk; then there is space again, and all goes on."""

import errno
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memfs.mount.processes import mounted_at
from tests.api.harness import serving
from tests.faults.injecting import Call, Faults
from tests.faults.places import FaultySite, answer, filled, remount, saved, small_disk, synced
from tests.mount.harness import LIMIT
from tests.soundness import assert_sound

pytestmark = pytest.mark.mount

LARGE = "nothing of this is lost\n" * 4_000
"""96,000 bytes."""


@contextmanager
def memory_tool(at: FaultySite) -> Iterator[Callable[..., str]]:
    """A running ``memfs tool`` on the store; asks it something, and returns what a model is told."""
    with subprocess.Popen(
        at.command("tool", "-s", "notes"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=at.environment(),
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(**call: object) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(call) + "\n")
            process.stdin.flush()
            return str(json.loads(process.stdout.readline())["content"])

        try:
            yield ask
            process.stdin.close()
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()


def test_what_cannot_be_saved_on_a_full_disk_is_kept_and_saved_once_there_is_room(small: FaultySite) -> None:
    at, disk = small, small.db.parent
    (notes,) = at.mount("notes")
    (notes / "known.md").write_text("known\n")
    worker = at.worker("notes")
    log = at.directory / "serve.log"  # on another disk, so that there is room for it
    with serving(at.db, expected_warnings=True, log=log) as server, memory_tool(at) as ask:
        assert ask(command="view", path="/memories/known.md").endswith("known")
        (store,) = (f"/v1/memory_stores/{each['id']}" for each in server.get("/v1/memory_stores").ok()["data"])
        with filled(disk):
            assert saved(notes / "closed.md", LARGE) == "ENOSPC"
            assert synced(notes / "synced.md", LARGE) == "ENOSPC"
            assert answer((notes / "known.md").unlink) == "ENOSPC"
            assert answer((notes / "directory").mkdir) == "ENOSPC"
            assert answer(lambda: (notes / "known.md").rename(notes / "other.md")) == "ENOSPC"
            assert (notes / "known.md").read_text() == "known\n"
            assert (notes / "closed.md").read_text() == LARGE, "it is kept"
            for number in range(60):
                assert saved(notes / "again.md", LARGE + str(number)) == "ENOSPC"

            at.refused(5, "memory", "create", "notes", "/b.md", "--content", LARGE, says="no space left for")
            assert "known" in at.run("memory", "show", "notes", "/known.md").stdout
            error = server.post(f"{store}/memories", {"path": "/c.md", "content": LARGE}).refused(500, "api_error")
            assert str(disk) not in error["message"]
            assert server.get(f"{store}/memories").ok()["data"]
            told = ask(command="create", path="/memories/d.md", file_text=LARGE)
            assert "no space left where the memory is kept; nothing was changed" in told
            assert ask(command="view", path="/memories/known.md").endswith("known")
        at.wait_until_saved("/closed.md", LARGE)
        at.wait_until_saved("/synced.md", LARGE)
        at.wait_until_saved("/again.md", LARGE + "59")
        server.post(f"{store}/memories", {"path": "/c.md", "content": LARGE}).ok()
        assert "no space left" in server.logged
    assert (notes / "known.md").read_text() == "known\n"
    assert (at.worker("notes"), saved(notes / "after.md", "after\n")) == (worker, "ok")
    assert set(at.heads("notes")) == {"/known.md", "/closed.md", "/synced.md", "/again.md", "/c.md", "/after.md"}
    at.expect(r"could not commit /closed\.md yet, and will try again: no space left for")
    told = at.log()
    assert told.count("could not commit") == 1, "of whatever number of files and tries"
    assert "nothing is left uncommitted after" in told
    assert told.count("errno=ENOSPC") < 60, "not one line for each of 65 refusals"


def test_a_full_disk_stops_what_writes_a_file_and_leaves_nothing_half(small: FaultySite) -> None:
    at, disk = small, small.db.parent
    source = at.directory / "source"
    source.mkdir()
    for number in range(12):
        (source / f"{number}.md").write_text(f"<{number}> {LARGE}")
    at.run("store", "import", "notes", source)
    for number in range(4):
        at.run("memory", "delete", "notes", f"/{number}.md")
    secret = next(version.id for version in at.history("notes") if version.path == "/0.md")
    before = at.heads("notes")
    with filled(disk, but=200_000):
        at.refused(5, "backup", disk / "backup.db", says="no space left for")
        at.refused(1, "store", "export", "notes", disk / "exported", says="No space left on device")
        for file in source.iterdir():
            file.write_text(f"other {file.name} {LARGE}")
        at.refused(5, "store", "import", "notes", source, says="no space left for")
        assert sorted(path.name for path in disk.iterdir()) == ["filler", "memfs.db"], "nothing else is left"
        # The bytes are away from the table at once; the file is written anew once there is room for that.
        told = at.run("version", "redact", "notes", secret, check=False).stderr
        assert "no space left for" in told
        assert at.run("backup", at.directory / "elsewhere.db").stdout.startswith("backed up to ")
        assert b"<0> nothing of this" not in (at.directory / "elsewhere.db").read_bytes()
        assert at.heads("notes") == before
        assert at.run("check").stdout.startswith("sound: ")
    assert at.run("store", "list").stderr == ""
    assert b"<0> nothing of this" not in at.db.read_bytes(), "the next command has ended it"
    at.run("version", "prune", "notes", "--older-than", "0s", "--yes", check=False)
    at.run("backup", disk / "backup.db")


def test_a_checkpoint_that_finds_no_room_is_made_up_for(small: FaultySite) -> None:
    """The log has the room that it needs, the database has not: what is closed is in the log, and stays there."""
    at, disk = small, small.db.parent
    (notes,) = at.mount("notes")
    text = {number: f"{number} {LARGE}" for number in range(24)}
    for number in range(12):  # over the 1,000 pages, or nearly
        (notes / f"{number}.md").write_text(text[number])
    with filled(disk, but=150_000):
        acknowledged = [number for number in range(12, 24) if saved(notes / f"{number}.md", text[number]) == "ok"]
        refused = sorted(set(range(12, 24)) - set(acknowledged))
        assert refused, "the disk is not full yet"
        known = at.heads("notes")
        for number in (*range(12), *acknowledged):
            assert known[f"/{number}.md"] == text[number].encode()
    for number in refused:
        at.wait_until_saved(f"/{number}.md", text[number])
    at.expect("could not commit")


def test_where_no_file_can_be_made_any_more_a_command_says_so(tmp_path: Path, faults: Faults) -> None:
    """All inodes are used: SQLite cannot make its log."""
    with small_disk(tmp_path / "db", 4 << 20) as disk:
        at = FaultySite(tmp_path, extra=faults.environment)
        at.store("notes", a_md="text\n")
        used = os.statvfs(disk)
        remount(disk, f"nr_inodes={used.f_files - used.f_ffree}")
        at.refused(5, "memory", "list", "notes", says="no space left for")
        at.refused(5, "memory", "create", "notes", "/b.md", "--content", "b", says="no space left for")
        at.refused(5, "mount", "--root", at.root, "-s", "notes", says="no space left for")
        assert not mounted_at(at.root)
        remount(disk, "nr_inodes=1000")
        assert "text" in at.run("memory", "show", "notes", "/a.md").stdout
        assert_sound(at.db)


def test_a_quota_that_is_used_up_is_like_a_full_disk_and_named(at: FaultySite, notes: Path, faults: Faults) -> None:
    """EDQUOT, which SQLite takes for a broken disk."""
    with (
        faults.fail(Call.WRITE, "memfs.db-wal", errno.EDQUOT) as log,
        faults.fail(Call.OPEN, str(at.db.parent), errno.EDQUOT),
    ):
        assert saved(notes / "kept.md", "kept\n") == "ENOSPC"
        assert (notes / "known.md").read_text() == "known\n"
        at.refused(5, "memory", "create", "notes", "/b.md", "--content", "b", says="the quota of the disk that ")
        assert log.injected >= 2
    at.wait_until_saved("/kept.md", "kept\n")
    at.expect(r"could not commit /kept\.md yet, and will try again: the quota of the disk")
