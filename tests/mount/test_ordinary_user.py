"""Without root: an ordinary user mounts and unmounts through fusermount3 in a directory of their own."""

import errno
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from memfs.mount.processes import mounted_at
from tests.mount.harness import LIMIT, Site, kill, site, wait_for_end, wait_until

pytestmark = pytest.mark.mount

NOBODY = pwd.getpwnam("nobody")
AS_NOBODY = ("setpriv", "--reuid", str(NOBODY.pw_uid), "--regid", str(NOBODY.pw_gid), "--clear-groups")


@pytest.fixture(scope="module")
def open_device() -> Iterator[None]:
    """/dev/fuse as Debian's udev makes it, open to all, also on a machine without udev."""
    before = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
    os.chmod("/dev/fuse", 0o666)
    yield
    os.chmod("/dev/fuse", before)


@pytest.fixture
def prefix() -> tuple[str, ...]:
    """How to run as the user nobody; with the one right to read past root's own directories, where Python is in one."""
    probe = [*AS_NOBODY, sys.executable, "-c", "import memfs.cli.main, pyfuse3"]
    if subprocess.run(probe, cwd="/", capture_output=True, timeout=LIMIT, check=False).returncode == 0:
        return AS_NOBODY
    reading = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    return (*AS_NOBODY[:1], *reading, *AS_NOBODY[1:])


@pytest.fixture
def user(open_device: None, prefix: tuple[str, ...]) -> Iterator[Site]:
    """A site of an ordinary user, in a home of theirs; pytest's own directories are closed to other users."""
    home = Path(tempfile.mkdtemp(prefix="memfs-user-"))
    os.chown(home, NOBODY.pw_uid, NOBODY.pw_gid)
    try:
        runtime = home / "runtime"
        runtime.mkdir(mode=0o700)
        os.chown(runtime, NOBODY.pw_uid, NOBODY.pw_gid)
        with site(home, prefix=prefix, HOME=str(home), XDG_RUNTIME_DIR=str(runtime)) as made:
            made.store("notes")
            yield made
        # Its own alone: others may have mounts of this user on the machine at the same time.
        place = sha256(os.fsencode(made.root)).hexdigest()[:24]
        assert not list(Path("/dev/shm").glob(f"memfs-{NOBODY.pw_uid}-{place}*"))
    finally:
        shutil.rmtree(home)


