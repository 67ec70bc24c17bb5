"""The OpenAPI document: what the framework makes of the routes, and what they do not tell it."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI

from memfs.model import ids

JsonObject = dict[str, Any]

_EXAMPLE = "01M8NMQFRP7HNTABQQHZR3KZM6"
_PREFIXES = {
    "store_id": ids.MEMORY_STORE,
    "memory_store_id": ids.MEMORY_STORE,
    "memory_id": ids.MEMORY,
    "version_id": ids.MEMORY_VERSION,
    "session_id": ids.SESSION,
    "api_key_id": ids.API_KEY,
}
"""Of the parameters that are ids."""

_RELATIONS = {"gt": "after", "gte": "at or after", "lt": "before", "lte": "at or before"}

_HEADERS = {
    "request-id": "The request's id, which the server's log has too.",
    "www-authenticate": "How to send a key.",
    "x-should-retry": "Whether repeating the request can help; the official SDKs go by it.",
    "retry-after": "Seconds to wait before the next request.",
}
_HEADERS_OF = {"401": "www-authenticate", "409": "x-should-retry", "429": "retry-after", "503": "retry-after"}

_LINKS = (
    ("memory_stores_create", "store_id", "id", ("memory_stores_", "memories_create", "memories_list", "changes_")),
    ("memories_create", "memory_id", "id", ("memories_", "memory_versions_list")),
    ("memories_create", "version_id", "memory_version_id", ("memory_versions_",)),
    ("memories_update", "version_id", "memory_version_id", ("memory_versions_",)),
    ("memory_versions_list_versions", "version_id", "data/0/id", ("memory_versions_",)),
    ("sessions_create", "session_id", "id", ("sessions_",)),
)
"""Where ids come from: an operation, the parameter that its answer gives, where in its body, and the beginnings of the
names of the operations that take it."""


def describe(app: FastAPI) -> None:
    """Let ``app.openapi`` give the whole document."""
    generate = app.openapi

    def openapi() -> JsonObject:
        if app.openapi_schema is None:
            _complete(generate())
        assert app.openapi_schema is not None
        return app.openapi_schema

    # The framework's own documented way to extend the document, which mypy takes for an accident.
    app.openapi = openapi  # type: ignore[method-assign]


def _complete(document: JsonObject) -> None:
    components = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):  # the framework's own form of refusals, which none has here
        components["schemas"].pop(name, None)
    components["headers"] = {
        name: {"description": text, "required": True, "schema": {"type": "string"}} for name, text in _HEADERS.items()
    }
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "As the official SDKs send it."},
        "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same key."},
    }
    document["security"] = [{"bearer": []}, {"x-api-key": []}]
    for operation in _operations(document):
        operation["responses"].pop("422", None)
        for parameter in operation.get("parameters", ()):
            _complete_parameter(parameter)
        for status, response in operation["responses"].items():
            names = ["request-id", *([_HEADERS_OF[status]] if status in _HEADERS_OF else [])]
            response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
            if status != "200":  # of whatever type the success is
                response["content"] = {"application/json": next(iter(response["content"].values()))}
    _link(document)


def _operations(document: JsonObject) -> Iterator[JsonObject]:
    for path in document["paths"].values():
        yield from path.values()


def _complete_parameter(parameter: JsonObject) -> None:
    schema = parameter["schema"]
    if "anyOf" in schema:  # a parameter that is not sent is None in Python; nobody can send a null
        (kind,) = (each for each in schema.pop("anyOf") if each != {"type": "null"})
        schema.update(kind)
    name = parameter["name"]
    prefix = _PREFIXES.get(name)
    if prefix is not None:
        parameter["example"] = prefix + _EXAMPLE
        if parameter["in"] == "path":  # one that is none is of nothing: 404
            parameter["description"] = f"{prefix} and 26 characters."
            schema["pattern"] = f"^{prefix}[0-9A-Z]{{26}}$"
    if name.startswith("created_at["):
        relation = _RELATIONS[name.removeprefix("created_at[").removesuffix("]")]
        parameter["description"] = f"Those made {relation} this time, in RFC 3339; without a zone it is UTC."
        parameter["example"] = "2026-11-30T09:12:01Z"
        schema["format"] = "date-time"


def _link(document: JsonObject) -> None:
    """Say which operations take what an operation answers."""
    operations = {operation["operationId"]: operation for operation in _operations(document)}
    for source_id, name, where, beginnings in _LINKS:
        source = operations[source_id]
        in_path = {each["name"] for each in source.get("parameters", ()) if each["in"] == "path"} - {name}
        links = source["responses"]["200"].setdefault("links", {})
        for target_id, target in operations.items():
            takes = {each["name"] for each in target.get("parameters", ())}
            if name in takes and target_id.startswith(beginnings):
                link = links.setdefault(target_id, {"operationId": target_id, "parameters": {}})
                link["parameters"] |= {each: f"$request.path.{each}" for each in sorted(in_path & takes)}
                link["parameters"][name] = f"$response.body#/{where}"
