"""Export of files into directories and archives: every byte, at one moment, and whole or not at all."""

import errno
import gzip
import io
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from memfs.model import ids
from memfs.model.errors import HistoryGone, InvalidRequest, NotFound
from memfs.model.mutations import Create, Delete, SetAttributes
from memfs.model.records import MAX_MEMORIES, Actor, FileAttributes, Store, time_ns
from memfs.workspace import Workspace
from memfs.workspace.archives import archive
from memfs.workspace.exporting import (
    Compression,
    compression_of,
    export_archive,
    export_directory,
    is_archive_name,
)
from memfs.workspace.sources import File, directory
from tests.workspace.transfers import CONTENTS, imported, lay_out, memories, read_back


@pytest.fixture
def filled(workspace: Workspace, store: Store, actor: Actor, tmp_path: Path) -> Store:
    """A store with a text of every kind."""
    imported(workspace, store, directory(lay_out(tmp_path / "source", CONTENTS)), actor)
    return store


def packed(workspace: Workspace, store: Store, compression: Compression | None = None) -> bytes:
    buffer = io.BytesIO()
    export_archive(workspace, store.id, buffer, compression=compression)
    return buffer.getvalue()


def litter(directory: Path) -> list[str]:
    return [name for name in os.listdir(directory) if name.startswith(".memfs-")]


# Directories


@pytest.mark.parametrize("kind", ["missing", "missing with its parents", "empty", "link to an empty one"])
def test_a_directory_gets_every_memory_byte_for_byte(
    workspace: Workspace, filled: Store, tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "target"
    if kind == "missing with its parents":
        target = tmp_path / "deep" / "er" / "target"
    elif kind == "empty":
        target.mkdir()
    elif kind == "link to an empty one":
        (tmp_path / "real").mkdir()
        target.symlink_to("real")
    inode = target.stat().st_ino if target.exists() else None
    written: list[int] = []
    assert export_directory(workspace, filled.id, target, progress=written.append) == len(CONTENTS)
    assert read_back(target) == CONTENTS
    assert sum(written) == len(CONTENTS)
    assert inode in (None, target.stat().st_ino), "a directory that is there stays itself"
    assert litter(tmp_path) == litter(target) == []


def test_a_directory_has_the_permissions_that_the_umask_allows(
    workspace: Workspace, filled: Store, tmp_path: Path
) -> None:
    old = os.umask(0o027)
    try:
        export_directory(workspace, filled.id, tmp_path / "target")
    finally:
        os.umask(old)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "target", *(tmp_path / "target").rglob("*")]}
    assert modes == {0o750, 0o640}


def test_a_store_without_memories_is_an_empty_directory(workspace: Workspace, store: Store, tmp_path: Path) -> None:
    assert export_directory(workspace, store.id, tmp_path / "target") == 0
    assert os.listdir(tmp_path / "target") == []


