"""``memfs stat``: which memory a mounted file is; and that there are no extended attributes, which no tool minds."""

import errno
import json
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from memfs.model.records import Actor
from memfs.workspace import Workspace
from tests.mount.harness import LIMIT, Site, wait_until

pytestmark = pytest.mark.mount


def stat(at: Site, *files: str | Path) -> list[dict[str, Any]]:
    """What memfs stat answers programs."""
    found = json.loads(at.run("stat", "--format", "json", *files).stdout)
    assert isinstance(found, list)
    return found


def test_a_memory_is_told_with_its_newest_version(at: Site, notes: Path) -> None:
    (notes / "sub").mkdir()
    file = notes / "sub" / "plan b.md"
    file.write_text("one\n")
    file.write_text("two\n")
    (found,) = stat(at, file)
    first, second = at.history("notes", "/sub/plan b.md")
    (mount,) = at.status()
    assert (found["file"], found["store_name"], found["unsaved"]) == (str(file), "notes", False)
    memory, version = found["memory"], found["version"]
    assert (memory["id"], memory["path"]) == (second.memory_id, "/sub/plan b.md")
    assert (memory["memory_version_id"], version["id"]) == (second.id, second.id)
    assert (memory["created_at"], memory["updated_at"]) == (first.created_at, second.created_at)
    assert memory["content_sha256"] == version["content_sha256"] == sha256(b"two\n").hexdigest()
    assert (memory["content_size_bytes"], version["operation"]) == (4, "modified")
    assert version["created_by"] == {"type": "session_actor", "session_id": mount["session_id"]}
    table = at.run("stat", file).stdout
    for part in (file, second.memory_id, second.id, f"by session {mount['session_id']}", memory["content_sha256"]):
        assert str(part) in table
    assert table.splitlines()[-1].split() == ["unsaved", "no"]
    assert at.run("stat", "-q", file).stdout == f"{second.memory_id}\n"


def test_paths_are_found_however_they_are_written(at: Site, notes: Path, tmp_path: Path) -> None:
    (notes / "a.md").write_text("a")
    memory = at.history("notes")[0].memory_id
    (tmp_path / "short").symlink_to(notes)
    script = f"cd '{notes}' && memfs stat -q a.md ./a.md ../notes/a.md && cd .. && memfs stat -q notes//a.md"
    assert at.shell(script).split() == [memory] * 4
    assert at.run("stat", "-q", tmp_path / "short" / "a.md").stdout.split() == [memory]


