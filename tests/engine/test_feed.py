"""How a process learns that another one committed: nothing is missed, and nothing wakes it for nothing."""

import asyncio
import errno
import itertools
import os
import select
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
import trio

from memfs.engine.feed import LOOK_AT_SECONDS, FileFeed, Looks
from memfs.model.errors import StorageFailed
from tests.processes import PYTHON, environment, finish, hear, python, tell

LIMIT = 60.0
QUIET = 0.2
"""How long nothing must happen where nothing should, in seconds."""

WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(f"PRAGMA synchronous = {sys.argv[2]}")
print("ready", flush=True)
for line in sys.stdin:
    connection.execute("INSERT INTO notes VALUES (?)", (line,))
    print("committed", flush=True)
"""


@contextmanager
def plain(path: Path) -> Iterator[sqlite3.Connection]:
    """The database as somebody else's tool opens it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@contextmanager
def writer(path: Path, synchronous: str = "NORMAL") -> Iterator[subprocess.Popen[str]]:
    """Another process that commits once for each line that it is told."""
    with python(WRITER, path, synchronous) as process:
        assert hear(process) == "ready"
        yield process


def commit(process: subprocess.Popen[str]) -> None:
    tell(process, "text")
    assert hear(process) == "committed"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database in WAL mode that nobody has open, in a directory of its own."""
    made = tmp_path / "data" / "memfs.db"
    made.parent.mkdir()
    with plain(made) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE notes (text)")
    return made


@pytest.fixture
def feed(path: Path) -> Iterator[FileFeed]:
    with FileFeed(path) as made:
        yield made


def readable(feed: FileFeed, seconds: float) -> bool:
    return bool(select.select([feed], [], [], seconds)[0])


def told(feed: FileFeed, seconds: float = LIMIT) -> bool:
    """Whether the feed says within a time that something changed."""
    deadline = time.monotonic() + seconds
    while readable(feed, max(0.0, deadline - time.monotonic())):
        if feed.clear():
            return True
    return False


class Follower:
    """What a process does that follows the database."""

    def __init__(self, path: Path) -> None:
        self.feed = FileFeed(path)
        self.looks = Looks(time.monotonic())
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.seen = self.data_version()

    def close(self) -> None:
        self.feed.close()
        self.connection.close()

    def data_version(self) -> int:
        (version,) = self.connection.execute("PRAGMA data_version").fetchone()
        assert isinstance(version, int)
        return version

    def wait(self, seconds: float = LIMIT) -> bool:
        """Whether a change was seen within a time; where no look is due, only the feed can tell of one."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            wait = self.looks.wait(time.monotonic())
            if readable(self.feed, left if wait is None else min(left, wait)) and self.feed.clear():
                self.looks.woken(time.monotonic())
            if self.looks.due(time.monotonic()) and (version := self.data_version()) != self.seen:
                self.seen = version
                return True
        return False


@pytest.fixture
def follower(path: Path) -> Iterator[Follower]:
    with closing(Follower(path)) as made:
        yield made


# When to look


def run(looks: Looks, now: float) -> list[float]:
    """The times at which who keeps to them looks, until only a wake brings another look."""
    times = []
    while (wait := looks.wait(now)) is not None:
        now += wait
        assert looks.due(now)
        times.append(now)
    return times


def test_looks_start_at_once_become_rare_and_end() -> None:
    looks = Looks(100.0)
    times = run(looks, 100.0)
    assert times == pytest.approx([100.0 + seconds for seconds in LOOK_AT_SECONDS])
    assert times[-1] == 110.0
    assert not looks.due(1e9)
    assert looks.wait(1e9) is None


def test_no_look_is_much_later_than_what_it_looks_for() -> None:
    assert LOOK_AT_SECONDS[0] == 0
    assert LOOK_AT_SECONDS[1] <= 0.001
    for sooner, later in itertools.pairwise(LOOK_AT_SECONDS[1:]):
        assert sooner < later <= 2.5 * sooner


def test_a_wake_starts_the_looks_anew() -> None:
    looks = Looks(0.0)
    assert looks.due(0.3)
    looks.woken(0.3)
    assert looks.wait(0.3) == 0
    assert len(run(looks, 0.3)) == len(LOOK_AT_SECONDS)
    looks.woken(50.0)
    assert len(run(looks, 50.0)) == len(LOOK_AT_SECONDS)


