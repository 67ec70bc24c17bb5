"""The writers: processes that work on a mount, through the HTTP API or with commands, and put each step on record.

Each has a directory of its own in its store, whose history is then exactly its journal's. A writer works for as long as
it is told to, and then waits. Whatever it is refused it tries no second time: it waits until what it writes to answers
again, looks at what is there, and goes on with that.
"""

import errno
import json
import os
import random
import socket
import string
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from memfs.mount.processes import die_with_parent
from tests.crashes.journal import Journal, pieces_of, text_of

BACK_SECONDS = 90.0
"""How long what was killed may take to answer again."""

CLI_SECONDS = 60.0
MOST_FILES = 10
COMMON = "common"
"""The directory in which all write to the same files; and by which a mount is known to be there."""

SIGKILL = 9


class Refused(Exception):
    """An operation that did not succeed, with a word that says why."""


@dataclass
class Work:
    """What a writer is told. ``target`` is a mounted store's directory, the URL of a store, or a store's id."""

    kind: str
    name: str
    target: str
    journal: str
    seed: str
    key: str = ""
    port: int = 0
    command: list[str] = field(default_factory=list)
    backups: str = ""
    pause: float = 0.03


class Writer:
    """What all have in common."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.random = random.Random(work.seed)
        self.journal = Journal(work.journal)
        self.files: dict[str, str] = {}
        """What it knows to be there: path in the store to text, or to what else it needs to know."""
        self.made = 0

    def token(self) -> str:
        """What no other operation writes."""
        return f"{self.work.name}:{self.journal.number}"

    def new_path(self, directory: str = "") -> str:
        """A path of ours that nothing was ever at."""
        self.made += 1
        return f"/{self.work.name}{directory}/f{self.made}.md"

    def lines(self) -> int:
        """Mostly a few; now and then a text of many pages, so that the log is emptied into the database too."""
        return self.random.choice([1, 2, 3, 5, 8, 40, 40, 1500])

    def any_path(self) -> str:
        """One that is there."""
        return self.random.choice(sorted(self.files))

    def do(self, kind: str, action: Callable[[], dict[str, Any] | None], **given: Any) -> bool:
        """One operation, put on record. Returns whether it succeeded."""
        self.journal.begin(kind, **given)
        try:
            told = action()
        except Refused as error:
            self.journal.end(ok=False, error=str(error))
            return False
        except OSError as error:
            self.journal.end(ok=False, error=errno.errorcode.get(error.errno or 0, repr(error)))
            return False
        self.journal.end(ok=True, **(told or {}))
        return True

    def step(self) -> bool:
        """Do something; whether it succeeded."""
        raise NotImplementedError

    def recover(self) -> None:
        """After a refusal: wait until there is an answer again, and look."""

    def work_for(self, seconds: float) -> None:
        """Do one thing after the other."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self.step():
                self.recover()
            # So that a round has no thousands of versions, and commits of several fall between each other.
            time.sleep(self.random.uniform(0, 2 * self.work.pause))


