"""Several stores, each in a directory of ``/memories``: some of them read_only, some archived."""

from collections.abc import Iterator

import pytest

from memfs.model.records import Access
from memfs.tool import MemoryCommands
from memfs.workspace import Workspace
from tests.tool.handling import ROOT_LISTING, SESSION, Shelf

READ_ONLY = "Error: this memory is read-only: it can be read, but not changed"
ARCHIVED = "Error: this memory is archived: it can be read, but not changed"
DEEPEST = "/" + "/".join("abcdefghijklmnopqrst")
LONGEST = "/" + "x" * 1023


class Shelves:
    """The tool on the stores ``notes``, ``rules`` (read_only), ``past`` (archived) and ``spare``."""

    def __init__(self, workspace: Workspace) -> None:
        access: dict[str, Access] = {"notes": "read_write", "rules": "read_only", "past": "read_write"}
        names = [*access, "spare"]
        self.stores = {name: Shelf(workspace, workspace.stores.create(name)) for name in names}
        self.commands = MemoryCommands(
            {
                name: workspace.attached(shelf.store.id, SESSION, access.get(name, "read_write"))
                for name, shelf in self.stores.items()
            }
        )
        self.stores["notes"].put("/a/b.md", "12345\n")
        self.stores["rules"].put("/style.md", "Use tabs.\n")
        self.stores["past"].put("/old.md", "old\n")
        workspace.stores.archive(self.stores["past"].store.id)

    def __getitem__(self, name: str) -> Shelf:
        return self.stores[name]

    def ok(self, command: str, **fields: object) -> str:
        """A call that succeeds; returns its answer."""
        result = self.commands.handle({"command": command, **fields})
        assert not result.is_error, result.content
        return result.content

    def refused(self, command: str, **fields: object) -> str:
        """A call that must fail and change nothing; returns its answer."""
        before = {name: shelf.state() for name, shelf in self.stores.items()}
        result = self.commands.handle({"command": command, **fields})
        assert result.is_error, result.content
        assert {name: shelf.state() for name, shelf in self.stores.items()} == before
        return result.content


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """One for all tests here; each has stores of its own."""
    with Workspace.open(tmp_path_factory.mktemp("workspace") / "memfs.db", create=True) as opened:
        yield opened


@pytest.fixture
def shelves(workspace: Workspace) -> Shelves:
    return Shelves(workspace)


def test_the_root_lists_the_stores_with_what_is_in_them(shelves: Shelves) -> None:
    lines = [
        "20B\t/memories",
        "6B\t/memories/notes",
        "6B\t/memories/notes/a",
        "4B\t/memories/past",
        "4B\t/memories/past/old.md",
        "10B\t/memories/rules",
        "10B\t/memories/rules/style.md",
        "0B\t/memories/spare",
    ]
    assert shelves.ok("view", path="/memories").split("\n") == [ROOT_LISTING, *lines]
    assert shelves.ok("view", path="/memories/").split("\n") == [ROOT_LISTING, *lines]


def test_a_store_is_a_directory(shelves: Shelves) -> None:
    header = ROOT_LISTING.replace("/memories", "/memories/notes")
    lines = ["6B\t/memories/notes", "6B\t/memories/notes/a", "6B\t/memories/notes/a/b.md"]
    assert shelves.ok("view", path="/memories/notes").split("\n") == [header, *lines]
    assert shelves.ok("view", path="/memories/notes/").split("\n") == [header, *lines]
    header = ROOT_LISTING.replace("/memories", "/memories/notes/a")
    lines = ["6B\t/memories/notes/a", "6B\t/memories/notes/a/b.md"]
    assert shelves.ok("view", path="/memories/notes/a").split("\n") == [header, *lines]
    assert shelves.ok("view", path="/memories/rules/style.md") == (
        "Here's the content of /memories/rules/style.md with line numbers:\n     1\tUse tabs."
    )


def test_changes_go_into_their_store(shelves: Shelves) -> None:
    path = "/memories/spare/notes/x.md"
    assert shelves.ok("create", path=path, file_text="1\n") == f"File created successfully at: {path}"
    assert shelves.ok("insert", path=path, insert_line=1, insert_text="2") == f"The file {path} has been edited."
    assert shelves.ok("str_replace", path=path, old_str="1", new_str="one").endswith("     1\tone\n     2\t2")
    new = "/memories/spare/y.md"
    assert shelves.ok("rename", old_path=path, new_path=new) == f"Successfully renamed {path} to {new}"
    assert shelves["spare"].files == {"/y.md": "one\n2\n"}
    assert shelves.ok("delete", path=new) == f"Successfully deleted {new}"
    assert [operation for operation, _ in shelves["spare"].done] == ["created", *["modified"] * 3, "deleted"]
    assert shelves["notes"].done == []


