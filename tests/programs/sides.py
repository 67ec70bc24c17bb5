"""The same script on a mounted store and in a directory of the disk beside it: all that it says and leaves must agree.

So "no warning that a local disk would not cause" needs no list of warnings. A script may use ``$T``, a directory that
is not compared.
"""

import os
import signal
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memfs.vfs.temporaries import Temporaries
from tests.mount.harness import Site, wait_until
from tests.processes import environment

SECONDS = 40
"""How long a script may take."""

Step = tuple[str, str, str, str | None]
"""A version: a letter for its memory (``a`` is the one that came first), operation, path, text."""


@dataclass(frozen=True)
class Done:
    """What a script said, with the names of its directories taken out."""

    status: int
    output: str
    errors: str


@dataclass(frozen=True)
class Side:
    """A directory to run a script in; ``scratch`` is its ``$T``."""

    directory: Path
    scratch: Path

    def variables(self) -> dict[str, str]:
        """An environment without what this machine's user has configured for the programs."""
        home = self.scratch / "home"
        home.mkdir(parents=True, exist_ok=True)
        inherited = {
            name: value
            for name, value in environment().items()
            if not name.startswith(("LC_", "GIT_", "NODE_", "RSYNC_", "GREP_", "TAR_", "JQ_", "RIPGREP_", "PERL5"))
        }
        return inherited | {
            "HOME": str(home),
            "T": str(self.scratch),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "vt100",
            "GIT_CONFIG_NOSYSTEM": "1",
            # The disk's directory may lie in somebody's repository, the mount never looks like it does.
            "GIT_CEILING_DIRECTORIES": str(self.directory.parent),
        }

    def run(self, script: str, variables: Mapping[str, str] | None = None) -> Done:
        """Run a bash script to its end, and end what it left running."""
        with subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env=self.variables() | dict(variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=SECONDS)
            finally:
                end_group(process.pid)
        return Done(process.returncode, self.neutral(output), self.neutral(errors))

    def neutral(self, text: str) -> str:
        """A text without what is different between the sides by nature."""
        text = text.replace(str(self.scratch), "$T").replace(str(self.directory), "HERE")
        return text.replace(str(self.directory.resolve()), "HERE")  # an ordinary user's root is a link

    def tree(self, since: int) -> dict[str, tuple[object, ...]]:
        """What lies here: kind and permissions; of files bytes, and the time where it is before ``since`` (ns)."""
        found: dict[str, tuple[object, ...]] = {}
        for place, directories, files in os.walk(self.directory):
            for name in [*directories, *files]:
                path = Path(place, name)
                status = path.lstat()
                kind: tuple[object, ...] = (stat.S_IFMT(status.st_mode), oct(stat.S_IMODE(status.st_mode)))
                if name in files:
                    set_time = status.st_mtime_ns if status.st_mtime_ns < since else None
                    kind += (path.read_bytes(), status.st_size, set_time)
                found[str(path.relative_to(self.directory))] = kind
        return found


def end_group(pid: int) -> None:
    """Kill a process and those that it started and did not wait for."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Sides:
    """A directory of the mounted store ``notes``, and one of the disk."""

    def __init__(self, site: Site, mounted: Path, name: str) -> None:
        """``mounted`` is where the store is, ``name`` that of both directories, which are made."""
        self.site = site
        self._name = name
        self.mount = Side(mounted / name, site.directory / "beside-mount" / name)
        self.disk = Side(site.directory / "disk" / name, site.directory / "beside-disk" / name)
        for side in (self.mount, self.disk):
            side.directory.mkdir(parents=True)
        self.both: Sequence[Side] = (self.disk, self.mount)
        self._since = time.time_ns() - 1_000_000_000  # a coarse clock may be behind by some milliseconds

    def run(self, script: str, *, status: int = 0, variables: Mapping[str, str] | None = None) -> str:
        """Run a script on both sides, which must end with ``status`` and agree; returns what it wrote to stdout."""
        on_disk, mounted = (side.run(script, variables) for side in self.both)
        assert on_disk.status == status, on_disk  # a program that is missing agrees with itself
        assert mounted == on_disk, f"the mount:\n{mounted}\nthe disk:\n{on_disk}"
        self.agree()
        return mounted.output

    def agree(self) -> None:
        """Both sides hold the same, and the database what the mount shows."""
        mounted, on_disk = (side.tree(self._since) for side in (self.mount, self.disk))
        differing = [name for name in sorted({*mounted, *on_disk}) if mounted.get(name) != on_disk.get(name)]
        assert not differing, [(name, mounted.get(name), on_disk.get(name)) for name in differing]
        self.saved()

    def saved(self) -> None:
        """The database holds what the mount shows, except for temporaries."""
        shown = {
            str(path.relative_to(self.mount.directory)): path.read_bytes()
            for path in self.mount.directory.rglob("*")
            if path.is_file()
        }
        temporaries = Temporaries()
        expected = {
            f"/{path}": content for path, content in shown.items() if not temporaries.plain(path.rpartition("/")[2])
        }
        held: dict[str, bytes] = {}

        def agreed() -> bool:
            heads = self.site.heads("notes").items()
            held.clear()
            held.update((path.removeprefix(self._prefix), content) for path, content in heads if self._is_here(path))
            return held == expected

        # The kernel tells of the last close of a file, that of a mapping perhaps, after it has returned.
        with suppress(AssertionError):
            wait_until(agreed, "the last close", 10)
        assert held == expected, f"the database:\n{held}\nthe mount:\n{expected}"

    def history(self) -> list[Step]:
        """All versions, oldest first; paths begin at the directory."""
        versions = [version for version in self.site.history("notes") if self._is_here(version.path)]
        memories = list(dict.fromkeys(version.memory_id for version in versions))
        assert len(memories) <= 26, "no more letters"
        return [
            (
                chr(ord("a") + memories.index(version.memory_id)),
                version.operation,
                (version.path or "").removeprefix(self._prefix),
                None if version.content is None else version.content.decode(),
            )
            for version in versions
        ]

    @property
    def _prefix(self) -> str:
        return f"/{self._name}"

    def _is_here(self, path: str | None) -> bool:
        return path is not None and path.startswith(f"{self._prefix}/")
