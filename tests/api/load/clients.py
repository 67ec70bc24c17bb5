"""Clients that read and write over HTTP, each with a connection that it keeps."""

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.api.load.notes import Noted, Notes, digest, is_whole, text_of

READS = {"list": 16, "list full": 4, "retrieve": 40, "versions": 8, "version": 4}
WRITES = {"create": 5, "update if": 8, "update": 6, "rename": 3, "delete": 4, "journal": 2}
"""How often each is done, of 100 requests."""

JOURNAL = "/shared/journal.md"
"""Clients add lines to it, each with the hash of what it has read: none may be lost."""

JOURNAL_BYTES = 90_000
"""No more lines past this size, or it would soon be too large for a memory."""

CONTRACT = {
    (404, "not_found_error"),
    (409, "memory_path_conflict_error"),
    (409, "memory_precondition_failed_error"),
    (503, "overloaded_error"),
}
"""Errors that clients which know nothing of each other may meet."""

LIMIT = 180.0
"""Seconds for one answer, past which there is none."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Clients:
    """What one process of clients has to do, from ``begin`` to ``end``, in monotonic time, which processes share."""

    url: str
    stores: tuple[str, ...]
    names: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]
    """Id and secret of each client's key."""
    mix: dict[str, int]
    begin: float
    end: float
    seed: int = 0
    pause: float = 0.0
    """Seconds between two requests."""
    most: int = 1_000_000_000
    """Things that each client does, also where there is time for more."""
    redact_seconds: float = 0.0
    """How often the first of them redacts a version; 0: never."""


@dataclass(slots=True)
class Refused(Exception):
    """An error that the contract knows."""

    status: int
    kind: str


