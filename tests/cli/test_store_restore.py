"""``memfs store restore``: a whole store back to a time or a version."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from memfs.cli import exits, store_restore
from memfs.cli.context import actor as person
from memfs.model import ids
from memfs.model.mutations import Create, Delete, Update
from memfs.model.records import Actor, Guards, Memory, Store, format_time, now
from memfs.workspace import Workspace
from memfs.workspace.restoring import RestorePlan, Restoring
from tests.cli.conftest import Run

LONG_AGO = "2020-02-29T12:00:00Z"


class Notes:
    """A store with a past, and what it was then."""

    def __init__(self, workspace: Workspace, store: Store, actor: Actor) -> None:
        self.workspace, self.store, self.actor = workspace, store, actor
        self.kept, self.changed, self.renamed, self.gone = (
            self.create(path, path) for path in ("/kept", "/changed", "/renamed", "/gone")
        )
        self.then = self.newest()
        self.was = self.texts()
        workspace.memories.apply(
            store.id,
            [Update(self.changed, content=b"new"), Update(self.renamed, path="/d/renamed"), Delete(self.gone)],
            actor,
        )
        self.made = self.create("/made", "made")

    def create(self, path: str, text: str) -> str:
        """Make a memory; returns its id."""
        made = ids.new_id(ids.MEMORY)
        self.workspace.memories.apply(self.store.id, [Create(made, path, text.encode())], self.actor)
        return made

    def texts(self) -> dict[str, tuple[str, bytes | None]]:
        """What is in it: path to memory and text."""
        found: list[Memory] = self.workspace.memories.list(self.store.id, content=True)
        return {memory.path: (memory.id, memory.content) for memory in found}

    def newest(self) -> str:
        """The newest version."""
        return self.workspace.versions.list(self.store.id, limit=1)[0].id

    def number(self) -> int:
        """How long the history is."""
        return len(self.workspace.versions.list(self.store.id))

    def version(self, memory_id: str) -> str:
        """The first version of a memory."""
        return next(v.id for v in self.workspace.versions.list(self.store.id)[::-1] if v.memory_id == memory_id)


@pytest.fixture
def notes(workspace: Workspace, store: Store, actor: Actor) -> Notes:
    """A store with a past."""
    return Notes(workspace, store, actor)


def test_a_dry_run_shows_and_does_nothing(run: Run, notes: Notes) -> None:
    now_there, number = notes.texts(), notes.number()
    result = run("store", "restore", "user-preferences", "--at", notes.then, "--dry-run")
    assert result.stderr == ""
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["ACTION", "PATH", "FROM", "VERSION"]
    assert lines[1:5] == [
        ["modify", "/changed", notes.version(notes.changed)],
        ["create", "/gone", notes.version(notes.gone)],
        ["delete", "/made"],
        ["rename", "/renamed", "/d/renamed"],
    ]
    assert result.stdout.splitlines()[5:] == [
        "create 1, modify 1, rename 1, delete 1, unchanged 1",
        "nothing was changed: this was a dry run",
    ]
    assert (notes.texts(), notes.number()) == (now_there, number)


def test_restore_shows_the_plan_and_carries_it_out(run: Run, notes: Notes) -> None:
    dry = run("store", "restore", notes.store.id, "--at", notes.then, "--dry-run").stdout
    result = run("store", "restore", notes.store.id, "--at", notes.then)
    assert result.stdout.splitlines()[:-1] == dry.splitlines()[:-1]
    assert result.stdout.splitlines()[-1] == "restored, in 4 new versions"
    assert result.stderr == ""
    assert notes.texts() == notes.was
    versions = notes.workspace.versions.list(notes.store.id)[:4]
    assert {version.created_by for version in versions} == {person()}
    again = run("store", "restore", notes.store.id, "--at", notes.then).stdout.splitlines()
    assert again[-1] == "nothing to do: everything is as it was then"


def test_a_restore_can_be_undone(run: Run, notes: Notes) -> None:
    later, texts = notes.newest(), notes.texts()
    run("store", "restore", notes.store.id, "--at", notes.then)
    run("store", "restore", notes.store.id, "--at", later)
    assert notes.texts() == texts


@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_restore_for_programs(run: Run, notes: Notes, format_: str) -> None:
    arguments = ["store", "restore", notes.store.id, "--at", notes.then, "--format", format_]
    dry = json.loads(run(*arguments, "--dry-run").stdout)
    assert list(dry) == ["store_id", "applied", "unchanged", "steps", "lost"]
    assert (dry["store_id"], dry["applied"], dry["unchanged"], dry["lost"]) == (notes.store.id, False, 1, [])
    fields = ["action", "memory_id", "path", "former_path", "memory_version_id"]
    assert [list(step) for step in dry["steps"]] == [fields] * 4
    assert [list(step.values()) for step in dry["steps"]] == [
        ["modify", notes.changed, "/changed", None, notes.version(notes.changed)],
        ["create", notes.gone, "/gone", None, notes.version(notes.gone)],
        ["delete", notes.made, "/made", None, None],
        ["rename", notes.renamed, "/renamed", "/d/renamed", None],
    ]
    result = run(*arguments)
    assert json.loads(result.stdout) == {**dry, "applied": True}
    assert result.stderr == ""
    assert notes.texts() == notes.was
    nothing = json.loads(run(*arguments).stdout)
    assert (nothing["applied"], nothing["unchanged"], nothing["steps"]) == (True, 4, [])


# Points in time


def test_a_time_from_a_list_covers_its_second(
    run: Run, workspace: Workspace, store: Store, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(["2026-11-30T09:12:01.400000Z", "2026-11-30T09:12:01.900000Z", "2026-11-30T09:12:02.000000Z"])
    monkeypatch.setattr("memfs.engine.batch.now", lambda: next(moments))
    for path in ("/a", "/b", "/c"):
        workspace.memories.apply(store.id, [Create(ids.new_id(ids.MEMORY), path, b"")], actor)
    monkeypatch.undo()
    monkeypatch.setattr("memfs.workspace.restoring.now", lambda: "2026-12-24T00:00:00.000000Z")
    monkeypatch.setattr(store_restore, "now", lambda: "2026-12-24T00:00:00.000000Z")
    for time, expected in (
        ("2026-11-30T09:12:01Z", ["/c"]),
        ("2026-11-30T10:12:01+01:00", ["/c"]),
        ("2026-11-30T09:12:01.4Z", ["/b", "/c"]),
        ("2026-11-30T09:12:02.000000Z", []),
        ("2026-11-30", []),
    ):
        shown = run("store", "restore", store.id, "--at", time, "--dry-run", "--format", "json").stdout
        assert [step["path"] for step in json.loads(shown)["steps"]] == expected, time


@pytest.mark.parametrize("span", ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ", "0s"])
def test_what_is_not_over_yet_means_until_now(run: Run, notes: Notes, span: str) -> None:
    time = datetime.now(UTC).strftime(span)
    assert run("store", "restore", notes.store.id, "--at", time, "--dry-run").stdout.startswith("create 0, modify 0")


def test_a_time_to_come_or_before_the_store(run: Run, notes: Notes) -> None:
    tomorrow = format_time(datetime.now(UTC) + timedelta(days=1))
    for time, said in ((tomorrow, "still to come"), (LONG_AGO, "was made at"), ("52w", "was made at")):
        result = run("store", "restore", notes.store.id, "--at", time, code=exits.INVALID)
        assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)
        assert said in result.stderr


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "mem_01M8NMQFRQEHGZHQHXSA2763V0", "\udcff"])
def test_what_is_neither_time_nor_version(run: Run, notes: Notes, text: str) -> None:
    assert "is no time" in run("store", "restore", notes.store.id, "--at", text, code=exits.INVALID).stderr


def test_a_version_that_is_not_there(run: Run, notes: Notes) -> None:
    for text in ("memver_01M8NMQFRQEHGZHQHXSA2763V0", "memver_", "memver_\udcff"):
        result = run("store", "restore", notes.store.id, "--at", text, code=exits.NOT_FOUND)
        assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)


def test_a_point_in_time_is_needed(run: Run, notes: Notes) -> None:
    assert "--at" in run("store", "restore", notes.store.id, code=exits.INVALID).stderr


# Refusals


def test_an_archived_store_is_refused_before_anything_is_shown(run: Run, notes: Notes) -> None:
    notes.workspace.stores.archive(notes.store.id)
    result = run("store", "restore", notes.store.id, "--at", notes.then, code=exits.REFUSED)
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)
    assert "archived" in result.stderr
    assert "create 1" in run("store", "restore", notes.store.id, "--at", notes.then, "--dry-run").stdout


def test_a_guard_refuses_the_whole_restore(run: Run, notes: Notes) -> None:
    notes.workspace.stores.set_guards(notes.store.id, Guards(allowed_paths=("/changed", "/made")))
    texts, number = notes.texts(), notes.number()
    result = run("store", "restore", notes.store.id, "--at", notes.then, "--format", "json", code=exits.REFUSED)
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)
    assert (notes.texts(), notes.number()) == (texts, number)


def test_what_was_redacted_is_named_and_left_on_request(run: Run, notes: Notes) -> None:
    lost = [notes.version(notes.changed), notes.version(notes.gone)]
    notes.workspace.versions.redact(notes.store.id, lost, notes.actor)
    texts, number = notes.texts(), notes.number()
    arguments = ["store", "restore", notes.store.id, "--at", notes.then]
    for format_ in ("table", "json"):
        result = run(*arguments, "--format", format_, code=exits.REFUSED)
        assert result.stdout == ""
        assert sorted(result.stderr.splitlines()[:2]) == [
            "memfs: /changed: its version of that time was redacted",
            f"memfs: {notes.gone} (its path was redacted): its version of that time was redacted",
        ]
        assert result.stderr.splitlines()[2:] == [
            "memfs: nothing was restored: 2 memories cannot be put back; --keep-lost leaves them as they are and"
            " restores the rest"
        ]
    dry = run(*arguments, "--dry-run")
    assert len(dry.stderr.splitlines()) == 2
    assert dry.stdout.splitlines()[-2:] == [
        "create 0, modify 0, rename 1, delete 1, unchanged 1, lost 2",
        "nothing was changed: this was a dry run; to restore, say --keep-lost too",
    ]
    assert (notes.texts(), notes.number()) == (texts, number)
    shown = json.loads(run(*arguments, "--keep-lost", "--format", "json").stdout)
    assert shown["applied"] is True
    reason = "its version of that time was redacted"
    assert sorted(shown["lost"], key=lambda item: item["path"] or "") == [
        {"memory_id": notes.gone, "path": None, "reason": reason},
        {"memory_id": notes.changed, "path": "/changed", "reason": reason},
    ]
    assert set(notes.texts()) == {"/kept", "/changed", "/renamed"}
    assert notes.texts()["/changed"] == (notes.changed, b"new")
    again = run(*arguments, "--keep-lost")
    assert again.stdout.splitlines()[-1] == "nothing to do: everything else is as it was then"


def test_what_was_pruned_is_named(run: Run, notes: Notes) -> None:
    time = notes.workspace.versions.get(notes.store.id, notes.then).created_at
    notes.workspace.memories.update(notes.store.id, notes.changed, notes.actor, content=b"newer")
    notes.workspace.retention.prune(notes.store.id, now())
    result = run("store", "restore", notes.store.id, "--at", time, code=exits.REFUSED)
    assert "memfs: /changed: its history of that time was pruned" in result.stderr.splitlines()
    assert "--keep-lost" in result.stderr.splitlines()[-1]
    run("store", "restore", notes.store.id, "--at", time, "--keep-lost")
    assert notes.texts()["/changed"] == (notes.changed, b"newer")
    assert "/made" not in notes.texts()


# A store that changes meanwhile


def meddle(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object], times: int) -> None:
    """Change the store after each of so many plans."""
    plan, left = Restoring.plan, [times]

    def planned(restoring: Restoring, store_id: str, *, at: str | None, version_id: str | None) -> RestorePlan:
        found = plan(restoring, store_id, at=at, version_id=version_id)
        if left[0]:
            left[0] -= 1
            change()
        return found

    monkeypatch.setattr(Restoring, "plan", planned)


def test_a_store_that_changes_is_planned_for_again(run: Run, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    meddle(monkeypatch, lambda: notes.create("/late", ""), 1)
    result = run("store", "restore", notes.store.id, "--at", notes.then)
    assert result.stderr == "memfs: the store was changed meanwhile, and what was done is this\n"
    first, _, second = result.stdout.partition("unchanged 1\n")
    assert "/late" not in first
    assert "delete  /late" in second
    assert second.endswith("restored, in 5 new versions\n")
    assert notes.texts() == notes.was


def test_a_store_that_never_stops_changing_is_given_up(run: Run, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(100))
    meddle(monkeypatch, lambda: notes.create(f"/late/{next(numbers)}", ""), 100)
    arguments = ["store", "restore", notes.store.id, "--at", notes.then, "--format", "json"]
    result = run(*arguments, code=exits.CONFLICT)
    assert result.stdout == ""
    assert next(numbers) == store_restore.ATTEMPTS
    assert "was changed meanwhile: look again" in result.stderr.splitlines()[-1]


def test_restore_of_a_store_that_is_not_there(run: Run, workspace: Workspace) -> None:
    result = run("store", "restore", "nothing", "--at", "2h", code=exits.NOT_FOUND)
    assert result.stderr == "memfs: there is no store 'nothing': 'memfs store list' shows the stores\n"
