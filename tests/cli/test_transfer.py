"""``memfs store import`` and ``memfs store export``, from a person's and from a program's side."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from memfs.cli import exits
from memfs.cli.context import actor as cli_actor
from memfs.cli.transfer import ATTEMPTS
from memfs.model import ids
from memfs.model.mutations import Create
from memfs.model.records import MAX_MEMORIES, Actor, Guards, Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run
from tests.cli.readers import stops_reading
from tests.cli.terminal import MEMFS, at_terminal
from tests.processes import environment
from tests.workspace.transfers import CONTENTS, lay_out, member, memories, packed, read_back


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to work in."""
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def filled(workspace: Workspace, store: Store, actor: Actor) -> Store:
    """A store with two memories and a history."""
    workspace.memories.create(store.id, "/a/b.md", b"one\r\n", actor)
    workspace.memories.create(store.id, "/c.md", "é\u2028\0".encode(), actor)
    workspace.memories.update(store.id, "/c.md", actor, content=b"two")
    return store


def left_over() -> list[str]:
    return [name for name in os.listdir() if name.startswith(".")]


# Import of files


def test_a_directory(run: Run, workspace: Workspace, store: Store) -> None:
    lay_out(Path("source"), {"/a/crlf.md": b"one\r\n", "/same.md": b"same"})
    result = run("store", "import", "user-preferences", "source")
    assert result.stdout == "created 2, modified 0, unchanged 0\n"
    assert result.stderr == "", "no progress bar where stderr is no terminal"
    Path("source/a/crlf.md").write_bytes(b"two\r\n")
    assert run("store", "import", store.id, "source/").stdout == "created 0, modified 1, unchanged 1\n"
    (version, *_) = workspace.versions.list(store.id)
    assert version.created_by == cli_actor()
    assert version.created_by.type == "user_actor"


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.bz2", "x.tar.xz", "no-name-for-an-archive"])
def test_an_archive(run: Run, workspace: Workspace, store: Store, name: str) -> None:
    lay_out(Path("source"), CONTENTS)
    # Compressed here: a small machine has tar, but not each program that it calls.
    compressed: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress,
        ".bz2": bz2.compress,
        ".xz": lzma.compress,
    }
    done = subprocess.run(["tar", "-c", "-C", "source", "."], capture_output=True, check=True)
    Path(name).write_bytes(compressed.get(Path(name).suffix, bytes)(done.stdout))
    assert run("store", "import", store.id, name).stdout == f"created {len(CONTENTS)}, modified 0, unchanged 0\n"
    assert memories(workspace, store) == CONTENTS


@pytest.mark.parametrize("options", [[], ["--from", "tar"]])
def test_an_archive_on_standard_input(run: Run, workspace: Workspace, store: Store, options: list[str]) -> None:
    data = gzip.compress(packed(*(member(path[1:], content) for path, content in CONTENTS.items())))
    assert run("store", "import", store.id, "-", *options, stdin=data).stdout.startswith("created 17")
    assert memories(workspace, store) == CONTENTS


def test_a_pipe_that_has_a_name(run: Run, workspace: Workspace, store: Store) -> None:
    """As <(…) of the shell makes it."""
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(packed(member("a", b"x" * 90_000))))
    writer.start()
    assert run("store", "import", store.id, "pipe").stdout == "created 1, modified 0, unchanged 0\n"
    writer.join()


def test_a_path_that_is_not_utf_8(run: Run, store: Store) -> None:
    lay_out(Path(os.fsdecode(b"caf\xe9")), {"/a": b""})
    run("store", "import", store.id, os.fsdecode(b"caf\xe9"))
    run("store", "export", store.id, os.fsdecode(b"\xff"))
    assert read_back(Path(os.fsdecode(b"\xff"))) == {"/a": b""}
    assert (
        "n\\udcff cannot be read" in run("store", "import", store.id, os.fsdecode(b"n\xff"), code=exits.INVALID).stderr
    )


def bad() -> bytes:
    """An archive with two items that can be stored and three that cannot."""
    link = member("link", type=tarfile.SYMTYPE)
    return packed(member("good", b"x"), link, member("caf\udce9\n"), member("/etc/x"), member("d/good", b"y"))


