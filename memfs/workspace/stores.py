"""Rules for stores, and finding one by what a person calls it."""

import unicodedata

from memfs.engine import Engine
from memfs.model import ids
from memfs.model.errors import AmbiguousName, InvalidRequest, NotFound
from memfs.model.paths import slug
from memfs.model.records import Store, now

MAX_NAME = 255
MAX_DESCRIPTION = 1_024
MAX_METADATA = 16
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 512


def check_store(name: str, description: str, metadata: dict[str, str]) -> None:
    """Check a store's fields (CONTRACT.md 1). Raises InvalidRequest."""
    if not 1 <= len(name) <= MAX_NAME:
        raise InvalidRequest(f"a store's name has 1 to {MAX_NAME} characters, this one {len(name)}")
    for text in (name, description, *metadata.keys(), *metadata.values()):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InvalidRequest("a store's name, description and metadata must be text that UTF-8 can hold")
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise InvalidRequest("a store's name may not hold control characters")
    if len(description) > MAX_DESCRIPTION:
        raise InvalidRequest(f"a description has at most {MAX_DESCRIPTION} characters, this one {len(description)}")
    if len(metadata) > MAX_METADATA:
        raise InvalidRequest(f"metadata has at most {MAX_METADATA} pairs, this one {len(metadata)}")
    for key, value in metadata.items():
        if not 1 <= len(key) <= MAX_METADATA_KEY:
            raise InvalidRequest(f"a metadata key has 1 to {MAX_METADATA_KEY} characters: {key[:80]!r}")
        if len(value) > MAX_METADATA_VALUE:
            raise InvalidRequest(f"a metadata value has at most {MAX_METADATA_VALUE} characters: that of {key!r}")


class Stores:
    """The stores of a workspace."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self, name: str, description: str = "", metadata: dict[str, str] | None = None) -> Store:
        """Make a store. Raises InvalidRequest."""
        check_store(name, description, metadata or {})
        moment = now()
        store = Store(ids.new_id(ids.MEMORY_STORE), name, description, dict(metadata or {}), moment, moment)
        self._engine.insert_store(store)
        return store

    def list(self, *, include_archived: bool = False) -> list[Store]:
        """All stores, oldest first."""
        return self._engine.stores(include_archived=include_archived)

    def archive(self, store_id: str) -> Store:
        """Make a store read-only for ever, everywhere at once. Raises NotFound."""
        return self._engine.archive_store(store_id, now())

    def resolve(self, text: str) -> Store:
        """The store with this id, or the only one with this name, or else the only one with this slug.

        Raises NotFound, and AmbiguousName where several fit.
        """
        if ids.is_id(text, ids.MEMORY_STORE):
            return self._engine.store(text)
        stores = self._engine.stores(include_archived=True)
        for kind, found in (
            ("name", [store for store in stores if store.name == text]),
            ("slug", [store for store in stores if slug(store.name, store.id) == text]),
        ):
            # An archived store does not stand in the way of a live one with its name.
            found = [store for store in found if store.archived_at is None] or found
            if len(found) > 1:
                raise AmbiguousName(
                    f"{len(found)} stores have the {kind} {text!r}: use the id of one"
                    f" ({', '.join(store.id for store in found[:3])}{', …' if len(found) > 3 else ''})"
                )
            if found:
                return found[0]
        raise NotFound(f"there is no store {text!r}: 'memfs store list' shows the stores")
