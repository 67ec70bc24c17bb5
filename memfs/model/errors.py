"""The closed set of errors that memfs raises on purpose.

Each adapter (command line, mount, HTTP, tool) translates these with one exhaustive table of its own; nothing here
knows an errno, a status code or a click class. A message is one line that says what is wrong and what to do.
"""


class MemfsError(Exception):
    """Base of every error that memfs raises on purpose."""


class InvalidRequest(MemfsError):
    """A field breaks its rule."""


class InvalidPath(InvalidRequest):
    """A path or name that no memory may have (DESIGN.md 10)."""


class NameNotUtf8(InvalidPath):
    """A name whose bytes are not UTF-8."""


class PathTooLong(InvalidPath):
    """Over 255 bytes a name (mounts only), 20 segments or 1,024 bytes a path."""


class ContentNotText(InvalidRequest):
    """Content that is not UTF-8, judged as a whole."""


class ContentTooLarge(InvalidRequest):
    """Content over 102,400 bytes."""


class AmbiguousName(InvalidRequest):
    """A name or slug that several stores, or several keys, share where one is meant."""


class TooManyStores(InvalidRequest):
    """More than 8 stores for one session."""


class NotFound(MemfsError):
    """No such store, memory, version or session."""


class PathConflict(MemfsError):
    """A path that is used, or that lies above or below a used one.

    ``conflicting_memory_id`` and ``conflicting_path`` name the live memory in the way.
    """

    def __init__(self, message: str, *, conflicting_memory_id: str, conflicting_path: str) -> None:
        super().__init__(message)
        self.conflicting_memory_id = conflicting_memory_id
        self.conflicting_path = conflicting_path


class PreconditionFailed(MemfsError):
    """The memory is not in the state that the caller said it expects."""


class MemoryChanged(MemfsError):
    """The memory has changed since its text was read, and the attachment's policy is not to save it then."""


class WriteRefused(MemfsError):
    """A guard of the store refuses the write: a secret, personal data, its size, or its path."""


class VersionInUse(InvalidRequest):
    """The version is the head of a live memory, and so cannot be redacted."""


class HistoryGone(MemfsError):
    """What a restore would need was pruned or redacted."""


class StoreFull(MemfsError):
    """The store holds its 2,000 memories (or its limit of kept directories)."""


class StoreArchived(InvalidRequest):
    """The store is archived: it can be read, but neither changed nor attached."""


class SessionArchived(InvalidRequest):
    """The session is archived: nothing can be mounted for it any more."""


class ReadOnly(MemfsError):
    """The store is attached read_only here."""


class NotAuthenticated(MemfsError):
    """No API key was given, or none that is valid. The message never says which key it might have been."""


class NotPermitted(MemfsError):
    """The API key may only read, or may not use this store."""


class Busy(MemfsError):
    """Another process held the database's writer lock for too long; nothing was changed."""


class StorageFailed(MemfsError):
    """The database could not be read or written: disk full, I/O error, permission."""


class StorageFull(StorageFailed):
    """There is no space left where the database is, or a quota is used up."""


class StorageReadOnly(StorageFailed):
    """The database, its directory or its disk can only be read."""


class UnusableDatabase(StorageFailed):
    """The file is no memfs database, is damaged, or was made by a newer memfs."""


class MountFailed(MemfsError):
    """A mount could not be made or taken down; the message says why and what to do."""


def all_errors() -> frozenset[type[MemfsError]]:
    """Every error class, for the tests that keep the adapters' tables exhaustive."""
    found: set[type[MemfsError]] = set()
    pending: list[type[MemfsError]] = [MemfsError]
    while pending:
        cls = pending.pop()
        found.add(cls)
        pending.extend(cls.__subclasses__())
    return frozenset(found)
