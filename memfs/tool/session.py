"""Opening stores for the memory tool, as a session that its changes are attributed to."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from memfs.model.records import Access, Actor, Attachment, Session
from memfs.tool.commands import VIEW_CHARACTERS, MemoryCommands, ToolResult
from memfs.tool.places import ROOT
from memfs.tool.wording import SEED, Wording
from memfs.workspace import Workspace
from memfs.workspace.accesses import RECORD_SECONDS
from memfs.workspace.sessions import Resource

CLOSE_SECONDS = 30.0
"""How long closing waits for calls that other threads are making."""


class OpenMemory:
    """The memory tool on a session's stores: ``commands`` answers, ``session`` is who does it.

    May be called from several threads. A context manager that ends the session where this began it, and lets go of
    the database. A call that is made afterwards is answered with an error.
    """

    def __init__(self, workspace: Workspace, session: Session, commands: MemoryCommands, *, ends: bool) -> None:
        self._workspace = workspace
        self.session = session
        self.commands = commands
        self._ends = ends
        self._calls = threading.Condition()
        self._running = 0
        self._closed = False
        self._recorded = time.monotonic()

    @classmethod
    def on(
        cls,
        workspace: Workspace,
        stores: Sequence[str | tuple[str, Access]] = (),
        *,
        session_id: str | None = None,
        overwrite: bool = False,
        view_characters: int = VIEW_CHARACTERS,
        wording: Wording = SEED,
    ) -> "OpenMemory":
        """As ``open_memory``, on a workspace that is open already. It is closed with this, or where this fails."""
        begun: Session | None = None
        try:
            named: list[tuple[str, Access]] = [(s, "read_write") if isinstance(s, str) else s for s in stores]
            resources = [Resource(workspace.stores.resolve(name), access) for name, access in named]
            session, ends = workspace.sessions.take_up(resources, ROOT, session_id)
            begun = session if ends else None
            actor = Actor("session_actor", session.id)
            attached = {
                _slug(attachment): workspace.attached(attachment.memory_store_id, actor, attachment.access)
                for attachment in session.attachments
            }
            places = next(iter(attached.values())) if len(attached) == 1 else attached
            commands = MemoryCommands(places, overwrite=overwrite, view_characters=view_characters, wording=wording)
        except BaseException:
            _let_go(workspace, begun)
            raise
        return cls(workspace, session, commands, ends=ends)

    @property
    def roots(self) -> dict[str, Attachment]:
        """The stores by the directory that each has: ``/memories``, or ``/memories/<slug>`` where there are several."""
        attachments = self.session.attachments
        if len(attachments) == 1:
            return {ROOT: attachments[0]}
        return {f"{ROOT}/{_slug(attachment)}": attachment for attachment in attachments}

    def handle(self, given: object) -> ToolResult:
        """See ``MemoryCommands.handle``."""
        with self._call():
            return self.commands.handle(given)

    def clear(self) -> str:
        """See ``MemoryCommands.clear``."""
        with self._call():
            return self.commands.clear()

    @contextmanager
    def _call(self) -> Iterator[None]:
        with self._calls:  # waits for one who is closing
            self._running += 1
        try:
            yield
            if time.monotonic() - self._recorded >= RECORD_SECONDS:
                self._recorded = time.monotonic()
                self._workspace.accesses.record()
        finally:
            with self._calls:
                self._running -= 1
                self._calls.notify_all()

    def close(self) -> None:
        """Wait for the calls that are being made, end the session, and let go of the database. May be called twice."""
        with self._calls:
            # The limit is for a count that an interrupt has put out: better a call that fails than an end that hangs.
            self._calls.wait_for(lambda: self._running == 0, CLOSE_SECONDS)
            if self._closed:
                return
            self._closed = True
            _let_go(self._workspace, self.session if self._ends else None)

    def __enter__(self) -> "OpenMemory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _slug(attachment: Attachment) -> str:
    """The name of a store's directory; a session that was begun elsewhere has it below another root."""
    return Path(attachment.mount_path).name


def _let_go(workspace: Workspace, begun: Session | None) -> None:
    """End a session that was begun here, and close the workspace, which puts reads on record."""
    try:
        if begun is not None:
            workspace.sessions.end(begun.id)
    finally:
        workspace.close()


def open_memory(
    database: Path,
    stores: Sequence[str | tuple[str, Access]] = (),
    *,
    session_id: str | None = None,
    overwrite: bool = False,
    view_characters: int = VIEW_CHARACTERS,
    wording: Wording = SEED,
) -> OpenMemory:
    """Open stores of a database, each by id, name or slug, with its access (read_write where none is said).

    One store fills ``/memories``; of several each has a directory there, named as its mount would be. Changes are
    attributed to a new session, or to the one with ``session_id``: where that is known already it has its stores, and
    ``stores`` can be left out. ``overwrite``, ``view_characters`` and ``wording`` are as in ``MemoryCommands``. Raises
    NotFound, AmbiguousName, StoreArchived, TooManyStores, InvalidRequest, UnusableDatabase.
    """
    return OpenMemory.on(
        Workspace.open(database),
        stores,
        session_id=session_id,
        overwrite=overwrite,
        view_characters=view_characters,
        wording=wording,
    )
