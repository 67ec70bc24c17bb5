"""The pyfuse3 adapter: bytes, attributes and errnos; what an operation means stands in ``memfs.vfs``."""

import errno
import functools
import inspect
import logging
import os
import stat
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from memfs.model.errors import MemfsError, NotFound, WriteRefused
from memfs.mount import hints
from memfs.mount.errnos import errno_of
from memfs.mount.headroom import Headroom
from memfs.mount.hints import pyfuse3
from memfs.mount.invalidation import Invalidator
from memfs.mount.refusals import Refusals
from memfs.vfs import DirectoryNode, FileHandle, FileNode, Filesystem, Node, StaleInode
from memfs.vfs.errors import os_error

FOLLOWED_SECONDS = 86_400.0
"""How long a kernel may trust attributes and names where it is told of each change. A name that is not there it never
trusts to be so: open() has to see what was made elsewhere a moment ago, and of that it would not ask."""

HANDLE_BYTES = 4096
"""About what an open file takes, and the request that opens it."""

UNFOLLOWED_SECONDS = 1.0
"""The same where changes made elsewhere cannot be noticed by themselves."""

P = ParamSpec("P")
R = TypeVar("R")

_EXPECTED = frozenset({errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.ESTALE})
"""What programs provoke all the time while they look around; only told where there is more to say than that."""


