"""Every refusal that the surfaces share: the same error in the same words, wherever it is asked for."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from memfs.model import errors
from memfs.model.contract import JsonObject
from memfs.workspace import Workspace
from tests.contract.judging import Otherwise, refused_alike
from tests.contract.scene import UNKNOWN_MEMORY, UNKNOWN_SESSION, UNKNOWN_STORE, UNKNOWN_VERSION, Scene
from tests.contract.surfaces import Driver, having

Ask = Callable[[Driver, Scene], object]


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked for, and the error that it must come to; ``needs`` is what not every surface has."""

    error: type[errors.MemfsError]
    words: str
    ask: Ask
    needs: str | None = None


def _metadata(pairs: int) -> dict[str, str]:
    return {f"key{number}": "value" for number in range(pairs)}


_LONG_NAME = errors.InvalidRequest, r"^a store's name has 1 to 255 characters, this one 256$"
_CONTROL = errors.InvalidRequest, r"name may not hold control characters"

STORES = {
    "a store without a name": Case(
        errors.InvalidRequest, "1 to 255 characters, this one 0", lambda s, _: s.create_store("")
    ),
    "a store's name of 256 characters": Case(*_LONG_NAME, lambda s, _: s.create_store("x" * 256)),
    "a store's name of 256 characters of several bytes": Case(*_LONG_NAME, lambda s, _: s.create_store("é" * 256)),
    "a store's name with a tab": Case(*_CONTROL, lambda s, _: s.create_store("a\tb")),
    "a store's name with a newline": Case(*_CONTROL, lambda s, _: s.create_store("a\n")),
    "a store's name with an escape": Case(*_CONTROL, lambda s, _: s.create_store("\x1b[31m")),
    "a store's name with NUL": Case(*_CONTROL, lambda s, _: s.create_store("a\0")),
    "a store's name with DEL": Case(*_CONTROL, lambda s, _: s.create_store("a\x7f")),
    "a store's name with C1": Case(*_CONTROL, lambda s, _: s.create_store("a\x85b")),
    "a store's name with half a character": Case(
        errors.InvalidRequest, "text that UTF-8 can hold", lambda s, _: s.create_store("a\udcff")
    ),
    "a description of 1,025 characters": Case(
        errors.InvalidRequest, "at most 1024 characters, this one 1025", lambda s, _: s.create_store("x", "é" * 1_025)
    ),
    "metadata of 17 pairs": Case(
        errors.InvalidRequest, "at most 16 pairs, this one 17", lambda s, _: s.create_store("x", "", _metadata(17))
    ),
    "a metadata key of 65 characters": Case(
        errors.InvalidRequest, "key has 1 to 64 characters", lambda s, _: s.create_store("x", "", {"é" * 65: "v"})
    ),
    "an empty metadata key": Case(
        errors.InvalidRequest, "key has 1 to 64 characters: ''", lambda s, _: s.create_store("x", "", {"": "v"})
    ),
    "a metadata value of 513 characters": Case(
        errors.InvalidRequest,
        "at most 512 characters: that of 'k'",
        lambda s, _: s.create_store("x", "", {"k": "é" * 513}),
    ),
    "renaming a store to nothing": Case(
        errors.InvalidRequest, "this one 0", lambda s, scene: s.update_store(scene.store, name="")
    ),
    "renaming a store to 256 characters": Case(
        *_LONG_NAME, lambda s, scene: s.update_store(scene.store, name="x" * 256)
    ),
    "renaming a store to a control character": Case(
        *_CONTROL, lambda s, scene: s.update_store(scene.store, name="a\rb", description="x")
    ),
    "describing a store in 1,025 characters": Case(
        errors.InvalidRequest, "this one 1025", lambda s, scene: s.update_store(scene.store, description="x" * 1_025)
    ),
    "giving a store 17 pairs": Case(
        errors.InvalidRequest,
        "at most 16 pairs, this one 17",
        lambda s, scene: s.update_store(scene.store, metadata=_metadata(17)),
    ),
    "giving a store a key of 65 characters": Case(
        errors.InvalidRequest, "1 to 64", lambda s, scene: s.update_store(scene.store, metadata={"k" * 65: "v"})
    ),
    "giving a store a value of 513 characters": Case(
        errors.InvalidRequest, "at most 512", lambda s, scene: s.update_store(scene.store, metadata={"k": "v" * 513})
    ),
    "changing an archived store": Case(
        errors.StoreArchived,
        r"the store 'Archived' \(memstore_\w+\) is archived: it can only be read",
        lambda s, scene: s.update_store(scene.archived, name="x"),
    ),
}

