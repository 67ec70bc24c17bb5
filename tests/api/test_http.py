"""What the interface is beside its objects: headers, methods, betas, limits, health, metrics."""

import json
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.api.harness import Answer, Server, new_key, serving
from tests.processes import ROOT

BETAS = ("agent-memory-2026-07-22", "managed-agents-2026-04-01")


def test_every_answer_has_an_id_of_its_own(server: Server) -> None:
    answers = [server.get("/v1/memory_stores"), server.get("/none"), server.get("/healthz"), server.get("/metrics")]
    found = [answer.headers["request-id"] for answer in answers]
    assert len({*found}) == 4
    assert all(each.startswith("req_") for each in found)


def test_what_is_not_there(server: Server, store: str) -> None:
    for path in ("/", "/v1", "/v1/memory_store", "/docs", "/redoc", f"{store}/", f"{store}/memories/", "/v1/messages"):
        assert path in server.get(path).refused(404, "not_found_error")["message"]
    for method, path in (("PUT", store), ("DELETE", "/v1/memory_stores"), ("POST", f"{store}/changes")):
        answer = server.request(method, path)
        answer.refused(405, "invalid_request_error")
        assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize("path", ["/v1/memory_stores", "/v1/sessions"])
def test_betas_are_taken_one_at_a_time(server: Server, path: str) -> None:
    for beta in ("", *BETAS, "something-2030-01-01", f"{BETAS[0]},something-else", f"{BETAS[0]},{BETAS[0]}"):
        server.request("GET", path, headers={"anthropic-beta": beta, "anthropic-version": "2023-06-01"}).ok()
    for both in (",".join(BETAS), " , ".join(BETAS[::-1])):
        error = server.request("GET", path, headers={"anthropic-beta": both}).refused(400, "invalid_request_error")
        assert BETAS[0] in error["message"]
    server.get(path, beta="true").ok()


def test_patch_is_post_where_something_is_updated(server: Server, store: str) -> None:
    assert server.request("PATCH", store, {"description": "new"}).ok()["description"] == "new"
    made = server.post(f"{store}/memories", {"path": "/a", "content": "1"}).ok()
    memory = f"{store}/memories/{made['id']}"
    assert server.request("PATCH", memory, {"path": "/b"}).ok()["path"] == "/b"
    server.request("PATCH", f"{store}/memories", {"path": "/c", "content": ""}).refused(405, "invalid_request_error")


def test_a_misspelt_field_is_not_taken_for_none(server: Server, store: str) -> None:
    made = server.post(f"{store}/memories", {"path": "/a", "content": "1"}).ok()
    wrong = {"content": "2", "preconditon": {"type": "content_sha256", "content_sha256": "0" * 64}}
    error = server.post(f"{store}/memories/{made['id']}", wrong).refused(400, "invalid_request_error")
    assert error["message"] == "preconditon is no field of this request"
    assert server.get(f"{store}/memories/{made['id']}").ok()["content"] == "1"


@pytest.mark.parametrize(
    "body, said",
    [
        (b"", "the body must be a JSON object, with the header content-type: application/json"),
        (b"[]", "the body must be a JSON object, with the header content-type: application/json"),
        (b'"text"', "the body must be a JSON object, with the header content-type: application/json"),
        (b"{", "the body is no JSON, at character 1"),
        (b'{"path": "/a"}', "content is required"),
        (
            b'{"path": 1, "content": null}',
            "path: input should be a valid string; content: input should be a valid string",
        ),
    ],
)
def test_what_is_wrong_is_said(server: Server, store: str, body: bytes, said: str) -> None:
    error = server.request("POST", f"{store}/memories", body).refused(400, "invalid_request_error")
    assert error["message"] == said


def test_json_needs_no_content_type_but_forms_are_none(server: Server, store: str) -> None:
    body = json.dumps({"path": "/a", "content": "1"}).encode()
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=120)
    connection.request("POST", f"{store}/memories", body, {"x-api-key": server.key})
    assert connection.getresponse().status == 200
    connection.close()
    form = {"content-type": "application/x-www-form-urlencoded"}
    server.request("POST", f"{store}/memories", body, headers=form).refused(400, "invalid_request_error")


def test_the_largest_content_comes_in_however_it_is_written(server: Server, store: str) -> None:
    content = "\x01" * 102_400
    body = b'{"path": "/escaped", "content": "' + b"\\u0001" * 102_400 + b'"}'
    made = server.request("POST", f"{store}/memories", body, query={"view": "full"}).ok()
    assert made["content"] == content
    server.post(f"{store}/memories", {"path": "/b", "content": content + "x"}).refused(400, "invalid_request_error")


