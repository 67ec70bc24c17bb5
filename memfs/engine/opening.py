"""Opening the SQLite file: making it, its mode, its schema, and what SQLite's errors mean."""

import errno
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar

from sqlite_utils import Database

from memfs.engine import disk
from memfs.engine.schema import APPLICATION_ID, TABLES, migrations
from memfs.model import ids
from memfs.model.errors import (
    Busy,
    MemfsError,
    NotFound,
    StorageFailed,
    StorageFull,
    StorageReadOnly,
    UnusableDatabase,
)
from memfs.model.records import now

_CHECK = "'memfs check' says what is wrong with it and what to do"

LOCK_TIMEOUT_SECONDS = 15.0
"""How long a write waits for another process's write before it gives up with Busy."""

ALONE_SECONDS = 2.0
"""How long who needs the database for itself waits for others to leave: most commands end sooner, mounts do not."""


def is_busy(error: sqlite3.Error) -> bool:
    """Whether an error only says that another connection was faster."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, so that no caller needs to know sqlite3."""
    try:
        yield
    except UnicodeDecodeError as error:
        # Names of tables and what SQLite says of them: a text in a column that is none is an error of SQLite's.
        raise UnusableDatabase(f"{path} is damaged: {_CHECK} (its schema is no text: {error})") from error
    except OverflowError as error:
        raise StorageFailed(f"a number is too large for the database {path}") from error
    except sqlite3.Error as error:
        raise _meant(path, error) from error


def _meant(path: Path, error: sqlite3.Error) -> MemfsError:
    """What an error of SQLite says of the database at ``path``."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if is_busy(error):
        return Busy(
            f"another process has held the writer lock of {path} for over {LOCK_TIMEOUT_SECONDS:.0f} s; try again"
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        # SQLite calls it damage too where the disk fails to give what is in the file.
        return UnusableDatabase(
            f"{path} is damaged or no SQLite database, or its disk cannot be read ({error}): {_CHECK}"
        )
    if code not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return StorageFailed(f"the database {path} could not be used: {error}")
    if path.is_dir():
        return UnusableDatabase(f"{path} is a directory: name the database's file")
    # Of all that a disk can say, SQLite tells apart only that it is full.
    said = disk.says(path.parent)
    if said == errno.EDQUOT:
        return StorageFull(f"the quota of the disk that {path} is on is used up: free some space and try again")
    if code == sqlite3.SQLITE_FULL or said in disk.FULL:
        return StorageFull(f"no space left for {path} or for temporary files: free some and try again")
    if said in disk.OUT_OF_DESCRIPTORS:
        return StorageFailed(
            f"the database {path} could not be opened, for this process has no descriptor left ({error}): raise its"
            " limit of open files (ulimit -n), and try again"
        )
    if said == errno.EROFS:
        return StorageReadOnly(
            f"the disk that {path} is on can only be read, and SQLite keeps a log beside a database, for reading too"
            f" ({error}): make it writable, or copy the database, with the -wal beside it, to where you can write"
        )
    if code != sqlite3.SQLITE_IOERR and not (os.access(path, os.R_OK | os.W_OK) and os.access(path.parent, os.W_OK)):
        return StorageReadOnly(
            f"{path} and its directory must be writable, for reading too, because SQLite keeps its log there"
            f" ({error}): get write access to both, or copy it, with the -wal beside it, to where you have it"
        )
    for beside in (path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        if beside.exists() and not os.access(beside, os.R_OK | os.W_OK):
            # They got the mode that the database had, perhaps when it could not be written.
            return StorageReadOnly(f"{beside} must be writable, as {path} is ({error}): get write access to it too")
    return StorageFailed(f"the database {path} could not be used: {error}: see what the system's log says of its disk")


def log_of(path: Path) -> Path:
    """Where SQLite keeps the WAL: it follows symbolic links, and keeps its log beside what they lead to."""
    return _beside(path, "-wal")


def _beside(path: Path, end: str) -> Path:
    return Path(f"{os.path.realpath(path)}{end}")


def create_file(path: Path) -> None:
    """Make an empty file (0600) and its directory (0700), whose name survives a loss of power. Raises StorageFailed."""
    directory = Path(os.path.realpath(path)).parent
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        for each in missing:
            sync_names(each.parent)
    except OSError as error:
        raise StorageFailed(f"cannot make the database {path}: {error.strerror}") from error


def sync_names(directory: Path) -> None:
    """Let the names in a directory survive a loss of power, which takes more than syncing what they name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_back(path: Path) -> None:
    """Undo what a process that died had begun before the file was in WAL mode, as a new one is for a moment.

    SQLite does so by itself where a connection may write, and refuses the others.
    """
    if _beside(path, "-journal").exists():
        # Whatever is in the way is told to who reads, as where there is no journal.
        with suppress(sqlite3.Error), closing(connect(path, "rw")) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def connect(
    path: Path, mode: Literal["ro", "rw"], *, untouched: bool = False, alone: bool = False
) -> sqlite3.Connection:
    """A connection without implicit transactions that any thread may use, though only one at a time.

    ``untouched`` makes no file beside the database and takes no lock, so the log must be empty, and nobody writing.
    ``alone`` keeps everybody else out from the first transaction on, which is refused as busy where somebody is in.
    """
    if mode == "ro" and not untouched:
        _take_back(path)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}{'&immutable=1' if untouched else ''}",
        uri=True,
        timeout=ALONE_SECONDS if alone else LOCK_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        if alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # has to come before anything is read
        connection.execute("PRAGMA foreign_keys = ON")
        # A commit reaches the page cache (it survives our death); sync() makes it survive a loss of power.
        connection.execute("PRAGMA synchronous = NORMAL")
        # What is deleted is overwritten, so that it does not wait in a free page for the next scrub.
        connection.execute("PRAGMA secure_delete = ON")
        # The file may be a stranger's. What its schema computes (a view, a column, an index) may call no function that
        # does anything, and a damaged page is noticed when it is read.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        if mode == "ro":
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()  # or the error's traceback keeps it, with its locks
        raise
    return connection


