"""Without root: an ordinary user mounts and unmounts through fusermount3 in a directory of their own."""

import errno
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from memfs.mount import control
from memfs.mount.processes import mounted_at
from memfs.mount.runtime import records_of
from tests.mount.harness import Site, kill, wait_for_end, wait_until
from tests.mount.users import NOBODY, as_user, give

pytestmark = pytest.mark.mount


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
    give(directory)
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


def test_a_user_who_may_start_no_process_has_the_store_back_once_they_may(user: Site) -> None:
    """RLIMIT_NPROC counts all processes of a user: another program of theirs can use it up."""
    user.mount("notes")
    assert as_user(user, "echo closed > root/notes/closed").returncode == 0
    log = Path(user.known()[0]["log"])
    supervisor = user.supervisor()
    limit = as_user(user, f"prlimit --pid {supervisor} --nproc --raw --noheadings -o SOFT").stdout.strip()
    assert as_user(user, f"prlimit --pid {supervisor} --nproc=0:").returncode == 0
    user.expected_log += ["a worker died", "could not start a worker", "could not unmount .* temporarily unavailable"]
    kill(user.worker("notes"))
    wait_until(lambda: log.read_text().count("could not start a worker") >= 2, "two tries in vain")
    assert as_user(user, "cat root/notes/closed").returncode != 0
    assert as_user(user, f"prlimit --pid {supervisor} --nproc={limit}:").returncode == 0
    wait_until(lambda: as_user(user, "cat root/notes/closed").stdout == "closed\n", "the worker to come back")
    assert user.supervisor() == supervisor
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
    # In a namespace of its own: other tests mount as this user at the same time.
    closed = 'mount -t tmpfs none /mnt; mknod -m 600 /mnt/fuse c 10 229; mount --bind /mnt/fuse /dev/fuse; exec "$@"'
    user.prefix = ("unshare", "--mount", "sh", "-euc", closed, "closed", *user.prefix)
    for command in (("mount", "--root", str(user.root)), ("run",)):
        refused = user.run(*command, "-s", "notes", *(("true",) if command == ("run",) else ()), check=False)
        assert refused.returncode == 1
        assert "/dev/fuse is closed to you" in refused.stderr
    user.prefix = user.prefix[6:]


def test_another_user_s_mount_is_theirs(user: Site) -> None:
    user.mount("notes")
    with pytest.raises(OSError, match="Permission denied") as refused:
        os.listdir(user.root.resolve() / "notes")
    assert refused.value.errno == errno.EACCES


def test_root_sees_what_users_have_mounted(user: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the kernel says; their records add to it where they are looked for, as for show only."""
    rules = user.store("rules")
    user.mount("notes", f"{rules}:read_only")
    place = Path(os.path.realpath(user.root))
    root = Site(user.directory)
    told = json.loads(root.run("status", "--format", "json").stdout)
    found = {mount["name"]: mount for mount in told if Path(mount["path"]).parent == place}
    assert {name: (mount["access"], mount["user"], mount["state"]) for name, mount in found.items()} == {
        "notes": ("read_write", "nobody", "closed"),
        "rules": ("read_only", "nobody", "closed"),
    }
    assert found["notes"]["session_id"] == ""
    assert re.search(rf"^{place}/notes +closed .* nobody +notes$", root.run("status").stdout, re.MULTILINE)
    monkeypatch.setattr(tempfile, "tempdir", str(user.directory))
    (user.directory / f"memfs-{NOBODY.pw_uid}").symlink_to(user.directory / "runtime" / "memfs")
    assert records_of(NOBODY.pw_uid) == [], "a link may lead anywhere"
    (user.directory / f"memfs-{NOBODY.pw_uid}").unlink()
    shutil.copytree(user.directory / "runtime" / "memfs", user.directory / f"memfs-{NOBODY.pw_uid}")
    for path in (user.directory / f"memfs-{NOBODY.pw_uid}").iterdir():
        give(path)
    (mine,) = user.status()[:1]
    (other,) = [mount for mount in control.status() if mount.path == mine["path"]]
    assert (other.session_id, other.root, other.database) == (mine["session_id"], str(user.root), str(user.db))


def test_records_of_a_user_hold_root_up_by_nothing(user: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(user.directory))
    directory = user.directory / f"memfs-{NOBODY.pw_uid}"
    directory.mkdir()
    user.mount("notes")
    (kept,) = (user.directory / "runtime" / "memfs").glob("*.json")
    text = kept.read_text()
    os.mkfifo(directory / "pipe.json")
    (directory / "directory.json").mkdir()
    (directory / "link.json").symlink_to(kept)
    for number, content in enumerate(
        ("", "[]", "{}", "1", "\0", text[:-1], '{"mounts": 1}', '{"mounts": [3]}', "x" * 300_000)
    ):
        (directory / f"{number}.json").write_text(content)
    (directory / "long.json").write_text(text + " " * 300_000)
    for path in directory.iterdir():
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
    (directory / "root.json").write_text(text)
    assert [record.root for record in records_of(NOBODY.pw_uid)] == [str(user.root)], "the long one, cut, is whole"
    (directory / "long.json").unlink()
    assert records_of(NOBODY.pw_uid) == []
