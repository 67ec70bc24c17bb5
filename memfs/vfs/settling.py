"""Texts that are about to go: a close has refused them or a guard masked some, and the file shows them until it is
released.
"""

import errno
from contextlib import suppress

import trio

from memfs.model.errors import MemfsError
from memfs.vfs.errors import os_error
from memfs.vfs.handles import FileHandle
from memfs.vfs.looking import Looking
from memfs.vfs.nodes import FileNode, Node
from memfs.vfs.tree import Tree

PASSING_SECONDS = 0.01
PASSING_TURNS = 20
"""How long somebody waits for the end of an open file that a close has just given another text: so many times so long,
and not all at once. Time in which this process did not run (stopped, or on a machine with too much to do) ends one turn
however long it was, and each turn takes what the kernel has asked meanwhile: with it the end, which the kernel has
told of before close() returns, behind other requests where many come at once. So who opens the file after that is held
up by what is before it in the queue, and runs out of turns only where somebody does have the file open still.
"""


class Settling:
    """Knows the open files that such texts were written through, and lets others wait for their end."""

    def __init__(self, tree: Tree, looking: Looking) -> None:
        self._tree = tree
        self._looking = looking
        self._refusals: dict[FileHandle, MemfsError] = {}
        """Open files of which a close said that what was written is lost; nothing was written through them since."""
        self._passing: set[FileHandle] = set()
        """Open files of which a close refused or masked the text: they show it until they are released."""
        self._released = trio.Event()
        """Set, and replaced, when an open file goes."""

    # What becomes of an open file's text

    def refused(self, handle: FileHandle, reason: MemfsError) -> None:
        """A close said that what was written is lost."""
        self._refusals[handle] = reason
        self._passing.add(handle)

    def saved(self, handle: FileHandle) -> None:
        """A close had nothing to refuse, but a guard may have masked what was written."""
        self._refusals.pop(handle, None)
        if handle.writable and handle.node.masked:
            self._passing.add(handle)

    def written(self, handle: FileHandle) -> None:
        """Something is written through an open file: what it shows is to be saved again."""
        self._refusals.pop(handle, None)
        self._passing.discard(handle)

    def own_again(self, node: FileNode) -> None:
        """A file's text is another than the one that was refused."""
        for handle in [handle for handle in self._refusals if handle.node is node]:
            del self._refusals[handle]
        self._passing -= {handle for handle in self._passing if handle.node is node}

    def released(self, handle: FileHandle) -> None:
        """An open file is gone, and with it what it showed."""
        self.written(handle)
        self._released.set()
        self._released = trio.Event()

    def refusal(self, handle: FileHandle) -> MemfsError | None:
        """Why what was written through an open file is lost, where its close has said so."""
        return self._refusals.get(handle)

    def passing(self, handle: FileHandle) -> bool:
        """Whether a close has just given an open file another text than what was written."""
        return handle in self._passing

    # Waiting for its end

    async def settle(self, inode: int) -> None:
        """Where a close has just said that what was written is lost, or has masked some of it, wait until that is so.

        The kernel tells of a file's last close only after we have answered the close. Whoever opens the file in between
        would be shown the old text, and while reading it the end of another. Where the closed descriptor was not the
        last one, the text is still somebody's, and the wait is for nothing but short, and not repeated.

        Raises ESTALE where the name is gone by now, and not by the kernel's own doing: it has to look it up anew.
        """
        passing = {handle for handle in self._passing if handle.node.inode == inode}
        if passing:
            for _ in range(PASSING_TURNS):
                with trio.move_on_after(PASSING_SECONDS):
                    while not passing.isdisjoint(self._passing):
                        await self._released.wait()
                    break
            self._passing -= passing
        node = self._tree.by_inode.get(inode)
        if isinstance(node, FileNode) and not node.attached and not node.removed_here and not self._tree.held(node):
            raise os_error(errno.ESTALE)

    async def settle_name(self, parent: int, name: bytes) -> None:
        """Like settle, for what is at a name, if anything is."""
        if self._passing:
            with suppress(OSError):
                await self.settle(self._looking.lookup(parent, name).inode)

    async def shown(self, inode: int) -> Node:
        """What a kernel asks the attributes of, settled. Raises ESTALE where the name is gone (``settle``), but for a
        file in whose place another one is: that was as it is.

        A kernel asks before it opens a file, and looks the name up anew only once: told here, it would give up where
        the next file is replaced too before it is opened.
        """
        try:
            await self.settle(inode)
        except OSError:
            node = self._looking.node(inode)
            if isinstance(node, FileNode) and node.successor is not None:
                return node
            raise
        return self._looking.node(inode)
