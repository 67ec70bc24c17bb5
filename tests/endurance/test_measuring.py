"""What ``make endure`` would find: a process that keeps more and more, and files that are left.

The load itself takes hours; nothing of it is done here.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.endurance.measuring import (
    DATABASE_BYTES,
    KEPT_BYTES,
    KEPT_DESCRIPTORS,
    VERSION_BYTES,
    Process,
    Usage,
    Use,
    busy,
    files_below,
    grown,
    use,
)
from tests.processes import hear, python, tell

WAL_BYTES = 1 << 20

LEAKING = """
import os, subprocess, sys, threading
kept = []
print("ready", flush=True)
for line in sys.stdin:
    what, count = line.split()
    for _ in range(int(count)):
        if what == "descriptors":
            kept.append(os.open("/dev/null", os.O_RDONLY))
        elif what == "threads":
            kept.append(threading.Thread(target=threading.Event().wait, daemon=True))
            kept[-1].start()
        elif what == "children":
            kept.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
        else:
            kept.append(bytearray(b"x" * (1 << 20)))
    print("done", flush=True)
for each in kept:
    if isinstance(each, subprocess.Popen):
        each.communicate()
"""


NOTHING = Usage({}, 1000, 2000, 3, 5, frozenset({"/a"}), 4)

MOST_DESCRIPTORS = max(KEPT_DESCRIPTORS.values())
MOST_MIB = max(KEPT_BYTES.values()) >> 20


@pytest.fixture(scope="module")
def moments() -> dict[str, Use]:
    """What a process used at first, and each time after it was told to keep something more."""
    with python(LEAKING) as process:
        assert hear(process) == "ready"
        found = {"at first": use(process.pid)}
        kept = {"descriptors": MOST_DESCRIPTORS + 1, "threads": 1, "children": 1, "memory": MOST_MIB + 2}
        for what, count in kept.items():
            tell(process, f"{what} {count}")
            assert hear(process) == "done"
            found[what] = use(process.pid)
    return found


def told(kind: str, before: Use, after: Use) -> list[str]:
    """What is told of a process of a kind."""
    watched = [Process(kind, "it", 0)]
    was, now = (replace(NOTHING, processes={"it": each}) for each in (before, after))
    return [*busy(watched, was, now), *grown(watched, was, now, WAL_BYTES)]


@pytest.mark.parametrize("kind", sorted(KEPT_BYTES))
def test_what_a_process_keeps_is_found(moments: dict[str, Use], kind: str) -> None:
    at_first, descriptors, threads, children, memory = moments.values()
    assert told(kind, at_first, at_first) == []
    assert any(
        f"has {MOST_DESCRIPTORS + 1 + at_first.descriptors}" in each for each in told(kind, at_first, descriptors)
    )
    allowed = at_first.descriptors + KEPT_DESCRIPTORS[kind]
    assert told(kind, at_first, replace(at_first, descriptors=allowed)) == []
    assert told(kind, at_first, replace(at_first, descriptors=allowed + 1)) != []
    assert any("threads" in each for each in told(kind, descriptors, threads))
    assert any("children" in each for each in told(kind, threads, children))
    assert any("MiB" in each for each in told(kind, children, memory))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"wal_bytes": WAL_BYTES + 1}, "the WAL has"),
        ({"database_bytes": 2001 + DATABASE_BYTES}, "the database had"),
        ({"database_bytes": 2001 + DATABASE_BYTES + VERSION_BYTES, "versions": 6}, "1 versions more"),
        ({"memories": 4}, "memories"),
        ({"files": frozenset({"/a", "/b"})}, "not there: /b"),
        ({"mounts": 5}, "mounts"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_else_has_grown_is_found(change: dict[str, object], words: str) -> None:
    assert not list(grown([], NOTHING, NOTHING, WAL_BYTES))
    (found,) = grown([], NOTHING, replace(NOTHING, **change), WAL_BYTES)  # type: ignore[arg-type]  # each is of its field
    assert words in found


def test_files_are_those_of_one_filesystem(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("")
    (tmp_path / "link").symlink_to("/proc")
    found = files_below(tmp_path, tmp_path / "missing")
    assert found == {str(tmp_path / name) for name in ("a", "a/b", "link")}
