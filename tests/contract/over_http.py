"""The HTTP API of a running server."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from memfs.api.answers import ANSWERS
from memfs.model.contract import JsonObject
from memfs.model.errors import MemfsError
from memfs.workspace import VersionFilter
from tests.api.harness import Server
from tests.contract.surfaces import EVERY_VERSION, Kind, Page, Refusal, View

STORES = "/v1/memory_stores"
SESSIONS = "/v1/sessions"


def _given(**values: object) -> dict[str, Any]:
    """Without what is None: what is left out of a request."""
    return {name: value for name, value in values.items() if value is not None}


def _store(store_id: str, *below: str) -> str:
    return "/".join([STORES, quote(store_id, safe=""), *(quote(part, safe="") for part in below)])


def _body(content: bytes | None, **others: object) -> bytes:
    """A body with a content. JSON can carry halves of characters; for other bytes that are no text the body is none."""
    if content is None:
        return json.dumps(_given(**others)).encode()
    try:
        return json.dumps(_given(content=content.decode(errors="surrogatepass"), **others)).encode()
    except UnicodeDecodeError:
        text = content.decode(errors="surrogateescape")
        return json.dumps(_given(content=text, **others), ensure_ascii=False).encode(errors="surrogateescape")


class ApiDriver:
    """Plain requests with one key that may do everything."""

    name = "api"

    def __init__(self, server: Server, api_key_id: str) -> None:
        self._server = server
        self.actor: JsonObject = {"type": "api_actor", "api_key_id": api_key_id}

    def kind_of(self, error: type[MemfsError]) -> Kind:
        return ANSWERS[error]

    def _ask(self, method: str, path: str, body: object = None, query: Mapping[str, object] | None = None) -> Any:
        answer = self._server.request(method, path, body, query=query)
        if answer.status == 200:
            return answer.ok()
        kind = answer.json["error"]["type"]
        error = answer.refused(answer.status, kind)
        conflict = None
        if error.keys() != {"type", "message"}:
            assert error.keys() == {"type", "message", "conflicting_memory_id", "conflicting_path"}
            conflict = error["conflicting_memory_id"], error["conflicting_path"]
        raise Refusal((answer.status, kind), error["message"], conflict)

    def _all(self, path: str, query: Mapping[str, object]) -> list[JsonObject]:
        found: list[JsonObject] = []
        page = self._page(path, 100, None, query)
        while True:
            found += page.data
            if page.next_page is None:
                return found
            page = self._page(path, 100, page.next_page, query)

    def _page(self, path: str, limit: int, page: Any, query: Mapping[str, object]) -> Page:
        answer = self._ask("GET", path, query=_given(limit=limit, page=page, **query))
        assert answer.keys() == {"data", "next_page"}
        return Page(answer["data"], answer["next_page"])

    # Stores

    def create_store(self, name: str, description: str = "", metadata: Mapping[str, str] | None = None) -> JsonObject:
        body = _given(name=name, description=description or None, metadata=metadata)
        made: JsonObject = self._ask("POST", STORES, body)
        return made

    def get_store(self, store_id: str) -> JsonObject:
        found: JsonObject = self._ask("GET", _store(store_id))
        return found

    def update_store(
        self,
        store_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> JsonObject:
        body = _given(name=name, description=description, metadata=metadata)
        changed: JsonObject = self._ask("POST", _store(store_id), body)
        return changed

    def list_stores(self, *, include_archived: bool = False) -> list[JsonObject]:
        return self._all(STORES, {"include_archived": "true"} if include_archived else {})

    def list_stores_between(self, created_from: str | None, created_to: str | None) -> list[JsonObject]:
        return self._all(STORES, _given(**{"created_at[gte]": created_from, "created_at[lte]": created_to}))

    def store_page(self, limit: int, page: Any = None) -> Page:
        return self._page(STORES, limit, page, {})

    def archive_store(self, store_id: str) -> JsonObject:
        archived: JsonObject = self._ask("POST", _store(store_id, "archive"))
        return archived

    def delete_store(self, store_id: str) -> JsonObject:
        deleted: JsonObject = self._ask("DELETE", _store(store_id))
        return deleted

    # Memories

    def create_memory(self, store_id: str, path: str, content: bytes = b"text\n") -> JsonObject:
        made: JsonObject = self._ask("POST", _store(store_id, "memories"), _body(content, path=path))
        return made

    def get_memory(self, store_id: str, memory_id: str) -> JsonObject:
        found: JsonObject = self._ask("GET", _store(store_id, "memories", memory_id))
        return found

    def update_memory(
        self,
        store_id: str,
        memory_id: str,
        *,
        content: bytes | None = None,
        path: str | None = None,
        expected_sha256: str | None = None,
    ) -> JsonObject:
        precondition = None
        if expected_sha256 is not None:
            precondition = {"type": "content_sha256", "content_sha256": expected_sha256}
        body = _body(content, path=path, precondition=precondition)
        changed: JsonObject = self._ask("POST", _store(store_id, "memories", memory_id), body)
        return changed

    def delete_memory(self, store_id: str, memory_id: str, *, expected_sha256: str | None = None) -> JsonObject:
        query = _given(expected_content_sha256=expected_sha256)
        deleted: JsonObject = self._ask("DELETE", _store(store_id, "memories", memory_id), query=query)
        return deleted

    def list_memories(
        self, store_id: str, prefix: str = "/", *, depth: int = 0, view: View = "basic"
    ) -> list[JsonObject]:
        return self._all(_store(store_id, "memories"), {"path_prefix": prefix, "depth": depth, "view": view})

    def memory_page(self, store_id: str, limit: int, page: Any = None, *, depth: int = 0) -> Page:
        return self._page(_store(store_id, "memories"), limit, page, {"depth": depth})

    # Versions

    def list_versions(
        self, store_id: str, where: VersionFilter = EVERY_VERSION, *, view: View = "basic"
    ) -> list[JsonObject]:
        if where.user_id is not None:
            raise NotImplementedError("see LACKING")
        query = _given(
            memory_id=where.memory_id,
            operation=where.operation,
            session_id=where.session_id,
            api_key_id=where.api_key_id,
            service_account_id=where.service_account_id,
            view=view,
            **{"created_at[gte]": where.created_from, "created_at[lte]": where.created_to},
        )
        return self._all(_store(store_id, "memory_versions"), query)

    def version_page(self, store_id: str, limit: int, page: Any = None) -> Page:
        return self._page(_store(store_id, "memory_versions"), limit, page, {})

    def get_version(self, store_id: str, version_id: str) -> JsonObject:
        found: JsonObject = self._ask("GET", _store(store_id, "memory_versions", version_id))
        return found

    def redact_version(self, store_id: str, version_id: str) -> JsonObject:
        redacted: JsonObject = self._ask("POST", _store(store_id, "memory_versions", version_id, "redact"))
        return redacted

    # Sessions

    def create_session(
        self,
        resources: Sequence[JsonObject],
        *,
        title: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> JsonObject:
        body = {"resources": list(resources), **_given(title=title, metadata=metadata)}
        made: JsonObject = self._ask("POST", SESSIONS, body)
        return made

    def get_session(self, session_id: str) -> JsonObject:
        found: JsonObject = self._ask("GET", f"{SESSIONS}/{quote(session_id, safe='')}")
        return found

    def list_sessions(self, store_id: str, *, include_archived: bool = False) -> list[JsonObject]:
        return self._all(SESSIONS, {"memory_store_id": store_id, "include_archived": str(include_archived).lower()})

    def session_page(self, store_id: str, limit: int, page: Any = None) -> Page:
        return self._page(SESSIONS, limit, page, {"memory_store_id": store_id})

    def archive_session(self, session_id: str) -> JsonObject:
        archived: JsonObject = self._ask("POST", f"{SESSIONS}/{quote(session_id, safe='')}/archive")
        return archived
