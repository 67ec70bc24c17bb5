"""``view``: every answer word by word, and that all of a text can be read however long it is."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfs.model import ids
from memfs.model.errors import InvalidRequest
from memfs.model.mutations import Create
from memfs.model.records import MAX_CONTENT_BYTES, MAX_MEMORIES, Store
from memfs.tool import commands
from memfs.tool.commands import VIEW_CHARACTERS
from memfs.tool.lines import numbered, size_text, split_lines
from memfs.workspace import Workspace
from tests.tool.handling import ROOT_LISTING, SOMEBODY, Tool

HEADER = "Here's the content of /memories/a.md with line numbers:"
TEN = "".join(f"line {number}\n" for number in range(1, 11))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """One for all tests here; each has a store of its own."""
    with Workspace.open(tmp_path_factory.mktemp("workspace") / "memfs.db", create=True) as opened:
        yield opened


@pytest.fixture
def tool(workspace: Workspace, store: Store) -> Tool:
    return Tool(workspace, store)


def listing(tool: Tool, path: str = "/memories") -> list[str]:
    """The lines of a listing below its header."""
    header, *lines = tool.ok("view", path).split("\n")
    assert header == ROOT_LISTING.replace("/memories", path)
    return lines


def shown(tool: Tool, text: str, view_range: object = None) -> list[str]:
    """The lines below the header of a file with this text."""
    tool.put("/a.md", text)
    header, *lines = tool.ok("view", "/memories/a.md", view_range=view_range).split("\n")
    assert header == HEADER
    return lines


# Directories


def test_an_empty_root_is_no_error(tool: Tool) -> None:
    answer = f"{ROOT_LISTING}\n0B\t/memories"
    assert tool.ok("view", "/memories") == tool.ok("view", "/memories/") == answer


def test_two_levels_sorted_by_path_with_sizes_of_all_that_is_below(tool: Tool) -> None:
    for path, size in {
        "/b.md": 1023,
        "/a/x.md": 1024,
        "/a/deep/er/y.md": 4608,
        "/a-b.md": 0,
        "/a.md": 102_400,
        "/Z": 1,
        "/é_%": 10,
    }.items():
        tool.put(path, "x" * size)
    tool.keep("/empty", "/kept/inner/most")
    assert listing(tool) == [
        "106.5K\t/memories",
        "1B\t/memories/Z",
        "5.5K\t/memories/a",
        "0B\t/memories/a-b.md",
        "100.0K\t/memories/a.md",
        "4.5K\t/memories/a/deep",
        "1.0K\t/memories/a/x.md",
        "1023B\t/memories/b.md",
        "0B\t/memories/empty",
        "0B\t/memories/kept",
        "0B\t/memories/kept/inner",
        "10B\t/memories/é_%",
    ]
    assert tool.done == []


def test_a_directory_further_down_has_its_own_two_levels(tool: Tool) -> None:
    for path in ("/a/b/c/d/e", "/a/b/f", "/ab", "/a/bb"):
        tool.put(path, "12345")
    lines = ["10B\t/memories/a/b", "5B\t/memories/a/b/c", "5B\t/memories/a/b/c/d", "5B\t/memories/a/b/f"]
    assert listing(tool, "/memories/a/b") == lines
    assert tool.ok("view", "/memories/a/b/") == tool.ok("view", "/memories/a/b")


def test_hidden_names_and_node_modules_are_counted_but_not_shown(tool: Tool) -> None:
    for path in ("/.hidden", "/.dir/a", "/a/.b", "/a/node_modules/c", "/node_modules/d/e", "/node_modules.md", "/a/f."):
        tool.put(path, "12345")
    tool.keep("/.kept", "/a/.kept")
    assert listing(tool) == [
        "35B\t/memories",
        "15B\t/memories/a",
        "5B\t/memories/a/f.",
        "5B\t/memories/node_modules.md",
    ]
    assert listing(tool, "/memories/.dir") == ["5B\t/memories/.dir", "5B\t/memories/.dir/a"]
    assert listing(tool, "/memories/node_modules") == [
        "5B\t/memories/node_modules",
        "5B\t/memories/node_modules/d",
        "5B\t/memories/node_modules/d/e",
    ]
    assert listing(tool, "/memories/.kept") == ["0B\t/memories/.kept"]


@pytest.mark.parametrize(
    "size, text",
    [
        (0, "0B"),
        (1, "1B"),
        (1023, "1023B"),
        (1024, "1.0K"),
        (1075, "1.0K"),
        (1076, "1.1K"),
        (5632, "5.5K"),
        (102_400, "100.0K"),
        (1_048_524, "1023.9K"),
        (1_048_525, "1.0M"),
        (1_048_576, "1.0M"),
        (1_258_291, "1.2M"),
        (204_800_000, "195.3M"),
        (1 << 30, "1.0G"),
        (5000 << 30, "5000.0G"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size, exact=False) == text


@pytest.mark.parametrize("size, text", [(0, "0B"), (1024, "1K"), (1536, "1.5K"), (102_400, "100K"), (3 << 20, "3M")])
def test_exact_sizes(size: int, text: str) -> None:
    assert size_text(size, exact=True) == text


@pytest.mark.parametrize(
    "path", ["/memories/x", "/memories/a.md/x", "/memories/a.md/", "/memories/A.md", "/memories/a"]
)
def test_what_does_not_exist(tool: Tool, path: str) -> None:
    tool.put("/a.md")
    assert tool.refused("view", path) == f"The path {path} does not exist. Please provide a valid path."


def test_a_range_means_nothing_for_a_directory(tool: Tool) -> None:
    assert tool.ok("view", "/memories", view_range=[3, 4]) == tool.ok("view", "/memories")


# Files


@pytest.mark.parametrize(
    "text, lines",
    [
        ("", []),
        ("\n", ["     1\t"]),
        ("a", ["     1\ta"]),
        ("a\n", ["     1\ta"]),
        ("a\n\n", ["     1\ta", "     2\t"]),
        ("a\nb", ["     1\ta", "     2\tb"]),
        ("a\r\nb\r\n", ["     1\ta\r", "     2\tb\r"]),
        ("a\rb\n", ["     1\ta\rb"]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1c\n", ["     1\ta\u2028b\u2029c\x85d\x0be\x0cf\x1c"]),
        ("\ufeffa\n", ["     1\t\ufeffa"]),
        ("a\0b\n", ["     1\ta\0b"]),
        ("\ta\t\n", ["     1\t\ta\t"]),
        ("{path} %s \U0010ffff", ["     1\t{path} %s \U0010ffff"]),
    ],
)
def test_lines_end_at_lf_only(tool: Tool, text: str, lines: list[str]) -> None:
    assert shown(tool, text) == lines
    assert tool.done == []


def test_numbers_have_six_places(tool: Tool) -> None:
    lines = shown(tool, "\n" * MAX_CONTENT_BYTES, [99_999, -1])
    assert lines[:2] == [" 99999\t", "100000\t"]


@pytest.mark.parametrize(
    "view_range, first, last",
    [
        ([1, 10], 1, 10),
        ([3, 5], 3, 5),
        ([4, 4], 4, 4),
        ([7, -1], 7, 10),
        ([10, -1], 10, 10),
        ([0, 2], 1, 2),
        ([-5, 2], 1, 2),
        ([-1, -1], 1, 10),
        ([8, 11], 8, 10),
        ([10, 10**9], 10, 10),
        ((2, 3), 2, 3),
        (None, 1, 10),
    ],
)
def test_ranges(tool: Tool, view_range: object, first: int, last: int) -> None:
    assert shown(tool, TEN, view_range) == [f"{number:6d}\tline {number}" for number in range(first, last + 1)]


@pytest.mark.parametrize(
    "view_range, echo",
    [
        ([5, 4], "[5, 4]"),
        ([1, 0], "[1, 0]"),
        ([0, 0], "[0, 0]"),
        ([-3, -2], "[-3, -2]"),
        ([3, -2], "[3, -2]"),
        ([11, 12], "[11, 12]"),
        ([11, -1], "[11, -1]"),
        ([], "[]"),
        ([1], "[1]"),
        ([1, 2, 3], "[1, 2, 3]"),
        ([1.0, 2.0], "[1.0, 2.0]"),
        ([1, 2.5], "[1, 2.5]"),
        ([True, 2], "[True, 2]"),
        ([False, True], "[False, True]"),
        (["1", "2"], "['1', '2']"),
        ([None, None], "[None, None]"),
        ([[1], 2], "[[1], 2]"),
        ("1,2", "'1,2'"),
        ("12", "'12'"),
        (5, "5"),
        (0, "0"),
        (False, "False"),
        (float("nan"), "nan"),
        ({"start": 1, "end": 2}, "{'start': 1, 'end': 2}"),
        (["\ud800", 1], "['\\ud800', 1]"),
        ("x" * 500, "'" + "x" * 99 + "…"),
        ([10**5000, "y"], "a list"),
    ],
)
def test_a_range_that_is_none(tool: Tool, view_range: object, echo: str) -> None:
    tool.put("/a.md", TEN)
    assert tool.refused("view", "/memories/a.md", view_range=view_range) == (
        f"Error: Invalid `view_range` parameter: {echo}. /memories/a.md has 10 lines: give [start, end] with"
        " 1 <= start <= end, or -1 as the end"
    )


def test_a_list_that_is_nested_deeply_is_no_range(tool: Tool) -> None:
    tool.put("/a.md", TEN)
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    answer = tool.refused("view", "/memories/a.md", view_range=nested)
    assert answer.startswith("Error: Invalid `view_range` parameter: a list. /memories/a.md has 10 lines")


@pytest.mark.parametrize("view_range", [[1, -1], [0, -1], [1, 1], [-7, 3]])
def test_an_empty_file_can_be_asked_for_its_first_line(tool: Tool, view_range: object) -> None:
    assert shown(tool, "", view_range) == []


@pytest.mark.parametrize("view_range", [[1, 0], [0, 0], [2, -1], [2, 3], [1, -2]])
def test_an_empty_file_has_no_other_line(tool: Tool, view_range: object) -> None:
    tool.put("/a.md", "")
    assert "/memories/a.md has 0 lines" in tool.refused("view", "/memories/a.md", view_range=view_range)


def test_too_many_lines(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory's 102,400 bytes hold no 999,999 lines, so the limit is lowered here."""
    monkeypatch.setattr(commands, "MAX_LINES", 10)
    assert len(shown(tool, TEN)) == 10
    tool.put("/a.md", TEN + "x")
    for view_range in (None, [1, 2]):
        answer = tool.refused("view", "/memories/a.md", view_range=view_range)
        assert answer == "File /memories/a.md exceeds maximum line limit of 999,999 lines."


