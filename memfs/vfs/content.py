"""What a file holds: its buffer where it has one, else its head's text, which is read when it is first needed."""

import errno
from collections import OrderedDict
from contextlib import suppress

from memfs.model.errors import NotFound
from memfs.vfs.bases import Base
from memfs.vfs.errors import os_error
from memfs.vfs.nodes import FileNode
from memfs.workspace import AttachedStore

CACHED_CONTENT_BYTES = 256 * 1024
"""Little, though more than two of the largest: a kernel keeps what it has read in its own pages, and asks again where
they were dropped. With 8 MiB, a worker took 8 MB more for a store of 2,000 texts of 10,000 bytes that was
read once."""

ENTRY_BYTES = 300
"""What an entry takes beside its text: a store of one-line texts would else fill memory with little else."""


class ContentCache:
    """Texts by version id, least recently used out first. A version never changes, so nothing here goes stale."""

    def __init__(self, limit: int = CACHED_CONTENT_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._texts: OrderedDict[str, bytes] = OrderedDict()

    def get(self, version_id: str) -> bytes | None:
        """The text, if it is here."""
        text = self._texts.get(version_id)
        if text is not None:
            self._texts.move_to_end(version_id)
        return text

    def put(self, version_id: str, text: bytes) -> None:
        """Keep a text, in place of older ones where they are too much."""
        if version_id in self._texts:
            return
        self._texts[version_id] = text
        self._size += len(text) + ENTRY_BYTES
        while self._size > self._limit:
            self._size -= len(self._texts.popitem(last=False)[1]) + ENTRY_BYTES


class Contents:
    """The bytes of one store's files."""

    def __init__(self, store: AttachedStore) -> None:
        self._store = store
        self._cache = ContentCache()

    def expected(self, node: FileNode) -> bytes | bytearray:
        """The bytes of a file of the size that the kernel was told; those of now, where it is to know that or where
        others are gone. Raises as ``of`` does.
        """
        told = node.told
        if node.buffer is None and told is not None and told is not node.head:
            with suppress(NotFound):
                return self._of_version(told.version_id)
            node.told = node.head
        return self.of(node)

    def of(self, node: FileNode) -> bytes | bytearray:
        """The bytes of a file as they are now; not to be changed, nor kept over an await.

        Raises ESTALE where the head's text is gone.
        """
        if node.buffer is not None:
            return node.buffer
        if node.head is None:
            return b""
        try:
            return self._of_version(node.head.version_id)
        except NotFound:
            raise os_error(errno.ESTALE, "the version that was open is redacted or pruned") from None

    def _of_version(self, version_id: str) -> bytes:
        text = self._cache.get(version_id)
        if text is None:
            text = self._store.content(version_id)
            self._cache.put(version_id, text)
        return text

    def of_base(self, base: Base) -> bytes | None:
        """The text that somebody started from; None where it is gone."""
        if base.text is not None or base.version_id is None or base.dropped:
            return base.text
        try:
            return self._of_version(base.version_id)
        except NotFound:
            return None

    def begun_from(self, base: Base) -> bytes:
        """The text that somebody started from, to go on in it. Raises ESTALE where it is gone, from the store too: what
        is redacted must not come back with the next word that is written.
        """
        if base.text is not None or base.version_id is None:
            return base.text or b""
        if base.dropped:
            raise os_error(errno.ESTALE, "the text that was open is not kept any more: open it again")
        try:
            return self._store.content(base.version_id)
        except NotFound:
            raise os_error(errno.ESTALE, "the version that was open is redacted or pruned: open it again") from None

    def buffer(self, node: FileNode) -> bytearray:
        """The working copy that all handles of a file share, made from the head's text where there is none yet."""
        if node.buffer is None:
            node.starting_point()  # now: when it is committed, the head may be another
            node.buffer = bytearray(self.of(node))
        if not node.dirty and node.memory_id is not None:
            node.begun = bytes(node.buffer)
        return node.buffer

    def keep(self, node: FileNode, text: bytes) -> None:
        """Remember the text of a node's head, which was just committed."""
        if node.head is not None:
            self._cache.put(node.head.version_id, text)
