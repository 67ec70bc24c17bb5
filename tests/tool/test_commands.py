"""The commands that change memories: every answer word by word, and the tree and the history after it.

``Tool.refused`` checks that an error changed nothing; ``done`` is what the tool's session has in the history.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest

from memfs.model import ids
from memfs.model.errors import ReadOnly
from memfs.model.mutations import Create, KeepDirectory, Mutation
from memfs.model.paths import MAX_SEGMENTS
from memfs.model.records import MAX_CONTENT_BYTES, MAX_DIRECTORIES, MAX_MEMORIES, Guards, Store
from memfs.tool import SDK
from memfs.workspace import Workspace, detectors
from tests.tool.handling import SESSION, SOMEBODY, Tool

A = "/memories/a.md"
INVALID = "a path may not hold '.', '..' or NUL as a part, in whatever spelling, and stays in /memories"
ROOT_ITSELF = "Error: /memories is the memory directory itself: name something below it"
COMMANDS = "view, create, str_replace, insert, delete, rename"
ONE_OF = f"it is one of {COMMANDS}"
HALF = "holds half of a character (a lone surrogate)"
SPECIAL = "\\1 \\g<0> {path} {old_str} %s $$ $& $1"
EDITED = "The memory file has been edited."


def lines(first: int, *texts: str) -> list[str]:
    """Numbered lines of a snippet."""
    return [f"{number:6d}\t{text}" for number, text in enumerate(texts, first)]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """One for all tests here; each has a store of its own."""
    with Workspace.open(tmp_path_factory.mktemp("workspace") / "memfs.db", create=True) as opened:
        yield opened


@pytest.fixture
def tool(workspace: Workspace, store: Store) -> Tool:
    return Tool(workspace, store)


def fill(tool: Tool, count: int = MAX_MEMORIES) -> None:
    """Make so many memories."""
    creates = [Create(ids.new_id(ids.MEMORY), f"/d/{number:04}", b"x\n") for number in range(count)]
    tool.workspace.memories.apply(tool.store.id, creates, SOMEBODY)


# Inputs


@pytest.mark.parametrize(
    "given, answer",
    [
        (None, f"the input is an object with a command ({COMMANDS})"),
        ("view", f"the input is an object with a command ({COMMANDS})"),
        ([], f"the input is an object with a command ({COMMANDS})"),
        ({}, f"unknown command None: {ONE_OF}"),
        ({"command": "View"}, f"unknown command 'View': {ONE_OF}"),
        ({"command": ["view"]}, f"unknown command ['view']: {ONE_OF}"),
        (
            {"command": "\ud800" + "x" * 200},
            "unknown command '\\ud800" + "x" * 93 + "…: it is one of view, create, str_replace, insert, delete, rename",
        ),
        ({"command": "view"}, "view needs path"),
        ({"command": "view", "path": None}, "view needs path"),
        ({"command": "view", "path": 5}, "path of view is text, not int"),
        ({"command": "view", "path": ["/memories"]}, "path of view is text, not list"),
        ({"command": "view", "path": b"/memories"}, "path of view is text, not bytes"),
        ({"command": "view", "path": "/memories/\udcff"}, f"path of view {HALF}"),
        ({"command": "create", "path": A}, "create needs file_text"),
        ({"command": "create", "path": A, "file_text": None}, "create needs file_text"),
        ({"command": "create", "path": A, "file_text": {"a": 1}}, "file_text of create is text, not dict"),
        (
            {"command": "create", "path": A, "file_text": "x\ud83d"},
            f"file_text of create {HALF}",
        ),
        ({"command": "create", "file_text": "x"}, "create needs path"),
        ({"command": "str_replace", "path": A}, "str_replace needs old_str"),
        ({"command": "str_replace", "path": A, "old_str": 1}, "old_str of str_replace is text, not int"),
        (
            {"command": "str_replace", "path": A, "old_str": "a", "new_str": 1},
            "new_str of str_replace is text, not int",
        ),
        (
            {"command": "str_replace", "path": A, "old_str": "\udc00"},
            f"old_str of str_replace {HALF}",
        ),
        (
            {"command": "str_replace", "path": A, "old_str": "a", "new_str": "\udc00"},
            f"new_str of str_replace {HALF}",
        ),
        ({"command": "insert", "path": A, "insert_text": "x"}, "insert needs insert_line"),
        ({"command": "insert", "path": A, "insert_line": 1}, "insert needs insert_text"),
        (
            {"command": "insert", "path": A, "insert_line": 1, "insert_text": []},
            "insert_text of insert is text, not list",
        ),
        (
            {"command": "insert", "path": A, "insert_line": "\ud800", "insert_text": "x"},
            f"insert_line of insert {HALF}",
        ),
        (
            {"command": "insert", "path": A, "insert_line": 1, "insert_text": "\ud800"},
            f"insert_text of insert {HALF}",
        ),
        ({"command": "delete"}, "delete needs path"),
        ({"command": "rename", "path": A}, "rename needs old_path"),
        ({"command": "rename", "old_path": A}, "rename needs new_path"),
        ({"command": "rename", "old_path": A, "new_path": 7}, "new_path of rename is text, not int"),
        ({"command": "rename", "old_path": "\ud800", "new_path": A}, f"old_path of rename {HALF}"),
    ],
)
def test_malformed_inputs(tool: Tool, given: object, answer: str) -> None:
    tool.put("/a.md", "text\n")
    before = tool.state()
    result = tool.handle(given)
    assert (result.is_error, result.content) == (True, f"Error: {answer}")
    assert tool.state() == before


def test_fields_that_a_command_does_not_have_are_left_aside(tool: Tool) -> None:
    assert tool.ok("create", A, file_text="x", view_range=[1], insert_line="?") == f"File created successfully at: {A}"


# create


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "no newline",
        "one\r\ntwo\r\n",
        "\ufeffBOM\n",
        "\0",
        "a\rb",
        "a\u2028b\u2029c\x85",
        "\U0001f600 \U0010ffff \ue000",
        "{path} %s $& \\1",
        "x" * MAX_CONTENT_BYTES,
        "é" * (MAX_CONTENT_BYTES // 2),
    ],
)
def test_create(tool: Tool, text: str) -> None:
    assert tool.ok("create", A, file_text=text) == "File created successfully at: /memories/a.md"
    assert tool.files == {"/a.md": text}
    (version,) = tool.versions()
    assert (version.operation, version.path, version.created_by) == ("created", "/a.md", SESSION)


@pytest.mark.parametrize(
    "path", ["/b/c/d.md", "/.hidden/x", "/node_modules/y", "/notes..md", "/...", "/é_% *?[a]", "/a/b\\c"]
)
def test_create_makes_parents(tool: Tool, path: str) -> None:
    assert tool.ok("create", f"/memories{path}", file_text="x") == f"File created successfully at: /memories{path}"
    assert (tool.files, tool.kept, tool.done) == ({path: "x"}, [], [("created", path)])


def test_create_does_not_overwrite(tool: Tool) -> None:
    tool.put("/a.md", "old\n")
    tool.put("/d/x.md", "")
    tool.keep("/empty")
    for path in ("a.md", "d", "empty"):
        answer = tool.refused("create", f"/memories/{path}", file_text="new\n")
        assert answer == f"Error: File /memories/{path} already exists"


def test_create_overwrites_where_that_was_asked_for(workspace: Workspace, store: Store) -> None:
    tool = Tool(workspace, store, overwrite=True)
    memory_id = tool.put("/a.md", "old\n")
    tool.put("/d/x.md", "")
    tool.keep("/empty")
    assert tool.ok("create", A, file_text="new") == "File created successfully at: /memories/a.md"
    assert (tool.files["/a.md"], tool.done) == ("new", [("modified", "/a.md")])
    assert workspace.memories.get(store.id, "/a.md").id == memory_id
    assert tool.ok("create", A, file_text="new") == "File created successfully at: /memories/a.md"
    assert tool.done == [("modified", "/a.md")], "the same text is no version"
    for path in ("d", "empty"):
        answer = tool.refused("create", f"/memories/{path}", file_text="new\n")
        assert answer == f"Error: File /memories/{path} already exists"
    assert tool.ok("create", "/memories/b.md", file_text="") == "File created successfully at: /memories/b.md"


@pytest.mark.parametrize("path", ["/a.md/x", "/a.md/x/y", "/a.md/a.md"])
def test_nothing_can_be_below_a_file(tool: Tool, path: str) -> None:
    tool.put("/a.md")
    tool.put("/b.md")
    answer = "Error: /memories/a.md is a file, so nothing can be below it"
    assert tool.refused("create", f"/memories{path}", file_text="x") == answer
    assert tool.refused("rename", old_path="/memories/b.md", new_path=f"/memories{path}") == answer


@pytest.mark.parametrize("path", ["/memories", "/memories/"])
def test_nothing_can_be_made_of_the_root(tool: Tool, path: str) -> None:
    tool.put("/a.md")
    assert tool.refused("create", path, file_text="x") == f"Error: File {path} already exists"
    assert tool.refused("rename", old_path=A, new_path=path) == f"Error: The destination {path} already exists"
    missing = f"Error: The path {path} does not exist"
    assert tool.refused("str_replace", path, old_str="t") == f"{missing}. Please provide a valid path."
    assert tool.refused("insert", path, insert_line=0, insert_text="x") == missing
    assert tool.refused("delete", path) == ROOT_ITSELF
    assert tool.refused("rename", old_path=path, new_path="/memories/b") == ROOT_ITSELF


def test_a_file_has_no_slash_at_its_end(tool: Tool) -> None:
    answer = "Error: /memories/b/ ends with '/': a file's path does not"
    assert tool.refused("create", "/memories/b/", file_text="x") == answer
    tool.put("/a.md")
    assert tool.refused("rename", old_path=A, new_path="/memories/b/") == answer
    path = "/memories/a.md/"
    assert tool.refused("create", path, file_text="x") == f"Error: {path} ends with '/': a file's path does not"
    missing = f"Error: The path {path} does not exist"
    assert tool.refused("str_replace", path, old_str="t") == f"{missing}. Please provide a valid path."
    assert tool.refused("insert", path, insert_line=0, insert_text="x") == missing
    assert tool.refused("delete", path) == missing
    assert tool.refused("rename", old_path=path, new_path="/memories/c") == missing


@pytest.mark.parametrize("text", ["x" * (MAX_CONTENT_BYTES + 1), "é" * (MAX_CONTENT_BYTES // 2) + "x"])
def test_text_of_over_102400_bytes(tool: Tool, text: str) -> None:
    answer = "Error: the content has 102401 bytes, and a memory at most 102400: split it"
    assert tool.refused("create", A, file_text=text) == answer
    tool.put("/a.md", text[:-1])
    assert tool.refused("insert", A, insert_line=0, insert_text="") == answer
    assert tool.refused("str_replace", A, old_str=text[:-1], new_str=text) == answer


def test_a_full_store(tool: Tool) -> None:
    fill(tool)
    full = "Error: this memory is full: delete what is no longer needed, or write into a file that exists"
    assert tool.refused("create", A, file_text="x") == full
    tool.ok("insert", "/memories/d/0000", insert_line=0, insert_text="more")
    tool.ok("rename", old_path="/memories/d/0001", new_path="/memories/e/0001")
    tool.ok("delete", "/memories/d/0002")
    tool.ok("create", A, file_text="x")


@pytest.mark.parametrize(
    "path, reason",
    [
        ("/etc/passwd", "paths begin with /memories/"),
        ("memories/a", "paths begin with /memories/"),
        ("/memoriesX/a", "paths begin with /memories/"),
        ("/Memories/a", "paths begin with /memories/"),
        ("", "paths begin with /memories/"),
        ("/memories/..", INVALID),
        ("/memories/x/../y", INVALID),
        ("/memories/./x", INVALID),
        ("/memories/%2e%2e%2fx", INVALID),
        ("/memories/%252e%252e/x", INVALID),
        ("/memories/..\\x", INVALID),
        ("/memories/.. /x", INVALID),
        ("/memories/%09..%20/x", INVALID),
        ("/memories/a\0b", INVALID),
        ("/memories/a%00b", INVALID),
        ("/memories/．．/x", INVALID),
        ("/memories//x", "a path's segment may not be ''"),
        ("/memories//", "a path's segment may not be ''"),
        ("/memories/x//", "a path's segment may not be ''"),
        ("/memories/a\nb", "the name 'a\\nb' holds a control character"),
        ("/memories/a\u202eb", "the name 'a\\u202eb' holds U+202E, a control, format or separator character"),
        ("/memories/e\u0301", "the name 'e\u0301' is not in Unicode Normalization Form C"),
        ("/memories" + "/a" * 21, f"a path has at most 20 segments, this one 21: '{'/a' * 21}'…"),
        ("/memories/" + "x" * 1024, f"a path has at most 1024 bytes: '/{'x' * 79}'…"),
        ("/memories/" + "x" * 10**6, "a path has at most 1024 bytes"),
    ],
)
def test_paths_that_lead_elsewhere_or_that_no_memory_has(tool: Tool, path: str, reason: str) -> None:
    tool.put("/a.md")
    answer = f"Error: The path {path[:200]!r} is not valid: {reason}"
    commands: dict[str, dict[str, object]] = {
        "view": {},
        "create": {"file_text": "x"},
        "str_replace": {"old_str": "text"},
        "insert": {"insert_line": 0, "insert_text": "x"},
        "delete": {},
    }
    for command, fields in commands.items():
        assert tool.refused(command, path, **fields) == answer
    assert tool.refused("rename", old_path=path, new_path="/memories/b") == answer
    assert tool.refused("rename", old_path=A, new_path=path) == answer


# str_replace


@pytest.mark.parametrize(
    "text, old, new, after, snippet",
    [
        ("a\n", "a", "b", "b\n", lines(1, "b")),
        ("1\n2\n3\n4\n5\n6\n7\n", "4", "four", "1\n2\n3\nfour\n5\n6\n7\n", lines(2, "2", "3", "four", "5", "6")),
        ("1\n2\n3\n4\n", "1", "one", "one\n2\n3\n4\n", lines(1, "one", "2", "3")),
        ("1\n2\n3\n4\n", "4\n", "four\n", "1\n2\n3\nfour\n", lines(2, "2", "3", "four")),
        ("1\n2\n3\n4", "4", "four", "1\n2\n3\nfour", lines(2, "2", "3", "four")),
        (
            "1\n2\n3\n4\n5\n6\n",
            "3\n",
            "a\nb\nc\n",
            "1\n2\na\nb\nc\n4\n5\n6\n",
            lines(1, "1", "2", "a", "b", "c", "4", "5"),
        ),
        ("1\n2\n3\n4\n5\n6\n", "2\n3\n4\n", "-\n", "1\n-\n5\n6\n", lines(1, "1", "-", "5", "6")),
        ("one\ntwo\n", "e\nt", "e t", "one two\n", lines(1, "one two")),
        ("a\r\nb\r\n", "a\r\n", "c\n", "c\nb\r\n", lines(1, "c", "b\r")),
        ("a\r\nb\r\nc", "b", "d", "a\r\nd\r\nc", lines(1, "a\r", "d\r", "c")),
        ("\ufeffa", "a", "b", "\ufeffb", lines(1, "\ufeffb")),
        ("x\0y\u2028z\rq", "z", "w", "x\0y\u2028w\rq", lines(1, "x\0y\u2028w\rq")),
        ("aaa\n", "aa", "b", "ba\n", lines(1, "ba")),
        ("a.b*c\naxbxc\n", "a.b*c", "[", "[\naxbxc\n", lines(1, "[", "axbxc")),
        ("$&\n", "$&", SPECIAL, f"{SPECIAL}\n", lines(1, SPECIAL)),
        ("{old_str}\n", "{old_str}", "x", "x\n", lines(1, "x")),
        ("e\u0301 é", "é", "x", "e\u0301 x", lines(1, "e\u0301 x")),
        ("undefined\nNone\n", "None\n", "undefined\n", "undefined\nundefined\n", lines(1, "undefined", "undefined")),
    ],
)
def test_str_replace(tool: Tool, text: str, old: str, new: str, after: str, snippet: list[str]) -> None:
    tool.put("/a.md", text)
    tool.put("/b.md", text)
    assert tool.ok("str_replace", A, old_str=old, new_str=new) == "\n".join([EDITED, *snippet])
    assert tool.files == {"/a.md": after, "/b.md": text}
    assert tool.done == [("modified", "/a.md")]


@pytest.mark.parametrize("fields", [{}, {"new_str": None}, {"new_str": ""}])
@pytest.mark.parametrize(
    "text, old, after, snippet",
    [
        ("1\n2\n3\n4\n", "2\n", "1\n3\n4\n", lines(1, "1", "3", "4")),
        ("1\n2\n3\n4\n", "2", "1\n\n3\n4\n", lines(1, "1", "", "3", "4")),
        ("1\n2\n3\n4", "4", "1\n2\n3\n", lines(2, "2", "3")),
        ("1\n2\n3\n4\n", "\n4\n", "1\n2\n3", lines(1, "1", "2", "3")),
        ("1\n2\n", "1\n", "2\n", lines(1, "2")),
        ("all\n", "all\n", "", []),
    ],
)
def test_str_replace_without_new_str_deletes(
    tool: Tool, fields: dict[str, object], text: str, old: str, after: str, snippet: list[str]
) -> None:
    tool.put("/a.md", text)
    assert tool.ok("str_replace", A, old_str=old, **fields) == "\n".join([EDITED, *snippet])
    assert (tool.files, tool.done) == ({"/a.md": after}, [("modified", "/a.md")])


def test_the_same_text_again_is_no_version(tool: Tool) -> None:
    tool.put("/a.md", "a\n")
    assert tool.ok("str_replace", A, old_str="a", new_str="a") == f"{EDITED}\n     1\ta"
    assert tool.done == []


@pytest.mark.parametrize("old", ["x", "A", "a\r\n", "a b", "$", "{path}", ".", "a\n\nb", "b\nc\n"])
def test_old_str_that_is_not_there(tool: Tool, old: str) -> None:
    tool.put("/a.md", "a\nb\nc")
    answer = f"No replacement was performed, old_str `{old}` did not appear verbatim in /memories/a.md."
    assert tool.refused("str_replace", A, old_str=old, new_str="y") == answer


@pytest.mark.parametrize(
    "text, old, lines",
    [
        ("a\nb\na\n", "a", "1, 3"),
        ("a a\nb\na", "a", "1, 3"),
        ("aaaa\n", "aa", "1"),
        ("a\n\na\n\na\n\n", "a\n\n", "1, 3, 5"),
        ("\n\n\n\n", "\n\n", "1, 3"),
        ("x\r\nx\rx\u2028x\n", "x", "1, 2"),
        ("{lines}\n{lines}", "{lines}", "1, 2"),
    ],
)
def test_old_str_that_is_there_several_times(tool: Tool, text: str, old: str, lines: str) -> None:
    tool.put("/a.md", text)
    assert tool.refused("str_replace", A, old_str=old, new_str="y") == (
        f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please ensure it is"
        " unique"
    )


def test_old_str_that_is_everywhere(tool: Tool) -> None:
    tool.put("/a.md", "a\n" * (MAX_CONTENT_BYTES // 2))
    answer = tool.refused("str_replace", A, old_str="a", new_str="y")
    numbers = ", ".join(map(str, range(1, 101)))
    assert f" in lines: {numbers}, … (51,200 lines). Please ensure it is unique" in answer


def test_an_empty_old_str(tool: Tool) -> None:
    for text in ("", "a\n"):
        tool.put("/a.md", text)
        answer = tool.refused("str_replace", A, old_str="", new_str="x")
        assert answer == "Error: old_str is empty: give the text that is to be replaced"


@pytest.mark.parametrize("path", ["/memories/x", "/memories/d", "/memories/d/", "/memories/kept", "/memories/d/f/x"])
def test_edits_of_what_is_no_file(tool: Tool, path: str) -> None:
    tool.put("/d/f", "a")
    tool.keep("/kept")
    answer = f"Error: The path {path} does not exist. Please provide a valid path."
    assert tool.refused("str_replace", path, old_str="a", new_str="b") == answer
    answer = f"Error: The path {path} does not exist"
    assert tool.refused("insert", path, insert_line=0, insert_text="b") == answer


def test_a_long_snippet_is_cut(tool: Tool) -> None:
    tool.put("/a.md", "0\n1\n2\n")
    answer = tool.ok("str_replace", A, old_str="1", new_str="x" * 999 + "\n" + ("y" * 999 + "\n") * 30)
    assert answer.split("\n")[-1] == (
        "[Cut at 16,000 characters: lines 17 to 34 are left out, view_range [17, 34] reads on]"
    )
    tool.put("/a.md", "x" * 50_000 + "!")
    answer = tool.ok("str_replace", A, old_str="!", new_str="?")
    assert answer == (
        f"{EDITED}\n     1\t{'x' * 16_000}\n"
        "[Cut at 16,000 characters: line 1 has 50,001, view_range [1, 1] shows it whole]"
    )


# insert


@pytest.mark.parametrize(
    "text, line, new, after",
    [
        ("a\nb\n", 0, "x", "x\na\nb\n"),
        ("a\nb\n", 1, "x\n", "a\nx\nb\n"),
        ("a\nb\n", 2, "x", "a\nb\nx\n"),
        ("a\nb", 1, "x", "a\nx\nb"),
        ("a\nb", 2, "x", "a\nb\nx\n"),
        ("a\nb", 2, "x\n", "a\nb\nx\n"),
        ("", 0, "x", "x\n"),
        ("", 0, "", "\n"),
        ("\n", 1, "x", "\nx\n"),
        ("a\n", 1, "", "a\n\n"),
        ("a\n", 0, "x\n\n", "x\n\na\n"),
        ("a\n", 0, "x\ny", "x\ny\na\n"),
        ("a\r\nb\r\n", 1, "x\r\n", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\r\n", 1, "x", "a\r\nx\nb\r\n"),
        ("a\rb\u2028c\n", 1, "x", "a\rb\u2028c\nx\n"),
        ("\ufeffa\n", 1, "{path} \\1 $&", "\ufeffa\n{path} \\1 $&\n"),
        ("\0\n", 1, "\0", "\0\n\0\n"),
    ],
)
def test_insert(tool: Tool, text: str, line: int, new: str, after: str) -> None:
    tool.put("/a.md", text)
    assert tool.ok("insert", A, insert_line=line, insert_text=new) == "The file /memories/a.md has been edited."
    assert (tool.files, tool.done) == ({"/a.md": after}, [("modified", "/a.md")])


@pytest.mark.parametrize(
    "text, line, echo, count",
    [
        ("a\nb\n", 3, "3", 2),
        ("a\nb", 3, "3", 2),
        ("a\nb\n", -1, "-1", 2),
        ("", 1, "1", 0),
        ("\n\n", 3, "3", 2),
        ("a\rb", 2, "2", 1),
        ("a\nb\n", 10**40, str(10**40), 2),
        pytest.param("a\nb\n", 10**5000, "a int", 2, id="huge"),
        ("a\nb\n", 1.0, "1.0", 2),
        ("a\nb\n", True, "True", 2),
        ("a\nb\n", False, "False", 2),
        ("a\nb\n", "1", "'1'", 2),
        ("a\nb\n", "end", "'end'", 2),
        ("a\nb\n", [1], "[1]", 2),
        ("a\nb\n", {"line": 1}, "{'line': 1}", 2),
        ("a\nb\n", float("inf"), "inf", 2),
    ],
)
def test_insert_where_there_is_no_line(tool: Tool, text: str, line: object, echo: str, count: int) -> None:
    tool.put("/a.md", text)
    assert tool.refused("insert", A, insert_line=line, insert_text="x") == (
        f"Error: Invalid `insert_line` parameter: {echo}. It should be within the range of lines of the file:"
        f" [0, {count}]"
    )


# delete


def test_delete_a_file(tool: Tool) -> None:
    tool.put("/a.md")
    tool.put("/b.md")
    assert tool.ok("delete", A) == "Successfully deleted /memories/a.md"
    assert (list(tool.files), tool.done) == (["/b.md"], [("deleted", "/a.md")])
    assert tool.refused("delete", A) == "Error: The path /memories/a.md does not exist"


@pytest.mark.parametrize("path", ["/memories/d", "/memories/d/"])
def test_delete_a_directory_with_all_below(tool: Tool, path: str) -> None:
    for other in ("/d/a.md", "/d/e/b.md", "/d/.hidden", "/d.md", "/dd/x", "/D/x", "/d_/x", "/d%/x"):
        tool.put(other)
    tool.keep("/d", "/d/kept/deep", "/d-kept")
    assert tool.ok("delete", path) == f"Successfully deleted {path}"
    assert list(tool.files) == ["/D/x", "/d%/x", "/d.md", "/d_/x", "/dd/x"]
    assert tool.kept == ["/d-kept"]
    assert sorted(tool.done, key=str) == [("deleted", "/d/.hidden"), ("deleted", "/d/a.md"), ("deleted", "/d/e/b.md")]
    assert tool.refused("delete", path) == f"Error: The path {path} does not exist"


@pytest.mark.parametrize("path", ["/memories/x", "/memories/a.md/x", "/memories/A.md", "/memories/a_md", "/memories/%"])
def test_delete_what_is_not_there(tool: Tool, path: str) -> None:
    tool.put("/a.md")
    assert tool.refused("delete", path) == f"Error: The path {path} does not exist"


def test_a_directory_that_was_emptied_stays_as_on_a_disk(tool: Tool) -> None:
    tool.put("/d/e/a.md")
    tool.ok("delete", "/memories/d/e/a.md")
    assert (tool.files, tool.kept) == ({}, ["/d/e"])
    assert tool.ok("view", "/memories").split("\n")[1:] == ["0B\t/memories", "0B\t/memories/d", "0B\t/memories/d/e"]
    tool.ok("delete", "/memories/d/e")
    assert tool.kept == ["/d"]
    tool.put("/d/b.md")
    tool.ok("rename", old_path="/memories/d/b.md", new_path="/memories/b.md")
    assert (list(tool.files), tool.kept) == (["/b.md"], ["/d"])
    tool.ok("delete", "/memories/d")
    assert tool.kept == []


def test_no_directory_is_kept_where_something_is_left_in_it(tool: Tool) -> None:
    for path in ("/d/a.md", "/d/e/b.md", "/d/e/f/c.md"):
        tool.put(path)
    tool.ok("delete", "/memories/d/a.md")
    tool.ok("rename", old_path="/memories/d/e/f", new_path="/memories/d/e/g/h")
    assert (list(tool.files), tool.kept) == (["/d/e/b.md", "/d/e/g/h/c.md"], [])
    tool.put("/f/only.md")
    tool.ok("rename", old_path="/memories/f/only.md", new_path="/memories/f/g/other.md")
    assert tool.kept == []


def test_a_store_without_room_for_a_directory_still_lets_go(tool: Tool) -> None:
    mutations: list[Mutation] = [KeepDirectory(f"/kept/{number}") for number in range(MAX_DIRECTORIES)]
    tool.workspace.memories.apply(tool.store.id, mutations, SOMEBODY)
    tool.put("/d/a.md")
    tool.put("/e/b.md")
    tool.ok("delete", "/memories/d/a.md")
    tool.ok("rename", old_path="/memories/e/b.md", new_path="/memories/b.md")
    assert (list(tool.files), len(tool.kept)) == (["/b.md"], MAX_DIRECTORIES)


# rename


def test_rename_a_file(tool: Tool) -> None:
    memory_id = tool.put("/a.md", "text\r\n")
    answer = tool.ok("rename", old_path=A, new_path="/memories/new/deep/b.md")
    assert answer == "Successfully renamed /memories/a.md to /memories/new/deep/b.md"
    assert (tool.files, tool.kept) == ({"/new/deep/b.md": "text\r\n"}, [])
    assert tool.done == [("modified", "/new/deep/b.md")]
    assert tool.workspace.memories.get(tool.store.id, "/new/deep/b.md").id == memory_id


@pytest.mark.parametrize("new", ["/memories/n/e", "/memories/n/e/"])
def test_rename_a_directory(tool: Tool, new: str) -> None:
    for path in ("/d/a.md", "/d/e/b.md", "/d.md", "/dd/x"):
        tool.put(path, path)
    tool.keep("/d/kept/deep", "/d/e")
    assert tool.ok("rename", old_path="/memories/d", new_path=new) == f"Successfully renamed /memories/d to {new}"
    assert tool.files == {"/d.md": "/d.md", "/dd/x": "/dd/x", "/n/e/a.md": "/d/a.md", "/n/e/e/b.md": "/d/e/b.md"}
    assert tool.kept == ["/n/e/e", "/n/e/kept/deep"]
    assert sorted(tool.done, key=str) == [("modified", "/n/e/a.md"), ("modified", "/n/e/e/b.md")]


def test_rename_an_empty_directory(tool: Tool) -> None:
    tool.keep("/d")
    tool.ok("rename", old_path="/memories/d/", new_path="/memories/e/f")
    assert (tool.kept, tool.done) == (["/e/f"], [])


@pytest.mark.parametrize("new", ["b.md", "d", "kept", "d/e", "a.md", "d/e/f.md"])
def test_rename_onto_something(tool: Tool, new: str) -> None:
    for path in ("/a.md", "/b.md", "/d/e/f.md"):
        tool.put(path, path)
    tool.keep("/kept")
    answer = f"Error: The destination /memories/{new} already exists"
    assert tool.refused("rename", old_path=A, new_path=f"/memories/{new}") == answer
    if not new.startswith("d/"):
        assert tool.refused("rename", old_path="/memories/d", new_path=f"/memories/{new}") == answer


@pytest.mark.parametrize("new", ["/memories/d/x", "/memories/d/e/x", "/memories/d/x/y"])
def test_rename_into_itself(tool: Tool, new: str) -> None:
    tool.put("/d/e/f.md")
    answer = "Error: /memories/d cannot be moved into itself"
    assert tool.refused("rename", old_path="/memories/d", new_path=new) == answer


@pytest.mark.parametrize("path", ["/memories/x", "/memories/a.md/x", "/memories/A.md"])
def test_rename_what_is_not_there(tool: Tool, path: str) -> None:
    tool.put("/a.md")
    for new in ("/memories/new/deep/b", A, path):
        answer = f"Error: The path {path} does not exist"
        assert tool.refused("rename", old_path=path, new_path=new) == answer


def test_a_rename_that_gets_too_deep_or_too_long_leaves_nothing_behind(tool: Tool) -> None:
    tool.put("/d/a.md")
    tool.put("/d" + "/x" * 10 + "/b.md")
    deep = "/memories" + "/y" * 12
    answer = tool.refused("rename", old_path="/memories/d", new_path=deep)
    assert re.fullmatch(r"Error: a path has at most 20 segments, this one 23: '/y/y[/xy]+b\.md'…", answer)
    answer = tool.refused("rename", old_path="/memories/d", new_path=f"/memories/{'z' * 1010}")
    assert answer.startswith("Error: a path has at most 1024 bytes: '/zzz")
    tool.keep("/k" + "/x" * (MAX_SEGMENTS - 1))
    answer = tool.refused("rename", old_path="/memories/k", new_path="/memories/new/k")
    assert answer.startswith("Error: a path has at most 20 segments")


# Guards


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    """A word that the detectors find."""
    word = "hunter2"

    def find(text: str, kinds: Collection[detectors.Kind]) -> list[detectors.Finding]:
        starts = [match.start() for match in re.finditer(word, text)]
        return [detectors.Finding("secret", "password", start, start + len(word)) for start in starts]

    monkeypatch.setattr(detectors, "find", find)
    return word


def test_a_guard_refuses_size_and_paths(tool: Tool) -> None:
    tool.put("/notes/a.md", "12345\n")
    tool.put("/old.md", "12345\n")
    tool.workspace.stores.set_guards(tool.store.id, Guards(max_content_bytes=10, allowed_paths=("/notes/**",)))
    large = "Error: a guard of the store allows 10 bytes a memory, this text has 11: split it"
    note = "/memories/notes/a.md"
    assert tool.refused("create", "/memories/notes/b.md", file_text="x" * 11) == large
    assert tool.refused("insert", note, insert_line=0, insert_text="6789") == large
    assert tool.refused("str_replace", note, old_str="5", new_str="567890") == large
    other = "Error: a guard of the store allows no memory at {}: only /notes/**"
    assert tool.refused("create", A, file_text="x") == other.format("/a.md")
    assert tool.refused("rename", old_path=note, new_path="/memories/b.md") == other.format("/b.md")
    assert tool.refused("rename", old_path="/memories/notes", new_path="/memories/n") == other.format("/n/a.md")
    assert tool.refused("insert", "/memories/old.md", insert_line=0, insert_text="x") == other.format("/old.md")
    tool.ok("rename", old_path="/memories/old.md", new_path="/memories/notes/old.md")
    tool.ok("insert", note, insert_line=0, insert_text="678")
    tool.ok("delete", note)


def test_a_guard_refuses_secrets(tool: Tool, secret: str) -> None:
    tool.put("/a.md", "one\ntwo\n")
    tool.workspace.stores.set_guards(tool.store.id, Guards(secrets="reject"))
    refusal = "Error: a guard of the store refuses the text: password in line {}; remove it and save again"
    assert tool.refused("create", "/memories/b.md", file_text=f"x\n{secret}") == refusal.format(2)
    assert tool.refused("insert", A, insert_line=2, insert_text=secret) == refusal.format(3)
    assert tool.refused("str_replace", A, old_str="one", new_str=secret) == refusal.format(1)


def test_what_a_guard_masks_is_shown_masked(tool: Tool, secret: str) -> None:
    tool.put("/a.md", "one\ntwo\nthree\n")
    tool.workspace.stores.set_guards(tool.store.id, Guards(secrets="mask"))
    assert (
        tool.ok("create", "/memories/b.md", file_text=f"{secret}\n") == "File created successfully at: /memories/b.md"
    )
    mask = tool.files["/b.md"].strip()
    assert secret not in mask
    assert tool.ok("str_replace", A, old_str="two", new_str=f"my {secret}") == (
        f"{EDITED}\n     1\tone\n     2\tmy {mask}\n     3\tthree"
    )
    tool.ok("insert", A, insert_line=0, insert_text=secret)
    assert tool.files["/a.md"] == f"{mask}\none\nmy {mask}\nthree\n"
    assert tool.done == [("created", "/b.md"), ("modified", "/a.md"), ("modified", "/a.md")]


def test_an_edit_whose_masked_text_cannot_be_shown_is_made_once(
    tool: Tool, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version may be pruned before it was read: that must not make the edit again."""
    tool.put("/a.md", "one\n")
    tool.workspace.stores.set_guards(tool.store.id, Guards(secrets="mask"))
    content = tool.workspace.engine.content

    def prunes(version_id: str) -> bytes:
        tool.put("/a.md", content(version_id) + b"more\n")
        tool.workspace.versions.redact(tool.store.id, [version_id], SOMEBODY)
        return content(version_id)

    monkeypatch.setattr(tool.workspace.engine, "content", prunes)
    assert tool.ok("str_replace", A, old_str="one", new_str=f"one {secret}") == EDITED
    assert tool.done == [("modified", None)]
    assert re.fullmatch(r"one .*\nmore\n", tool.files["/a.md"])


