"""What the kernel need not ask (``memfs.mount.hints``): shown by a worker that is stopped and so cannot answer."""

import os
import platform
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memfs.mount.hints import LIBRARY
from tests.mount.harness import LIMIT, Site, site, wait_until
from tests.mount.together.hands import Hands, hands
from tests.mount.together.mounts import SharedSite, sessions
from tests.processes import hear, python, tell

pytestmark = pytest.mark.mount

OPENAT = {"x86_64": "257", "aarch64": "56"}
"""The number of openat(2), by machine."""

HELD = """
import os, sys
held = os.open(sys.argv[1], os.O_RDONLY)
print(os.read(held, 5).decode(), flush=True)
for line in sys.stdin:
    if line == "rest\\n":
        print(repr(os.read(held, 1_000_000).decode()), flush=True)
    elif line == "sync\\n":
        print(os.fsync(held), flush=True)
    else:
        print(repr(os.pread(held, 1_000_000, 0).decode()), flush=True)
"""


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process stops, and goes on at the end."""

    def is_stopped() -> bool:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(is_stopped, "the worker to stop")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def done_without_answer(code: str, *arguments: str | Path) -> str:
    """Run Python while nobody answers the kernel. It must end all the same; returns what it printed."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True).stdout


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as made:
        made.store("notes", a_md="alpha\n", b_md="beta\n")
        yield made


READ = """
import os, sys
for path in sys.argv[1:]:
    descriptor = os.open(path, os.O_RDONLY)
    print(os.read(descriptor, 100).decode(), end="")
    os.close(descriptor)
"""
"""Opens, reads and closes files, and nothing else: Python's own open() asks each file whether it is a terminal."""


def test_the_library_is_compiled_by_make_install() -> None:
    assert LIBRARY.exists(), "the headers of libfuse were there, or pyfuse3 would not be"


def test_a_read_only_store_is_opened_and_read_without_asking(at: Site) -> None:
    (notes,) = at.mount("notes:read_only")
    read = (notes / "a.md").read_text() + (notes / "b.md").read_text()  # the first asks, and fills the kernel's pages
    sync = "import os, sys; os.fsync(os.open(sys.argv[1], 0))"
    subprocess.run([sys.executable, "-c", sync, notes / "b.md"], timeout=LIMIT, check=True)
    with stopped(at.worker("notes")):
        assert done_without_answer(READ, notes / "a.md", notes / "b.md") == read == "alpha\nbeta\n"
        assert done_without_answer(sync, notes / "a.md") == ""


@pytest.mark.parametrize("access, options", [("read_only", {"strict": True}), ("read_write", {})])
def test_each_open_asks_in_a_strict_store_and_in_one_that_is_written(
    at: Site, access: str, options: dict[str, bool]
) -> None:
    arguments = ["mount", "--root", str(at.root), "-s", f"notes:{access}", *(f"--{name}" for name in options)]
    notes = Path(at.run(*arguments).stdout.strip())
    at.note_logs()
    assert (notes / "a.md").read_text() == "alpha\n"
    code = (
        "import os, sys; input(); print('go', flush=True); print(os.read(os.open(sys.argv[1], 0), 9).decode(), end='')"
    )
    with python(code, notes / "a.md") as reader:
        with stopped(at.worker("notes")):
            tell(reader)
            assert hear(reader) == "go"
            wait_until(
                lambda: Path(f"/proc/{reader.pid}/syscall").read_text().split()[0] == OPENAT[platform.machine()],
                "the reader to be in open()",
            )
        assert hear(reader) == "alpha"


def test_a_reader_closes_without_asking(at: Site) -> None:
    (notes,) = at.mount("notes")
    with python(
        "import os, sys; fd = os.open(sys.argv[1], 0); print(fd, flush=True); input(); os.close(fd); print(1)",
        notes / "a.md",
    ) as reader:
        hear(reader)
        with stopped(at.worker("notes")):
            tell(reader, "close")
            assert hear(reader) == "1"