def test_a_body_over_the_limit(tmp_path: Path) -> None:
    with serving(tmp_path / "memfs.db", "--max-body", "8K") as server:
        store = server.store()

        def body(size: int) -> bytes:
            start = b'{"path": "/a", "content": "'
            return start + b"x" * (size - len(start) - 2) + b'"}'

        error = server.request("POST", f"{store}/memories", body(8193)).refused(413, "request_too_large")
        assert "8,192 bytes" in error["message"]
        connection = HTTPConnection(server.url.removeprefix("http://"), timeout=120)
        sent = iter([body(8193)[:5000], body(8193)[5000:]])
        headers = {"x-api-key": server.key, "content-type": "application/json"}
        connection.request("POST", f"{store}/memories", sent, headers, encode_chunked=True)
        answer = connection.getresponse()
        assert answer.status == 413
        assert json.loads(answer.read())["error"]["type"] == "request_too_large"
        connection.close()
        server.request("POST", f"{store}/memories", body(8192)).ok()


def test_too_many_requests_in_a_second(tmp_path: Path) -> None:
    db = tmp_path / "memfs.db"
    with serving(db, "--rate", "1") as server:
        other = new_key(db, "other")
        for key, kind in ((server.key, None), ("wrong", 401)):
            answers: list[Answer] = []
            refused: list[Answer] = []
            while len(refused) < 10 and len(answers) < 200:  # a slow machine's requests are fewer a second
                answers.append(server.request("GET", "/v1/memory_stores", key=key))
                refused = [answer for answer in answers if answer.status == 429]
            assert len(refused) == 10
            assert len(answers) > len(refused)
            assert {answer.status for answer in answers} == {429, kind or 200}
            for answer in refused:
                answer.refused(429, "rate_limit_error")
                assert int(answer.headers["retry-after"]) >= 1
        server.request("GET", "/v1/memory_stores", key=other).ok()
        assert server.request("GET", "/healthz", key=None).ok()


def test_figures(server: Server, store: str) -> None:
    def figures() -> dict[str, float]:
        lines = server.get("/metrics").body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    name = 'memfs_http_requests_total{method="GET",route="/v1/memory_stores/{store_id}",status="200"}'
    before = figures()
    server.get(store).ok()
    server.get("/nowhere/at/all")
    server.request("GET", store, key="wrong")
    after = figures()
    assert after[name] == before.get(name, 0) + 1
    assert not any("nowhere" in each for each in after), "a path that nobody serves makes no series"
    refused = 'memfs_http_refused_total{why="key"}'
    assert after[refused] == before.get(refused, 0) + 1
    assert after["memfs_http_requests_in_progress"] == 1
    assert after["process_resident_memory_bytes"] > 1e6
    assert any(each.startswith("memfs_info{version=") for each in after)


def test_it_is_not_well_without_its_database_and_well_again_with_it(tmp_path: Path) -> None:
    db, away = tmp_path / "memfs.db", tmp_path / "away.db"
    with serving(db, expected_warnings=True) as server:
        store = server.store()
        db.rename(away)
        for other in (False, True):
            if other:
                db.write_bytes(b"")
            answer = server.request("GET", "/healthz", key=None)
            assert (answer.status, answer.json) == (503, {"status": "unavailable"})
            error = server.post(f"{store}/memories", {"path": "/a", "content": ""}).refused(500, "api_error")
            assert str(tmp_path) not in error["message"]
        assert "was removed while it was open" in server.logged
        assert "was replaced while it was open" in server.logged
        away.replace(db)
        assert server.request("GET", "/healthz", key=None).ok() == {"status": "ok"}
        server.post(f"{store}/memories", {"path": "/a", "content": ""}).ok()


def test_a_body_full_of_mistakes_is_answered_briefly(server: Server, store: str) -> None:
    for path, body in (
        ("/v1/sessions", {"resources": [{}] * 100_000}),
        (f"{store}/memories", {f"field{number}": 0 for number in range(50_000)}),
    ):
        answer = server.post(path, body)
        answer.refused(400, "invalid_request_error")
        assert len(answer.body) < 5_000


def test_no_path_of_the_host_is_answered(server: Server) -> None:
    document = server.get("/openapi.json").body.decode()
    assert str(ROOT) not in document
