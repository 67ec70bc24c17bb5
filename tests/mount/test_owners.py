"""Whose the files of a mount are: an agent of another user works in a mount that root made for it."""

import subprocess
from pathlib import Path

import pytest

from tests.mount.harness import LIMIT, Site

pytestmark = pytest.mark.mount

AGENT, GROUP, OTHER = 1000, 1001, 1002

WORK = """
echo one > a.md; echo two >> a.md; sed -i s/one/ONE/ a.md
mkdir d; mv a.md d/b.md; chmod 600 d/b.md; chmod 644 d/b.md; touch -d @1 d/b.md; cat d/b.md
stat -c '%u:%g %a' . d d/b.md
"""


def as_other(script: str, directory: Path, uid: int, gid: int, *, namespace: bool = False) -> str:
    """What a shell of another user writes, with what it was refused. It begins in the directory, whoever may enter."""
    done = subprocess.run(
        [
            *("setpriv", "--reuid", str(uid), "--regid", str(gid), "--clear-groups"),
            *(("unshare", "--user", "--map-root-user") if namespace else ()),
            *("sh", "-c", script),
        ],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    return done.stdout


def test_the_files_of_a_mount_belong_to_whom_it_says(at: Site) -> None:
    at.expected_log.append("a worker died")
    (notes,) = at.mount("notes", uid=AGENT, gid=GROUP)
    assert as_other(WORK, notes, AGENT, GROUP) == f"ONE\ntwo\n{AGENT}:{GROUP} 755\n{AGENT}:{GROUP} 755\n1000:1001 644\n"
    assert as_other("cat d/b.md", notes, OTHER, OTHER) == "ONE\ntwo\n"
    for script in ("echo no > d/b.md", "echo no > new", "rm d/b.md", "chmod 666 d/b.md"):
        said = as_other(script, notes, OTHER, OTHER)
        assert "ermission denied" in said or "not permitted" in said, (script, said)
    assert as_other("chmod 600 d/b.md", notes, AGENT, GROUP) == ""
    assert "Permission denied" in as_other("cat d/b.md", notes, OTHER, OTHER)
    at.restart_worker("notes")
    assert as_other("stat -c %u:%g d/b.md; echo more >> d/b.md", notes, AGENT, GROUP) == f"{AGENT}:{GROUP}\n"
    assert at.heads("notes") == {"/d/b.md": b"ONE\ntwo\nmore\n"}


def test_a_umask_says_what_nobody_may(at: Site) -> None:
    at.store("ro", a_md="a\n")
    (notes,) = at.mount("notes")
    as_other("echo x > closed; chmod 600 closed; echo y > run; chmod 755 run; mkdir d; chmod 700 d", notes, 0, 0)
    at.run("umount", at.root)
    notes, ro = at.mount("notes", "ro:read_only", gid=GROUP, umask="007")
    assert as_other("stat -c '%n %a' closed run d .", notes, OTHER, GROUP) == "closed 660\nrun 770\nd 770\n. 770\n"
    assert as_other("stat -c '%n %a' a.md .", ro, OTHER, GROUP) == "a.md 440\n. 550\n"
    assert as_other("echo more >> closed; echo new > d/new; cat closed d/new", notes, OTHER, GROUP) == "x\nmore\nnew\n"
    for script in ("cat closed", "ls", "echo no > new"):
        assert "Permission denied" in as_other(script, notes, OTHER, OTHER)
    at.run("umount", at.root)
    (notes,) = at.mount("notes")
    # The bits of the files themselves are as they were.
    assert as_other("stat -c '%n %a' closed run d", notes, 0, 0) == "closed 600\nrun 755\nd 700\n"


@pytest.mark.parametrize("uid", [AGENT, OTHER])
def test_in_a_user_namespace_of_whom_it_belongs_to(at: Site, uid: int) -> None:
    """K06: whoever the mount belongs to works there as the namespace's root; anybody else reads."""
    (notes,) = at.mount("notes", uid=AGENT, gid=AGENT)
    (notes / "a.md").write_text("a\n")
    script = "stat -c %u . a.md; cp -a a.md b.md && cat b.md && mv b.md c && rm c && echo in > ns.md && cat ns.md"
    said = as_other(script, notes, uid, uid, namespace=True)
    if uid == AGENT:
        assert said == "0\n0\na\nin\n"
        assert at.heads("notes") == {"/a.md": b"a\n", "/ns.md": b"in\n"}
    else:
        assert said.startswith("65534\n65534\ncp: ")
        assert "Permission denied" in said
        assert at.heads("notes") == {"/a.md": b"a\n"}


@pytest.mark.parametrize(
    "options,reason",
    [
        ("--uid -1", "range"),
        ("--gid 4294967295", "range"),
        ("--umask 8", "octal"),
        ("--umask 1777", "octal"),
        ("--uid 1000 --no-allow-other", "--allow-other"),
        ("--umask 077 --no-allow-other", "--allow-other"),
    ],
)
def test_an_owner_that_cannot_be_is_refused(at: Site, options: str, reason: str) -> None:
    refused = at.run("mount", "--root", at.root, "-s", "notes", *options.split(), check=False)
    assert refused.returncode == 2
    assert reason in refused.stderr
    at.nothing_left()


def test_a_user_without_a_number_in_the_namespace_is_refused(at: Site) -> None:
    at.prefix = ("unshare", "--user", "--map-root-user", "--mount")
    refused = at.run("mount", "--root", at.root, "-s", "notes", "--uid", "1000", check=False)
    assert refused.returncode == 2
    assert "uid_map" in refused.stderr
    at.prefix = ()


def test_a_user_s_mount_that_lets_nobody_in_has_no_other_owner(user: Site) -> None:
    refused = user.run("mount", "--root", user.root, "-s", "notes", "--uid", "1000", check=False)
    assert refused.returncode == 2
    assert "--allow-other" in refused.stderr
