"""The filesystems that are compared: each a directory with the same texts in it, and one for new files."""

import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from memfs.model import ids
from memfs.model.mutations import Create
from memfs.model.records import Actor
from memfs.mount.processes import detach, kind_at, mounted_at, mounted_below
from memfs.workspace import Workspace

SECONDS = 120.0
"""How long a command may take."""

MEMFS = (sys.executable, "-m", "memfs.cli")
EXAMPLE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
"""Where Debian's libfuse3-dev has the C passthrough."""

DIRECTORIES = 4
NEEDLE = "needle in the haystack"
NEEDLES = 100
"""Each so many texts, one has the needle."""

SOMEBODY = Actor("user_actor", "bench")


class CannotMeasure(Exception):
    """Something that the benchmark needs is not there; its text says what to do."""


def run(*command: str | Path, **variables: str) -> str:
    """Run a command to its end; returns what it wrote. Raises CannotMeasure with its errors where it failed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, env={**os.environ, **variables}, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except FileNotFoundError:
        raise CannotMeasure(f"{words[0]} is needed and not here") from None
    except subprocess.TimeoutExpired:
        raise CannotMeasure(f"{shlex.join(words)} did not end in {SECONDS:.0f} s") from None
    if done.returncode:
        raise CannotMeasure(f"{shlex.join(words)} failed (exit {done.returncode}): {done.stderr.strip()}")
    return done.stdout


def texts(memories: int, size: int) -> dict[str, bytes]:
    """The memories of a store by path: all of one size in bytes, no two the same, spread over some directories.

    With up to 500 each: /d0/note-0000.md and so on.
    """
    random = Random(0)
    made = {}
    for number in range(memories):
        directory, place = divmod(number, -(-memories // DIRECTORIES))
        words = f"{NEEDLE}\n" if number % NEEDLES == 0 else ""
        while len(words) < size:
            words += f"{random.getrandbits(64):016x}" + ("\n" if random.random() < 0.2 else " ")
        made[f"/d{directory}/note-{place:04}.md"] = words[:size].encode()
    return made


@dataclass(frozen=True, slots=True)
class Contestant:
    """A filesystem under test. ``full`` has the texts, ``new`` is for files that are made and removed (None: ro)."""

    name: str
    full: Path
    new: Path | None


class Programs:
    """What is compiled before anything is measured."""

    def __init__(self, directory: Path, passthrough: Path) -> None:
        """``passthrough`` is the source of the C passthrough. Raises CannotMeasure where one does not compile."""
        if not passthrough.exists():
            raise CannotMeasure(
                f"{passthrough} is not here, though Debian's libfuse3-dev has it (an image without /usr/share/doc"
                " leaves it out): name libfuse's example passthrough_ll.c with --passthrough"
            )
        directory.mkdir(exist_ok=True)
        self.work = directory / "work"
        source = Path(__file__).with_name("work.c")
        run("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", self.work, source)
        self.passthrough = directory / "passthrough_ll"
        flags = shlex.split(run("pkg-config", "--cflags", "--libs", "fuse3"))
        run("gcc", "-O2", "-o", self.passthrough, passthrough, *flags)


class Place:
    """A directory on a plain disk and one on a tmpfs in which everything is made, and a workspace."""

    def __init__(self, programs: Programs, directory: Path, memory: Path, *, memories: int, size: int) -> None:
        """``memories`` are those of a store, ``size`` that of each in bytes. Makes both directories."""
        self.programs = programs
        self.directory = directory
        self.memory = memory
        self.memories = memories
        self.size = size
        self.db = directory / "db" / "memfs.db"
        self._numbers = itertools.count()
        for each in (directory, memory):
            each.mkdir(exist_ok=True)

    def beside(self, name: str, *, memories: int, size: int) -> "Place":
        """Another place in this one, with stores of another kind."""
        return Place(self.programs, self.directory / name, self.memory / name, memories=memories, size=size)

    @property
    def needles(self) -> int:
        """How many texts of a store grep finds."""
        return -(-self.memories // NEEDLES)

    @property
    def in_a_directory(self) -> int:
        """How many memories the first of a store's directories has."""
        return -(-self.memories // DIRECTORIES)

    def fresh(self, what: str) -> Path:
        """A path for something to be mounted or made at, on the disk."""
        return self.directory / f"{what}-{next(self._numbers)}"

    # Workspaces

    def fill_store(self, name: str, contents: dict[str, bytes] | None = None) -> str:
        """Make a store with memories, by default those of every store; returns its id."""
        contents = texts(self.memories, self.size) if contents is None else contents
        with Workspace.open(self.db, create=True) as workspace:
            store = workspace.stores.create(name)
            if contents:
                creates = [Create(ids.new_id(ids.MEMORY), path, text) for path, text in contents.items()]
                workspace.memories.apply(store.id, creates, SOMEBODY)
        return store.id

    def memfs(self, *arguments: str | Path) -> str:
        """Run memfs on our workspace."""
        return run(*MEMFS, *arguments, MEMFS_DB=str(self.db))

    @contextmanager
    def mounted(self, *stores: str) -> Iterator[list[Path]]:
        """Stores, mounted by memfs at a root of their own."""
        root = self.fresh("memfs")
        arguments = [word for store in stores for word in ("-s", store)]
        try:
            yield [Path(line) for line in self.memfs("mount", "--root", root, *arguments).splitlines()]
        finally:
            try:
                if mounted_below(root) or root.exists():
                    self.memfs("umount", root)
            finally:
                take_down(root)

    def workers(self, *directories: Path) -> list[int]:
        """The processes that serve mounts of memfs."""
        wanted = {str(directory) for directory in directories}
        found = json.loads(self.memfs("status", "--format", "json"))
        return [mount["pid"] for mount in found if mount["path"] in wanted]

    # The others

    def plain(self, parent: Path) -> tuple[Path, Path]:
        """Plain directories with the same texts, and for new files."""
        full, new = parent / "full", parent / "new"
        new.mkdir(parents=True)
        (full / "d0").mkdir(parents=True)
        for path, text in texts(self.memories, self.size).items():
            file = full / path[1:]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
        return full, new

    @contextmanager
    def fuse(self, *command: str | Path, at: Path) -> Iterator[Path]:
        """A FUSE filesystem whose program stays in the foreground, mounted at a directory that is made."""
        at.mkdir()
        log = at.with_suffix(".log")
        with (
            log.open("w") as errors,
            subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            ) as daemon,
        ):
            try:
                deadline = time.monotonic() + SECONDS
                while not mounted_at(at):
                    if daemon.poll() is not None or time.monotonic() > deadline:
                        raise CannotMeasure(f"{command[0]} did not mount: {log.read_text().strip()}")
                    time.sleep(0.002)
                yield at
            finally:
                take_down(at)
                try:
                    daemon.wait(10)
                except subprocess.TimeoutExpired:
                    daemon.kill()

    @contextmanager
    def passthrough(self, below: Path) -> Iterator[Path]:
        """The C passthrough over a directory, with caching on."""
        at = self.fresh("passthrough")
        with self.fuse(self.programs.passthrough, "-f", "-o", f"source={below},cache=always", at, at=at) as mounted:
            yield mounted

    @contextmanager
    def bindfs(self, below: Path) -> Iterator[Path]:
        """Debian's bindfs over a directory, as it is without options."""
        at = self.fresh("bindfs")
        if shutil.which("bindfs") is None:
            raise CannotMeasure("bindfs is needed and not here: apt-get install bindfs, or leave it out, --no-bindfs")
        with self.fuse("bindfs", "-f", below, at, at=at) as mounted:
            yield mounted


