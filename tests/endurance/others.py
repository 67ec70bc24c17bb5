"""Those who work on the same store without a mount, for hours: clients of the API, and somebody at a shell."""

import errno
import json
import os
import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from tests.api.harness import Server
from tests.api.streams import following
from tests.endurance.hands import Round
from tests.processes import PYTHON, environment

LIMIT = 300.0
"""Seconds that a command may take on a machine with much else to do."""

MEMORIES = 20
"""Of each client, at most."""

PRUNE_AGE = "2m"
"""Older versions are pruned in each round, so that the database ends as large as it began."""


class Other(threading.Thread):
    """Does one thing after the other for some seconds, and tells what came of it; a thread for each round."""

    def __init__(self, name: str, seconds: float, pause: float) -> None:
        super().__init__(name=name, daemon=True)
        self.done = Round(Counter(), Counter())
        self._seconds = seconds
        self._pause = pause

    def steps(self) -> list[Callable[[], None]]:
        """What is done in turn."""
        raise NotImplementedError

    def run(self) -> None:
        """Do everything once at least."""
        until = time.monotonic() + self._seconds
        steps = self.steps()
        at = 0
        while at < len(steps) or time.monotonic() < until:
            step = steps[at % len(steps)]
            at += 1
            try:
                step()
            except (AssertionError, OSError, HTTPException, ValueError, subprocess.SubprocessError) as error:
                self.done.wrong.append(f"{self.name}, {step.__name__}: {type(error).__name__}: {error}")
            self.done.operations[step.__name__] += 1
            time.sleep(self._pause)


class Client(Other):
    """A client of the API, with memories of its own."""

    def __init__(self, server: Server, store_id: str, name: str, seconds: float, pause: float) -> None:
        super().__init__(name, seconds, pause)
        self._server = server
        self._store = f"/v1/memory_stores/{store_id}"
        self._random = random.Random(name)
        self._count = 0
        self._made: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def steps(self) -> list[Callable[[], None]]:
        return [
            self.create, self.update, self.read, self.update, self.list_all, self.be_refused, self.delete, self.follow
        ]  # fmt: skip

    def _some(self) -> str:
        if not self._made:
            self.create()
        return self._random.choice(list(self._made))

    def create(self) -> None:
        """A memory."""
        self._count += 1
        path, text = f"/api/{self.name}/{self._count}.md", f"{self.name} {self._count}\n" * 5
        if len(self._made) < MEMORIES:
            made = self._server.post(f"{self._store}/memories", {"path": path, "content": text}).ok()
            self._made[path], self._texts[path] = made["id"], text

    def update(self) -> None:
        """Another text, if it is what we know."""
        path = self._some()
        self._count += 1
        text = self._texts[path] + f"{self._count}\n"
        found = self._server.get(f"{self._store}/memories/{self._made[path]}").ok()
        expected = {"type": "content_sha256", "content_sha256": found["content_sha256"]}
        body = {"content": text, "precondition": expected}
        self._server.post(f"{self._store}/memories/{self._made[path]}", body).ok()
        self._texts[path] = text

    def read(self) -> None:
        """It is what was written last."""
        path = self._some()
        found = self._server.get(f"{self._store}/memories/{self._made[path]}", view="full").ok()
        assert found["content"] == self._texts[path], f"{path} is not as it was written"

    def list_all(self) -> None:
        """Everything, page by page, and the newest versions."""
        query: dict[str, object] = {"limit": 50}
        while True:
            page = self._server.get(f"{self._store}/memories", **query).ok()
            if not page["next_page"]:
                break
            query["page"] = page["next_page"]
        self._server.get(f"{self._store}/memory_versions", limit=20).ok()

    def be_refused(self) -> None:
        """What must be, in each way."""
        memory = f"{self._store}/memories/{self._made[self._some()]}"
        stale = {"type": "content_sha256", "content_sha256": "0" * 64}
        answers = [
            self._server.get(f"{self._store}/memories/mem_01M8NMQFRQEHGZHQHXSA2763V0"),
            self._server.post(f"{self._store}/memories", {"path": "no slash", "content": ""}),
            self._server.post(memory, {"content": "x", "precondition": stale}),
            self._server.post(memory, b"{"),
            self._server.request("GET", memory, key="wrong"),
        ]
        for answer in answers:
            assert answer.status in (400, 401, 404, 409), answer
            self.done.refused[str(answer.status)] += 1

    def delete(self) -> None:
        """A memory less."""
        path = self._some()
        self._server.delete(f"{self._store}/memories/{self._made.pop(path)}").ok()
        del self._texts[path]

    def follow(self) -> None:
        """The stream of changes, which is broken off."""
        with following(self._server, self._store) as stream:
            stream.take(1)
            path = self._some()
            self._server.post(f"{self._store}/memories/{self._made[path]}", {"content": f"{self._count} told"}).ok()
            self._texts[path] = f"{self._count} told"
            stream.take(1)

    def clear(self) -> None:
        """Remove everything of ours."""
        while self._made:
            self.delete()


