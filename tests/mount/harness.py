"""Real mounts for tests: made by the real command, taken down whatever happens, and looked at afterwards.

Each wait has a limit. What a mount logs above INFO fails its test unless the test said that it expects it.
"""

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner

from memfs.cli.main import main
from memfs.engine import VersionFilter
from memfs.model.records import MemoryVersion
from memfs.mount import control
from memfs.mount.processes import detach, mounted_below
from memfs.mount.runtime import RootRecord, RootState
from memfs.workspace import Workspace
from tests.processes import environment
from tests.soundness import assert_sound

LIMIT = 100.0
"""Seconds that any command of a test may take, on a machine however busy."""

SCRIPT_LIMIT = 2 * LIMIT
"""And a guide, with dozens of them."""

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, seconds: float = LIMIT) -> T:
    """Ask again and again until a condition holds; for what the kernel or another process gives no event for."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.01)


def wait_for_end(pid: int, seconds: float = LIMIT) -> None:
    """Wait until a process that is not our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], seconds)[0], f"process {pid} did not end in {seconds} s"
    finally:
        os.close(descriptor)


@dataclass
class Site:
    """A directory with a database, and a root to mount at; ``prefix`` runs commands as somebody else."""

    directory: Path
    prefix: tuple[str, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)
    expected_log: list[str] = field(default_factory=list)
    damaged: bool = False
    """Set where the test writes to the database what memfs never would."""
    _logs: set[Path] = field(default_factory=set)

    @property
    def db(self) -> Path:
        """The database."""
        return self.directory / "db" / "memfs.db"

    @property
    def root(self) -> Path:
        """Where this test mounts."""
        return self.directory / "root"

    def command(self, *arguments: str | Path) -> list[str]:
        """The command line that runs memfs."""
        return [*self.prefix, sys.executable, "-bb", "-m", "memfs.cli", *map(str, arguments)]

    def environment(self) -> dict[str, str]:
        """With this site's database."""
        return environment(**{"MEMFS_DB": str(self.db), **self.extra})

    def run(self, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run memfs to its end."""
        # Not in the repository: the command must not depend on where it is called.
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        if check:
            assert done.returncode == 0, done.stderr
        return done

    def run_here(self, *arguments: str | Path) -> str:
        """Run memfs in this process, which is as good where a process is not what is tested, and ten times as fast;
        returns what it wrote to stdout. Where commands are run as somebody else, or elsewhere, there is one all the
        same.
        """
        if self.prefix:
            return self.run(*arguments).stdout
        variables = self.environment()
        unset = dict.fromkeys(os.environ.keys() - variables.keys())
        done = CliRunner().invoke(main, list(map(str, arguments)), env=variables | unset, prog_name="memfs")
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    def shell(self, script: str) -> str:
        """Run a bash script in this site's directory in which ``memfs`` is a command; returns what it wrote."""
        programs = self.directory / "bin"
        programs.mkdir(exist_ok=True)
        memfs = programs / "memfs"
        memfs.write_text(f'#!/bin/sh\nexec {shlex.join(self.command())} "$@"\n')
        memfs.chmod(0o755)
        variables = self.environment()
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env={**variables, "PATH": f"{programs}:{variables['PATH']}"},
            capture_output=True,
            text=True,
            timeout=SCRIPT_LIMIT,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def store(self, name: str, **files: str) -> str:
        """Make a store, with memories at the paths that the keywords spell (``a_md`` is /a.md); returns its id."""
        made = self.run_here("store", "create", "-q", name).strip()
        if files:
            source = self.directory / f"import-{made}"
            source.mkdir()
            for key, text in files.items():
                (source / key.replace("_", ".")).write_text(text)
            self.run_here("store", "import", made, source)
        return made

    def mount(self, *stores: str, **options: Any) -> list[Path]:
        """Mount stores at the root; returns their directories."""
        arguments: list[str | Path] = ["mount", "--root", self.root]
        for name in stores:
            arguments += ["-s", name]
        for option, value in options.items():
            arguments += [f"--{option.replace('_', '-')}", str(value)]
        done = self.run(*arguments)
        self.note_logs()
        return [Path(line) for line in done.stdout.splitlines()]

    def note_logs(self) -> None:
        """Look into the logs of what is mounted now when the test ends; ``mount`` does it itself."""
        self._logs |= {Path(mount["log"]) for mount in self.known()}

    def note_log(self, log: Path) -> None:
        """Look into the log of another root when the test ends."""
        self._logs.add(log)

    def record(self) -> tuple[RootState, RootRecord | None]:
        """What is on record of this root, None where nothing is: no mount is asked, and no process started."""
        runtime = None
        if "XDG_RUNTIME_DIR" in self.extra:
            runtime = Path(self.extra["XDG_RUNTIME_DIR"], "memfs")
        elif "nsenter" in self.prefix:
            runtime = Path(f"/proc/{self.prefix[self.prefix.index('--target') + 1]}/root/run/memfs")
        state = RootState(self.root, runtime)
        return state, state.read()

    def status(self) -> list[dict[str, Any]]:
        """What is mounted at this root, as ``memfs status`` tells it.

        That command would also ask all other mounts of the machine, and wait for those that other tests have stopped.
        """
        if self.prefix:
            found = json.loads(self.run("status", "--format", "json").stdout)
            return [mount for mount in found if mount["root"] == str(self.root)]
        state, record = self.record()
        told = [] if record is None else control.status_of_root(state, record)
        found = json.loads(json.dumps([asdict(mount) for mount in told]))
        return list(found)

    def refusals(self, count: int = 1) -> list[dict[str, str]]:
        """What status tells of refused operations, once there are so many: that comes a moment after their answer."""

        def told() -> list[dict[str, str]]:
            found: list[dict[str, str]] = self.status()[0]["refusals"]
            return found if len(found) >= count else []

        return wait_until(told, f"{count} refusals to be told")

    def known(self) -> list[dict[str, Any]]:
        """Of what is mounted at this root, what needs no answer of it: name, pid, log."""
        state, record = self.record()
        mounts = () if record is None else record.mounts
        return [{"name": mount.name, "pid": mount.pid, "log": str(state.log_path)} for mount in mounts]

    def supervisor(self) -> int:
        """The process that everything of this root hangs on."""
        return parent_of(self.known()[0]["pid"])

    def worker(self, name: str) -> int:
        """The process that serves a store."""
        return next(int(mount["pid"]) for mount in self.known() if mount["name"] == name)

    def restart_worker(self, name: str) -> None:
        """Kill the process that serves a store, and wait until its store is mounted again."""
        before = self.worker(name)
        kill(before)

        def back() -> bool:
            return any(m["name"] == name and m["pid"] != before and m["state"] == "mounted" for m in self.status())

        wait_until(back, f"{name} is mounted again")

    def history(self, store: str, path: str | None = None) -> list[MemoryVersion]:
        """Versions, oldest first, with content."""
        with Workspace.open(self.db, read_only=True) as workspace:
            store_id = workspace.stores.resolve(store).id
            memory_id = None if path is None else workspace.versions.memory_id(store_id, path)
            assert path is None or memory_id is not None, path
            found = workspace.versions.list(store_id, VersionFilter(memory_id=memory_id), content=True)
        return found[::-1]

    def operations(self, store: str, path: str | None = None) -> list[tuple[str, str | None, bytes | None]]:
        """History as (operation, path, content)."""
        return [(v.operation, v.path, v.content) for v in self.history(store, path)]

    def heads(self, store: str) -> dict[str, bytes]:
        """What the database holds now: path to bytes."""
        with Workspace.open(self.db, read_only=True) as workspace:
            store_id = workspace.stores.resolve(store).id
            return {m.path: m.content or b"" for m in workspace.memories.list(store_id, content=True)}

    def processes(self) -> list[int]:
        """Processes of memfs that have this site in their command line."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdecimal() and int(entry) != os.getpid():
                try:
                    line = Path(f"/proc/{entry}/cmdline").read_bytes()
                except OSError:
                    continue
                if b"memfs.cli" in line and os.fsencode(self.root) in line:
                    found.append(int(entry))
        return found

    def nothing_left(self) -> None:
        """Fail where a mount, a process or scratch is left."""
        assert not mounted_below(self.directory)
        assert not self.processes()

    def take_down(self) -> None:
        """Unmount what is mounted at this root."""
        if self.known():
            self.run_here("umount", self.root)

    def end(self) -> None:
        """Take down what is mounted, then check that nothing is left or unexpectedly logged, and the database sound."""
        try:
            self.take_down()
            self.nothing_left()
        finally:
            for pid in self.processes():
                kill(pid)
            for point in reversed(mounted_below(self.directory)):
                detach(point.path)
        lines = [line for log in self._logs if log.exists() for line in log.read_text().splitlines()]
        unexpected = [
            line
            for line in lines
            if re.search(r"level=(WARNING|ERROR|CRITICAL)|Traceback", line)
            and not any(re.search(pattern, line) for pattern in self.expected_log)
        ]
        assert not unexpected, "\n".join(unexpected)
        for pattern in self.expected_log:
            assert any(re.search(pattern, line) for line in lines), f"not logged: {pattern}"
        for log in self._logs:
            log.unlink(missing_ok=True)
        if not self.damaged:
            assert_sound(self.db)


def kill(pid: int) -> None:
    """Kill a process that may have ended, and wait until it is gone."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        assert select.select([process], [], [], LIMIT)[0], f"{pid} does not end"
    finally:
        os.close(process)


def parent_of(pid: int) -> int:
    """The parent of a process."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def shell(script: str, directory: Path, *, user: Sequence[str] = ()) -> str:
    """Run a bash script that must succeed (``set -eu``); returns what it wrote."""
    done = subprocess.run(
        [*user, "bash", "-euc", script],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def site(directory: Path, *, prefix: tuple[str, ...] = (), **extra: str) -> Iterator[Site]:
    """A site that is taken down at the end, and checked."""
    made = Site(directory, prefix, extra)
    failed = True
    try:
        yield made
        failed = False
    finally:
        try:
            made.end()
        except AssertionError:
            if not failed:
                raise


__all__ = ["LIMIT", "Site", "parent_of", "shell", "site", "wait_for_end", "wait_until"]