# Access


def test_a_read_only_store_is_read(workspace: Workspace, store: Store) -> None:
    tool = Tool(workspace, store, access="read_only")
    tool.put("/a.md", "text\n")
    assert tool.ok("view", A).endswith("     1\ttext")
    refusal = "Error: this memory is read-only: it can be read, but not changed"
    assert tool.refused("create", "/memories/b", file_text="x") == refusal
    assert tool.refused("str_replace", A, old_str="text", new_str="x") == refusal
    assert tool.refused("insert", A, insert_line=0, insert_text="x") == refusal
    assert tool.refused("delete", A) == refusal
    assert tool.refused("rename", old_path=A, new_path="/memories/b") == refusal
    with pytest.raises(ReadOnly):
        tool.commands.clear()


def test_an_archived_store_is_read(tool: Tool) -> None:
    tool.put("/a.md", "text\n")
    tool.workspace.stores.archive(tool.store.id)
    assert tool.ok("view", A).endswith("     1\ttext")
    assert tool.ok("view", "/memories").endswith("5B\t/memories/a.md")
    refusal = "Error: this memory is archived: it can be read, but not changed"
    assert tool.refused("create", "/memories/b", file_text="x") == refusal
    assert tool.refused("str_replace", A, old_str="text", new_str="x") == refusal
    assert tool.refused("insert", A, insert_line=0, insert_text="x") == refusal
    assert tool.refused("delete", A) == refusal
    assert tool.refused("rename", old_path=A, new_path="/memories/b") == refusal