@pytest.mark.parametrize("path", [DEEPEST, LONGEST])
def test_the_name_of_a_store_does_not_count_for_the_limits_of_a_path(shelves: Shelves, path: str) -> None:
    shelves.ok("create", path=f"/memories/notes{path}", file_text="x\n")
    assert shelves.ok("view", path=f"/memories/notes{path}").endswith("     1\tx")
    shelves.ok("rename", old_path="/memories/notes/a/b.md", new_path=f"/memories/notes{path[:-1]}_")
    assert list(shelves["notes"].files) == sorted([path, f"{path[:-1]}_"])
    answer = shelves.refused("create", path=f"/memories/notes{path}/x", file_text="")
    assert "a path has at most" in answer


@pytest.mark.parametrize("name, refusal", [("rules", READ_ONLY), ("past", ARCHIVED)])
def test_what_must_not_change(shelves: Shelves, name: str, refusal: str) -> None:
    (inside,) = shelves[name].files
    path = f"/memories/{name}{inside}"
    assert shelves.refused("create", path=f"/memories/{name}/new", file_text="x") == refusal
    assert shelves.refused("str_replace", path=path, old_str=shelves[name].files[inside], new_str="x") == refusal
    assert shelves.refused("insert", path=path, insert_line=0, insert_text="x") == refusal
    assert shelves.refused("delete", path=path) == refusal
    assert shelves.refused("rename", old_path=path, new_path=f"/memories/{name}/new") == refusal


@pytest.mark.parametrize("path", ["/memories", "/memories/", "/memories/notes", "/memories/notes/", "/memories/rules"])
def test_directories_of_stores_stay_as_they_are(shelves: Shelves, path: str) -> None:
    itself = f"Error: {path.rstrip('/')} is the memory directory itself: name something below it"
    missing = f"Error: The path {path} does not exist"
    assert shelves.refused("delete", path=path) == itself
    assert shelves.refused("rename", old_path=path, new_path="/memories/notes/x") == itself
    assert shelves.refused("create", path=path, file_text="x") == f"Error: File {path} already exists"
    answer = shelves.refused("rename", old_path="/memories/notes/a", new_path=path)
    assert answer == f"Error: The destination {path} already exists"
    answer = shelves.refused("str_replace", path=path, old_str="a")
    assert answer == f"{missing}. Please provide a valid path."
    assert shelves.refused("insert", path=path, insert_line=0, insert_text="x") == missing


@pytest.mark.parametrize(
    "path", ["/memories/x", "/memories/x/", "/memories/x/y", "/memories/Notes/a", "/memories/notes2"]
)
def test_a_store_that_is_not_there(shelves: Shelves, path: str) -> None:
    missing = f"Error: The path {path} does not exist"
    nowhere = f"Error: there is no memory store for {path}: 'view /memories' shows those there are"
    answer = f"The path {path} does not exist. Please provide a valid path."
    assert shelves.refused("view", path=path) == answer
    assert shelves.refused("create", path=path, file_text="x") == nowhere
    assert shelves.refused("str_replace", path=path, old_str="a") == f"{missing}. Please provide a valid path."
    assert shelves.refused("insert", path=path, insert_line=0, insert_text="x") == missing
    assert shelves.refused("delete", path=path) == missing
    assert shelves.refused("rename", old_path=path, new_path="/memories/notes/x") == missing
    assert shelves.refused("rename", old_path="/memories/notes/a", new_path=path) == nowhere


def test_nothing_is_moved_across_stores(shelves: Shelves) -> None:
    for path in ("/memories/notes/a", "/memories/notes/a/b.md", "/memories/notes/missing"):
        answer = shelves.refused("rename", old_path=path, new_path="/memories/spare/x")
        assert answer == (
            f"Error: {path} and /memories/spare/x are in different memory stores: create it there, then delete it here"
        )


def test_paths_are_judged_by_the_same_rules(shelves: Shelves) -> None:
    for path in ("/memories/notes/../rules/style.md", "/memories/../x", "/memories/notes/..", "/memories/%2e%2e/x"):
        assert "is not valid: a path may not hold '.', '..'" in shelves.refused("view", path=path)
    for path in ("/memories//notes/a", "/memories/notes//", "/memories/notes//a", "/memories//"):
        assert shelves.refused("view", path=path).endswith("is not valid: a path's segment may not be ''")
    assert "is not valid: the name" in shelves.refused("view", path="/memories/no\ntes/a")
    assert "is not valid: the name" in shelves.refused("view", path="/memories/notes/e\u0301")


def test_clear_empties_every_store(workspace: Workspace) -> None:
    shelves = [Shelf(workspace, workspace.stores.create("one")), Shelf(workspace, workspace.stores.create("two"))]
    commands = MemoryCommands(
        {str(i): workspace.attached(shelf.store.id, SESSION, "read_write") for i, shelf in enumerate(shelves)}
    )
    for shelf in shelves:
        shelf.put("/a/b")
        shelf.keep("/c")
    assert commands.clear() == "All memory cleared"
    assert [(shelf.files, shelf.kept, shelf.done) for shelf in shelves] == [({}, [], [("deleted", "/a/b")])] * 2


def test_no_store_at_all() -> None:
    commands = MemoryCommands({})
    assert commands.handle({"command": "view", "path": "/memories"}).content == f"{ROOT_LISTING}\n0B\t/memories"
    assert commands.handle({"command": "create", "path": "/memories/a", "file_text": ""}).is_error
