"""Rules for stores, and finding one by what a person calls it."""

import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from memfs.engine import Engine
from memfs.model import ids
from memfs.model.errors import AmbiguousName, HistoryGone, InvalidRequest, NotFound, StoreArchived
from memfs.model.mutations import Create, KeepDirectory, Mutation
from memfs.model.paths import slug
from memfs.model.records import Actor, FileAttributes, Guards, Head, Store, now
from memfs.workspace.guards import check_guards
from memfs.workspace.memories import LIMITS, prepared

MAX_NAME = 255
MAX_DESCRIPTION = 1_024
MAX_METADATA = 16
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 512


def check_store(name: str, description: str, metadata: dict[str, str]) -> None:
    """Check a store's fields (CONTRACT.md 1). Raises InvalidRequest."""
    if not 1 <= len(name) <= MAX_NAME:
        raise InvalidRequest(f"a store's name has 1 to {MAX_NAME} characters, this one {len(name)}")
    if not (is_encodable(name) and is_encodable(description)):
        raise InvalidRequest("a store's name and description must be text that UTF-8 can hold")
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise InvalidRequest("a store's name may not hold control characters")
    if len(description) > MAX_DESCRIPTION:
        raise InvalidRequest(f"a description has at most {MAX_DESCRIPTION} characters, this one {len(description)}")
    check_metadata(metadata)


def is_encodable(text: str) -> bool:
    """Whether UTF-8 can hold a text."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Check metadata (CONTRACT.md 1). Raises InvalidRequest."""
    if not all(is_encodable(text) for pair in metadata.items() for text in pair):
        raise InvalidRequest("metadata must be text that UTF-8 can hold")
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

    def list(
        self,
        *,
        include_archived: bool = False,
        created_from: str | None = None,
        created_to: str | None = None,
        within: Collection[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Store]:
        """Stores, oldest first; ``after`` is the id that the page comes after. Times are inclusive.

        ``within`` are the ids of those that may be shown; None: all.
        """
        return self._engine.stores(
            include_archived=include_archived,
            created_from=created_from,
            created_to=created_to,
            within=within,
            after=after,
            limit=limit,
        )

    def get(self, store_id: str) -> Store:
        """One store by its id. Raises NotFound."""
        if not ids.is_id(store_id, ids.MEMORY_STORE):
            raise NotFound(f"there is no store {store_id!r}: a store's id is memstore_ and 26 characters")
        return self._engine.store(store_id)

    def update(
        self,
        store_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> Store:
        """Change a store's fields; None keeps one. In ``metadata`` a value replaces or adds a key, None removes it.

        Sessions that have the store keep its name and description of their beginning. Raises NotFound, InvalidRequest,
        StoreArchived.
        """

        def change(store: Store) -> Store:
            pairs = {**store.metadata, **(metadata or {})}
            changed = replace(
                store,
                name=store.name if name is None else name,
                description=store.description if description is None else description,
                metadata={key: value for key, value in pairs.items() if value is not None},
            )
            check_store(changed.name, changed.description, changed.metadata)
            return changed

        return self._update(store_id, change)

    def set_guards(self, store_id: str, guards: Guards | Callable[[Guards], Guards]) -> Store:
        """Replace a store's guards, or change them; what is in it already stays.

        Raises NotFound, InvalidRequest, StoreArchived.
        """

        def change(store: Store) -> Store:
            wanted = guards(store.guards) if callable(guards) else guards
            check_guards(wanted)
            return replace(store, guards=wanted)

        return self._update(store_id, change)

    def _update(self, store_id: str, change: Callable[[Store], Store]) -> Store:
        def dated(store: Store) -> Store:
            if store.archived_at is not None:
                raise StoreArchived(f"the store {store.name!r} ({store.id}) is archived: it can only be read")
            changed = change(store)
            return store if changed == store else replace(changed, updated_at=now())

        return self._engine.update_store(store_id, dated)

    def archive(self, store_id: str) -> Store:
        """Make a store read-only for ever, everywhere at once; a second time changes nothing. Raises NotFound."""

        def change(store: Store) -> Store:
            if store.archived_at is not None:
                return store
            moment = now()
            return replace(store, archived_at=moment, updated_at=moment)

        return self._engine.update_store(store_id, change)

    def delete(self, store_id: str, *, scrub: bool = True) -> None:
        """Remove a store with its memories, its history and its attachments, and every byte of them from the file.

        Without ``scrub`` the bytes are left to ``Workspace.scrub``.

        Raises NotFound. Raises Busy or StorageFailed also where the store is gone, but not all of its bytes: doing
        anything to the workspace from the command line, or ``Workspace.scrub``, tries again.
        """
        self._engine.delete_store(store_id)
        if scrub:
            self._engine.scrub()

    def copy(self, store_id: str, name: str, actor: Actor, *, description: str | None = None) -> Store:
        """Make a new store with the memories, directories, metadata and guards of another, but without its history.

        The copies are new memories, created by ``actor``. None takes the description over. Raises NotFound,
        InvalidRequest, HistoryGone as an export does, and WriteRefused where a guard would not let a memory be written
        today.
        """
        snapshot = self._engine.snapshot(store_id)
        source = snapshot.store
        moment = now()
        store = Store(
            id=ids.new_id(ids.MEMORY_STORE),
            name=name,
            description=source.description if description is None else description,
            metadata=source.metadata,
            created_at=moment,
            updated_at=moment,
            guards=source.guards,
        )
        check_store(store.name, store.description, store.metadata)

        def kept(attributes: FileAttributes) -> FileAttributes:
            return replace(attributes, inode=None)

        def content(head: Head) -> bytes:
            try:
                return self._engine.content(head.version_id)
            except NotFound:
                raise HistoryGone(
                    f"what {head.path} held when the copy began was redacted or pruned meanwhile: run the command again"
                ) from None

        mutations: Sequence[Mutation] = [
            *(KeepDirectory(directory.path, kept(directory.attributes)) for directory in snapshot.directories),
            *(
                Create(ids.new_id(ids.MEMORY), head.path, content(head), kept(head.attributes))
                for head in sorted(snapshot.heads, key=lambda head: head.path)
            ),
        ]
        self._engine.insert_filled_store(store, prepared(store.guards, mutations), actor, limits=LIMITS)
        return store

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
