"""The OpenAPI document is whole and true: schemathesis calls what it describes, in every way that it allows or not."""

import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import schemathesis
from fastapi import APIRouter

import memfs.api
from tests.api.effort import EFFORT, SEED
from tests.api.harness import Server, serving
from tests.processes import environment

STREAM = "/v1/memory_stores/{store_id}/changes"
OPEN = "/healthz"
REFUSALS = {"400", "401", "403", "413", "429", "500", "503"}
"""What every operation that needs a key may answer."""

NAMED_BY_OTHERS = ("agent_id", "deployment_id", "service_account_id")
"""Ids of no form that is known here."""

JsonObject = dict[str, Any]


@pytest.fixture(scope="module")
def server(server_db: Path) -> Iterator[Server]:
    """Like everybody's, but for the warning about a header with a NUL, which schemathesis tries at first."""
    with serving(server_db, "--rate", "0", expected_warnings=True) as running:
        yield running
    for line in running.logged.splitlines():
        assert " level=INFO " in line or line.endswith(" Invalid HTTP request received."), line


@pytest.fixture(scope="module")
def document(server: Server) -> JsonObject:
    """As clients get it."""
    found: JsonObject = server.get("/openapi.json").ok()
    return found


def operations(document: JsonObject) -> Iterator[tuple[str, str, JsonObject]]:
    """Method, path and description of each."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


# ---- what it says ----------------------------------------------------------------------------------------------------


def test_it_is_openapi(document: JsonObject) -> None:
    assert document["openapi"].startswith("3.1.")
    schemathesis.openapi.from_dict(document).validate()


def test_every_route_is_in_it(document: JsonObject) -> None:
    routes = set()
    for found in pkgutil.iter_modules(memfs.api.__path__, "memfs.api."):
        for value in vars(importlib.import_module(found.name)).values():
            if isinstance(value, APIRouter):
                routes |= {(method, route.path) for route in value.routes for method in route.methods}  # type: ignore[attr-defined]  # an APIRoute
    assert {(method, path) for method, path, _ in operations(document)} == routes
    assert len(routes) > 20


def test_every_operation_says_what_it_answers(document: JsonObject) -> None:
    error = {"schema": {"$ref": "#/components/schemas/Error"}}
    for method, path, operation in operations(document):
        answers = operation["responses"]
        (kind,) = answers["200"]["content"]
        assert kind == {STREAM: "text/event-stream", "/metrics": "text/plain"}.get(path, "application/json")
        if kind == "application/json":
            assert answers["200"]["content"][kind]["schema"]["$ref"].startswith("#/components/schemas/"), path
        own = set()
        if "{" in path or (method == "POST" and path == "/v1/sessions"):
            own.add("404")
        if "/memories" in path and method != "GET":
            own.add("409")
        assert set(answers) - {"200"} == ({"503"} if path == OPEN else REFUSALS | own), (method, path)
        for status, answer in answers.items():
            assert answer["description"] not in ("", "Successful Response")
            assert "request-id" in answer["headers"]
            assert status == "200" or path == OPEN or answer["content"] == {"application/json": error}


def test_nothing_of_the_framework_is_in_it(document: JsonObject) -> None:
    text = json.dumps(document)
    assert "ValidationError" not in text
    assert '"422"' not in text
    assert not {"Any", "Body", "Shown"} & set(document["components"]["schemas"])


def test_every_operation_has_a_name_of_its_own(document: JsonObject) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)+", name) for name in names)


def test_every_operation_needs_a_key(document: JsonObject) -> None:
    assert document["security"] == [{"bearer": []}, {"x-api-key": []}]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "x-api-key"}
    assert [path for _, path, operation in operations(document) if "security" in operation] == [OPEN]


def test_everything_is_described(document: JsonObject) -> None:
    assert document["info"]["title"] == "memfs"
    for _, path, operation in operations(document):
        assert operation["summary"], path
        assert operation["description"], path
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], (path, parameter["name"])
            ours = re.search("_id$|created_at", parameter["name"]) and parameter["name"] not in NAMED_BY_OTHERS
            assert not ours or "example" in parameter, (path, parameter["name"])
            assert {"type": "null"} not in parameter["schema"].get("anyOf", ()), "nobody can send a null in a query"
    for name, schema in document["components"]["schemas"].items():
        assert schema["description"], name


def test_every_body_has_an_example(document: JsonObject) -> None:
    schemas = document["components"]["schemas"]
    bodies = [operation["requestBody"] for _, _, operation in operations(document) if "requestBody" in operation]
    assert len(bodies) == 7
    for body in bodies:
        schema = schemas[body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        for name in schema.get("required", ()):
            field = schema["properties"][name]
            kind = schemas[field["items"]["$ref"].rpartition("/")[2]] if field.get("type") == "array" else field
            assert "examples" in kind or any("examples" in each for each in kind["properties"].values()), name


# ---- what it says is so ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(server: Server, document: JsonObject, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """schemathesis; fails with its report where it found anything."""
    directory = tmp_path_factory.mktemp("schemathesis")
    file = directory / "openapi.json"
    # An expression inside of a body: schemathesis knows it, OpenAPI does not.
    resource = {"type": "memory_store", "memory_store_id": "$response.body#/id"}
    begin = {"operationId": "sessions_create", "requestBody": {"resources": [resource]}}
    linked = json.loads(json.dumps(document))
    linked["paths"]["/v1/memory_stores"]["post"]["responses"]["200"]["links"]["begin"] = begin
    file.write_text(json.dumps(linked))
    script = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"
    config = Path(__file__).with_name("schemathesis.toml")

    def run(*options: str) -> str:
        command = [sys.executable, "-c", script, "--config-file", str(config), "run", str(file), "--url", server.url]
        done = subprocess.run(
            [*command, "--no-color", "--seed", str(SEED), "--exclude-path", STREAM, *options],
            cwd=directory,
            env=environment(MEMFS_TEST_KEY=server.key, PATH=os.environ["PATH"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=280 * EFFORT,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


@pytest.mark.timeout(300 * EFFORT)
def test_each_operation_by_itself(run: Any, document: JsonObject) -> None:
    """Examples, every limit of the document from both sides, and random requests, valid and not."""
    report = run("--phases", "examples,coverage,fuzzing", "--max-examples", str(10 * EFFORT))
    total = len(list(operations(document)))
    assert f"Selected: {total - 1}/{total}\n  Tested: {total - 1}\n" in report


@pytest.mark.timeout(300 * EFFORT)
def test_operations_one_after_the_other(run: Any) -> None:
    """With the ids that the ones before answered, by the links of the document."""
    report = run("--phases", "stateful", "--max-examples", str(30 * EFFORT))
    covered, selected = re.findall(r"API Links: +(\d+) covered / (\d+) selected", report)[0]
    assert int(covered) > int(selected) * 0.6, report


def test_every_success_is_as_described(server: Server, document: JsonObject) -> None:
    """What chance need not reach, as every refusal is easier to get: each operation once, in an order that succeeds."""
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=server.url)
    described = {operation["operationId"]: (method, path) for method, path, operation in operations(document)}
    ids: dict[str, str] = {}

    def call(name: str, body: Any = None, **query: object) -> Any:
        method, path = described.pop(name)
        wanted = {key: ids[key] for key in re.findall(r"\{(\w+)\}", path)}
        how = {} if body is None else {"body": body, "media_type": "application/json"}
        case = schema[path][method].Case(path_parameters=wanted, query=query, **how)
        answer = case.call_and_validate(headers={"Authorization": f"Bearer {server.key}"})
        assert answer.status_code == 200, answer.text
        return answer.json() if answer.headers["content-type"] == ["application/json"] else answer.text

    ids["store_id"] = call("memory_stores_create", {"name": "Notes", "metadata": {"team": "search"}})["id"]
    call("memory_stores_update", {"description": "Of a team."})
    call("memory_stores_update_patch", {"metadata": {"team": None}})
    assert call("memory_stores_retrieve")["metadata"] == {}
    made = call("memories_create", {"path": "/a/b", "content": "one"}, view="full")
    ids["memory_id"], ids["version_id"] = made["id"], made["memory_version_id"]
    call(
        "memories_update",
        {"content": "two", "precondition": {"type": "content_sha256", "content_sha256": made["content_sha256"]}},
    )
    call("memories_update_patch", {"path": "/b/c"}, view="full")
    assert call("memories_retrieve")["content"] == "two"
    assert [each["type"] for each in call("memories_list_memories", depth=1)["data"]] == ["memory_prefix"]
    assert call("memory_versions_redact")["redacted_by"]["type"] == "api_actor"
    assert call("memory_versions_retrieve")["content"] is None
    resource = {"type": "memory_store", "memory_store_id": ids["store_id"]}
    ids["session_id"] = call("sessions_create", {"resources": [resource], "agent": {"id": "a"}})["id"]
    assert call("sessions_list_sessions", memory_store_id=ids["store_id"])["data"] == [call("sessions_retrieve")]
    assert call("sessions_archive")["archived_at"]
    call("memories_delete")
    versions = call("memory_versions_list_versions", view="full", limit=2)
    assert (len(versions["data"]), versions["next_page"] is None) == (2, False)
    assert call("memory_stores_list_stores")["data"]
    assert call("memory_stores_archive")["archived_at"]
    call("memory_stores_delete")
    assert call("service_health") == {"status": "ok"}
    assert "memfs_http_requests_total" in call("service_metrics")
    assert list(described) == ["changes_stream"]


# ---- the stream, which never ends ------------------------------------------------------------------------------------


def test_the_stream(server: Server, store: str, document: JsonObject) -> None:
    answers = document["paths"][STREAM]["get"]["responses"]
    path = f"{store}/changes"

    def refusal(status: str, target: str = path, **how: Any) -> None:
        answer = server.request("GET", target, **how)
        assert str(answer.status) == status, answer.body
        assert answer.headers["content-type"] in answers[status]["content"]
        assert set(answers[status]["headers"]) <= set(answer.headers)

    refusal("400", query={"after": "x"})
    refusal("400", query={"view": "x"})
    refusal("400", headers={"last-event-id": "-1"})
    refusal("401", key=None)
    refusal("404", "/v1/memory_stores/memstore_01M8NMQFRP7HNTABQQHZR3KZM6/changes")
    refusal("413", body=b" " * 1_048_577)
    request = Request(f"{server.url}{path}", headers={"x-api-key": server.key})
    with urlopen(request, timeout=120) as stream:
        assert isinstance(stream, HTTPResponse)
        assert stream.status == 200
        assert (stream.getheader("content-type") or "").partition(";")[0] in answers["200"]["content"]
        assert stream.getheader("request-id")
        assert stream.readline()