_NO_STORE = errors.NotFound, f"^there is no store {UNKNOWN_STORE}$"
_GONE_STORE = errors.NotFound, "^there is no store memstore_"

MISSING = {
    "an unknown store": Case(*_NO_STORE, lambda s, _: s.get_store(UNKNOWN_STORE)),
    "changing an unknown store": Case(*_NO_STORE, lambda s, _: s.update_store(UNKNOWN_STORE, name="x")),
    "archiving an unknown store": Case(*_NO_STORE, lambda s, _: s.archive_store(UNKNOWN_STORE)),
    "deleting an unknown store": Case(*_NO_STORE, lambda s, _: s.delete_store(UNKNOWN_STORE)),
    "listing the memories of an unknown store": Case(*_NO_STORE, lambda s, _: s.list_memories(UNKNOWN_STORE)),
    "listing a directory of an unknown store": Case(*_NO_STORE, lambda s, _: s.list_memories(UNKNOWN_STORE, depth=1)),
    "a memory of an unknown store": Case(*_NO_STORE, lambda s, scene: s.get_memory(UNKNOWN_STORE, scene.memory.id)),
    "creating in an unknown store": Case(*_NO_STORE, lambda s, _: s.create_memory(UNKNOWN_STORE, "/a")),
    "changing in an unknown store": Case(
        *_NO_STORE, lambda s, scene: s.update_memory(UNKNOWN_STORE, scene.memory.id, content=b"x")
    ),
    "deleting in an unknown store": Case(*_NO_STORE, lambda s, scene: s.delete_memory(UNKNOWN_STORE, scene.memory.id)),
    "the versions of an unknown store": Case(*_NO_STORE, lambda s, _: s.list_versions(UNKNOWN_STORE)),
    "a version of an unknown store": Case(
        *_NO_STORE, lambda s, scene: s.get_version(UNKNOWN_STORE, scene.first_version)
    ),
    "redacting in an unknown store": Case(
        *_NO_STORE, lambda s, scene: s.redact_version(UNKNOWN_STORE, scene.first_version)
    ),
    "a deleted store": Case(*_GONE_STORE, lambda s, scene: s.get_store(scene.removed)),
    "deleting a store twice": Case(*_GONE_STORE, lambda s, scene: s.delete_store(scene.removed)),
    "creating in a deleted store": Case(*_GONE_STORE, lambda s, scene: s.create_memory(scene.removed, "/a")),
    "the versions of a deleted store": Case(*_GONE_STORE, lambda s, scene: s.list_versions(scene.removed)),
    "what is no id of a store": Case(errors.NotFound, "there is no store", lambda s, _: s.get_store("memstore_x")),
    "an id of a store in lower case": Case(
        errors.NotFound, "there is no store", lambda s, scene: s.get_store(scene.store.lower())
    ),
    "an unknown memory": Case(
        errors.NotFound,
        f"^the store memstore_\\w+ has no memory {UNKNOWN_MEMORY}$",
        lambda s, scene: s.get_memory(scene.store, UNKNOWN_MEMORY),
    ),
    "changing an unknown memory": Case(
        errors.NotFound,
        f"has no memory {UNKNOWN_MEMORY}$",
        lambda s, scene: s.update_memory(scene.store, UNKNOWN_MEMORY, content=b"x"),
    ),
    "moving an unknown memory": Case(
        errors.NotFound,
        f"has no memory {UNKNOWN_MEMORY}$",
        lambda s, scene: s.update_memory(scene.store, UNKNOWN_MEMORY, path="/x"),
    ),
    "deleting an unknown memory": Case(
        errors.NotFound,
        f"has no memory {UNKNOWN_MEMORY}$",
        lambda s, scene: s.delete_memory(scene.store, UNKNOWN_MEMORY),
    ),
    "a memory of another store": Case(
        errors.NotFound, "has no memory mem_", lambda s, scene: s.get_memory(scene.store, scene.in_other.id)
    ),
    "changing a memory of another store": Case(
        errors.NotFound,
        "has no memory mem_",
        lambda s, scene: s.update_memory(scene.store, scene.in_other.id, content=b"x"),
    ),
    "deleting a memory of another store": Case(
        errors.NotFound, "has no memory mem_", lambda s, scene: s.delete_memory(scene.store, scene.in_other.id)
    ),
    "a deleted memory": Case(
        errors.NotFound, "has no memory mem_", lambda s, scene: s.get_memory(scene.store, scene.deleted.id)
    ),
    "changing a deleted memory": Case(
        errors.NotFound,
        "has no memory mem_",
        lambda s, scene: s.update_memory(scene.store, scene.deleted.id, content=b"x"),
    ),
    "deleting a memory twice": Case(
        errors.NotFound, "has no memory mem_", lambda s, scene: s.delete_memory(scene.store, scene.deleted.id)
    ),
    "an unknown version": Case(
        errors.NotFound,
        f"^the store memstore_\\w+ has no version {UNKNOWN_VERSION}$",
        lambda s, scene: s.get_version(scene.store, UNKNOWN_VERSION),
    ),
    "a version of another store": Case(
        errors.NotFound,
        "has no version memver_",
        lambda s, scene: s.get_version(scene.store, scene.in_other.memory_version_id),
    ),
    "what is no id of a version": Case(
        errors.NotFound,
        "'memver_x' is no version: a version's id is memver_ and 26 characters",
        lambda s, scene: s.get_version(scene.store, "memver_x"),
    ),
    "redacting an unknown version": Case(
        errors.NotFound, "has no version", lambda s, scene: s.redact_version(scene.store, UNKNOWN_VERSION)
    ),
    "redacting a version of another store": Case(
        errors.NotFound,
        "has no version",
        lambda s, scene: s.redact_version(scene.store, scene.in_other.memory_version_id),
    ),
    "redacting what is no id": Case(
        errors.NotFound, "'x' is no version", lambda s, scene: s.redact_version(scene.store, "x")
    ),
}