def test_missed_looks_are_made_up_for_by_one() -> None:
    looks = Looks(0.0)
    assert looks.due(3.0)
    assert not looks.due(3.0)
    assert looks.wait(3.0) == pytest.approx(2.0)
    assert looks.due(5.0)
    assert looks.due(99.0)
    assert looks.wait(99.0) is None


# Commits are seen


@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
def test_each_commit_of_another_process_is_seen(path: Path, follower: Follower, synchronous: str) -> None:
    with writer(path, synchronous) as process:
        for number in range(300):
            tell(process, "text")
            assert follower.wait(), f"commit {number} was missed"
            assert hear(process) == "committed"
            assert follower.connection.execute("SELECT count(*) FROM notes").fetchone() == (number + 1,)


def test_the_last_of_many_commits_is_seen(path: Path, follower: Follower) -> None:
    """Wakes for several commits fall together, and a look that finds one of them may come before the others."""
    code = """
import random, sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for number in range(500):
    connection.execute("INSERT INTO notes VALUES (?)", (number,))
    time.sleep(random.choice([0, 0, 0.0001, 0.001]))
print("done", flush=True)
sys.stdin.read()
"""
    with python(code, path) as process:
        count = 0
        while count < 500:
            assert follower.wait(), f"{count} of 500 were seen"
            (count,) = follower.connection.execute("SELECT count(*) FROM notes").fetchone()
        assert hear(process) == "done"
        finish(process)


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """Keep a process from going on."""
    process.send_signal(signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_a_commit_that_is_published_long_after_the_wake_is_seen(path: Path, follower: Follower) -> None:
    """The trap: SQLite writes the log, which wakes us, and publishes later, which does not."""
    with writer(path, "FULL") as process, ExitStack() as stack:
        commit(process)  # the first also begins the log, which is synced before the commit is written
        assert follower.wait()
        for _ in range(300):
            late = None
            tell(process, "text")
            assert readable(follower.feed, LIMIT)
            with stopped(process):
                assert process.stdout is not None
                said = select.select([process.stdout], [], [], 0)[0]
                if not said and follower.data_version() == follower.seen:
                    assert not follower.wait(0.05), "nothing is published by a process that is stopped"
                    # What it has written was there before this feed, which therefore does not hear of it.
                    late = stack.enter_context(closing(Follower(path)))
            assert follower.wait()
            assert hear(process) == "committed"
            if late is not None and not readable(late.feed, 0):
                assert late.wait()
                return
    pytest.fail("the writer was never caught between writing and publishing")


def test_a_commit_of_this_process_is_seen(path: Path, follower: Follower) -> None:
    with plain(path) as connection:
        for _ in range(50):
            connection.execute("INSERT INTO notes VALUES ('text')")
            assert follower.wait()


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "MEMORY"])
def test_commits_in_rollback_modes_are_seen(path: Path, mode: str) -> None:
    with plain(path) as connection:
        assert connection.execute(f"PRAGMA journal_mode = {mode}").fetchone() == (mode.lower(),)
        with closing(Follower(path)) as follower:
            for _ in range(20):
                connection.execute("INSERT INTO notes VALUES ('text')")
                assert follower.wait()


def test_upkeep_hides_no_commit(path: Path, follower: Follower) -> None:
    with writer(path) as process, plain(path) as connection:
        for _ in range(5):
            assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
            commit(process)
            assert follower.wait()
            connection.execute("VACUUM")
            assert follower.wait()
            commit(process)
            assert follower.wait()


def test_a_change_of_the_journal_mode_is_told(path: Path, feed: FileFeed) -> None:
    for mode in ("delete", "wal"):
        with plain(path) as connection:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            assert told(feed)
            connection.execute("INSERT INTO notes VALUES ('text')")
            assert told(feed)


def test_a_log_that_is_deleted_and_made_again_is_heard(path: Path, feed: FileFeed) -> None:
    log = path.with_name("memfs.db-wal")
    for _ in range(3):
        assert not log.exists()
        with path.open("r+b") as file:
            file.write(b"S")  # as it was: an event that stands before that of the log
        with writer(path) as process:
            commit(process)
            assert told(feed)
            while readable(feed, QUIET):
                feed.clear()
            commit(process)
            assert told(feed), "the new log is not listened to"
            assert log.exists()
            finish(process)
        while readable(feed, 0):
            feed.clear()


