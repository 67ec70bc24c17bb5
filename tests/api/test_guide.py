"""What the guides of the API say can be followed as it stands, on a real server and a real mount."""

import os
import random
import re
import select
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.api.harness import START_SECONDS, Server, new_key, serving
from tests.mount.harness import Site, site
from tests.processes import PYTHON, ROOT, environment

GUIDES = ROOT / "docs" / "guide"
FOLLOWER = GUIDES / "examples" / "follow_store.py"

REVIEW_SECONDS = 220
"""It starts a dozen processes, three of which load the SDK: seconds on a quiet machine, a minute on a busy one."""

_BLOCKS = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

SETUP = """\
# What was started in the background may have ended by itself: that is no failure of the guide's.
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
waited() { for _ in {1..600}; do [ "$(grep -c "$2" "$1")" -ge "$3" ] && return; sleep 0.1; done; cat "$1"; exit 1; }
"""
"""Before the guide's own lines: what it leaves running ends with it. The second is for what comes by the stream."""


def blocks(name: str) -> list[tuple[str, str]]:
    """The shell scripts and the programs of a page, in their order."""
    return _BLOCKS.findall((GUIDES / f"{name}.md").read_text())


def script_of(name: str) -> str:
    """A page as one script."""
    parts = [text if language == "sh" else f"python - <<'PROGRAM'\n{text}PROGRAM\n" for language, text in blocks(name)]
    return "\n".join(parts)


@pytest.mark.mount
@pytest.mark.timeout(REVIEW_SECONDS + 60)
def test_the_review_runs_as_it_is_written(tmp_path: Path) -> None:
    with site(tmp_path) as at:
        output = review(at)
    assert output.count('"type":"memory_version"') == 2  # what the session wrote by then
    assert "-Two spaces, no tabs.\n+Four spaces, no tabs." in output
    assert "memory_precondition_failed_error" in output
    assert "\nTwo spaces, no tabs.\nLines have at most 120 characters.\n" in output
    assert output.count("redacted memver_") == 1
    assert '"status":"terminated"' in output
    followed = (tmp_path / "followed").read_text()
    assert re.search(r"^\S+ created /people.md by sesn_\w{26} \(memver_\w{26}\)$", followed, re.MULTILINE)
    assert "@@ -1 +1 @@\n-Two spaces, no tabs.\n+Four spaces, no tabs.\n" in followed
    assert "+Ada owns the API. Her token is 0000.\n" in followed
    raw = b"".join(path.read_bytes() for path in at.db.parent.iterdir())
    assert b"token is 0000" not in raw