BAD_PATHS: dict[str, tuple[str, type[errors.MemfsError], str]] = {
    "nothing": ("", errors.InvalidPath, "a path starts with '/': ''"),
    "no leading slash": ("a", errors.InvalidPath, "a path starts with '/': 'a'"),
    "no leading slash, and one later": ("a/b", errors.InvalidPath, "a path starts with '/': 'a/b'"),
    "the root": ("/", errors.InvalidPath, "segment may not be ''"),
    "two leading slashes": ("//a", errors.InvalidPath, "segment may not be ''"),
    "an empty segment": ("/a//b", errors.InvalidPath, "segment may not be ''"),
    "a trailing slash": ("/a/", errors.InvalidPath, "segment may not be ''"),
    "a dot": ("/.", errors.InvalidPath, r"segment may not be '\.'"),
    "a dot within": ("/a/./b", errors.InvalidPath, r"segment may not be '\.'"),
    "two dots": ("/..", errors.InvalidPath, r"segment may not be '\.\.'"),
    "two dots within": ("/a/../b", errors.InvalidPath, r"segment may not be '\.\.'"),
    "two dots at the end": ("/a/..", errors.InvalidPath, r"segment may not be '\.\.'"),
    "21 segments": ("/a" * 21, errors.PathTooLong, "at most 20 segments, this one 21"),
    "1,025 bytes": ("/" + "a" * 1_024, errors.PathTooLong, "at most 1024 bytes"),
    "1,025 bytes in 513 characters": ("/" + "é" * 512, errors.PathTooLong, "at most 1024 bytes"),
    "NUL": ("/a\0b", errors.InvalidPath, "holds a control character"),
    "a newline": ("/a\nb", errors.InvalidPath, "holds a control character"),
    "a newline at the end": ("/a\n", errors.InvalidPath, "holds a control character"),
    "DEL": ("/a\x7f", errors.InvalidPath, "holds a control character"),
    "C1": ("/a\x85", errors.InvalidPath, r"holds U\+0085"),
    "a control character next to others": ("/é\t", errors.InvalidPath, r"holds U\+0009"),
    "a zero-width space": ("/a\u200b", errors.InvalidPath, r"holds U\+200B"),
    "a soft hyphen": ("/a\u00adb", errors.InvalidPath, r"holds U\+00AD"),
    "a right-to-left override": ("/\u202eb", errors.InvalidPath, r"holds U\+202E"),
    "a byte order mark": ("/\ufeffa", errors.InvalidPath, r"holds U\+FEFF"),
    "a tag character": ("/a\U000e0041", errors.InvalidPath, r"holds U\+E0041"),
    "a line separator": ("/a\u2028b", errors.InvalidPath, r"holds U\+2028"),
    "a paragraph separator": ("/a\u2029", errors.InvalidPath, r"holds U\+2029"),
    "half a character": ("/a\udcff", errors.InvalidPath, r"holds U\+DCFF"),
    "not composed": ("/e\u0301", errors.InvalidPath, "not in Unicode Normalization Form C"),
    "not composed in a directory": ("/o\u0308/a", errors.InvalidPath, "not in Unicode Normalization Form C"),
    "a sign that NFC replaces": ("/\u212b", errors.InvalidPath, "not in Unicode Normalization Form C"),
}