def test_several_files_and_what_is_none(at: Site, notes: Path, tmp_path: Path) -> None:
    """Each that is no memory is a line that says what it is; the others are shown."""
    (notes / "a.md").write_text("a")
    (notes / "b.md").write_text("b")
    (notes / "d").mkdir()
    (notes / "x.tmp").write_text("x")
    os.close(os.open(notes / "sedAbC123", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    (at.root / "beside").write_text("scratch")
    (tmp_path / "outside").write_text("outside")
    bad = {
        notes / "d": "is a directory",
        notes: "is a directory",
        notes / "x.tmp": "is no memory: a temporary",
        notes / "sedAbC123": "is no memory: a temporary",
        notes / "missing": "No such file or directory",
        at.root / "beside": "lies beside the stores",
        at.root: "lies beside the stores",
        tmp_path / "outside": "lies in no mounted store: 'memfs status' shows",
        Path("/proc/self/stat"): "lies in no mounted store",
    }
    done = at.run("stat", "--format", "jsonl", notes / "a.md", *bad, notes / "b.md", check=False)
    assert done.returncode == 3
    assert [json.loads(line)["file"] for line in done.stdout.splitlines()] == [str(notes / "a.md"), str(notes / "b.md")]
    assert len(done.stderr.splitlines()) == len(bad)
    for (file, reason), line in zip(bad.items(), done.stderr.splitlines(), strict=True):
        assert line.startswith(f"memfs: {file}"), line
        assert reason in line, line


def test_what_is_not_saved_yet_is_told(at: Site, notes: Path) -> None:
    (notes / "a.md").write_text("saved")
    with (notes / "a.md").open("r+") as file, (notes / "new.md").open("w") as new:
        file.write("SAVED")
        file.flush()
        new.write("new")
        new.flush()
        (found,) = stat(at, notes / "a.md")
        done = at.run("stat", notes / "new.md", check=False)
        committed = at.heads("notes")
    # A slow machine may have committed what was dirty for 5 seconds.
    assert found["unsaved"] is True or committed["/a.md"] == b"SAVED"
    assert (done.returncode == 3 and "is new and not saved yet" in done.stderr) or "/new.md" in committed
    assert [each["unsaved"] for each in stat(at, notes / "a.md", notes / "new.md")] == [False, False]


def test_a_change_elsewhere_is_no_unsaved_text(at: Site, notes: Path) -> None:
    """Nor are a touch, a chmod, and a save by rename."""
    (notes / "a.md").write_text("one")
    (notes / "x.tmp").write_text("two")
    os.stat(notes / "a.md")
    with Workspace.open(at.db) as workspace:
        store = workspace.stores.resolve("notes").id
        workspace.memories.update(store, "/a.md", Actor("api_actor", "apikey_1"), content=b"elsewhere")
    (found,) = stat(at, notes / "a.md")
    assert (found["unsaved"], found["version"]["created_by"]["type"]) == (False, "api_actor")
    os.utime(notes / "a.md", (1, 1))
    (notes / "a.md").chmod(0o600)
    assert stat(at, notes / "a.md")[0]["unsaved"] is False
    (notes / "x.tmp").rename(notes / "a.md")
    (found,) = stat(at, notes / "a.md")
    assert (found["unsaved"], found["memory"]["content_sha256"]) == (False, sha256(b"two").hexdigest())


def test_asking_is_no_reading(at: Site, notes: Path) -> None:
    (notes / "a.md").write_text("a")
    stat(at, notes / "a.md")
    at.run("umount", at.root)
    with Workspace.open(at.db, read_only=True) as workspace:
        store = workspace.stores.resolve("notes").id
        (accessed,) = workspace.memories.unaccessed(store, "2999-01-01T00:00:00.000000Z")
    assert accessed.accessed_at is None


def test_the_mount_s_own_database_is_asked_and_a_dead_one_named(at: Site, notes: Path, tmp_path: Path) -> None:
    (notes / "a.md").write_text("a")
    other = at.run("stat", "-q", notes / "a.md", "--db", tmp_path / "none.db").stdout.split()
    assert other == [at.history("notes")[0].memory_id]
    subprocess.run(["umount", "-l", notes], check=True, timeout=LIMIT)
    done = at.run("stat", notes / "a.md", check=False)
    assert done.returncode in (1, 3)
    assert "not mounted any more" in done.stderr or "in no mounted store" in done.stderr
    wait_until(lambda: not at.processes(), "the processes are gone")


# Extended attributes


def test_tools_find_no_extended_attributes_and_say_nothing(at: Site, notes: Path, tmp_path: Path) -> None:
    (notes / "a.md").write_text("a")
    for ask in (
        lambda: os.getxattr(notes / "a.md", "user.memfs.id"),
        lambda: os.getxattr(notes / "a.md", "security.capability"),
        lambda: os.setxattr(notes / "a.md", "user.x", b"1"),
        lambda: os.removexattr(notes / "a.md", "user.x"),
    ):
        with pytest.raises(OSError) as raised:  # noqa: PT011 (the errno is looked at)
            ask()
        assert raised.value.errno == errno.EOPNOTSUPP
    source, out = tmp_path / "source", tmp_path / "out"
    for directory in (source, out):
        directory.mkdir()
    (source / "s.md").write_text("s")
    commands: list[list[str | Path]] = [
        ["cp", "-a", notes / "a.md", notes / "b.md"],
        ["cp", "-a", source / "s.md", notes / "s.md"],
        ["cp", "-a", notes / "a.md", out],
        ["mv", source / "s.md", notes / "m.md"],
    ]
    if shutil.which("rsync"):
        commands += [["rsync", "-aX", notes / "a.md", notes / "r.md"], ["rsync", "-aX", f"{notes}/", f"{out}/"]]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command
    assert {"/a.md", "/b.md", "/s.md", "/m.md"} <= set(at.heads("notes"))
    with pytest.raises(PermissionError):
        os.mkfifo(notes / "pipe")
    assert [told["operation"] for told in at.refusals()] == ["mknod"], "and nothing before it"