class Client:
    """One client."""

    def __init__(self, plan: Clients, number: int) -> None:
        self.plan = plan
        self.name = plan.names[number]
        self.key_id, self.secret = plan.keys[number]
        self.notes = Notes()
        self.random = random.Random(f"{plan.seed} {self.name}")
        where = urlsplit(plan.url)
        self.connection = HTTPConnection(where.hostname or "", where.port, timeout=LIMIT)
        self.count = 0
        self.known: dict[str, list[Json]] = {store: [] for store in plan.stores}
        self.redact_seconds = plan.redact_seconds if number == 0 else 0.0
        self.doing: dict[str, Callable[[str], None]] = {
            "list": self.list,
            "list full": self.list_full,
            "retrieve": self.retrieve,
            "versions": self.versions,
            "version": self.version,
            "create": self.create,
            "update if": self.update_if,
            "update": self.update,
            "rename": self.rename,
            "delete": self.delete,
            "journal": self.journal,
        }

    def run(self) -> None:
        """Do what the mix says until it is time."""
        kinds, weights = list(self.plan.mix), list(self.plan.mix.values())
        redact_at = self.plan.begin + self.redact_seconds
        time.sleep(max(0.0, self.plan.begin - time.monotonic()))
        # Each once, however long it takes, or a short run might leave one out.
        first = self.random.sample(kinds, len(kinds))
        done = 0
        try:
            while done < self.plan.most and (first or time.monotonic() < self.plan.end):
                done += 1
                kind = first.pop() if first else self.random.choices(kinds, weights)[0]
                store = self.random.choice((self.plan.stores[0], *self.plan.stores))
                try:
                    if self.redact_seconds and (time.monotonic() > redact_at or len(first) == 1):
                        self.redact(store)
                        redact_at = time.monotonic() + self.redact_seconds
                    self.doing[kind](store)
                except Refused as refused:
                    self.notes.refused[refused.status, refused.kind] += 1
                time.sleep(self.plan.pause)
        except (OSError, HTTPException, AssertionError, LookupError, ValueError) as error:
            self.notes.wrong.append(f"client {self.name}: {type(error).__name__}: {error}")
        finally:
            self.connection.close()

    def send(self, kind: str, method: str, path: str, body: Json | None = None, **query: str | int) -> Json:
        """One request. Raises Refused."""
        target = f"/v1/memory_stores/{path}{'?' + urlencode(query) if query else ''}"
        headers = {"authorization": f"Bearer {self.secret}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        self.count += 1
        began = time.perf_counter()
        self.connection.request(method, target, data, headers)
        response = self.connection.getresponse()
        content = response.read()
        self.notes.seconds.append((kind, time.perf_counter() - began))
        answer: Json = json.loads(content)
        if response.status == 200:
            return answer
        error = answer["error"]
        assert answer["type"] == "error", content
        assert answer["request_id"] == response.headers["request-id"], content
        assert (response.status, error["type"]) in CONTRACT, content
        assert (response.headers["x-should-retry"] == "false") == (response.status == 409), response.headers
        assert (response.headers["retry-after"] is not None) == (response.status == 503), response.headers
        raise Refused(response.status, error["type"])

    def text(self) -> str:
        """A new text."""
        return text_of(self.name, self.count, self.random)

    def some(self, store: str) -> Json:
        """A memory that was there not long ago; by now somebody else may have changed or deleted it."""
        for prefix in ("/notes/", "/clients/"):
            if not self.known[store]:
                page = self.send("list", "GET", f"{store}/memories", path_prefix=prefix, limit=50)
                self.known[store] = page["data"]
        return self.random.choice(self.known[store])

    def noted(self, operation: str, memory: Json) -> None:
        """An answer that says that something was written."""
        ids = memory["id"], memory["memory_version_id"]
        self.notes.writes.append(Noted(self.key_id, operation, memory["path"], memory["content_sha256"], *ids))

    # Reading

    def list(self, store: str) -> None:
        """A page, of which what everybody may change is remembered."""
        prefix = self.random.choice(("/", "/notes/", "/clients/", f"/clients/{self.random.choice(self.plan.names)}/"))
        found = self.send("list", "GET", f"{store}/memories", path_prefix=prefix, limit=50)["data"]
        usable = [item for item in found if item["path"].startswith(("/notes/", "/clients/"))]
        self.known[store] = usable or self.known[store]

    def list_full(self, store: str) -> None:
        """A page with contents."""
        page = self.send("list full", "GET", f"{store}/memories", view="full", path_prefix="/clients/")
        for item in page["data"]:
            assert digest(item["content"]) == item["content_sha256"], item["path"]

    def retrieve(self, store: str) -> None:
        """One memory."""
        found = self.send("retrieve", "GET", f"{store}/memories/{self.some(store)['id']}")
        assert digest(found["content"]) == found["content_sha256"], found["path"]
        assert is_whole(found["content"]), f"{found['path']} is a mixture"

    def versions(self, store: str) -> None:
        """The newest versions, of a memory or of all."""
        query = {"memory_id": self.some(store)["id"]} if self.random.random() < 0.7 else {}
        page = self.send("versions", "GET", f"{store}/memory_versions", **query)
        made = [version["id"] for version in page["data"]]
        assert all(newer > older for newer, older in pairwise(made)), f"versions are out of order: {made}"

    def version(self, store: str) -> None:
        """One version."""
        found = self.send("version", "GET", f"{store}/memory_versions/{self.some(store)['memory_version_id']}")
        assert digest(found["content"]) == found["content_sha256"], found["id"]

    # Writing

    def create(self, store: str) -> None:
        """A new memory; now and then where there is one already."""
        path = f"/clients/{self.name}/{self.count}.md"
        if self.random.random() < 0.2:
            path = self.some(store)["path"]
        made = self.send("create", "POST", f"{store}/memories", {"path": path, "content": self.text()})
        self.noted("created", made)
        self.known[store].append(made)

    def update_if(self, store: str) -> None:
        """New content where it is still what this client knows."""
        self._update(store, "update if", {"content": self.text()}, guarded=True)

    def update(self, store: str) -> None:
        """New content."""
        self._update(store, "update", {"content": self.text()})

    def rename(self, store: str) -> None:
        """A new path; now and then below a memory, where none can be."""
        path = f"/clients/{self.name}/renamed/{self.count}.md"
        if self.random.random() < 0.2:
            path = self.some(store)["path"] + "/below"
        self._update(store, "rename", {"path": path})

    def _update(self, store: str, kind: str, body: Json, *, guarded: bool = False) -> None:
        memory = self.some(store)
        if guarded:
            body["precondition"] = {"type": "content_sha256", "content_sha256": memory["content_sha256"]}
        written = self.send(kind, "POST", f"{store}/memories/{memory['id']}", body)
        self.noted("modified", written)
        memory |= written

    def delete(self, store: str) -> None:
        """A memory less."""
        memory = self.some(store)
        self.known[store].remove(memory)
        gone = self.send("delete", "DELETE", f"{store}/memories/{memory['id']}")
        assert gone == {"id": memory["id"], "type": "memory_deleted"}, gone
        self.notes.writes.append(Noted(self.key_id, "deleted", memory_id=memory["id"]))

    def journal(self, store: str) -> None:
        """A line more in what everybody writes to."""
        (item,) = self.send("list", "GET", f"{store}/memories", path_prefix="/shared/")["data"]
        before = self.send("retrieve", "GET", f"{store}/memories/{item['id']}")
        if before["content_size_bytes"] > JOURNAL_BYTES:
            return
        line = f"{self.name} {self.count}\n"
        precondition = {"type": "content_sha256", "content_sha256": before["content_sha256"]}
        body = {"content": before["content"] + line, "precondition": precondition}
        self.noted("modified", self.send("journal", "POST", f"{store}/memories/{item['id']}", body))
        self.notes.lines.append((store, line))

    def redact(self, store: str) -> None:
        """The first of two versions of a memory that nobody else knows."""
        body = {"path": f"/redacted/{self.name}-{self.count}.md", "content": self.text()}
        made = self.send("create", "POST", f"{store}/memories", body)
        self.noted("created", made)
        self.noted("modified", self.send("update", "POST", f"{store}/memories/{made['id']}", {"content": self.text()}))
        version_id = made["memory_version_id"]
        found = self.send("redact", "POST", f"{store}/memory_versions/{version_id}/redact")
        assert found["redacted_at"] is not None, found
        self.notes.redacted.append(version_id)


def run_clients(plan: Clients) -> Notes:
    """One process of clients, each a thread."""
    clients = [Client(plan, number) for number in range(len(plan.names))]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    notes = Notes()
    for client, thread in zip(clients, threads, strict=True):
        thread.join()
        notes.add(client.notes)
    return notes
