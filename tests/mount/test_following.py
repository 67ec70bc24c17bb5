"""Changes made elsewhere: at the next open at once, in stat and listings soon after, and never a deadlock."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from memfs.model import ids
from memfs.model.errors import NotFound
from memfs.model.mutations import Create, Delete, Mutation, Update
from memfs.model.records import Actor
from memfs.workspace import Workspace
from tests.mount.harness import LIMIT, Site, wait_until

pytestmark = pytest.mark.mount

SOMEBODY = Actor("user_actor", "somebody")
TRUSTED = 1.0
"""Seconds for which kernels may trust attributes and names."""


class Elsewhere:
    """Another process's hands on the store ``notes``."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.store = workspace.stores.resolve("notes").id

    def put(self, path: str, text: str) -> None:
        """Create or overwrite a memory."""
        mutation: Mutation
        try:
            mutation = Update(self.workspace.memories.get(self.store, path).id, content=text.encode())
        except NotFound:
            mutation = Create(ids.new_id(ids.MEMORY), path, text.encode())
        self.workspace.memories.apply(self.store, [mutation], SOMEBODY)

    def delete(self, path: str) -> None:
        """Delete a memory."""
        memory = self.workspace.memories.get(self.store, path)
        self.workspace.memories.apply(self.store, [Delete(memory.id)], SOMEBODY)


@pytest.fixture
def elsewhere(at: Site) -> Iterator[Elsewhere]:
    with Workspace.open(at.db) as workspace:
        yield Elsewhere(workspace)


def has_size(path: Path, size: int) -> bool:
    """Whether stat shows a size."""
    return path.stat().st_size == size


def test_the_next_open_shows_what_was_closed_elsewhere(notes: Path, elsewhere: Elsewhere) -> None:
    """Whatever became of the file: longer, shorter, empty; its size and its bytes agree."""
    (notes / "a.md").write_text("short")
    for text in ("x" * 5000, "y", "", "z" * 102_400, "mid\n" * 300):
        (notes / "a.md").read_text()
        (notes / "a.md").stat()
        elsewhere.put("/a.md", text)
        assert (notes / "a.md").read_text() == text
        wait_until(partial(has_size, notes / "a.md", len(text)), "the size")


def test_names_that_come_and_go_elsewhere(notes: Path, elsewhere: Elsewhere) -> None:
    assert not (notes / "n.md").exists()
    elsewhere.put("/n.md", "hello")
    assert (notes / "n.md").read_text() == "hello"
    os.unlink(notes / "n.md")
    elsewhere.put("/n.md", "again")
    assert (notes / "n.md").read_text() == "again"
    assert os.listdir(notes) == ["n.md"]
    elsewhere.put("/deep/er/x.md", "x")
    assert (notes / "deep" / "er" / "x.md").read_text() == "x"
    elsewhere.delete("/n.md")
    elsewhere.delete("/deep/er/x.md")
    wait_until(lambda: not (notes / "n.md").exists() and os.listdir(notes) == [], "the names to go")


def test_stat_and_names_follow_without_being_asked(notes: Path, elsewhere: Elsewhere) -> None:
    """The kernel trusts what it has just been told for a second: it must be told better before that."""
    (notes / "a.md").write_text("x")
    soon = 0
    for number in range(2, 22):
        assert has_size(notes / "a.md", number - 1)
        assert not (notes / f"{number}.md").exists()
        elsewhere.put("/a.md", "y" * number)
        elsewhere.put(f"/{number}.md", "new")
        began = time.monotonic()
        wait_until(partial(has_size, notes / "a.md", number), "the size")
        wait_until((notes / f"{number}.md").exists, "the name")
        soon += time.monotonic() - began < TRUSTED / 2
    assert soon >= 5, "a busy machine is late now and then; where nobody told the kernel, it would be each time"


def test_an_open_file_follows_what_is_written_elsewhere(notes: Path, elsewhere: Elsewhere) -> None:
    (notes / "e.md").write_text("old")
    with (notes / "e.md").open() as reader:
        elsewhere.put("/e.md", "new text")

        def seen() -> bool:
            reader.seek(0)
            return reader.read() == "new text"

        wait_until(seen, "the new text")


