"""``memfs serve`` as a command: starting, saying where, warning, refusing, stopping. What it answers: tests/api."""

import http.client
import signal
import socket
import ssl
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from memfs.api import app, server
from memfs.cli import exits
from memfs.cli.serve import DEFAULT_MAX_BODY, DEFAULT_PORT, DEFAULT_RATE
from memfs.workspace import Workspace
from tests.api.harness import new_key, serving
from tests.cli.conftest import Run
from tests.processes import PYTHON, environment, python


def test_help_tells_the_defaults_of_the_server() -> None:
    defaults = server.Serving()
    assert (
        defaults.port,
        defaults.max_body_bytes,
        defaults.requests_per_second,
    ) == (DEFAULT_PORT, DEFAULT_MAX_BODY, DEFAULT_RATE)
    assert (app.MAX_BODY_BYTES, app.REQUESTS_PER_SECOND) == (DEFAULT_MAX_BODY, DEFAULT_RATE)


def test_it_says_where_and_ends_well(db: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with serving(db, key=new_key(db)) as running:
            assert running.url.startswith("http://127.0.0.1:")
            assert running.request("GET", "/healthz", key=None).ok() == {"status": "ok"}
            assert running.stop(number) == 0
    with Workspace.open(db) as workspace:
        assert workspace.keys.list() != []


def test_uses_of_keys_are_on_record_after_a_stop(db: Path) -> None:
    with serving(db) as running:
        running.get("/v1/memory_stores").ok()
    with Workspace.open(db) as workspace:
        assert workspace.keys.list()[0].last_used_at is not None


def test_a_stop_waits_for_a_request_and_ends_a_stream(db: Path) -> None:
    with serving(db) as running, Workspace.open(db) as other:
        store = running.store()
        where = running.url.removeprefix("http://")
        stream = http.client.HTTPConnection(where, timeout=120)
        stream.request("GET", f"{store}/changes", headers={"x-api-key": running.key})
        events = stream.getresponse()
        assert events.status == 200
        answers = []

        def create() -> None:
            answers.append(running.post(f"{store}/memories", {"path": "/a", "content": "text"}))

        with other.engine.database.write():  # type: ignore[attr-defined]  # SQLite's own
            waiting = threading.Thread(target=create)
            waiting.start()
            deadline = time.monotonic() + 60
            while "memfs_http_requests_in_progress 3" not in running.get("/metrics").body.decode():
                assert time.monotonic() < deadline
            running.process.terminate()
            assert b"event: memory_store" in events.read(), "the stream ends, and what it said is whole"
        waiting.join(30)
        assert running.process.wait(30) == 0
        stream.close()
        assert answers[0].ok()["path"] == "/a"
    with Workspace.open(db) as workspace:
        assert [memory.path for memory in workspace.memories.list(store.rpartition("/")[2])] == ["/a"]


def refusal(*words: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [*PYTHON, "-m", "memfs.cli", *map(str, words)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_what_it_cannot_serve(db: Path, tmp_path: Path) -> None:
    assert refusal("--db", tmp_path / "none.db", "serve")[0] == exits.NOT_FOUND
    new_key(db)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = refusal("--db", db, "serve", "--port", str(taken.getsockname()[1]))
    assert code == exits.INVALID
    assert "choose another --host or --port" in said
    for options, what in (
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
        (["--host", "192.0.2.1"], "192.0.2.1"),
        (["--port", "70000"], "70000"),
        (["--rate", "-1"], "--rate"),
        (["--max-body", "1"], "--max-body"),
        (["--tls-cert", "cert.pem"], "--tls-key"),
        (["--tls-key", "key.pem"], "--tls-cert"),
        (["--tls-cert", "/none/cert.pem", "--tls-key", "/none/key.pem"], "/none/cert.pem"),
        (["--tls-cert", str(db), "--tls-key", str(db)], "PEM"),
    ):
        code, said = refusal("--db", db, "serve", "--port", "0", *options)
        assert code == exits.INVALID, options
        assert what in said, said


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost, and its key."""
    directory = tmp_path_factory.mktemp("tls")
    made = trustme.CA().issue_cert("localhost", "127.0.0.1")
    cert, key = directory / "cert.pem", directory / "key.pem"
    made.private_key_pem.write_to_path(key)
    for blob in made.cert_chain_pems:
        blob.write_to_path(cert, append=True)
    return cert, key


def test_over_tls(db: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    with serving(db, "--host", "0.0.0.0", "--tls-cert", str(cert), "--tls-key", str(key)) as running:
        assert running.url.startswith("https://localhost:")
        port = int(running.url.rpartition(":")[2])
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=context)
        connection.request("GET", "/v1/memory_stores", headers={"x-api-key": running.key})
        assert connection.getresponse().status == 200
        connection.close()
        assert "on their way" not in running.logged


def test_an_open_address_without_tls_is_warned_of(db: Path) -> None:
    with serving(db, "--host", "0.0.0.0") as running:
        assert "anybody who can reach 0.0.0.0 can read keys" in running.logged
        assert "no valid API key" not in running.logged
    with serving(db, "--host", "127.0.0.2") as running:
        assert running.logged.count("anybody who can reach") == 1


def test_without_a_key_it_says_how_to_get_one(run: Run, db: Path, workspace: Workspace) -> None:
    with serving(db, key="none") as running:
        assert "make one with 'memfs key create'" in running.logged
        running.request("GET", "/v1/memory_stores", key="none").refused(401, "authentication_error")
        secret = run("key", "create", "-q", "late").stdout.strip()
        assert running.request("GET", "/v1/memory_stores", key=secret).ok()["data"] == []


def test_the_access_log_can_be_left_out(db: Path) -> None:
    with serving(db) as running:
        request = running.get("/v1/memory_stores", limit=1).headers["request-id"]
        running.get("/healthz")
    with serving(db, "--no-access-log", key=new_key(db)) as quiet:
        other = quiet.get("/v1/memory_stores").headers["request-id"]
    lines = [line for line in running.logged.splitlines() if request in line]
    assert len(lines) == 1
    assert "method=GET path=/v1/memory_stores status=200" in lines[0]
    assert "key=apikey_" in lines[0]
    assert other not in quiet.logged
    assert running.key[-43:] not in running.logged


def test_the_extra_is_asked_for_where_it_is_not_installed(db: Path) -> None:
    new_key(db)
    code = """
import sys
sys.modules["fastapi"] = None
from memfs.cli.main import main
main(["--db", sys.argv[1], "serve"])
"""
    with python(code, db) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == exits.REFUSED
    assert "fastapi is not installed: pip install 'memfs-agent[api]'" in errors


def test_a_log_that_nobody_reads_does_not_stop_it(db: Path) -> None:
    secret = new_key(db)
    with subprocess.Popen(
        [*PYTHON, "-m", "memfs.cli", "--db", str(db), "serve", "--port", "0", "--rate", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            where = process.stdout.readline().strip().removeprefix("http://")
            connection = http.client.HTTPConnection(where, timeout=120)
            for _ in range(800):
                connection.request("GET", "/v1/memory_stores", headers={"x-api-key": secret})
                assert connection.getresponse().read()
            connection.close()
            process.terminate()
            assert process.wait(30) == 0
            assert process.stderr.read().count("path=/v1/memory_stores") > 100
        finally:
            process.kill()


def test_a_second_signal_waits_for_nothing(db: Path) -> None:
    with serving(db, expected_warnings=True) as running, Workspace.open(db) as other:
        store = running.store()

        def create() -> None:
            with suppress(OSError, http.client.HTTPException):
                running.post(f"{store}/memories", {"path": "/a", "content": "text"})

        waiting = threading.Thread(target=create)
        with other.engine.database.write():  # type: ignore[attr-defined]  # SQLite's own
            waiting.start()
            deadline = time.monotonic() + 60
            while "memfs_http_requests_in_progress 2" not in running.get("/metrics").body.decode():
                assert time.monotonic() < deadline
            running.process.terminate()
            waiting.join(1)
            assert waiting.is_alive()
            running.process.terminate()
            waiting.join(20)
        assert running.process.wait(30) == 0
