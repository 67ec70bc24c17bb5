"""Many at once on one file, and others who change what a command has just looked at: nothing is lost, nothing hangs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from memfs.model.records import Store
from memfs.tool import commands
from memfs.tool.commands import TRIES
from memfs.workspace import Workspace
from tests.processes import finish, hear, python, tell
from tests.tool.handling import SESSION, Tool

A = "/memories/a.md"
MISSING = f"Error: The path {A} does not exist"
EDITED = "The memory file has been edited."

CHANGING = "Error: the file keeps changing: view it and try again"


@pytest.fixture
def tool(workspace: Workspace, store: Store) -> Tool:
    return Tool(workspace, store)


# Many at once

EDITS = 12


def counters(workers: int) -> str:
    """A file with a line for each worker."""
    return "".join(f"counter {worker}: 0.\n" for worker in range(workers))


def edits(worker: int) -> Iterator[dict[str, object]]:
    """What a worker does to the file: it counts its counter up, and adds lines of its own."""
    for number in range(EDITS):
        old, new = (f"counter {worker}: {count}." for count in (number, number + 1))
        yield {"command": "str_replace", "path": A, "old_str": old, "new_str": new}
        yield {"command": "insert", "path": A, "insert_line": number % 3, "insert_text": f"{worker} adds {number}"}
        yield {"command": "insert", "path": A, "insert_line": 0, "insert_text": "a line that all add"}


def nothing_was_lost(tool: Tool, workers: int) -> None:
    lines = tool.files["/a.md"].splitlines()
    expected = [f"counter {worker}: {EDITS}." for worker in range(workers)]
    expected += [f"{worker} adds {number}" for worker in range(workers) for number in range(EDITS)]
    expected += ["a line that all add"] * (workers * EDITS)
    assert sorted(lines) == sorted(expected)
    assert tool.done == [("modified", "/a.md")] * (3 * workers * EDITS), "each is one version"
    sizes = [(version.content or b"").count(b"\n") for version in tool.versions()]
    assert sizes == sorted(sizes), "each is made on the one before"


def test_threads(tool: Tool) -> None:
    workers = 4
    tool.put("/a.md", counters(workers))
    failed: list[str] = []
    begin = threading.Barrier(workers)

    def work(worker: int) -> None:
        begin.wait()
        for call in edits(worker):
            result = tool.commands.handle(call)
            if result.is_error:
                failed.append(result.content)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    nothing_was_lost(tool, workers)


PROCESS = """
import sys
from pathlib import Path
from memfs.workspace import Workspace
from tests.tool.handling import attached_commands
from tests.tool.test_concurrency import edits

database, store, worker = sys.argv[1:]
with Workspace.open(Path(database)) as workspace:
    commands = attached_commands(workspace, workspace.stores.resolve(store))
    print("ready", flush=True)
    input()
    for call in edits(int(worker)):
        result = commands.handle(call)
        assert not result.is_error, result.content
"""


def test_processes(tool: Tool, db: Path, store: Store) -> None:
    workers = 3
    tool.put("/a.md", counters(workers))
    with ExitStack() as stack:
        processes = [stack.enter_context(python(PROCESS, db, store.id, str(worker))) for worker in range(workers)]
        for process in processes:
            assert hear(process) == "ready"
        for process in processes:
            tell(process)
        for process in processes:
            finish(process)
    nothing_was_lost(tool, workers)


# Somebody else is faster


Meanwhile = Callable[..., list[int]]


@pytest.fixture
def meanwhile(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Does something between what a command has seen and its commit, each time that it tries; returns the tries."""
    monkeypatch.setattr(commands, "PAUSE_SECONDS", 0)

    def arrange(*actions: Callable[[], object], always: bool = False) -> list[int]:
        left = list(actions)
        tries: list[int] = []
        apply = tool.workspace.engine.apply

        def applied(store_id: str, mutations: Any, actor: Any, **options: Any) -> Any:
            if actor == SESSION:
                tries.append(len(tries))
                if left:
                    action = left[0] if always else left.pop(0)
                    action()
            return apply(store_id, mutations, actor, **options)

        monkeypatch.setattr(tool.workspace.engine, "apply", applied)
        return tries

    return arrange


