"""Sessions: what is given is given back, and every filter filters."""

from typing import Any

import pytest

from tests.api.harness import Server


def begin(server: Server, store: str, **said: Any) -> dict[str, Any]:
    resources = [{"type": "memory_store", "memory_store_id": store.rpartition("/")[2]}]
    made: dict[str, Any] = server.post("/v1/sessions", {"resources": resources, **said}).ok()
    return made


def test_what_is_said_is_given_back(server: Server, store: str) -> None:
    made = begin(
        server,
        store,
        title="Tuesday",
        metadata={"ticket": "4711"},
        agent={"type": "agent", "id": "agent_1", "version": 3},
        environment_id="env_1",
        vault_ids=["vlt_1"],
        initial_events=[],
    )
    assert (made["type"], made["status"], made["title"]) == ("session", "idle", "Tuesday")
    assert (made["metadata"], made["agent"]["id"], made["environment_id"]) == ({"ticket": "4711"}, "agent_1", "env_1")
    assert (made["agent"]["version"], made["agent"]["skills"]) == (3, [])
    assert made["resources"] == [
        {
            "type": "memory_store",
            "memory_store_id": store.rpartition("/")[2],
            "access": "read_write",
            "instructions": "",
            "name": "Notes",
            "description": "",
            "mount_path": "/mnt/memory/notes",
        }
    ]
    assert server.get(f"/v1/sessions/{made['id']}").ok() == made
    archived = server.post(f"/v1/sessions/{made['id']}/archive").ok()
    assert archived["status"] == "terminated"
    assert archived["archived_at"] == archived["updated_at"]
    assert server.post(f"/v1/sessions/{made['id']}/archive").ok() == archived


def test_every_filter_filters(server: Server, store: str) -> None:
    first = begin(server, store, agent="agent_a")
    second = begin(server, store, agent="agent_b")
    third = begin(server, store, agent="agent_a")
    server.post(f"/v1/sessions/{second['id']}/archive").ok()
    mine = {"memory_store_id": store.rpartition("/")[2]}

    def found(**query: object) -> list[str]:
        listed = server.request("GET", "/v1/sessions", query={**mine, **query}).ok()
        assert listed["next_page"] is None
        return [session["id"] for session in listed["data"]]

    everything: dict[str, object] = {"include_archived": "true"}
    assert found() == [third["id"], first["id"]]
    assert found(order="asc") == [first["id"], third["id"]]
    assert found(**everything) == [third["id"], second["id"], first["id"]]
    assert found(agent_id="agent_a") == [third["id"], first["id"]]
    assert found(**everything, agent_id="agent_b") == [second["id"]]
    assert found(**everything, **{"statuses[]": "terminated"}) == [second["id"]]
    assert found(**everything, **{"statuses[]": "idle"}) == [third["id"], first["id"]]
    assert found(**everything, **{"statuses[]": "running"}) == []
    at = second["created_at"]
    assert found(**everything, **{"created_at[gte]": at}) == [third["id"], second["id"]]
    assert found(**everything, **{"created_at[gt]": at}) == [third["id"]]
    assert found(**everything, **{"created_at[lte]": at}) == [second["id"], first["id"]]
    assert found(**everything, **{"created_at[lt]": at}) == [first["id"]]
    assert found(**everything, **{"created_at[gte]": at, "created_at[lte]": at}) == [second["id"]]
    several = server.request("GET", "/v1/sessions?statuses[]=idle&statuses[]=terminated&include_archived=true")
    assert {session["id"] for session in several.ok()["data"]} >= {first["id"], second["id"], third["id"]}


