"""Crashes and endings: a worker, the supervisor or everything killed; signals and unmounts with unsaved text."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.mount.processes import mounted_at
from tests.mount.harness import LIMIT, Site, kill, shell, wait_for_end, wait_until

pytestmark = pytest.mark.mount


def readable(path: Path) -> bytes | None:
    """A file's bytes, None while its mount is dead."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def test_a_killed_worker_comes_back_and_the_others_stay(at: Site) -> None:
    at.expected_log.append("a worker died")
    at.store("other")
    notes, other = at.mount("notes", "other")
    (notes / "closed.md").write_text("closed")
    (other / "here.md").write_text("here")
    victim = at.worker("notes")
    kill(victim)
    wait_for_end(victim)
    assert (other / "here.md").read_text() == "here"
    (other / "during.md").write_text("during")
    assert wait_until(lambda: readable(notes / "closed.md"), "the worker to come back") == b"closed"
    (notes / "after.md").write_text("after")
    wait_until(lambda: at.worker("notes") != victim, "the new worker's record")
    assert len(mounted_at(notes)) == 1
    assert at.heads("notes") == {"/closed.md": b"closed", "/after.md": b"after"}
    assert at.heads("other") == {"/here.md": b"here", "/during.md": b"during"}


def test_a_worker_that_dies_again_and_again_comes_back_each_time(at: Site, notes: Path) -> None:
    at.expected_log.append("a worker died")
    for number in range(4):
        (notes / f"{number}.md").write_text(str(number))
        at.restart_worker("notes")
        assert readable(notes / f"{number}.md") == str(number).encode()
    assert len(at.heads("notes")) == 4


def test_while_a_store_is_down_nothing_lands_in_its_directory(at: Site, notes: Path) -> None:
    """Fail closed: the directory under a mount takes no writes, not even root's, and goes with the last store."""
    subprocess.run(["umount", "-l", notes], check=True, timeout=LIMIT)
    with pytest.raises(OSError, match=r"not permitted|No such file"):
        (notes / "lost.md").write_text("lost")
    with pytest.raises(OSError, match=r"not permitted|No such file"):
        (notes / "d").mkdir()
    wait_until(lambda: not at.root.exists(), "the root to go after its last store")
    assert at.heads("notes") == {}


def test_unmounting_one_store_from_outside_leaves_the_others(at: Site) -> None:
    at.store("other")
    notes, other = at.mount("notes", "other")
    (notes / "a.md").write_text("a")
    subprocess.run(["umount", notes], check=True, timeout=LIMIT)
    with pytest.raises(PermissionError):
        (notes / "lost.md").write_text("lost")
    (other / "b.md").write_text("b")
    assert [mount["state"] for mount in at.status()] == ["unmounted", "mounted"]
    assert at.heads("notes") == {"/a.md": b"a"}


@pytest.fixture
def dirty(notes: Path) -> Iterator[list[int]]:
    """Files that are open and written to, not closed."""
    descriptors = []
    for name in ("one.md", "two.md"):
        descriptor = os.open(notes / name, os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(descriptor, f"dirty {name}".encode())
        descriptors.append(descriptor)
    yield descriptors
    for descriptor in descriptors:
        # Their mount is gone, so that the kernel has nobody to tell of the close.
        with pytest.raises(OSError, match=r"not connected|connection abort"):
            os.close(descriptor)


SAVED = {"/one.md": b"dirty one.md", "/two.md": b"dirty two.md"}


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT], [signal.SIGTERM, signal.SIGINT]])
def test_a_signal_commits_what_is_open_and_leaves_nothing(
    at: Site, dirty: list[int], signals: list[signal.Signals]
) -> None:
    assert len(dirty) == 2
    supervisor = at.supervisor()
    for number in signals:
        os.kill(supervisor, number)
    wait_for_end(supervisor)
    at.nothing_left()
    assert at.heads("notes") == SAVED


def test_umount_commits_what_is_open_and_names_who_has_it(at: Site, dirty: list[int]) -> None:
    assert len(dirty) == 2
    done = at.run("umount", at.root)
    assert f"pid {os.getpid()}" in done.stderr
    at.nothing_left()
    assert at.heads("notes") == SAVED


def test_a_signal_to_a_worker_commits_and_it_comes_back(at: Site, notes: Path, dirty: list[int]) -> None:
    assert len(dirty) == 2
    at.expected_log.append("a worker died")
    worker = at.worker("notes")
    os.kill(worker, signal.SIGTERM)
    wait_for_end(worker)  # until then it is the one that answers
    wait_until(lambda: readable(notes / "one.md"), "the worker")
    assert at.heads("notes") == SAVED