def _creating(path: str) -> Ask:
    return lambda s, scene: s.create_memory(scene.store, path)


def _moving(path: str) -> Ask:
    return lambda s, scene: s.update_memory(scene.store, scene.memory.id, path=path, content=b"three\n")


PATHS = {
    f"{verb} a path: {what}": Case(error, words, asking(path))
    for what, (path, error, words) in BAD_PATHS.items()
    for verb, asking in (("creating at", _creating), ("moving to", _moving))
}

BAD_PREFIXES = {
    "no trailing slash": ("/notes", "starts and ends with '/': '/notes'"),
    "no leading slash": ("notes/", "starts and ends with '/': 'notes/'"),
    "a word": ("x", "starts and ends with '/'"),
    "two slashes": ("//", "segment may not be ''"),
    "an empty segment": ("/notes//", "segment may not be ''"),
    "two dots": ("/notes/../", r"segment may not be '\.\.'"),
    "a control character": ("/a\n/", "control character"),
    "not composed": ("/e\u0301/", "Normalization Form C"),
}


def _listing(prefix: str, depth: int) -> Ask:
    return lambda s, scene: s.list_memories(scene.store, prefix, depth=depth)


LISTS = {
    f"a prefix, depth {depth}: {what}": Case(
        errors.InvalidRequest if "ends with" in words else errors.InvalidPath, words, _listing(prefix, depth)
    )
    for what, (prefix, words) in BAD_PREFIXES.items()
    for depth in (0, 1)
} | {
    "a depth of 2": Case(errors.InvalidRequest, r"depth is 0 .* or 1 .*, not 2", _listing("/", 2)),
    "a depth of -1": Case(errors.InvalidRequest, r"depth is 0 .* or 1 .*, not -1", _listing("/", -1)),
}

_ABOVE_OR_BELOW = errors.PathConflict, "lies above or below the memory mem_.* at /notes/.*: choose another"
_TOO_LARGE = errors.ContentTooLarge, r"has 10240\d bytes, and a memory at most 102400: split it"
_NOT_TEXT = errors.ContentNotText, r"not UTF-8 text \(byte 0xe9 at offset 3\)"
_STALE = errors.PreconditionFailed, "^/notes/a.md has the hash [0-9a-f]{64}, not 0{64}: read it again$"
_ARCHIVED = errors.StoreArchived, r"the store .*memstore_\w+.* is archived"
_FULL = errors.StoreFull, r"^the store memstore_\w+ holds 2000 of 2000 memories: delete some, or use another store$"
NO_HASH = "0" * 64
HALF_A_CHARACTER = "caf\ud83d".encode(errors="surrogatepass")

