"""Running a command in a sandbox with stores: bubblewrap, the stores' supervisor, signals, and the exit status.

```text
memfs run ──▶ bubblewrap ──▶ its init ──▶ the command
    └───────▶ supervisor ──▶ workers
```

All hang on `memfs run`: when it ends, bubblewrap is killed with everything in the sandbox, and the supervisor commits
and ends. The command shares the terminal and the process group of `memfs run`, as if it had been called directly.
"""

import fcntl
import json
import logging
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from memfs.model.errors import MountFailed
from memfs.mount import sandbox
from memfs.mount.control import end_dead_runs, end_session
from memfs.mount.inside import InsideSupervisor, Sandbox, run_record, seclude
from memfs.mount.processes import adopt_orphans, began_ticks, can_mount, check_device, close_inherited, die_with_parent
from memfs.mount.runtime import RUNS, RootState, run_name
from memfs.mount.seccomp import system_call_filter
from memfs.mount.supervisor import STOP_SECONDS, Plan, configure_log

log = logging.getLogger(__name__)

LEAST_BUBBLEWRAP = (0, 8)
"""The first that can forbid more user namespaces, and give a tmpfs a size."""

SETUP_SECONDS = 30.0
LINGER_SECONDS = 5.0
"""How long the stores may stay after the command, where somebody outside still has something of theirs open."""
LOOK_SECONDS = 0.2
"""How often to look whether the command has stopped itself, where that would leave a terminal with nobody at it."""
RESTARTS = 5
"""How often a supervisor that somebody killed is replaced."""
REMAKES = 20
"""How often a sandbox is made once more because mounts came or went meanwhile, each of some hundredths of a second."""

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_WATCHED = (*_FORWARDED, signal.SIGCHLD, signal.SIGTSTP)
_IGNORED_OUTSIDE = (*_FORWARDED, signal.SIGTSTP)
"""What a terminal or somebody else sends to the whole process group, and bubblewrap must outlive: what becomes of it is
for the command to say."""

_WORTH_READING = re.compile(r"level=(WARNING|ERROR|CRITICAL)|Traceback")

_ERRORS, _READY, _GO = 7, 8, 9
"""Descriptors of the gate. The shell can name those of one digit only."""
_GATE = f'echo >&{_READY}; read _ <&{_GO} || exit 125; exec "$@" 2>&{_ERRORS} {_ERRORS}>&- {_READY}>&- {_GO}<&-'
"""What runs first in the sandbox: it says that the sandbox is made, and waits until the stores are mounted in it. Where
nobody says so, nothing is run. What it runs has the caller's standard error, and bubblewrap one of its own."""


class _NotMade(Exception):
    """The sandbox could not be made, or not be closed off."""


@dataclass(frozen=True, slots=True)
class Run:
    """What to run. ``note`` is told things for the person, a line each."""

    plan: Plan
    view: sandbox.View
    command: Sequence[str]
    environment: dict[str, str]
    note: Callable[[str], None]

    @property
    def names(self) -> list[str]:
        """The names of the stores' directories."""
        return [Path(attachment.mount_path).name for attachment in self.plan.session.attachments]


def check_runnable() -> None:
    """Raises MountFailed with what to do, where there is no bubblewrap or no FUSE."""
    check_device()
    program = shutil.which("bwrap")
    if program is None:
        raise MountFailed("memfs run needs bubblewrap: sudo apt install bubblewrap")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < LEAST_BUBBLEWRAP:
        raise MountFailed(
            f"memfs run needs bubblewrap 0.8 or newer, and {program} is {said.strip() or 'something else'}"
        )


def run(what: Run) -> int:
    """Run a command until it ends; returns its exit status, 128 and the signal's number where one ended it.

    Raises MountFailed where it could not be started; then nothing is left.
    """
    made = sandbox.make(what.view, what.names)
    for text in made.notes:
        what.note(text)
    end_dead_runs()
    state = RootState(run_name(what.plan.session.id, os.getpid()), kind=RUNS)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by the caller, our children would end unseen
    adopt_orphans()  # bubblewrap ends before the init of its sandbox has
    with state.hold() as lock:
        running = _Running(what, state, made, lock)
        try:
            # Before anything runs, so that whatever ends us all, somebody finds the session that has no end.
            state.write(run_record(what.plan, os.getpid()))
            running.start()
            return running.watch()
        finally:
            running.end()
            state.remove(lock)


