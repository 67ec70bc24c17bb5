"""The surfaces themselves: what each lacks, whether their tables of errors agree, and the command as a process."""

import subprocess
from pathlib import Path

import pytest

from memfs.api.answers import ANSWERS
from memfs.cli import exits
from memfs.model import errors
from memfs.model.errors import NotFound, all_errors
from memfs.workspace import VersionFilter
from tests.contract.command_line import command, refusal
from tests.contract.judging import refusal_of
from tests.contract.scene import UNKNOWN_MEMORY, UNKNOWN_STORE
from tests.contract.surfaces import LACKING, SURFACES, Driver, having
from tests.processes import PYTHON, environment

AGREEING: dict[int, set[int]] = {
    exits.REFUSED: {400, 401, 403, 409, 500},
    exits.INVALID: {400},
    exits.NOT_FOUND: {404},
    exits.CONFLICT: {409},
    exits.DATABASE: {500},
    exits.TRY_AGAIN: {503},
}
"""Which statuses an error may have that has an exit code."""


def test_the_tables_of_errors_agree() -> None:
    assert set(exits.EXIT_CODES) == set(ANSWERS) == all_errors()
    for error in all_errors():
        status, _ = ANSWERS[error]
        assert status in AGREEING[exits.EXIT_CODES[error]], error
    # What the API gives a status of its own is no matter of wrong usage at the command line.
    for status, code in ((404, exits.NOT_FOUND), (503, exits.TRY_AGAIN)):
        assert [e for e in all_errors() if ANSWERS[e][0] == status] == [
            e for e in all_errors() if exits.EXIT_CODES[e] == code
        ]


OF_THE_CONTRACT: dict[type[errors.MemfsError], tuple[int, tuple[int, str]]] = {
    errors.InvalidRequest: (2, (400, "invalid_request_error")),
    errors.InvalidPath: (2, (400, "invalid_request_error")),
    errors.PathTooLong: (2, (400, "invalid_request_error")),
    errors.ContentTooLarge: (2, (400, "invalid_request_error")),
    errors.ContentNotText: (2, (400, "invalid_request_error")),
    errors.TooManyStores: (2, (400, "invalid_request_error")),
    errors.StoreArchived: (1, (400, "invalid_request_error")),
    errors.VersionInUse: (1, (400, "invalid_request_error")),
    errors.NotAuthenticated: (1, (401, "authentication_error")),
    errors.NotPermitted: (1, (403, "permission_error")),
    errors.NotFound: (3, (404, "not_found_error")),
    errors.PathConflict: (4, (409, "memory_path_conflict_error")),
    errors.PreconditionFailed: (4, (409, "memory_precondition_failed_error")),
    errors.StoreFull: (1, (409, "conflict_error")),
}
"""What CONTRACT.md 2 and the help of ``memfs`` promise: the tables cannot be their own proof."""


@pytest.mark.parametrize("error", OF_THE_CONTRACT, ids=lambda error: error.__name__)
def test_the_tables_of_errors_are_as_promised(error: type[errors.MemfsError]) -> None:
    assert (exits.EXIT_CODES[error], ANSWERS[error]) == OF_THE_CONTRACT[error]


def test_every_surface_is_known_and_lacks_what_it_lacks_for_a_reason() -> None:
    for surface, what in LACKING:
        assert surface in SURFACES
        assert surface not in having(what)
        assert "workspace" in having(what), "what the workspace lacks is no rule"
    assert having(None) == list(SURFACES)


LATER: dict[str, tuple[list[str], list[str]]] = {
    "pages": (["memory", "list"], ["--page", "--limit"]),
    "full lists": (["memory", "list"], ["--view", "--full", "--content"]),
    "stores by time": (["store", "list"], ["--since", "--until"]),
    "versions by service account": (["version", "list"], ["--service-account"]),
}


@pytest.mark.parametrize("what", LATER)
def test_the_command_line_still_lacks_it(what: str) -> None:
    words, options = LATER[what]
    shown = command(*words, "--help").stdout
    assert "Usage: memfs" in shown
    assert not [option for option in options if f"  {option}" in shown], "the suite can use it now"


@pytest.mark.parametrize("words", [["store", "update"], ["memory", "update", UNKNOWN_STORE]], ids=["store", "memory"])
def test_the_command_line_refuses_empty_updates(words: list[str]) -> None:
    result = command(*words, UNKNOWN_MEMORY)
    found = refusal(result.exit_code, result.stderr)
    assert (found.kind, found.message[:17]) == (exits.INVALID, "nothing to change")


def test_the_command_line_refuses_histories_that_never_were(drivers: dict[str, Driver]) -> None:
    store = drivers["cli"].create_store("Notes")["id"]
    found = refusal_of(drivers["cli"], lambda s: s.list_versions(store, VersionFilter(memory_id=UNKNOWN_MEMORY)))
    assert found.kind == exits.NOT_FOUND
    assert "never had a memory" in found.message


def test_a_memory_by_its_path(drivers: dict[str, Driver]) -> None:
    """The API takes ids alone: a path cannot stand in a URL's segment. It must not take one for an id either."""
    store = drivers["workspace"].create_store("Notes")["id"]
    made = drivers["workspace"].create_memory(store, "/a")
    for name in ("workspace", "cli"):
        assert drivers[name].get_memory(store, "/a")["id"] == made["id"]
    api = drivers["api"]
    found = refusal_of(api, lambda s: s.get_memory(store, "a"))
    assert found.kind == api.kind_of(NotFound)
    assert "a memory's id is mem_ and 26 characters" in found.message


def test_an_empty_prefix(drivers: dict[str, Driver]) -> None:
    """In a query it is a parameter without a value, which clients send for one that is not set; elsewhere a mistake."""
    store = drivers["workspace"].create_store("Notes")["id"]
    made = drivers["workspace"].create_memory(store, "/a")
    assert drivers["api"].list_memories(store, "") == [made]
    for name in ("workspace", "cli"):
        found = refusal_of(drivers[name], lambda s: s.list_memories(store, ""))
        assert found.kind == drivers[name].kind_of(errors.InvalidRequest)
        assert found.message == "a path prefix starts and ends with '/': ''"


def test_the_command_as_a_process(drivers: dict[str, Driver], shared_db: Path) -> None:
    """What runs in this process elsewhere in the suite: a refusal, and bytes that pass through untouched."""
    store = drivers["workspace"].create_store("Notes")["id"]
    command = [*PYTHON, "-m", "memfs.cli", "--db", str(shared_db), "memory"]
    content = "\ufeffé\r\n\0".encode()

    def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*command, *words], input=stdin, capture_output=True, env=environment(), timeout=120, check=False
        )

    made = run("create", "-q", "--", store, "/a", "-", stdin=content)
    assert (made.returncode, made.stderr) == (0, b"")
    memory_id = made.stdout.decode().strip()
    assert drivers["api"].get_memory(store, memory_id)["content"].encode() == content

    def act(driver: Driver) -> object:
        return driver.update_memory(store, memory_id, content=b"x" * 10, path="/a/../b")

    expected = refusal_of(drivers["cli"], act)
    refused = run("update", "--path=/a/../b", "--", store, memory_id, "-", stdin=b"x" * 10)
    assert refused.stdout == b""
    found = refusal(refused.returncode, refused.stderr.decode())
    assert (found.kind, found.message) == (expected.kind, expected.message)
