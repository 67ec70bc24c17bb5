"""What the tests of import and export share: texts of every kind, directories and archives that hold them."""

import io
import tarfile
from pathlib import Path

from memfs.model.records import MAX_CONTENT_BYTES, Actor, Store
from memfs.workspace import Workspace
from memfs.workspace.importing import ImportPlan, apply_import, plan_import
from memfs.workspace.sources import Source

CONTENTS = {
    "/plain.md": b"# Notes\n",
    "/crlf.txt": b"one\r\ntwo\r\n",
    "/bom.txt": b"\xef\xbb\xbftext\n",
    "/no-newline": b"no final newline",
    "/empty": b"",
    "/nul": b"a\0b\n",
    "/controls": bytes(range(32)) + b"\x7f",
    "/largest": b"x" * MAX_CONTENT_BYTES,
    # a character of every plane that has some, and those at which some readers end a line
    "/planes": "".join(chr(plane << 16 | 0x41) for plane in range(17)).encode(),
    "/separators": "a\u2028b\u2029c\x85d\x0be\x0cf\n".encode(),
    "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t": b"20 segments\n",
    "/name with spaces/é_%\\'\".md": b"odd name\n",
    "/日本/\U0001f600": b"names of other planes\n",
    "/.hidden/.file": b"hidden\n",
    "/-rf": b"an option?\n",
    "/" + "n" * 255: b"a long name\n",
    "/" + "/".join(["long" * 40] * 6): b"a long path\n",
}


def lay_out(top: Path, contents: dict[str, bytes]) -> Path:
    for path, content in contents.items():
        target = top / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return top


def read_back(top: Path) -> dict[str, bytes]:
    return {f"/{path.relative_to(top)}": path.read_bytes() for path in top.rglob("*") if path.is_file()}


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """An item for ``pack``; ``fields`` are those of TarInfo."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def packed(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    """An archive, with what Python makes of it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def memories(workspace: Workspace, store: Store) -> dict[str, bytes | None]:
    return {memory.path: memory.content for memory in workspace.memories.list(store.id, content=True)}


def imported(workspace: Workspace, store: Store, source: Source, actor: Actor) -> ImportPlan:
    """Import what can be imported; returns the plan."""
    plan = plan_import(workspace, store.id, source)
    apply_import(workspace, plan, source, actor)
    return plan
