"""Rules for memories: what a path and a content may be, whoever writes."""

from collections.abc import Sequence

from memfs.engine import Engine
from memfs.model import ids
from memfs.model.errors import ContentNotText, ContentTooLarge, InvalidRequest
from memfs.model.mutations import Applied, Create, Delete, KeepDirectory, MoveDirectory, Mutation, Update
from memfs.model.paths import check_path, check_prefix
from memfs.model.records import MAX_CONTENT_BYTES, MAX_DIRECTORIES, MAX_MEMORIES, Actor, Memory


def check_content(content: bytes) -> None:
    """Check a memory's content as a whole. Raises ContentTooLarge over 102,400 bytes, ContentNotText if not UTF-8."""
    if len(content) > MAX_CONTENT_BYTES:
        raise ContentTooLarge(
            f"the content has {len(content)} bytes, and a memory at most {MAX_CONTENT_BYTES}: split it"
        )
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise ContentNotText(
            f"the content is not UTF-8 text (byte {content[error.start]:#04x} at offset {error.start})"
        ) from None


class Memories:
    """The memories of all stores."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def list(self, store_id: str, prefix: str = "/", *, content: bool = False) -> list[Memory]:
        """Live memories under a prefix (``/`` or ``/dir/``), in path order. Raises InvalidRequest, NotFound."""
        check_prefix(prefix)
        return self._engine.memories(store_id, prefix, content=content)

    def get(self, store_id: str, path_or_id: str) -> Memory:
        """One live memory with its content, by path or by id. Raises NotFound, InvalidPath."""
        if ids.is_id(path_or_id, ids.MEMORY):
            return self._engine.memory(store_id, path_or_id)
        check_path(path_or_id)
        return self._engine.memory_at(store_id, path_or_id)

    def apply(self, store_id: str, mutations: Sequence[Mutation], actor: Actor) -> Applied:
        """Apply a batch in one transaction, all of it or nothing.

        Raises InvalidPath, ContentTooLarge, ContentNotText, InvalidRequest where one memory is changed twice, and what
        ``Engine.apply`` raises.
        """
        named = [m.memory_id for m in mutations if isinstance(m, Create | Update | Delete)]
        if len(set(named)) < len(named):
            # Each would be judged by the same head: a path would be lost, or a history go on after its end.
            raise InvalidRequest("a batch creates, updates or deletes each memory once at most")
        for mutation in mutations:
            match mutation:
                case Create(path=path, content=content):
                    check_path(path)
                    check_content(content)
                case Update(path=new_path, content=new_content):
                    if new_path is not None:
                        check_path(new_path)
                    if new_content is not None:
                        check_content(new_content)
                case KeepDirectory(path=path) | MoveDirectory(new_path=path):
                    check_path(path)
                case _:
                    pass
        return self._engine.apply(
            store_id, mutations, actor, max_memories=MAX_MEMORIES, max_directories=MAX_DIRECTORIES
        )
