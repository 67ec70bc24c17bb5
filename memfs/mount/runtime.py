"""What is mounted on this machine: a small directory with one record, one lock and one log for each root.

The record tells other commands about a root; the lock is held by its supervisor, so that a record whose lock is free
is one of a supervisor that died. Both go when the root is unmounted.
"""

import fcntl
import hashlib
import json
import logging
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from memfs.model.errors import MountFailed
from memfs.model.records import Access
from memfs.mount.processes import kind_at
from memfs.vfs.temporaries import DEFAULT_NAMES, TemporaryNames

log = logging.getLogger(__name__)

LOG_SECONDS = 7 * 24 * 3600.0
"""How long the log of what was mounted stays."""


RECORD_BYTES, MOST_RECORDS = 256 * 1024, 1000
"""How much of another user's records is read."""


@dataclass(frozen=True, slots=True)
class MountRecord:
    """One store's mount below a root. ``pid`` is its worker's."""

    path: str
    memory_store_id: str
    name: str
    access: Access
    pid: int


@dataclass(frozen=True, slots=True)
class RootRecord:
    """A root and its mounts. ``pid`` is the supervisor's; the other fields are those of ``memfs.mount.root.Root``."""

    root: str
    database: str
    session_id: str
    pid: int
    place: str
    existed: bool
    tmpfs: bool
    mounts: tuple[MountRecord, ...]
    temporaries: TemporaryNames = DEFAULT_NAMES
    """What the mounts take for temporaries; the defaults in a record of a memfs that knew no others."""
    ends_session: bool = False
    """Whether the session was begun for these mounts, and so ends with them; an older memfs did not say."""
    sandbox: int = 0
    """Of a run: the process in whose namespaces the mounts are, as we count; 0 until there is one. ``pid`` is that of
    ``memfs run``."""
    sandbox_began: int = 0
    """When that process began, in clock ticks since the machine did: its number is given again."""


def _in_memory(path: Path, *, shared: bool) -> Path:
    """The path given, where that is in memory and others need not get there; else one in /dev/shm, if there is that."""
    memory = Path("/dev/shm")
    if (shared or kind_at(path) != "tmpfs") and kind_at(memory) == "tmpfs" and os.access(memory, os.W_OK):
        return memory / f"memfs-{os.getuid()}-{path.name}"
    return path


def runtime_place() -> Path:
    """Where records are: /run/memfs for root, else memfs below XDG_RUNTIME_DIR or a private directory of the user's."""
    uid = os.getuid()
    if uid == 0:
        return Path("/run/memfs")
    if os.path.isabs(given := os.environ.get("XDG_RUNTIME_DIR", "")):  # a relative one is to be ignored
        return Path(given) / "memfs"
    return Path(tempfile.gettempdir()) / f"memfs-{uid}"


def runtime_directory() -> Path:
    """The place of the records, made where it is missing. Raises MountFailed where another user has taken it."""
    uid, path = os.getuid(), runtime_place()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise MountFailed(
            f"the runtime directory {path} cannot be used: {error.strerror}; set XDG_RUNTIME_DIR"
        ) from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid or status.st_mode & 0o022:
        raise MountFailed(f"the runtime directory {path} is not yours alone: set XDG_RUNTIME_DIR to one that is")
    return path


ROOTS, RUNS = ".json", ".run"
"""How the names of records end: those of roots, and those of what ``memfs run`` has mounted in sandboxes."""


def run_name(session_id: str, pid: int) -> Path:
    """What a run has in place of the path of a root, which in its sandbox is that of others too."""
    return Path(f"run {session_id} {pid}")