def test_an_edit_is_made_on_what_the_text_is_now(tool: Tool, meanwhile: Meanwhile) -> None:
    tool.put("/a.md", "one\ntwo\n")
    tries = meanwhile(
        lambda: tool.put("/a.md", "zero\none\ntwo\n"),
        lambda: tool.put("/a.md", "zero\none\ntwo\nthree\n"),
    )
    answer = tool.ok("str_replace", A, old_str="two", new_str="2")
    assert answer == f"{EDITED}\n     1\tzero\n     2\tone\n     3\t2\n     4\tthree"
    assert len(tries) == 3
    meanwhile(lambda: tool.put("/a.md", "new\nzero\n"))
    tool.ok("insert", A, insert_line=1, insert_text="x")
    assert tool.files == {"/a.md": "new\nx\nzero\n"}
    assert tool.done == [("modified", "/a.md")] * 2


def test_the_same_line_of_two_is_there_twice(tool: Tool, meanwhile: Meanwhile) -> None:
    """What somebody else has written is no reason to take one's own change for made."""
    tool.put("/a.md", "- done\n")
    tries = meanwhile(lambda: tool.put("/a.md", "- done\n- done\n"))
    tool.ok("insert", A, insert_line=1, insert_text="- done")
    assert (tool.files, len(tries)) == ({"/a.md": "- done\n" * 3}, 2)


def test_what_is_wrong_with_the_new_text_is_told(tool: Tool, meanwhile: Meanwhile) -> None:
    for text, answer in {
        "1\n": f"No replacement was performed, old_str `one` did not appear verbatim in {A}.",
        "one\none\n": (
            "No replacement was performed. Multiple occurrences of old_str `one` in lines: 1, 2."
            " Please ensure it is unique"
        ),
    }.items():
        tool.put("/a.md", "one\n")
        meanwhile(lambda text=text: tool.put("/a.md", text))
        assert tool.handle({"command": "str_replace", "path": A, "old_str": "one"}).content == answer
        assert tool.files == {"/a.md": text}
    tool.put("/a.md", "one\ntwo\nthree\n")
    meanwhile(lambda: tool.put("/a.md", "one\n"))
    answer = tool.handle({"command": "insert", "path": A, "insert_line": 3, "insert_text": "x"}).content
    assert answer == (
        "Error: Invalid `insert_line` parameter: 3. It should be within the range of lines of the file: [0, 1]"
    )
    assert (tool.files, tool.done) == ({"/a.md": "one\n"}, [])


@pytest.mark.parametrize("how", ["deleted", "moved", "directory"])
def test_a_file_that_went_meanwhile(tool: Tool, meanwhile: Meanwhile, how: str) -> None:
    def goes() -> None:
        if how == "moved":
            tool.move("/a.md", "/b.md")
        else:
            tool.remove("/a.md")
        if how == "directory":
            tool.put("/a.md/b.md", "one\n")

    left = {"deleted": {}, "moved": {"/b.md": "one\n"}, "directory": {"/a.md/b.md": "one\n"}}[how]
    for call, answer in (
        ({"command": "str_replace", "old_str": "one"}, f"{MISSING}. Please provide a valid path."),
        ({"command": "insert", "insert_line": 0, "insert_text": "x"}, MISSING),
    ):
        for path in list(tool.files):
            tool.remove(path)
        tool.put("/a.md", "one\n")
        meanwhile(goes)
        result = tool.handle({**call, "path": A})
        assert (result.is_error, result.content) == (True, answer)
        assert (tool.files, tool.done) == (left, [])


def test_a_file_that_was_made_anew_meanwhile(tool: Tool, meanwhile: Meanwhile) -> None:
    def made_anew() -> None:
        tool.remove("/a.md")
        tool.put("/a.md", "one, but new\n")

    tool.put("/a.md", "one\n")
    meanwhile(made_anew)
    tool.ok("str_replace", A, old_str="one", new_str="1")
    assert tool.files == {"/a.md": "1, but new\n"}


@pytest.mark.parametrize(
    "call",
    [
        {"command": "str_replace", "path": A, "old_str": "one"},
        {"command": "insert", "path": A, "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": A},
        {"command": "rename", "old_path": A, "new_path": "/memories/b.md"},
    ],
)
def test_a_file_that_always_changes(tool: Tool, meanwhile: Meanwhile, call: dict[str, object]) -> None:
    number = iter(range(1000))
    tool.put("/a.md", "one\n")
    tries = meanwhile(lambda: tool.put("/a.md", f"one\n{next(number)}\n"), always=True)
    result = tool.handle(call)
    assert (result.is_error, result.content) == (True, CHANGING)
    assert len(tries) == TRIES
    assert (list(tool.files), tool.done) == (["/a.md"], [])


