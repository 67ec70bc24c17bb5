"""The log (WAL) of a database on its way to the disk: syncing it, and knowing when a sync cannot be believed."""

import os
import threading
from pathlib import Path

from memfs.model.errors import StorageFailed


class Log:
    """The file beside a database that commits are written to.

    Its descriptor is kept, because Linux tells of an error in writing a file's pages only those who had it open then:
    a descriptor that is opened for the sync may never hear of it, where another process has heard of it before.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self.doubted = False
        """Whether a sync has failed, and nobody has since brought into the database what the log held."""

    def open(self) -> None:
        """Begin to listen for errors. Called once there is a log. Raises StorageFailed."""
        with self._lock:
            self._reopen()

    def close(self) -> None:
        """Let go of it; safe to call twice."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def sync(self) -> None:
        """Write the log through to the disk: a checkpoint that has run meanwhile has synced what it moved.

        Raises StorageFailed; what was committed may then not survive a loss of power, though others see it.
        """
        with self._lock:
            try:
                if self._descriptor is None:
                    self._reopen()
                if self._descriptor is not None:
                    os.fdatasync(self._descriptor)
            except OSError as error:
                self.doubted = True
                raise StorageFailed(f"{self._path} could not be synced: {error.strerror}") from error

    def in_place(self) -> bool:
        """Whether the log is still the file that it was."""
        with self._lock:
            if self._descriptor is None:
                return True
            try:
                return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
            except OSError:
                return False

    def _reopen(self) -> None:
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # nothing was ever written to it
        except OSError as error:
            raise StorageFailed(f"{self._path} could not be opened: {error.strerror}") from error
