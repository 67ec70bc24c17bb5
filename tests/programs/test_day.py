"""A day's worth of saves by three programs in turn: the history has each of them once, and nothing else."""

import os
import shlex
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs.editors import EX
from tests.programs.sides import Side, Sides

pytestmark = [pytest.mark.mount, pytest.mark.programs]

SAVES = 1_000
NAMES = [f"{place}note {number:02}.md" for number in range(25) for place in ("", "Über/täglich/")]
"""The 50 files; their number and that of the programs have no common factor, so each program saves each file."""


def with_vim(side: Side, name: str, line: str) -> None:
    """With its swap file, and the backup that it removes after the save."""
    quietly(side, f"{EX} -c {shlex.quote(f'norm Go{line}')} -c wq {shlex.quote(name)}")


def with_sed(side: Side, name: str, line: str) -> None:
    quietly(side, f"sed -i {shlex.quote(f'$a {line}')} {shlex.quote(name)}")


def with_replace(side: Side, name: str, line: str) -> None:
    """Python's usual atomic save."""
    path = side.directory / name
    text = path.read_text() + f"{line}\n"
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)


def quietly(side: Side, command: str) -> None:
    """Run a program that must end well and say nothing."""
    done = side.run(command)
    assert (done.status, done.output, done.errors) == (0, "", ""), command


PROGRAMS: list[Callable[[Side, str, str], None]] = [with_vim, with_sed, with_replace]


@pytest.mark.timeout(300)  # 16 s on a machine that does nothing else
def test_each_save_is_one_version_of_its_memory(sides: Sides) -> None:
    assert (len(NAMES), SAVES % len(NAMES)) == (50, 0)
    texts = defaultdict(list)
    for name in NAMES:
        for side in sides.both:
            path = side.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {name}\n")
        texts[name].append(f"# {name}\n")
    for number in range(SAVES):
        name, save = NAMES[number % len(NAMES)], PROGRAMS[number % len(PROGRAMS)]
        for side in sides.both:
            save(side, name, f"{number} {save.__name__}")
        texts[name].append(f"{texts[name][-1]}{number} {save.__name__}\n")
    for side in sides.both:
        assert all(Path(side.directory, name).read_text() == texts[name][-1] for name in NAMES)

    versions = sides.site.history("notes")  # of the whole store, which no other test of this file uses
    assert [version.operation for version in versions] == ["created"] * len(NAMES) + ["modified"] * SAVES
    ids = {name: version.memory_id for name, version in zip(NAMES, versions, strict=False)}
    assert len(set(ids.values())) == len(NAMES)
    for name in NAMES:
        own = [version for version in versions if version.memory_id == ids[name]]
        assert {version.path for version in own} == {f"/{sides.mount.directory.name}/{name}"}
        assert [(version.content or b"").decode() for version in own] == texts[name]
    assert len({version.created_by.id for version in versions}) == 1
    sides.agree()
