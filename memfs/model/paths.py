"""Rules for names and paths (CONTRACT.md 1, DESIGN.md 10), and the slug of a store's name (CONTRACT.md 3).

A path is ``/`` followed by 1-20 segments joined by ``/``. Everything is compared byte for byte, case-sensitively;
``_`` and ``%`` are ordinary characters.
"""

import re
import unicodedata

from memfs.model.errors import InvalidPath, InvalidRequest, NameNotUtf8, PathTooLong

MAX_PATH_BYTES = 1_024
MAX_SEGMENTS = 20
MAX_NAME_BYTES = 255
"""Limit of a name made through a mount; the API has no limit for a segment but the path's."""

_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _forbidden(character: str) -> bool:
    return unicodedata.category(character) in _FORBIDDEN_CATEGORIES


def check_segment(segment: str) -> None:
    """Check one segment of a path.

    Raises InvalidPath where it is empty, ``.``, ``..``, holds ``/``, a control or format character, U+2028, U+2029 or
    a surrogate, or is not in Unicode Normalization Form C.
    """
    if segment in ("", ".", ".."):
        raise InvalidPath(f"a path's segment may not be {segment!r}")
    if segment.isascii():
        # The common case, without a table look-up a character.
        if not segment.isprintable():
            raise InvalidPath(f"the name {segment!r} holds a control character")
    else:
        for character in segment:
            if _forbidden(character):
                raise InvalidPath(
                    f"the name {segment!r} holds U+{ord(character):04X}, a control, format or separator character"
                )
        if not unicodedata.is_normalized("NFC", segment):
            raise InvalidPath(f"the name {segment!r} is not in Unicode Normalization Form C")
    if "/" in segment:
        raise InvalidPath(f"a path's segment may not hold '/': {segment!r}")


def check_path(path: str) -> None:
    """Check a memory's path.

    Raises PathTooLong over 1,024 bytes or 20 segments, InvalidPath for every other violation.
    """
    if not path.startswith("/"):
        raise InvalidPath(f"a path starts with '/': {path!r}")
    segments = path[1:].split("/")
    if len(segments) > MAX_SEGMENTS:
        raise PathTooLong(f"a path has at most {MAX_SEGMENTS} segments, this one {len(segments)}: {path[:80]!r}…")
    for segment in segments:
        check_segment(segment)
    if len(path.encode()) > MAX_PATH_BYTES:
        raise PathTooLong(f"a path has at most {MAX_PATH_BYTES} bytes: {path[:80]!r}…")


def check_prefix(prefix: str) -> None:
    """Check a path prefix: ``/``, or a path and a trailing ``/``. Raises InvalidRequest."""
    if not prefix.startswith("/") or not prefix.endswith("/"):
        raise InvalidRequest(f"a path prefix starts and ends with '/': {prefix!r}")
    if prefix != "/":
        check_path(prefix[:-1])


def decode_name(name: bytes) -> str:
    """Turn a name that came from a kernel into text.

    Raises PathTooLong over 255 bytes and NameNotUtf8 where the bytes are not UTF-8. Other rules are not applied: a
    name that cannot be made may still be asked for.
    """
    if len(name) > MAX_NAME_BYTES:
        raise PathTooLong(f"a name has at most {MAX_NAME_BYTES} bytes")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise NameNotUtf8(f"the name {name!r} is not UTF-8") from None


def split(path: str) -> list[str]:
    """The segments of a checked path."""
    return path[1:].split("/")


def ancestors(path: str) -> list[str]:
    """The directories above ``path``, the nearest last, without the root: ``/a/b/c`` gives ``/a``, ``/a/b``."""
    found = []
    end = path.find("/", 1)
    while end != -1:
        found.append(path[:end])
        end = path.find("/", end + 1)
    return found


def subtree_range(directory: str) -> tuple[str, str]:
    """Bounds (from, up to but without) between which the paths below ``directory`` sort.

    Byte order: ``0`` follows ``/``. This replaces LIKE, whose ``_`` and ``%`` would match names that hold them.
    """
    return directory + "/", directory + "0"


_NOT_ALPHANUMERIC = re.compile("[^a-z0-9]+")


def slug(name: str, store_id: str) -> str:
    """The directory name of a store: lowercased, each run of other characters than ASCII letters and digits one
    hyphen, none at the ends; ``store-`` and the last 8 characters of the id where nothing is left (CONTRACT.md 3)."""
    text = _NOT_ALPHANUMERIC.sub("-", name.lower()).strip("-")
    # A directory name has at most 255 bytes; a store's name may have 255 characters, so this only guards suffixes.
    return text[:240].rstrip("-") or f"store-{store_id[-8:].lower()}"


def unique_slugs(named: list[tuple[str, str]]) -> list[str]:
    """Slugs of stores, (name, id), in the order of attachment: a second equal one gets ``-2``, a third ``-3``."""
    taken: set[str] = set()
    slugs = []
    for name, store_id in named:
        base = candidate = slug(name, store_id)
        number = 1
        while candidate in taken:
            number += 1
            candidate = f"{base}-{number}"
        taken.add(candidate)
        slugs.append(candidate)
    return slugs
