"""``memfs stat``: what the history knows of a mounted file, by its path on this machine."""

import os
import stat as file_modes
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfs.cli.exits import exit_code
from memfs.cli.history import by
from memfs.cli.output import Format, JsonObject, format_option, line, moment, note, quiet_option, write_list
from memfs.model.contract import memory_object, version_object
from memfs.model.errors import MemfsError, NotFound
from memfs.model.records import Actor, Memory, MemoryVersion, Store, time_ns

if TYPE_CHECKING:
    from memfs.mount.locating import Place
    from memfs.workspace import Workspace

CACHED_SECONDS = 1.2
"""How long a kernel may show attributes from before a change that was made elsewhere, and some more."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the history knows of a file. ``unsaved`` is whether the file has a text that is no version yet."""

    file: str
    store: Store
    memory: Memory
    version: MemoryVersion
    unsaved: bool

    def as_json(self) -> JsonObject:
        """The object for programs; the version is the memory's head."""
        return {
            "file": self.file,
            "store_name": self.store.name,
            "memory": memory_object(self.memory),
            "version": version_object(self.version),
            "unsaved": self.unsaved,
        }

    def facts(self) -> list[tuple[str, str]]:
        """The same for people."""
        memory, version = self.memory, self.version
        return [
            ("file", self.file),
            ("memory", memory.id),
            ("path", memory.path),
            ("store", f"{self.store.name} ({self.store.id})"),
            ("version", version.id),
            ("change", f"{version.operation} {moment(version.created_at)} by {by(version.created_by.as_json())}"),
            ("created", moment(memory.created_at)),
            ("bytes", str(memory.content_size_bytes)),
            ("sha256", memory.content_sha256),
            ("unsaved", "yes: a program is writing a text that is no version yet" if self.unsaved else "no"),
        ]


@click.command("stat")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@format_option
@quiet_option("ids")
def stat(files: tuple[Path, ...], format_: Format, quiet: bool) -> None:
    """Show which memory a mounted file is, and its newest version.

    FILE is a path below a mount. Shown are the memory's id, its store and path there, the version that it is at, when
    and by whom that was made, size and SHA-256; and whether a program is writing a text that is no version yet. The
    mount's own database is asked. Directories, temporaries and files outside of stores have no history and are
    errors; the other files are shown all the same.

    \b
    Example:
      memfs stat /mnt/memory/notes/plan.md
      memfs stat --format jsonl /mnt/memory/notes/*.md
      memfs version list notes --memory "$(memfs stat -q /mnt/memory/notes/plan.md)"
    """
    found: list[Known] = []
    failed: list[MemfsError] = []
    for file in files:
        try:
            found.append(_known(file))
        except MemfsError as error:
            failed.append(error)
    if quiet:
        for known in found:
            line(known.memory.id)
    elif format_ != "table":
        write_list(format_, (known.as_json() for known in found), [], lambda _item: [])
    else:
        for text in _blocks(found):
            line(text)
    for failure in failed:
        note(f"memfs: {failure}")
    if failed:
        raise click.exceptions.Exit(exit_code(failed[0]))


def _blocks(found: list[Known]) -> Iterator[str]:
    for number, known in enumerate(found):
        if number:
            yield ""
        listed = known.facts()
        width = max(len(name) for name, _ in listed)
        yield from (f"{name:<{width}}  {value}" for name, value in listed)


def _known(file: Path) -> Known:
    """Raises NotFound for what is no memory, and what else keeps its history from being known."""
    from memfs.mount.locating import locate
    from memfs.workspace import Workspace

    place = locate(file)
    with Workspace.open(Path(place.root.database), read_only=True) as workspace:
        deadline = time.monotonic() + CACHED_SECONDS
        while True:
            known = _look(file, place, workspace)
            if not known.unsaved or time.monotonic() >= deadline:
                return known
            # What looks unsaved may be the kernel's memory of the time before a change elsewhere.
            time.sleep(0.1)


def _look(file: Path, place: "Place", workspace: "Workspace") -> Known:
    try:
        status = os.lstat(file)
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}") from None
    if file_modes.S_ISDIR(status.st_mode):
        raise NotFound(f"{file} is a directory: the memories in it have histories, itself it has none")
    store = workspace.stores.get(place.mount.memory_store_id)
    # Not memories.get(), which would put on record that somebody has read it.
    above = place.path.rpartition("/")[0] + "/"
    found = [
        each
        for each in workspace.memories.browse(store.id, above, depth=1)
        if isinstance(each, Memory) and each.path == place.path
    ]
    if not found:
        raise NotFound(f"{file} is no memory: {_what_else(place, status)}")
    (memory,) = found
    version = workspace.versions.get(store.id, memory.memory_version_id)
    return Known(os.path.abspath(file), store, memory, version, _unsaved(workspace, memory, status))


def _what_else(place: "Place", status: os.stat_result) -> str:
    from memfs.vfs import Temporaries
    from memfs.vfs.nodes import is_scratch_inode

    name = place.path.rpartition("/")[2]
    if is_scratch_inode(status.st_ino) or Temporaries(place.root.temporaries).plain(name):
        return "a temporary, in no history and gone at unmount; it becomes one when it is renamed"
    return "it is new and not saved yet, which closing it does, or 5 seconds"


def _unsaved(workspace: "Workspace", memory: Memory, status: os.stat_result) -> bool:
    """A write moves a file's time at once, and the database gets that time with the text."""
    snapshot = workspace.attached(memory.memory_store_id, Actor("user_actor", ""), "read_only").snapshot()
    head = next((head for head in snapshot.heads if head.memory_id == memory.id), None)
    if head is None or head.version_id != memory.memory_version_id:
        return True  # changed since we looked: look again
    saved = head.attributes.mtime_ns if head.attributes.mtime_ns is not None else time_ns(head.updated_at)
    return (status.st_mtime_ns, status.st_size) != (saved, head.size)
