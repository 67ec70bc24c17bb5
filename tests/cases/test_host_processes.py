"""Kinds that need the daemon, the database or namespaces under control: endings, other namespaces, limits of memory."""

import errno
import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from memfs.mount.processes import mounted_at
from tests.cases.scene import errno_of, opened
from tests.mount.harness import LIMIT, Site, kill, wait_until
from tests.mount.namespaces import needs_user_namespaces

pytestmark = pytest.mark.mount


def kill_all(at: Site) -> None:
    """End every process of a root at once, without a chance to say anything; what it left mounted stays dead."""
    supervisor, workers = at.supervisor(), [int(mount["pid"]) for mount in at.status()]
    os.kill(supervisor, signal.SIGSTOP)  # it must not start another worker before it is killed itself
    for pid in [*workers, supervisor]:
        kill(pid)
    wait_until(lambda: not at.processes(), "all processes to end")


def readable(path: Path) -> bytes | None:
    """A file's bytes, None while its mount is dead."""
    try:
        return path.read_bytes()
    except OSError:
        return None


@pytest.mark.parametrize("how", ["close", "fsync", "fdatasync", "rename", "truncate"])
def test_what_was_saved_is_there_after_all_were_killed(at: Site, how: str) -> None:
    """J01, J03: whatever said that it is saved; the database is whole, and the next mount has it."""
    (notes,) = at.mount("notes")
    (notes / "f").write_text("before, and longer than what comes")
    text = f"saved by {how}\n".encode()
    descriptor = os.open(notes / ("f.tmp" if how == "rename" else "f"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(descriptor, text)
    if how in ("fsync", "fdatasync"):
        getattr(os, how)(descriptor)
    else:
        os.close(descriptor)
    if how == "rename":
        os.rename(notes / "f.tmp", notes / "f")
    elif how == "truncate":
        os.truncate(notes / "f", 5)
        text = text[:5]
    kill_all(at)
    if how in ("fsync", "fdatasync"):
        # Nobody can be told of this close any more.
        assert errno_of(lambda: os.close(descriptor)) is not None
    assert readable(notes / "f") is None
    with closing(sqlite3.connect(at.db)) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert at.heads("notes") == {"/f": text}
    at.mount("notes")
    assert (notes / "f").read_bytes() == text
    assert [len(mounted_at(path)) for path in (at.root, notes)] == [1, 1]


def test_unmounting_what_is_busy(at: Site) -> None:
    """J09: refused and served on; taken off the tree all the same, its holder's text arrives, and no second daemon."""
    (notes,) = at.mount("notes")
    (notes / "a.md").write_text("a\n")
    with opened(notes / "a.md", os.O_WRONLY | os.O_APPEND) as held:
        for command in ("umount", "fusermount3 -u"):
            refused = subprocess.run(
                [*command.split(), notes], capture_output=True, text=True, timeout=LIMIT, check=False
            )
            assert refused.returncode != 0
            assert "busy" in refused.stderr
        assert (notes / "a.md").read_text() == "a\n"
        subprocess.run(["fusermount3", "-uz", notes], check=True, timeout=LIMIT)
        refusal = at.run("mount", "--root", at.root, "-s", "notes", check=False)
        assert refusal.returncode == 1
        assert "mounted already" in refusal.stderr
        assert len(at.processes()) == 2  # the supervisor and the worker of before
        assert not os.access(notes / "a.md", os.F_OK)
        assert errno_of(lambda: (notes / "lost.md").write_text("lost")) is not None
        os.write(held, b"held\n")
    wait_until(lambda: not at.processes(), "the daemon to end after its last file")
    assert at.heads("notes") == {"/a.md": b"a\nheld\n"}
    (notes,) = at.mount("notes")
    assert (notes / "a.md").read_text() == "a\nheld\n"


def test_a_daemon_does_not_live_in_its_own_mount(at: Site) -> None:
    """J10: whatever the caller's directory and variables are, no process of ours keeps or asks anything there."""
    at.root.mkdir()
    place = at.root
    at.extra |= {"TMPDIR": str(at.root / "notes"), "HOME": str(at.root / "notes"), "PWD": str(place)}
    done = subprocess.run(
        at.command("mount", "--root", at.root, "-s", "notes"),
        cwd=place,
        env=at.environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    at.note_logs()
    for pid in at.processes():
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        for entry in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{entry}")
            assert not target.startswith(str(at.root / "notes")), target
    (at.root / "notes" / "a.md").write_text("a")
    assert at.heads("notes") == {"/a.md": b"a"}


def test_a_database_of_any_spelling_below_the_root_is_refused(at: Site, tmp_path: Path) -> None:
    """J10: by a link, by ``..``, by the root's own link; in a moment, with the reason."""
    (tmp_path / "link").symlink_to(at.db.parent)
    (tmp_path / "top").symlink_to(at.db.parent)
    for root, db in (
        (at.db.parent, at.db),
        (at.db.parent, tmp_path / "link" / "memfs.db"),
        (tmp_path / "top", at.db),
        (at.db.parent / ".." / "db", at.db),
    ):
        done = subprocess.run(
            at.command("mount", "--root", root, "-s", "notes"),
            env=at.environment() | {"MEMFS_DB": str(db)},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 1
        assert "lies below the root" in done.stderr
        assert not mounted_at(at.db.parent)
    at.nothing_left()


READING = 'echo ready; while read name; do cat "$0/$name"; done'


def test_another_mount_namespace_sees_the_daemon_come_back(at: Site) -> None:
    """K01, K02: a namespace that receives mounts has the store, and after the daemon's death the new one."""
    shared = at.root.parent / "shared"
    shared.mkdir()
    subprocess.run(["mount", "--bind", shared, shared], check=True, timeout=LIMIT)
    try:
        subprocess.run(["mount", "--make-shared", shared], check=True, timeout=LIMIT)
        root = shared / "root"
        at.run("mount", "--root", root, "-s", "notes")
        consumer = subprocess.Popen(
            ["unshare", "-m", "--propagation", "slave", "sh", "-c", READING, str(root / "notes")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with consumer:
            try:
                assert consumer.stdin is not None
                assert consumer.stdout is not None
                assert consumer.stdout.readline() == "ready\n"
                for number in range(3):
                    (root / "notes" / f"{number}.md").write_text(f"text {number}\n")
                    consumer.stdin.write(f"{number}.md\n")
                    consumer.stdin.flush()
                    assert consumer.stdout.readline() == f"text {number}\n"
                    found = [mount for mount in status_of(at, root) if mount["name"] == "notes"]
                    kill(int(str(found[0]["pid"])))
                    wait_until(partial(readable, root / "notes" / f"{number}.md"), "the worker")
            finally:
                consumer.kill()
    finally:
        at.run("umount", root, check=False)
        subprocess.run(["umount", "-R", shared], check=True, timeout=LIMIT)


def status_of(at: Site, root: Path) -> list[dict[str, object]]:
    """What is mounted at another root than the site's."""
    return [mount for mount in json.loads(at.run("status", "--format", "json").stdout) if mount["root"] == str(root)]


@needs_user_namespaces
@pytest.mark.parametrize("uid", [0, 1000])
def test_inside_a_user_namespace(at: Site, uid: int) -> None:
    """K06: whoever the mount belongs to works in it; anybody else reads, and is refused cleanly."""
    (notes,) = at.mount("notes")
    (notes / "a.md").write_text("a\n")
    at.directory.chmod(0o711)
    for parent in at.directory.parents:
        if parent.stat().st_mode & 0o011 != 0o011:
            parent.chmod(parent.stat().st_mode | 0o011)
    script = "stat -c %u .; cat a.md; if echo in > ns.md; then cat ns.md; mv ns.md n; rm n; else echo refused; fi"
    done = subprocess.run(
        [
            "setpriv",
            "--reuid",
            str(uid),
            "--regid",
            str(uid),
            "--clear-groups",
            "unshare",
            "-U",
            "-r",
            "sh",
            "-c",
            script,
        ],
        cwd=notes,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if uid == 0:
        assert done.stdout.split() == ["0", "a", "in"]
    else:
        assert done.stdout.split() == ["65534", "a", "refused"]
        assert "Permission denied" in done.stderr
    assert at.heads("notes") == {"/a.md": b"a\n"}


def test_far_ends_allocate_nothing(at: Site) -> None:
    """M02: EFBIG at the call, a daemon that stays small, and holes that read as zeros."""
    at.expected_log.append("dropped .* a write over 102400 bytes was refused")
    (notes,) = at.mount("notes")
    worker = at.worker("notes")

    def resident() -> int:
        return int(Path(f"/proc/{worker}/statm").read_text().split()[1]) * 4096

    before = resident()
    (notes / "f").write_text("keep")
    for script in (
        "truncate -s 10G f",
        "truncate -s 102401 f",
        "printf x | dd of=g bs=1 seek=9999999999 conv=notrunc status=none",
        "fallocate -l 1G h",
        "head -c 102401 /dev/zero > i",
        "python3 -c \"open('j', 'w').write('é' * 51201)\"",
        "head -c 200000 /dev/zero > k.tmp; mv k.tmp k",
    ):
        done = subprocess.run(
            ["bash", "-c", script], cwd=notes, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert done.returncode != 0, script
        # Where there is no allocating, a program falls back to writing, and then meets the limit.
        assert ("not supported" if "fallocate" in script else "too large") in done.stderr.lower(), script
    assert resident() - before < 20_000_000
    # As on a disk: what made the file was no fault, only what should have filled it.
    wait_until(lambda: at.heads("notes") == {"/f": b"keep", "/h": b""}, "what was refused to go")
    for number, end in enumerate((0, 4096, 50_000, 102_396)):
        with opened(notes / f"s{number}", os.O_CREAT | os.O_RDWR) as descriptor:
            os.pwrite(descriptor, b"end\n", end)
        assert (notes / f"s{number}").read_bytes() == bytes(end) + b"end\n"
        subprocess.run(["cp", "--sparse=always", f"s{number}", f"c{number}"], cwd=notes, check=True, timeout=LIMIT)
        assert at.heads("notes")[f"/c{number}"] == bytes(end) + b"end\n"


def write_all(path: Path, size: int, step: int) -> int:
    """Empty a file and write to it; returns how many bytes went in before one was refused. Its close is refused too."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    written = 0
    try:
        while written < size:
            written += os.write(descriptor, b"x" * min(step, size - written))
    except OSError as refused:
        if refused.errno != errno.EFBIG:
            raise
    finally:
        closed = errno_of(lambda: os.close(descriptor))
    assert closed == errno.EFBIG
    return written


def test_a_text_over_the_limit_is_never_cut_silently(at: Site) -> None:
    """M01: the write that crosses it says so, or else is short and the next one does; and the text before stays."""
    at.expected_log.append("dropped .* a write over 102400 bytes was refused")
    (notes,) = at.mount("notes")
    (notes / "f").write_text("keep")
    for size, step in product((102_401, 150_000, 1_000_000), (1000, 4096, 1_000_000)):
        assert write_all(notes / "f", size, step) <= 102_400
        wait_until(lambda: (notes / "f").read_bytes() == b"keep", "the text before")
    assert at.heads("notes") == {"/f": b"keep"}
    assert [version.content for version in at.history("notes")] == [b"keep"]


SAVES = {
    "same text": ("echo same > f", 0),
    "touch": ("touch f", 0),
    "chmod": ("chmod 600 f", 0),
    "read": ("cat f > /dev/null; cp f /dev/null", 0),
    "opened": ("exec 5<> f; exec 5>&-; : >> f", 0),
    "the same by rename": ("echo same > f.tmp; mv f.tmp f", 0),
    "the same in place": ("sed -i s/same/same/ f", 0),
    "another text": ("echo new > f", 1),
    "by rename": ("echo new > f.tmp; mv f.tmp f", 1),
    "in place": ("sed -i s/same/new/ f", 1),
    "appended": ("echo more >> f", 1),
    "a backup first": ("mv f f~; echo new > f; rm f~", 1),
}


def test_only_another_text_is_another_version(at: Site) -> None:
    """M06: by whatever way it is saved."""
    (notes,) = at.mount("notes")
    for number, (how, (script, more)) in enumerate(SAVES.items()):
        directory = notes / str(number)
        directory.mkdir()
        (directory / "f").write_text("same\n")
        subprocess.run(["bash", "-euc", script], cwd=directory, check=True, timeout=LIMIT)
        versions = at.history("notes", f"/{number}/f")
        assert len(versions) == 1 + more, how
        assert versions[0].content == b"same\n"


def test_names_keep_their_history_when_they_go(at: Site) -> None:
    """M06, O06: what was removed, replaced, moved and made anew can all be read in the history."""
    (notes,) = at.mount("notes")
    for number in range(10):
        (notes / f"k{number}").write_text(f"keep {number}")
    subprocess.run(
        "rm -rf k*; mkdir k1; echo x > k1/x; rm -r k1; echo new > k2; mv k2 k3",
        cwd=notes,
        shell=True,
        check=True,
        timeout=LIMIT,
    )
    kept = {version.path: version.content for version in at.history("notes") if version.operation == "created"}
    assert {f"/k{number}": kept[f"/k{number}"] for number in range(10) if number != 2} == {
        f"/k{number}": f"keep {number}".encode() for number in range(10) if number != 2
    }
    contents = [version.content for version in at.history("notes")]
    assert all(f"keep {number}".encode() in contents for number in range(10))
    assert at.heads("notes") == {"/k3": b"new\n"}
