"""Kind: what must not take long. The limits are far above what a busy machine takes."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cases.scene import Here

pytestmark = [pytest.mark.mount, pytest.mark.timeout(300)]


@contextmanager
def at_most(seconds: float, what: str) -> Iterator[None]:
    """Fail where the body takes longer."""
    begin = time.monotonic()
    yield
    taken = time.monotonic() - begin
    assert taken < seconds, f"{what} took {taken:.2f} s, more than {seconds} s"


COMMANDS = {
    "ls": 1990,
    "ls -l": 1991,
    "find . -type f -size +0": 1990,
    "grep -rl 'note 7' .": sum(str(number).startswith("7") for number in range(1990)),
    "tar -cf - . | tar -tf -": 1991,
    "du -a .": 1991,
}


def test_programs_that_go_through_a_full_store(here: Here) -> None:
    """P01: listing, searching, packing; neither one request after another nor a listing that begins anew."""
    source = here.at.directory / "many"
    below = source / here.path.name
    below.mkdir(parents=True)
    for number in range(1990):
        (below / f"n{number:04d}.md").write_text(f"note {number}\n" * 20)
    here.at.run("store", "import", "notes", source)
    for command, lines in COMMANDS.items():
        with at_most(60, command):
            output = here.shell(command).splitlines()
        assert len(output) == lines, command
    with at_most(200, "rm"):
        here.shell("rm ./*.md")
    assert here.names() == []


@pytest.mark.parametrize("kind", ["one directory", "many directories"])
def test_looking_for_what_is_not_there(here: Here, kind: str) -> None:
    """P03: as shells, git and imports do, name after name; and then one of them is there at once."""
    with at_most(60, "looking"):
        for number in range(2000):
            name = f"missing{number % 100}" if kind == "one directory" else f"d{number % 20}/missing{number % 100}"
            assert not os.path.exists(here / name)
    here.at.run("memory", "create", "notes", "/here/missing7", "--content", "here now")
    assert (here / "missing7").read_text() == "here now"
