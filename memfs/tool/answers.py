"""What becomes of an error in an answer: the one table of this adapter (a test keeps it exhaustive)."""

from memfs.model import errors

UNAVAILABLE = "the memory cannot be reached now; nothing was changed, try again later"
"""Where the message would name files of this machine, which no model needs to know."""

SENTENCES: dict[type[errors.MemfsError], str | None] = {
    errors.MemfsError: UNAVAILABLE,
    errors.InvalidRequest: None,
    errors.InvalidPath: None,
    errors.NameNotUtf8: None,
    errors.PathTooLong: None,
    errors.ContentNotText: None,
    errors.ContentTooLarge: None,
    errors.AmbiguousName: None,
    errors.TooManyStores: None,
    errors.VersionInUse: None,
    errors.StoreArchived: "this memory is archived: it can be read, but not changed",
    errors.SessionArchived: None,
    errors.NotAuthenticated: UNAVAILABLE,
    errors.NotPermitted: UNAVAILABLE,
    errors.ReadOnly: "this memory is read-only: it can be read, but not changed",
    errors.WriteRefused: None,
    errors.HistoryGone: None,
    errors.StoreFull: "this memory is full: delete what is no longer needed, or write into a file that exists",
    errors.NotFound: "this memory is gone",
    errors.PathConflict: "a file is where a directory would be needed, or the other way round: choose another path",
    errors.PreconditionFailed: "the file keeps changing: view it and try again",
    errors.MemoryChanged: "the file keeps changing: view it and try again",
    errors.Busy: "the memory is busy; nothing was changed, try again",
    errors.StorageFailed: UNAVAILABLE,
    errors.StorageFull: "there is no space left where the memory is kept; nothing was changed",
    errors.StorageReadOnly: "the memory can only be read at the moment; nothing was changed",
    errors.UnusableDatabase: UNAVAILABLE,
    errors.MountFailed: UNAVAILABLE,
}
"""None: the error's own message, which names nothing outside of the memory."""


def sentence(error: errors.MemfsError) -> str:
    """What to tell a model of an error, by the nearest class of it that the table names."""
    told = next(SENTENCES[cls] for cls in type(error).__mro__ if cls in SENTENCES)
    return str(error) if told is None else told