def take_down(at: Path) -> None:
    """Unmount what is left at or below a path."""
    for point in reversed(mounted_below(at)):
        if os.getuid() == 0:
            detach(point.path)
        else:
            run("fusermount3", "-u", "-z", point.path)


@contextmanager
def contestants(place: Place, *, bindfs: bool) -> Iterator[list[Contestant]]:
    """All of them, side by side; ``place`` has stores ``full`` and ``new`` then. Raises CannotMeasure."""
    with ExitStack() as stack:
        found = [Contestant("tmpfs", *place.plain(place.memory / "plain"))]
        below = place.directory / "plain"
        disk = Contestant("disk", *place.plain(below))
        found.append(disk)
        for name, mounting in (("passthrough", place.passthrough), ("bindfs", place.bindfs)):
            if name != "bindfs" or bindfs:
                at = stack.enter_context(mounting(below))
                found.append(Contestant(name, at / "full", at / "new"))
        place.fill_store("full")
        place.fill_store("new", {})
        full, new = stack.enter_context(place.mounted("full", "new"))
        found.append(Contestant("memfs", full, new))
        (read_only,) = stack.enter_context(place.mounted("full:read_only"))
        found.append(Contestant("memfs ro", read_only, None))
        yield found


def check_kinds(disk: Path, memory: Path) -> None:
    """Raises CannotMeasure where the plain disk is in memory, or the tmpfs is none."""
    if kind_at(disk) in ("tmpfs", "ramfs"):
        raise CannotMeasure(f"{disk} is on a {kind_at(disk)}: name a directory on a disk with --disk")
    if kind_at(memory) != "tmpfs":
        raise CannotMeasure(f"{memory} is on {kind_at(memory)}: name a directory on a tmpfs with --tmpfs")


def versions_of(db: Path, store: str) -> int:
    """How many versions a store's history has."""
    with Workspace.open(db, read_only=True) as workspace:
        return len(workspace.versions.list(workspace.stores.resolve(store).id))


def grep(directory: Path, expected: int) -> float:
    """Seconds that ``grep -r`` takes, found what is to be found."""
    command: Sequence[str | Path] = ("grep", "-rlF", NEEDLE, directory)
    began = time.perf_counter()
    found = run(*command, LC_ALL="C")
    seconds = time.perf_counter() - began
    if len(found.splitlines()) != expected:
        raise CannotMeasure(f"grep found {len(found.splitlines())} texts of {expected} in {directory}")
    return seconds