# Everything


def test_clear(tool: Tool) -> None:
    for path in ("/a.md", "/d/b.md"):
        tool.put(path)
    tool.keep("/kept/deep")
    assert tool.commands.clear() == "All memory cleared"
    assert (tool.files, tool.kept) == ({}, [])
    assert sorted(tool.done, key=str) == [("deleted", "/a.md"), ("deleted", "/d/b.md")]
    assert tool.commands.clear() == "All memory cleared"


def test_the_words_of_the_sdk(workspace: Workspace, store: Store) -> None:
    """They can be chosen for whoever wrote prompts for them."""
    tool = Tool(workspace, store, wording=SDK)
    tool.put("/a.md", "x" * 1024)
    assert tool.ok("view", "/memories") == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n"
        "1K\t/memories\n1K\t/memories/a.md"
    )
    assert tool.refused("create", A, file_text="") == "File /memories/a.md already exists"
    assert tool.refused("delete", "/memories/b") == "The path /memories/b does not exist"
    assert tool.refused("view", "/etc").startswith("The path '/etc' is not valid")
    assert tool.refused("str_replace", A, old_str="") == "old_str is empty: give the text that is to be replaced"
    assert tool.ok("str_replace", A, old_str="x" * 1024, new_str="y") == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\ty"
    )
    words = replace(SDK, deleted="gone: {path}")
    assert Tool(workspace, store, wording=words).ok("delete", A) == "gone: /memories/a.md"


