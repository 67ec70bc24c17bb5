"""When the session of a mount ends, and what a daemon keeps of who called it."""

import os
from pathlib import Path

import pytest

from memfs.mount.runtime import LOG_SECONDS
from memfs.workspace import SessionFilter, Workspace
from tests.mount.harness import Site, kill, wait_for_end

pytestmark = pytest.mark.mount


def ended(at: Site) -> list[bool]:
    """Of each session, oldest first, whether it has ended."""
    with Workspace.open(at.db, read_only=True) as workspace:
        return [each.ended_at is not None for each in workspace.sessions.list(SessionFilter(), newest_first=False)]


def test_a_session_ends_with_the_mounts_it_was_made_for(at: Site) -> None:
    at.mount("notes")
    session = at.status()[0]["session_id"]
    assert ended(at) == [False]
    at.run("umount", at.root)
    assert ended(at) == [True]
    at.mount(session=session)
    assert ended(at) == [False], "it goes on"
    at.run("umount", at.root)
    assert ended(at) == [True]
    refused = at.run("mount", "-s", "notes", "--root", "/proc/nowhere", check=False)
    assert refused.returncode != 0
    assert all(ended(at))


def test_a_session_that_was_begun_before_goes_on(at: Site) -> None:
    session = at.run("session", "create", "-q", "-s", "notes").stdout.strip()
    at.mount(session=session)
    at.run("umount", at.root)
    assert ended(at) == [False]
    at.run("session", "end", session)
    refused = at.run("mount", "--session", session, "--root", at.root, check=False)
    assert (refused.returncode, "begin another" in refused.stderr) == (1, True)


def test_what_cleans_up_after_a_killed_supervisor_ends_its_session(at: Site) -> None:
    at.mount("notes")
    workers = [mount["pid"] for mount in at.status()]
    kill(at.supervisor())
    for worker in workers:
        wait_for_end(worker)
    assert ended(at) == [False]
    at.run("umount", at.root)
    assert ended(at) == [True]


def test_a_daemon_keeps_no_secret_of_its_caller_s_environment(at: Site) -> None:
    at.extra = {"API_TOKEN": "hunter2" * 20, "LC_TIME": "C", "EMPTY": ""}
    at.mount("notes")
    for pid in (at.supervisor(), at.worker("notes")):
        variables = [each for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if each]
        assert not [each for each in variables if b"hunter2" in each or each.startswith((b"API_TOKEN", b"EMPTY"))]
        assert b"LC_TIME=C" in variables
        assert os.fsencode(f"MEMFS_DB={at.db}") in variables
    (at.root / "notes" / "a.md").write_text("it works all the same\n")


def test_old_logs_are_taken_away(user: Site) -> None:
    runtime = user.directory / "runtime" / "memfs"
    user.run("status")
    old, recent, known = (runtime / f"{name}.log" for name in ("old", "recent", "known"))
    for log in (old, recent, known):
        log.touch()
    os.utime(old, (0, os.stat(recent).st_mtime - LOG_SECONDS - 60))
    os.utime(known, (0, 0))
    known.with_suffix(".lock").touch()
    user.mount("notes")
    assert [log.exists() for log in (old, recent, known)] == [False, True, True]
    known.with_suffix(".lock").unlink()