def test_a_file_that_is_made_while_it_is_created(tool: Tool, meanwhile: Meanwhile) -> None:
    for path, answer in {
        "/a.md": f"Error: File {A} already exists",
        "/a.md/x": f"Error: File {A} already exists",
    }.items():
        meanwhile(lambda path=path: tool.put(path, "theirs\n"))
        result = tool.handle({"command": "create", "path": A, "file_text": "mine\n"})
        assert (result.is_error, result.content) == (True, answer)
        assert tool.files == {path: "theirs\n"}
        tool.remove(path)
    meanwhile(lambda: tool.put("/d", "theirs\n"))
    result = tool.handle({"command": "create", "path": "/memories/d/e/f", "file_text": "mine\n"})
    assert result.content == "Error: /memories/d is a file, so nothing can be below it"
    assert tool.done == []


def test_create_overwrites_whatever_comes(workspace: Workspace, store: Store, tool: Tool, meanwhile: Meanwhile) -> None:
    overwriting = Tool(workspace, store, overwrite=True)
    meanwhile(lambda: tool.put("/a.md", "theirs\n"))
    overwriting.ok("create", A, file_text="1\n")
    assert overwriting.done == [("modified", "/a.md")]
    meanwhile(lambda: tool.remove("/a.md"))
    overwriting.ok("create", A, file_text="2\n")
    assert overwriting.done[1:] == [("created", "/a.md")]
    meanwhile(lambda: tool.move("/a.md", "/moved.md"))
    overwriting.ok("create", A, file_text="3\n")
    assert tool.files == {"/a.md": "3\n", "/moved.md": "2\n"}
    meanwhile(lambda: tool.put("/a.md", "theirs\n"))
    overwriting.ok("create", A, file_text="4\n")
    assert tool.files == {"/a.md": "4\n", "/moved.md": "2\n"}
    assert ("modified", "theirs\n") in [(v.operation, (v.content or b"").decode()) for v in tool.versions()]


def test_only_what_is_there_is_deleted(tool: Tool, meanwhile: Meanwhile) -> None:
    tool.put("/a.md", "one\n")
    meanwhile(lambda: tool.put("/a.md", "two\n"))
    tool.ok("delete", A)
    assert tool.files == {}
    tool.put("/a.md", "one\n")
    meanwhile(lambda: tool.move("/a.md", "/b.md"))
    assert tool.handle({"command": "delete", "path": A}).content == MISSING
    tool.put("/d/x.md")
    tool.put("/d/y.md")
    meanwhile(lambda: tool.move("/d/x.md", "/saved.md"))
    tool.ok("delete", "/memories/d")
    meanwhile(lambda: tool.remove("/saved.md"))
    assert tool.handle({"command": "delete", "path": "/memories/saved.md"}).content.endswith("does not exist")
    assert tool.files == {"/b.md": "one\n"}


def test_only_what_is_there_is_renamed(tool: Tool, meanwhile: Meanwhile) -> None:
    call = {"command": "rename", "old_path": A, "new_path": "/memories/b.md"}
    tool.put("/a.md", "one\n")
    meanwhile(lambda: tool.put("/b.md", "theirs\n"))
    assert tool.handle(call).content == "Error: The destination /memories/b.md already exists"
    tool.remove("/b.md")
    meanwhile(lambda: tool.move("/a.md", "/c.md"))
    assert tool.handle(call).content == MISSING
    assert tool.files == {"/c.md": "one\n"}
    tool.move("/c.md", "/a.md")
    meanwhile(lambda: tool.put("/a.md", "two\n"))
    tool.ok("rename", old_path=A, new_path="/memories/b.md")
    assert tool.files == {"/b.md": "two\n"}
    tool.put("/d/x.md", "x\n")
    tool.put("/d/y.md", "y\n")
    meanwhile(lambda: tool.move("/d/x.md", "/saved.md"))
    tool.ok("rename", old_path="/memories/d", new_path="/memories/e")
    assert tool.files == {"/b.md": "two\n", "/e/y.md": "y\n", "/saved.md": "x\n"}


def test_clear_takes_what_comes_meanwhile_along(tool: Tool, meanwhile: Meanwhile) -> None:
    tool.put("/a.md", "one\n")
    meanwhile(lambda: tool.put("/a.md", "two\n"))
    assert tool.commands.clear() == "All memory cleared"
    assert tool.files == {}
