"""Mounting and unmounting: what appears, what is refused, and that nothing stays behind."""

import fcntl
import json
import os
import signal
import stat
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from memfs.model import ids
from memfs.mount.processes import mounted_at
from memfs.mount.runtime import RootState, runtime_directory
from memfs.workspace import Workspace
from tests.mount.harness import LIMIT, Site, shell, wait_for_end, wait_until

pytestmark = pytest.mark.mount


def test_stores_appear_under_the_root_beside_scratch(at: Site) -> None:
    at.store("Team Standards", style_md="tabs\n")
    directories = at.mount("notes", "team-standards:read_only")
    assert directories == [at.root / "notes", at.root / "team-standards"]
    assert [point.kind for point in mounted_at(at.root)] == ["tmpfs"]
    assert [[point.kind for point in mounted_at(directory)] for directory in directories] == [["fuse.memfs"]] * 2
    assert (at.root / "team-standards" / "style.md").read_text() == "tabs\n"
    (at.root / "draft").write_text("gone soon")
    assert sorted(os.listdir(at.root)) == ["draft", "notes", "team-standards"]
    at.run("umount", at.root)
    assert not at.root.exists()
    at.nothing_left()


def test_memories_outlive_the_mount_and_scratch_does_not(at: Site) -> None:
    at.root.mkdir()
    (directory,) = at.mount("notes")
    (directory / "kept.md").write_text("kept\n")
    (at.root / "scratch.txt").write_text("gone\n")
    at.run("umount", at.root)
    assert os.listdir(at.root) == []
    (directory,) = at.mount("notes")
    assert (directory / "kept.md").read_text() == "kept\n"
    assert not (at.root / "scratch.txt").exists()


def test_status_says_what_is_mounted(at: Site) -> None:
    at.mount("notes")
    (mount,) = at.status()
    assert mount["path"] == str(at.root / "notes")
    assert mount["state"] == "mounted"
    assert mount["access"] == "read_write"
    assert mount["database"] == str(at.db)
    assert ids.is_id(mount["session_id"], ids.SESSION)
    assert str(at.root / "notes") in at.run("status").stdout


def test_changes_are_attributed_to_the_session(at: Site) -> None:
    session = ids.new_id(ids.SESSION)
    (directory,) = at.mount("notes", session=session)
    (directory / "a.md").write_text("a")
    (version,) = at.history("notes")
    assert version.created_by.as_json() == {"type": "session_actor", "session_id": session}
    assert at.status()[0]["session_id"] == session


def test_a_known_session_is_mounted_as_it_was_made(at: Site) -> None:
    at.store("other")
    session = ids.new_id(ids.SESSION)
    at.mount("notes:read_only", "other", session=session)
    at.run("umount", at.root)
    refused = at.run("mount", "--root", at.root, "--session", session, "-s", "notes", check=False)
    assert refused.returncode == 2
    assert "fixed" in refused.stderr
    directories = [Path(line) for line in at.run("mount", "--root", at.root, "--session", session).stdout.splitlines()]
    assert directories == [at.root / "notes", at.root / "other"]
    with pytest.raises(OSError, match="Read-only"):
        (directories[0] / "x").write_text("x")
    (directories[1] / "x").write_text("x")


def test_equal_slugs_are_numbered_in_order(at: Site) -> None:
    second, third = at.store("Notes!"), at.store("NOTES")
    directories = at.mount("notes", second, third)
    assert [directory.name for directory in directories] == ["notes", "notes-2", "notes-3"]
    (directories[2] / "mine").write_text("third")
    assert at.heads(third) == {"/mine": b"third"}


def test_eight_stores_mount_and_a_ninth_is_refused(at: Site) -> None:
    names = ["notes", *(at.store(f"s{number}") for number in range(8))]
    refused = at.run("mount", "--root", at.root, *[word for name in names for word in ("-s", name)], check=False)
    assert refused.returncode == 2
    assert "at most 8" in refused.stderr
    assert not at.root.exists()
    assert len(at.mount(*names[:8])) == 8


@pytest.mark.parametrize(
    "arguments,reason",
    [
        (["-s", "nowhere"], "no store 'nowhere'"),
        (["-s", "notes", "-s", "notes:read_only"], "named twice"),
        (["-s", "old"], "archived"),
        ([], "at least one store"),
        (["-s", "notes", "--session", "sesn_bad"], "session"),
        (["-s", "notes", "--scratch-size", "lots"], "size"),
    ],
)
def test_what_cannot_be_mounted_is_refused_in_a_line(at: Site, arguments: list[str], reason: str) -> None:
    old = at.store("old")
    with Workspace.open(at.db) as workspace:
        workspace.stores.archive(old)
    refused = at.run("mount", "--root", at.root, *arguments, check=False)
    assert refused.returncode != 0
    assert reason in refused.stderr
    assert refused.stdout == ""
    assert not at.root.exists()
    at.nothing_left()