# Cases of others (cases/HOST.md)


def test_o01_str_replace_is_literal_whole_text_and_unique(tool: Tool) -> None:
    tool.ok("create", A, file_text="## Notes\n- (none yet)\nx x\n")
    new = r"cost $& \1 $$ \n"
    tool.ok("str_replace", A, old_str="## Notes\n- (none yet)", new_str=new)
    assert tool.files["/a.md"] == f"{new}\nx x\n"
    tool.ok("str_replace", A, old_str="\nx x")
    assert tool.files["/a.md"] == f"{new}\n"
    for bad in ("absent", "$", ""):
        tool.refused("str_replace", A, old_str=bad, new_str="z")


def test_o02_paths_are_not_judged_by_their_beginning(tool: Tool) -> None:
    for path in (
        "/memories/..",
        "/memories/x/..",
        "/memories/../etc/passwd",
        "/memories/%2e%2e/etc",
        "/memoriesX/a",
        "/etc/passwd",
        "memories/a",
        "/memories/a\0b",
        "/memories/ln",
    ):
        tool.refused("view", path)
        if path != "/memories/ln":  # a memory like any other: a store has no symbolic links
            tool.refused("create", path, file_text="x")
    tool.ok("create", "/memories/notes..md", file_text="ok")
    tool.ok("view", "/memories/")


def test_o06_what_is_deleted_stays_in_the_history(tool: Tool) -> None:
    for number in range(20):
        tool.ok("create", f"/memories/d/k{number}", file_text=f"keep{number}\n")
    tool.ok("delete", "/memories/d")
    assert tool.files == {}
    kept = {version.path: version.content for version in tool.versions() if version.operation == "created"}
    assert kept == {f"/d/k{number}": f"keep{number}\n".encode() for number in range(20)}