class MountWriter(Writer):
    """Works with plain file calls in a mounted store."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.directories: set[str] = set()

    def at(self, path: str) -> str:
        """Where a path of the store is."""
        return self.work.target + path

    def step(self) -> bool:
        if f"/{self.work.name}" not in self.directories:
            return self.make_directory(f"/{self.work.name}")
        choices: dict[Callable[[], bool], int] = {self.join: 4}
        if len(self.files) < MOST_FILES:
            choices[self.create] = 6
        if len(self.directories) < 4:
            choices[lambda: self.make_directory(f"/{self.work.name}/d{self.journal.number}")] = 2
        if self.files:
            choices |= {self.save: 8, self.append: 6, self.replace: 6, self.replace_as_sed: 4, self.unlink: 3}
            choices |= {self.rename: 3, self.rename_over: 3}
        if len(self.directories) > 1:
            choices |= {self.rename_directory: 2, self.remove_directory: 1}
        return self.random.choices(list(choices), list(choices.values()))[0]()

    def _write(self, path: str, pieces: list[str], flags: int, *, mode: int = 0o644, sync: bool = False) -> None:
        descriptor = os.open(self.at(path), flags | os.O_WRONLY, mode)
        try:
            for piece in pieces:
                os.write(descriptor, piece.encode())
            if sync:
                os.fsync(descriptor)
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise
        os.close(descriptor)

    def _save(self, path: str) -> bool:
        token, lines, count = self.token(), self.lines(), self.random.randint(1, 3)
        sync = self.random.random() < 0.3
        text = text_of(token, lines)
        flags = os.O_CREAT | os.O_TRUNC
        if not self.do(
            "save",
            lambda: self._write(path, pieces_of(text, count), flags, sync=sync),
            path=path,
            token=token,
            lines=lines,
            count=count,
            sync=sync,
        ):
            return False
        self.files[path] = text
        return True

    def create(self) -> bool:
        """A new file, perhaps in a directory of ours."""
        directory = self.random.choice(sorted(self.directories)).removeprefix(f"/{self.work.name}")
        return self._save(self.new_path(directory))

    def save(self) -> bool:
        """A file written anew in place."""
        return self._save(self.any_path())

    def append(self) -> bool:
        """A line at the end."""
        path, token = self.any_path(), self.token()
        line = text_of(token, 1)
        if not self.do("append", lambda: self._write(path, [line], os.O_APPEND), path=path, token=token):
            return False
        self.files[path] += line
        return True

    def join(self) -> bool:
        """A line at the end of a file that others append to as well."""
        path, token = f"/{COMMON}/log-{self.journal.number // 40}.md", self.token()
        return self.do(
            "join", lambda: self._write(path, [text_of(token, 1)], os.O_APPEND | os.O_CREAT), path=path, token=token
        )

    def _replace(self, temporary: str, flags: int, mode: int, path: str) -> bool:
        token, lines = self.token(), self.lines()
        text = text_of(token, lines)

        def action() -> None:
            self._write(temporary, pieces_of(text, 2), os.O_CREAT | flags, mode=mode)
            os.replace(self.at(temporary), self.at(path))

        if not self.do("replace", action, path=path, token=token, lines=lines):
            return False
        self.files[path] = text
        return True

    def replace(self) -> bool:
        """As editors save: a temporary that is renamed over the file."""
        path = self.any_path()
        return self._replace(f"{path}.tmp.{os.getpid()}", os.O_TRUNC, 0o644, path)

    def replace_as_sed(self) -> bool:
        """As GNU sed does."""
        path = self.any_path()
        drawn = "Q7z" + "".join(self.random.choices(string.ascii_letters, k=3))
        return self._replace(f"{os.path.dirname(path)}/sed{drawn}", os.O_EXCL, 0o600, path)

    def unlink(self) -> bool:
        """Delete a memory."""
        path = self.any_path()
        if not self.do("unlink", lambda: os.unlink(self.at(path)), path=path):
            return False
        del self.files[path]
        return True

    def _rename(self, path: str, target: str) -> bool:
        if not self.do("rename", lambda: os.rename(self.at(path), self.at(target)), path=path, to=target):
            return False
        self.files[target] = self.files.pop(path)
        return True

    def rename(self) -> bool:
        """A memory gets a new name."""
        return self._rename(self.any_path(), self.new_path())

    def rename_over(self) -> bool:
        """A memory takes the name of another one."""
        path, target = self.any_path(), self.any_path()
        return path == target or self._rename(path, target)

    def make_directory(self, path: str) -> bool:
        """A directory."""
        if not self.do("mkdir", lambda: os.mkdir(self.at(path)), path=path):
            return False
        self.directories.add(path)
        return True

    def _any_directory(self) -> str:
        return self.random.choice(sorted(self.directories - {f"/{self.work.name}"}))

    def rename_directory(self) -> bool:
        """All that is in a directory gets new paths."""
        path = self._any_directory()
        target = f"/{self.work.name}/r{self.journal.number}"
        if not self.do("move", lambda: os.rename(self.at(path), self.at(target)), path=path, to=target):
            return False
        self.directories = self.directories - {path} | {target}
        self.files = {
            target + name.removeprefix(path) if name.startswith(f"{path}/") else name: text
            for name, text in self.files.items()
        }
        return True

    def remove_directory(self) -> bool:
        """An empty one goes."""
        path = self._any_directory()
        if any(name.startswith(f"{path}/") for name in self.files):
            return True
        if not self.do("rmdir", lambda: os.rmdir(self.at(path)), path=path):
            return False
        self.directories.remove(path)
        return True

    def recover(self) -> None:
        deadline = time.monotonic() + BACK_SECONDS
        while not self._look():
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.work.target} did not come back in {BACK_SECONDS} s")
            time.sleep(0.01)

    def _look(self) -> bool:
        """Note what is there, if the mount is."""
        try:
            # Not a stat(), which the kernel may answer for a mount that is dead.
            names = os.listdir(self.work.target)
        except OSError:
            return False
        if COMMON not in names:
            return False

        def action() -> dict[str, Any]:
            self.files, self.directories = {}, set()
            if self.work.name not in names:
                return {"files": {}, "directories": []}
            top = self.at(f"/{self.work.name}")
            for parent, _, files in os.walk(top, onerror=_raise):
                self.directories.add(parent.removeprefix(self.work.target))
                for name in files:
                    path = os.path.join(parent, name)
                    self.files[path.removeprefix(self.work.target)] = Path(path).read_text()
            return {"files": dict(self.files), "directories": sorted(self.directories)}

        return self.do("look", action)


def _raise(error: OSError) -> None:
    raise error


class ApiWriter(Writer):
    """Works through the HTTP API."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.connection: HTTPConnection | None = None
        self.ids: dict[str, str] = {}

    def step(self) -> bool:
        choices: dict[Callable[[], bool], int] = {}
        if len(self.ids) < MOST_FILES:
            choices[self.create] = 4
        if self.ids:
            choices |= {self.update: 5, self.delete: 2, self.rename: 2}
        return self.random.choices(list(choices), list(choices.values()))[0]()

    def work_for(self, seconds: float) -> None:
        if self.connection is not None:  # which a kill since may have ended
            self.connection.close()
            self.connection = None
        super().work_for(seconds)

    def _any(self) -> str:
        return self.random.choice(sorted(self.ids))

    def request(self, method: str, where: str, body: object = None) -> Any:
        """One request on the connection that is kept. Raises Refused where the answer is no success, or none."""
        if self.connection is None:
            self.connection = HTTPConnection("127.0.0.1", self.work.port, timeout=30)
        headers = {"authorization": f"Bearer {self.work.key}", "content-type": "application/json"}
        try:
            data = None if body is None else json.dumps(body).encode()
            self.connection.request(method, self.work.target + where, data, headers)
            answer = self.connection.getresponse()
            said = answer.read()
        except (OSError, HTTPException) as error:
            self.connection.close()
            self.connection = None
            raise Refused(f"no answer: {type(error).__name__}") from None
        if answer.status != 200:
            raise Refused(f"{answer.status} {said.decode()[:200]}")
        return json.loads(said)

    def create(self) -> bool:
        """A new memory."""
        path, token, lines = self.new_path(), self.token(), self.lines()
        made: list[str] = []

        def action() -> None:
            made.append(self.request("POST", "/memories", {"path": path, "content": text_of(token, lines)})["id"])

        if not self.do("create", action, path=path, token=token, lines=lines):
            return False
        self.ids[path] = made[0]
        return True

    def update(self) -> bool:
        """Another text."""
        path, token, lines = self._any(), self.token(), self.lines()
        change = self._posting(path, {"content": text_of(token, lines)})
        return self.do("replace", change, path=path, token=token, lines=lines)

    def _posting(self, path: str, body: object) -> Callable[[], None]:
        def change() -> None:
            self.request("POST", f"/memories/{self.ids[path]}", body)

        return change

    def rename(self) -> bool:
        """Another path."""
        path, target = self._any(), self.new_path()
        if not self.do("rename", self._posting(path, {"path": target}), path=path, to=target):
            return False
        self.ids[target] = self.ids.pop(path)
        return True

    def delete(self) -> bool:
        """A memory goes."""
        path = self._any()

        def action() -> None:
            self.request("DELETE", f"/memories/{self.ids[path]}")

        if not self.do("unlink", action, path=path):
            return False
        del self.ids[path]
        return True

    def recover(self) -> None:
        deadline = time.monotonic() + BACK_SECONDS
        while not (self._is_there() and self.do("look", self._look)):
            if time.monotonic() > deadline:
                raise SystemExit(f"the server did not come back in {BACK_SECONDS} s")
            time.sleep(0.02)

    def _is_there(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.work.port), 5).close()
        except OSError:
            return False
        return True

    def _look(self) -> dict[str, Any]:
        query = urlencode({"path_prefix": f"/{self.work.name}/", "view": "full", "limit": 20})
        found = self.request("GET", f"/memories?{query}")["data"]
        self.ids = {memory["path"]: memory["id"] for memory in found}
        return {"files": {memory["path"]: memory["content"] for memory in found}}


