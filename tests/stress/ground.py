"""A mounted store with memories that nothing may change, a tmpfs beside it, and what must hold of both afterwards."""

import hashlib
import os
import re
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.mount.differential.database import check_history, reading
from tests.mount.harness import Site
from tests.stress.beside import contents

STORE = "notes"

MAX_RSS_MIB = 160.0
"""Of a worker: its own 40, 8 of texts, 64 of temporaries, and 48 for what is on its way and what is not given back."""

_BLOCK = 4096


def kept_texts() -> dict[str, bytes]:
    """The memories that nothing may change, by their paths: of all sizes, as deep as a path can be."""
    texts = {}
    for number in range(40):
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        line = f"{number} {digest} übrig\n".encode()
        size = (0, 1, 77, 4096, 20_000, 102_400)[number % 6]
        text = (line * (size // len(line) + 1))[:size]
        path = "/".join(["kept", *("d" * (depth + 1) for depth in range(number % 18)), f"{number}.md"])
        texts[path] = text.decode(errors="ignore").encode()  # a character may have been cut
    return texts


def rss_mib(pid: int) -> float:
    """What a process has in memory, in MiB. Raises OSError where it has ended."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    if found is None:
        raise ProcessLookupError(pid)
    return int(found[1]) / 1024


@dataclass
class Ground:
    """Where stressors work: ``mount`` and ``twin`` are two directories, ``wrong`` is what should not be."""

    site: Site
    mount: Path
    twin: Path
    wrong: list[str] = field(default_factory=list)
    rss: list[float] = field(default_factory=list)
    """MiB of the worker, after each step."""
    probes: int = 0
    worker: int = 0
    log: Path = Path()

    def begin(self) -> None:
        """Write what is to be kept, on both sides."""
        (status,) = self.site.status()
        self.worker, self.log = int(status["pid"]), Path(status["log"])
        for side in (self.mount, self.twin):
            for path, text in kept_texts().items():
                file = side / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text)
        self.rss.append(rss_mib(self.worker))

    def probe(self, after: str) -> None:
        """The mount answers: a memory is written, read, found in a listing and by its attributes."""
        text = f"probe {self.probes} after {after}\n".encode()
        file = self.mount / "probe.md"
        file.write_bytes(text)
        self.probes += 1
        if file.read_bytes() != text or file.stat().st_size != len(text) or "probe.md" not in os.listdir(self.mount):
            self.wrong.append(f"after {after}, a memory is not what was just written")
        try:
            self.rss.append(rss_mib(self.worker))
        except OSError:
            self.wrong.append(f"after {after}, the worker is another process: it died")
            self.worker = self.site.worker(STORE)

    @contextmanager
    def watched(self, seconds: float) -> Iterator[None]:
        """Where this takes longer, end the worker: no signal to us interrupts a call that it never answers."""
        timer = threading.Timer(seconds, self._give_up, (seconds,))
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _give_up(self, seconds: float) -> None:
        self.wrong.append(f"something was not answered in {seconds:.0f} s")
        with suppress(ProcessLookupError):
            os.kill(self.worker, signal.SIGKILL)

    def versions(self) -> int:
        """How many versions the store has."""
        with reading(self.site.db) as database:
            (count,) = database.rows.execute("SELECT count(*) FROM memory_versions").fetchone()
        return int(count)

    def end(self) -> None:
        """Look at everything: the mount, the log, the database; after unmounting, and after mounting again."""
        left = contents(self.mount)
        for path, text in kept_texts().items():
            if left.get(f"/{path}") != text:
                self.wrong.append(f"{path} is not what it was")
        self._account(left)
        self._read_log()
        self.site.run("umount", self.site.root)
        self._read_log()
        self.judge_history(left)
        (self.mount,) = self.site.mount(STORE)
        if contents(self.mount) != left:
            self.wrong.append("what is mounted anew is not what was unmounted")
        self.site.run("umount", self.site.root)

    def _account(self, left: dict[str, bytes]) -> None:
        """Nothing is counted that is gone, and the worker has let go of it."""
        figures = os.statvfs(self.mount)
        used = sum(map(len, left.values()))
        if figures.f_files - figures.f_ffree != len(left):
            self.wrong.append(f"{figures.f_files - figures.f_ffree} memories are counted, and there are {len(left)}")
        if abs((figures.f_blocks - figures.f_bfree) * _BLOCK - used) > 2 * _BLOCK:
            self.wrong.append(f"{(figures.f_blocks - figures.f_bfree) * _BLOCK} bytes are counted as used, not {used}")
        (status,) = self.site.status()
        if status["state"] != "mounted" or int(status["pid"]) != self.worker:
            self.wrong.append(f"the mount is {status['state']}, process {status['pid']}, which was {self.worker}")
        if self.rss[-1] > MAX_RSS_MIB:
            self.wrong.append(f"the worker has {self.rss[-1]:.0f} MiB")

    def _read_log(self) -> None:
        if not self.log.exists():
            return
        said = self.log.read_text(errors="replace")
        found = re.findall(
            r"^.*(?:level=(?:WARNING|ERROR|CRITICAL)|Traceback|failed operation=).*$", said, re.MULTILINE
        )
        self.wrong += [f"logged: {line}" for line in found if f"logged: {line}" not in self.wrong]

    def judge_history(self, left: dict[str, bytes]) -> None:
        """The file is sound, heads are what was in the mount, each memory's versions are its life and no more."""
        with reading(self.site.db) as database:
            for (said,) in database.rows.execute("PRAGMA integrity_check"):
                if said != "ok":
                    self.wrong.append(f"SQLite: {said}")
            heads, versions = database.heads(""), database.versions(0)
        texts = {path: head.text for path, head in heads.items()}
        differ = sorted(path for path in texts | left if texts.get(path) != left.get(path))
        if differ:
            self.wrong.append(f"{len(differ)} heads are not what the mount showed: {', '.join(differ[:5])}")
        try:
            check_history(versions, heads)
        except AssertionError as error:
            self.wrong.append(f"history: {str(error)[:500]}")
        count = Counter(version.path for version in versions)
        for path in kept_texts():
            if count[f"/{path}"] != 1:
                self.wrong.append(f"{path} was written once and has {count[f'/{path}']} versions")
        if self.probes != count["/probe.md"]:
            self.wrong.append(f"the probe was written {self.probes} times and has {count['/probe.md']} versions")


def clear(directory: Path) -> None:
    """Remove a directory with what a program left in it, and make it anew."""
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir()