MEMORIES = {
    "creating at a used path": Case(
        errors.PathConflict,
        "^the path /notes/a.md is used by the memory mem_",
        lambda s, scene: s.create_memory(scene.store, "/notes/a.md"),
    ),
    "creating at a used path what is there": Case(
        errors.PathConflict,
        "is used by",
        lambda s, scene: s.create_memory(scene.store, "/notes/a.md", b"two\n"),
    ),
    "creating below a memory": Case(
        *_ABOVE_OR_BELOW, lambda s, scene: s.create_memory(scene.store, "/notes/a.md/below")
    ),
    "creating far below a memory": Case(
        *_ABOVE_OR_BELOW, lambda s, scene: s.create_memory(scene.store, "/notes/a.md/x/y/z")
    ),
    "creating above a memory": Case(*_ABOVE_OR_BELOW, lambda s, scene: s.create_memory(scene.store, "/notes/deep")),
    "creating at a directory": Case(*_ABOVE_OR_BELOW, lambda s, scene: s.create_memory(scene.store, "/notes")),
    "moving to a used path": Case(
        errors.PathConflict,
        "^the path /notes/deep/er/b.md is used by the memory mem_",
        lambda s, scene: s.update_memory(scene.store, scene.memory.id, path="/notes/deep/er/b.md"),
    ),
    "moving to a used path with a content": Case(
        errors.PathConflict,
        "is used by",
        lambda s, scene: s.update_memory(scene.store, scene.memory.id, path="/notes/deep/er/b.md", content=b"one\n"),
    ),
    "moving below a memory": Case(
        *_ABOVE_OR_BELOW, lambda s, scene: s.update_memory(scene.store, scene.deeper.id, path="/notes/a.md/b")
    ),
    "moving above a memory": Case(
        *_ABOVE_OR_BELOW, lambda s, scene: s.update_memory(scene.store, scene.memory.id, path="/notes/deep/er")
    ),
    "creating with 102,401 bytes": Case(
        *_TOO_LARGE, lambda s, scene: s.create_memory(scene.store, "/new", b"x" * 102_401)
    ),
    "creating with 102,401 bytes, the last character across the limit": Case(
        *_TOO_LARGE, lambda s, scene: s.create_memory(scene.store, "/new", b"x" + "é".encode() * 51_200)
    ),
    "changing to 102,401 bytes": Case(
        *_TOO_LARGE, lambda s, scene: s.update_memory(scene.store, scene.memory.id, content=b"\n" * 102_401)
    ),
    "creating with what is no text": Case(
        *_NOT_TEXT, lambda s, scene: s.create_memory(scene.store, "/new", b"caf\xe9")
    ),
    "changing to what is no text": Case(
        *_NOT_TEXT, lambda s, scene: s.update_memory(scene.store, scene.memory.id, content=b"caf\xe9")
    ),
    "creating with half a character": Case(
        errors.ContentNotText,
        r"not UTF-8 text \(byte 0xed at offset 3\)",
        lambda s, scene: s.create_memory(scene.store, "/new", HALF_A_CHARACTER),
    ),
    "changing to half a character": Case(
        errors.ContentNotText,
        r"not UTF-8 text \(byte 0xed at offset 3\)",
        lambda s, scene: s.update_memory(scene.store, scene.memory.id, content=HALF_A_CHARACTER),
    ),
    "changing with another hash": Case(
        *_STALE,
        lambda s, scene: s.update_memory(scene.store, scene.memory.id, content=b"three\n", expected_sha256=NO_HASH),
    ),
    "moving with another hash": Case(
        *_STALE, lambda s, scene: s.update_memory(scene.store, scene.memory.id, path="/x", expected_sha256=NO_HASH)
    ),
    "changing the path alone with another hash": Case(
        *_STALE,
        lambda s, scene: s.update_memory(
            scene.store, scene.memory.id, content=b"two\n", path="/x", expected_sha256=NO_HASH
        ),
    ),
    "deleting with another hash": Case(
        *_STALE, lambda s, scene: s.delete_memory(scene.store, scene.memory.id, expected_sha256=NO_HASH)
    ),
    "a hash of 63 digits": Case(
        errors.InvalidRequest,
        "a content hash is 64 hexadecimal digits, not '0{63}'",
        lambda s, scene: s.update_memory(scene.store, scene.memory.id, content=b"x", expected_sha256="0" * 63),
    ),
    "a hash that is none": Case(
        errors.InvalidRequest,
        "64 hexadecimal digits",
        lambda s, scene: s.update_memory(scene.store, scene.memory.id, content=b"x", expected_sha256="g" * 64),
    ),
    "a hash with a newline": Case(
        errors.InvalidRequest,
        "64 hexadecimal digits",
        lambda s, scene: s.update_memory(scene.store, scene.memory.id, content=b"x", expected_sha256=NO_HASH + "\n"),
    ),
    "an empty hash": Case(
        errors.InvalidRequest,
        "64 hexadecimal digits",
        lambda s, scene: s.update_memory(scene.store, scene.memory.id, content=b"x", expected_sha256=""),
    ),
    "deleting with a hash that is none": Case(
        errors.InvalidRequest,
        "64 hexadecimal digits, not 'x'",
        lambda s, scene: s.delete_memory(scene.store, scene.memory.id, expected_sha256="x"),
    ),
    "deleting with an empty hash": Case(
        errors.InvalidRequest,
        "64 hexadecimal digits, not ''",
        lambda s, scene: s.delete_memory(scene.store, scene.memory.id, expected_sha256=""),
    ),
    "creating in an archived store": Case(*_ARCHIVED, lambda s, scene: s.create_memory(scene.archived, "/new")),
    "changing in an archived store": Case(
        *_ARCHIVED, lambda s, scene: s.update_memory(scene.archived, scene.in_archived.id, content=b"x")
    ),
    "moving in an archived store": Case(
        *_ARCHIVED, lambda s, scene: s.update_memory(scene.archived, scene.in_archived.id, path="/x")
    ),
    "the 2,001st memory": Case(*_FULL, lambda s, scene: s.create_memory(scene.full, "/one-more")),
}