class Reader(Other):
    """An agent that may only read: it looks everywhere, and asks for what may not be."""

    def __init__(self, directory: Path, name: str, seconds: float, pause: float) -> None:
        super().__init__(name, seconds, pause)
        self._directory = directory

    def steps(self) -> list[Callable[[], None]]:
        return [self.read_all, self.grep, self.be_refused]

    def read_all(self) -> None:
        """Each file, while others change them."""
        for at, _, files in os.walk(self._directory):
            for name in files:
                try:
                    Path(at, name).read_bytes()
                except OSError as error:
                    # Removed since it was listed; or while it was opened, twice, which is ESTALE (docs/semantics.md).
                    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
                        raise

    def grep(self) -> None:
        """A process of its own that reads everything."""
        done = subprocess.run(
            ["grep", "-rsc", "by sed", "."], cwd=self._directory, capture_output=True, timeout=LIMIT, check=False
        )
        assert done.returncode in (0, 1, 2), done.stderr  # 2: a file went meanwhile

    def be_refused(self) -> None:
        """Nothing can be made here."""
        try:
            (self._directory / "refused.md").write_text("x")
        except OSError as error:
            self.done.refused[errno.errorcode[error.errno or 0]] += 1
        else:
            raise AssertionError("a read_only mount took a file")


class Shell(Other):
    """Somebody who looks after the store with the command line."""

    def __init__(self, database: Path, directory: Path, store: str, name: str, seconds: float, pause: float) -> None:
        super().__init__(name, seconds, pause)
        self._database = database
        self._directory = directory
        self._store = store
        self._count = 0

    def steps(self) -> list[Callable[[], None]]:
        return [
            self.memory, self.look, self.export, self.mount, self.redact, self.check, self.back_up, self.prune
        ]  # fmt: skip

    def memfs(self, *arguments: str | Path) -> str:
        """Run memfs to its end; returns what it wrote."""
        done = subprocess.run(
            [*PYTHON, "-m", "memfs.cli", "--db", str(self._database), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            env=environment(),
        )
        assert done.returncode == 0, f"memfs {arguments[0]}: {done.stderr}"
        return done.stdout

    def memory(self) -> None:
        """One that comes and goes."""
        self._count += 1
        path = f"/shell/{self.name} {self._count}.md"
        self.memfs("memory", "create", self._store, path, "--content", "from a shell")
        self.memfs("memory", "update", self._store, path, "--content", "from a shell again")
        assert "again" in self.memfs("memory", "show", self._store, path)
        self.memfs("memory", "delete", self._store, path)

    def look(self) -> None:
        """What there is."""
        for command in (["memory", "list"], ["version", "list", "--limit", "50"]):
            self.memfs(*command, self._store)
        for command in (["session", "list"], ["store", "list"], ["status"]):
            self.memfs(*command)

    def export(self) -> None:
        """The memories to a directory, and the history to a file."""
        self.memfs("store", "export", self._store, self._directory / "exported")
        self.memfs("store", "export", self._store, self._directory / "exported.jsonl")
        shutil.rmtree(self._directory / "exported")
        (self._directory / "exported.jsonl").unlink()

    def mount(self) -> None:
        """A ninth mount, which comes and goes."""
        root = self._directory / "ninth"
        self._count += 1
        (directory,) = self.memfs("mount", "--root", root, "-s", self._store).splitlines()
        try:
            file = Path(directory, f"ninth {self._count}.md")
            file.write_text("from a ninth mount")
            file.unlink()
        finally:
            self.memfs("umount", root)

    def redact(self) -> None:
        """The newest version of what is deleted, which writes the whole database anew."""
        self._count += 1
        path = f"/shell/secret {self._count}.md"
        self.memfs("memory", "create", self._store, path, "--content", f"secret {self._count}")
        self.memfs("memory", "delete", self._store, path)
        (_, made) = json.loads(self.memfs("version", "list", self._store, "--memory", path, "--format", "json"))
        self.memfs("version", "redact", self._store, made["id"], "--yes")

    def check(self) -> None:
        """Every invariant, while all are at work."""
        self.memfs("check")

    def back_up(self) -> None:
        """The database, while all are at work."""
        self.memfs("backup", self._directory / "backup.db")
        (self._directory / "backup.db").unlink()

    def prune(self) -> None:
        """What is old."""
        self.memfs("version", "prune", self._store, "--older-than", PRUNE_AGE, "--yes")
