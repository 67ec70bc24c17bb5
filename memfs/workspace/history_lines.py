"""A history as lines of JSON, read from somebody who may tell us anything: every line is checked, and their order.

The lines are a ``memory_store`` (which may be missing), the ``memory_version`` objects of one store, oldest first, and
a ``memory`` for each that lives at the end.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, BinaryIO, NamedTuple, cast, get_args

from memfs.model import ids
from memfs.model.errors import InvalidRequest, MemfsError, StoreFull, WriteRefused
from memfs.model.paths import ancestors, check_path
from memfs.model.records import MAX_CONTENT_BYTES, Actor, ActorType, MemoryVersion, Operation, format_time
from memfs.workspace.memories import LIMITS

JsonObject = dict[str, Any]

MAX_LINE_BYTES = 2 * 2**20
"""A line: 102,400 bytes of text may take six times as much in JSON, and there is some air."""

MAX_ACTOR_CHARACTERS = 256

Check = Callable[[str, bytes], None]
"""Judges the path and the content of a version; raises a MemfsError."""


class _Last(NamedTuple):
    """The newest version of a memory that lives, without its content."""

    version_id: str
    path: str | None
    size: int | None
    sha256: str | None
    created_at: str


class HistoryLines:
    """One reading of a file of lines from its start; ``versions`` comes to its end before the rest can be asked."""

    def __init__(self, file: BinaryIO, check: Check | None = None) -> None:
        self._file = file
        self._check = check
        self._number = 0
        self._store_id: str | None = None
        self._whole = False
        self._version_ids: set[bytes] = set()
        self._live: dict[str, _Last | None] = {}
        self._born: dict[str, str] = {}
        self._first: dict[str, str] = {}
        self._memories: set[str] = set()
        self.count = 0
        """How many versions there are."""

    @property
    def created_at(self) -> Mapping[str, str]:
        """When each memory that lives at the end was first made, by id, as far as it is told."""
        return self._born

    @property
    def paths(self) -> list[str]:
        """Where memories live at the end, in order."""
        return sorted(last.path for last in self._live.values() if last is not None and last.path is not None)

    def versions(self) -> Iterator[MemoryVersion]:
        """The versions, oldest first, with ``sequence`` 0.

        Raises InvalidRequest, or WriteRefused for what ``check`` refuses, which name the line; and StoreFull.
        """
        self._file.seek(0)
        while line := self._file.readline(MAX_LINE_BYTES + 1):
            self._number += 1
            try:
                item = _parsed(line, first=self._number == 1)
                version = None if item is None else self._take(item)
            except MemfsError as error:
                kind = WriteRefused if isinstance(error, WriteRefused) else InvalidRequest
                raise kind(f"line {self._number}: {error}; nothing was imported") from None
            if version is not None:
                yield version
        self._check_end()

    def _take(self, item: JsonObject) -> MemoryVersion | None:
        match item.get("type"):
            case "memory_store":
                self._take_store(item)
            case "memory_version":
                return self._take_version(item)
            case "memory":
                self._take_memory(item)
            case other:
                raise InvalidRequest(f"its type is {_shown(other)}, not memory_store, memory_version or memory")
        return None

    def _take_store(self, item: JsonObject) -> None:
        if self._number != 1:
            raise InvalidRequest("a memory_store may be the first line only: a file has the history of one store")
        self._store_id = _id(item, "id", ids.MEMORY_STORE)
        self._whole = True

    def _same_store(self, item: JsonObject) -> str:
        store_id = _id(item, "memory_store_id", ids.MEMORY_STORE)
        if self._store_id is None:
            self._store_id = store_id
        if store_id != self._store_id:
            raise InvalidRequest(f"it is of the store {store_id}, and the lines before of {self._store_id}")
        return store_id

    def _take_version(self, item: JsonObject) -> MemoryVersion:
        if self._memories:
            raise InvalidRequest("a memory_version after a memory: the versions come first")
        version = _version(item, self._same_store(item))
        known = version.id.removeprefix(ids.MEMORY_VERSION).encode()
        if known in self._version_ids:
            raise InvalidRequest(f"the version {version.id} comes a second time")
        self._version_ids.add(known)
        memory_id = version.memory_id
        before = self._live.get(memory_id)
        if version.operation == "created":
            if before is not None:
                raise InvalidRequest(f"it says created, but the memory {memory_id} is there already")
        elif before is None and memory_id in self._live:
            raise InvalidRequest(f"it says {version.operation}, but the memory {memory_id} was deleted before")
        self._first.setdefault(memory_id, version.created_at)
        if version.operation == "deleted":
            self._live[memory_id] = None
        else:
            self._live[memory_id] = _Last(
                version.id, version.path, version.content_size_bytes, version.content_sha256, version.created_at
            )
        if self._check is not None and version.path is not None and version.content is not None:
            self._check(version.path, version.content)
        self.count += 1
        return version

    def _take_memory(self, item: JsonObject) -> None:
        self._same_store(item)
        memory_id = _id(item, "id", ids.MEMORY)
        if memory_id in self._memories:
            raise InvalidRequest(f"the memory {memory_id} comes a second time")
        last = self._live.get(memory_id)
        if last is None:
            raise InvalidRequest(f"by its versions the memory {memory_id} does not live at the end of the history")
        for field, told in (
            ("memory_version_id", last.version_id),
            ("path", last.path),
            ("content_size_bytes", last.size),
            ("content_sha256", last.sha256),
        ):
            if item.get(field) != told:
                raise InvalidRequest(f"its {field} is not that of the memory's last version, {last.version_id}")
        if item.get("content") is not None:
            raise InvalidRequest("a memory has content null here: its last version has the text")
        if _time(item, "updated_at") != last.created_at:
            raise InvalidRequest(f"its updated_at is not the time of the memory's last version, {last.version_id}")
        created_at = _time(item, "created_at")
        if created_at > self._first[memory_id]:
            raise InvalidRequest("its created_at is later than its first version")
        self._born[memory_id] = created_at
        self._memories.add(memory_id)

    def _check_end(self) -> None:
        """The memories that live at the end must be able to live together in a store."""
        for memory_id, last in self._live.items():
            if last is not None and last.path is None:
                raise InvalidRequest(
                    f"the memory {memory_id} ends with the redacted version {last.version_id}, which no live memory"
                    " can have; nothing was imported"
                )
        used: set[str] = set()
        for path in self.paths:
            for other in (path, *ancestors(path)):
                if other in used:
                    raise InvalidRequest(
                        f"the history ends with memories at {other} and at {path}, which cannot both be;"
                        " nothing was imported"
                    )
            used.add(path)
        if len(used) > LIMITS.memories:
            raise StoreFull(
                f"the history ends with {len(used)} memories, and a store holds {LIMITS.memories}; nothing was imported"
            )
        missing = len(used) - len(self._memories)
        if missing and (self._whole or self._memories):
            raise InvalidRequest(
                f"the file ends without the lines of {missing} memories: it may have been cut off; nothing was imported"
            )


# One line


def _parsed(line: bytes, *, first: bool) -> JsonObject | None:
    """The object of a line, None for an empty one. Raises InvalidRequest."""
    if len(line) > MAX_LINE_BYTES:
        raise InvalidRequest(f"it has over {MAX_LINE_BYTES} bytes, more than a version can need")
    try:
        text = line.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"it is not UTF-8 (byte {line[error.start]:#04x} at offset {error.start})") from None
    if not text.strip():
        return None
    try:
        item = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "it cannot be read"
        raise InvalidRequest(f"it is not JSON: {reason}") from None
    if not isinstance(item, dict):
        raise InvalidRequest(f"it is not a JSON object, but {_shown(item)}")
    return cast(JsonObject, item)


def _version(item: JsonObject, store_id: str) -> MemoryVersion:
    operation = item.get("operation")
    if operation not in get_args(Operation):
        raise InvalidRequest(f"its operation is {_shown(operation)}, not created, modified or deleted")
    redacted = item.get("redacted_at") is not None
    if redacted != (item.get("redacted_by") is not None):
        raise InvalidRequest("redacted_at and redacted_by are there both or neither")
    path = item.get("path")
    if redacted:
        if path is not None:
            raise InvalidRequest("a redacted version has no path")
    elif not isinstance(path, str):
        raise InvalidRequest(f"its path is {_shown(path)}, not text")
    else:
        _encoded(path, "path")
        check_path(path)
    content, digest = _content(item, expected=not redacted and operation != "deleted")
    return MemoryVersion(
        id=_id(item, "id", ids.MEMORY_VERSION),
        memory_store_id=store_id,
        memory_id=_id(item, "memory_id", ids.MEMORY),
        sequence=0,
        operation=cast(Operation, operation),
        path=path,
        content_size_bytes=None if content is None else len(content),
        content_sha256=digest,
        created_at=_time(item, "created_at"),
        created_by=_actor(item, "created_by"),
        redacted_at=_time(item, "redacted_at") if redacted else None,
        redacted_by=_actor(item, "redacted_by") if redacted else None,
        content=content,
    )


def _content(item: JsonObject, *, expected: bool) -> tuple[bytes, str] | tuple[None, None]:
    """A version's text and its hash; it must be as the object tells of its size and hash, where it does."""
    text, size, told = item.get("content"), item.get("content_size_bytes"), item.get("content_sha256")
    if not expected:
        if (text, size, told) != (None, None, None):
            raise InvalidRequest("a deleted or redacted version has no content, size or hash")
        return None, None
    if text is None:
        raise InvalidRequest("it has no content: export the history with 'memfs store export --as jsonl'")
    if not isinstance(text, str):
        raise InvalidRequest(f"its content is {_shown(text)}, not text")
    content = _encoded(text, "content")
    if len(content) > MAX_CONTENT_BYTES:
        raise InvalidRequest(f"the content has {len(content)} bytes, and a memory at most {MAX_CONTENT_BYTES}")
    if size is not None and (type(size) is not int or size != len(content)):
        raise InvalidRequest(f"the content has {len(content)} bytes, not {_shown(size)} as content_size_bytes says")
    digest = sha256(content).hexdigest()
    if told not in (None, digest):
        raise InvalidRequest("the content has another hash than content_sha256 says: it was changed")
    return content, digest