_NO_PATH = errors.WriteRefused, r"a guard of the store allows no memory at /x: only /kept/\*\*"
_TOO_LONG = errors.WriteRefused, "a guard of the store allows 100 bytes a memory, this text has 101: split it"
_SECRET = errors.WriteRefused, "^a guard of the store refuses the text: .* in line 2; remove it and save again$"
SECRET = b"key:\nAKIAIOSFODNN7REALKEY\n"

GUARDS = {
    "creating where a guard allows nothing": Case(*_NO_PATH, lambda s, scene: s.create_memory(scene.guarded, "/x")),
    "moving to where a guard allows nothing": Case(
        *_NO_PATH, lambda s, scene: s.update_memory(scene.guarded, scene.in_guarded.id, path="/x")
    ),
    "creating with more than a guard allows": Case(
        *_TOO_LONG, lambda s, scene: s.create_memory(scene.guarded, "/kept/b", b"x" * 101)
    ),
    "changing to more than a guard allows": Case(
        *_TOO_LONG, lambda s, scene: s.update_memory(scene.guarded, scene.in_guarded.id, content=b"x" * 101)
    ),
    "creating with a secret": Case(*_SECRET, lambda s, scene: s.create_memory(scene.guarded, "/kept/b", SECRET)),
    "changing to a secret": Case(
        *_SECRET, lambda s, scene: s.update_memory(scene.guarded, scene.in_guarded.id, content=SECRET)
    ),
}

_HEAD = errors.VersionInUse, "memver_"

REDACTION = {
    "redacting a head": Case(*_HEAD, lambda s, scene: s.redact_version(scene.store, scene.memory.memory_version_id)),
    "redacting a head in an archived store": Case(
        *_HEAD, lambda s, scene: s.redact_version(scene.archived, scene.in_archived.memory_version_id)
    ),
}


def _attached(*store_ids: str, **more: str) -> list[JsonObject]:
    return [{"type": "memory_store", "memory_store_id": store_id, **more} for store_id in store_ids]


