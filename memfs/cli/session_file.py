"""A session as a YAML file: the body that the hosted API takes, where a store may also be named."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast, get_args

import yaml

from memfs.model.errors import InvalidRequest
from memfs.model.records import Access, ConflictPolicy, Store
from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource, SessionDescription

MAX_BYTES = 1024 * 1024
"""What a file may have: several times what eight stores with the longest instructions take."""

_FIELDS = ("agent", "environment_id", "title", "metadata", "resources")
_RESOURCE_FIELDS = ("type", "memory_store_id", "name", "access", "instructions", "on_conflict")

LONGEST_NUMBER = 30
"""Characters of a number or a time. PyYAML takes ``1:1:1…`` for one to the base of 60, at a cost that grows with the
square of its length: hours for a file of the size that it may have."""


class _Loader(yaml.SafeLoader):
    """Loads what a session is made of: no tags, which PyYAML trips over where they do not fit (``!!bool abc`` is a
    KeyError), and no merge keys, by which a few lines become gigabytes."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, "merge keys (<<) do not work here", key.start_mark)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = cast(Any, self).peek_event()
        if getattr(event, "tag", None) not in (None, "!"):
            raise yaml.composer.ComposerError(None, None, "tags (!) do not work here", event.start_mark)
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and node.tag != _TEXT and len(node.value) > LONGEST_NUMBER:
            raise yaml.composer.ComposerError(None, None, "a number this long has to be in quotes", node.start_mark)
        return node


_TEXT = "tag:yaml.org,2002:str"


def read_session_file(
    content: bytes, workspace: Workspace, title: str | None
) -> tuple[list[Resource], SessionDescription]:
    """What a file says of a session; ``title`` goes before its own.

    Raises InvalidRequest where the file is no such thing, and NotFound or AmbiguousName for its stores.
    """
    try:
        body = yaml.load(content, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"the file is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(body, dict):
        raise InvalidRequest("the file must have fields, like resources")
    _check_fields(body, _FIELDS, "a session")
    listed = body.get("resources")
    if not isinstance(listed, list) or not listed:
        raise InvalidRequest("resources must be a list of stores")
    resources = [_resource(item, number, workspace) for number, item in enumerate(listed, 1)]
    description = _description(body)
    return resources, description if title is None else replace(description, title=title)


def _check_fields(found: Mapping[object, object], known: tuple[str, ...], what: str) -> None:
    unknown = [str(name) for name in found if name not in known]
    if unknown:
        raise InvalidRequest(f"{what} has no field {unknown[0]!r}: it has {', '.join(known)}")


def _text(found: Mapping[str, object], name: str, what: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        # YAML takes some texts for numbers, dates and truths.
        raise InvalidRequest(f"{name} of {what} must be text: put it in quotes")
    return value


def _description(body: Mapping[str, object]) -> SessionDescription:
    agent, version = body.get("agent"), None
    if isinstance(agent, dict):
        version, agent = agent.get("version"), agent.get("id")
    if agent is not None and not isinstance(agent, str):
        raise InvalidRequest("agent must be an agent's id, or an object with its id")
    if version is not None and (type(version) is not int or not 0 <= version < 2**63):
        raise InvalidRequest("an agent's version is a number, of at most 64 bits")
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for pair in metadata.items() for text in pair):
        raise InvalidRequest("metadata must have texts as keys and values: put them in quotes")
    return SessionDescription(
        title=_text(body, "title", "a session"),
        metadata=metadata,
        agent_id=agent,
        agent_version=version,
        environment_id=_text(body, "environment_id", "a session"),
    )


def _resource(item: object, number: int, workspace: Workspace) -> Resource:
    what = f"resource {number}"
    if not isinstance(item, dict):
        raise InvalidRequest(f"{what} must have fields, like memory_store_id")
    _check_fields(item, _RESOURCE_FIELDS, what)
    if item.get("type") != "memory_store":
        raise InvalidRequest(f"the type of {what} must be memory_store: sessions have nothing else here")
    return Resource(
        _store(item, what, workspace),
        cast(Access, _one_of(item, "access", get_args(Access), "read_write", what)),
        _text(item, "instructions", what) or "",
        cast(ConflictPolicy, _one_of(item, "on_conflict", get_args(ConflictPolicy), "merge", what)),
    )


def _one_of(item: Mapping[str, object], name: str, known: tuple[str, ...], default: str, what: str) -> str:
    given = _text(item, name, what) or default
    if given not in known:
        raise InvalidRequest(f"{name} of {what} is {', '.join(known[:-1])} or {known[-1]}, not {given!r}")
    return given


def _store(item: Mapping[str, object], what: str, workspace: Workspace) -> Store:
    store_id, name = _text(item, "memory_store_id", what), _text(item, "name", what)
    if (store_id is None) == (name is None):
        raise InvalidRequest(f"{what} must have either memory_store_id or name")
    return workspace.stores.get(store_id) if store_id is not None else workspace.stores.resolve(name or "")