def test_a_root_that_is_in_use_is_refused(at: Site) -> None:
    at.root.mkdir()
    (at.root / "mine").write_text("keep me")
    refused = at.run("mount", "--root", at.root, "-s", "notes", check=False)
    assert "not empty" in refused.stderr
    assert (at.root / "mine").read_text() == "keep me"
    (at.root / "mine").unlink()
    at.mount("notes")
    refused = at.run("mount", "--root", at.root, "-s", "notes", check=False)
    assert refused.returncode == 1
    assert "mounted already" in refused.stderr
    assert at.status()[0]["state"] == "mounted"


def test_a_foreign_mount_at_the_root_is_left_alone(at: Site) -> None:
    at.root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "foreign", at.root], check=True, timeout=LIMIT)
    try:
        refused = at.run("mount", "--root", at.root, "-s", "notes", check=False)
        assert refused.returncode == 1
        assert "mounted already" in refused.stderr
        assert [point.source for point in mounted_at(at.root)] == ["foreign"]
    finally:
        subprocess.run(["umount", at.root], check=True, timeout=LIMIT)


def test_a_database_below_the_root_is_refused(at: Site) -> None:
    refused = at.run("mount", "--root", at.directory, "-s", "notes", check=False)
    assert refused.returncode == 1
    assert "lies below the root" in refused.stderr


def test_a_root_that_is_a_file_is_refused(at: Site) -> None:
    at.root.write_text("a file")
    refused = at.run("mount", "--root", at.root, "-s", "notes", check=False)
    assert refused.returncode != 0
    assert "directory" in refused.stderr.lower()