def test_what_is_invalid_is_told_a_line_each_and_then_what_to_do(run: Run, workspace: Workspace, store: Store) -> None:
    Path("x.tar").write_bytes(bad())
    result = run("store", "import", store.id, "x.tar", code=exits.REFUSED)
    assert result.stdout == ""
    problems = [
        "memfs: /caf\\udce9\\n: its name is not UTF-8",
        "memfs: /etc/x: an absolute name: pack it with a relative one",
        "memfs: /link: a symbolic link",
    ]
    assert result.stderr.splitlines() == [
        *problems,
        "memfs: nothing was imported: 3 items cannot be a memory; --skip-invalid imports the rest",
    ]
    assert memories(workspace, store) == {}
    skipping = run("store", "import", store.id, "x.tar", "--skip-invalid")
    assert skipping.stdout == "created 2, modified 0, unchanged 0, skipped 3\n"
    assert skipping.stderr.splitlines() == problems
    assert memories(workspace, store) == {"/good": b"x", "/d/good": b"y"}


@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_programs_get_one_object(run: Run, workspace: Workspace, store: Store, actor: Actor, format_: str) -> None:
    workspace.memories.create(store.id, "/good", b"old", actor)
    workspace.memories.create(store.id, "/d/good", b"y", actor)
    problems = [
        {"path": "/caf\udce9\n", "reason": "its name is not UTF-8"},
        {"path": "/etc/x", "reason": "an absolute name: pack it with a relative one"},
        {"path": "/link", "reason": "a symbolic link"},
    ]
    expected = {"created": [], "modified": ["/good"], "unchanged": 1, "problems": problems, "applied": False}
    for options, code in (([], exits.REFUSED), (["--dry-run"], exits.REFUSED), (["--dry-run", "--skip-invalid"], 0)):
        result = run("store", "import", store.id, "-", "--format", format_, *options, code=code, stdin=bad())
        assert json.loads(result.stdout) == expected
        assert "nothing was imported" in result.stderr
        assert len(result.stderr.splitlines()) == 1
    result = run("store", "import", store.id, "-", "--format", format_, "--skip-invalid", stdin=bad())
    assert json.loads(result.stdout) == expected | {"applied": True}
    assert result.stderr == ""
    assert memories(workspace, store)["/good"] == b"x"


def test_a_dry_run_shows_what_would_be_done(run: Run, workspace: Workspace, store: Store, actor: Actor) -> None:
    workspace.memories.create(store.id, "/b", b"old", actor)
    workspace.memories.create(store.id, "/c", b"same", actor)
    lay_out(Path("source"), {"/a\u00a0": b"", "/b": b"new", "/c": b"same"})
    result = run("store", "import", store.id, "source", "--dry-run")
    assert result.stdout == "create /a\u00a0\nmodify /b\ncreate 1, modify 1, unchanged 1\n"
    assert result.stderr == "nothing was imported: this was a dry run\n"
    assert len(workspace.versions.list(store.id)) == 2
    Path("source/link").symlink_to("a")
    result = run("store", "import", store.id, "source", "--dry-run", code=exits.REFUSED)
    assert result.stdout.endswith("create 1, modify 1, unchanged 1, skipped 1\n")
    assert result.stderr.splitlines()[0] == "memfs: /link: a symbolic link"
    assert run("store", "import", store.id, "source", "--dry-run", "--skip-invalid").stdout == result.stdout


def test_what_a_guard_refuses_is_told(run: Run, workspace: Workspace, store: Store) -> None:
    workspace.stores.set_guards(store.id, Guards(max_content_bytes=3, allowed_paths=("/notes/**",)))
    lay_out(Path("source"), {"/notes/a": b"123", "/notes/b": b"1234", "/other": b""})
    result = run("store", "import", store.id, "source", code=exits.REFUSED)
    assert [line.split(": ")[1] for line in result.stderr.splitlines()[:2]] == ["/notes/b", "/other"]
    run("store", "import", store.id, "source", "--skip-invalid")
    assert memories(workspace, store) == {"/notes/a": b"123"}


def test_a_path_in_the_way_is_told(run: Run, workspace: Workspace, filled: Store) -> None:
    lay_out(Path("source"), {"/a": b"", "/c.md/below": b"", "/new": b""})
    result = run("store", "import", filled.id, "source", code=exits.REFUSED)
    assert "memfs: /a: it is a directory in the store" in result.stderr
    assert "memfs: /c.md/below: there is a memory at /c.md" in result.stderr
    assert run("store", "import", filled.id, "source", "--skip-invalid").stdout.startswith("created 1,")


