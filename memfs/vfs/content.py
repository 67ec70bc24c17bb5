"""What a file holds: its buffer where it has one, else its head's text, which is read when it is first needed."""

import errno
from collections import OrderedDict

from memfs.model.errors import NotFound
from memfs.vfs.errors import os_error
from memfs.vfs.nodes import FileNode
from memfs.workspace import AttachedStore

CACHED_CONTENT_BYTES = 8 * 1024 * 1024


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
        self._size += len(text)
        while self._size > self._limit:
            self._size -= len(self._texts.popitem(last=False)[1])


class Contents:
    """The bytes of one store's files."""

    def __init__(self, store: AttachedStore) -> None:
        self._store = store
        self._cache = ContentCache()

    def of(self, node: FileNode) -> bytes | bytearray:
        """The bytes of a file as they are now; not to be changed, nor kept over an await.

        Raises ESTALE where the head's text is gone.
        """
        if node.buffer is not None:
            return node.buffer
        if node.head is None:
            return b""
        version_id = node.head.version_id
        text = self._cache.get(version_id)
        if text is None:
            try:
                text = self._store.content(version_id)
            except NotFound:
                raise os_error(errno.ESTALE, "the version that was open is redacted or pruned") from None
            self._cache.put(version_id, text)
        return text

    def buffer(self, node: FileNode) -> bytearray:
        """The working copy that all handles of a file share, made from the head's text where there is none yet."""
        if node.buffer is None:
            node.buffer = bytearray(self.of(node))
        return node.buffer

    def keep(self, node: FileNode, text: bytes) -> None:
        """Remember the text of a node's head, which was just committed."""
        if node.head is not None:
            self._cache.put(node.head.version_id, text)