def test_a_version_of_an_agent_is_another_one(server: Server, store: str) -> None:
    first = begin(server, store, agent={"type": "agent", "id": "agent_v", "version": 7})
    second = begin(server, store, agent="agent_v")

    def found(**query: object) -> list[str]:
        return [session["id"] for session in server.get("/v1/sessions", **query).ok()["data"]]

    assert found(agent_id="agent_v") == [second["id"], first["id"]]
    assert found(agent_id="agent_v", agent_version=7) == [first["id"]]
    assert found(agent_id="agent_v", agent_version=1) == [second["id"]]
    assert found(agent_id="agent_v", deployment_id="depl_1") == []


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages(server: Server, store: str, order: str) -> None:
    made = [begin(server, store)["id"] for _ in range(5)]
    query: dict[str, object] = {"memory_store_id": store.rpartition("/")[2], "limit": 2, "order": order}
    seen: list[str] = []
    while True:
        page = server.request("GET", "/v1/sessions", query=query).ok()
        seen += [session["id"] for session in page["data"]]
        if page["next_page"] is None:
            break
        query["page"] = page["next_page"]
    assert seen == (made if order == "asc" else made[::-1])


@pytest.mark.parametrize(
    "body, said",
    [
        ({}, "resources is required"),
        ({"resources": []}, "at least one store"),
        ({"resources": [{"type": "file", "file_id": "file_1"}]}, "resources[0].type"),
        ({"resources": "notes"}, "resources"),
        (
            {"resources": [{"type": "memory_store", "memory_store_id": "$STORE", "mount_path": "/x"}]},
            "mount_path is no",
        ),
        ({"resources": [{"type": "memory_store", "memory_store_id": "$STORE", "access": "admin"}]}, "access"),
        ({"resources": [{"type": "memory_store", "memory_store_id": "$STORE"}] * 2}, "named twice"),
        ({"resources": [{"type": "memory_store", "memory_store_id": "$STORE"}] * 9}, "at most 8 stores"),
        (
            {"resources": [{"type": "memory_store", "memory_store_id": "$STORE", "instructions": "x" * 4097}]},
            "at most 4096 characters",
        ),
        (
            {"resources": [{"type": "memory_store", "memory_store_id": "$STORE"}], "agent": {}},
            "agent must be an agent's id",
        ),
        ({"resources": [{"type": "memory_store", "memory_store_id": "$STORE"}], "agent": 7}, "agent"),
        (
            {"resources": [{"type": "memory_store", "memory_store_id": "$STORE"}], "agent": {"id": "a", "version": 0}},
            "a number from 1 on",
        ),
        (
            {
                "resources": [{"type": "memory_store", "memory_store_id": "$STORE"}],
                "agent": {"id": "a", "version": "1"},
            },
            "version is a number",
        ),
        ({"resources": [{"type": "memory_store", "memory_store_id": "$STORE"}], "title": "x" * 513}, "title"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_session(server: Server, store: str, body: dict[str, Any], said: str) -> None:
    resources = body.get("resources")
    if isinstance(resources, list):
        body = body | {
            "resources": [
                each | {"memory_store_id": store.rpartition("/")[2]} if "memory_store_id" in each else each
                for each in resources
            ]
        }
    error = server.post("/v1/sessions", body).refused(400, "invalid_request_error")
    assert said in error["message"]


def test_no_session_for_a_store_that_is_not_there(server: Server) -> None:
    nowhere = {"resources": [{"type": "memory_store", "memory_store_id": "memstore_01M8NMQFRP7HNTABQQHZR3KZM6"}]}
    server.post("/v1/sessions", nowhere).refused(404, "not_found_error")
    for each in ("sesn_01M8NMQFRP7HNTABQQHZR3KZM6", "sesn_x", "%00"):
        server.get(f"/v1/sessions/{each}").refused(404, "not_found_error")
        server.post(f"/v1/sessions/{each}/archive").refused(404, "not_found_error")


def test_a_page_of_one_list_is_none_of_another(server: Server, store: str) -> None:
    server.store("Another")
    for name in ("/a", "/b"):
        server.post(f"{store}/memories", {"path": name, "content": "text"}).ok()
        begin(server, store)
    lists = ["/v1/memory_stores", f"{store}/memories", f"{store}/memory_versions", "/v1/sessions"]
    tokens = {each: server.get(each, limit=1).ok()["next_page"] for each in lists}
    for asked in lists:
        for given, token in tokens.items():
            answer = server.get(asked, limit=1, page=token)
            if asked == given:
                answer.ok()
            else:
                assert "same request" in answer.refused(400, "invalid_request_error")["message"]
