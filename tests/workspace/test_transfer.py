"""Import of a directory into a store and export into a directory: every byte, or a reason."""

import os
import socket
from pathlib import Path

import pytest

from memfs.model import ids
from memfs.model.errors import InvalidRequest, PathConflict, StoreArchived, StoreFull
from memfs.model.mutations import Create
from memfs.model.records import MAX_CONTENT_BYTES, MAX_MEMORIES, Actor, Store
from memfs.workspace import Workspace
from memfs.workspace.transfer import export_directory, import_directory

CONTENTS = {
    "/plain.md": b"# Notes\n",
    "/crlf.txt": b"one\r\ntwo\r\n",
    "/bom.txt": b"\xef\xbb\xbftext\n",
    "/no-newline": b"no final newline",
    "/empty": b"",
    "/nul": b"a\0b\n",
    "/largest": b"x" * MAX_CONTENT_BYTES,
    "/emoji": "\U0001f600\u2028".encode(),
    "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t": b"20 segments\n",
    "/name with spaces/é_%\\'\".md": b"odd name\n",
    "/.hidden/.file": b"hidden\n",
    "/" + "n" * 255: b"a long name\n",
}


def lay_out(top: Path, contents: dict[str, bytes]) -> Path:
    for path, content in contents.items():
        target = top / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return top


def read_back(top: Path) -> dict[str, bytes]:
    return {f"/{path.relative_to(top)}": path.read_bytes() for path in top.rglob("*") if path.is_file()}


def memories(workspace: Workspace, store: Store) -> dict[str, bytes | None]:
    return {memory.path: memory.content for memory in workspace.memories.list(store.id, content=True)}


def test_what_is_imported_is_exported_byte_for_byte(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    source = lay_out(tmp_path / "source", CONTENTS)
    done: list[str] = []
    report = import_directory(workspace, store, source, actor, progress=done.append)
    assert sorted(report.created) == sorted(done) == sorted(CONTENTS)
    assert (report.modified, report.unchanged, report.problems) == ([], [], [])
    assert memories(workspace, store) == CONTENTS
    target = tmp_path / "deep" / "target"
    written: list[str] = []
    assert export_directory(workspace, store, target, progress=written.append) == len(CONTENTS)
    assert read_back(target) == CONTENTS
    assert sorted(written) == sorted(CONTENTS)


def test_an_import_is_one_transaction_by_its_actor(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    import_directory(workspace, store, lay_out(tmp_path / "source", CONTENTS), actor)
    versions = workspace.versions.list(store.id)
    assert {version.operation for version in versions} == {"created"}
    assert {version.created_by for version in versions} == {actor}
    assert len({version.created_at for version in versions}) == 1


def test_a_second_import_makes_versions_of_what_changed_only(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    source = lay_out(tmp_path / "source", {"/same": b"same", "/changed": b"one"})
    import_directory(workspace, store, source, actor)
    before = workspace.memories.get(store.id, "/changed")
    workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), "/other", b"stays")], actor)
    (source / "changed").write_bytes(b"two")
    (source / "new").write_bytes(b"new")
    report = import_directory(workspace, store, source, actor)
    assert (report.created, report.modified, report.unchanged) == (["/new"], ["/changed"], ["/same"])
    assert workspace.memories.get(store.id, "/changed").id == before.id
    assert memories(workspace, store) == {"/same": b"same", "/changed": b"two", "/new": b"new", "/other": b"stays"}
    assert len(workspace.versions.list(store.id)) == 5
    unchanged = import_directory(workspace, store, source, actor)
    assert len(unchanged.unchanged) == 3
    assert len(workspace.versions.list(store.id)) == 5