class _Running:
    """One command in its sandbox."""

    def __init__(self, what: Run, state: RootState, made: sandbox.Made, lock: int) -> None:
        self.what = what
        self.state = state
        self.lock = lock
        self.made = made
        self.bubblewrap = 0
        self.supervisor = 0
        self.restarts = 0
        self._told = -1
        """What bubblewrap says of itself; open for as long as it lives, or saying it would end it."""
        self._go = -1
        """Where to say that the command may begin."""
        self.sandbox: Sandbox | None = None
        self.status: int | None = None

    # Starting

    def start(self) -> None:
        """Make the sandbox, mount the stores in it, and let the command begin. Raises MountFailed."""
        self._make_sandbox()
        self._supervise()
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        with suppress(BrokenPipeError):
            os.write(self._go, b"\n")
        os.close(self._go)
        self._go = -1

    def _make_sandbox(self) -> None:
        """Make a sandbox that hides all that is to be hidden when it is closed off from the host's mounts.

        They come and go while it is made: what was to be hidden and is gone, bubblewrap cannot cover; and what came
        after the look at them would be shown. Then another sandbox is made. Raises MountFailed.
        """
        for left in reversed(range(REMAKES + 1)):
            failed: str | None = None
            try:
                self._begin()
            except _NotMade as error:
                failed = str(error)
            made = sandbox.make(self.what.view, self.what.names)
            if failed is not None and (made.closed == self.made.closed or not left):
                raise MountFailed(failed)
            if failed is None and made.closed <= self.made.closed:
                return
            self._abandon()
            self.made = made
        raise MountFailed("what memfs has mounted here changes so often that it could not be hidden: try again")

    def _begin(self) -> None:
        """Start bubblewrap, and wait until it has made the sandbox, where the command waits. Raises _NotMade."""
        self._told, telling = os.pipe()
        ready, saying = os.pipe()
        waiting, self._go = os.pipe()
        words = os.memfd_create("memfs-run")
        try:
            ours = os.getpid()
            self.bubblewrap = os.fork()
            if self.bubblewrap == 0:
                self._become_bubblewrap(ours, telling, saying, waiting, words)
            for descriptor in (telling, saying, waiting):
                os.close(descriptor)
            if not self._is_made(ready):
                raise _NotMade(_diagnosis(os.pread(words, 4096, 0).decode(errors="replace")))
            if self.sandbox is None or not seclude(self.sandbox):
                raise _NotMade("the sandbox could not be closed off from later mounts: entering it is forbidden here")
        finally:
            for descriptor in (ready, words):
                os.close(descriptor)

    def _become_bubblewrap(self, parent: int, telling: int, saying: int, waiting: int, words: int) -> NoReturn:
        try:
            # Beyond those with a fixed number.
            errors, telling, saying, waiting = (_moved(descriptor) for descriptor in (2, telling, saying, waiting))
            os.dup2(words, 2)
            die_with_parent(parent, signal.SIGKILL)
            ours = [number for number in _IGNORED_OUTSIDE if signal.getsignal(number) != signal.SIG_IGN]
            for number in ours:
                signal.signal(number, signal.SIG_IGN)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
            os.dup2(errors, _ERRORS)
            os.dup2(saying, _READY)
            os.dup2(waiting, _GO)
            options = ["--die-with-parent", "--unshare-pid", "--cap-drop", "ALL", "--json-status-fd", str(telling)]
            if not can_mount():
                options += ["--unshare-user", "--disable-userns"]
            kept = {telling, _ERRORS, _READY, _GO}
            program = system_call_filter()
            if program is None:
                options.append("--new-session")
            else:
                kept.add(rules := _in_memory(program))
                options += ["--seccomp", str(rules)]
            kept.add(listed := _in_memory(b"".join(os.fsencode(word) + b"\0" for word in self.made.arguments)))
            close_inherited(keep=kept)
            for descriptor in kept:
                os.set_inheritable(descriptor, True)
            default = ",".join(signal.Signals(number).name.removeprefix("SIG") for number in ours)
            restored = ["env", f"--default-signal={default}"] if default else ["env"]
            command = ["sh", "-c", _GATE, "memfs run", *restored, "--", *self.what.command]
            os.execvpe("bwrap", ["bwrap", *options, "--args", str(listed), "--", *command], self.what.environment)
        except BaseException as error:
            with suppress(OSError):
                os.write(2, f"it could not be started: {error}\n".encode())
        finally:
            os._exit(1)

    def _is_made(self, ready: int) -> bool:
        """Wait until the sandbox is made; whether it could be."""
        deadline = time.monotonic() + SETUP_SECONDS
        said = b""
        while not said.endswith(b"}\n"):
            part = _read(self._told, deadline)
            if not part:
                return False
            said += part
        pid = int(json.loads(said.splitlines()[0])["child-pid"])
        try:
            self.sandbox = Sandbox(pid, os.pidfd_open(pid))
        except ProcessLookupError:
            return False
        return bool(_read(ready, deadline))

    def _supervise(self) -> None:
        """Fork a supervisor and wait until it has mounted everything. Raises MountFailed."""
        receiving, telling = os.pipe()
        ours = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self.supervisor = os.fork()
        if self.supervisor == 0:
            try:
                os.close(receiving)
                self._become_supervisor(ours, telling)
                _forget_log(self.state.log_path)  # whoever called may have been killed
            except BaseException as error:
                with suppress(OSError):
                    os.write(telling, f"the stores' supervisor failed: {error}\n".encode())
            finally:
                os._exit(0)
        os.close(telling)
        with open(receiving) as answer:
            said = answer.readline().strip()
        if said != "ok":
            raise MountFailed(
                said or f"the stores' supervisor ended before it had mounted them: see {self.state.log_path}"
            )

    def _become_supervisor(self, parent: int, telling: int) -> None:
        assert self.sandbox is not None
        os.setsid()  # what the terminal sends is for the command
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        die_with_parent(parent, signal.SIGTERM)
        close_inherited(keep={telling, self.sandbox.descriptor, self.lock})
        null = os.open(os.devnull, os.O_RDWR)
        log_file = os.open(self.state.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(null, 0)
        os.dup2(log_file, 1)
        os.dup2(log_file, 2)
        configure_log(self.state.log_path)
        supervisor = InsideSupervisor(self.what.plan, self.state, [telling])
        supervisor.sandbox = self.sandbox
        supervisor.runner = parent
        supervisor.run_lock = self.lock

        def tell(text: str) -> None:
            if telling in supervisor.private:
                supervisor.private.remove(telling)
                try:
                    os.write(telling, text.encode())
                finally:
                    os.close(telling)

        try:
            supervisor.run(lambda: tell("ok\n"))
        except MountFailed as error:
            log.error("%s", error)
            with suppress(BrokenPipeError):
                tell(f"{error}\n")
        except BaseException as error:
            log.exception("the supervisor failed")
            with suppress(BrokenPipeError):
                tell(f"the supervisor failed ({error}): see {self.state.log_path}\n")

    # While the command runs

    def watch(self) -> int:
        """Wait until the command ends, passing on signals; returns its exit status."""
        # What a person stopped at a terminal must stop us too, or their shell would wait for ever.
        seconds = LOOK_SECONDS if any(os.isatty(descriptor) for descriptor in range(3)) else STOP_SECONDS
        while not self._reaped():
            received = signal.sigtimedwait(_WATCHED, seconds)
            if received is not None and received.si_signo in _FORWARDED and received.si_code <= 0:
                # From a process. What comes from the terminal, the command gets itself.
                self._signal(signal.Signals(received.si_signo))
            elif received is not None and received.si_signo == signal.SIGTSTP:
                self._stop_with_command(1.0)
            elif received is None:
                self._stop_with_command(0.0)
        assert self.status is not None
        return self.status

    def _reaped(self) -> bool:
        """Note which children have ended; whether the command has."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            code = os.waitstatus_to_exitcode(status)
            if pid == self.bubblewrap:
                self.bubblewrap = 0
                self.status = code if code >= 0 else 128 - code
            elif pid == self.supervisor:
                self.supervisor = 0
                self._replace_supervisor(code)
        return self.status is not None

    def _replace_supervisor(self, code: int) -> None:
        """Start another one where it was killed; the stores fail until then."""
        assert self.sandbox is not None
        if self.sandbox.ended() or self.status is not None:
            return
        if code == 0:
            return  # it ended by itself: the stores are deleted, or somebody told it to
        self.restarts += 1
        if self.restarts > RESTARTS:
            self.what.note(f"the stores' supervisor died again, so they stay away: see {self.state.log_path}")
            return
        try:
            self._supervise()
        except MountFailed as error:
            self.what.note(f"the stores' supervisor died, and they could not be mounted again: {error}")

    def _command(self) -> int | None:
        """The command's process id; None where it has ended."""
        assert self.sandbox is not None
        # The one child that the init of the sandbox began with; those it inherited are younger.
        with suppress(OSError, ValueError):
            children = Path(f"/proc/{self.sandbox.pid}/task/{self.sandbox.pid}/children").read_text().split()
            return min(map(int, children), key=lambda pid: began_ticks(pid) or 0, default=None)
        return None

    def _signal(self, number: signal.Signals) -> None:
        command = self._command()
        if command is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(command, number)

    def _stop_with_command(self, seconds: float) -> None:
        """Stop as well where the command has stopped, or does so in time; and let it go on when we do."""
        deadline = time.monotonic() + seconds
        while True:
            command = self._command()
            if command is None:
                return
            if _state(command) == "T":
                break
            if time.monotonic() >= deadline:
                return
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(ProcessLookupError, PermissionError):
            os.kill(command, signal.SIGCONT)

    # Ending

    def _kill_bubblewrap(self) -> None:
        if self.bubblewrap:
            with suppress(ProcessLookupError):
                os.kill(self.bubblewrap, signal.SIGKILL)
            os.waitpid(self.bubblewrap, 0)
            self.bubblewrap = 0

    def _abandon(self) -> None:
        """End the sandbox with all that is in it."""
        self._kill_bubblewrap()
        if self.sandbox is not None:
            select.select([self.sandbox.descriptor], [], [], LINGER_SECONDS)
            with suppress(ChildProcessError):
                os.waitpid(self.sandbox.pid, os.WNOHANG)
            os.close(self.sandbox.descriptor)
        # The gate only now: closed before, it would tell the command that nobody comes.
        for descriptor in (self._told, self._go):
            if descriptor >= 0:
                os.close(descriptor)
        self.sandbox, self._told, self._go = None, -1, -1

    def end(self) -> None:
        """Wait until everything that was written is committed and nothing of ours runs."""
        self._abandon()
        committed = self._end_supervisor() if self.supervisor else False
        if not committed:
            self.state.forget_refusals()
            if self.what.plan.ends_session:
                end_session(self.what.plan.database, self.what.plan.session.id)
        _forget_log(self.state.log_path)

    def _end_supervisor(self) -> bool:
        """Whether the supervisor has ended in order. It does so by itself when the sandbox is gone."""
        descriptor = os.pidfd_open(self.supervisor)
        try:
            if not select.select([descriptor], [], [], LINGER_SECONDS)[0]:
                os.kill(self.supervisor, signal.SIGTERM)
                if not select.select([descriptor], [], [], 2 * STOP_SECONDS)[0]:
                    os.kill(self.supervisor, signal.SIGKILL)
        finally:
            os.close(descriptor)
        _, status = os.waitpid(self.supervisor, 0)
        self.supervisor = 0
        return status == 0


def _forget_log(path: Path) -> None:
    """Take a log away that says nothing but that all went well."""
    with suppress(OSError):
        if not _WORTH_READING.search(path.read_text(errors="replace")):
            path.unlink()


def _moved(descriptor: int) -> int:
    """The same as a number that is not one of the gate's."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)


def _in_memory(content: bytes) -> int:
    """A descriptor from which something can be read."""
    descriptor = _moved(os.memfd_create("memfs-run"))
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read(descriptor: int, deadline: float) -> bytes:
    """What comes from a pipe, b"" where it ends or nothing comes in time."""
    if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
        return b""
    return os.read(descriptor, 4096)


def _state(pid: int) -> str:
    """A process's state as /proc has it, "" for one that is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def _diagnosis(words: str) -> str:
    """Why a sandbox could not be made: what bubblewrap said, and what the system's settings tell."""
    said = f"bubblewrap says: {'; '.join(words.splitlines())}" if words.strip() else "bubblewrap does not say why"
    for name, closed, what in (
        ("kernel/unprivileged_userns_clone", "0", "user namespaces are for root only here"),
        ("user/max_user_namespaces", "0", "user namespaces are turned off here"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor may forbid bubblewrap its user namespaces"),
    ):
        with suppress(OSError):
            if not can_mount() and Path(f"/proc/sys/{name}").read_text().strip() == closed:
                setting = name.replace("/", ".")
                return f"the sandbox could not be made: {what} (sysctl {setting} = {closed}); {said}"
    hint = "" if can_mount() else "; in a container it takes --cap-add SYS_ADMIN, or user namespaces that are allowed"
    return f"the sandbox could not be made: {said}{hint}"
