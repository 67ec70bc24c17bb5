"""The stream of a store's changes."""

import re
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from memfs.api import changes
from memfs.api.queries import MAX_FULL, MAX_LIMIT
from memfs.workspace import Workspace
from tests.api.harness import Server, new_key, serving
from tests.api.streams import SECONDS, following
from tests.processes import finish, hear, python, tell


def create(server: Server, store: str, path: str, content: str = "text") -> str:
    made: str = server.post(f"{store}/memories", {"path": path, "content": content}).ok()["id"]
    return made


def test_it_begins_with_the_store_and_tells_of_each_change(server: Server, store: str) -> None:
    create(server, store, "/before")
    with following(server, store) as stream:
        (first,) = stream.take(1)
        assert (first.event, first.data) == ("memory_store", server.get(store).ok())
        memory_id = create(server, store, "/a", "one")
        server.post(f"{store}/memories/{memory_id}", {"content": "two", "path": "/b"}).ok()
        server.delete(f"{store}/memories/{memory_id}").ok()
        events = stream.take(3)
        assert [event.event for event in events] == ["memory_version"] * 3
        versions = server.get(f"{store}/memory_versions", memory_id=memory_id).ok()["data"]
        assert [event.data for event in events] == versions[::-1]
        numbers = [int(event.id) for event in (first, *events)]
        assert numbers == sorted(set(numbers))


def test_the_full_view_has_the_contents(server: Server, store: str) -> None:
    content = "ä\r\n🙂 \u2028\n" * 50
    with following(server, store, view="full") as stream:
        stream.take(1)
        create(server, store, "/a", content)
        assert stream.take(1)[0].data["content"] == content


def test_it_goes_on_after_an_event(server: Server, store: str) -> None:
    for number in range(5):
        create(server, store, f"/{number}")
    with following(server, store, after=0) as stream:
        events = stream.take(6)[1:]
        assert [event.data["path"] for event in events] == ["/0", "/1", "/2", "/3", "/4"]
    with following(server, store, headers={"last-event-id": events[2].id}, after="0") as stream:
        assert [event.data["path"] for event in stream.take(3)[1:]] == ["/3", "/4"]
        create(server, store, "/5")
        assert stream.take(1)[0].data["path"] == "/5"


def test_more_than_a_page_comes_in_order(server: Server, server_db: Path) -> None:
    store = server.store()
    for number in range(MAX_LIMIT * 2 + 10):
        create(server, store, f"/{number:03}", "x" * 100)
    for view, size in (("basic", MAX_LIMIT), ("full", MAX_FULL)):
        with following(server, store, after=0, view=view) as stream:
            events = stream.take(size * 2 + 5)[1:]
        assert [event.data["path"] for event in events] == [f"/{number:03}" for number in range(size * 2 + 4)]


def test_it_tells_of_what_other_processes_do(server: Server, store: str, server_db: Path) -> None:
    code = """
import sys
from pathlib import Path
from memfs.model.records import Actor
from memfs.workspace import Workspace
with Workspace.open(Path(sys.argv[1])) as workspace:
    print("ready", flush=True)
    for line in sys.stdin:
        workspace.memories.create(sys.argv[2], line.strip(), b"text", Actor("user_actor", "alice"))
"""
    with following(server, store) as stream, python(code, server_db, store.rpartition("/")[2]) as process:
        stream.take(1)
        assert hear(process) == "ready"
        for number in range(50):
            tell(process, f"/{number}")
            (event,) = stream.take(1)
            assert event.data["path"] == f"/{number}"
            assert event.data["created_by"] == {"type": "user_actor", "user_id": "alice"}
        finish(process)