class RootState:
    """The record, lock and log of one root, or of one run.

    A root's lock is held by its supervisor. That of a run by ``memfs run``, the supervisor and the workers: it is over
    when the last of them is gone, and nothing more can be committed for it.
    """

    def __init__(self, root: Path, directory: Path | None = None, kind: str = ROOTS) -> None:
        self.root = root
        base = (directory or runtime_directory()) / hashlib.sha256(os.fsencode(root)).hexdigest()[:24]
        self.record_path = base.with_suffix(kind)
        self.lock_path = base.with_suffix(".lock")
        self.log_path = base.with_suffix(".log")
        self._place = base.with_suffix(".root")

    def refusals_path(self, directory: str) -> Path:
        """Where the worker of a mount, by the name of its directory, keeps what guards refused."""
        return self.record_path.with_suffix(f".{hashlib.sha256(directory.encode()).hexdigest()[:16]}.refused")

    def forget_refusals(self) -> None:
        """Take away what workers kept, also what one that was killed was about to put in its place."""
        for suffix in ("refused", "new"):
            for refusals in self.record_path.parent.glob(f"{self.record_path.stem}.*.{suffix}"):
                refusals.unlink(missing_ok=True)

    def private_place(self, *, shared: bool) -> Path:
        """A directory in memory where an ordinary user's stores can be mounted; ``shared`` with other users."""
        return _in_memory(self._place, shared=shared)

    def read(self) -> RootRecord | None:
        """The record, or None where there is none. Raises MountFailed where it cannot be read."""
        try:
            return _parse(self.record_path.read_text())
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):
            raise MountFailed(
                f"the record {self.record_path} is damaged or another version's: unmount {self.root}, then remove it"
            ) from None

    def write(self, record: RootRecord) -> None:
        """Replace the record, whole or not at all."""
        temporary = self.record_path.with_suffix(".new")
        try:
            temporary.write_text(json.dumps(asdict(record)))
            temporary.chmod(0o600)
            temporary.replace(self.record_path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def remove(self, lock: int) -> None:
        """Take record and lock away, of which ``lock`` is the descriptor; the log stays to be read.

        Where the lock's file is another one by now, somebody else holds the root, and record and lock are theirs.
        """
        try:
            ours = os.path.samestat(os.stat(self.lock_path), os.fstat(lock))
        except FileNotFoundError:
            return
        if ours:
            self.forget_refusals()
            self.record_path.unlink(missing_ok=True)
            self.lock_path.unlink(missing_ok=True)

    def held_by(self, pid: int) -> bool:
        """Whether a process has the lock's file open, as only a supervisor has. Raises PermissionError."""
        try:
            wanted, path = os.stat(self.lock_path), os.path.realpath(self.lock_path)
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except FileNotFoundError:
            return False
        for descriptor in descriptors:
            try:
                # Only of files beside the lock: asking a mount could hold us.
                if os.readlink(f"/proc/{pid}/fd/{descriptor}") != path:
                    continue
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{descriptor}"), wanted):
                    return True
            except FileNotFoundError:
                continue
        return False

    def forget_old_logs(self) -> None:
        """Take away logs that nobody has looked at for ``LOG_SECONDS``, of what is not mounted any more."""
        for path in self.log_path.parent.glob("*.log"):
            with suppress(FileNotFoundError):
                known = any(path.with_suffix(end).exists() for end in (ROOTS, RUNS, ".lock"))
                if not known and time.time() - path.stat().st_mtime > LOG_SECONDS:
                    path.unlink()

    @contextmanager
    def hold(self) -> Iterator[int]:
        """Be the one supervisor of this root; gives the lock's descriptor. Raises MountFailed where there is one."""
        descriptor = self._lock()
        try:
            self.forget_old_logs()
            yield descriptor
        finally:
            os.close(descriptor)

    def _lock(self) -> int:
        deadline = time.monotonic() + 0.3  # whoever asks whether we are alive holds the lock for a moment
        while True:
            descriptor = os.open(self.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.stat(self.lock_path).st_ino == os.fstat(descriptor).st_ino:
                    return descriptor
            except BlockingIOError:
                os.close(descriptor)
                if time.monotonic() < deadline:
                    time.sleep(0.02)
                    continue
                raise MountFailed(f"{self.root} is mounted already: 'memfs umount {self.root}' takes it down") from None
            except FileNotFoundError:
                pass
            # A supervisor that ended took this file away just before we locked it: lock the one that is there now.
            os.close(descriptor)

    def alive(self) -> bool:
        """Whether a supervisor holds the lock."""
        try:
            descriptor = os.open(self.lock_path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)


def records_of(uid: int) -> list[RootRecord]:
    """What another user's records say of roots, for root to show: nothing of it is to be relied on.

    Never raises, and neither follows a link of theirs, nor waits for anything.
    """
    found = []
    for directory in (Path(f"/run/user/{uid}/memfs"), Path(tempfile.gettempdir()) / f"memfs-{uid}"):
        try:
            opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            for name in sorted(os.listdir(opened))[:MOST_RECORDS]:
                if name.endswith(ROOTS):
                    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
                        found.append(_parse(_read_plain(opened, name, uid)))
        finally:
            os.close(opened)
    return found


def _read_plain(directory: int, name: str, uid: int) -> str:
    """The text of a small file of a user's. Raises OSError where it is anything else, and ValueError."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != uid:
            raise PermissionError(name)
        return os.read(descriptor, RECORD_BYTES).decode()
    finally:
        os.close(descriptor)


def _parse(text: str) -> RootRecord:
    fields = json.loads(text)
    fields["mounts"] = tuple(MountRecord(**mount) for mount in fields["mounts"])
    names = fields.get("temporaries")
    if names is not None:
        patterns = {key: tuple(names[key]) for key in ("added", "excepted")}
        fields["temporaries"] = TemporaryNames(names["defaults"], **patterns)
    return RootRecord(**fields)


def records(directory: Path | None = None, kind: str = ROOTS) -> list[tuple[RootState, RootRecord]]:
    """Every root, or every run, there is a record of, by path and session.

    Those in ``directory``, which else is the runtime directory.
    """
    directory = directory or runtime_directory()
    found = []
    for path in directory.glob(f"*{kind}"):
        try:
            record = _parse(path.read_text())
        except FileNotFoundError:
            continue  # unmounted meanwhile
        except (ValueError, TypeError, KeyError):
            log.warning("the record %s is damaged or another version's and is left out", path)
            continue
        name = Path(record.root) if kind == ROOTS else run_name(record.session_id, record.pid)
        found.append((RootState(name, directory, kind), record))
    return sorted(found, key=lambda item: (item[1].root, item[1].session_id, item[1].pid))