def as_user(at: Site, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script as the user: root itself cannot look into a user's mount."""
    return subprocess.run(
        [*at.prefix, "sh", "-euc", script], cwd=at.directory, capture_output=True, text=True, timeout=LIMIT, check=False
    )


def test_a_user_mounts_works_and_unmounts(user: Site) -> None:
    ro = user.store("ro")
    directories = user.mount("notes", f"{ro}:read_only")
    assert directories == [user.root / "notes", user.root / "ro"]
    done = as_user(
        user,
        """
        cd root/notes
        echo one > a.md; echo two >> a.md; sed -i s/one/ONE/ a.md; cat a.md
        mkdir d; mv a.md d/b.md; ls -R; chmod 600 d/b.md; rm -r d; echo kept > kept.md
        cd ..; echo draft > scratch.txt; cat scratch.txt; ls
        if echo no > ro/x; then exit 1; fi
        stat -c %U notes/kept.md
        """,
    )
    assert done.returncode == 0, done.stderr
    assert "Read-only file system" in done.stderr
    assert done.stdout.splitlines()[-1] == "nobody"
    assert user.heads("notes") == {"/kept.md": b"kept\n"}
    (memory,) = {version.memory_id for version in user.history("notes", "/kept.md")}
    assert user.run("stat", "-q", user.root / "notes" / "kept.md").stdout == f"{memory}\n"
    user.run("umount", user.root)
    user.nothing_left()
    assert not user.root.exists()


def test_scratch_of_a_user_is_in_memory_and_never_left_behind(user: Site) -> None:
    as_user(user, "mkdir root")
    user.mount("notes")
    assert (
        as_user(user, "mkdir -p root/deep/er; echo x > root/deep/er/f; chmod 0 root/deep/er root/deep").returncode == 0
    )
    assert as_user(user, "stat -f -c %T root/").stdout.strip() == "tmpfs"
    user.run("umount", user.root)
    assert os.listdir(user.root) == []
    assert not user.root.is_symlink()


def test_a_user_s_root_on_a_tmpfs_is_used_itself(user: Site) -> None:
    directory = Path(tempfile.mkdtemp(prefix="memfs-user-", dir="/dev/shm"))
    os.chown(directory, NOBODY.pw_uid, NOBODY.pw_gid)
    try:
        root = directory / "memory"
        user.run("mount", "--root", root, "-s", "notes")
        assert len(mounted_at(root / "notes")) == 1
        assert as_user(user, f"echo x > {root}/scratch; echo y > {root}/notes/y").returncode == 0
        user.run("umount", root)
        assert os.listdir(directory) == []
    finally:
        shutil.rmtree(directory)
    assert user.heads("notes") == {"/y": b"y\n"}


def test_a_user_s_directory_takes_no_writes_while_its_store_is_down(user: Site) -> None:
    user.store("other")
    user.mount("notes", "other")
    assert as_user(user, "fusermount3 -u root/notes").returncode == 0
    done = as_user(user, "echo lost > root/notes/lost")
    assert done.returncode != 0
    assert "Permission denied" in done.stderr
    assert as_user(user, "echo here > root/other/here").returncode == 0


def test_a_user_s_killed_worker_comes_back(user: Site) -> None:
    user.expected_log.append("a worker died")
    user.mount("notes")
    assert as_user(user, "echo closed > root/notes/closed").returncode == 0
    kill(user.worker("notes"))
    wait_until(lambda: as_user(user, "cat root/notes/closed").stdout == "closed\n", "the worker to come back")
    assert as_user(user, "echo again > root/notes/again").returncode == 0
    assert user.heads("notes") == {"/again": b"again\n", "/closed": b"closed\n"}


def test_after_a_user_s_supervisor_was_killed_it_mounts_again(user: Site) -> None:
    user.mount("notes")
    assert as_user(user, "echo kept > root/notes/kept; echo gone > root/scratch").returncode == 0
    workers = [mount["pid"] for mount in user.status()]
    kill(user.supervisor())
    for worker in workers:
        wait_for_end(worker)
    user.mount("notes")
    assert as_user(user, "cat root/notes/kept; ls root").stdout.split() == ["kept", "notes"]


def test_what_a_user_may_not_do_is_refused_in_a_line(user: Site) -> None:
    for arguments, reason in (
        (["--root", "/mnt/memory-of-nobody"], "not yours"),
        (["--root", user.root, "--scratch-size", "1M"], "CAP_SYS_ADMIN"),
    ):
        refused = user.run("mount", "-s", "notes", *arguments, check=False)
        assert refused.returncode != 0
        assert reason in refused.stderr
    configuration = Path("/etc/fuse.conf")
    if not configuration.exists() or "\nuser_allow_other" not in configuration.read_text():
        refused = user.run("mount", "-s", "notes", "--root", user.root, "--allow-other", check=False)
        assert refused.returncode == 2
        assert "user_allow_other" in refused.stderr
    empty = user.directory / "empty"
    empty.mkdir()
    user.extra["PATH"] = os.fspath(empty)
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    user.prefix = (setpriv, *user.prefix[1:])
    refused = user.run("mount", "-s", "notes", "--root", user.root, check=False)
    del user.extra["PATH"]
    assert refused.returncode == 1
    assert "install the package fuse3" in refused.stderr
    assert not user.root.exists()


def test_a_closed_device_is_named(user: Site) -> None:
    os.chmod("/dev/fuse", 0o600)
    try:
        refused = user.run("mount", "-s", "notes", "--root", user.root, check=False)
    finally:
        os.chmod("/dev/fuse", 0o666)
    assert refused.returncode == 1
    assert "/dev/fuse is closed to you" in refused.stderr


def test_another_user_s_mount_is_theirs(user: Site) -> None:
    user.mount("notes")
    with pytest.raises(OSError, match="Permission denied") as refused:
        os.listdir(user.root.resolve() / "notes")
    assert refused.value.errno == errno.EACCES
