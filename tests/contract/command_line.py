"""The command line: JSON from stdout, refusals from stderr and the exit code."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from click.testing import CliRunner, Result

from memfs.cli.context import actor
from memfs.cli.exits import EXIT_CODES, INVALID
from memfs.cli.main import main
from memfs.model.contract import JsonObject
from memfs.model.errors import MemfsError
from memfs.workspace import VersionFilter
from tests.contract.surfaces import EVERY_VERSION, Kind, Page, Refusal, View

UNSET: dict[str, str | None] = dict.fromkeys(("MEMFS_DB", "MEMFS_DEBUG", "XDG_DATA_HOME"))
"""As a user who has set nothing."""


def command(*words: str, stdin: bytes = b"") -> Result:
    """Run ``memfs`` in this process."""
    return CliRunner().invoke(main, words, input=stdin, prog_name="memfs", env=UNSET)


def refusal(code: int, stderr: str) -> Refusal:
    """What a command that failed has said: one line of ours, or click's on usage."""
    if stderr.startswith("Usage: memfs "):
        assert code == INVALID, (code, stderr)
        return Refusal(code, stderr.partition("\nError: ")[2].removesuffix("\n"))
    *notes, last = stderr.splitlines()
    assert notes == [], stderr
    assert last.startswith("memfs: "), stderr
    return Refusal(code, last.removeprefix("memfs: "))


def _options(**values: str | None) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None]


def _lacking() -> NoReturn:
    raise NotImplementedError("see LACKING")


class CliDriver:
    """Runs commands with ``--format json``; contents come by standard input."""

    name = "cli"

    def __init__(self, db: Path) -> None:
        self._db = db
        self.actor: JsonObject = actor().as_json()

    def kind_of(self, error: type[MemfsError]) -> Kind:
        return EXIT_CODES[error]

    def _run(self, noun: str, verb: str, options: Sequence[str], *words: str, stdin: bytes = b"") -> Any:
        line = ["--db", str(self._db), noun, verb, "--format", "json", *options, "--", *words]
        result = command(*line, stdin=stdin)
        if result.exit_code == 0:
            return json.loads(result.stdout_bytes)
        assert result.stdout_bytes == b""
        raise refusal(result.exit_code, result.stderr)

    # Stores

    def create_store(self, name: str, description: str = "", metadata: Mapping[str, str] | None = None) -> JsonObject:
        pairs = [f"--metadata={key}={value}" for key, value in (metadata or {}).items()]
        made: JsonObject = self._run("store", "create", [*_options(description=description), *pairs], name)
        return made

    def get_store(self, store_id: str) -> JsonObject:
        found: JsonObject = self._run("store", "show", [], store_id)
        return found

    def update_store(
        self,
        store_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> JsonObject:
        options = _options(name=name, description=description)
        for key, value in (metadata or {}).items():
            options.append(f"--remove-metadata={key}" if value is None else f"--metadata={key}={value}")
        changed: JsonObject = self._run("store", "update", options, store_id)
        return changed

    def list_stores(self, *, include_archived: bool = False) -> list[JsonObject]:
        found: list[JsonObject] = self._run("store", "list", ["--include-archived"] if include_archived else [])
        return found

    def archive_store(self, store_id: str) -> JsonObject:
        archived: JsonObject = self._run("store", "archive", ["--yes"], store_id)
        return archived

    def delete_store(self, store_id: str) -> JsonObject:
        deleted: JsonObject = self._run("store", "delete", ["--yes"], store_id)
        return deleted

    # Memories

    def create_memory(self, store_id: str, path: str, content: bytes = b"text\n") -> JsonObject:
        made: JsonObject = self._run("memory", "create", [], store_id, path, "-", stdin=content)
        return made

    def get_memory(self, store_id: str, memory_id: str) -> JsonObject:
        found: JsonObject = self._run("memory", "show", [], store_id, memory_id)
        return found

    def update_memory(
        self,
        store_id: str,
        memory_id: str,
        *,
        content: bytes | None = None,
        path: str | None = None,
        expected_sha256: str | None = None,
    ) -> JsonObject:
        dash = [] if content is None else ["-"]
        options = _options(path=path, if_sha256=expected_sha256)
        changed: JsonObject = self._run("memory", "update", options, store_id, memory_id, *dash, stdin=content or b"")
        return changed

    def delete_memory(self, store_id: str, memory_id: str, *, expected_sha256: str | None = None) -> JsonObject:
        deleted: JsonObject = self._run("memory", "delete", _options(if_sha256=expected_sha256), store_id, memory_id)
        return deleted

    def list_memories(
        self, store_id: str, prefix: str = "/", *, depth: int = 0, view: View = "basic"
    ) -> list[JsonObject]:
        if view == "full":
            _lacking()
        found: list[JsonObject] = self._run("memory", "list", _options(prefix=prefix, depth=str(depth)), store_id)
        return found

    # Versions

    def list_versions(
        self, store_id: str, where: VersionFilter = EVERY_VERSION, *, view: View = "basic"
    ) -> list[JsonObject]:
        if view == "full" or where.service_account_id is not None:
            _lacking()
        options = _options(
            memory=where.memory_id,
            operation=where.operation,
            session=where.session_id,
            key=where.api_key_id,
            user=where.user_id,
            since=where.created_from,
            until=where.created_to,
        )
        found: list[JsonObject] = self._run("version", "list", options, store_id)
        return found

    def get_version(self, store_id: str, version_id: str) -> JsonObject:
        found: JsonObject = self._run("version", "show", [], store_id, version_id)
        return found

    def redact_version(self, store_id: str, version_id: str) -> JsonObject:
        redacted: JsonObject = self._run("version", "redact", ["--yes"], store_id, version_id)
        return redacted

    # What it lacks

    def list_stores_between(self, created_from: str | None, created_to: str | None) -> list[JsonObject]:
        _lacking()

    def store_page(self, limit: int, page: Any = None) -> Page:
        _lacking()

    def memory_page(self, store_id: str, limit: int, page: Any = None, *, depth: int = 0) -> Page:
        _lacking()

    def version_page(self, store_id: str, limit: int, page: Any = None) -> Page:
        _lacking()

    def session_page(self, store_id: str, limit: int, page: Any = None) -> Page:
        _lacking()

    def create_session(
        self,
        resources: Sequence[JsonObject],
        *,
        title: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> JsonObject:
        given = {"resources": list(resources), "title": title, "metadata": metadata}
        described = {name: value for name, value in given.items() if value is not None}
        made: JsonObject = self._run("session", "create", ["--file=-"], stdin=json.dumps(described).encode())
        return made

    def get_session(self, session_id: str) -> JsonObject:
        found: JsonObject = self._run("session", "show", [], session_id)
        return found

    def list_sessions(self, store_id: str, *, include_archived: bool = False) -> list[JsonObject]:
        state = "all" if include_archived else "running"
        found: list[JsonObject] = self._run("session", "list", [f"--store={store_id}", f"--state={state}"])
        return found

    def archive_session(self, session_id: str) -> JsonObject:
        ended: JsonObject = self._run("session", "end", [], session_id)
        return ended