def handler(
    function: Callable[Concatenate["StoreOperations", P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["StoreOperations", P], Coroutine[Any, Any, R]]:
    """Guard a request handler: every exception becomes an errno, and none ends the mount.

    What a rule refuses is told with the rule, what went wrong with its traceback.
    """
    operation = function.__name__
    names = list(inspect.signature(function).parameters)[1:]

    @functools.wraps(function)
    async def guarded(self: "StoreOperations", *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await function(self, *args, **kwargs)
        except pyfuse3.FUSEError:
            raise
        except MemfsError as error:
            number = errno_of(error)
            if not isinstance(error, NotFound) and not (operation == "lookup" and number == errno.ENAMETOOLONG):
                level = logging.WARNING if isinstance(error, WriteRefused) else logging.INFO
                path = self.place(dict(zip(names, args, strict=False), **kwargs))
                self.refusals.add(path, operation, number, str(error), level=level)
            raise pyfuse3.FUSEError(number) from None
        except OSError as error:
            number = error.errno or errno.EIO
            if number not in _EXPECTED or error.filename is not None:
                path = self.place(dict(zip(names, args, strict=False), **kwargs))
                self.refusals.add(path, operation, number, str(error.filename or error.strerror or error))
            raise pyfuse3.FUSEError(number) from None
        except MemoryError:
            path = self.place(dict(zip(names, args, strict=False), **kwargs))
            self.refusals.add(path, operation, errno.ENOMEM, "no memory is left for it", level=logging.WARNING)
            raise pyfuse3.FUSEError(errno.ENOMEM) from None
        except Exception as error:
            self.refusals.fault(self.place(dict(zip(names, args, strict=False), **kwargs)), operation, error)
            raise pyfuse3.FUSEError(errno.EIO) from None
        finally:
            self.invalidator.drop(self.filesystem.tree.stale)

    return cast("Callable[Concatenate[StoreOperations, P], Coroutine[Any, Any, R]]", guarded)


class StoreOperations(pyfuse3.Operations):
    """Answers a kernel for one filesystem."""

    # Handlers for "." and ".." exist only for NFS export, which a store is not made for.
    supports_dot_lookup = False
    enable_writeback_cache = False

    def __init__(
        self,
        filesystem: Filesystem,
        invalidator: Invalidator,
        refusals: Refusals,
        *,
        uid: int,
        gid: int,
        followed: bool,
        umask: int | None = None,
    ) -> None:
        """``uid`` and ``gid`` own every file; ``followed`` is whether commits elsewhere are noticed by themselves.

        ``umask`` takes the place of what each file says of who may read and write it.
        """
        super().__init__()
        self.refusals = refusals
        self.filesystem = filesystem
        self.invalidator = invalidator
        self.followed = followed
        self.uid = uid
        self.gid = gid
        self.umask = umask
        self._hinted = False
        self._headroom = Headroom()

    def begin(self, *, strict: bool) -> None:
        """Settle what the kernel need not ask; called once pyfuse3 is initialized.

        Nothing writes through a read_only mount, so the kernel opens files there without asking, unless ``strict``
        wants it to look for what others have closed at each open.
        """
        self._hinted = hints.given()
        self.filesystem.tree.unasked = self._hinted and self.filesystem.read_only and self.followed and not strict

    def place(self, request: dict[str, Any]) -> str:
        """Where in the store a request is about something, by its handler's arguments; a rename's is its new name.

        Never raises.
        """
        try:
            match request:
                case (
                    {"parent_inode_new": parent, "name_new": name}
                    | {"new_parent_inode": parent, "new_name": name}
                    | {"parent_inode": parent, "name": name}
                ):
                    return self._child(parent, name)
                case {"inode": int(inode)}:
                    return _path(self.filesystem.node(inode))
                case {"fh": int(number)}:
                    handles = (self.filesystem.file, self.filesystem.open_directory)
                    for handle in handles:
                        with suppress(OSError):
                            return _path(handle(number).node)
        except Exception:
            # Told of a request that failed already: whatever is wrong with the tree, the mount must live on.
            return "?"
        return "?" if request.keys() - {"ctx"} else "/"

    def _child(self, parent: int, name: bytes) -> str:
        return f"{_path(self.filesystem.node(parent)).rstrip('/')}/{os.fsdecode(name)}"

    def _attributes(self, node: Node) -> pyfuse3.EntryAttributes:
        entry = pyfuse3.EntryAttributes()
        entry.st_ino = node.inode
        entry.attr_timeout = entry.entry_timeout = FOLLOWED_SECONDS if self.followed else UNFOLLOWED_SECONDS
        mode = node.mode
        if self.umask is not None:
            mode = (mode | (0o777 if isinstance(node, DirectoryNode) else 0o666)) & ~self.umask
        if self.filesystem.read_only or self.filesystem.tree.archived:
            mode &= ~0o222
        if isinstance(node, DirectoryNode):
            entry.st_mode = stat.S_IFDIR | mode
            entry.st_nlink = 2 + node.directories if node.attached else 0
            entry.st_size = 0
        elif isinstance(node, FileNode):
            entry.st_mode = stat.S_IFREG | mode
            entry.st_nlink = 1 if node.attached else 0
            entry.st_size = node.kernel_size = node.size
            node.told = node.head
            entry.st_blocks = (node.size + 511) // 512
        entry.st_blksize = 4096
        entry.st_uid = self.uid
        entry.st_gid = self.gid
        entry.st_atime_ns = node.atime_ns
        entry.st_mtime_ns = node.mtime_ns
        entry.st_ctime_ns = node.ctime_ns
        return entry

    def _known(self, node: Node) -> pyfuse3.EntryAttributes:
        """Attributes for an answer with which the kernel gains a reference."""
        entry = self._attributes(node)
        self.filesystem.remember(node)
        return entry

    def _opened(self, handle: FileHandle) -> pyfuse3.FileInfo:
        key = handle.node.content_key()
        # Pages from before stay good while the text is the same.
        keep = handle.node.served == key
        handle.node.served = key
        # A reader's close has nothing to commit, and so no error to wait for.
        hint = hints.NO_FLUSH if self._hinted and not handle.writable else 0
        return pyfuse3.FileInfo(fh=handle.number | hint, keep_cache=keep)

    # Names. The kernel has applied the caller's umask to each mode already.

    @handler
    async def lookup(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        if not self.followed:
            self.filesystem.peek()
        try:
            node = self.filesystem.lookup(parent_inode, name)
        except FileNotFoundError:
            await self.filesystem.refresh()  # it may have been made elsewhere while a commit of ours is under way
            node = self.filesystem.lookup(parent_inode, name, ctx.pid)
        await self.filesystem.settle(node.inode)
        return self._known(self.filesystem.lookup(parent_inode, name, ctx.pid))

    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        # No handler: nobody waits for an answer, and a FUSEError too would end the mount.
        for inode, count in inode_list:
            try:
                self.filesystem.forget(inode, count)
            except Exception as error:
                self.refusals.fault(self.place({"inode": inode}), "forget", error)

    @handler
    async def mkdir(
        self, parent_inode: int, name: bytes, mode: int, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        return self._known(await self.filesystem.mkdir(parent_inode, name, mode))

    @handler
    async def mknod(
        self, parent_inode: int, name: bytes, mode: int, rdev: int, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        return self._known(await self.filesystem.mknod(parent_inode, name, mode))

    @handler
    async def symlink(
        self, parent_inode: int, name: bytes, target: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        raise self._no_link(name)

    @handler
    async def link(
        self, inode: int, new_parent_inode: int, new_name: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        raise self._no_link(new_name)

    def _no_link(self, name: bytes) -> OSError | pyfuse3.FUSEError:
        if self.filesystem.temporaries.plain(os.fsdecode(name)):
            return pyfuse3.FUSEError(errno.EPERM)  # an editor's lock or backup, at each save; it has another way
        return os_error(errno.EPERM, "a store holds regular files and directories, no links: make a copy")

    @handler
    async def unlink(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        await self.filesystem.unlink(parent_inode, name)

    @handler
    async def rmdir(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        await self.filesystem.rmdir(parent_inode, name)

    @handler
    async def rename(
        self,
        parent_inode_old: int,
        name_old: bytes,
        parent_inode_new: int,
        name_new: bytes,
        flags: int,
        ctx: pyfuse3.RequestContext,
    ) -> None:
        if flags & ~(pyfuse3.RENAME_NOREPLACE | pyfuse3.RENAME_EXCHANGE):
            raise os_error(errno.EINVAL, "of the flags of renameat2 only NOREPLACE and EXCHANGE work here")
        await self.filesystem.rename(
            parent_inode_old,
            name_old,
            parent_inode_new,
            name_new,
            noreplace=bool(flags & pyfuse3.RENAME_NOREPLACE),
            exchange=bool(flags & pyfuse3.RENAME_EXCHANGE),
        )

    # Attributes

    @handler
    async def getattr(self, inode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        if not self.followed:
            self.filesystem.peek()
        node = await self.filesystem.shown(inode)
        entry = self._attributes(node)
        if isinstance(node, FileNode) and node.successor is not None and not self.filesystem.tree.held(node):
            entry.attr_timeout = 0  # or whoever still finds it by its name would be shown it for long
        return entry

    @handler
    async def setattr(
        self,
        inode: int,
        attr: pyfuse3.EntryAttributes,
        fields: pyfuse3.SetattrFields,
        fh: int | None,
        ctx: pyfuse3.RequestContext,
    ) -> pyfuse3.EntryAttributes:
        if fields.update_size:
            self._headroom.spend(attr.st_size)
        # Owner and group are the mount's; the kernel has refused those who may not ask (DESIGN.md 12).
        node = await self.filesystem.set_attributes(
            inode,
            mode=attr.st_mode if fields.update_mode else None,
            atime_ns=attr.st_atime_ns if fields.update_atime else None,
            mtime_ns=attr.st_mtime_ns if fields.update_mtime else None,
            size=attr.st_size if fields.update_size else None,
            handle=fh,
        )
        return self._attributes(node)

    @handler
    async def statfs(self, ctx: pyfuse3.RequestContext) -> pyfuse3.StatvfsData:
        figures = self.filesystem.statfs()
        answer = pyfuse3.StatvfsData()
        for field in ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail"):
            setattr(answer, field, getattr(figures, field))
        answer.f_namemax = figures.f_namemax
        return answer

    # Files

    @handler
    async def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: pyfuse3.RequestContext
    ) -> tuple[pyfuse3.FileInfo, pyfuse3.EntryAttributes]:
        self._headroom.spend(HANDLE_BYTES)
        handle = await self.filesystem.create(parent_inode, name, mode, flags, ctx.pid)
        return self._opened(handle), self._known(handle.node)

    @handler
    async def open(self, inode: int, flags: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        if self.filesystem.tree.unasked:
            # "Not needed": the kernel opens this and all other files by itself, for as long as the mount lasts.
            raise pyfuse3.FUSEError(errno.ENOSYS)
        self._headroom.spend(HANDLE_BYTES)
        handle = await self.filesystem.open(inode, flags, ctx.pid, uid=ctx.uid)
        self._hand_over(handle)
        opened = self._opened(handle)
        if not opened.keep_cache:
            # The kernel drops the pages itself. Told once more while it asks for the size, it would throw our answer
            # away, and cut the new text at the size it knew.
            await self.invalidator.withdraw(StaleInode(inode), self.filesystem.tree.stale)
            _forget_attributes(inode)
        return opened

    def _hand_over(self, handle: FileHandle) -> None:
        """Put a text of which the kernel has no page yet into its pages, so that it need not ask for it.

        That waits for pages which a request is about to fill. There are none while nobody else has the file open. Only
        the text that the kernel knew of from the beginning: of another it might have missed the size, and ``open`` lets
        it ask for that.
        """
        node = handle.node
        first = node.steady and node.served is None and node.kernel_size == node.size > 0
        if first and handle.reads and node.handles == 1:
            with suppress(Exception):  # whatever is wrong, the file is open by now: who reads it is told
                pyfuse3.notify_store(node.inode, 0, self.filesystem.text(handle))
                node.served = node.content_key()

    @handler
    async def read(self, fh: int, off: int, size: int) -> bytes:
        if fh & hints.BY_INODE:
            return self.filesystem.read_unopened(fh & ~hints.BY_INODE, off, size)
        return self.filesystem.read(fh, off, size)

    @handler
    async def write(self, fh: int, off: int, buf: bytes) -> int:
        self.filesystem.check_writable()  # first: where opens do not ask there is no handle
        handle = self.filesystem.file(fh)
        node = handle.node
        self._headroom.spend(len(buf) + (node.size if node.buffer is None else 0))
        # An append lands at the end as it is here; the kernel has put it where it believed the end to be.
        elsewhere = handle.appends(off) and off != node.size
        known = node.served == node.content_key() and not elsewhere
        written = self.filesystem.write(fh, off, buf)
        if known:
            # The kernel has put the same bytes into its pages.
            node.served = node.content_key()
        elif elsewhere:
            self.filesystem.tree.stale_inode(node)
        return written

    @handler
    async def flush(self, fh: int) -> None:
        if self.filesystem.read_only:
            # "Not needed": nothing is written here that a close could commit, so the kernel shall not ask again, for as
            # long as the mount lasts. close() returns 0 all the same, and each open costs one question less.
            raise pyfuse3.FUSEError(errno.ENOSYS)
        try:
            await self.filesystem.flush(fh)
        finally:
            handle = self.filesystem.file(fh)
            node = handle.node
            if self.filesystem.passing(handle) or node.size != node.kernel_size:
                # Before close() returns: who asks for the size next must not be told that of what was written.
                _forget_attributes(node.inode)

    @handler
    async def fsync(self, fh: int, datasync: bool) -> None:
        if self.filesystem.read_only:
            raise pyfuse3.FUSEError(errno.ENOSYS)  # not needed, as flush: fsync() returns 0
        await self.filesystem.fsync(fh)

    @handler
    async def release(self, fh: int) -> None:
        await self.filesystem.release(fh)

    # Directories

    @handler
    async def opendir(self, inode: int, ctx: pyfuse3.RequestContext) -> int:
        directory = await self.filesystem.opendir(inode)
        if not self._hinted:
            return directory.number
        node = directory.node
        if node.listed == node.listing:
            return directory.number | hints.KEEP_LISTING | hints.USE_LISTING
        node.listed = node.listing
        # The kernel drops what it has kept when it is answered. A listing that is still on its way to somebody is
        # kept after that all the same; it is told from this one by the directory's time, which must not be the old one.
        _forget_attributes(inode)
        return directory.number | hints.KEEP_LISTING

    @handler
    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        directory = self.filesystem.open_directory(fh)
        if start_id == 0:
            self.filesystem.rewind(directory)
        for position, (name, node) in enumerate(directory.entries(start_id), start_id):
            if node is None:
                continue
            if not pyfuse3.readdir_reply(token, name, self._attributes(node), position + 1):
                break
            if position >= 2:  # the kernel keeps no reference for "." and ".."
                self.filesystem.remember(node)

    @handler
    async def releasedir(self, fh: int) -> None:
        self.filesystem.releasedir(fh)

    @handler
    async def fsyncdir(self, fh: int, datasync: bool) -> None:
        await self.filesystem.sync()


def _path(node: Node) -> str:
    return node.path() if node.attached else f"{node.name} (removed)"


def _forget_attributes(inode: int) -> None:
    """Let the kernel ask for a file's attributes anew. Only those: that waits for no page and so for no request."""
    with suppress(OSError):
        pyfuse3.invalidate_inode(inode, attr_only=True)


def mount_options(*, read_only: bool, allow_other: bool, name: str) -> set[str]:
    """Options for pyfuse3.init; nosuid and nodev are libfuse's defaults."""
    options: set[str] = set(pyfuse3.default_options) | {f"fsname={name}", "subtype=memfs"}
    if read_only:
        options.add("ro")
    if allow_other:
        options.add("allow_other")
    return options
