"""What each kind of key may do, asked of every operation that the description of the interface has."""

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from memfs.workspace import Workspace
from tests.api.harness import Server, new_key

OPEN = ("/healthz",)


@pytest.fixture(scope="module")
def ids_of(server: Server) -> dict[str, str]:
    """One of everything, and a store beside it."""
    store, other = server.store("Mine"), server.store("Other")
    store_id = store.rpartition("/")[2]
    memory = server.post(f"{store}/memories", {"path": "/a", "content": "one"}).ok()
    session = server.post("/v1/sessions", {"resources": [{"type": "memory_store", "memory_store_id": store_id}]}).ok()
    return {
        "store_id": store_id,
        "other": other.rpartition("/")[2],
        "memory_id": memory["id"],
        "version_id": memory["memory_version_id"],
        "session_id": session["id"],
    }


def operations(server: Server, ids_of: dict[str, str]) -> Iterator[tuple[str, str]]:
    for path, methods in server.get("/openapi.json").ok()["paths"].items():
        for method in methods:
            yield method.upper(), path.format(**ids_of)


def state(server: Server) -> list[Any]:
    found = []
    for store in server.get("/v1/memory_stores", include_archived="true", limit=100).ok()["data"]:
        path = f"/v1/memory_stores/{store['id']}"
        found += [store, server.get(f"{path}/memories").ok(), server.get(f"{path}/memory_versions").ok()]
    return [*found, server.get("/v1/sessions", include_archived="true").ok()]


def test_without_a_key_nothing_is_answered_but_whether_it_is_well(server: Server, ids_of: dict[str, str]) -> None:
    before = state(server)
    asked = 0
    for method, path in [*operations(server, ids_of), ("GET", "/openapi.json"), ("GET", "/"), ("GET", "/docs")]:
        if path in OPEN:
            continue
        for headers in (
            {},
            {"x-api-key": ""},
            {"x-api-key": "sk-memfs-none"},
            {"authorization": f"Basic {server.key}"},
            {"authorization": server.key},
            {"authorization": f"Bearer {server.key}x"},
        ):
            answer = server.request(method, path, {}, key=None, headers=headers)
            answer.refused(401, "authentication_error")
            assert answer.headers["www-authenticate"] == "Bearer"
            asked += 1
    assert asked > 100
    assert server.request("GET", "/healthz", key=None).ok() == {"status": "ok"}
    assert state(server) == before


def test_a_key_is_taken_from_either_header(server: Server) -> None:
    for headers in (
        {"x-api-key": server.key},
        {"authorization": f"bearer {server.key}"},
        {"authorization": "Basic dXNlcg==", "x-api-key": server.key},
        {"authorization": f"Bearer {server.key}", "x-api-key": "something else"},
    ):
        server.request("GET", "/v1/memory_stores", key=None, headers=headers).ok()


def test_a_key_that_may_only_read_changes_nothing(server: Server, ids_of: dict[str, str], server_db: Path) -> None:
    secret = new_key(server_db, "reading", access="read_only")
    before = state(server)
    for method, path in operations(server, ids_of):
        if method == "GET":
            if not path.endswith("/changes"):
                assert server.request(method, path, key=secret).status == 200, path
        else:
            server.request(method, path, key=secret).refused(403, "permission_error")
            server.request(method, path, {}, key=secret).refused(403, "permission_error")
    assert state(server) == before


def test_a_key_for_one_store_reaches_no_other(server: Server, ids_of: dict[str, str], server_db: Path) -> None:
    with Workspace.open(server_db) as workspace:
        other = workspace.stores.get(ids_of["other"])
        mine = workspace.stores.get(ids_of["store_id"])
        _, other_secret = workspace.keys.create("other", stores=[other])
        _, secret = workspace.keys.create("mine", stores=[mine])
    before = state(server)
    for method, path in operations(server, ids_of):
        answer = server.request(method, path, {}, key=other_secret)
        if path in ("/v1/memory_stores", "/v1/sessions") and method == "GET":
            assert ids_of["store_id"] not in json.dumps(answer.ok())
        elif path == "/v1/sessions":
            answer.refused(400, "invalid_request_error")  # it names no stores
            wanted = {"resources": [{"type": "memory_store", "memory_store_id": ids_of["store_id"]}]}
            server.request(method, path, wanted, key=other_secret).refused(403, "permission_error")
        elif path.startswith("/v1/sessions/"):
            assert ids_of["store_id"] not in json.dumps(answer.refused(404, "not_found_error"))
        elif path not in OPEN:
            answer.refused(403, "permission_error")
    assert state(server) == before
    store = f"/v1/memory_stores/{ids_of['store_id']}"
    assert server.request("GET", store, key=secret).ok()["id"] == mine.id
    made = server.request("POST", f"{store}/memories", {"path": "/by-mine", "content": ""}, key=secret).ok()
    assert made["path"] == "/by-mine"
    assert [each["id"] for each in server.request("GET", "/v1/memory_stores", key=secret).ok()["data"]] == [mine.id]
    assert [each["id"] for each in server.request("GET", "/v1/sessions", key=secret).ok()["data"]] == [
        ids_of["session_id"]
    ]
    both = {
        "resources": [
            {"type": "memory_store", "memory_store_id": each} for each in (ids_of["store_id"], ids_of["other"])
        ]
    }
    server.request("POST", "/v1/sessions", both, key=secret).refused(403, "permission_error")
    shared = server.post("/v1/sessions", both).ok()
    for each in (secret, other_secret):
        server.request("GET", f"/v1/sessions/{shared['id']}", key=each).refused(404, "not_found_error")
        server.request("POST", f"/v1/sessions/{shared['id']}/archive", key=each).refused(404, "not_found_error")
    assert server.get(f"/v1/sessions/{shared['id']}").ok()["archived_at"] is None


