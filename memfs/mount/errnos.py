"""Which errno each of our errors is: the one table of the mount adapter."""

import errno

from memfs.model.errors import (
    AmbiguousName,
    Busy,
    ContentNotText,
    ContentTooLarge,
    HistoryGone,
    InvalidPath,
    InvalidRequest,
    MemfsError,
    MemoryChanged,
    MountFailed,
    NameNotUtf8,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    PathConflict,
    PathTooLong,
    PreconditionFailed,
    ReadOnly,
    SessionArchived,
    StorageFailed,
    StorageFull,
    StorageReadOnly,
    StoreArchived,
    StoreFull,
    TooManyStores,
    UnusableDatabase,
    VersionInUse,
    WriteRefused,
)

ERRNO: dict[type[MemfsError], int] = {
    AmbiguousName: errno.EINVAL,
    Busy: errno.EAGAIN,
    ContentNotText: errno.EILSEQ,
    ContentTooLarge: errno.EFBIG,
    HistoryGone: errno.EIO,
    InvalidPath: errno.EINVAL,
    InvalidRequest: errno.EINVAL,
    MemfsError: errno.EIO,
    MemoryChanged: errno.ESTALE,
    MountFailed: errno.EIO,
    NameNotUtf8: errno.EILSEQ,
    NotAuthenticated: errno.EACCES,
    NotFound: errno.ESTALE,
    NotPermitted: errno.EACCES,
    PathConflict: errno.EEXIST,
    PathTooLong: errno.ENAMETOOLONG,
    PreconditionFailed: errno.ESTALE,
    ReadOnly: errno.EROFS,
    SessionArchived: errno.EROFS,
    StorageFailed: errno.EIO,
    StorageFull: errno.ENOSPC,
    StorageReadOnly: errno.EROFS,
    StoreArchived: errno.EROFS,
    StoreFull: errno.ENOSPC,
    TooManyStores: errno.EINVAL,
    UnusableDatabase: errno.EIO,
    VersionInUse: errno.EINVAL,
    WriteRefused: errno.EACCES,
}


def errno_of(error: MemfsError) -> int:
    """The errno that a tool can act on."""
    return next(ERRNO[cls] for cls in type(error).__mro__ if cls in ERRNO)
