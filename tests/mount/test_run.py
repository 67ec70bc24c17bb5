"""``memfs run``: a command in a sandbox with its stores, and without any way to the database."""

import itertools
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest

from memfs.model.records import Session
from memfs.mount.processes import mounted_below
from memfs.workspace import SessionFilter, Workspace
from memfs.workspace.sessions import Resource
from tests.mount.harness import LIMIT, Site, kill, wait_for_end, wait_until
from tests.mount.namespaces import needs_user_namespaces
from tests.mount.users import NOBODY, as_user, give
from tests.processes import ROOT

pytestmark = [pytest.mark.mount, needs_user_namespaces]

PROBE = ROOT / "tests" / "mount" / "probe.py"


@pytest.fixture(params=["nobody", "root"])
def who(request: pytest.FixtureRequest) -> Site:
    """A site of an ordinary user, and one of root's."""
    name = {"nobody": "user", "root": "at"}[request.param]
    found: Site = request.getfixturevalue(name)
    return found


def sessions(at: Site) -> list[Session]:
    """All sessions, oldest first."""
    with Workspace.open(at.db, read_only=True) as workspace:
        return workspace.sessions.list(SessionFilter(include_archived=True), newest_first=False)


def run(
    at: Site, *words: str | Path, script: str = "", check: bool = True, **streams: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``memfs run`` with these options and a bash script, in the site's directory."""
    done = subprocess.run(
        at.command("run", *words, *(("--", "bash", "-euc", script) if script else ())),
        env=at.environment(),
        cwd=at.directory,
        text=True,
        timeout=LIMIT,
        check=False,
        **({"capture_output": True} | streams),
    )
    assert "Traceback" not in done.stderr, done.stderr
    if check:
        assert done.returncode == 0, done.stderr
    return done


@contextmanager
def running(at: Site, script: str, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """``memfs run`` with a script that goes on; killed at the end where it still runs, and then all of it is gone."""
    process = subprocess.Popen(
        at.command("run", "-s", "notes", *words, "--", "bash", "-uc", script),
        env=at.environment(),
        cwd=at.directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
    nothing_left(at)


def hear(process: subprocess.Popen[str]) -> str:
    """The next line of a command."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], LIMIT)[0], "the command says nothing"
    return process.stdout.readline().rstrip("\n")


def children(pid: int) -> list[int]:
    """The children of a process, oldest first."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def named(pids: list[int], name: str) -> int:
    """The one of these processes that is called so."""
    (found,) = [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == name]
    return found


def parts(process: subprocess.Popen[str]) -> dict[str, int]:
    """The processes of a run by what they are."""
    bubblewrap = named(children(process.pid), "bwrap")
    supervisor = named(children(process.pid), "memfs")
    (init,) = children(bubblewrap)
    return {
        "run": process.pid,
        "bubblewrap": bubblewrap,
        "init": init,
        "command": children(init)[0],
        "supervisor": supervisor,
        "worker": named(children(supervisor), "memfs:notes"),
    }


def processes(at: Site) -> list[int]:
    """What runs for a site, in sandboxes too: by its environment, which has the site's paths or one of its sessions."""
    marks = [f"{at.directory}/".encode(), *(f"MEMFS_SESSION_ID={session.id}".encode() for session in sessions(at))]
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and int(entry) != os.getpid():
            with suppress(OSError):
                environment = Path(f"/proc/{entry}/environ").read_bytes()
                if any(mark in environment for mark in marks):
                    found.append(int(entry))
    return found


def nothing_left(at: Site) -> None:
    """No mount, no process, no directory and no file of a run; the log of one that was killed may stay."""
    wait_until(lambda: not processes(at), "all processes to end", LIMIT)
    assert not mounted_below(at.directory)
    runtime = at.directory / "runtime" / "memfs"
    if at.prefix and runtime.exists():
        assert {path.suffix for path in runtime.iterdir()} <= {".log"}


def test_a_command_works_in_its_stores_and_all_is_gone(who: Site) -> None:
    at = who
    rules = at.store("rules", a_md="no\n")
    outside = os.path.lexists("/mnt/memory")
    done = run(
        at,
        "-s",
        "notes",
        "-s",
        f"{rules}:read_only",
        script="""
        cd "$MEMFS_ROOT/notes"
        echo one > a.md; mkdir d; echo two > d/b.md; sed -i s/one/ONE/ a.md; cat a.md
        echo draft > ../scratch; cat ../rules/a.md
        if echo yes > ../rules/a.md; then exit 1; fi
        stat -c %u a.md d
        echo "$MEMFS_SESSION_ID"; pwd; echo "${MEMFS_DB-unset}"; df --output=size -k .. | tail -1
        grep -q '"/mnt/memory/rules"' <<< "$MEMFS_PROMPT"
        echo on stderr >&2; sleep 1000 & disown
        """,
    )
    uid = "65534" if at.prefix else "0"
    (session,) = sessions(at)
    assert done.stdout.split() == ["ONE", "no", uid, uid, session.id, "/mnt/memory/notes", "unset", "65536"]
    assert "Read-only file system" in done.stderr
    assert "on stderr" in done.stderr
    assert at.heads("notes") == {"/a.md": b"ONE\n", "/d/b.md": b"two\n"}
    assert {version.created_by.id for version in at.history("notes")} == {session.id}
    assert session.ended_at is not None
    assert session.archived_at is None
    assert os.path.lexists("/mnt/memory") == outside
    nothing_left(at)
    if at.prefix:
        assert not list((at.directory / "runtime" / "memfs").iterdir()), "all went well, so there is no log"


def probe(
    at: Site, process: subprocess.Popen[str] | None, *words: str | Path, tops: tuple[Path, ...] = ()
) -> list[str]:
    """What a program finds that looks for the database in a sandbox."""
    paths = [at.db, at.db.parent, at.directory / "runtime" / "memfs", *tops]
    given = {
        # The first bytes of every database of SQLite, and of a WAL.
        "marker": "memory_versions",
        "paths": [str(path) for path in paths],
        "tops": [str(path) for path in tops],
        "pids": [os.getpid(), *(parts(process).values() if process else ())],
    }
    with PROBE.open() as source:
        done = run(
            at,
            "-s",
            "notes",
            *words,
            "--",
            "python3",
            "-",
            json.dumps(given),
            stdin=source,
            capture_output=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    found: list[str] = json.loads(done.stdout)
    return found


def test_the_database_cannot_be_found(who: Site) -> None:
    at = who
    at.extra = {**at.extra, "HOME": str(at.directory)}
    with running(at, "echo begun; read line") as other:
        assert hear(other) == "begun"
        assert {*parts(other).values()} <= {*processes(at)}, "what runs is seen to run"
        assert probe(at, other) == []
        assert other.stdin is not None
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.wait(LIMIT) == 0
    if not at.prefix:
        at.extra = {}


def test_the_probe_finds_a_database_that_is_there(user: Site) -> None:
    given = {
        "marker": "memory_versions",
        "paths": [str(user.db), str(user.db.parent)],
        "tops": [],
        "pids": [os.getpid()],
    }
    with PROBE.open() as source:
        done = subprocess.run(
            [*user.prefix, "env", "python3", "-", json.dumps(given)],
            env=user.environment(),
            stdin=source,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=True,
        )
    found = " ".join(json.loads(done.stdout))
    for part in (
        f"read {user.db}",
        f"there is {user.db}",
        "there is process",
        "there is /dev/fuse",
        "NoNewPrivs",
        "clone3 says",
        "clone into",
    ):
        assert part in found


def test_the_database_is_hidden_wherever_it_would_show(at: Site, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    inside = tmp_path / "shown" / "db"
    elsewhere = Path("/opt")
    subprocess.run(["mount", "--bind", at.directory, again], check=True)
    try:
        found = probe(at, None, "--bind", f"{at.directory}:{elsewhere}", tops=(again / "db", elsewhere / "db", inside))
    finally:
        subprocess.run(["umount", again], check=True)
    assert found == []


def test_a_database_beside_the_work_is_left_out(user: Site) -> None:
    shutil.move(user.db, user.directory / "memfs.db")
    give(user.directory / "db")
    for name in ("work", "work/deep"):
        (user.directory / name).mkdir()
        give(user.directory / name)
    (user.directory / "work" / "home").symlink_to(user.directory)
    user.extra["HOME"] = str(user.directory / "work" / "home")
    done = run(
        user,
        "--db",
        user.directory / "memfs.db",
        "-s",
        "notes",
        script="""
        ls; echo kept > work/deep/kept; cp work/deep/kept /mnt/memory/notes/a.md
        if touch memfs.db-wal; then exit 1; fi
        if mv work elsewhere; then exit 1; fi
        """,
    )
    assert done.stdout.split() == ["db", "runtime", "work"]
    assert "memfs: " in done.stderr
    assert "a database in a directory of its own would not be in the way" in done.stderr
    assert (user.directory / "work" / "deep" / "kept").read_text() == "kept\n"
    shutil.move(user.directory / "memfs.db", user.db)
    assert user.heads("notes") == {"/a.md": b"kept\n"}


SHOWN = r"""
for place in "$@"; do
    find "$place" -name 'memfs.db*' 2>/dev/null
    grep -rlF memory_versions "$place" 2>/dev/null
done
echo looked
"""


def test_no_bind_shows_the_database(user: Site) -> None:
    """By whatever way somebody asks for its directory, or one around it, at its own place or elsewhere."""
    home, apart, beside = user.directory, user.db, user.directory / "memfs.db"
    shutil.copy(apart, beside)
    for name in ("work", "link"):
        (home / name).mkdir()
    (home / "link" / "srv").symlink_to("/srv")
    for path in (beside, home / "work"):
        give(path)

    def shown(db: Path, *words: str | Path) -> str:
        places = [home, f"/srv{home}" if "/:/srv" in words else "/srv", "/opt/a"]
        command = ["bash", "-uc", SHOWN, "look", *map(str, places)]
        done = run(user, "--db", db, "-s", "notes", *words, "--", *command, check=False)
        assert done.returncode == 0, done.stderr
        assert not [line for line in done.stderr.splitlines() if line.startswith("bwrap")], done.stderr
        return done.stdout

    for db, other in ((apart, beside), (beside, apart)):
        # Of two databases one is this run's and the other the caller's usual one: neither is shown.
        user.extra["MEMFS_DB"] = str(other)
        ways: list[list[str | Path]] = [
            ["--bind", home, "--bind", f"{db.parent}:/srv"],
            ["--bind", "/:/srv", "--bind", f"{db.parent}:/opt/a", "--bind", db.parent],
            ["--workdir", db.parent, "--ro-bind", db.parent, "--bind", f"{home}:{home}/link/srv"],
            ["--workdir", "/opt/a/work", "--bind", f"{home}:/opt/a", "--ro-bind", home.parent],
        ]
        for words in ways:
            assert shown(db, *words) == "looked\n", (db, words)
        for source in (db, f"{db}:/opt/x"):
            refused = run(user, "--db", db, "-s", "notes", "--bind", source, "true", check=False)
            assert (refused.returncode, "leave that --bind out" in refused.stderr) == (1, True)
    del user.extra["MEMFS_DB"]
    assert not Path("/opt/a").exists()
    for session in sessions(user):
        assert session.ended_at is not None


def test_nobody_outside_types_for_the_command(user: Site) -> None:
    """tmux runs a line in a shell outside for whoever reaches its socket."""
    place = user.directory / f"tmux-{NOBODY.pw_uid}"
    place.mkdir(mode=0o700)
    user.extra["TMUX_TMPDIR"] = str(user.directory)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place / "default"))
        for path in (place, place / "default"):
            give(path)
        listening.listen()
        script = f"ls -A {place}; test -e {place}/default && echo there"
        done = run(user, "-s", "notes", script=script, check=False)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_database_that_is_mounted_by_itself_is_refused(at: Site, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.touch()
    subprocess.run(["mount", "--bind", at.db, again], check=True)
    try:
        refused = run(at, "-s", "notes", "true", check=False)
    finally:
        subprocess.run(["umount", again], check=True)
    assert (refused.returncode, f"is mounted at {again} by itself" in refused.stderr) == (1, True)


def test_what_is_bound_comes_as_it_is_and_leaves_nothing(user: Site) -> None:
    home = user.directory
    for name in ("work", "work/deep", "other"):
        (home / name).mkdir()
        give(home / name)
    (home / "work" / "file").write_text("text\n")
    (home / "link").symlink_to("work")
    for words, script, told in (
        # Deeper ones go on top, in whatever order they are given.
        (["--bind", f"{home}/other:/srv/deep", "--bind", f"{home}/work:/srv"], "ls /srv /srv/deep", "/srv: deep file"),
        # The stores and what is bound are where nothing is outside, and make no directory there.
        (["--bind", f"{home}/work:/mnt"], "ls /mnt; echo x > /mnt/memory/notes/a", "deep file memory"),
        (["--bind", f"{home}/work:/opt/a/b"], "ls /opt/a/b", "deep file"),
        (["--bind", f"{home}/other:{home}/work/c/d"], "ls work work/c", "c deep"),
        (["--bind", f"{home}/work/file:/opt/file"], "cat /opt/file", "text"),
        (["--bind", f"{home}/other:{home}", "--workdir", "/"], f"ls -A {home}; echo end", "end"),
        (["--bind", home / "link"], "ls link", "deep file"),
    ):
        assert told in " ".join(run(user, "-s", "notes", *words, script=script).stdout.split()), words
    assert sorted(path.name for path in (home / "work").iterdir()) == ["deep", "file"]
    assert not [*(home / "other").iterdir(), *(home / "work" / "deep").iterdir()]
    assert not any(Path("/opt", name).exists() for name in ("a", "file"))
    for words, reason in (
        (["--bind", f"{home}/other:{home}/new"], "make that directory first"),
        (["--bind", f"{home}/other:/tmp/memfs-new"], "make that directory first"),
        (["--bind", f"{home}/other:{home}/work/file"], "is not a directory"),
        (["--bind", f"{home}/work/file:{home}/other"], "cannot be shown there"),
        (["--bind", f"{home}/other:/"], "nothing can be shown at /"),
        (["--bind", f"{home}/other:/proc/x"], "nothing can be shown at /proc/x"),
        (["--bind", f"{home}/other:/mnt/memory/notes"], "nothing can be shown at /mnt/memory/notes"),
        (["--bind", f"{home}/other:/srv", "--workdir", "/srv/missing"], "--workdir"),
    ):
        refused = run(user, "-s", "notes", *words, "true", check=False)
        assert (refused.returncode, reason in refused.stderr) == (1, True), (words, refused.stderr)


def test_what_is_open_already_leads_nowhere(user: Site) -> None:
    with user.db.open("rb") as database:
        done = run(user, "-s", "notes", script="ls /proc/self/fd | wc -l", pass_fds=[database.fileno()])
    assert done.stdout.strip() == "4", "the three streams, and the one of ls"
    directory = os.open("/", os.O_RDONLY)
    try:
        # From a directory everything above could be opened. Python itself does not begin with one.
        refused = run(user, "-s", "notes", "true", check=False, stdin=directory)
    finally:
        os.close(directory)
    assert refused.returncode == 1
    os.link(user.db, user.directory / "second")
    refused = run(user, "-s", "notes", "true", check=False)
    (user.directory / "second").unlink()
    assert (refused.returncode, "hard link" in refused.stderr) == (1, True)
    assert all(session.ended_at for session in sessions(user))


def test_the_exit_status_is_the_command_s(at: Site) -> None:
    for words, status in (
        (["true"], 0),
        (["sh", "-c", "exit 42"], 42),
        (["sh", "-c", "kill -KILL $$"], 137),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["no-such-command-at-all"], 127),
        (["/etc/passwd"], 126),
        (["-x", "true"], 2),
    ):
        done = run(at, "-s", "notes", *words, check=False)
        assert done.returncode == status, (words, done.stderr)
    # What a command had open when it was killed is saved.
    program = "import os; os.write(os.open('/mnt/memory/notes/a.md', 65), b'open'); os.kill(os.getpid(), 9)"
    assert run(at, "-s", "notes", "python3", "-c", program, check=False).returncode == 137
    assert at.heads("notes") == {"/a.md": b"open"}


def test_signals_are_passed_on(user: Site) -> None:
    script = """
    for name in TERM HUP INT QUIT USR1; do trap "echo $name" $name; done
    trap 'echo USR2; exit 3' USR2
    echo begun; while :; do sleep 0.05; done
    """
    with running(user, script) as process:
        assert hear(process) == "begun"
        for name in ("TERM", "HUP", "INT", "QUIT", "USR1", "USR2"):
            process.send_signal(signal.Signals[f"SIG{name}"])
            assert hear(process) == name
        assert process.wait(LIMIT) == 3


class Terminal:
    """A shell of the user's on a terminal."""

    def __init__(self, at: Site) -> None:
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            os.chdir(at.directory)
            os.execvpe(at.prefix[0], [*at.prefix, "bash", "--norc", "-i"], at.environment())
        self.size(30, 100)
        self.text = b""

    def size(self, rows: int, columns: int) -> None:
        """Resize the window."""
        ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.descriptor, text.encode())

    def expect(self, text: str) -> None:
        """Wait until the terminal shows a text, behind what was waited for before."""
        deadline = time.monotonic() + LIMIT
        while text.encode() not in self.text:
            ready = select.select([self.descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, f"waited for {text!r} in {self.text!r}"
            self.text += os.read(self.descriptor, 4096)
        self.text = self.text.partition(text.encode())[2]

    def end(self) -> None:
        """Close it, which ends what runs on it."""
        os.close(self.descriptor)
        kill(self.process)
        os.waitpid(self.process, 0)


def test_a_terminal_works_as_without_a_sandbox(user: Site) -> None:
    script = user.directory / "script"
    script.write_text(
        "trap 'echo again' CONT; trap 'echo caught; exit 5' INT; echo begun; while :; do sleep 0.05; done\n"
    )
    terminal = Terminal(user)
    run_ = " ".join(user.command("run", "-s", "notes", "--")[len(user.prefix) :])
    try:
        terminal.type("PS1='out''> '\n")
        terminal.expect("out> ")
        terminal.type(f"{run_} bash --norc -i\n")
        terminal.type("PS1='in''> '; cd /mnt/memory/notes\n")
        terminal.expect("in> ")
        terminal.type("stty size\n")
        terminal.expect("30 100")
        terminal.size(44, 122)
        terminal.type("stty size; echo kept > a.md\n")
        terminal.expect("44 122")
        terminal.type(f"bash {script}\n")
        terminal.expect("begun")
        terminal.type("\x1a")
        terminal.expect("Stopped")
        terminal.type("fg\n")
        terminal.expect("again")
        terminal.type("\x03")
        terminal.expect("caught")
        terminal.type("exit 9\n")
        terminal.expect("out> ")
        terminal.type("echo status=$?\n")
        terminal.expect("status=9")
        # Without a shell in between, the caller's shell is who stops and goes on; Ctrl-C is for the command.
        terminal.type(f"{run_} bash {script}\n")
        terminal.expect("begun")
        terminal.type("\x1a")
        terminal.expect("Stopped")
        terminal.type("fg\n")
        terminal.expect("again")
        terminal.type("\x03")
        terminal.expect("caught")
        terminal.type("echo status=$?\n")
        terminal.expect("status=5")
        terminal.type(f"{run_} sh -c 'kill -STOP $$; echo go\"\"es on; exec sleep 100'\n")
        terminal.expect("Stopped")
        terminal.type("fg\n")
        terminal.expect("goes on")
        terminal.type("\x03")
        terminal.expect("out> ")
        terminal.type("echo status=$?\n")
        terminal.expect("status=130")
        # What a program types into its terminal, the caller's shell would run outside.
        typing = 'import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b"x")'
        terminal.type(f"{run_} python3 -c '{typing}'\n")
        terminal.expect("Operation not permitted")
    finally:
        terminal.end()
    assert user.heads("notes") == {"/a.md": b"kept\n"}
    nothing_left(user)


KEEPS_WRITING = """
echo kept > /mnt/memory/notes/kept.md
echo begun
while read line; do
    until echo "$line" > /mnt/memory/notes/after.md 2>/dev/null; do sleep 0.05; done
    echo wrote
done
exit 4
"""


@pytest.mark.parametrize("name", ["worker", "supervisor"])
def test_the_command_goes_on_when_the_stores_come_back(who: Site, name: str) -> None:
    at = who
    with running(at, KEEPS_WRITING) as process:
        assert hear(process) == "begun"
        first = parts(process)
        for attempt in range(2):
            killed = parts(process)[name]
            kill(killed)
            wait_for_end(killed)
            assert process.stdin is not None
            process.stdin.write(f"after {attempt}\n")
            process.stdin.flush()
            assert hear(process) == "wrote"
            wait_until(lambda: name_is_there(process), "everything to be there again")
        assert parts(process)["command"] == first["command"]
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(LIMIT) == 4
    texts = [version.content for version in at.history("notes", "/after.md")]
    assert [text for text in texts if text] == [b"after 0\n", b"after 1\n"]
    assert [session.ended_at is not None for session in sessions(at)] == [True]


def name_is_there(process: subprocess.Popen[str]) -> bool:
    """Whether a run has all its parts."""
    return worker_of(process) is not None


def worker_of(process: subprocess.Popen[str]) -> int | None:
    """The worker of a run that has all its parts; None while one is ending or beginning."""
    try:
        return parts(process)["worker"]
    except (ValueError, LookupError, OSError):
        return None


@pytest.mark.parametrize(
    "order",
    [
        ["run"],
        ["bubblewrap"],
        ["init"],
        ["command", "worker"],
        ["run", "supervisor"],
        ["worker", "run"],
        ["supervisor", "worker", "bubblewrap", "run"],
        ["worker", "supervisor", "run", "command"],
    ],
    ids=" ".join,
)
def test_whoever_is_killed_leaves_nothing(user: Site, order: list[str]) -> None:
    with running(user, KEEPS_WRITING) as process:
        assert hear(process) == "begun"
        pids = parts(process)
        for name in order:
            kill(pids[name])
        for pid in pids.values():
            wait_for_end(pid)
        # Where nobody was left to note the end of the session, who looks next does.
        assert user.run("status", "--format", "json").stdout.strip() == "[]"
    assert user.heads("notes") == {"/kept.md": b"kept\n"}
    assert [session.ended_at is not None for session in sessions(user)] == [True]


@pytest.mark.parametrize("order", list(itertools.permutations(("run", "command", "worker"))), ids=" ".join)
def test_the_three_are_ended_in_every_order(user: Site, order: tuple[str, ...]) -> None:
    """Each by SIGKILL and by SIGTERM, beside each other in pairs of every kind; four run at once."""
    one, other = signal.SIGKILL, signal.SIGTERM
    combinations = [(one, one, one), (one, other, other), (other, one, other), (other, other, one)]
    with ExitStack() as stack:
        runs = [stack.enter_context(running(user, KEEPS_WRITING)) for _ in combinations]
        for process in runs:
            assert hear(process) == "begun"
        pids = [parts(process) for process in runs]
        for found, numbers in zip(pids, combinations, strict=True):
            for name, number in zip(order, numbers, strict=True):
                with suppress(ProcessLookupError):
                    os.kill(found[name], number)
        for found in pids:
            for pid in found.values():
                wait_for_end(pid)
    assert user.heads("notes") == {"/kept.md": b"kept\n"}
    assert [session.ended_at is not None for session in sessions(user)] == [True] * len(combinations)


def mounts(at: Site) -> list[dict[str, Any]]:
    """What ``memfs status`` tells of sandboxes."""
    found = json.loads(at.run("status", "--format", "json").stdout)
    return [mount for mount in found if mount["run"] is not None and mount["database"] == str(at.db)]


def test_status_shows_what_is_mounted_in_sandboxes(who: Site) -> None:
    at = who
    with running(at, KEEPS_WRITING, "--at", "/opt/first") as first, running(at, KEEPS_WRITING) as second:
        assert [hear(first), hear(second)] == ["begun", "begun"]
        told = mounts(at)
        by_run = {mount["run"]: mount for mount in told}
        assert by_run.keys() == {first.pid, second.pid}
        assert {mount["session_id"] for mount in told} == {session.id for session in sessions(at)}
        for process, path in ((first, "/opt/first/notes"), (second, "/mnt/memory/notes")):
            mount = by_run[process.pid]
            assert (mount["path"], mount["state"], mount["pid"]) == (path, "mounted", parts(process)["worker"])
        table = at.run("status").stdout
        assert "RUN" in table
        assert str(first.pid) in table
        # It is told as it is: one that does not answer, and one whose worker is another by now.
        os.kill(parts(first)["worker"], signal.SIGSTOP)
        assert {mount["run"]: mount["state"] for mount in mounts(at)}[first.pid] == "silent"
        os.kill(parts(first)["worker"], signal.SIGCONT)
        before = parts(second)["worker"]
        kill(before)
        wait_until(lambda: worker_of(second) not in (None, before), "another worker")
        worker = parts(second)["worker"]
        wait_until(
            lambda: (second.pid, worker, "mounted") in {(m["run"], m["pid"], m["state"]) for m in mounts(at)}, "it"
        )
        # Nobody unmounts it but its end, and who lives is not stale.
        assert at.run("umount", "/mnt/memory", check=False).returncode == 1
        at.run("umount", "--stale")
        assert {mount["run"] for mount in mounts(at)} == {first.pid, second.pid}
        for process in (first, second):
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(LIMIT) == 4
    assert mounts(at) == []


def test_runs_that_were_killed_whole_are_found(user: Site) -> None:
    """By who looks next, of each kind; the session of one that lives, or that others began, goes on."""
    given = user.run("session", "create", "-q", "-s", "notes").stdout.strip()
    with running(user, KEEPS_WRITING) as living:
        assert hear(living) == "begun"
        lives = {mount["run"]: mount["session_id"] for mount in mounts(user)}[living.pid]
        for words in (["umount", "--stale"], ["run", "-s", "notes", "true"], ["status"]):
            with ExitStack() as stack:
                killed = [
                    stack.enter_context(
                        subprocess.Popen(
                            user.command("run", *options, "--", "sh", "-c", "echo begun; read line"),
                            env=user.environment(),
                            cwd="/",
                            stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE,
                            text=True,
                        )
                    )
                    for options in (["-s", "notes"], ["--session", given])
                ]
                assert [hear(process) for process in killed] == ["begun", "begun"]
                by_run = {mount["run"]: mount["session_id"] for mount in mounts(user)}
                ended = [by_run[process.pid] for process in killed]
                pids = [parts(process) for process in killed]
                for found in pids:
                    os.kill(found["supervisor"], signal.SIGSTOP)  # it must not tidy up when the first one is gone
                    for name in ("run", "supervisor"):
                        kill(found[name])
            for found in pids:
                for pid in found.values():
                    wait_for_end(pid)
            (told,) = [
                each
                for each in json.loads(user.run("doctor", "--format", "json").stdout)
                if each["check"] == "stale-mounts"
            ]
            assert all(session_id in told["found"] for session_id in ended)
            assert lives not in told["found"]
            before = {session.id: session.ended_at for session in sessions(user)}
            assert before[ended[0]] is None, "the doctor changes nothing"
            done = user.run(*words)
            assert words != ["umount", "--stale"] or sorted(done.stdout.split()) == sorted(ended)
            after = {session.id: session.ended_at for session in sessions(user)}
            assert after[ended[0]] is not None
            assert ended[1] == given
            assert after[given] is None
            assert after[lives] is None
    assert not list((user.directory / "runtime" / "memfs").glob("*.run"))


def test_a_worker_that_hangs_holds_up_neither_the_command_s_end_nor_ours(user: Site) -> None:
    script = """
    cd /mnt/memory/notes; echo begun; read line
    timeout -s KILL 1 cat a.md; echo killed=$?; cat b.md
    """
    with running(user, script) as process:
        assert hear(process) == "begun"
        found = parts(process)
        os.kill(found["worker"], signal.SIGSTOP)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert hear(process) == "killed=137"
        os.kill(found["command"], signal.SIGKILL)
        wait_for_end(found["init"])
        os.kill(found["worker"], signal.SIGCONT)
        assert process.wait(LIMIT) == 137


def test_nothing_lands_beside_a_store_that_is_down(who: Site) -> None:
    script = """
    cd /mnt/memory; echo begun; read line
    for where in notes/lost notes; do echo lost > $where; done
    chmod 777 notes; mkdir notes/d; mv notes elsewhere; rmdir notes
    mount -t tmpfs none notes; umount notes; umount -l notes
    echo tried; read line
    """
    with running(who, script) as process:
        assert hear(process) == "begun"
        found = parts(process)
        os.kill(found["supervisor"], signal.SIGSTOP)
        kill(found["worker"])
        wait_until(lambda: not Path(f"/proc/{found['worker']}/maps").read_bytes(), "the worker to end")
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert hear(process) == "tried"
        process.stdin.close()
        os.kill(found["supervisor"], signal.SIGCONT)
        process.wait(LIMIT)
        assert process.stderr is not None
        said = process.stderr.read()
    # The first to ask may still hear that the worker has just gone.
    assert len(re.findall("Transport endpoint is not connected|Software caused connection abort", said)) >= 3, said
    assert who.heads("notes") == {}


def test_a_session_that_was_begun_before(user: Site) -> None:
    user.run("store", "create", "Team rules", "--description", "What we agreed on")
    session = user.run(
        "session", "create", "-q", "-s", "notes", "-s", "team-rules:read_only", "--instructions", "notes", "Look first."
    ).stdout.strip()
    for text in ("one", "two"):
        done = run(user, "--session", session, script=f'echo {text} >> "$MEMFS_ROOT/notes/a.md"; echo "$MEMFS_PROMPT"')
        for part in ('instructions: "Look first."', 'description: "What we agreed on"', '"/mnt/memory/team-rules"'):
            assert part in done.stdout
    assert user.heads("notes") == {"/a.md": b"one\ntwo\n"}
    assert [(each.id, each.ended_at) for each in sessions(user)] == [(session, None)], "it was not for us to end"
    user.run("session", "end", session)
    refused = run(user, "--session", session, "true", check=False)
    assert (refused.returncode, "begin another" in refused.stderr) == (1, True)
    refused = run(user, "--session", session[:-1], "true", check=False)
    assert refused.returncode == 3


def test_a_note_that_no_variable_can_hold_is_cut_and_said_to_be(at: Site) -> None:
    with Workspace.open(at.db) as workspace:
        stores = [workspace.stores.create(f"s{number}", description="<" * 1024) for number in range(8)]
        session = workspace.sessions.create([Resource(store, instructions="<" * 4096) for store in stores])
    done = run(at, "--session", session.id, script='echo "$MEMFS_PROMPT"; ls /mnt/memory | wc -l')
    assert "too long for this place" in done.stdout
    assert 'path: "/mnt/memory/s7"' in done.stdout
    assert done.stdout.endswith("\n8\n")
    assert "without descriptions and instructions" in done.stderr


def test_what_the_command_sees_can_be_chosen(user: Site) -> None:
    for name in ("work", "plain", "fixed"):
        (user.directory / name).mkdir()
        give(user.directory / name)
    user.extra["SECRET"] = "x"
    done = run(
        user,
        "-s",
        "notes",
        "--no-network",
        "--clearenv",
        "--workdir",
        user.directory / "work",
        "--bind",
        f"{user.directory / 'plain'}:/srv",
        "--ro-bind",
        user.directory / "fixed",
        "--at",
        "/opt/agent/memory",
        "--scratch-size",
        "64K",
        script="""
        pwd; echo "${SECRET-cleared}"; grep -c : /proc/net/dev; echo 1 > /srv/one; echo "$MEMFS_ROOT"
        echo kept > /opt/agent/memory/notes/a.md
        if head -c 100000 /dev/zero > /opt/agent/memory/scratch; then exit 1; fi
        if touch ../fixed/x; then exit 1; fi
        ls -d /mnt/memory 2>/dev/null || echo nothing there
        """,
    )
    there = "/mnt/memory" if Path("/mnt/memory").exists() else "nothing there"
    assert done.stdout.splitlines() == [str(user.directory / "work"), "cleared", "1", "/opt/agent/memory", there]
    assert "No space left on device" in done.stderr
    assert "Read-only file system" in done.stderr
    assert (user.directory / "plain" / "one").exists()
    assert user.heads("notes") == {"/a.md": b"kept\n"}
    assert not Path("/opt/agent").exists()


def test_what_cannot_be_is_refused_in_a_line(user: Site) -> None:
    here = user.directory
    for words, reason in (
        (["--at", "/proc/memory"], "cannot be mounted at"),
        (["--at", here], "lies below"),
        (["--at", here / "missing"], "make that directory first"),
        (["--workdir", here / "missing"], "--workdir"),
        (["--workdir", here / "runtime" / "memfs"], "is hidden in the sandbox"),
        (["--bind", here / "missing"], "does not exist"),
        (["-s", "other"], "other"),
    ):
        done = run(user, "-s", "notes", *words, "true", check=False)
        assert done.returncode in (1, 2, 3), words
        assert reason in done.stderr
        assert not [line for line in done.stderr.splitlines() if line.startswith("bwrap")]
    assert run(user, "-s", "notes", "--at", here / "db" / "memory", "true").returncode == 0
    assert all(session.ended_at for session in sessions(user))
    nothing_left(user)


def test_without_bubblewrap_it_says_how_to_get_it(user: Site) -> None:
    def with_path(change: Callable[[Path], None]) -> str:
        programs = user.directory / "programs"
        programs.mkdir(exist_ok=True)
        change(programs)
        setpriv = shutil.which("setpriv")
        assert setpriv is not None
        user.prefix = (setpriv, *user.prefix[1:])
        user.extra["PATH"] = str(programs)
        refused = run(user, "-s", "notes", "true", check=False)
        assert refused.returncode == 1
        return refused.stderr

    def old(programs: Path) -> None:
        (programs / "bwrap").write_text("#!/bin/sh\necho bubblewrap 0.4.1\n")
        (programs / "bwrap").chmod(0o755)

    def failing(programs: Path) -> None:
        (programs / "bwrap").write_text(
            '#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit\necho bwrap: no such thing >&2\nexit 1\n'
        )

    assert "apt install bubblewrap" in with_path(lambda programs: None)
    assert "0.8 or newer" in with_path(old)
    assert "the sandbox could not be made: bubblewrap says: bwrap: no such thing" in with_path(failing)
    del user.extra["PATH"]
    assert all(session.ended_at for session in sessions(user))
    nothing_left(user)


def test_without_privilege_it_makes_its_own_or_says_what_it_takes(at: Site) -> None:
    at.prefix = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
    assert run(at, "-s", "notes", script="echo kept > /mnt/memory/notes/a.md; id -u").stdout == "0\n"
    at.prefix = (
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"',
        "closed",
        "setpriv",
        "--bounding-set",
        "-sys_admin",
        "--inh-caps",
        "-sys_admin",
    )
    refused = run(at, "-s", "notes", "true", check=False)
    assert refused.returncode == 1
    assert "user namespaces are turned off here (sysctl user.max_user_namespaces = 0)" in refused.stderr
    at.prefix = ()
    assert at.heads("notes") == {"/a.md": b"kept\n"}


@contextmanager
def shared(directory: Path) -> Iterator[Path]:
    """A directory from which what is mounted below travels to other namespaces, as from / where systemd runs."""
    directory.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", directory, directory], check=True)
    subprocess.run(["mount", "--make-shared", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--recursive", directory], check=True)


def test_what_is_mounted_later_outside_does_not_show(who: Site) -> None:
    """Neither another store nor the database's directory, once more; and unmounting does not wait for the sandbox."""
    who.store("other", **{"secret.md": "secret"})
    with ExitStack() as mounts:
        late = mounts.enter_context(shared(who.directory / "late"))
        for path in (late, late / "root", late / "again"):
            path.mkdir(exist_ok=True)
            if who.prefix:
                give(path)
        look = f"find {late} | sort | tr '\\n' ' '; grep -c {late}/ /proc/self/mountinfo"
        script = f"echo made; while read -r _; do {look}; done; true"
        with running(who, script) as process:
            assert hear(process) == "made"
            assert process.stdin is not None
            who.run("mount", "--root", late / "root", "-s", "other")
            subprocess.run(["mount", "--bind", who.db.parent, late / "again"], check=True)
            assert (late / "again" / who.db.name).exists()
            assert as_user(who, f"cat {late}/root/other/secret.md").stdout == "secret"
            process.stdin.write("look\n")
            process.stdin.flush()
            assert hear(process) == f"{late} {late}/again {late}/root 0"
            subprocess.run(["umount", late / "again"], check=True)
            who.run("umount", late / "root")
            assert [row["state"] for row in who.status() if row["path"].startswith(str(late))] == []
            process.stdin.close()
            assert process.wait(LIMIT) == 0
            mounts.close()


@pytest.mark.parametrize("event", ["comes", "goes"])
def test_what_is_mounted_while_a_sandbox_is_made_is_hidden(user: Site, event: str) -> None:
    """As where several runs begin and mounts end at once: what is looked at is not what there is a moment later."""
    programs = user.directory / "programs"
    programs.mkdir()
    asked, answered = programs / "asked", programs / "answered"
    for pipe in (asked, answered):
        os.mkfifo(pipe, 0o666)
        pipe.chmod(0o666)
    bubblewrap = shutil.which("bwrap")
    # The first time it waits until something has happened.
    script = f"""#!/bin/sh
        if [ "$1" != --version ] && ! [ -e {programs}/happened ]; then
            echo > {asked}; read _ < {answered}
        fi
        exec {bubblewrap} "$@"
    """
    (programs / "bwrap").write_text(script)
    (programs / "bwrap").chmod(0o755)
    user.extra["PATH"] = f"{programs}:{os.environ['PATH']}"

    def mount(place: Path) -> None:
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "memfs-scratch", place], check=True)
        (place / "secret").touch()

    with ExitStack() as mounts:
        place = mounts.enter_context(shared(user.directory / "shared"))
        stays, other = place / "stays", place / "other"
        mount(stays)
        if event == "goes":
            mount(other)
        look = f"ls -A {stays}; ls -A {other}; echo looked; echo kept > /mnt/memory/notes/a.md; echo words >&2"
        with running(user, look) as process:
            assert asked.read_text() == "\n"
            if event == "goes":
                subprocess.run(["umount", other], check=True)
                other.rmdir()
            else:
                mount(other)
            (programs / "happened").touch()
            answered.write_text("\n")
            said, errors = process.communicate(timeout=LIMIT)
            assert process.returncode == 0, errors
            mounts.close()
        missing = f"ls: cannot access '{other}': No such file or directory"
        assert said == "looked\n"
        assert errors.splitlines() == [*([missing] if event == "goes" else []), "words"]
    assert user.heads("notes") == {"/a.md": b"kept\n"}


def test_it_runs_beside_mounts_and_hides_them(user: Site) -> None:
    user.mount("notes")
    assert as_user(user, "echo outside > root/notes/a.md").returncode == 0
    done = run(
        user, "-s", "notes", script="cat /mnt/memory/notes/a.md; ls root/ || ls root; cat root/notes/a.md", check=False
    )
    assert done.stdout.splitlines()[0] == "outside"
    assert done.returncode != 0
    assert done.stdout.count("outside") == 1
    user.run("umount", user.root)
    assert [session.ended_at is not None for session in sessions(user)] == [True, True]