def test_the_store_itself_changes_is_archived_and_goes(server: Server, store: str) -> None:
    with following(server, store) as stream, following(server, store) as other:
        # Each step is waited for in both: two changes that come before a look are one event.
        both = (stream, other)
        for each in both:
            each.take(1)
        server.post(store, {"name": "Renamed"}).ok()
        assert [each.take(1)[0].data["name"] for each in both] == ["Renamed", "Renamed"]
        server.post(f"{store}/archive").ok()
        event, same = (each.take(1)[0] for each in both)
        assert event == same
        assert event.event == "memory_store"
        assert event.data["archived_at"] is not None
        server.delete(store).ok()
        (last,) = stream.take(1)
        assert (last.event, last.data) == (
            "memory_store_deleted",
            {"id": event.data["id"], "type": "memory_store_deleted"},
        )
        assert stream.next() is None
        assert other.take(1) == [last]


def test_other_stores_are_not_told_of(server: Server, store: str) -> None:
    with following(server, store) as stream:
        stream.take(1)
        create(server, server.store("Other"), "/elsewhere")
        create(server, store, "/here")
        assert stream.take(1)[0].data["path"] == "/here"


@pytest.mark.parametrize("after", ["x", "-1", "1.0", "1e3", "९", "9" * 30, " 1", "999999999999"], ids=str)
def test_where_no_stream_begins(server: Server, store: str, after: str) -> None:
    server.get(f"{store}/changes", after=after).refused(400, "invalid_request_error")
    headers = {"last-event-id": after.encode().decode("latin-1")}
    if after.strip() == after:  # a header's outer spaces are none of it
        server.request("GET", f"{store}/changes", headers=headers).refused(400, "invalid_request_error")


def test_no_stream_of_what_is_not_there(server: Server) -> None:
    nowhere = "/v1/memory_stores/memstore_01M8NMQFRP7HNTABQQHZR3KZM6/changes"
    server.get(nowhere).refused(404, "not_found_error")


def test_a_revoked_key_gets_no_more(tmp_path: Path) -> None:
    db = tmp_path / "memfs.db"
    with serving(db) as server, Workspace.open(db) as workspace:
        store = server.store()
        key, secret = workspace.keys.create("reader", access="read_only")
        limited, limited_secret = workspace.keys.create("one", stores=[workspace.stores.create("Other")])
        server.request("GET", f"{store}/changes", key=limited_secret).refused(403, "permission_error")
        assert limited.store_ids != ()
        with following(server, store, key=secret) as stream:
            stream.take(1)
            workspace.keys.revoke(key.id)
            create(server, store, "/secret")
            assert stream.next() is None


def test_there_is_a_limit_of_streams(tmp_path: Path) -> None:
    db = tmp_path / "memfs.db"
    keys = [new_key(db) for _ in range(changes.MAX_STREAMS // changes.MAX_STREAMS_OF_A_KEY + 1)]
    with serving(db) as server:
        store = server.store()
        with ExitStack() as opened:
            for key in keys[:-1]:
                for _ in range(changes.MAX_STREAMS_OF_A_KEY):
                    opened.enter_context(following(server, store, key=key)).take(1)
                refused = server.request("GET", f"{store}/changes", key=key)
                refused.refused(429, "rate_limit_error")
                assert refused.headers["retry-after"]
                server.request("GET", store, key=key).ok()
            server.request("GET", f"{store}/changes", key=keys[-1]).refused(429, "rate_limit_error")
            create(server, store, "/still")
        deadline = time.monotonic() + SECONDS
        while "memfs_change_streams 0.0" not in server.get("/metrics").body.decode():
            assert time.monotonic() < deadline
        with following(server, store, key=keys[-1]) as stream:
            stream.take(1)


def test_what_a_client_does_not_read_is_not_kept_for_it(server: Server) -> None:
    """Events of 600 KB each, of which it reads the first only."""
    store = server.store()
    for number in range(30):
        create(server, store, f"/{number}", "\x01" * 102_400)

    def resident() -> float:
        (found,) = re.findall(r"^process_resident_memory_bytes (\S+)", server.get("/metrics").body.decode(), re.M)
        return float(found)

    before = resident()
    with ExitStack() as opened:
        streams = [opened.enter_context(following(server, store, view="full", after=0)) for _ in range(20)]
        for stream in streams:
            stream.take(1)
        assert resident() - before < 100e6
        assert [event.data["path"] for event in streams[0].take(30)] == [f"/{number}" for number in range(30)]
