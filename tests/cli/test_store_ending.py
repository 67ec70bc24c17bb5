"""``memfs store archive`` and ``memfs store delete``: asked for on a terminal, plain in scripts."""

import json
import os
from pathlib import Path

import pytest

from memfs.cli import exits, store_ending
from memfs.model import ids
from memfs.model.errors import Busy, StorageFailed
from memfs.model.mutations import Create
from memfs.model.records import Actor, Store
from memfs.mount import runtime
from memfs.workspace import Workspace
from memfs.workspace.stores import Stores
from tests.cli.answering import INTERRUPT, answered
from tests.cli.conftest import Run
from tests.mount.harness import site

SECRET = b"the only copy of a sentence that must go"


@pytest.fixture
def filled(workspace: Workspace, store: Store, actor: Actor) -> Store:
    """A store with one memory, which has two versions."""
    memory_id = ids.new_id(ids.MEMORY)
    workspace.memories.apply(store.id, [Create(memory_id, "/a", SECRET)], actor)
    workspace.memories.update(store.id, memory_id, actor, content=b"new")
    return store


def exists(workspace: Workspace, store: Store) -> bool:
    """Whether a store is there."""
    return store in workspace.stores.list(include_archived=True)


# archive


def test_archive_makes_a_store_one_that_can_only_be_read(run: Run, workspace: Workspace, filled: Store) -> None:
    result = run("store", "archive", "user-preferences")
    assert result.stdout == f"archived the store 'User preferences' ({filled.id})\n"
    assert result.stderr == "", "not on a terminal it does not ask"
    assert workspace.stores.get(filled.id).archived_at is not None
    assert run("store", "list", "-q").stdout == ""
    assert run("memory", "show", filled.id, "/a").stdout == "new"


def test_archive_twice_is_archiving_once(run: Run, workspace: Workspace, store: Store) -> None:
    shown = json.loads(run("store", "archive", store.id, "--format", "json").stdout)
    assert shown["archived_at"] is not None
    assert "is archived already" in run("store", "archive", store.id).stdout
    assert json.loads(run("store", "archive", store.id, "--yes", "--format", "jsonl").stdout) == shown


def test_archive_asks_on_a_terminal(workspace: Workspace, db: Path, store: Store) -> None:
    declined = answered(db, "store", "archive", store.id, answer=b"n\n")
    assert (declined.code, declined.stdout) == (exits.REFUSED, b"")
    assert f"archive the store 'User preferences' ({store.id})?" in declined.terminal
    assert "no way back" in declined.terminal
    assert "memfs: nothing was archived" in declined.terminal
    assert workspace.stores.get(store.id) == store
    agreed = answered(db, "store", "archive", store.id, "--format", "json", answer=b"y\n")
    assert agreed.code == 0
    assert json.loads(agreed.stdout)["archived_at"] is not None, "stdout holds the object alone"
    again = answered(db, "store", "archive", store.id)
    assert (again.code, again.terminal) == (0, ""), "there is nothing left to ask"


def test_archive_does_not_ask_with_yes(workspace: Workspace, db: Path, store: Store) -> None:
    assert answered(db, "store", "archive", store.id, "--yes").terminal == ""
    assert workspace.stores.get(store.id).archived_at is not None


# delete


def bytes_on_disk(db: Path) -> bytes:
    """Everything that is in the database's files."""
    return b"".join(path.read_bytes() for path in db.parent.glob(f"{db.name}*"))


def test_delete_takes_everything_out_of_the_file(run: Run, workspace: Workspace, db: Path, filled: Store) -> None:
    assert SECRET in bytes_on_disk(db)
    result = run("store", "delete", "user-preferences", "--yes")
    assert result.stdout == f"deleted the store 'User preferences' ({filled.id})\n"
    assert result.stderr == ""
    assert not exists(workspace, filled)
    assert SECRET not in bytes_on_disk(db)
    run("store", "delete", filled.id, "--yes", code=exits.NOT_FOUND)