def review(at: Site) -> str:
    """Run the guide with this site's root and a free port; returns what it printed."""
    script = script_of("reviewing")
    assert script.count("memfs ") >= 4
    for written, here in (
        ("memfs serve", "memfs serve --port 0"),
        ("./memory", str(at.root)),
        ("memory/project-notes", f"{at.root}/project-notes"),
        ("docs/guide/examples", str(GUIDES / "examples")),
    ):
        assert written in script
        script = script.replace(written, here)
    # The changes are told while they are made; the script would be over before the last of them is printed.
    script = script.replace("\ntoday=", "\nwaited stream '^event: memory_version' 3\nwaited followed memver_ 3\ntoday=")
    assert script.count("waited ") == 2
    programs = at.directory / "bin"
    programs.mkdir()
    for name, command in (("python", [sys.executable, "-bb"]), ("memfs", at.command())):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (programs / name).chmod(0o755)
    variables = at.environment()
    # timeout(1) makes a process group of it all, which ends with it also where the time is over.
    done = subprocess.run(
        ["timeout", "--kill-after", "5", str(REVIEW_SECONDS), "bash", "-euo", "pipefail", "-c", SETUP + script],
        cwd=at.directory,
        env={**variables, "PATH": f"{programs}:{variables['PATH']}"},
        capture_output=True,
        text=True,
        timeout=REVIEW_SECONDS + 10,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def following(server: Server, store_id: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The guide's program at work."""
    process = subprocess.Popen(
        [*PYTHON, str(FOLLOWER), store_id, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=server.key),
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def lines_until(process: subprocess.Popen[str], pattern: str) -> str:
    """What the program prints up to a line that matches."""
    assert process.stdout is not None
    printed = ""
    while not re.search(pattern, printed, re.MULTILINE):
        assert select.select([process.stdout], [], [], START_SECONDS)[0], f"no {pattern!r} after:\n{printed}"
        more = os.read(process.stdout.fileno(), 65_536)  # past the stream, whose buffer select does not see
        assert more, printed
        printed += more.decode()
    return printed


def fixed_port() -> str:
    """A free port that no client's connection takes while no server listens there."""
    first, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    for port in random.sample(range(10_000, first), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return str(port)
    raise AssertionError(f"of 100 ports below {first} none is free")


def test_the_follower_goes_on_after_a_restart_of_the_server(tmp_path: Path) -> None:
    db = tmp_path / "memfs.db"
    key = new_key(db)
    port = fixed_port()
    with serving(db, "--port", port, key=key) as server:
        store = server.store()
        memory = server.post(f"{store}/memories", {"path": "/a.md", "content": "one\n"}).ok()["id"]
        with following(server, store.rpartition("/")[2], "0") as process:
            assert "+one\n" in lines_until(process, "^[+]one")
            assert server.stop() == 0
            with serving(db, "--port", port, key=key) as again:
                again.post(f"{store}/memories/{memory}", {"content": "two\n", "path": "/b.md"}).ok()
                printed = lines_until(process, "^[+]two")
                again.delete(f"{store}/memories/{memory}").ok()
                printed += lines_until(process, "^-two")
                again.delete(store).ok()
                printed += lines_until(process, "deleted$")
                assert process.wait(START_SECONDS) == 0
    assert "created" not in printed  # told before the restart
    assert "was at /a.md\n@@ -1 +1 @@\n-one\n+two\n" in printed
    assert " deleted /b.md by apikey_" in printed


def test_the_follower_says_why_it_may_not(server: Server) -> None:
    with following(server, f"memstore_{'0' * 26}") as process:
        _, errors = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 1
    assert errors.startswith("404: there is no store memstore_")


PROGRAMS = [text for language, text in blocks("http-api") if language == "python"]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_programs_of_the_guide_to_the_api_run_as_they_are_written(server: Server, number: int) -> None:
    done = subprocess.run(
        [*PYTHON, "-c", PROGRAMS[number]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=server.key),
    )
    assert (done.returncode, done.stderr) == (0, "")
    # What each is there to show: a conflict and a history, a list, where to mount.
    shown = ("memory_path_conflict_error", "memstore_", "\n/mnt/memory/user-preferences\n/mnt/memory/team-standards\n")
    assert shown[number] in done.stdout


def test_the_reference_has_every_request_with_what_it_takes(server: Server) -> None:
    text = (ROOT / "docs" / "reference" / "http-api.md").read_text()
    rows = dict(re.findall(r"^\| `((?:GET|POST|DELETE) /[^`]*)` \|([^|]*)\| .* \|$", text, re.MULTILINE))
    assert rows.pop("GET /openapi.json")
    document = server.get("/openapi.json").ok()
    found = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method == "patch":
                assert "post" in operations, path
                continue
            takes = {each["name"] for each in operation.get("parameters", ()) if each["in"] != "path"}
            body = operation.get("requestBody")
            if body is not None:
                name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                takes |= set(document["components"]["schemas"][name]["properties"])
            found[f"{method.upper()} {path}"] = takes
    assert rows.keys() == found.keys()
    for request, takes in found.items():
        assert {name for name in takes if f"`{name}`" not in rows[request]} == set(), request
