"""``memfs version export``: the history as lines, and a file that is there as a whole or not at all."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.cli import exits, history, version_export
from memfs.model.contract import version_object
from memfs.model.records import Actor, MemoryVersion, Store
from memfs.workspace import Workspace
from tests.cli.conftest import Run
from tests.cli.readers import stops_reading
from tests.cli.terminal import MEMFS, at_terminal
from tests.processes import environment

SESSION = Actor("session_actor", "sesn_01M8NMQFRP7HNTABQQHZR3KZM6")


@pytest.fixture
def versions(workspace: Workspace, store: Store, actor: Actor) -> list[MemoryVersion]:
    """A history with a rename, a deletion and a redaction, the oldest first, with content."""
    memory = workspace.memories.create(store.id, "/a", "é\u2028\r\n\0\x1b".encode(), actor)
    workspace.memories.update(store.id, memory.id, SESSION, content=b"two", path="/b")
    workspace.memories.update(store.id, memory.id, SESSION, content=b"three")
    workspace.memories.create(store.id, "/other", b"", actor)
    workspace.memories.delete(store.id, memory.id, actor)
    second = workspace.versions.list(store.id)[-2]
    workspace.versions.redact(store.id, [second.id], actor)
    return workspace.versions.list(store.id, content=True)[::-1]


def lines(text: bytes) -> list[object]:
    assert text == b"" or text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.parametrize("words", [[], ["-"]])
def test_the_lines_are_the_versions_oldest_first(
    run: Run, store: Store, versions: list[MemoryVersion], words: list[str]
) -> None:
    result = run("version", "export", "user-preferences", *words)
    assert lines(result.stdout_bytes) == [version_object(version) for version in versions]
    assert all(line.isprintable() for line in result.stdout_bytes.decode().split("\n"))
    assert result.stderr == "exported 5 versions\n"


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_it_reads_page_by_page(
    run: Run, store: Store, versions: list[MemoryVersion], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(history, "CONTENT_PAGE", size)
    found = lines(run("version", "export", store.id).stdout_bytes)
    assert found == [version_object(version) for version in versions]


@pytest.mark.parametrize(
    "options, numbers",
    [
        (["--operation", "created"], [0, 3]),
        (["--session", SESSION.id], [1, 2]),
        (["--user", "alice", "--memory", "/other"], [3]),
        (["--user", "nobody"], []),
        (["--key", "nobody"], []),
        (["--since", "1h"], [0, 1, 2, 3, 4]),
        (["--until", "1h"], []),
        (["--older-than", "1h"], []),
        (["--older-than", "0s"], [0, 1, 2, 3, 4]),
    ],
)
def test_it_takes_the_options_of_list(
    run: Run, store: Store, versions: list[MemoryVersion], options: list[str], numbers: list[int]
) -> None:
    found = lines(run("version", "export", store.id, *options).stdout_bytes)
    assert found == [version_object(versions[number]) for number in numbers]


def test_until_and_an_age_must_both_fit(run: Run, store: Store, versions: list[MemoryVersion]) -> None:
    options = ["--until", versions[1].created_at, "--older-than", "0s"]
    assert len(lines(run("version", "export", store.id, *options).stdout_bytes)) == 2
    options = ["--until", versions[1].created_at, "--older-than", "1h"]
    assert lines(run("version", "export", store.id, *options).stdout_bytes) == []
    run("version", "export", store.id, "--memory", "/never", code=exits.NOT_FOUND)
    run("version", "export", store.id, "--older-than", "x", code=exits.INVALID)
    run("version", "export", store.id, "--limit", "1", code=exits.INVALID)


def test_a_file_is_its_owners_alone(run: Run, store: Store, versions: list[MemoryVersion]) -> None:
    mask = os.umask(0)
    try:
        result = run("version", "export", store.id, "history.jsonl")
    finally:
        os.umask(mask)
    assert result.stdout == ""
    assert result.stderr == "exported 5 versions to history.jsonl\n"
    assert lines(Path("history.jsonl").read_bytes()) == [version_object(version) for version in versions]
    assert Path("history.jsonl").stat().st_mode & 0o777 == 0o600
    assert os.listdir() == ["history.jsonl"]


def test_a_file_is_not_overwritten_without_force(run: Run, store: Store, versions: list[MemoryVersion]) -> None:
    Path("x").write_text("mine")
    result = run("version", "export", store.id, "x", code=exits.REFUSED)
    assert result.stderr == "memfs: x is there already: choose another name, or replace it with --force\n"
    assert Path("x").read_text() == "mine"
    run("version", "export", store.id, "x", "--force", "--operation", "deleted")
    assert len(lines(Path("x").read_bytes())) == 1
    run("version", "export", store.id, "new", "--force")
    assert sorted(os.listdir()) == ["new", "x"]


def test_a_link_stays_and_what_it_leads_to_is_written(run: Run, store: Store, versions: list[MemoryVersion]) -> None:
    os.mkdir("d")
    os.symlink("d/real", "link")
    run("version", "export", store.id, "link")
    assert os.path.islink("link")
    assert len(lines(Path("d/real").read_bytes())) == 5
    run("version", "export", store.id, "link", code=exits.REFUSED)
    run("version", "export", store.id, "link", "--force")
    assert os.path.islink("link")


@pytest.mark.parametrize(
    "name, said", [("d", "is not a file"), ("/dev/null", "is not a file"), ("no/x", "make it first")]
)
def test_what_cannot_be_written(run: Run, store: Store, versions: list[MemoryVersion], name: str, said: str) -> None:
    os.mkdir("d")
    for force in ([], ["--force"]):
        assert said in run("version", "export", store.id, name, *force, code=exits.REFUSED).stderr
    assert os.listdir() == ["d"]
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(
    "error, code", [(OSError(28, "No space left on device"), exits.REFUSED), (KeyboardInterrupt(), exits.INTERRUPTED)]
)
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_no_half_file_is_left(
    run: Run,
    store: Store,
    versions: list[MemoryVersion],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    force: list[str],
) -> None:
    def broken(*arguments: object) -> Iterator[MemoryVersion]:
        yield versions[0]
        raise error

    if force:
        Path("x").write_text("mine")
    monkeypatch.setattr(version_export, "oldest_first", broken)
    result = run("version", "export", store.id, "x", *force, code=code)
    assert "exported" not in result.stderr
    assert [Path(name).read_text() for name in os.listdir()] == (["mine"] if force else [])


def test_what_appeared_meanwhile_is_not_overwritten(
    run: Run, store: Store, versions: list[MemoryVersion], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: object) -> Iterator[MemoryVersion]:
        Path("x").write_text("theirs")
        yield versions[0]

    monkeypatch.setattr(version_export, "oldest_first", slow)
    assert "is there already" in run("version", "export", store.id, "x", code=exits.REFUSED).stderr
    os.unlink("x")

    def no_links(*arguments: object, **how: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    assert "is there already" in run("version", "export", store.id, "x", code=exits.REFUSED).stderr
    assert [Path(name).read_text() for name in os.listdir()] == ["theirs"]
    monkeypatch.setattr(version_export, "oldest_first", lambda *_: iter(versions))
    run("version", "export", store.id, "y")
    assert len(lines(Path("y").read_bytes())) == 5


def test_on_a_terminal_a_file_shows_how_far_it_is(store: Store, versions: list[MemoryVersion], db: Path) -> None:
    sent = at_terminal(db, "version", "export", store.id, "x")
    assert "exporting" in sent
    assert "exported 5 versions to x" in sent
    assert len(lines(Path("x").read_bytes())) == 5


def test_a_reader_that_stops_reading_ends_it_quietly(
    workspace: Workspace, store: Store, actor: Actor, db: Path
) -> None:
    for number in range(20):
        workspace.memories.create(store.id, f"/{number}", b"x" * 100_000, actor)
    stops_reading(db, "version", "export", store.id)


def test_a_full_disk_is_an_error(store: Store, versions: list[MemoryVersion], db: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [*MEMFS, "--db", db, "version", "export", store.id],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert (result.returncode, result.stderr) == (exits.REFUSED, b"memfs: No space left on device\n")