def test_a_key_whose_store_is_gone_reaches_none(server: Server, server_db: Path) -> None:
    store = server.store("Short-lived")
    with Workspace.open(server_db) as workspace:
        _, secret = workspace.keys.create("short", stores=[workspace.stores.get(store.rpartition("/")[2])])
    server.delete(store).ok()
    assert server.request("GET", "/v1/memory_stores", key=secret).ok()["data"] == []
    assert server.request("GET", "/v1/sessions", key=secret).ok()["data"] == []
    for method, path in (("GET", store), ("POST", "/v1/memory_stores"), ("POST", "/v1/sessions"), ("GET", "/metrics")):
        server.request(method, path, {}, key=secret).refused(403, "permission_error")


def test_a_revoked_and_an_expired_key_are_refused_at_once(server: Server, server_db: Path) -> None:
    with Workspace.open(server_db) as workspace:
        key, secret = workspace.keys.create("revoked")
        late, late_secret = workspace.keys.create("expired")
        for each in (secret, late_secret):
            server.request("GET", "/v1/memory_stores", key=each).ok()
        workspace.keys.revoke(key.id)
        with workspace.engine.database.write() as rows:  # type: ignore[attr-defined]  # SQLite's own
            rows.execute("UPDATE api_keys SET expires_at = '2026-01-01T00:00:00.000000Z' WHERE id = ?", (late.id,))
        for each, said in ((secret, "revoked"), (late_secret, "expired")):
            error = server.request("GET", "/v1/memory_stores", key=each).refused(401, "authentication_error")
            assert said in error["message"]


def test_changes_name_the_key(server: Server, server_db: Path) -> None:
    store = server.store()
    with Workspace.open(server_db) as workspace:
        key, secret = workspace.keys.create("author")
    made = server.request("POST", f"{store}/memories", {"path": "/a", "content": "1"}, key=secret).ok()
    server.request("POST", f"{store}/memories/{made['id']}", {"content": "2"}, key=secret).ok()
    first = made["memory_version_id"]
    server.request("POST", f"{store}/memory_versions/{first}/redact", key=secret).ok()
    versions = server.get(f"{store}/memory_versions", api_key_id=key.id).ok()["data"]
    by_key = {"type": "api_actor", "api_key_id": key.id}
    assert [version["created_by"] for version in versions] == [by_key, by_key]
    assert [version["redacted_by"] for version in versions] == [None, by_key]


def test_a_key_that_is_revoked_while_its_request_comes_in_writes_nothing(server: Server, server_db: Path) -> None:
    store = server.store()
    with Workspace.open(server_db) as workspace:
        key, secret = workspace.keys.create("slow")
        body = json.dumps({"path": "/late", "content": "text"}).encode()
        connection = HTTPConnection(server.url.removeprefix("http://"), timeout=120)
        connection.putrequest("POST", f"{store}/memories")
        for name, value in (("x-api-key", secret), ("content-type", "application/json"), ("content-length", len(body))):
            connection.putheader(name, str(value))
        connection.endheaders(body[:5])
        deadline = time.monotonic() + 60
        while "memfs_http_requests_in_progress 2.0" not in server.get("/metrics").body.decode():
            assert time.monotonic() < deadline
        workspace.keys.revoke(key.id)
        connection.send(body[5:])
        assert connection.getresponse().status == 401
        connection.close()
    assert server.get(f"{store}/memories").ok()["data"] == []
