"""From errors to exit codes: the command line's one table (a test keeps it exhaustive)."""

from memfs.model import errors

REFUSED = 1
"""It may not or could not be done."""
INVALID = 2
"""Wrong usage or invalid input; click's own code for usage."""
NOT_FOUND = 3
CONFLICT = 4
"""Something else is there, or has changed."""
DATABASE = 5
"""The database could not be read or written."""
INTERNAL = 70
"""A fault of memfs (EX_SOFTWARE)."""
TRY_AGAIN = 75
"""Nothing was changed, and another attempt may succeed (EX_TEMPFAIL)."""
INTERRUPTED = 130
PIPE_CLOSED = 141

EXIT_CODES: dict[type[errors.MemfsError], int] = {
    errors.MemfsError: REFUSED,
    errors.InvalidRequest: INVALID,
    errors.InvalidPath: INVALID,
    errors.NameNotUtf8: INVALID,
    errors.PathTooLong: INVALID,
    errors.ContentNotText: INVALID,
    errors.ContentTooLarge: INVALID,
    errors.AmbiguousName: INVALID,
    errors.TooManyStores: INVALID,
    errors.StoreArchived: REFUSED,
    errors.SessionArchived: REFUSED,
    errors.NotAuthenticated: REFUSED,
    errors.NotPermitted: REFUSED,
    errors.ReadOnly: REFUSED,
    errors.StoreFull: REFUSED,
    errors.WriteRefused: REFUSED,
    errors.VersionInUse: REFUSED,
    errors.HistoryGone: REFUSED,
    errors.MountFailed: REFUSED,
    errors.NotFound: NOT_FOUND,
    errors.PathConflict: CONFLICT,
    errors.PreconditionFailed: CONFLICT,
    errors.MemoryChanged: CONFLICT,
    errors.StorageFailed: DATABASE,
    errors.StorageFull: DATABASE,
    errors.StorageReadOnly: DATABASE,
    errors.UnusableDatabase: DATABASE,
    errors.Busy: TRY_AGAIN,
}


def exit_code(error: errors.MemfsError) -> int:
    """The exit code for an error, by the nearest class of it that the table names."""
    return next(EXIT_CODES[cls] for cls in type(error).__mro__ if cls in EXIT_CODES)
