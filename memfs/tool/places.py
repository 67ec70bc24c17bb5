"""From the paths of the memory tool, ``/memories/…``, to places in stores; what leads elsewhere is refused."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from memfs.model.errors import InvalidPath, PathTooLong
from memfs.model.paths import MAX_PATH_BYTES, check_path
from memfs.workspace import AttachedStore

ROOT = "/memories"

_SEPARATOR = re.compile(r"[/\\]")
_LONGEST = len(ROOT) + 2 * (MAX_PATH_BYTES + 1)
"""Characters that a path can have at most: beyond, no check shall take its time, and no answer repeat it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads: to ``inside`` (``/`` or a memory's path) of a store.

    ``store`` is None for the directory of several stores, and for a name in it that no store has. ``path`` is the
    whole path without a trailing ``/``, ``directory`` whether it had one.
    """

    path: str
    store: AttachedStore | None
    inside: str
    directory: bool

    @property
    def is_root(self) -> bool:
        """Whether this is ``/memories``, or the directory of a store: neither can be deleted, renamed or made."""
        return self.inside == "/" and (self.store is not None or self.path == ROOT)


# What unquote() rightly does not take for a dot or a separator, but careless decoders have.
_LENIENT = (
    (re.compile(r"%u00([0-9a-f]{2})", re.IGNORECASE), r"%\1"),
    (re.compile(r"%(?:c0%ae|e0%80%ae|f0%80%80%ae)", re.IGNORECASE), "."),
    (re.compile(r"%(?:c0%af|e0%80%af|f0%80%80%af)", re.IGNORECASE), "/"),
    (re.compile(r"%c1%9c", re.IGNORECASE), r"\\"),
)


def _forms(path: str) -> Iterator[str]:
    """What a path could be taken for by somebody who decodes it, however often. Each form is shorter."""
    form = ""
    while path != form:
        yield path
        form = path
        for pattern, meant in _LENIENT:
            path = pattern.sub(meant, path)
        path = unquote(path, errors="replace")


def _climbs(path: str) -> bool:
    """Whether any form of a path has a ``..``, also one in look-alikes that are compatible with it, or a NUL."""
    for form in _forms(path):
        for text in (form, unicodedata.normalize("NFKC", form)):
            if "\0" in text or any(part.strip() in (".", "..") for part in _SEPARATOR.split(text)):
                return True
    return False


class Places:
    """The stores behind ``/memories``: one that fills it, or several, each in a directory of its own."""

    def __init__(self, stores: AttachedStore | Mapping[str, AttachedStore]) -> None:
        self._single = stores if isinstance(stores, AttachedStore) else None
        self.stores: dict[str, AttachedStore] = {} if isinstance(stores, AttachedStore) else dict(stores)

    def all(self) -> list[AttachedStore]:
        """Every store."""
        return list(self.stores.values()) if self._single is None else [self._single]

    def find(self, path: str) -> Place:
        """Where a path leads. Raises InvalidPath for one that no memory can have, or that would leave ``/memories``."""
        if path != ROOT and not path.startswith(ROOT + "/"):
            raise InvalidPath(f"paths begin with {ROOT}/")
        if len(path) > _LONGEST:
            raise PathTooLong(f"a path has at most {MAX_PATH_BYTES} bytes")
        if _climbs(path):
            raise InvalidPath(
                f"a path may not hold '.', '..' or NUL as a part, in whatever spelling, and stays in {ROOT}"
            )
        directory = path.endswith("/")
        whole = path.removesuffix("/")
        inside = whole.removeprefix(ROOT)
        if not inside:
            return Place(whole, self._single, "/", directory)
        if self._single is not None:
            check_path(inside)
            return Place(whole, self._single, inside, directory)
        slug, slash, rest = inside[1:].partition("/")
        check_path(f"/{slug}")
        if slash:  # the name of the store is no part of a memory's path, and does not count for its limits
            check_path(f"/{rest}")
        return Place(whole, self.stores.get(slug), f"/{rest}", directory)
