"""What edits a file in place: sed, perl, tee, jq, sponge, patch, git apply, and their kin."""

import re

import pytest

from tests.programs.sides import Sides, Step

pytestmark = [pytest.mark.mount, pytest.mark.programs]


def test_sed_in_place(sides: Sides) -> None:
    sides.run("echo one > f; chmod 640 f; sed -i s/one/two/ f; sed -i s/absent/x/ f; sed --in-place '$a last' f")
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("a", "modified", "/f", "two\n"),
        ("a", "modified", "/f", "two\nlast\n"),
    ]


def test_perl_in_place(sides: Sides) -> None:
    sides.run("echo one > f; chmod 640 f; perl -pi -e s/one/two/ f; perl -i -ne 'print uc' f")
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("a", "modified", "/f", "two\n"),
        ("a", "modified", "/f", "TWO\n"),
    ]


@pytest.mark.parametrize(
    "edit, backup",
    [("sed -i.bak s/one/two/ f", "/f.bak"), ("perl -pi.orig -e s/one/two/ f", "/f.orig")],
    ids=["sed", "perl"],
)
def test_a_backup_that_is_asked_for_takes_the_memory_along(sides: Sides, edit: str, backup: str) -> None:
    """These rename the file to a name that is no temporary's, as `mv` does, and make another at the old one."""
    sides.run(f"echo one > f; {edit}")
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("a", "modified", backup, "one\n"),
        ("b", "created", "/f", "two\n"),
    ]


def test_tee(sides: Sides) -> None:
    sides.run("echo one | tee f; echo two | tee -a f; echo three | tee -a f g > $T/said; cat $T/said")
    assert sides.history() == [
        ("a", "created", "/f", "one\n"),
        ("a", "modified", "/f", "one\ntwo\n"),
        ("a", "modified", "/f", "one\ntwo\nthree\n"),
        ("b", "created", "/g", "three\n"),
    ]


def test_jq_and_sponge_in_place(sides: Sides) -> None:
    sides.run(
        """
        echo '{"a":1}' > f.json
        jq -c .a=2 f.json > f.json.tmp && mv f.json.tmp f.json
        jq -c .b=3 f.json | sponge f.json
        jq -c . f.json | sponge -a log
        jq -c .a f.json | sponge -a log
        sort log -o log
        """
    )
    assert sides.history() == [
        ("a", "created", "/f.json", '{"a":1}\n'),
        ("a", "modified", "/f.json", '{"a":2}\n'),
        ("a", "modified", "/f.json", '{"a":2,"b":3}\n'),
        ("b", "created", "/log", '{"a":2,"b":3}\n'),
        ("b", "modified", "/log", '{"a":2,"b":3}\n2\n'),
        ("b", "modified", "/log", '2\n{"a":2,"b":3}\n'),
    ]


PATCH = """
    printf '1\\n2\\n3\\n' > f
    printf -- '--- f\\n+++ f\\n@@ -1,3 +1,3 @@\\n 1\\n-2\\n+two\\n 3\\n' > $T/p
"""


def like_a_word(step: Step) -> bool:
    """Whether a version is that of a name that patch has drawn: one in fourteen looks like what a person would choose,
    and is a memory until it is renamed. So is one for a file that is not there yet.
    """
    return re.fullmatch(r"/(?:f|d/new)\.[or][A-Za-z0-9]{6}", step[2]) is not None


def test_patch(sides: Sides) -> None:
    """Forwards, backwards, what is there already, and hunks that do not fit."""
    said = sides.run(PATCH + "patch f $T/p; patch -R f < $T/p; patch -p0 < $T/p; patch -f f $T/p || echo status $?")
    assert said.endswith("1 out of 1 hunk FAILED -- saving rejects to file f.rej\nstatus 1\n")
    assert [step for step in sides.history() if step[0] == "a"] == [
        ("a", "created", "/f", "1\n2\n3\n"),
        ("a", "modified", "/f", "1\ntwo\n3\n"),
        ("a", "modified", "/f", "1\n2\n3\n"),
        ("a", "modified", "/f", "1\ntwo\n3\n"),
    ]
    # A refused patch leaves the original beside it, as on a disk.
    rejected = "modified" if any(re.fullmatch(r"/f\.r\w{6}", step[2]) for step in sides.history()) else "created"
    assert {(step[1], step[2]) for step in sides.history() if step[0] != "a" and not like_a_word(step)} == {
        ("created", "/f.orig"),
        (rejected, "/f.rej"),
    }


def test_patch_makes_and_removes_files(sides: Sides) -> None:
    sides.run(
        r"""
        printf -- '--- /dev/null\n+++ b/d/new\n@@ -0,0 +1 @@\n+hi\n' > $T/p
        patch -p1 < $T/p
        patch -p1 -R < $T/p
        """
    )
    first, *steps = sides.history()
    assert (first[:2], like_a_word(first)) == (("a", "created"), True)
    assert [step for step in steps if not like_a_word(step)] == [
        ("a", "modified", "/d/new", "hi\n"),
        ("a", "deleted", "/d/new", None),
    ]


def test_patch_with_a_backup_takes_the_memory_along(sides: Sides) -> None:
    sides.run(PATCH + "patch -b f $T/p")
    arrived = "modified" if any(map(like_a_word, sides.history())) else "created"
    assert [step for step in sides.history() if not like_a_word(step)] == [
        ("a", "created", "/f", "1\n2\n3\n"),
        ("a", "modified", "/f.orig", "1\n2\n3\n"),
        ("b", arrived, "/f", "1\ntwo\n3\n"),
    ]


def test_git_compares_files_and_directories(sides: Sides) -> None:
    said = sides.run(
        """
        mkdir a b; echo x > a/x; echo y > b/x; echo z > b/z; echo same > a/s; cp a/s b/s
        git diff --no-index --stat a b || echo differ
        git diff --no-index a/x b/x || echo differ
        git diff --no-index a/s b/s && echo same
        """
    )
    assert said.count("differ\n") == 2
    assert said.endswith("-x\n+y\ndiffer\nsame\n")
    assert [step[1] for step in sides.history()] == ["created"] * 5


def test_git_applies_patches(sides: Sides) -> None:
    """git removes the file and makes it anew, which is a new memory; what does not fit changes nothing."""
    sides.run(PATCH + "git apply --stat $T/p; git apply -v -p0 $T/p; git apply -p0 $T/p || echo status $?")
    assert sides.history() == [
        ("a", "created", "/f", "1\n2\n3\n"),
        ("a", "deleted", "/f", None),
        ("b", "created", "/f", "1\ntwo\n3\n"),
    ]


def test_git_apply_renames_and_removes(sides: Sides) -> None:
    sides.run(
        r"""
        echo hello > old
        printf 'diff --git a/old b/new\nsimilarity index 100%%\nrename from old\nrename to new\n' > $T/rename
        printf 'diff --git a/new b/new\ndeleted file mode 100644\n--- a/new\n+++ /dev/null\n@@ -1 +0,0 @@\n-hello\n' \
            > $T/remove
        git apply -v $T/rename
        git apply -v $T/remove
        """
    )
    assert sides.history() == [
        ("a", "created", "/old", "hello\n"),
        ("a", "deleted", "/old", None),
        ("b", "created", "/new", "hello\n"),
        ("b", "deleted", "/new", None),
    ]


def test_a_repository_is_refused(sides: Sides) -> None:
    """Known: see `.git` in docs/semantics.md. One line says it, and nothing is left."""
    done = sides.mount.run("git init -q .")
    assert done.status != 0
    assert done.errors == "HERE/.git: Operation not permitted\n"
    sides.agree()