def test_a_listing_is_kept_by_the_kernel(at: Site) -> None:
    (notes,) = at.mount("notes")
    code = """
import os, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
print(sorted(os.listdir(directory)), flush=True)
input()
print(sorted(os.listdir(directory)), flush=True)  # of the same descriptor, from the start
"""
    with python(code, notes) as lister:
        assert hear(lister) == "['a.md', 'b.md']"
        os.listdir(notes)  # whoever opens it anew lets the kernel keep it
        with stopped(at.worker("notes")):
            tell(lister, "again")
            assert hear(lister) == "['a.md', 'b.md']"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SharedSite, SharedSite]]:
    """A session that writes one store, and one that only reads it."""
    with sessions(tmp_path_factory.mktemp("hints"), 2, reading=1) as (writer, reader):
        yield writer, reader


@pytest.fixture
def writer(pair: tuple[SharedSite, SharedSite]) -> Iterator[Hands]:
    with hands(pair[0].store_directory) as made:
        yield made


@pytest.fixture
def seen(pair: tuple[SharedSite, SharedSite]) -> Path:
    return pair[1].store_directory


def read(path: Path) -> str | None:
    """What a file holds, None where there is none."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def test_a_change_elsewhere_is_seen_soon_where_opens_do_not_ask(writer: Hands, seen: Path) -> None:
    """Grown, cut, replaced, deleted and made again, seen by opening alone; what is seen is whole."""
    path = seen / "note.md"
    for number in range(40):
        text = f"{number}\n" * (1 + 97 * number % 500)
        how = ("write", "replace")[number % 2]
        writer.do(how, "/note.md", text)
        before = f"{number - 1}\n" * (1 + 97 * (number - 1) % 500) if number % 5 else None

        def arrived(text: str = text, before: str | None = before) -> bool:
            found = read(path)
            assert found in (text, before), f"neither the text before nor the one after: {found!r:.80}"
            return found == text

        wait_until(arrived, "the change to be seen")
        if number % 5 == 4:
            writer.do("unlink", "/note.md")
            wait_until(lambda: read(path) is None, "the deletion to be seen")


def test_who_has_a_file_open_reads_its_text_to_the_end_and_then_the_next(writer: Hands, seen: Path) -> None:
    """As on other mounts: no mixture of two texts, and a `tail -f` goes on."""
    writer.do("write", "/held.md", "first " * 10_000)
    with python(HELD, seen / "held.md") as holder:
        assert hear(holder) == "first"
        writer.do("write", "/held.md", "second " * 9_000)
        wait_until(lambda: read(seen / "held.md") == "second " * 9_000, "the change to be seen")
        tell(holder, "rest")
        assert hear(holder) == repr(("first " * 10_000)[5:])
        tell(holder, "sync")
        assert hear(holder) == "None"

        def followed() -> bool:
            tell(holder, "whole")
            return hear(holder) == repr("second " * 9_000)

        wait_until(followed, "the open file to follow")


def test_what_was_deleted_elsewhere_is_read_by_who_has_it_open(writer: Hands, seen: Path) -> None:
    writer.do("write", "/gone.md", "still here\n")
    wait_until(lambda: (seen / "gone.md").exists(), "the file to be seen")
    with python(HELD.replace("print(os.read(held, 5).decode(), flush=True)", "print('open', flush=True)"),
                seen / "gone.md") as holder:  # fmt: skip
        assert hear(holder) == "open"
        writer.do("unlink", "/gone.md")
        wait_until(lambda: not (seen / "gone.md").exists(), "the deletion to be seen")
        tell(holder, "whole")
        assert hear(holder) == repr("still here\n")


@pytest.mark.parametrize("reads_only", [False, True])
def test_a_listing_shows_what_was_made_removed_and_moved_in_another_session(
    pair: tuple[SharedSite, SharedSite], writer: Hands, tmp_path: Path, reads_only: bool
) -> None:
    """At once: a listing that the kernel keeps is good only until anything in it changes. Inode numbers are right too,
    also of what is replaced.
    """
    draw = random.Random(7)
    directory = f"/d{int(reads_only)}"
    writer.do("mkdir", directory)
    present: set[str] = set()
    with sessions_reader(pair, tmp_path, reads_only) as seen:
        for number in range(300):
            name = f"{draw.randrange(30)}.md"
            how = draw.choice(("write", "replace", "unlink", "rename"))
            if how in ("unlink", "rename") and name not in present:
                how = "write"
            other = f"{draw.randrange(30)}.md"
            match how:
                case "unlink":
                    writer.do("unlink", f"{directory}/{name}")
                    present.discard(name)
                case "rename":
                    writer.do("rename", f"{directory}/{name}", f"{directory}/{other}")
                    present = present - {name} | {other}
                case _:
                    writer.do(how, f"{directory}/{name}", f"text {number}\n")
                    present.add(name)
            with os.scandir(seen / directory[1:]) as entries:
                found = {entry.name: entry.inode() for entry in entries}
            assert found.keys() == present, f"after {number} changes, {how} {name}"
            if number % 10 == 0:
                assert found == {each: (seen / directory[1:] / each).stat().st_ino for each in present}


@contextmanager
def sessions_reader(pair: tuple[SharedSite, SharedSite], tmp_path: Path, reads_only: bool) -> Iterator[Path]:
    """Where the second session sees the store, or a third one that may write."""
    if reads_only:
        yield pair[1].store_directory
        return
    third = SharedSite(tmp_path / "third", database=pair[0].database)
    third.directory.mkdir()
    try:
        third.start()
        third.note_logs()
        yield third.store_directory
    finally:
        third.end()


def test_a_listing_that_is_under_way_while_its_directory_changes_is_not_kept(at: Site) -> None:
    """Who reads a directory in pieces while files come and go does not leave a wrong listing behind for others."""
    (notes,) = at.mount("notes")
    for number in range(300):
        (notes / f"{number:03}.md").write_text("x")
    with os.scandir(notes) as entries:
        for count, entry in enumerate(entries):
            if count % 50 == 0:
                (notes / f"new{count}.md").write_text("x")
                if entry.name not in ("a.md", "b.md"):
                    (notes / entry.name).unlink(missing_ok=True)
                assert set(os.listdir(notes)) == {each.strip("/") for each in present_in(at)}
    assert set(os.listdir(notes)) == {each.strip("/") for each in present_in(at)}


def present_in(at: Site) -> list[str]:
    """The paths that the database holds now."""
    return list(at.heads("notes"))


def test_without_the_library_everything_works_and_asks(tmp_path: Path) -> None:
    """Where pyfuse3 was loaded first, as where nothing could be compiled, its calls do not arrive at the library."""
    first = (
        f"import pyfuse3, sys; sys.argv[0] = 'memfs.cli {tmp_path / 'root'}'; from memfs.cli.__main__ import run; run()"
    )
    with site(tmp_path) as at:
        at.store("notes", a_md="alpha\n")
        mounting = [sys.executable, "-bb", "-c", first, "mount", "--root", str(at.root), "-s", "notes:read_only"]
        done = subprocess.run(mounting, env=at.environment(), cwd="/", capture_output=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stderr
        at.note_logs()
        notes = at.root / "notes"
        assert os.listdir(notes) == ["a.md"]
        assert [(notes / "a.md").read_text() for _ in range(3)] == ["alpha\n"] * 3
        with python(HELD, notes / "a.md") as reader:
            assert hear(reader) == "alpha"
            with stopped(at.worker("notes")):
                # Kept all the same, because an open asks only once; a second one would wait.
                tell(reader, "whole")
                assert hear(reader) == repr("alpha\n")
