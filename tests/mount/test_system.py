"""What is found of a system: of real paths, and of directories that look like another system's."""

import os
from pathlib import Path

import pytest

from memfs.mount import system


def text(path: Path, content: str) -> Path:
    """Write a file, with its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def program(directory: Path, name: str, script: str, mode: int = 0o755) -> str:
    """Make a program; returns what to search."""
    text(directory / name, f"#!/bin/sh\n{script}\n").chmod(mode)
    return str(directory)


def test_the_device(tmp_path: Path) -> None:
    missing = system.fuse_device(tmp_path / "fuse")
    assert (missing.state, missing.found) == ("missing", f"{tmp_path}/fuse: No such file or directory")
    assert "--device /dev/fuse" in missing.next_step
    other = system.fuse_device(text(tmp_path / "file", ""))
    assert (other.state, other.found) == ("missing", f"{tmp_path}/file is not the FUSE device")
    assert system.fuse_device(Path("/dev/null")).state == "missing"


@pytest.mark.parametrize(
    "release,known,state",
    [
        ("6.1.0-13-amd64", "nodev\tfuse\n\text4\nnodev\ttmpfs\n", "ok"),
        ("6.1.0", "nodev\ttmpfs\n", "warning"),
        ("5.2.9", "nodev\tfuse\nnodev\ttmpfs\n", "missing"),
        ("unknown", "nodev\tfuse\nnodev\ttmpfs\n", "missing"),
    ],
)
def test_the_kernel(tmp_path: Path, release: str, known: str, state: str) -> None:
    assert system.kernel(release, text(tmp_path / "filesystems", known)).state == state
    assert system.kernel("6.1.0", tmp_path / "none").state == "warning"


def test_the_hints(tmp_path: Path) -> None:
    missing = system.hints(tmp_path / "fuse_hints.so")
    assert (missing.state, missing.found) == ("warning", "fuse_hints.so could not be compiled at installation")
    assert "libfuse3-dev" in missing.next_step
    assert system.hints(text(tmp_path / "fuse_hints.so", "")).state == "ok"


def test_fusermount3(tmp_path: Path) -> None:
    status = text(tmp_path / "status", "NoNewPrivs:\t0\n")
    assert system.fusermount3(str(tmp_path / "none"), status, mounting=False).next_step == "sudo apt install fuse3"
    assert system.fusermount3(str(tmp_path / "none"), status, mounting=True).state == "ok"
    search = program(tmp_path / "bin", "fusermount3", "exit 0")
    plain = system.fusermount3(search, status, mounting=False)
    assert (plain.state, plain.found) == ("missing", f"{search}/fusermount3 is not setuid root")
    if os.getuid() == 0:
        (tmp_path / "bin/fusermount3").chmod(0o4755)
        bound = text(tmp_path / "bound", "NoNewPrivs:\t1\n")
        assert "no-new-privileges" in system.fusermount3(search, bound, mounting=False).next_step
        assert system.fusermount3(search, tmp_path / "none", mounting=False).state == "ok"


def test_user_allow_other(tmp_path: Path) -> None:
    assert system.user_allow_other(tmp_path / "none", mounting=False).state == "warning"
    commented = text(tmp_path / "fuse.conf", "# user_allow_other\n")
    assert "echo user_allow_other" in system.user_allow_other(commented, mounting=False).next_step
    assert system.user_allow_other(commented, mounting=True).state == "ok"
    assert system.user_allow_other(text(commented, "user_allow_other\n"), mounting=False).state == "ok"


def test_user_namespaces(tmp_path: Path) -> None:
    assert system.user_namespaces(tmp_path, mounting=False).found == "the kernel has none"
    text(tmp_path / "self/ns/user", "")
    assert system.user_namespaces(tmp_path, mounting=False).state == "ok"
    text(tmp_path / "sys/user/max_user_namespaces", "0\n")
    assert "user.max_user_namespaces=10000" in system.user_namespaces(tmp_path, mounting=False).next_step
    text(tmp_path / "sys/kernel/unprivileged_userns_clone", "0\n")
    assert "unprivileged_userns_clone=1" in system.user_namespaces(tmp_path, mounting=False).next_step
    assert system.user_namespaces(tmp_path, mounting=True).state == "ok"


def test_apparmor_and_user_namespaces(tmp_path: Path) -> None:
    profiles = tmp_path / "apparmor.d"
    assert system.apparmor_userns(tmp_path, profiles, mounting=False).state == "ok"
    text(tmp_path / "sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")
    assert "bwrap-userns-restrict" in system.apparmor_userns(tmp_path, profiles, mounting=False).next_step
    assert system.apparmor_userns(tmp_path, profiles, mounting=True).state == "ok"
    text(profiles / "bwrap-userns-restrict", "")
    assert system.apparmor_userns(tmp_path, profiles, mounting=False).state == "ok"
    text(profiles / "disable/bwrap-userns-restrict", "")
    assert system.apparmor_userns(tmp_path, profiles, mounting=False).state == "warning"


def test_apparmor_and_fusermount3(tmp_path: Path) -> None:
    profiles, enabled = tmp_path / "apparmor.d", tmp_path / "enabled"
    text(profiles / "fusermount3", "")
    assert system.apparmor_fusermount3(enabled, profiles, mounting=False).state == "ok"
    text(enabled, "Y\n")
    assert "local/fusermount3" in system.apparmor_fusermount3(enabled, profiles, mounting=False).next_step
    assert system.apparmor_fusermount3(enabled, profiles, mounting=True).state == "ok"
    assert system.apparmor_fusermount3(enabled, tmp_path / "none", mounting=False).state == "ok"


@pytest.mark.parametrize(
    "script,found",
    [
        ("echo bubblewrap 0.7.0", "is bubblewrap 0.7.0"),
        ("exit 1", "is something else"),
        (
            '[ "$1" = --version ] && echo bubblewrap 0.8.0 || { echo bwrap: no permissions >&2; exit 1; }',
            "no permissions",
        ),
        ('[ "$1" = --version ] && echo bubblewrap 0.8.0 || exec sleep 60', "timed out"),
    ],
    ids=["old", "other", "denied", "hangs"],
)
def test_a_bubblewrap_that_does_not_work(tmp_path: Path, script: str, found: str) -> None:
    said = system.bubblewrap(
        program(tmp_path, "bwrap", script), mounting=False, seconds=1.0 if found == "timed out" else 30.0
    )[-1]
    assert said.state == "missing"
    assert found in said.found
    assert said.next_step


def test_a_bubblewrap_that_is_missing_or_works(tmp_path: Path) -> None:
    (missing,) = system.bubblewrap(str(tmp_path), mounting=True)
    assert missing.next_step == "sudo apt install bubblewrap"
    works = program(tmp_path, "bwrap", '[ "$1" = --version ] && echo bubblewrap 0.11.2; exit 0')
    assert [each.state for each in system.bubblewrap(works, mounting=False)] == ["ok", "ok"]


def test_the_runtime_directory(tmp_path: Path) -> None:
    place = tmp_path / "run" / "memfs"
    assert system.runtime(place, os.getuid()).state == "ok"
    assert not place.parent.exists()
    place.mkdir(parents=True, mode=0o700)
    assert system.runtime(place, os.getuid()).state == "ok"
    assert "XDG_RUNTIME_DIR" in system.runtime(place, os.getuid() + 1).next_step
    place.chmod(0o777)
    assert system.runtime(place, os.getuid()).state == "missing"
    assert system.runtime(text(tmp_path / "file", ""), os.getuid()).found == f"{tmp_path}/file is no directory"


def test_inotify(tmp_path: Path) -> None:
    assert system.inotify(tmp_path).found == "the kernel has none"
    for name in ("max_user_instances", "max_user_watches"):
        text(tmp_path / "sys/fs/inotify" / name, "128\n")
    assert system.inotify(tmp_path).state == "ok"
    text(tmp_path / "sys/fs/inotify/max_user_instances", "4\n")
    assert "fs.inotify.max_user_instances=1024" in system.inotify(tmp_path).next_step