@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_delete_for_programs(run: Run, workspace: Workspace, store: Store, format_: str) -> None:
    other = workspace.stores.create("Other")
    workspace.stores.archive(store.id)
    result = run("store", "delete", store.id, "--yes", "--format", format_)
    assert json.loads(result.stdout) == {"id": store.id, "type": "memory_store_deleted"}
    assert workspace.stores.list(include_archived=True) == [other]


def test_delete_needs_yes_where_nobody_can_be_asked(run: Run, workspace: Workspace, store: Store) -> None:
    result = run("store", "delete", store.id, code=exits.REFUSED, stdin=b"y\n")
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)
    assert "--yes" in result.stderr
    assert exists(workspace, store)


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"yesterday\n", b"\xff\n", b"\x04", b"User preferences\n"])
def test_delete_takes_only_yes_for_a_yes(workspace: Workspace, db: Path, filled: Store, answer: bytes) -> None:
    ended = answered(db, "store", "delete", filled.id, answer=answer)
    assert (ended.code, ended.stdout) == (exits.REFUSED, b"")
    assert f"delete the store 'User preferences' ({filled.id}) with 1 memory and 2 versions?" in ended.terminal
    assert "memfs: nothing was deleted" in ended.terminal
    assert exists(workspace, filled)


@pytest.mark.parametrize("answer", [b"y\n", b"YES\n"])
def test_delete_that_is_agreed_to(workspace: Workspace, db: Path, filled: Store, answer: bytes) -> None:
    ended = answered(db, "store", "delete", filled.id, "--format", "jsonl", answer=answer)
    assert ended.code == 0
    assert json.loads(ended.stdout) == {"id": filled.id, "type": "memory_store_deleted"}
    assert not exists(workspace, filled)


def test_delete_that_is_interrupted_at_the_question(workspace: Workspace, db: Path, store: Store) -> None:
    assert answered(db, "store", "delete", store.id, answer=INTERRUPT).code == exits.INTERRUPTED
    assert exists(workspace, store)


def test_delete_does_not_ask_with_yes_but_shows_that_it_works(workspace: Workspace, db: Path, store: Store) -> None:
    ended = answered(db, "store", "delete", store.id, "--yes")
    assert ended.code == 0
    assert "[y/N]" not in ended.terminal
    assert "clearing the file" in ended.terminal


def test_a_long_history_is_not_counted_to_its_end(
    monkeypatch: pytest.MonkeyPatch, workspace: Workspace, filled: Store
) -> None:
    monkeypatch.setattr(store_ending, "COUNTED", 1)
    assert store_ending._contents(workspace, filled).endswith("with 1 memory and more than 1 versions")


