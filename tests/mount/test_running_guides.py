"""The guides to running, sessions and the prompt: every command and program in them is executed."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from memfs.workspace import SessionFilter, Workspace
from tests.mount.harness import LIMIT, Site
from tests.mount.namespaces import needs_user_namespaces
from tests.processes import ROOT, environment

pytestmark = [pytest.mark.mount, needs_user_namespaces]

GUIDES = ROOT / "docs" / "guide"


def blocks(name: str, language: str) -> list[str]:
    """The fenced blocks of a guide."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (GUIDES / f"{name}.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def desk(user: Site) -> Site:
    """A user's site, with a program that is called as Claude Code and says what it is told."""
    programs = user.directory / "bin"
    programs.mkdir()
    claude = programs / "claude"
    claude.write_text('#!/bin/sh\nprintf "claude was told: %s\\n" "$@"\n')
    claude.chmod(0o755)
    return user


def follow(at: Site, name: str) -> str:
    """Run a guide from its beginning; returns what it wrote."""
    scripts = [script for script in blocks(name, "sh") if "apt install" not in script]
    return at.shell("\n".join(["exec </dev/null", *scripts]))


def ended(at: Site) -> list[bool]:
    """Of each session, oldest first, whether it has ended."""
    with Workspace.open(at.db, read_only=True) as workspace:
        found = workspace.sessions.list(SessionFilter(include_archived=True), newest_first=False)
    return [each.ended_at is not None for each in found]


def test_running_an_agent(desk: Site) -> None:
    desk.store("Team standards")
    said = follow(desk, "running")
    assert desk.heads("project-notes") == {"/tests.md": b"The tests need /dev/fuse.\n"}
    assert "claude was told: -p\nclaude was told: What do you know about the tests?" in said
    assert ended(desk) == [True, True, True]


def test_sessions(desk: Site) -> None:
    said = follow(desk, "sessions")
    assert "project-notes\nteam-standards\n" in said
    assert '"mount_path": "/mnt/memory/team-standards"' in said
    assert ended(desk) == [True, False, False]
    assert "Check before any task. One file a subject." in said


def test_the_note_for_the_system_prompt(desk: Site) -> None:
    said = follow(desk, "prompt")
    assert said.count("claude was told: --append-system-prompt\nclaude was told: MEMORY") == 2
    assert 'path: "/mnt/memory/project-notes"' in said
    assert f'path: "{desk.directory}/memory/project-notes"' in said
    assert "# Memory" in said


class Answering(BaseHTTPRequestHandler):
    """Answers each request for a message with the same one, and remembers what was asked."""

    asked: list[dict[str, Any]]

    def do_POST(self) -> None:
        """One request."""
        self.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        answer = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "They need /dev/fuse."}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def answering() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers as the Messages API does: where it is, and what it was asked."""
    asked: list[dict[str, Any]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Answering,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_messages_api(at: Site) -> None:
    at.run("store", "create", "Project notes", "--description", "What we know")
    at.shell("memfs store list")  # which makes the command
    (program,) = blocks("prompt", "python")
    variables = environment(MEMFS_DB=str(at.db), ANTHROPIC_API_KEY="x")
    variables["PATH"] = f"{at.directory / 'bin'}:{variables['PATH']}"
    with answering() as (url, asked):
        done = subprocess.run(
            [sys.executable, "-bb", "-c", program],
            env=variables | {"ANTHROPIC_BASE_URL": url},
            cwd=Path("/"),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "They need /dev/fuse.\n"), done.stderr
    (system,) = asked[0]["system"]
    assert system["text"].startswith("You keep the books.\n\nMEMORY\n")
    assert 'description: "What we know"' in system["text"]