def _encoded(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"its {field} has half of a surrogate pair, \\u{ord(text[error.start]):04x}") from None


def _id(item: JsonObject, field: str, prefix: str) -> str:
    value = item.get(field)
    if not isinstance(value, str) or not ids.is_id(value, prefix):
        raise InvalidRequest(f"its {field} is {_shown(value)}, not {prefix} and 26 characters")
    return value


_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,12})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _time(item: JsonObject, field: str) -> str:
    value = item.get(field)
    if isinstance(value, str) and _TIME.fullmatch(value):
        try:
            moment = format_time(datetime.fromisoformat(value.upper()))
        except (ValueError, OverflowError):
            pass
        else:
            if moment >= "1970":
                return moment
    raise InvalidRequest(f"its {field} is {_shown(value)}, no time like 2026-11-30T09:12:01.000123Z since 1970")


_IDENTITY = re.compile(rf"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{1,{MAX_ACTOR_CHARACTERS}}}")


def _actor(item: JsonObject, field: str) -> Actor:
    value = item.get(field)
    if not isinstance(value, dict) or value.get("type") not in get_args(ActorType):
        raise InvalidRequest(f"its {field} is {_shown(value)}, no actor with a type and an id")
    kind = cast(ActorType, value["type"])
    (id_field,) = Actor(kind, "").as_json().keys() - {"type"}
    identity = value.get(id_field)
    if not isinstance(identity, str) or not _IDENTITY.fullmatch(identity):
        raise InvalidRequest(
            f"the {id_field} of its {field} is {_shown(identity)}, not 1 to {MAX_ACTOR_CHARACTERS} characters without"
            " control characters"
        )
    return Actor(kind, identity)


def _shown(value: object) -> str:
    """A value in an error, however large it is."""
    text = "missing or null" if value is None else json.dumps(value) if isinstance(value, str | int | float) else ""
    return text[:80] or f"{'an object' if isinstance(value, dict) else 'a list'}"
