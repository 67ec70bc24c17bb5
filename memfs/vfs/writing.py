"""Writing: what changes the text of a file, and the closes that end it. When it becomes a version, ``saving`` says."""

import errno

from memfs.model.errors import ContentTooLarge
from memfs.model.records import MAX_CONTENT_BYTES
from memfs.vfs.errors import os_error
from memfs.vfs.handles import FileHandle, Handles
from memfs.vfs.looking import check_current
from memfs.vfs.nodes import FileNode
from memfs.vfs.parts import Parts
from memfs.vfs.saving import UNFIT
from memfs.vfs.settling import Settling


class Writing:
    """Changes the one buffer that all open files of a node share."""

    def __init__(self, parts: Parts, handles: Handles, settling: Settling) -> None:
        self._tree = parts.tree
        self._transactions = parts.transactions
        self._saving = parts.saving
        self._contents = parts.contents
        self._scratch = parts.scratch
        self._working = parts.working
        self._handles = handles
        self._settling = settling

    # Changing the buffer

    def write(self, number: int, offset: int, data: bytes) -> int:
        """Write into the shared buffer; returns the number of bytes. Raises ContentTooLarge, ENOSPC where scratch
        or working copies hold too much, ESTALE where somebody else has deleted the memory since it was opened.
        """
        self._transactions.check_writable()
        handle = self._handles.file(number)
        self._settling.written(handle)
        node = handle.node
        check_current(node)  # or what is written would go nowhere, and nobody would say so
        appended = handle.appends(offset)
        wanted = (node.size if appended else offset) + len(data)
        self._working.make_room(node, max(node.size, min(wanted, MAX_CONTENT_BYTES)))
        if not appended:
            self._begin(node, handle)
        buffer = self._contents.buffer(node)
        node.kernel_size = max(node.kernel_size, offset + len(data))
        if appended:
            offset = len(buffer)
        end = offset + len(data)
        if node.scratch:
            if end > self._scratch.limit:
                raise os_error(errno.EFBIG, f"scratch files may hold {self._scratch.limit} bytes together")
        elif end > MAX_CONTENT_BYTES:
            # What was written before this must not be committed as if it were the whole.
            node.spoiled = node.dirty
            raise ContentTooLarge(f"a memory has at most {MAX_CONTENT_BYTES} bytes: split it")
        if node.scratch:
            self._scratch.charge(node, max(end, len(buffer)))
        if offset > len(buffer):
            buffer.extend(bytes(offset - len(buffer)))
        buffer[offset:end] = data
        node.written = True
        if appended:
            node.appended_from = offset if node.appended_from is None else node.appended_from
        elif node.appended_from is not None and end > node.appended_from:
            node.appended_from = None
        self._saving.changed(node)
        handle.changed()
        return len(data)

    def _begin(self, node: FileNode, handle: FileHandle | None) -> None:
        """A file that is all saved is about to be changed, at places in what the handle was last served.

        Where that is not what the file holds now, it goes on in that: written into another text, the change would land
        in the middle of a word. It is merged when it is committed. Raises ESTALE where that is redacted.
        """
        if node.dirty or node.memory_id is None or handle is None or handle.base.sha256 is None:
            return
        if handle.base.sha256 != node.starting_point().sha256:
            node.buffer, node.base = bytearray(self._contents.begun_from(handle.base)), handle.base
            node.served = None
            self._tree.stale_inode(node)

    async def truncate(self, node: FileNode, size: int, number: int | None) -> None:
        """Cut a file or fill it up with NUL, through an open file or by its path: then it is committed at once, where
        nobody has it open to write. Raises what ``write`` does, and what makes the text unfit.
        """
        if size > MAX_CONTENT_BYTES and not node.scratch:
            raise ContentTooLarge(f"a memory has at most {MAX_CONTENT_BYTES} bytes, not {size}: split it")
        check_current(node)
        self._working.make_room(node, max(node.size, min(size, MAX_CONTENT_BYTES)))
        self._settling.own_again(node)
        self._begin(node, None if number is None else self._handles.file(number))
        by_path = number is None and not node.writing
        before = bytes(self._contents.buffer(node)) if by_path and node.dirty else None
        self._resize(node, size)
        node.written = True
        node.spoiled = False
        self._saving.changed(node)
        for writer in node.writing if number is None else [self._handles.file(number)]:
            writer.changed()
        if not by_path or node.memory_id is None:
            return
        # truncate(2) by path: there is no close to wait for, nor one that would give a text up that is unfit.
        generation = node.generation
        try:
            await self._saving.commit(node)
        except BaseException:
            if node.generation == generation and node.attached:
                if before is None:
                    self._saving.discard(node)
                else:
                    node.buffer = bytearray(before)
                    self._saving.changed(node)
            raise

    def _resize(self, node: FileNode, size: int) -> None:
        buffer = self._contents.buffer(node)
        if node.scratch:
            self._scratch.charge(node, size)
        if size > len(buffer):
            buffer.extend(bytes(size - len(buffer)))
        else:
            del buffer[size:]
        if node.appended_from is not None and size <= node.appended_from:
            node.appended_from = None

    # Ending it

    async def flush(self, number: int) -> None:
        """A descriptor was closed: commit. Raises what makes the text unfit, so that close() reports it."""
        handle = self._handles.file(number)
        try:
            await self._saving.flush(handle)
        except UNFIT as error:
            self._settling.refused(handle, error)
            raise
        self._settling.saved(handle)

    async def fsync(self, number: int) -> None:
        """Commit, and return once it survives a loss of power."""
        await self._saving.fsync(self._handles.file(number))

    async def release(self, number: int) -> None:
        """The last reference to an open file is gone. What was refused at close is dropped now, never committed."""
        handle = self._handles.remove_file(number)
        node = handle.node
        try:
            reason = self._settling.refusal(handle)
            if reason is not None:
                self._saving.give_up(handle, reason)
            else:
                await self._saving.release(handle)
        finally:
            handle.leave()
            if node.attached:
                self._saving.show_masked(node)
            if node.handles == 0:
                if not node.attached:
                    self._scratch.settle(node)
                    self._tree.drop_unknown(node)
                elif not node.dirty and not node.scratch:
                    node.buffer = None
            self._settling.released(handle)
