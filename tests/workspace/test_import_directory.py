"""A directory as the source of an import: every file, or a reason."""

import os
import socket
from pathlib import Path

import pytest

from memfs.model import ids
from memfs.model.errors import InvalidRequest, PreconditionFailed, StoreArchived
from memfs.model.mutations import Create
from memfs.model.records import MAX_CONTENT_BYTES, Actor, Store
from memfs.workspace import Workspace
from memfs.workspace.importing import apply_import, plan_import
from memfs.workspace.sources import File, Problem, directory
from tests.workspace.transfers import CONTENTS, imported, lay_out, memories


def test_every_file_becomes_a_memory_byte_for_byte(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    source = directory(lay_out(tmp_path / "source", CONTENTS))
    done: list[int] = []
    plan = plan_import(workspace, store.id, source, progress=done.append)
    assert plan.created == sorted(CONTENTS)
    assert (plan.modified, plan.unchanged, plan.problems) == ([], 0, [])
    assert sum(done) == len(CONTENTS)
    assert memories(workspace, store) == {}, "a plan writes nothing"
    apply_import(workspace, plan, source, actor)
    assert memories(workspace, store) == CONTENTS


def test_an_import_is_one_transaction_by_its_actor(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    imported(workspace, store, directory(lay_out(tmp_path / "source", CONTENTS)), actor)
    versions = workspace.versions.list(store.id)
    assert {version.operation for version in versions} == {"created"}
    assert {version.created_by for version in versions} == {actor}
    assert len({version.created_at for version in versions}) == 1


def test_a_second_import_makes_versions_of_what_changed_only(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    source = lay_out(tmp_path / "source", {"/same": b"same", "/changed": b"one"})
    imported(workspace, store, directory(source), actor)
    before = workspace.memories.get(store.id, "/changed")
    workspace.memories.create(store.id, "/other", b"stays", actor)
    (source / "changed").write_bytes(b"two")
    (source / "new").write_bytes(b"new")
    plan = imported(workspace, store, directory(source), actor)
    assert (plan.created, plan.modified, plan.unchanged) == (["/new"], ["/changed"], 1)
    assert workspace.memories.get(store.id, "/changed").id == before.id
    assert memories(workspace, store) == {"/same": b"same", "/changed": b"two", "/new": b"new", "/other": b"stays"}
    assert len(workspace.versions.list(store.id)) == 5
    assert imported(workspace, store, directory(source), actor).unchanged == 3
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
    (top / os.fsdecode(b"d\xe9")).mkdir()
    (top / os.fsdecode(b"d\xe9") / "below").write_bytes(b"")
    (top / "link").symlink_to("plain.md")
    (top / "dangling").symlink_to("nowhere")
    (top / "linked-directory").symlink_to("/etc")
    os.mkfifo(top / "pipe")
    (top / ".git").mkdir()
    (top / ".git" / "HEAD").write_bytes(b"ref: refs/heads/main\n")
    (top / "module").mkdir()
    (top / "module" / ".git").write_bytes(b"gitdir: ../.git\n")
    deep = "d/" * 20
    (top / deep / "e").mkdir(parents=True)
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
        os.fsdecode(b"/d\xe9/below"): "UTF-8",
        "/link": "symbolic link",
        "/dangling": "symbolic link",
        "/linked-directory": "symbolic link",
        "/pipe": "neither",
        "/socket": "neither",
        "/.git": "git",
        "/module/.git": "git",
        f"/{deep}e": "20 segments",
        f"/{deep}file": "20 segments",
        f"/{long}": "1024 bytes",
    }


def test_what_cannot_be_a_memory_is_told_with_its_reason_and_the_rest_can_be_imported(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    top = lay_out(tmp_path / "source", {"/plain.md": b"valid", "/zz/also": b"valid"})
    expected = invalid_items(top)
    plan = imported(workspace, store, directory(top), actor)
    assert [problem.path for problem in plan.problems] == sorted(expected)
    for problem in plan.problems:
        assert expected[problem.path] in problem.reason, problem
    assert plan.created == ["/plain.md", "/zz/also"]
    assert memories(workspace, store) == {"/plain.md": b"valid", "/zz/also": b"valid"}


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one directory and one file that cannot be opened, for root neither."""
    top = lay_out(tmp_path / "source", {"/a": b"a", "/closed/b": b"b", "/secret": b"c", "/z": b"z"})
    real = os.open

    def refusing(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path in ("closed", "secret") and dir_fd is not None:
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refusing)
    return top


def test_what_cannot_be_read_is_a_problem_and_not_the_end(
    workspace: Workspace, store: Store, actor: Actor, closed: Path
) -> None:
    plan = imported(workspace, store, directory(closed), actor)
    assert plan.problems == [
        Problem("/closed", "it cannot be listed: Permission denied"),
        Problem("/secret", "it cannot be read: Permission denied"),
    ]
    assert memories(workspace, store) == {"/a": b"a", "/z": b"z"}


def test_a_file_swapped_for_a_link_or_a_pipe_is_not_followed(tmp_path: Path) -> None:
    top = lay_out(tmp_path / "source", {"/a": b"", "/b": b"", "/c/d": b"", "/e": b"last"})
    (tmp_path / "secret").write_bytes(b"secret")
    items = directory(top)()
    assert next(items) == File("/a", b"")
    (top / "b").unlink()
    (top / "b").symlink_to(tmp_path / "secret")
    (top / "c").rename(tmp_path / "c")
    (top / "c").symlink_to(tmp_path / "c")
    (top / "e").unlink()
    os.mkfifo(top / "e")
    rest = list(items)
    assert [item.path for item in rest] == ["/b", "/c", "/e"]
    assert all(isinstance(item, Problem) for item in rest), rest


def test_a_source_that_is_left_early_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    items = directory(lay_out(tmp_path / "source", {"/a/b/c/d": b"", "/a/b/e": b""}))()
    next(items)
    items.close()
    assert os.listdir("/proc/self/fd") == before


def test_a_file_that_changes_between_looking_and_taking_is_a_conflict(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    top = lay_out(tmp_path / "source", {"/a": b"one", "/b": b"b"})
    plan = plan_import(workspace, store.id, directory(top))
    (top / "a").write_bytes(b"two")
    with pytest.raises(PreconditionFailed, match="/a changed"):
        apply_import(workspace, plan, directory(top), actor)
    assert memories(workspace, store) == {}


def test_a_memory_that_changes_between_looking_and_taking_is_a_conflict(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    source = directory(lay_out(tmp_path / "source", {"/a": b"new", "/b": b"b"}))
    workspace.memories.create(store.id, "/a", b"old", actor)
    plan = plan_import(workspace, store.id, source)
    workspace.memories.update(store.id, "/a", actor, content=b"by another")
    with pytest.raises(PreconditionFailed):
        apply_import(workspace, plan, source, actor)
    assert memories(workspace, store) == {"/a": b"by another"}


def test_an_archived_store_takes_no_import(workspace: Workspace, store: Store, actor: Actor, tmp_path: Path) -> None:
    workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), "/a", b"kept")], actor)
    workspace.stores.archive(store.id)
    with pytest.raises(StoreArchived):
        plan_import(workspace, store.id, directory(lay_out(tmp_path / "source", {"/a": b"changed"})))


@pytest.mark.parametrize("kind", ["missing", "file", "link"])
def test_only_a_directory_is_listed(workspace: Workspace, store: Store, tmp_path: Path, kind: str) -> None:
    top = tmp_path / "source"
    if kind == "file":
        top.touch()
    elif kind == "link":
        top.symlink_to(tmp_path / "nothing")
    with pytest.raises(InvalidRequest, match=str(top)):
        plan_import(workspace, store.id, directory(top))


def test_a_source_of_far_too_many_items_is_refused(
    workspace: Workspace, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memfs.workspace.importing.MAX_ITEMS", 3)
    top = lay_out(tmp_path / "source", {f"/{number}": b"" for number in range(3)})
    assert len(plan_import(workspace, store.id, directory(top)).created) == 3
    (top / "pipe").symlink_to("x")
    with pytest.raises(InvalidRequest, match="over 3 items"):
        plan_import(workspace, store.id, directory(top))