def test_without_the_device_the_reason_is_said(at: Site) -> None:
    for hide in ("mount --bind /dev/null /dev/fuse", "mount -t tmpfs none /dev"):
        refused = subprocess.run(
            [
                "unshare",
                "-m",
                "sh",
                "-c",
                f'{hide} && exec "$@"',
                "sh",
                *at.command("mount", "--root", at.root, "-s", "notes"),
            ],
            env=at.environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert refused.returncode == 1
        assert "/dev/fuse" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert not at.root.exists()


def test_without_privilege_the_reason_is_said(at: Site) -> None:
    refused = subprocess.run(
        [
            *("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"),
            *at.command("mount", "--root", at.root, "-s", "notes"),
        ],
        env=at.environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert refused.returncode == 1
    assert "CAP_SYS_ADMIN" in refused.stderr
    assert "fusermount3" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not at.root.exists()
    at.nothing_left()


def test_unmounting_what_is_not_mounted_is_refused(at: Site) -> None:
    refused = at.run("umount", at.root, check=False)
    assert refused.returncode == 1
    assert "memfs status" in refused.stderr


def test_in_the_foreground_it_stays_until_interrupted(at: Site) -> None:
    process = subprocess.Popen(
        at.command("mount", "--foreground", "--root", at.root, "-s", "notes"),
        env=at.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            directory = Path(process.stdout.readline().strip())
            assert directory == at.root / "notes"
            (directory / "a.md").write_text("a")
            process.send_signal(signal.SIGINT)
            process.wait(LIMIT)
        finally:
            process.kill()
        assert process.stderr is not None
        log = process.stderr.read()
    assert process.returncode == 0, log
    assert "Traceback" not in log
    at.nothing_left()
    assert at.heads("notes") == {"/a.md": b"a"}


def test_a_mount_keeps_nothing_of_its_caller_open(at: Site) -> None:
    """A lock or a pipe that the caller holds ends with the caller."""
    lock = at.directory / "lock"
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    command = at.command("mount", "--root", at.root, "-s", "notes")
    subprocess.run(
        command, env=at.environment(), stdout=subprocess.DEVNULL, pass_fds=[descriptor], check=True, timeout=LIMIT
    )
    os.close(descriptor)
    with lock.open() as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert (at.root / "notes").is_dir()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_do_no_harm(at: Site, closed: str) -> None:
    """What the command opens must not become a standard stream that somebody replaces."""
    command = ["sh", "-c", f'"$@" {closed}', "sh", *at.command("mount", "--root", at.root, "-s", "notes")]
    subprocess.run(command, env=at.environment(), capture_output=True, check=True, timeout=LIMIT)
    assert [mount["state"] for mount in at.status()] == ["mounted"]
    (at.root / "notes" / "a.md").write_text("a")


def test_a_caller_that_ignores_its_children_does_no_harm(at: Site) -> None:
    at.expected_log.append("a worker died")
    mount = at.command("mount", "--root", at.root, "-s", "notes")
    subprocess.run(
        ["sh", "-c", "trap '' CHLD; exec \"$@\"", "sh", *mount],
        env=at.environment(),
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=LIMIT,
    )
    at.note_logs()
    at.restart_worker("notes")


def test_in_the_foreground_nohup_is_heeded(at: Site) -> None:
    process = subprocess.Popen(
        ["nohup", *at.command("mount", "--foreground", "--root", at.root, "-s", "notes")],
        env=at.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == str(at.root / "notes")
            process.send_signal(signal.SIGHUP)
            (at.root / "notes" / "a.md").write_text("a")
            assert [mount["state"] for mount in at.status()] == ["mounted"]
            process.terminate()
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["white space", "back\\slash", "new\nline", "carriage\rreturn", "ünïcode"])
def test_roots_of_any_name(at: Site, name: str) -> None:
    root = at.directory / name
    at.run("mount", "--root", root, "-s", "notes")
    try:
        (root / "notes" / "a.md").write_text(name)
        assert str(root) in [mount["root"] for mount in json.loads(at.run("status", "--format", "json").stdout)]
    finally:
        at.run("umount", root)
    assert not root.exists()
    assert at.heads("notes") == {"/a.md": name.encode()}


def test_a_root_within_another_is_refused(at: Site) -> None:
    at.mount("notes")
    refused = at.run("mount", "--root", at.root / "sub", "-s", "notes", check=False)
    assert refused.returncode == 1
    assert "lies in the one at" in refused.stderr


def test_only_the_supervisor_is_ever_signalled(at: Site) -> None:
    """A record may name a process that is none: of another PID namespace, or one that has ended since."""
    at.mount("notes")
    state = RootState(at.root)
    record = state.read()
    assert record is not None
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        state.write(replace(record, pid=bystander.pid))
        refused = at.run("umount", at.root, check=False)
        assert refused.returncode == 1
        assert "cannot be told for sure" in refused.stderr
        assert bystander.poll() is None
        assert at.status()[0]["state"] == "mounted"
    finally:
        bystander.kill()
        bystander.wait(LIMIT)
        state.write(record)


def has_begun(at: Site, process: "subprocess.Popen[str]") -> bool:
    """Whether a mount has made its root, or is over."""
    return bool(mounted_at(at.root)) or process.poll() is not None


def ended_midway(at: Site, number: signal.Signals) -> tuple[int, str, str]:
    """How a mount of eight stores ended that got a signal meanwhile, and what it wrote; tried anew where it was faster
    than we."""
    names = ["notes", *(at.store(f"s{number}") for number in range(7))]
    for _ in range(10):
        process = subprocess.Popen(
            at.command("mount", "--root", at.root, *[word for name in names for word in ("-s", name)]),
            env=at.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(partial(has_begun, at, process), "the root")
        process.send_signal(number)
        output, errors = process.communicate(timeout=LIMIT)
        if process.returncode:
            return process.returncode, output, errors
        at.run("umount", at.root)
    raise AssertionError("eight mounts were each time there before the signal came")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_mount_whose_caller_is_gone_is_taken_down(at: Site, number: signal.Signals) -> None:
    assert ended_midway(at, number)[0] == -number
    wait_until(lambda: not at.status() and not at.root.exists(), "the supervisor to take its mounts down")
    at.nothing_left()


def test_an_interrupted_mount_leaves_nothing(at: Site) -> None:
    """Ctrl-C while the command waits for its mounts takes them down again."""
    status, output, errors = ended_midway(at, signal.SIGINT)
    assert (status, output) == (130, ""), errors
    at.nothing_left()
    assert not at.root.exists()


def test_a_refused_mount_leaves_no_record(at: Site) -> None:
    for root, store in ((at.root, "nowhere"), (at.directory, "notes")):
        at.run("mount", "--root", root, "-s", store, check=False)
        ours = RootState(root).record_path.stem
        assert [name for name in os.listdir(runtime_directory()) if name.startswith(ours)] == []


def test_a_record_that_cannot_be_read_spoils_only_its_own_root(at: Site) -> None:
    at.mount("notes")
    record = RootState(at.root).record_path
    other = record.with_name("0" * 24 + ".json")
    other.write_text('{"root": "/elsewhere"}')
    try:
        done = at.run("status")
        assert str(at.root / "notes") in done.stdout
        assert "left out" in done.stderr
    finally:
        other.unlink()


def test_after_unmounting_the_database_is_one_file(at: Site) -> None:
    at.store("ro")
    at.mount("ro:read_only", "notes")
    (at.root / "notes" / "a.md").write_text("a")
    at.run("umount", at.root)
    assert os.listdir(at.db.parent) == ["memfs.db"]


def test_root_of_read_only_stores_is_read_only_thrice(at: Site) -> None:
    at.store("ro", a_md="A\n")
    (directory,) = at.mount("ro:read_only")
    (point,) = mounted_at(directory)
    options = next(line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {directory} " in line)
    assert options.split()[3].split(",")[0] == "ro"
    assert point.kind == "fuse.memfs"
    assert not stat.S_IMODE((directory / "a.md").stat().st_mode) & 0o222
    for refused in (
        lambda: (directory / "a.md").write_text("x"),
        lambda: (directory / "b.md").write_text("x"),
        lambda: (directory / "a.md").unlink(),
        lambda: (directory / "d").mkdir(),
        lambda: os.truncate(directory / "a.md", 0),
        lambda: os.rename(directory / "a.md", directory / "b.md"),
        lambda: os.utime(directory / "a.md", (1, 1)),
    ):
        with pytest.raises(OSError, match="Read-only file system"):
            refused()
    # Also where the kernel is told otherwise, the daemon and the connection refuse.
    subprocess.run(["mount", "-i", "-o", "remount,rw", directory], check=True, timeout=LIMIT)
    with pytest.raises(OSError, match="Read-only file system"):
        (directory / "b.md").write_text("x")
    with pytest.raises(OSError, match="Read-only file system"):
        (directory / "a.md").write_text("x")
    assert at.operations("ro") == [("created", "/a.md", b"A\n")]


def test_archiving_a_store_makes_its_mount_read_only(at: Site, notes: Path) -> None:
    (notes / "a.md").write_text("a")
    with Workspace.open(at.db) as workspace:
        workspace.stores.archive(workspace.stores.resolve("notes").id)
    for name in ("a.md", "new.md"):
        with pytest.raises(OSError, match="Read-only file system"):
            (notes / name).write_text("refused")
    assert (notes / "a.md").read_text() == "a"


def test_mounts_are_nosuid_nodev_and_others_may_read(at: Site, notes: Path) -> None:
    line = next(line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {notes} " in line)
    assert {"nosuid", "nodev", "default_permissions"} <= set(line.split()[3].split(","))
    (notes / "a.md").write_text("a")
    at.directory.chmod(0o711)
    for parent in at.directory.parents:
        if parent.stat().st_mode & 0o011 != 0o011:
            parent.chmod(parent.stat().st_mode | 0o011)
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    assert (
        subprocess.run([*nobody, "cat", notes / "a.md"], capture_output=True, check=True, timeout=LIMIT).stdout == b"a"
    )
    assert subprocess.run([*nobody, "touch", notes / "b"], capture_output=True, timeout=LIMIT, check=False).returncode


def test_df_shows_memories_and_their_limit(notes: Path) -> None:
    (notes / "a.md").write_text("a")
    figures = os.statvfs(notes)
    assert (figures.f_files, figures.f_ffree, figures.f_namemax) == (2000, 1999, 255)
    assert min(figures.f_blocks, figures.f_bfree, figures.f_bavail, figures.f_bsize) > 0
    shell("df . && df -i .", notes)


def test_scratch_has_its_size(at: Site) -> None:
    at.mount("notes", scratch_size="1M")
    with pytest.raises(OSError, match="No space left"):
        (at.root / "big").write_bytes(bytes(2_000_000))
    assert json.loads(at.run("status", "--format", "json").stdout)


def holds(directory: Path, number: int) -> bool:
    """Whether a directory lists so many names."""
    return len(os.listdir(directory)) == number


def test_many_mounts_at_once_each_with_its_root(at: Site, tmp_path: Path) -> None:
    roots = [tmp_path / f"r{number}" for number in range(3)]
    starting = [
        subprocess.Popen(
            at.command("mount", "--root", root, "-s", "notes"), env=at.environment(), stdout=subprocess.DEVNULL
        )
        for root in roots
    ]
    try:
        assert [process.wait(LIMIT) for process in starting] == [0, 0, 0]
        for number, root in enumerate(roots):
            (root / "notes" / f"f{number}").write_text(str(number))
        for root in roots:
            # Each root's attributes may be a second old at the most.
            wait_until(partial(holds, root / "notes", 3), "the others' files")
    finally:
        for root in roots:
            at.run("umount", root)
    assert at.heads("notes") == {"/f0": b"0", "/f1": b"1", "/f2": b"2"}


def test_two_mounts_of_one_root_at_once_give_one(at: Site) -> None:
    command = at.command("mount", "--root", at.root, "-s", "notes")
    racing = [
        subprocess.Popen(command, env=at.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(4)
    ]
    assert sorted(process.wait(LIMIT) for process in racing) == [0, 1, 1, 1]
    assert len(mounted_at(at.root / "notes")) == 1
    supervisor = at.supervisor()
    at.run("umount", at.root)
    wait_for_end(supervisor)