Answer = TypeVar("Answer")


def ask_quietly(
    path: Path, question: Callable[[sqlite3.Connection, bool], Answer], *, sure: Callable[[Answer], bool]
) -> Answer:
    """Ask something of a database without making a file beside one that nobody has open.

    ``question`` is also told whether nobody has. Where somebody begins to write meanwhile, what was read may be of two
    states: unless the answer is ``sure``, it is asked for again. Raises what ``question`` raises, and SQLite's errors.
    """
    while True:
        # What is in the log is not in the file yet, and whoever has the database open has an index of the log.
        log = log_of(path)
        untouched = not any(_beside(path, end).exists() for end in ("-wal", "-shm", "-journal"))
        with closing(connect(path, "ro", untouched=untouched)) as connection:
            try:
                answer = question(connection, untouched)
            except (MemfsError, sqlite3.Error):
                if not (untouched and log.exists()):
                    raise
                continue
        if sure(answer) or not (untouched and log.exists()):
            return answer


def check(path: Path, connection: sqlite3.Connection) -> list[str]:
    """The migrations that a file still needs: all of them where it is empty.

    Raises UnusableDatabase where it is not ours, or newer than this program.
    """
    # The tables first: where another process makes them between the two, the mark that comes with them is read.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID and tables:
        raise UnusableDatabase(f"{path} is a SQLite database, but not one of memfs: choose another --db")
    names = json.dumps(TABLES)
    foreign = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN (SELECT value FROM json_each(?1))"
        " OR type != 'table' AND name IN (SELECT value FROM json_each(?1))",
        (names,),
    ).fetchone()
    if foreign is not None:
        kind, name = foreign
        raise UnusableDatabase(
            f"{path} has the {kind} {name!r}, which memfs did not make and which could change what it writes or reads:"
            f" look at it with 'sqlite-utils schema', and drop it ('DROP {kind.upper()} …') or restore a backup"
        )
    with closing(sqlite3.connect(":memory:")) as empty:
        known = [migration.name for migration in migrations.pending(Database(empty, execute_plugins=False))]
    if not tables:
        return known
    rows = connection.execute("SELECT name FROM _sqlite_migrations")
    applied = {name if isinstance(name, str) else repr(name) for (name,) in rows}
    if newer := sorted(applied - set(known)):
        raise UnusableDatabase(f"{path} was made by a newer memfs ({newer[-1][:80]}): upgrade memfs-agent to open it")
    return [name for name in known if name not in applied]


def migrations_in(connection: sqlite3.Connection) -> int:
    """How many migrations a database has had."""
    (count,) = connection.execute("SELECT count(*) FROM _sqlite_migrations").fetchone()
    return int(count)


def require_current(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file that would have to be written first. Raises NotFound, UnusableDatabase."""
    needed = check(path, connection)
    if "0001_workspace" in needed:
        raise NotFound(f"{path} is empty: make a database with 'memfs store create NAME'")
    if needed:
        raise UnusableDatabase(f"{path} was made by an older memfs: 'memfs store list' brings it up to date")


def prepare(path: Path, connection: sqlite3.Connection, *, create: bool) -> None:
    """Bring the schema up to date; with ``create`` that of an empty file too. Raises NotFound, UnusableDatabase."""
    needed = check(path, connection)
    if not needed:
        return
    first = "0001_workspace" in needed
    if first and not create:
        raise NotFound(f"{path} is empty: make a database with 'memfs store create NAME'")
    database = Database(connection, execute_plugins=False)
    _enter_wal_mode(connection)
    # A migration may make tables anew that others refer to. Cannot be switched inside of a transaction.
    connection.execute("PRAGMA foreign_keys = OFF")
    # sqlite-utils begins a plain (deferred) transaction for each migration; under this one they are savepoints,
    # and two processes that open a new file at once do not both create the tables.
    connection.execute("BEGIN IMMEDIATE")
    try:
        first = not migrations.applied(database)  # by nobody else since
        migrations.apply(database)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        if first:
            connection.execute(
                "INSERT INTO workspace (id, created_at) VALUES (?, ?)", (ids.new_id(ids.WORKSPACE), now())
            )
        if broken := connection.execute("PRAGMA foreign_key_check").fetchall():
            raise UnusableDatabase(f"{path} has {len(broken)} rows that refer to others which are not there")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute("PRAGMA foreign_keys = ON")
    sync_names(Path(os.path.realpath(path)).parent)  # of the database and its WAL


def _enter_wal_mode(connection: sqlite3.Connection) -> None:
    """SQLite does not wait where two connections switch a new file at once: one of them is refused at once."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return