SESSIONS = {
    "a session without a store": Case(
        errors.InvalidRequest, "needs at least one store", lambda s, _: s.create_session([]), "sessions without stores"
    ),
    "a session with nine stores": Case(
        errors.TooManyStores,
        "at most 8 stores, not 9",
        lambda s, scene: s.create_session(_attached(*scene.several)),
    ),
    "a session with a store twice": Case(
        errors.InvalidRequest,
        r"the store 'Scene' \(memstore_\w+\) is named twice",
        lambda s, scene: s.create_session(_attached(scene.store, scene.other, scene.store)),
    ),
    "a session with an archived store": Case(
        errors.StoreArchived,
        r"the store 'Archived' \(memstore_\w+\) is archived and cannot be attached",
        lambda s, scene: s.create_session(_attached(scene.store, scene.archived)),
    ),
    "a session with an unknown store": Case(
        *_NO_STORE, lambda s, scene: s.create_session(_attached(scene.store, UNKNOWN_STORE))
    ),
    "instructions of 4,097 characters": Case(
        errors.InvalidRequest,
        "instructions have at most 4096 characters",
        lambda s, scene: s.create_session(_attached(scene.store, instructions="é" * 4_097)),
    ),
    "instructions with half a character": Case(
        errors.InvalidRequest,
        "instructions must be text that UTF-8 can hold",
        lambda s, scene: s.create_session(_attached(scene.store, instructions="\ud83d")),
    ),
    "a session with what is no id": Case(
        errors.NotFound,
        r"^there is no store '\\ud83d': a store's id is memstore_ and 26 characters$",
        lambda s, scene: s.create_session(_attached(scene.store, "\ud83d")),
    ),
    "a title with half a character": Case(
        errors.InvalidRequest,
        "title must be text that UTF-8 can hold",
        lambda s, scene: s.create_session(_attached(scene.store), title="\ud83d"),
    ),
    "a title of 513 characters": Case(
        errors.InvalidRequest,
        "title has at most 512 characters, this one 513",
        lambda s, scene: s.create_session(_attached(scene.store), title="é" * 513),
    ),
    "a session's metadata of 17 pairs": Case(
        errors.InvalidRequest,
        "at most 16 pairs, this one 17",
        lambda s, scene: s.create_session(_attached(scene.store), metadata=_metadata(17)),
    ),
    "an unknown session": Case(
        errors.NotFound,
        f"^there is no session {UNKNOWN_SESSION}$",
        lambda s, _: s.get_session(UNKNOWN_SESSION),
    ),
    "archiving an unknown session": Case(
        errors.NotFound,
        f"^there is no session {UNKNOWN_SESSION}$",
        lambda s, _: s.archive_session(UNKNOWN_SESSION),
    ),
    "what is no id of a session": Case(errors.NotFound, "'sesn_x' is no session", lambda s, _: s.get_session("sesn_x")),
}

CASES = STORES | MISSING | PATHS | LISTS | MEMORIES | GUARDS | REDACTION | SESSIONS

_FOUND_BY_NAME = Otherwise(
    r"^there is no store '\w+': 'memfs store list' shows the stores$", "it finds stores by name too"
)
_READ_NO_FURTHER = Otherwise(
    "^standard input has more than the 102400 bytes that a memory holds: split it$",
    "it reads one byte too many and no more, so it cannot tell how many there are",
)
_ADVICE = Otherwise(
    r"^there is a memory at /notes/a.md already \(mem_\w+\): choose another path, or change it with"
    r" 'memfs memory update'$",
    "it knows the command that changes the memory",
)
_USAGE = Otherwise("^Invalid value for '--depth'", "click judges numbers, and shows how the command is used")
_NO_JSON = Otherwise("body", "a body that is not UTF-8 is no JSON, whatever it was meant to hold")

OTHERWISE: dict[tuple[str, str], Otherwise] = {
    ("cli", "what is no id of a store"): _FOUND_BY_NAME,
    ("cli", "an id of a store in lower case"): _FOUND_BY_NAME,
    ("cli", "creating at a used path"): _ADVICE,
    ("cli", "creating at a used path what is there"): _ADVICE,
    ("cli", "creating with 102,401 bytes"): _READ_NO_FURTHER,
    ("cli", "creating with 102,401 bytes, the last character across the limit"): _READ_NO_FURTHER,
    ("cli", "changing to 102,401 bytes"): _READ_NO_FURTHER,
    ("cli", "a depth of 2"): _USAGE,
    ("cli", "a depth of -1"): _USAGE,
    ("api", "creating with what is no text"): _NO_JSON,
    ("api", "changing to what is no text"): _NO_JSON,
}
"""Where a surface may say it in words of its own; the error must be the same all the same."""


@pytest.mark.parametrize(
    "surface, name",
    [(surface, name) for name, case in CASES.items() for surface in having(case.needs)],
    indirect=["surface"],
)
def test_a_refusal_is_the_same_everywhere_and_changes_nothing(
    surface: Driver, reference: Driver, shared_workspace: Workspace, scene: Scene, scenes: list[Scene], name: str
) -> None:
    case = CASES[name]
    before = scene.state(shared_workspace)
    scenes.clear()
    otherwise = OTHERWISE.get((surface.name, name))
    refused_alike(surface, reference, lambda driver: case.ask(driver, scene), case.error, case.words, otherwise)
    assert scene.state(shared_workspace) == before
    scenes.append(scene)


def test_every_exception_is_of_a_case() -> None:
    assert len(CASES) == sum(map(len, (STORES, MISSING, PATHS, LISTS, MEMORIES, GUARDS, REDACTION, SESSIONS)))
    for surface, name in OTHERWISE:
        assert surface in having(CASES[name].needs), name