def test_when_the_supervisor_is_killed_its_workers_commit_and_go(at: Site, dirty: list[int]) -> None:
    assert len(dirty) == 2
    workers = [mount["pid"] for mount in at.status()]
    kill(at.supervisor())
    for worker in workers:
        wait_for_end(worker)
    assert at.heads("notes") == SAVED
    assert at.status()[0]["state"] == "dead"
    (directory,) = at.mount("notes")
    assert (directory / "one.md").read_bytes() == SAVED["/one.md"]
    assert [len(mounted_at(path)) for path in (at.root, directory)] == [1, 1]


def test_after_everything_was_killed_it_mounts_again(at: Site, notes: Path) -> None:
    (notes / "kept.md").write_text("kept")
    (at.root / "scratch").write_text("scratch")
    worker, supervisor = at.worker("notes"), at.supervisor()
    os.kill(supervisor, signal.SIGSTOP)
    kill(worker)
    kill(supervisor)
    wait_for_end(supervisor)
    assert readable(notes / "kept.md") is None
    assert at.status()[0]["state"] == "dead"
    (directory,) = at.mount("notes")
    assert (directory / "kept.md").read_text() == "kept"
    assert not (at.root / "scratch").exists()
    assert [len(mounted_at(path)) for path in (at.root, directory)] == [1, 1]


def test_a_supervisor_killed_while_it_starts_can_be_cleared(at: Site) -> None:
    """At any moment: what was made until then is found by the next command."""
    names = ["notes", *(at.store(f"s{number}") for number in range(7))]
    words = [word for name in names for word in ("-s", name)]
    for command in ("mount", "umount"):
        process = subprocess.Popen(
            at.command("mount", "--foreground", "--root", at.root, *words),
            env=at.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: mounted_at(at.root), "the root")
        process.kill()
        process.wait(LIMIT)
        wait_until(lambda: not at.processes(), "the workers to end with it")
        if command == "mount":
            at.mount("notes")
        at.run("umount", at.root)
        at.nothing_left()
        assert not at.root.exists()


def test_trouble_with_one_store_s_restart_leaves_the_others_up(at: Site) -> None:
    """Its database is gone when its worker is to come back; when it is there again, so is the store."""
    at.expected_log += ["a worker died", "could not mount again", "nothing can be saved for now: .* was removed"]
    at.store("other")
    notes, other = at.mount("notes", "other")
    (notes / "kept.md").write_text("kept")
    hidden = at.db.with_name("hidden")
    os.rename(at.db, hidden)
    kill(at.worker("notes"))
    wait_until(lambda: "could not mount again" in Path(at.status()[0]["log"]).read_text(), "a try in vain")
    assert os.listdir(other) == []
    os.rename(hidden, at.db)
    assert wait_until(lambda: readable(notes / "kept.md"), "the worker to come back") == b"kept"
    (other / "up.md").write_text("up")


def test_umount_clears_what_a_killed_supervisor_left(at: Site, notes: Path) -> None:
    (notes / "kept.md").write_text("kept")
    kill(at.supervisor())
    at.run("umount", at.root)
    at.nothing_left()
    assert not at.root.exists()
    assert at.heads("notes") == {"/kept.md": b"kept"}


def test_a_closed_write_survives_the_death_of_all_at_once(at: Site, notes: Path) -> None:
    for number in range(20):
        (notes / f"{number}.md").write_text(str(number))
    supervisor = at.supervisor()
    kill(supervisor)
    kill(at.status()[0]["pid"])
    assert at.heads("notes") == {f"/{number}.md": str(number).encode() for number in range(20)}


def test_a_writer_that_is_killed_leaves_whole_versions(at: Site, notes: Path) -> None:
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import itertools\n"
            "for n in itertools.count():\n"
            "    open('w.md', 'w').write(f'{n}\\n' * 500)\n"
            "    print(n, flush=True)",
        ],
        cwd=notes,
        stdout=subprocess.PIPE,
        text=True,
    )
    with writer:
        assert writer.stdout is not None
        for _ in range(50):
            writer.stdout.readline()
        writer.kill()
    texts = [version.content for version in at.history("notes", "/w.md")]
    assert texts[49] == b"49\n" * 500
    assert all(text is not None and len(set(text.split())) <= 1 for text in texts[:-1])