def test_reading_is_noted_and_makes_no_version(tool: Tool) -> None:
    memory_id = tool.put("/a.md")
    assert tool.workspace.accesses.noted(memory_id) is None
    tool.ok("view", "/memories")
    assert tool.workspace.accesses.noted(memory_id) is None
    tool.ok("view", "/memories/a.md")
    assert tool.workspace.accesses.noted(memory_id) is not None
    assert tool.done == []


# Long texts


@pytest.mark.parametrize(
    "text",
    [
        "x" * VIEW_CHARACTERS,
        "x" * VIEW_CHARACTERS + "\n",
        ("x" * 99 + "\n") * 160,
        "é" * VIEW_CHARACTERS,
        "\n" * (VIEW_CHARACTERS + 1),
    ],
)
def test_a_text_of_the_limit_is_whole(tool: Tool, text: str) -> None:
    assert shown(tool, text) == [f"{number:6d}\t{line}" for number, line in enumerate(split_lines(text), 1)]


def test_a_longer_text_is_cut_at_a_line(tool: Tool) -> None:
    lines = shown(tool, ("x" * 99 + "\n") * 160 + "y")
    assert lines[-2:] == [
        f"   160\t{'x' * 99}",
        "[Cut at 16,000 characters: line 161 is left out, view_range [161, 161] reads on]",
    ]
    lines = shown(tool, ("x" * 99 + "\n") * 400)
    assert lines[-2:] == [
        f"   160\t{'x' * 99}",
        "[Cut at 16,000 characters: lines 161 to 400 are left out, view_range [161, 400] reads on]",
    ]
    assert shown(tool, ("x" * 99 + "\n") * 400, [161, 200])[-1] == f"   200\t{'x' * 99}"
    cut = "[Cut at 16,000 characters: lines 261 to 300 are left out, view_range [261, 300] reads on]"
    assert shown(tool, ("x" * 99 + "\n") * 400, [101, 300])[-1] == cut


