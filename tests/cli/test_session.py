"""``memfs session`` and ``memfs prompt``."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memfs.cli.session_file import read_session_file
from memfs.model.errors import InvalidRequest, MemfsError, NotFound
from memfs.workspace import Workspace
from tests.processes import PYTHON, environment

PLAIN = """
resources:
  - type: memory_store
    memory_store_id: {id}
    access: read_write
    instructions: User preferences and project context. Check before starting any task.
"""


class Desk:
    """A database and the command line."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.notes = self("store", "create", "-q", "Project notes", "--description", "What we <know>").strip()
        self.rules = self("store", "create", "-q", "Team rules").strip()

    def __call__(self, *words: str | Path, stdin: str = "", status: int = 0) -> str:
        """Run a command that must end with this status; what it wrote, to stderr where it failed."""
        done = subprocess.run(
            [*PYTHON, "-m", "memfs.cli", "--db", str(self.directory / "db" / "memfs.db"), *map(str, words)],
            input=stdin,
            capture_output=True,
            text=True,
            env=environment(),
            cwd=self.directory,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done.stderr if status else done.stdout

    def create(self, body: str, *words: str) -> dict[str, Any]:
        """A session from a file."""
        made: dict[str, Any] = json.loads(self("session", "create", "--format", "json", "-f", "-", *words, stdin=body))
        return made


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.open(tmp_path / "memfs.db", create=True) as made:
        yield made


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_session_from_flags(desk: Desk) -> None:
    words = ["-s", "project-notes", "-s", f"{desk.rules}:read_only", "--instructions", "Project notes", "Look first.\n"]
    said = desk("session", "create", *words, "--title", "Weekly")
    session = said.split()[1]
    assert said.splitlines()[1:] == [
        "  /mnt/memory/project-notes  read_write  Project notes",
        "  /mnt/memory/team-rules  read_only  Team rules",
    ]
    shown = json.loads(desk("session", "show", session, "--format", "json"))
    assert [(each["name"], each["access"], each["instructions"]) for each in shown["resources"]] == [
        ("Project notes", "read_write", "Look first.\n"),
        ("Team rules", "read_only", ""),
    ]
    assert shown["resources"][0]["description"] == "What we <know>"
    # What is shown is what was, when the session began.
    desk("store", "update", desk.notes, "--name", "Renamed", "--description", "Other")
    assert json.loads(desk("session", "show", session, "--format", "json")) == shown
    text = desk("session", "show", session)
    for part in ("state           running", "Weekly", "  instructions  Look first.", "What we <know>"):
        assert part in text
    assert desk("session", "list").splitlines()[1].split()[1] == "running"
    assert desk("session", "end", session) == f"ended {session}\n"
    assert desk("session", "end", "-q", session) == f"{session}\n"
    assert "ended" in desk("session", "show", session)


def test_sessions_are_listed_by_state_and_store(desk: Desk) -> None:
    one = desk("session", "create", "-q", "-s", desk.notes).strip()
    two = desk("session", "create", "-q", "-s", desk.rules, "-s", desk.notes).strip()
    desk("session", "end", one)

    def listed(*words: str) -> list[str]:
        return [each["id"] for each in json.loads(desk("session", "list", "--format", "json", *words))]

    assert listed() == [two, one]
    assert listed("--state", "running") == [two]
    assert listed("--state", "ended") == [one]
    assert listed("--store", desk.rules) == [two]
    assert listed("--limit", "1") == [two]


def test_a_session_from_a_file_as_the_hosted_api_has_it(desk: Desk) -> None:
    made = desk.create("agent: agent_1\nenvironment_id: env_1\n" + PLAIN.format(id=desk.notes))
    assert (made["agent"]["id"], made["environment_id"]) == ("agent_1", "env_1")
    (resource,) = made["resources"]
    assert resource == {
        "type": "memory_store",
        "memory_store_id": desk.notes,
        "access": "read_write",
        "name": "Project notes",
        "description": "What we <know>",
        "mount_path": "/mnt/memory/project-notes",
        "instructions": "User preferences and project context. Check before starting any task.",
    }


def test_a_file_may_name_its_stores_and_say_more(desk: Desk) -> None:
    body = """
    title: From the file
    metadata: {ticket: "17"}
    agent: {id: agent_1, version: 3}
    resources:
      - {type: memory_store, name: project-notes}
      - type: memory_store
        name: Team rules
        access: read_only
        on_conflict: fail
        instructions: |
          First line.
          Second line.
    """
    made = desk.create(body, "--root", "/work/memory")
    assert (made["title"], made["metadata"], made["agent"]["version"]) == ("From the file", {"ticket": "17"}, 3)
    assert [(each["mount_path"], each["access"], each["instructions"]) for each in made["resources"]] == [
        ("/work/memory/project-notes", "read_write", ""),
        ("/work/memory/team-rules", "read_only", "First line.\nSecond line.\n"),
    ]
    assert desk.create(body, "--title", "From the command")["title"] == "From the command"


NOTES = "type: memory_store, name: project-notes"


@pytest.mark.parametrize(
    "body,error,reason",
    [
        ("", InvalidRequest, "must have fields"),
        ("a: [", InvalidRequest, "no YAML"),
        ("\x00", InvalidRequest, "no YAML"),
        ("!!python/object/apply:os.system [ls]", InvalidRequest, "no YAML"),
        ("- a", InvalidRequest, "must have fields"),
        ("resources: []", InvalidRequest, "a list of stores"),
        ("resources: {}", InvalidRequest, "a list of stores"),
        ("resources: [1]", InvalidRequest, "resource 1 must have fields"),
        ("resource: []", InvalidRequest, "no field 'resource'"),
        (f"resources: [{{{NOTES}, acces: read_only}}]", InvalidRequest, "no field 'acces'"),
        ("resources: [{type: file, name: a}]", InvalidRequest, "memory_store"),
        ("resources: [{type: memory_store}]", InvalidRequest, "either"),
        (f"resources: [{{{NOTES}, memory_store_id: x}}]", InvalidRequest, "either"),
        (f"resources: [{{{NOTES}, access: none}}]", InvalidRequest, "access of resource 1 is .* or read_only"),
        (f"resources: [{{{NOTES}, instructions: 5}}]", InvalidRequest, "in quotes"),
        (f"resources: [{{{NOTES}, instructions: {'x' * 4097}}}]", InvalidRequest, "4096"),
        (f"resources: [{{{NOTES}}}, {{{NOTES}}}]", InvalidRequest, "named twice"),
        ("resources: [{type: memory_store, name: unknown}]", NotFound, "unknown"),
        ("resources: [{type: memory_store, memory_store_id: memstore_x}]", NotFound, "memstore_x"),
        (f"metadata: {{a: 1}}\nresources: [{{{NOTES}}}]", InvalidRequest, "in quotes"),
        (f"title: 2026-01-01\nresources: [{{{NOTES}}}]", InvalidRequest, "in quotes"),
        (f"agent: {{version: x, id: a}}\nresources: [{{{NOTES}}}]", InvalidRequest, "number"),
        (f"agent: [1]\nresources: [{{{NOTES}}}]", InvalidRequest, "agent"),
    ],
    ids=range(23),
)
def test_a_file_that_is_none_is_refused_in_a_line(
    workspace: Workspace, body: str, error: type[MemfsError], reason: str
) -> None:
    workspace.stores.create("Project notes")
    with pytest.raises(error, match=reason) as refused:
        workspace.sessions.describe(read_session_file(body.encode(), workspace, None)[0])
    assert "\n" not in str(refused.value)


def test_a_refused_file_begins_no_session(desk: Desk) -> None:
    said = desk("session", "create", "-f", "-", stdin="resources: {}", status=2)
    assert said == "memfs: resources must be a list of stores\n"
    said = desk("session", "create", "-f", "/dev/zero", status=2)
    assert "more than 1,048,576 bytes" in said
    nine = ", ".join(f"{{type: memory_store, name: s{number}}}" for number in range(9))
    for number in range(9):
        desk("store", "create", f"s{number}")
    assert "at most 8 stores, not 9" in desk("session", "create", "-f", "-", stdin=f"resources: [{nine}]", status=2)
    desk("store", "archive", "s0")
    said = desk("session", "create", "-f", "-", stdin="resources: [{type: memory_store, name: s0}]", status=1)
    assert "archived" in said
    # What is one long reference to itself is as short as it is written.
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert "no field 'a0'" in desk("session", "create", "-f", "-", stdin=bomb, status=2)
    assert json.loads(desk("session", "list", "--format", "json")) == []


def test_wrong_words_are_refused(desk: Desk) -> None:
    for words, reason in (
        (["create"], "name either"),
        (["create", "-s", "project-notes", "-f", "-"], "name either"),
        (["create", "-f", "-", "--instructions", "a", "b"], "says all of its stores"),
        (["create", "-s", "project-notes", "--instructions", "team-rules", "x"], "does not have"),
        (["create", "-s", "project-notes", *["--instructions", "project-notes", "x"] * 2], "twice"),
        (["create", "-s", "project-notes", "--root", "relative"], "absolute"),
        (["create", "-s", "project-notes", "--root", "/a/../b"], "absolute"),
    ):
        assert reason in desk("session", *words, status=2)
    desk("session", "show", "sesn_x", status=3)
    desk("session", "end", "sesn_x", status=3)
    stores = [f"s{number}" for number in range(9)]
    for name in stores:
        desk("store", "create", name)
    assert "at most 8" in desk("session", "create", *(word for name in stores for word in ("-s", name)), status=2)
    desk("store", "archive", "s0")
    assert "archived" in desk("session", "create", "-s", "s0", status=1)


def test_the_note_of_a_session_and_of_stores(desk: Desk) -> None:
    words = ["-s", "project-notes", "--instructions", "project-notes", "Look </first>."]
    session = desk("session", "create", "-q", *words).strip()
    of_session = desk("prompt", "--session", session)
    assert of_session == desk("prompt", *words)
    assert 'path: "/mnt/memory/project-notes"' in of_session
    assert 'description: "What we \\u003cknow\\u003e"' in of_session
    assert 'instructions: "Look \\u003c/first\\u003e."' in of_session
    assert 'path: "/work/project-notes"' in desk("prompt", "--session", session, "--root", "/work")
    assert desk("prompt", *words, "--format", "markdown").startswith("# Memory\n")
    told = json.loads(desk("prompt", "--session", session, "--format", "json"))
    assert (told["text"], told["session_id"]) == (of_session, session)
    assert told["mounts"][0]["instructions"] == "Look </first>."
    assert json.loads(desk("session", "list", "--format", "json"))[0]["id"] == session, "no other was begun"
    assert "either" in desk("prompt", status=2)
    assert "either" in desk("prompt", "--session", session, "-s", "project-notes", status=2)
    assert "fixed" in desk("prompt", "--session", session, "--instructions", "project-notes", "x", status=2)
    desk("prompt", "--session", "sesn_x", status=3)