def test_a_stopped_worker_leaves_its_clients_killable(at: Site, notes: Path) -> None:
    (notes / "a.md").write_text("a")
    worker = at.worker("notes")
    os.kill(worker, signal.SIGSTOP)
    try:
        client = _waiting(notes / "uncached.md")
        client.kill()
        assert client.wait(LIMIT) == -signal.SIGKILL
        assert at.status()[0]["state"] == "silent"
    finally:
        os.kill(worker, signal.SIGCONT)
    shell("ls >/dev/null; df . >/dev/null; cat a.md >/dev/null", notes)


def _waiting(path: Path) -> "subprocess.Popen[bytes]":
    """A process that waits in the kernel for an answer of a mount."""
    client = subprocess.Popen(["cat", path], stderr=subprocess.DEVNULL)
    where = Path(f"/proc/{client.pid}/wchan")
    wait_until(lambda: where.read_text() in ("request_wait_answer", "fuse_get_req"), "the client to wait for the mount")
    return client


ABORT = """mount -t fusectl none /sys/fs/fuse/connections
echo 1 > "/sys/fs/fuse/connections/$0/abort"
"""


@pytest.mark.parametrize("way", ["kill", "abort"])
def test_a_worker_that_hangs_for_good_is_got_rid_of(at: Site, notes: Path, way: str) -> None:
    """J08: as the guide to troubleshooting says, by ending its process or its connection."""
    if way == "kill":
        at.expected_log.append("a worker died")
    (notes / "a.md").write_text("a")
    worker = at.worker("notes")
    (point,) = mounted_at(notes)
    os.kill(worker, signal.SIGSTOP)
    client = _waiting(notes / "uncached.md")
    if way == "kill":
        os.kill(worker, signal.SIGKILL)
        wait_for_end(worker)
        wait_until(lambda: at.worker("notes") != worker and at.status()[0]["state"] == "mounted", "the store again")
    else:
        number = point.device.partition(":")[2]
        subprocess.run(["unshare", "--mount", "sh", "-euc", ABORT, number], check=True, timeout=LIMIT)
        with pytest.raises(OSError, match="not connected"):
            os.listdir(notes)
        os.kill(worker, signal.SIGCONT)
        wait_for_end(worker)
        wait_until(lambda: not at.status(), "its end")
        at.mount("notes")
    assert client.wait(LIMIT) == 1
    assert (notes / "a.md").read_text() == "a"


def test_another_process_that_holds_the_database_delays_writes_and_no_reads(at: Site, notes: Path) -> None:
    (notes / "read.md").write_text("read me")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys\n"
            "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "db.execute('BEGIN IMMEDIATE')\n"
            "print('held', flush=True)\n"
            "sys.stdin.readline()\n"
            "db.execute('COMMIT')",
            at.db,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        # More than a server of requests would have workers: their closes all wait, and reads still go through.
        writer = subprocess.Popen(
            ["sh", "-c", "for n in $(seq 150); do echo during > busy$n.md & done; wait"], cwd=notes
        )
        wait_until(lambda: len(os.listdir(notes)) == 151, "the writers")
        for _ in range(20):
            assert (notes / "read.md").read_text() == "read me"
            assert "read.md" in os.listdir(notes)
        assert writer.poll() is None
        assert set(at.heads("notes")) == {"/read.md"}
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert writer.wait(LIMIT) == 0
    assert all(at.heads("notes")[f"/busy{number}.md"] == b"during\n" for number in range(1, 151))
    assert len(at.history("notes")) == 151


def test_a_memory_whose_row_is_damaged_is_eio_and_the_mount_lives_on(at: Site, notes: Path) -> None:
    """The content of a version is taken out of the database behind the mount's back."""
    at.damaged = True
    (notes / "a.md").write_text("soon damaged")
    at.run("umount", at.root)
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys\n"
            "db = sqlite3.connect(sys.argv[1])\n"
            "db.execute('UPDATE contents SET bytes = ?', (12345,))\n"
            "db.commit()",
            at.db,
        ],
        check=True,
        timeout=LIMIT,
    )
    (directory,) = at.mount("notes")
    with pytest.raises(OSError, match="Input/output error"):
        (directory / "a.md").read_bytes()
    (directory / "b.md").write_text("alive")
    assert (directory / "b.md").read_text() == "alive"
    (log,) = {mount["log"] for mount in at.status()}
    assert re.search(r"refused path=/a\.md operation=read errno=EIO reason=.* is damaged", Path(log).read_text())