def test_a_line_over_the_limit_is_read_whole_by_itself(tool: Tool) -> None:
    text = "y" * MAX_CONTENT_BYTES
    assert shown(tool, text) == [
        f"     1\t{'y' * VIEW_CHARACTERS}",
        "[Cut at 16,000 characters: line 1 has 102,400, view_range [1, 1] shows it whole]",
    ]
    for view_range in ([1, 1], [1, -1], [0, 9]):
        assert shown(tool, text, view_range) == [f"     1\t{text}"]


def test_lines_around_a_line_over_the_limit(tool: Tool) -> None:
    text = "a\n" + "y" * 50_000 + "\nb\nc"
    left_out = "[Cut at 16,000 characters: lines 2 to 4 are left out, view_range [2, 4] reads on]"
    assert shown(tool, text) == ["     1\ta", left_out]
    assert shown(tool, text, [2, 4]) == [
        f"     2\t{'y' * VIEW_CHARACTERS}",
        "[Cut at 16,000 characters: line 2 has 50,000, view_range [2, 2] shows it whole;"
        " lines 3 to 4 are left out, view_range [3, 4] reads on]",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{number}\n" for number in range(17_000)),
        ("x" * 15_999 + "\n") * 6,
        ("x" * 16_000 + "\n") * 6,
        ("x" * 16_001 + "\n") * 6,
        "a\n" + "y" * 90_000 + "\n\nb\n" + "z" * 10_000,
        "y" * 40_000 + "\n" + "z" * 40_000 + "\n" + "é\r\n" * 5_000,
        "[Cut at 1\n" * 5_000 + "end",
    ],
)
def test_the_whole_text_can_be_read(tool: Tool, text: str) -> None:
    tool.put("/a.md", text)
    assert tool.read("/memories/a.md") == split_lines(text)


