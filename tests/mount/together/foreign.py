"""Writers that are no mounts: the HTTP API, the command line, and SQL at a prompt."""

import subprocess
import sys
from hashlib import sha256
from typing import Protocol

from memfs.model import ids
from memfs.workspace import Workspace
from tests.api.harness import Server
from tests.mount.harness import LIMIT, Site
from tests.mount.together.mounts import STORE


class Writer(Protocol):
    """Who can save and remove a memory."""

    def do(self, how: str, path: str, text: str = "") -> object:
        """``how`` is ``make``, ``write`` or ``unlink``; when this returns it is done."""


class Api:
    """A client of ``memfs serve``."""

    def __init__(self, server: Server, store_id: str) -> None:
        self._server = server
        self._memories = f"/v1/memory_stores/{store_id}/memories"
        self._ids: dict[str, str] = {}

    def do(self, how: str, path: str, text: str = "") -> None:
        """A request."""
        if how == "make":
            self._ids[path] = self._server.post(self._memories, {"path": path, "content": text}).ok()["id"]
        elif how == "write":
            self._server.post(f"{self._memories}/{self._ids[path]}", {"content": text}).ok()
        else:
            self._server.delete(f"{self._memories}/{self._ids.pop(path)}").ok()


class CommandLine:
    """Somebody at a shell."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def do(self, how: str, path: str, text: str = "") -> None:
        """A command."""
        command = {"make": "create", "write": "update", "unlink": "delete"}[how]
        content = () if how == "unlink" else ("--content", text)
        self._site.run("memory", command, STORE, path, *content)


PROMPT = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=30).executescript(sys.stdin.read())"


class Prompt:
    """Somebody who knows the tables, at a prompt of SQLite: a process in which nothing is of memfs."""

    def __init__(self, site: Site, store_id: str) -> None:
        self._site = site
        self._store = store_id
        self._ids: dict[str, str] = {}

    def do(self, how: str, path: str, text: str = "") -> None:
        """A script."""
        if how == "make":
            self._ids[path] = ids.new_id(ids.MEMORY)
        memory = self._ids[path]
        operation = {"make": "created", "write": "modified", "unlink": "deleted"}[how]
        version = ids.new_id(ids.MEMORY_VERSION, after=self._last_version())
        script = f"""
            BEGIN IMMEDIATE;
            INSERT INTO changes (store_id, subject, memory_id) VALUES ('{self._store}', 'memory', '{memory}');
            INSERT INTO memory_versions
                (sequence, id, store_id, memory_id, operation, path, created_at, created_by_type, created_by_id)
            SELECT max(sequence), '{version}', '{self._store}', '{memory}',
                '{operation}', '{path}',
                strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'), 'user_actor', 'prompt' FROM changes;
        """
        if how == "unlink":
            script += f"DELETE FROM memories WHERE id = '{memory}';"
        else:
            digest, size = sha256(text.encode()).hexdigest(), len(text.encode())
            content = f"(SELECT id FROM contents WHERE sha256 = '{digest}')"
            script += f"""
                INSERT OR IGNORE INTO contents (sha256, size_bytes, bytes)
                VALUES ('{digest}', {size}, CAST('{text}' AS BLOB));
                UPDATE memory_versions
                SET content_sha256 = '{digest}', content_size_bytes = {size}, content_id = {content}
                WHERE id = '{version}';
            """
            if how == "make":
                script += f"""
                    INSERT INTO memories (id, store_id, path, head_version_id, content_sha256, content_size_bytes,
                        content_id, created_at, updated_at)
                    SELECT memory_id, store_id, path, id, content_sha256, content_size_bytes, content_id, created_at,
                        created_at FROM memory_versions WHERE id = '{version}';
                """
            else:
                script += f"""
                    UPDATE memories SET head_version_id = '{version}', content_sha256 = '{digest}',
                        content_size_bytes = {size}, content_id = {content}, updated_at =
                        (SELECT created_at FROM memory_versions WHERE id = '{version}') WHERE id = '{memory}';
                """
        subprocess.run(
            [sys.executable, "-c", PROMPT, self._site.db],
            input=script + "COMMIT;",
            text=True,
            timeout=LIMIT,
            check=True,
        )

    def _last_version(self) -> str | None:
        with Workspace.open(self._site.db, read_only=True) as workspace:
            versions = workspace.versions.list(self._store, limit=1)
        return versions[0].id if versions else None
