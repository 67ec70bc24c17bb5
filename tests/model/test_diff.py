"""Unified diffs: what they say, and that whoever applies them gets the other text."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfs.model.diff import Diff, Side, unified

NOTHING = Side("mem_1", "/a.md", "", None)
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")


def side(text: str | None, path: str = "/a.md", label: str = "memver_1 2026", memory_id: str = "mem_1") -> Side:
    return Side(memory_id, path, label, text)


def diff(before: str | None, after: str | None) -> Diff:
    return unified(side(before), side(after, label="memver_2 2027"))


def apply(text: str | None, hunks: list[str]) -> str:
    """What patch(1) does, without any tolerance."""
    old = re.findall(r"[^\n]*\n|[^\n]+$", text or "")
    new: list[str] = []
    at = 0
    lines = iter([*hunks, ""])
    line = next(lines)
    while line:
        found = _HUNK.fullmatch(line)
        assert found is not None, line
        start, old_left = int(found[1]), int(found[2] or 1)
        new_start, new_left = int(found[3]), int(found[4] or 1)
        start -= old_left > 0  # an empty range stands behind the line that it names
        assert at <= start
        new += old[at:start]
        at = start
        assert len(new) == new_start - (new_left > 0)
        taken = old[at : at + old_left]
        body: list[tuple[str, str]] = []
        for line in lines:
            if line.startswith("\\"):
                assert line == "\\ No newline at end of file\n"
                mark, last = body[-1]
                body[-1] = mark, last.removesuffix("\n")
            elif line.startswith((" ", "-", "+")):
                assert line.endswith("\n")
                body.append((line[0], line[1:]))
            else:
                break
        assert [part for mark, part in body if mark != "+"] == taken
        put = [part for mark, part in body if mark != "-"]
        assert (len(taken), len(put)) == (old_left, new_left)
        new += put
        at += old_left
    return "".join(new + old[at:])


def test_a_change_has_three_lines_of_context_and_labels() -> None:
    before = "".join(f"{number}\n" for number in range(20))
    found = diff(before, before.replace("10\n", "ten\n"))
    assert found.text == (
        "diff --git a/a.md b/a.md\n"
        "--- a/a.md\tmemver_1 2026\n+++ b/a.md\tmemver_2 2027\n@@ -8,7 +8,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
    )


def test_a_last_line_without_its_newline_is_marked() -> None:
    assert diff("a\nb", "a\nb\n").hunks == [
        "@@ -1,2 +1,2 @@\n",
        " a\n",
        "-b\n",
        "\\ No newline at end of file\n",
        "+b\n",
    ]
    assert diff("a", "b").hunks[1:] == [
        "-a\n",
        "\\ No newline at end of file\n",
        "+b\n",
        "\\ No newline at end of file\n",
    ]
    assert diff("x\ny", "z\ny").hunks[-2:] == [" y\n", "\\ No newline at end of file\n"]


def test_lines_end_at_lf_alone() -> None:
    assert diff("a\r\nb\u2028c\x0bd\x85e\r", "a\nb\u2028c\x0bd\x85e\r").hunks == [
        "@@ -1,2 +1,2 @@\n",
        "-a\r\n",
        "+a\n",
        " b\u2028c\x0bd\x85e\r\n",
        "\\ No newline at end of file\n",
    ]


@pytest.mark.parametrize("text", [None, "", "a", "a\n", "\n"])
def test_where_nothing_differs_there_is_no_diff(text: str | None) -> None:
    found = unified(side(text), side(text, label="memver_2 2027"))
    assert (found.header, found.hunks, found.text) == ([], [], "")


def test_what_came_or_went_is_compared_with_nothing() -> None:
    assert diff(None, "a\n").text == (
        "diff --git a/a.md b/a.md\nnew file mode 100644\n"
        "--- /dev/null\tmemver_1 2026\n+++ b/a.md\tmemver_2 2027\n@@ -0,0 +1 @@\n+a\n"
    )
    assert unified(side("a\n"), NOTHING).text == (
        "diff --git a/a.md b/a.md\ndeleted file mode 100644\n"
        "--- a/a.md\tmemver_1 2026\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    )


def test_an_empty_text_that_came_or_went_is_a_difference() -> None:
    assert diff(None, "").text == "diff --git a/a.md b/a.md\nnew file mode 100644\nindex 0000000..e69de29\n"
    assert diff("", None).text == "diff --git a/a.md b/a.md\ndeleted file mode 100644\nindex e69de29..0000000\n"


def test_a_rename_is_said() -> None:
    rename = "diff --git a/a.md b/b/c.md\nrename from a.md\nrename to b/c.md\n"
    assert unified(side("x\n"), side("x\n", "/b/c.md")).text == rename
    both = unified(side("x\n"), side("y\n", "/b/c.md"))
    assert "".join(both.header) == rename + "--- a/a.md\tmemver_1 2026\n+++ b/b/c.md\tmemver_1 2026\n"
    assert both.hunks == ["@@ -1 +1 @@\n", "-x\n", "+y\n"]


def test_neither_two_memories_nor_a_deletion_are_a_rename() -> None:
    assert unified(side("x\n"), side("x\n", "/b", memory_id="mem_2")).text == ""
    assert unified(side("x\n"), side("y\n", "/b", memory_id="mem_2")).header[0].startswith("--- a/a.md\t")
    assert "rename" not in unified(side("x\n"), side(None, "/b")).text
    assert unified(side("x\n"), side(None, "/b")).header[0] == "diff --git a/a.md b/a.md\n"
    assert unified(side(None, "/b"), side("x\n")).header[0] == "diff --git a/a.md b/a.md\n"
    assert unified(side(None), side(None, "/b")).text == ""


@pytest.mark.parametrize(
    "path, written",
    [("/a b.md", '"b/a b.md"'), ("/x ", '"b/x "'), ("/é.md", "b/é.md"), ('/a"b', '"b/a\\"b"'), ("/a\\b", '"b/a\\\\b"')],
)
def test_a_name_is_written_as_git_and_patch_read_it(path: str, written: str) -> None:
    assert unified(replace(NOTHING, path=path), side("x", path)).header[-1] == f"+++ {written}\tmemver_1 2026\n"
    first, old, new = unified(side("x", "/old"), side("x", path)).header
    assert first == f"diff --git a/old {written}\n"
    assert old == "rename from old\n"
    assert new == f"rename to {written.replace('b/', '', 1)}\n"


TEXTS = st.none() | st.lists(st.sampled_from(["a", "b", "", "\r", "--- x", "\\ y", " ", "\u2028", "@@ -1 +1 @@"])).map(
    "\n".join
)


@given(TEXTS, TEXTS)
def test_applied_to_the_one_it_gives_the_other(before: str | None, after: str | None) -> None:
    found = diff(before, after)
    assert apply(before, found.hunks) == (after or "")
    assert (found.text == "") is (before == after)
    assert not found.hunks or len(found.header) == (3 if before is not None and after is not None else 4)
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in [*found.header, *found.hunks])