class CommandWriter(Writer):
    """Works with commands, and kills some of them itself."""

    def step(self) -> bool:
        choices: dict[Callable[[], bool], int] = {self.create: 4, self.backup: 1}
        if self.files:
            choices |= {self.update: 4, self.delete: 1, self.rename: 1}
        return self.random.choices(list(choices), list(choices.values()))[0]()

    def _run(self, *arguments: str) -> None:
        after = self.random.uniform(0, 1.0) if self.random.random() < 0.5 else None
        with subprocess.Popen(
            [*self.work.command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                process.wait(CLI_SECONDS if after is None else after)
            except subprocess.TimeoutExpired:
                process.kill()
            assert process.stderr is not None
            said = process.stderr.read().decode()
            if (status := process.wait(CLI_SECONDS)) != 0:
                raise Refused("killed" if status == -SIGKILL else f"exit status {status}: {said}")

    def _on(self, *command: str) -> Callable[[], None]:
        verb, path, *rest = command
        return lambda: self._run("memory", verb, self.work.target, path, *rest, "-q")

    def create(self) -> bool:
        """A new memory."""
        path, token = self.new_path(), self.token()
        if not self.do(
            "create", self._on("create", path, "--content", text_of(token, 3)), path=path, token=token, lines=3
        ):
            return False
        self.files[path] = token
        return True

    def _change(self, kind: str, path: str, *command: str, **given: Any) -> bool:
        """A path is touched no more after a change of it of which nobody knows what came."""
        del self.files[path]
        return self.do(kind, self._on(command[0], path, *command[1:]), path=path, **given)

    def update(self) -> bool:
        """Another text."""
        path, token = self.any_path(), self.token()
        if not self._change("replace", path, "update", "--content", text_of(token, 2), token=token, lines=2):
            return False
        self.files[path] = token
        return True

    def rename(self) -> bool:
        """Another path."""
        path, target = self.any_path(), self.new_path()
        if not self._change("rename", path, "update", "--path", target, to=target):
            return False
        self.files[target] = ""
        return True

    def delete(self) -> bool:
        """A memory goes."""
        return self._change("unlink", self.any_path(), "delete")

    def backup(self) -> bool:
        """A backup; what came of it is looked at by whoever reads the journal."""
        file = f"{self.work.backups}/{self.token()}.db"
        return self.do("backup", lambda: self._run("backup", file), file=file)


KINDS: dict[str, type[Writer]] = {"mount": MountWriter, "api": ApiWriter, "command": CommandWriter}


def main() -> None:
    """Work for as many seconds as each line of standard input says; answer each when that is over."""
    die_with_parent(int(sys.argv[1]), SIGKILL)
    work = Work(**json.loads(sys.argv[2]))
    writer = KINDS[work.kind](work)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        writer.work_for(float(line))
        sys.stdout.write("done\n")
        sys.stdout.flush()