@pytest.mark.parametrize("kind", ["not empty", "a file", "a dangling link"])
def test_nothing_that_is_there_is_touched(workspace: Workspace, filled: Store, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    if kind == "not empty":
        target.mkdir()
        (target / "a").write_bytes(b"mine")
    elif kind == "a file":
        target.write_bytes(b"mine")
    else:
        target.symlink_to("nowhere")
    with pytest.raises(InvalidRequest):
        export_directory(workspace, filled.id, target)
    if kind == "a dangling link":
        assert os.readlink(target) == "nowhere"
    else:
        assert (target / "a" if target.is_dir() else target).read_bytes() == b"mine"
    assert litter(tmp_path) == []


def test_where_nothing_can_be_written_the_error_names_the_place(
    workspace: Workspace, filled: Store, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest, match="is no directory"):
        export_directory(workspace, filled.id, tmp_path / "file" / "target")
    for target in (tmp_path / ("n" * 256), tmp_path / ("n" * 256) / "below"):
        with pytest.raises(OSError, match="File name too long; nothing was exported") as raised:
            export_directory(workspace, filled.id, target)
        assert raised.value.filename == str(target)


@pytest.mark.parametrize("there", [False, True])
def test_a_memory_that_cannot_be_a_file_leaves_nothing_half_done(
    workspace: Workspace, filled: Store, actor: Actor, tmp_path: Path, there: bool
) -> None:
    """The API allows names that are longer than those of files."""
    workspace.memories.create(filled.id, "/z/" + "n" * 256, b"", actor)
    target = tmp_path / "target"
    if there:
        target.mkdir()
    with pytest.raises(OSError, match="a tar archive can hold it; nothing was exported") as raised:
        export_directory(workspace, filled.id, target)
    assert raised.value.errno == errno.ENAMETOOLONG
    assert "/z/nnn" in str(raised.value)
    assert target.exists() == there
    assert litter(tmp_path) == []
    assert not there or os.listdir(target) == []
    assert "/z/" + "n" * 256 in [item.path for item in archive(io.BytesIO(packed(workspace, filled)))()]


def test_what_somebody_puts_into_the_directory_meanwhile_stays(
    workspace: Workspace, filled: Store, tmp_path: Path
) -> None:
    for name, made_before in (("there", True), ("missing", False)):
        target = tmp_path / name
        if made_before:
            target.mkdir()

        def intrude(_number: int, target: Path = target) -> None:
            target.mkdir(exist_ok=True)
            (target / "plain.md").write_bytes(b"mine")

        with pytest.raises((InvalidRequest, OSError)):
            export_directory(workspace, filled.id, target, progress=intrude)
        assert read_back(target) == {"/plain.md": b"mine"}
    assert litter(tmp_path) == []


# Archives


@pytest.mark.parametrize("compression", [None, "gz", "bz2", "xz"])
def test_an_archive_has_every_memory_byte_for_byte(
    workspace: Workspace, filled: Store, compression: Compression | None
) -> None:
    data = packed(workspace, filled, compression)
    with tarfile.open(fileobj=io.BytesIO(data)) as found:
        files = [(member.name, found.extractfile(member)) for member in found.getmembers()]
        read = {f"/{name}": file.read() for name, file in files if file is not None}
    assert read == CONTENTS
    assert list(read) == sorted(CONTENTS)
    assert {item.path: item.content for item in archive(io.BytesIO(data))() if isinstance(item, File)} == CONTENTS


def test_gnu_tar_unpacks_an_archive(workspace: Workspace, filled: Store, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    subprocess.run(["tar", "-xz", "-C", tmp_path / "target"], input=packed(workspace, filled, "gz"), check=True)
    assert read_back(tmp_path / "target") == CONTENTS


def test_what_an_archive_tells_of_a_memory(workspace: Workspace, store: Store, actor: Actor) -> None:
    for path, mode in (("/plain", None), ("/script", 0o755), ("/odd", 0o4711), ("/none", 0)):
        made = workspace.memories.create(store.id, path, b"x", actor)
        if mode is not None:
            workspace.memories.apply(store.id, [SetAttributes(made.id, FileAttributes(mode=mode))], actor)
    with tarfile.open(fileobj=io.BytesIO(packed(workspace, store))) as found:
        members = {member.name: member for member in found.getmembers()}
    assert {name: member.mode for name, member in members.items()} == {
        "plain": 0o644,
        "script": 0o755,
        "odd": 0o711,
        "none": 0,
    }
    for name, member in members.items():
        updated_at = workspace.memories.get(store.id, f"/{name}").updated_at
        assert member.mtime == time_ns(updated_at) // 1_000_000_000
        assert (member.uid, member.gid, member.uname, member.gname, member.isreg()) == (0, 0, "", "", True)


@pytest.mark.parametrize("compression", [None, "gz", "bz2", "xz"])
def test_the_same_memories_give_the_same_bytes(
    workspace: Workspace, filled: Store, actor: Actor, monkeypatch: pytest.MonkeyPatch, compression: Compression | None
) -> None:
    first = packed(workspace, filled, compression)
    workspace.memories.create(workspace.stores.create("Other").id, "/a", b"", actor)
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert packed(workspace, filled, compression) == first
    if compression == "gz":
        assert packed(workspace, filled) == gzip.decompress(first)


def test_a_store_without_memories_is_an_empty_archive(workspace: Workspace, store: Store) -> None:
    assert list(archive(io.BytesIO(packed(workspace, store)))()) == []


@pytest.mark.parametrize(
    "name,compression,is_archive",
    [
        ("x.tar", None, True),
        ("x.tar.gz", "gz", True),
        ("x.tgz", "gz", True),
        ("x.TAR.GZ", "gz", True),
        ("x.tar.bz2", "bz2", True),
        ("x.tbz2", "bz2", True),
        ("x.tar.xz", "xz", True),
        ("x.txz", "xz", True),
        ("x.gz", "gz", False),
        ("x", None, False),
        ("x.tar/y", None, False),
        (".tar", None, False),
    ],
)
def test_a_name_tells_of_an_archive(name: str, compression: str | None, is_archive: bool) -> None:
    assert (compression_of(name), is_archive_name(name)) == (compression, is_archive)


# Both


def test_a_full_store_goes_out_and_comes_back(workspace: Workspace, store: Store, actor: Actor, tmp_path: Path) -> None:
    contents = {f"/{number % 40}/{number}.md": os.urandom(number // 2).hex().encode() for number in range(MAX_MEMORIES)}
    workspace.memories.apply(
        store.id, [Create(ids.new_id(ids.MEMORY), path, content) for path, content in contents.items()], actor
    )
    assert export_directory(workspace, store.id, tmp_path / "out") == MAX_MEMORIES
    (tmp_path / "out.tar.xz").write_bytes(packed(workspace, store, "xz"))
    with (tmp_path / "out.tar.xz").open("rb") as file:
        for name, source in (("directory", directory(tmp_path / "out")), ("tar", archive(file))):
            again = workspace.stores.create(name)
            assert imported(workspace, again, source, actor).problems == []
            assert memories(workspace, again) == contents


def test_an_archived_store_can_be_exported(workspace: Workspace, filled: Store, tmp_path: Path) -> None:
    workspace.stores.archive(filled.id)
    export_directory(workspace, filled.id, tmp_path / "target")
    assert read_back(tmp_path / "target") == CONTENTS


@pytest.mark.parametrize("kind", ["directory", "tar"])
def test_an_export_is_one_moment_while_others_write(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path, db: Path, kind: str
) -> None:
    """Between any two memories another process replaces all of them at once, elsewhere."""
    names = [f"/{number}" for number in range(20)]
    for name in names:
        workspace.memories.create(store.id, name, b"0", actor)
    with Workspace.open(db) as other:

        def write(_number: int) -> None:
            gone = [Delete(head.memory_id) for head in other.engine.snapshot(store.id).heads]
            made = [Create(ids.new_id(ids.MEMORY), f"/new{name}", os.urandom(8).hex().encode()) for name in names]
            other.memories.apply(store.id, [*gone, *made], actor)

        if kind == "directory":
            export_directory(workspace, store.id, tmp_path / "target", progress=write)
            found = read_back(tmp_path / "target")
        else:
            buffer = io.BytesIO()
            export_archive(workspace, store.id, buffer, progress=write)
            found = {item.path: item.content for item in archive(buffer)() if isinstance(item, File)}
    assert found == dict.fromkeys(names, b"0")


def test_what_is_redacted_while_it_is_exported_ends_the_export(
    workspace: Workspace, store: Store, actor: Actor, tmp_path: Path
) -> None:
    for path in ("/a", "/b"):
        workspace.memories.create(store.id, path, path.encode(), actor)

    def redact(_number: int) -> None:
        head = workspace.memories.get(store.id, "/b").memory_version_id
        workspace.memories.update(store.id, "/b", actor, content=b"harmless")
        workspace.versions.redact(store.id, [head], actor)

    with pytest.raises(HistoryGone, match="/b held"):
        export_directory(workspace, store.id, tmp_path / "target", progress=redact)
    assert not (tmp_path / "target").exists()


def test_a_store_that_is_not_there(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        export_directory(workspace, ids.new_id(ids.MEMORY_STORE), tmp_path / "target")
    assert not (tmp_path / "target").exists()
    assert litter(tmp_path) == []