@given(
    st.lists(st.text(st.sampled_from("ab\r\té\U0001f600"), max_size=40), max_size=40).map("\n".join),
    st.integers(1, 60),
)
def test_no_answer_shows_more_than_its_limit(text: str, limit: int) -> None:
    """But at least one line; and what is left out is exactly what is not shown."""
    lines = split_lines(text)
    answer = numbered(lines, 1, limit)
    whole = [f"{number:6d}\t{line}" for number, line in enumerate(lines, 1)]
    if len("\n".join(lines)) <= limit:
        assert answer == whole
        return
    *body, notice = answer
    assert notice.startswith(f"[Cut at {limit:,} characters: ")
    assert len("\n".join(line[7:] for line in body)) <= limit
    first = int(re.findall(r"view_range \[(\d+)", notice)[-1])
    if "whole" in notice:
        assert body == [whole[0][: 7 + limit]]
        assert "view_range [1, 1]" in notice
        assert first == (1 if len(lines) == 1 else 2)
    else:
        assert body == whole[: first - 1]
        assert len("\n".join(lines[:first])) > limit, "a line more would have had room"


def test_the_limit_can_be_chosen(workspace: Workspace, store: Store) -> None:
    tool = Tool(workspace, store, view_characters=20)
    assert shown(tool, TEN)[-2:] == [
        "     3\tline 3",
        "[Cut at 20 characters: lines 4 to 10 are left out, view_range [4, 10] reads on]",
    ]
    with pytest.raises(InvalidRequest, match="at least 1 character"):
        Tool(workspace, store, view_characters=0)


def test_a_full_store_is_listed(tool: Tool) -> None:
    creates = [Create(ids.new_id(ids.MEMORY), f"/d/{number:04}", b"x") for number in range(MAX_MEMORIES)]
    tool.workspace.memories.apply(tool.store.id, creates, SOMEBODY)
    lines = listing(tool)
    assert lines[:2] == ["2.0K\t/memories", "2.0K\t/memories/d"]
    assert len(lines) == MAX_MEMORIES + 2
