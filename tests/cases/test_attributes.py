"""Kinds: modes and owners, and times of files and directories."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.scene import Here, errno_of, opened
from tests.mount.harness import wait_until

pytestmark = pytest.mark.mount

MODES = [0o000, 0o400, 0o444, 0o600, 0o640, 0o644, 0o711, 0o755, 0o777]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def times(path: Path) -> tuple[int, int]:
    """When it was changed, in nanoseconds: mtime and ctime."""
    status = path.stat()
    return status.st_mtime_ns, status.st_ctime_ns


def past_timeouts() -> None:
    """The kernel trusts attributes for a second; after it the daemon is asked anew."""
    begin = os.times().elapsed
    wait_until(lambda: os.times().elapsed > begin + 1.2, "the kernel's timeouts")


@pytest.mark.parametrize("mode", MODES, ids=oct)
def test_a_mode_is_kept_through_everything(here: Here, mode: int) -> None:
    """F02, F03: 0 is a mode too; over copies, renames, saves and mounts, for directories as for files."""
    (here / "f").write_text("text")
    (here / "d").mkdir()
    for name in "fd":
        os.chmod(here / name, mode)
        assert mode_of(here / name) == mode
    with opened(here / "g", os.O_CREAT | os.O_WRONLY, 0o600) as descriptor:
        os.fchmod(descriptor, mode)
        os.write(descriptor, b"written afterwards")
        assert stat.S_IMODE(os.fstat(descriptor).st_mode) == mode
    here.shell("cp -p f copy; mv f moved")
    (here / "g").write_text("again")  # we are root, or else its owner: a save keeps the mode
    assert [mode_of(here / name) for name in ("copy", "moved", "g", "d")] == [mode] * 4
    here.remount()
    assert [mode_of(here / name) for name in ("copy", "moved", "g", "d")] == [mode] * 4


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o027, 0o077, 0o333], ids=oct)
def test_the_umask_is_heeded_once(here: Here, mask: int) -> None:
    """F03: for every way to make something."""
    here.shell(
        f"umask {mask:o}; echo s > file; mkdir dir; touch touched; cp /dev/null copy; install -m 755 /dev/null tool;"
        f" mkdir -m 751 exact; python3 -c \"import os; os.close(os.open('opened', os.O_CREAT | os.O_RDONLY, 0o666));"
        f" os.mknod('made', 0o100660)\""
    )
    plain = 0o666 & ~mask
    assert {name: mode_of(here / name) for name in here.names()} == {
        "copy": plain,
        "dir": 0o777 & ~mask,
        "exact": 0o751,
        "file": plain,
        "made": 0o660 & ~mask,
        "opened": plain,
        "tool": 0o755,
        "touched": plain,
    }


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o444], ids=oct)
def test_a_read_only_file_is_written_by_who_made_it(here: Here, mode: int) -> None:
    """F01: access is decided at open, and removing a file needs none to it."""
    with opened(here / "obj", os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode) as descriptor:
        os.write(descriptor, b"blob and more")
        os.fchmod(descriptor, 0o400)
        os.ftruncate(descriptor, 4)
        os.fsync(descriptor)
        os.pwrite(descriptor, b"B", 0)
    assert here.heads()["obj"] == b"Blob"
    shutil.copy2(here / "obj", here / "copy")
    assert (mode_of(here / "copy"), here.read("copy")) == (0o400, b"Blob")
    with opened(here / "ro", os.O_CREAT | os.O_RDONLY, mode) as descriptor:
        assert os.fstat(descriptor).st_size == 0
    for name in ("obj", "copy", "ro"):
        (here / name).unlink()
    assert here.names() == []


def test_archives_and_copies_with_owners(here: Here, tmp_path: Path) -> None:
    """F04: the mount has one owner, so that chown says yes and programs that restore owners go on."""
    source = tmp_path / "s"
    (source / "sub").mkdir(parents=True, mode=0o751)
    for name, mode in (("a", 0o640), ("sub/b", 0o755)):
        (source / name).write_text(name)
        (source / name).chmod(mode)
        os.utime(source / name, ns=(1, 1_577_836_800_123_456_789))
    here.shell(
        f"""
        cp -a "{source}" copied; tar -C "{tmp_path}" --format=posix -cf - s | tar -xpf -
        tar -C "{tmp_path}" --owner=4321 --group=4321 --format=posix -cf - s | (mkdir t; cd t; tar -xpf -)
        chown "$(id -u):$(id -g)" copied/a; chown -R "$(id -u)" copied
        if [ "$(id -u)" = 0 ]; then chown -R 1234:1234 copied; chown -h 77 copied/a; chgrp 5 copied/a; fi
        """
    )
    for top in ("copied", "s", "t/s"):
        for name, mode in (("a", 0o640), ("sub/b", 0o755)):
            path = here / top / name
            assert (path.read_text(), mode_of(path)) == (name, mode)
            assert path.stat().st_mtime_ns == 1_577_836_800_123_456_789
            assert path.stat().st_uid == os.getuid()


NANOSECONDS = [0, 1, 999_999_999, 1_577_836_800_000_000_000, 1_704_164_645_123_456_789, 4_102_444_800_000_000_001]


@pytest.mark.parametrize("when", NANOSECONDS)
def test_a_time_that_was_set_stays(here: Here, when: int) -> None:
    """F05: to the nanosecond, set before or after the write, over the close, the timeouts and a save elsewhere."""
    with opened(here / "open", os.O_CREAT | os.O_WRONLY) as descriptor:
        os.write(descriptor, b"x")
        os.utime(descriptor, ns=(when, when))
    (here / "path").write_text("x")
    os.utime(here / "path", ns=(0, when))
    shutil.copy2(here / "path", here / "copy")
    (here / "d").mkdir()
    names = ["open", "path", "copy"]
    past_timeouts()
    assert [(here / name).stat().st_mtime_ns for name in names] == [when] * 3
    os.rename(here / "copy", here / "d" / "copy")
    assert (here / "d" / "copy").stat().st_mtime_ns == when
    here.remount()
    assert [(here / name).stat().st_mtime_ns for name in ("open", "path", "d/copy")] == [when] * 3


def test_reading_moves_no_time(here: Here) -> None:
    """F07: nor number, size or mode, by whatever reads."""
    (here / "f").write_text("test content")

    def figures() -> tuple[int, ...]:
        status = (here / "f").stat()
        return (*times(here / "f"), status.st_size, status.st_ino, status.st_mode, *times(here.path))

    before = figures()
    for _ in range(2):
        here.shell("cat f; grep -r t . ; ls -la; tar -cf /dev/null .; find . -newer f; head -c 3 f; test -r f; wc f")
        with opened(here / "f", os.O_RDWR) as descriptor:
            os.read(descriptor, 5)
        past_timeouts()
        assert figures() == before


def test_the_time_of_a_write_is_the_time_that_stays(here: Here) -> None:
    """F08: not that of its close, its fsync, its release or its commit."""
    for flags in (os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR):
        with opened(here / "f", flags) as descriptor:
            os.write(descriptor, b"x")
            written = os.fstat(descriptor).st_mtime_ns
            os.fsync(descriptor)
            assert os.fstat(descriptor).st_mtime_ns == written
        assert (here / "f").stat().st_mtime_ns == written
        past_timeouts()
        assert (here / "f").stat().st_mtime_ns == written


def there_and_back(path: Path) -> None:
    os.rename(path, f"{path}2")
    os.rename(f"{path}2", path)


CHANGES: dict[str, tuple[Callable[[Path], object], bool]] = {
    "write": (lambda path: path.write_text("bbbb"), True),
    "append": (lambda path: os.system(f"echo >> '{path}'"), True),
    "truncate": (lambda path: os.truncate(path, 1), True),
    "grow": (lambda path: os.truncate(path, 10), True),
    "chmod": (lambda path: os.chmod(path, 0o600), False),
    "utime": (lambda path: os.utime(path, ns=(5, path.stat().st_mtime_ns)), False),
    "rename": (there_and_back, False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_moves_ctime_and_a_change_of_text_mtime(here: Here, change: str) -> None:
    """F09: also right after another, and never backwards."""
    act, moves_mtime = CHANGES[change]
    (here / "f").write_text("aaaa")
    for _ in range(3):
        mtime, ctime = times(here / "f")
        number = (here / "f").stat().st_ino
        act(here / "f")
        after = times(here / "f")
        assert after[1] > ctime
        assert (after[0] > mtime) if moves_mtime else (after[0] == mtime)
        assert (here / "f").stat().st_ino == number
        (here / "f").write_text("aaaa")


ENTRIES: dict[str, str] = {
    "touch": "touch b",
    "mkdir": "mkdir d",
    "rename": "mv a c",
    "rename over": "mv c e",
    "unlink": "rm e",
    "rmdir": "rmdir d",
    "temporary": "echo x > y.tmp",
    "save": "mv y.tmp b",
    "into": "mkdir sub; mv b sub",
    "out of": "mv sub/b .",
}


def test_a_directory_s_time_moves_with_its_entries_only(here: Here) -> None:
    """F10: with each name that comes or goes, and not with a text, a look or the passing of time."""
    (here / "a").touch()
    (here / "e").touch()
    before = times(here.path)
    here.shell("echo data >> a; chmod 600 a; cat a; ls -l; touch a; truncate -s 0 a")
    assert times(here.path) == before
    for what, script in ENTRIES.items():
        before = times(here.path)
        here.shell(script)
        after = times(here.path)
        assert after[0] > before[0], what
        assert after[1] > before[1], what
    before = times(here.path)
    past_timeouts()
    assert here.shell("tar -cf /dev/null . 2>&1; ls") == "b\nsub\n"
    assert times(here.path) == before


def test_programs_run_where_the_mount_lets_them(here: Here) -> None:
    """F14: x is what access says and what exec does; an edit keeps it."""
    (here / "s.sh").write_text("#!/bin/sh\necho hi\n")
    assert not os.access(here / "s.sh", os.X_OK)
    assert errno_of(lambda: os.execv(here / "s.sh", ["s.sh"])) is not None
    here.shell('chmod +x s.sh; [ -x s.sh ]; sed -i s/hi/ho/ s.sh; [ -x s.sh ]; [ "$(sh s.sh)" = ho ]')
    options = here.shell("findmnt -no OPTIONS -T .").strip().split(",")
    if "noexec" in options:
        here.shell("if ./s.sh; then exit 1; fi")
    else:
        assert here.shell("./s.sh") == "ho\n"