def test_appends_follow_what_was_written_elsewhere(notes: Path, elsewhere: Elsewhere) -> None:
    """By whichever kind of descriptor, and though the kernel knows an old size."""
    for flags in (os.O_WRONLY, os.O_RDWR):
        for text in ("longer than before\n", "s\n"):
            (notes / "f").write_text("first\n")
            (notes / "f").stat()
            elsewhere.put("/f", text)
            descriptor = os.open(notes / "f", flags | os.O_APPEND)
            os.write(descriptor, b"appended\n")
            os.close(descriptor)
            assert (notes / "f").read_text() == f"{text}appended\n"


def test_two_mounts_of_a_store_see_each_other(at: Site, notes: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    at.run("mount", "--root", other, "-s", "notes")
    try:
        for number in range(20):
            writer, reader = (notes, other / "notes") if number % 2 else (other / "notes", notes)
            (writer / "shared.md").write_text(f"{number}\n" * (number + 1))
            assert (reader / "shared.md").read_text() == f"{number}\n" * (number + 1)
            os.rename(writer / "shared.md", writer / "moved.md")
            assert (reader / "moved.md").read_text() == f"{number}\n" * (number + 1)
            os.rename(reader / "moved.md", reader / "shared.md")
    finally:
        at.run("umount", other)
    assert list(at.heads("notes")) == ["/shared.md"]


def test_changes_elsewhere_while_the_mount_is_busy(notes: Path, elsewhere: Elsewhere) -> None:
    """No invalidation deadlocks a request, however the two meet."""
    (notes / "hot.md").write_text("start\n")
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            elsewhere.put("/hot.md", f"v{number}\n")
            elsewhere.put(f"/other{number % 7}.md", f"{number}")

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for number in range(60):
            done = subprocess.run(
                ["sh", "-c", "cat hot.md >/dev/null; ls >/dev/null; echo x >> hot.md; test ! -e nope"],
                cwd=notes,
                capture_output=True,
                timeout=LIMIT,
                check=False,
            )
            assert done.returncode == 0, (number, done.stderr)
    finally:
        stop.set()
        changer.join(LIMIT)


def test_deleting_elsewhere_what_is_open_and_cached_here(notes: Path, elsewhere: Elsewhere) -> None:
    """That the kernel has forgotten an entry already is no error."""
    for number in range(60):
        (notes / f"z{number}").write_text(str(number))
    os.listdir(notes)
    with (notes / "z7").open() as held:
        Path("/proc/sys/vm/drop_caches").write_text("2")
        for number in range(60):
            elsewhere.delete(f"/z{number}")
        wait_until(lambda: os.listdir(notes) == [], "the names to go")
        held.read()
    (notes / "ok").write_text("alive")
    assert (notes / "ok").read_text() == "alive"


def test_a_text_being_written_survives_its_deletion_elsewhere(at: Site, notes: Path, elsewhere: Elsewhere) -> None:
    (notes / "a.md").write_text("first")
    with (notes / "a.md").open("a") as writer:
        writer.write(" and more")
        writer.flush()
        elsewhere.delete("/a.md")
    assert (notes / "a.md").read_text() == "first and more"
    assert at.heads("notes") == {"/a.md": b"first and more"}


def test_both_texts_are_in_the_history_when_two_write_at_once(at: Site, notes: Path, elsewhere: Elsewhere) -> None:
    (notes / "d.md").write_text("base\n")
    descriptor = os.open(notes / "d.md", os.O_RDWR)
    os.pwrite(descriptor, b"MOUNT", 0)
    elsewhere.put("/d.md", "from elsewhere\n")
    os.close(descriptor)
    texts = [version.content for version in at.history("notes", "/d.md")]
    assert texts == [b"base\n", b"from elsewhere\n", b"MOUNT"]
    assert (notes / "d.md").read_text() == "MOUNT"