def invalid_items(top: Path) -> dict[str, str]:
    """Make everything that cannot be a memory; returns each path with a word of its reason."""
    (top / "binary.png").write_bytes(b"\x89PNG\r\n")
    (top / "latin1.txt").write_bytes("é".encode("latin-1"))
    (top / "large").write_bytes(b"x" * (MAX_CONTENT_BYTES + 1))
    (top / "huge").write_bytes(b"")
    os.truncate(top / "huge", 10 * 2**30)
    (top / "control\n").write_bytes(b"")
    (top / "e\u0301").write_bytes(b"")
    (top / os.fsdecode(b"caf\xe9")).write_bytes(b"")
    (top / "link").symlink_to("plain.md")
    (top / "dangling").symlink_to("nowhere")
    (top / "linked-directory").symlink_to("/etc")
    os.mkfifo(top / "pipe")
    (top / ".git").mkdir()
    (top / ".git" / "HEAD").write_bytes(b"ref: refs/heads/main\n")
    deep = "d/" * 20
    (top / deep).mkdir(parents=True)
    (top / deep / "file").write_bytes(b"")
    long = "/".join(["x" * 250] * 4) + "/" + "y" * 20
    (top / long).parent.mkdir(parents=True)
    (top / long).write_bytes(b"")
    with socket.socket(socket.AF_UNIX) as listener:
        old = os.getcwd()
        os.chdir(top)  # a socket's path is short
        try:
            listener.bind("socket")
        finally:
            os.chdir(old)
    return {
        "/binary.png": "UTF-8",
        "/latin1.txt": "UTF-8",
        "/large": "102401 bytes",
        "/huge": "10737418240 bytes",
        "/control\n": "control",
        "/e\u0301": "Normalization",
        os.fsdecode(b"/caf\xe9"): "UTF-8",
        "/link": "symbolic link",
        "/dangling": "symbolic link",
        "/linked-directory": "symbolic link",
        "/pipe": "neither",
        "/socket": "neither",
        "/.git": "git",
        f"/{deep}file": "20 segments",
        f"/{long}": "1024 bytes",
    }


def test_nothing_is_imported_where_something_is_invalid(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    source = lay_out(tmp_path / "source", {"/plain.md": b"valid", "/zz/also": b"valid"})
    expected = invalid_items(source)
    report = import_directory(workspace, store, source, actor)
    assert [problem.path for problem in report.problems] == sorted(expected)
    for problem in report.problems:
        assert expected[problem.path] in problem.reason, problem
    assert (report.created, report.modified, report.unchanged) == ([], [], [])
    assert memories(workspace, store) == {}


def test_what_is_invalid_can_be_skipped(workspace: Workspace, store: Store, actor: Actor, tmp_path: Path) -> None:
    source = lay_out(tmp_path / "source", {"/plain.md": b"valid", "/zz/also": b"valid"})
    expected = invalid_items(source)
    report = import_directory(workspace, store, source, actor, skip_invalid=True)
    assert [problem.path for problem in report.problems] == sorted(expected)
    assert sorted(report.created) == ["/plain.md", "/zz/also"]
    assert memories(workspace, store) == {"/plain.md": b"valid", "/zz/also": b"valid"}


def test_a_file_cannot_become_a_directory_of_the_store(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), "/a/b", b"")], actor)
    source = lay_out(tmp_path / "source", {"/a": b"", "/c": b""})
    with pytest.raises(PathConflict):
        import_directory(workspace, store, source, actor, skip_invalid=True)
    assert list(memories(workspace, store)) == ["/a/b"]


def test_an_import_that_does_not_fit_imports_nothing(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    source = lay_out(tmp_path / "source", {f"/{number}": b"" for number in range(MAX_MEMORIES + 1)})
    with pytest.raises(StoreFull):
        import_directory(workspace, store, source, actor)
    assert memories(workspace, store) == {}
    (source / "0").unlink()
    assert len(import_directory(workspace, store, source, actor).created) == MAX_MEMORIES


def test_an_archived_store_can_be_exported_and_not_imported_into(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    source = lay_out(tmp_path / "source", {"/a": b"kept"})
    import_directory(workspace, store, source, actor)
    (source / "a").write_bytes(b"changed")
    archived = workspace.stores.archive(store.id)
    with pytest.raises(StoreArchived):
        import_directory(workspace, archived, source, actor)
    export_directory(workspace, archived, tmp_path / "target")
    assert read_back(tmp_path / "target") == {"/a": b"kept"}


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_only_a_directory_is_imported(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path, kind: str
) -> None:
    source = tmp_path / "source"
    if kind == "file":
        source.touch()
    with pytest.raises(InvalidRequest):
        import_directory(workspace, store, source, actor)


@pytest.mark.parametrize("kind", ["not empty", "a file", "below a file"])
def test_an_export_touches_nothing_that_is_there(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path, kind: str
) -> None:
    import_directory(workspace, store, lay_out(tmp_path / "source", {"/a": b"a"}), actor)
    target = tmp_path / "target"
    if kind == "not empty":
        target.mkdir()
        (target / "a").write_bytes(b"mine")
    else:
        target.write_bytes(b"mine")
    with pytest.raises(InvalidRequest):
        export_directory(workspace, store, target / "x" if kind == "below a file" else target)
    assert (target / "a" if target.is_dir() else target).read_bytes() == b"mine"


def test_a_store_without_memories_is_exported_as_an_empty_directory(
    workspace: Workspace, store: Store, tmp_path: Path
) -> None:
    assert export_directory(workspace, store, tmp_path / "target") == 0
    assert os.listdir(tmp_path / "target") == []
