"""Sessions: which stores one run of an agent has, fixed when it begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from memfs.engine import Engine, SessionFilter
from memfs.model import ids
from memfs.model.errors import InvalidRequest, NotFound, SessionArchived, StoreArchived, TooManyStores
from memfs.model.paths import unique_slugs
from memfs.model.records import (
    MAX_ATTACHMENTS,
    MAX_INSTRUCTIONS,
    Access,
    Attachment,
    ConflictPolicy,
    Session,
    Store,
    now,
)
from memfs.workspace.stores import Stores, check_metadata, is_encodable

DEFAULT_ROOT = "/mnt/memory"
"""Where a session's stores are mounted, unless somebody says otherwise."""

MAX_VERSION = 2**31
MAX_LABEL = 512
"""Characters of a session's title, and of what its agent and its environment are called."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A store that a session shall have."""

    store: Store
    access: Access = "read_write"
    instructions: str = ""
    on_conflict: ConflictPolicy = "merge"


@dataclass(frozen=True, slots=True)
class SessionDescription:
    """What whoever begins a session says about it; it means nothing here, and is given back."""

    title: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    agent_id: str | None = None
    agent_version: int | None = None
    environment_id: str | None = None

    def check(self) -> None:
        """Raises InvalidRequest."""
        for name, text in (("title", self.title), ("agent", self.agent_id), ("environment_id", self.environment_id)):
            if text is not None and len(text) > MAX_LABEL:
                raise InvalidRequest(f"a session's {name} has at most {MAX_LABEL} characters, this one {len(text)}")
            if text is not None and not is_encodable(text):
                raise InvalidRequest(f"a session's {name} must be text that UTF-8 can hold")
        if self.agent_version is not None and not 1 <= self.agent_version <= MAX_VERSION:
            raise InvalidRequest(f"an agent's version is a number from 1 on, not {self.agent_version}")
        check_metadata(self.metadata)


UNDESCRIBED = SessionDescription()


class Sessions:
    """The sessions of a workspace."""

    def __init__(self, engine: Engine, stores: Stores) -> None:
        self._engine = engine
        self._stores = stores

    def create(
        self,
        resources: Sequence[Resource],
        root: str = DEFAULT_ROOT,
        session_id: str | None = None,
        *,
        description: SessionDescription = UNDESCRIBED,
    ) -> Session:
        """Begin a session with these stores, to be mounted below ``root``.

        ``session_id`` names a session that somebody else counts; else one is made. Raises TooManyStores,
        StoreArchived, InvalidRequest (the same store twice, long instructions, an id that is none, a long title or
        metadata).
        """
        session = self.describe(resources, root, session_id, description=description)
        self._engine.insert_session(session)
        return session

    def describe(
        self,
        resources: Sequence[Resource],
        root: str = DEFAULT_ROOT,
        session_id: str | None = None,
        *,
        description: SessionDescription = UNDESCRIBED,
    ) -> Session:
        """What ``create`` would make, without making it. Raises the same."""
        if not resources:
            raise InvalidRequest("a session needs at least one store")
        description.check()
        if len(resources) > MAX_ATTACHMENTS:
            raise TooManyStores(f"a session has at most {MAX_ATTACHMENTS} stores, not {len(resources)}: leave some out")
        seen: set[str] = set()
        for resource in resources:
            store = resource.store
            if store.id in seen:
                raise InvalidRequest(f"the store {store.name!r} ({store.id}) is named twice: attach it once")
            seen.add(store.id)
            self.check_attachable(store)
            if len(resource.instructions) > MAX_INSTRUCTIONS:
                raise InvalidRequest(f"instructions have at most {MAX_INSTRUCTIONS} characters")
            if not is_encodable(resource.instructions):
                raise InvalidRequest("instructions must be text that UTF-8 can hold")
        if session_id is not None and not ids.is_id(session_id, ids.SESSION):
            raise InvalidRequest(f"{session_id!r} is no session id: one is sesn_ and 26 characters")
        slugs = unique_slugs([(resource.store.name, resource.store.id) for resource in resources])
        return Session(
            id=session_id or ids.new_id(ids.SESSION),
            created_at=now(),
            attachments=tuple(
                Attachment(
                    memory_store_id=resource.store.id,
                    access=resource.access,
                    name=resource.store.name,
                    description=resource.store.description,
                    mount_path=f"{root.rstrip('/')}/{directory}",
                    instructions=resource.instructions,
                    on_conflict=resource.on_conflict,
                )
                for resource, directory in zip(resources, slugs, strict=True)
            ),
            title=description.title,
            metadata=dict(description.metadata),
            agent_id=description.agent_id,
            agent_version=description.agent_version,
            environment_id=description.environment_id,
        )

    def take_up(self, resources: Sequence[Resource], root: str, session_id: str | None = None) -> tuple[Session, bool]:
        """The session with this id where it is known, else a new one as by ``create``; and whether to end it later.

        That is for whoever takes up one that is new or has ended, not where it was begun elsewhere and goes on. A known
        session has the stores of its beginning: ``resources`` may be empty, or must name them again. A store that was
        archived since stays in it, and can be read. Raises NotFound for an unknown session where no stores are
        named, InvalidRequest where they are others or are all deleted, SessionArchived, and what ``create`` raises.
        """
        if session_id is None:
            return self.create(resources, root), True
        try:
            session = self.get(session_id)
        except NotFound:
            if not resources:
                raise
            return self.create(resources, root, session_id), True
        attached = [(each.memory_store_id, each.access, each.on_conflict) for each in session.attachments]
        if resources and [(each.store.id, each.access, each.on_conflict) for each in resources] != attached:
            raise InvalidRequest(
                f"the session {session_id} has other stores, or has them otherwise, and that is fixed:"
                " leave the stores out"
            )
        if session.archived_at is not None:
            raise SessionArchived(f"the session {session_id} is archived: begin another one")
        if not attached:
            raise InvalidRequest(f"the stores of the session {session_id} are deleted: begin another one")
        if session.ended_at is None:
            return session, False
        self._engine.resume_session(session_id)
        return replace(session, ended_at=None), True

    @staticmethod
    def check_attachable(store: Store) -> None:
        """Raises StoreArchived for a store that no session may have."""
        if store.archived_at is not None:
            raise StoreArchived(f"the store {store.name!r} ({store.id}) is archived and cannot be attached")

    def get(self, session_id: str) -> Session:
        """One session. Raises NotFound."""
        if not ids.is_id(session_id, ids.SESSION):
            raise NotFound(f"{session_id!r} is no session: a session's id is sesn_ and 26 characters")
        return self._engine.session(session_id)

    def list(self, where: SessionFilter, *, newest_first: bool = True, limit: int | None = None) -> list[Session]:
        """Sessions by the time of their beginning."""
        return self._engine.sessions(where, newest_first=newest_first, limit=limit)

    def archive(self, session_id: str) -> Session:
        """End a session for good: it can be read, but nothing is mounted for it any more. Raises NotFound.

        What is mounted for it already stays until it is unmounted. A second time changes nothing.
        """
        self.get(session_id)
        return self._engine.archive_session(session_id, now())

    def end(self, session_id: str) -> None:
        """Record that a session ended. It can be taken up again, unlike one that is archived."""
        self._engine.end_session(session_id, now())
