"""A clock that jumps: the history's order is that of its sequence, whatever the times in it say."""

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from memfs.model.records import now
from memfs.workspace import Workspace
from tests.api.harness import Server, new_key, serving
from tests.faults.injecting import Faults
from tests.faults.places import FaultySite, saved

pytestmark = pytest.mark.mount

DAY = 86_400.0
JUMPS = [0.0, -400 * DAY, 3.0, 400 * DAY, -4_000 * DAY, 0.0]
"""By how many seconds the clock is wrong, one after the other."""


def all_pages(server: Server, path: str, **query: object) -> list[dict[str, Any]]:
    """Every item of a list, two at a time."""
    found: list[dict[str, Any]] = []
    page: dict[str, object] = {}
    while True:
        answer = server.get(path, limit=2, **query, **page).ok()
        found += answer["data"]
        if answer["next_page"] is None:
            return found
        page = {"page": answer["next_page"]}


def test_a_clock_that_jumps_leaves_every_history_and_list_in_order(at: FaultySite, notes: Path, faults: Faults) -> None:
    secret = new_key(at.db, expires_at="2030-01-01T00:00:00.000000Z")
    with serving(at.db, key=secret, variables=faults.environment) as server:
        (store,) = (f"/v1/memory_stores/{each['id']}" for each in server.get("/v1/memory_stores").ok()["data"])
        written = 0
        for jump in JUMPS:
            faults.set_clock(jump)
            assert saved(notes / "mounted.md", f"{written}\n") == "ok"
            body = {"path": f"/{written}.md", "content": "by the API\n"}
            server.post(f"{store}/memories", body).ok()
            at.run("memory", "create", "notes", f"/cli-{written}.md", "--content", "by the command\n")
            server.post("/v1/sessions", {"agent": "a", "environment_id": "e"})
            written += 1
            # What is just written is what is read, however old it says that it is.
            assert (notes / "mounted.md").read_text() == f"{written - 1}\n"
            assert (notes / f"cli-{written - 1}.md").read_text() == "by the command\n"
        faults.set_clock(0)
        history = at.history("notes")
        listed = all_pages(server, f"{store}/memory_versions")
        assert [each["id"] for each in listed] == [version.id for version in reversed(history)]
        sessions = all_pages(server, "/v1/sessions")
        assert len({each["id"] for each in sessions}) == len(sessions)
        memories = all_pages(server, f"{store}/memories")
        assert len(memories) == len({each["path"] for each in memories}) == len(at.heads("notes")) == 2 + 2 * written
    ids = [version.id for version in history]
    assert ids == sorted(set(ids)), "ids rise with the sequence"
    assert [version.sequence for version in history] == sorted(version.sequence for version in history)
    texts = [version.content for version in history if version.path == "/mounted.md"]
    assert texts == [f"{number}\n".encode() for number in range(written)]
    years = {version.created_at[:4] for version in history}
    assert len(years) >= 3, "the clock was wrong indeed"
    times = [version.created_at for version in history]
    assert any(one > other for one, other in itertools.pairwise(times))


def test_a_store_is_restored_to_a_point_of_its_history_whatever_the_times_say(
    at: FaultySite, notes: Path, faults: Faults
) -> None:
    for number, jump in enumerate(JUMPS):
        faults.set_clock(jump)
        assert saved(notes / "a.md", f"{number}\n") == "ok"
        assert saved(notes / f"only-{number}.md", "text\n") == "ok"
    faults.set_clock(0)
    versions = [version for version in at.history("notes") if version.path == "/a.md"]
    with Workspace.open(at.db, read_only=True) as workspace:
        store = workspace.stores.resolve("notes").id
        for number, version in enumerate(versions):
            plan = workspace.restoring.plan(store, version_id=version.id)
            assert not plan.lost
            gone = {step.path for step in plan.steps if step.action == "delete"}
            assert gone == {f"/only-{later}.md" for later in range(number, len(JUMPS))}
        # By a time: all that came before the last change that says to be from before it.
        assert not workspace.restoring.plan(store, at=now()).steps
    first = at.run("store", "restore", "notes", "--at", versions[1].id, "--format", "json").stdout
    assert json.loads(first)["applied"]
    assert (notes / "a.md").read_text() == "1\n"
    assert sorted(os.listdir(notes)) == ["a.md", "known.md", "only-0.md"]


def test_what_expires_goes_by_the_clock_and_comes_back_with_it(at: FaultySite, faults: Faults) -> None:
    secret = new_key(at.db, expires_at="2030-01-01T00:00:00.000000Z")
    with serving(at.db, key=secret, variables=faults.environment) as server:
        server.get("/v1/memory_stores").ok()
        faults.set_clock(4_000 * DAY)
        error = server.get("/v1/memory_stores").refused(401, "authentication_error")
        assert "expired at 2030" in error["message"]
        faults.set_clock(-4_000 * DAY)
        server.get("/v1/memory_stores").ok()
        faults.set_clock(0)
        server.get("/v1/memory_stores").ok()


def test_versions_go_by_their_place_in_the_history_and_not_by_a_clock_that_was_set_back(
    at: FaultySite, notes: Path, faults: Faults
) -> None:
    for number, jump in enumerate((0.0, -4_000 * DAY, 0.0)):
        faults.set_clock(jump)
        assert saved(notes / "a.md", f"{number}\n") == "ok"
    faults.set_clock(0)
    assert at.run("version", "prune", "notes", "--older-than", "30d", "--yes").stdout
    assert at.operations("notes", "/a.md") == [
        ("created", "/a.md", b"0\n"),
        ("modified", "/a.md", b"1\n"),
        ("modified", "/a.md", b"2\n"),
    ]
    assert at.run("check").stdout.startswith("sound: ")