@pytest.mark.parametrize(
    "error, code",
    [(Busy("another process reads an old state"), exits.REFUSED), (KeyboardInterrupt(), exits.INTERRUPTED)],
)
def test_a_deletion_that_could_not_clear_the_file_says_so(
    run: Run, workspace: Workspace, store: Store, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    delete = Stores.delete

    def deletes_but(stores: Stores, store_id: str) -> None:
        delete(stores, store_id)
        raise error

    monkeypatch.setattr(Stores, "delete", deletes_but)
    result = run("store", "delete", store.id, "--yes", code=code)
    assert result.stdout == f"deleted the store 'User preferences' ({store.id})\n"
    assert "not every byte" in result.stderr
    assert (str(error) or "interrupted") in result.stderr
    assert not exists(workspace, store)


def test_a_deletion_that_failed_is_none(
    run: Run, workspace: Workspace, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(stores: Stores, store_id: str) -> None:
        raise StorageFailed("an I/O error")

    monkeypatch.setattr(Stores, "delete", fails)
    result = run("store", "delete", store.id, "--yes", code=exits.DATABASE)
    assert (result.stdout, result.stderr) == ("", "memfs: an I/O error\n")
    assert exists(workspace, store)


# Mounts


class Held:
    """The state of a root whose supervisor lives, or does not."""

    def __init__(self, alive: bool) -> None:
        self._alive = alive

    def alive(self) -> bool:
        """As RootState has it."""
        return self._alive


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch, db: Path, store: Store) -> None:
    """Records that say the store is mounted at /m/ours, by us; the others are not it."""

    def mount(path: str, store_id: str, database: Path, *, alive: bool = True) -> tuple[Held, runtime.RootRecord]:
        made = runtime.MountRecord(path, store_id, "User preferences", "read_write", 1)
        record = runtime.RootRecord("/m", str(database), "sesn_1", 1, "/m", True, False, (made,))
        return Held(alive), record

    copy = db.with_name("copy.db")
    copy.write_bytes(b"")
    found = [
        mount("/m/gone", store.id, db.with_name("gone.db")),
        mount("/m/copy", store.id, copy),
        mount("/m/other", ids.new_id(ids.MEMORY_STORE), db),
        mount("/m/dead", store.id, db, alive=False),
        mount("/m/ours", store.id, db),
    ]
    in_sandbox = runtime.RootRecord("/m", str(db), "sesn_2", 7, "/m", True, False, (found[-1][1].mounts[0],), sandbox=8)
    kinds = {runtime.ROOTS: found, runtime.RUNS: [(Held(True), in_sandbox)]}
    monkeypatch.setattr(runtime, "records", lambda kind=runtime.ROOTS: kinds[kind])


@pytest.mark.usefixtures("mounted")
def test_delete_says_where_the_store_was_mounted(run: Run, store: Store) -> None:
    result = run("store", "delete", store.id, "--yes")
    places = "/m/ours, /m/ours (of memfs run 7)"
    assert result.stderr == f"memfs: it was mounted at {places}, where everything answers 'Stale file handle' now\n"


@pytest.mark.usefixtures("mounted")
def test_the_question_says_where_the_store_is_mounted(
    run: Run, workspace: Workspace, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_ending, "somebody_there", lambda: True)
    monkeypatch.setattr(store_ending, "agreed", lambda question: False)
    result = run("store", "delete", store.id, code=exits.REFUSED)
    for place in ("/m/ours", "/m/ours (of memfs run 7)"):
        assert f"it is mounted at {place}, where everything will answer 'Stale file handle'\n" in result.stderr
    assert exists(workspace, store)


def test_a_deletion_does_not_depend_on_the_mounts_records(
    run: Run, workspace: Workspace, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> list[object]:
        raise PermissionError("the runtime directory is another user's")

    monkeypatch.setattr(runtime, "records", fails)
    assert run("store", "delete", store.id, "--yes").stderr == ""
    assert not exists(workspace, store)


@pytest.mark.mount
def test_what_becomes_of_real_mounts(tmp_path: Path) -> None:
    with site(tmp_path) as at:
        for name in ("kept", "ended"):
            at.store(name)
        kept, ended = at.mount("kept", "ended")
        for directory in (kept, ended):
            (directory / "a").write_text("text\n")
        assert at.run("store", "archive", "kept").stderr == ""
        assert (kept / "a").read_text() == "text\n"
        with pytest.raises(OSError, match="Read-only file system"):
            (kept / "b").write_text("text\n")
        assert str(ended) in at.run("store", "delete", "ended", "--yes").stderr
        with pytest.raises(OSError, match="Stale file handle"):
            (ended / "a").read_text()
        assert (kept / "a").read_text() == "text\n"


def test_delete_of_a_store_that_is_not_there(run: Run, workspace: Workspace, store: Store) -> None:
    for command in (["delete", "nothing"], ["delete", "nothing", "--yes"], ["archive", "nothing"]):
        result = run("store", *command, code=exits.NOT_FOUND)
        assert result.stderr == "memfs: there is no store 'nothing': 'memfs store list' shows the stores\n"
    assert exists(workspace, store)


def test_a_store_that_is_deleted_leaves_no_files(run: Run, db: Path, store: Store) -> None:
    before = set(os.listdir(db.parent))
    run("store", "delete", store.id, "--yes")
    assert set(os.listdir(db.parent)) <= before
