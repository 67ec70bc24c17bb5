"""The tool and a mount on one store: what one writes the other reads, to the byte and at once."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from memfs.model.records import MAX_CONTENT_BYTES
from memfs.tool.lines import split_lines
from memfs.workspace import Workspace
from tests.mount.harness import Site, site, wait_until
from tests.tool.handling import SESSION, Tool

pytestmark = pytest.mark.mount

TEXTS = {
    "plain.md": "# Notes\n\n- one\n",
    "crlf.md": "one\r\ntwo\r\n",
    "mixed.md": "one\r\ntwo\nthree\rfour\n",
    "bom.md": "\ufeffone\n",
    "no-newline.md": "one\ntwo",
    "empty.md": "",
    "newline.md": "\n",
    "nul.md": "one\0two\n",
    "separators.md": "one\u2028two\u2029three\x85four\x0bfive\x0csix\n",
    "planes.md": "".join(f"{chr(plane << 16 | 0x41)}\n" for plane in range(17)),
    "largest.md": "0123456789abcde\n" * (MAX_CONTENT_BYTES // 16),
    "one-line.md": "é" * (MAX_CONTENT_BYTES // 2),
    "é_% name/日本/\U0001f600": "odd name\n",
    ".hidden/node_modules/x": "hidden\n",
}


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Site]:
    """A place to mount, with an empty store ``notes``; taken down whatever happens."""
    with site(tmp_path) as made:
        made.store("notes")
        yield made


@pytest.fixture
def notes(at: Site) -> Path:
    """The directory of the mounted store."""
    (directory,) = at.mount("notes")
    return directory


@pytest.fixture
def tool(at: Site, notes: Path) -> Iterator[Tool]:
    """The tool on the same store, in this process."""
    with Workspace.open(at.db) as workspace:
        yield Tool(workspace, workspace.stores.resolve("notes"))


def written(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def test_what_the_tool_writes_is_read_on_the_mount_at_once(tool: Tool, notes: Path) -> None:
    for name, text in TEXTS.items():
        tool.ok("create", f"/memories/{name}", file_text=text)
        assert (notes / name).read_bytes() == text.encode(), name
    for name, text in TEXTS.items():
        if len(text.encode()) < MAX_CONTENT_BYTES:
            tool.ok("insert", f"/memories/{name}", insert_line=0, insert_text="first")
            assert (notes / name).read_bytes() == f"first\n{text}".encode(), name
            tool.ok("str_replace", f"/memories/{name}", old_str="first\n", new_str="")
            assert (notes / name).read_bytes() == text.encode(), name
    tool.ok("str_replace", "/memories/largest.md", old_str=TEXTS["largest.md"], new_str="small")
    assert (notes / "largest.md").read_bytes() == b"small"
    assert {version.created_by for version in tool.versions()} == {SESSION}


def test_what_is_written_on_the_mount_is_read_by_the_tool_at_once(tool: Tool, notes: Path) -> None:
    for name, text in TEXTS.items():
        written(notes / name, text.encode())
        assert tool.files[f"/{name}"] == text, name
        assert tool.read(f"/memories/{name}") == split_lines(text), name
    for name, text in TEXTS.items():
        with (notes / name).open("r+b") as file:
            file.truncate(0)
        assert tool.ok("view", f"/memories/{name}").count("\n") == 0
        with (notes / name).open("ab") as file:
            file.write(text.encode())
        assert tool.files[f"/{name}"] == text, name
    assert tool.done == []


def test_each_edits_what_the_other_has_written(tool: Tool, notes: Path) -> None:
    file = notes / "log.md"
    text = "\ufeffbegin\r\n"
    tool.ok("create", "/memories/log.md", file_text=text)
    for number in range(10):
        with file.open("ab") as opened:
            opened.write(f"mount {number}\r\n".encode())
        text += f"mount {number}\r\n"
        tool.ok("insert", "/memories/log.md", insert_line=text.count("\n"), insert_text=f"tool {number}")
        text += f"tool {number}\n"
        assert file.read_bytes() == text.encode()
    who = [version.created_by == SESSION for version in tool.versions()]
    assert who == [True, *[False, True] * 10]


def test_directories(tool: Tool, notes: Path) -> None:
    def lines() -> list[str]:
        return tool.ok("view", "/memories").split("\n")[1:]

    def names() -> list[str]:
        return sorted(str(path.relative_to(notes)) for path in notes.rglob("*"))

    (notes / "made" / "inner").mkdir(parents=True)
    assert lines() == ["0B\t/memories", "0B\t/memories/made", "0B\t/memories/made/inner"]
    tool.ok("create", "/memories/made/inner/a.md", file_text="12345")
    assert (notes / "made" / "inner" / "a.md").read_bytes() == b"12345"
    (notes / "made" / "inner" / "a.md").unlink()
    assert lines() == ["0B\t/memories", "0B\t/memories/made", "0B\t/memories/made/inner"]
    tool.ok("create", "/memories/new/deep/b.md", file_text="b\n")
    assert (notes / "new" / "deep" / "b.md").read_bytes() == b"b\n"
    tool.ok("delete", "/memories/new/deep/b.md")
    wait_until(lambda: names() == ["made", "made/inner", "new", "new/deep"], "the file to go")
    assert lines()[-2:] == ["0B\t/memories/new", "0B\t/memories/new/deep"]
    (notes / "new" / "deep").rmdir()
    tool.ok("rename", old_path="/memories/made", new_path="/memories/moved/here")
    wait_until(lambda: names() == ["moved", "moved/here", "moved/here/inner", "new"], "the directory to move")
    (notes / "moved").rename(notes / "back")
    assert lines() == ["0B\t/memories", "0B\t/memories/back", "0B\t/memories/back/here", "0B\t/memories/new"]
    shutil.rmtree(notes / "back")
    assert tool.refused("view", "/memories/back").startswith("The path /memories/back does not exist")
    tool.ok("delete", "/memories/new")
    wait_until(lambda: names() == [], "the directory to go")


def test_files_that_go_come_and_move(tool: Tool, notes: Path) -> None:
    (notes / "a.md").write_text("by the mount\n")
    tool.ok("delete", "/memories/a.md")
    with pytest.raises(FileNotFoundError):
        (notes / "a.md").read_bytes()
    wait_until(lambda: not (notes / "a.md").exists(), "the file to go")
    tool.ok("create", "/memories/a.md", file_text="again\n")
    wait_until((notes / "a.md").exists, "the file to come back")
    assert (notes / "a.md").read_text() == "again\n"
    (notes / "a.md").unlink()
    missing = "The path /memories/a.md does not exist. Please provide a valid path."
    assert tool.refused("view", "/memories/a.md") == missing
    (notes / "b.md").write_text("b\n")
    tool.ok("rename", old_path="/memories/b.md", new_path="/memories/d/c.md")
    wait_until(partial(moved, notes), "the file to move")
    (notes / "d" / "c.md").rename(notes / "e.md")
    assert tool.files == {"/e.md": "b\n"}
    assert tool.refused("rename", old_path="/memories/d/c.md", new_path="/memories/x").endswith("does not exist")
    assert [version.operation for version in tool.versions() if version.path == "/e.md"] == ["modified"]


def moved(notes: Path) -> bool:
    return sorted(path.name for path in notes.iterdir()) == ["d"] and (notes / "d" / "c.md").read_text() == "b\n"