def reach(path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another name of the database."""
    base = path.parent.parent
    match way:
        case "relative":
            monkeypatch.chdir(path.parent)
            return Path(path.name)
        case "link":
            (base / "second").symlink_to("data/memfs.db")
            (base / "first").symlink_to("second")
            return base / "first"
        case "link to the directory":
            (base / "link").symlink_to("data")
            return base / "link" / path.name
        case "not UTF-8":
            return path.rename(path.with_name(os.fsdecode(b"caf\xe9.db")))
    raise AssertionError(way)


@pytest.mark.parametrize("way", ["relative", "link", "link to the directory", "not UTF-8"])
def test_a_database_is_followed_by_any_of_its_names(path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = reach(path, way, monkeypatch)
    with FileFeed(name) as feed, writer(name) as process:
        monkeypatch.chdir("/")
        commit(process)
        assert told(feed)
        while readable(feed, QUIET):
            feed.clear()
        commit(process)
        assert told(feed)


# Nothing is told for nothing


def test_an_idle_database_wakes_nobody(path: Path, follower: Follower) -> None:
    with plain(path) as connection:
        connection.execute("INSERT INTO notes VALUES ('text')")
        assert follower.wait()
        follower.feed.clear()
        for _ in range(20):
            follower.data_version()
            connection.execute("SELECT * FROM notes").fetchall()
        with plain(path) as other:
            other.execute("SELECT * FROM notes").fetchall()
        os.utime(path)
        assert not readable(follower.feed, QUIET)


def test_other_files_are_not_told_of(path: Path, feed: FileFeed) -> None:
    names = ["other", "memfs.db2", "xmemfs.db", "memfs.db-shm", "memfs.db-wal2", "-wal", os.fsdecode(b"\xff")]
    for _ in range(20):
        for name in names:
            other = path.with_name(name)
            other.write_text("text")
            other.rename(other.with_name("renamed"))
            other.with_name("renamed").unlink()
    (path.parent / "directory").mkdir()
    assert readable(feed, LIMIT)
    assert not feed.clear()
    assert not readable(feed, 0)


def test_writes_to_other_files_do_not_even_wake(path: Path, feed: FileFeed) -> None:
    with path.with_name("log").open("wb", buffering=0) as log:
        assert not feed.clear()
        for _ in range(1000):
            log.write(b"a line\n")
        assert not readable(feed, QUIET)


def test_a_commit_among_much_else_is_told(path: Path, feed: FileFeed) -> None:
    with writer(path) as process:
        for number in range(2000):
            path.with_name(f"{number:0200}").touch()
        commit(process)
        assert told(feed)


# When things go wrong


def test_a_queue_that_ran_over_counts_as_a_change(path: Path, feed: FileFeed) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip("the queue is too long here")
    other = path.with_name("other")
    for _ in range(most // 2 + 1):
        other.touch()
        other.unlink()
    with writer(path) as process:
        commit(process)
        assert feed.clear()
        while readable(feed, QUIET):
            feed.clear()
        commit(process)
        assert told(feed), "what was made meanwhile is not listened to"


@pytest.mark.parametrize(
    "happen",
    [
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("away")),
        lambda path: path.with_name("new").rename(path),
        lambda path: path.parent.rename(path.parent.with_name("away")),
        lambda path: [file.unlink() for file in path.parent.iterdir()] and path.parent.rmdir(),
    ],
    ids=["deleted", "moved", "replaced", "directory moved", "directory deleted"],
)
def test_a_database_that_is_gone_is_told_of(path: Path, happen: Callable[[Path], object]) -> None:
    path.with_name("new").touch()
    with FileFeed(path) as feed:
        happen(path)
        assert told(feed)
        assert not readable(feed, QUIET)


def test_a_database_that_comes_later_or_anew_is_followed(path: Path) -> None:
    later = path.with_name("later.db")
    with FileFeed(later) as feed:
        for _ in range(2):
            path.with_name("copy").write_bytes(path.read_bytes())
            path.with_name("copy").rename(later)
            assert told(feed)
            with writer(later) as process:
                commit(process)
                assert told(feed)
                while readable(feed, QUIET):
                    feed.clear()
                commit(process)
                assert told(feed)
                finish(process)


def test_a_moved_directory_is_still_listened_to(path: Path, feed: FileFeed) -> None:
    """Connections that were open go on there."""
    with writer(path) as process:
        commit(process)
        assert told(feed)
        path.parent.rename(path.parent.with_name("away"))
        while readable(feed, QUIET):
            feed.clear()
        commit(process)
        assert told(feed)


@pytest.mark.parametrize("below", ["nowhere/memfs.db", "data/memfs.db/memfs.db"])
def test_without_its_directory_there_is_no_feed(path: Path, below: str) -> None:
    before = descriptors()
    with pytest.raises(StorageFailed, match="its directory is not there"):
        FileFeed(path.parent.parent / below)
    assert descriptors() == before


OPEN_TWO = """
import sys
from pathlib import Path
from memfs.engine.feed import FileFeed
from memfs.model.errors import StorageFailed
feeds = []
try:
    for _ in range(2):
        feeds.append(FileFeed(Path(sys.argv[1])))
except StorageFailed as error:
    print(len(feeds), error)
"""


@pytest.mark.parametrize(
    "limit, most, opened, reason",
    [
        ("max_inotify_instances", 1, 1, "max_user_instances"),
        ("max_inotify_watches", 3, 1, "max_user_watches"),
        ("max_inotify_watches", 1, 0, "max_user_watches"),
    ],
)
def test_a_limit_that_is_reached_is_named(path: Path, limit: str, most: int, opened: int, reason: str) -> None:
    """In a user namespace, which has limits of its own."""
    script = f'echo {most} > /proc/sys/user/{limit} && exec "$@"'
    ran = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", *PYTHON, "-c", OPEN_TWO, path],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if ran.returncode and "unshare" in ran.stderr:
        pytest.skip("no user namespaces here")
    assert ran.stdout.startswith(f"{opened} cannot follow the changes of {path}: too many inotify"), ran.stderr
    assert reason in ran.stdout
    assert ran.stderr == ""


# The descriptor


def descriptors() -> list[str]:
    """What this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that listed them
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(found)


def test_a_closed_feed_leaves_no_descriptor(path: Path) -> None:
    with FileFeed(path):
        pass
    before = descriptors()
    for _ in range(20):
        feed = FileFeed(path)
        assert len(descriptors()) == len(before) + 1
        feed.close()
        feed.close()
    assert descriptors() == before
    for use in (feed.fileno, feed.clear):
        with pytest.raises(StorageFailed, match="is closed"):
            use()


def test_the_descriptor_neither_blocks_nor_outlives_exec(feed: FileFeed) -> None:
    assert not os.get_blocking(feed.fileno())
    assert not os.get_inheritable(feed.fileno())
    assert not feed.clear()
    code = "import os, sys\ntry:\n    os.fstat(int(sys.argv[1]))\nexcept OSError as error:\n    print(error.errno)\n"
    # Without close_fds, which would close it in any case.
    ran = subprocess.run(
        [*PYTHON, "-c", code, str(feed.fileno())], close_fds=False, capture_output=True, timeout=LIMIT, check=True
    )
    assert int(ran.stdout) == errno.EBADF


def test_trio_can_wait_for_it(path: Path, feed: FileFeed) -> None:
    async def wait() -> None:
        with trio.fail_after(LIMIT):
            await trio.lowlevel.wait_readable(feed)
        assert feed.clear()
        with trio.move_on_after(QUIET) as quiet:
            await trio.lowlevel.wait_readable(feed)
        assert quiet.cancelled_caught

    with writer(path) as process:
        commit(process)
        trio.run(wait)


def test_asyncio_can_wait_for_it(path: Path, feed: FileFeed) -> None:
    async def wait() -> None:
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(feed, lambda: woken.set() if feed.clear() else None)
        await asyncio.wait_for(woken.wait(), LIMIT)
        woken.clear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(woken.wait(), QUIET)
        loop.remove_reader(feed)

    with writer(path) as process:
        commit(process)
        asyncio.run(wait())