def test_an_import_that_is_overtaken_is_planned_again(
    run: Run, workspace: Workspace, store: Store, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others make the same memories while it is at work: first one more at each attempt, then no more."""
    lay_out(Path("source"), {f"/{number}": b"new" for number in range(10)})
    overtaken = iter(range(3))

    def overtaking() -> Actor:
        number = next(overtaken, None)
        if number is not None:
            workspace.memories.create(store.id, f"/{number}", b"by another", actor)
        return cli_actor()

    monkeypatch.setattr("memfs.cli.transfer.actor", overtaking)
    result = run("store", "import", store.id, "source")
    assert result.stdout == "created 7, modified 3, unchanged 0\n"
    assert result.stderr.splitlines() == ["memfs: the store or a file was changed meanwhile: planning again"] * 3
    assert set(memories(workspace, store).values()) == {b"new"}
    lay_out(Path("again"), {f"/x{number}": b"" for number in range(10)})
    overtaken = iter(range(10, 100))

    def always() -> Actor:
        workspace.memories.create(store.id, f"/x{next(overtaken) - 10}", b"", actor)
        return cli_actor()

    monkeypatch.setattr("memfs.cli.transfer.actor", always)
    result = run("store", "import", store.id, "again", code=exits.CONFLICT)
    assert result.stderr.count("planning again") == ATTEMPTS - 1
    assert len(result.stderr.splitlines()) == ATTEMPTS


@pytest.mark.parametrize(
    "name,content,options,said",
    [
        ("no", None, [], "No such file or directory; SOURCE is"),
        ("no", None, ["--from", "directory"], "is not a directory"),
        ("notes.md", b"# Notes\n", [], "is neither a directory nor a tar archive nor JSON lines"),
        ("notes.md", b"# Notes\n", ["--from", "tar"], "damaged"),
        ("notes.md", b"# Notes\n", ["--from", "jsonl"], "line 1: it is not JSON"),
        ("notes.md", b"# Notes\n", ["--from", "directory"], "is not a directory"),
        ("empty", b"", [], "empty is empty"),
        ("empty.tar", b"", ["--from", "tar"], "damaged: it is empty"),
        ("x.zip", b"PK\x03\x04" + bytes(600), [], "neither"),
        ("x.tar", packed(member("a", b"x" * 600))[:1100], [], "damaged: it ends in the middle"),
        ("x.tar", packed(member("a", b"x" * 600))[:1536], [], "end mark"),
        ("x.gz", gzip.compress(b"no archive", mtime=0), [], "damaged"),
    ],
)
def test_what_is_nothing_to_import_is_one_line(
    run: Run, workspace: Workspace, store: Store, name: str, content: bytes | None, options: list[str], said: str
) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    result = run("store", "import", store.id, name, *options, code=exits.INVALID)
    assert said in result.stderr
    assert result.stderr.startswith("memfs: ")
    assert len(result.stderr.splitlines()) == 1
    if content:
        result = run("store", "import", store.id, "-", *options, code=exits.INVALID, stdin=content)
    assert result.stdout == ""
    assert workspace.versions.list(store.id) == []


def test_wrong_usage(run: Run, filled: Store) -> None:
    os.mkdir("source")
    for words, said in (
        (["import", filled.id, "-", "--from", "directory"], "cannot come from standard input"),
        (["import", filled.id, "source", "--from", "zip"], "zip"),
        (["import", filled.id], "SOURCE"),
        (["export", filled.id, "-"], "--as tar or --as jsonl"),
        (["export", filled.id, "-", "--as", "directory"], "--as tar or --as jsonl"),
        (["export", filled.id], "DEST"),
    ):
        result = run("store", *words, code=exits.INVALID)
        assert said in result.stderr, words
        assert "Usage: memfs store" in result.stderr
    assert "is a directory" in run("store", "import", filled.id, "source", "--from", "tar", code=exits.INVALID).stderr
    assert "is empty" in run("store", "import", filled.id, "-", code=exits.INVALID).stderr


def test_import_into_an_archived_store(run: Run, workspace: Workspace, store: Store) -> None:
    workspace.stores.archive(store.id)
    lay_out(Path("source"), {"/a": b"a"})
    for words in (["source"], ["source", "--dry-run"]):
        assert "archived" in run("store", "import", store.id, *words, code=exits.REFUSED).stderr


def test_on_a_terminal_it_shows_how_far_it_is(db: Path, store: Store) -> None:
    lay_out(Path("source"), {f"/{number}": b"" for number in range(3)})
    sent = at_terminal(db, "store", "import", store.id, "source", NO_COLOR="1")
    assert "importing" in sent
    assert "3/3" in sent
    assert "created 3, modified 0, unchanged 0" in sent
    sent = at_terminal(db, "store", "export", store.id, "out", NO_COLOR="1")
    assert "exporting" in sent
    assert "3/3" in sent
    for name in ("out.tar", "out.jsonl"):
        assert "exporting" in at_terminal(db, "store", "export", store.id, name, NO_COLOR="1")


def test_nothing_is_expected_from_nor_archives_sent_to_a_terminal(db: Path, store: Store) -> None:
    for words in (["import", store.id, "-"], ["export", store.id, "-", "--as", "tar"]):
        with pytest.raises(AssertionError) as raised:
            at_terminal(db, "store", *words, NO_COLOR="1")
        assert b"terminal" in raised.value.args[0]
    assert "memory_store" in at_terminal(db, "store", "export", store.id, "-", "--as", "jsonl", NO_COLOR="1")


# Export


def test_export_into_a_directory(run: Run, filled: Store) -> None:
    result = run("store", "export", "user-preferences", "out")
    assert (result.stdout, result.stderr) == ("exported 2 memories to out\n", "")
    assert read_back(Path("out")) == {"/a/b.md": b"one\r\n", "/c.md": b"two"}
    for options in ([], ["--force"], ["--as", "directory"]):
        assert "not empty" in run("store", "export", filled.id, "out", *options, code=exits.INVALID).stderr
    os.mkdir("x.tar")
    run("store", "export", filled.id, "x.tar", "--as", "directory")
    assert len(read_back(Path("x.tar"))) == 2
    Path("file").touch()
    assert "no directory" in run("store", "export", filled.id, "file", "--as", "directory", code=exits.INVALID).stderr


def test_export_into_the_current_directory(run: Run, filled: Store, here: Path) -> None:
    run("store", "export", filled.id, ".")
    assert os.getcwd() == str(here)
    assert sorted(os.listdir()) == ["a", "c.md"]


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz", "x.tar.bz2", "x.tar.xz"])
def test_export_as_an_archive(run: Run, filled: Store, name: str) -> None:
    result = run("store", "export", filled.id, name)
    assert (result.stdout, result.stderr) == (f"exported 2 memories to {name}\n", "")
    with tarfile.open(name) as archive:
        assert archive.getnames() == ["a/b.md", "c.md"]
    assert Path(name).stat().st_mode & 0o777 == 0o600
    first = Path(name).read_bytes()
    assert "--force" in run("store", "export", filled.id, name, code=exits.REFUSED).stderr
    run("store", "export", filled.id, name, "--force")
    assert Path(name).read_bytes() == first
    assert left_over() == []


def test_export_as_something_that_the_name_does_not_tell(run: Run, filled: Store) -> None:
    run("store", "export", filled.id, "backup", "--as", "tar")
    assert tarfile.is_tarfile("backup")
    run("store", "export", filled.id, "history.tar", "--as", "jsonl")
    assert json.loads(Path("history.tar").read_bytes().splitlines()[0])["id"] == filled.id
    run("store", "export", filled.id, "x.jsonl", "--as", "directory")
    assert len(read_back(Path("x.jsonl"))) == 2


def test_export_to_standard_output(run: Run, filled: Store) -> None:
    archive = run("store", "export", filled.id, "-", "--as", "tar")
    assert archive.stderr == "exported 2 memories\n"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout_bytes)) as found:
        assert found.getnames() == ["a/b.md", "c.md"]
    history = run("store", "export", filled.id, "-", "--as", "jsonl")
    assert history.stderr == "exported 3 versions\n"
    run("store", "export", filled.id, "x.jsonl")
    assert Path("x.jsonl").read_bytes() == history.stdout_bytes


@pytest.mark.parametrize("kind", ["tar", "jsonl"])
def test_a_reader_that_stops_reading_ends_it_quietly(
    workspace: Workspace, store: Store, actor: Actor, db: Path, kind: str
) -> None:
    for number in range(20):
        workspace.memories.create(store.id, f"/{number}", b"x" * 100_000, actor)
    stops_reading(db, "store", "export", store.id, "-", "--as", kind)


@pytest.mark.parametrize("kind", ["tar", "jsonl"])
def test_a_full_disk_is_an_error(filled: Store, db: Path, kind: str) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [*MEMFS, "--db", db, "store", "export", filled.id, "-", "--as", kind],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert (result.returncode, result.stderr) == (exits.REFUSED, b"memfs: No space left on device\n")


@pytest.mark.parametrize("name", ["no/x.tar", "no/x.jsonl", "n" * 256, "file/x", "file/x.tar"])
def test_where_nothing_can_be_written_is_one_line(run: Run, filled: Store, name: str) -> None:
    Path("file").touch()
    result = run("store", "export", filled.id, name, code=exits.INVALID if name == "file/x" else exits.REFUSED)
    assert result.stderr.startswith("memfs: ")
    assert len(result.stderr.splitlines()) == 1
    assert sorted(os.listdir()) == ["file"]


def test_an_archived_store_can_be_exported(run: Run, workspace: Workspace, filled: Store) -> None:
    workspace.stores.archive(filled.id)
    for name in ("out", "out.tar", "out.jsonl"):
        run("store", "export", filled.id, name)
    assert json.loads(Path("out.jsonl").read_bytes().splitlines()[0])["archived_at"] is not None


# Histories


def test_a_history_goes_into_another_database(run: Run, workspace: Workspace, filled: Store, tmp_path: Path) -> None:
    run("store", "export", filled.id, "x.jsonl")
    other = tmp_path / "other.db"
    run("store", "create", "Copy", database=other)
    result = run("store", "import", "copy", "x.jsonl", database=other)
    assert (result.stdout, result.stderr) == ("imported 3 versions, 2 live memories\n", "")
    run("store", "export", "copy", "y.jsonl", database=other)
    first, second = (Path(name).read_text().split("\n") for name in ("x.jsonl", "y.jsonl"))
    copied = json.loads(second[0])["id"]
    assert second[1:] == [line.replace(filled.id, copied) for line in first[1:]]


def test_a_history_on_standard_input_with_new_ids(run: Run, workspace: Workspace, filled: Store) -> None:
    data = run("version", "export", filled.id).stdout_bytes
    other = workspace.stores.create("Other")
    result = run("store", "import", other.id, "-", "--dry-run", "--format", "json", stdin=data)
    told = {"created": ["/a/b.md", "/c.md"], "modified": [], "unchanged": 0, "problems": []}
    assert json.loads(result.stdout) == told | {"applied": False, "versions": 3, "ids_kept": False}
    assert result.stderr == "nothing was imported: this was a dry run\n"
    assert workspace.versions.list(other.id) == []
    result = run("store", "import", other.id, "-", stdin=data)
    assert result.stdout == (
        "imported 3 versions, 2 live memories, with new ids because some of them are in the workspace already\n"
    )
    assert memories(workspace, other) == memories(workspace, filled)
    assert run("store", "import", other.id, "-", stdin=data, code=exits.CONFLICT).stderr.startswith(
        "memfs: the store 'Other'"
    )


def test_a_history_is_whole_or_not(run: Run, workspace: Workspace, filled: Store) -> None:
    run("store", "export", filled.id, "x.jsonl")
    other = workspace.stores.create("Other")
    result = run("store", "import", other.id, "x.jsonl", "--skip-invalid", code=exits.INVALID)
    assert "whole or not at all" in result.stderr
    lines = Path("x.jsonl").read_bytes().splitlines(keepends=True)
    Path("x.jsonl").write_bytes(b"".join([*lines[:2], lines[2].replace(b"created", b"made"), *lines[3:]]))
    result = run("store", "import", other.id, "x.jsonl", code=exits.INVALID)
    assert result.stderr.startswith('memfs: line 3: its operation is "made"')
    assert len(result.stderr.splitlines()) == 1
    Path("x.jsonl").write_bytes(b"".join(lines[:-1]))
    assert "cut off" in run("store", "import", other.id, "x.jsonl", code=exits.INVALID).stderr
    assert workspace.versions.list(other.id) == []


def test_a_guard_refuses_a_history(run: Run, workspace: Workspace, filled: Store) -> None:
    run("store", "export", filled.id, "x.jsonl")
    other = workspace.stores.create("Other")
    workspace.stores.set_guards(other.id, Guards(max_content_bytes=5))
    result = run("store", "import", other.id, "x.jsonl", code=exits.REFUSED)
    assert result.stderr.startswith("memfs: line 3: a guard of the store allows 5 bytes")


def test_an_empty_history(run: Run, workspace: Workspace, store: Store) -> None:
    run("store", "export", store.id, "x.jsonl")
    Path("y.jsonl").touch()
    for name in ("x.jsonl", "y.jsonl"):
        assert run("store", "import", store.id, name).stdout == "imported 0 versions, 0 live memories\n"


def test_a_full_store_goes_round_in_every_form(run: Run, workspace: Workspace, store: Store, actor: Actor) -> None:
    contents = {f"/{number % 50}/{number}.md": b"%d\r\n" % number * (number % 30) for number in range(MAX_MEMORIES)}
    workspace.memories.apply(
        store.id, [Create(ids.new_id(ids.MEMORY), path, content) for path, content in contents.items()], actor
    )
    for name in ("out", "out.tar.gz", "out.jsonl"):
        run("store", "export", store.id, name)
        copy = workspace.stores.create(name)
        run("store", "import", copy.id, name)
        assert memories(workspace, copy) == contents
