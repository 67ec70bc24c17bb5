"""What `make install` installs is on record, by version and by the hashes of its files, and is what is tested here."""

import re
import shlex
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ("scripts/requirements.txt", "scripts/requirements-build.txt")


def locked(name: str) -> dict[str, tuple[Requirement, list[str]]]:
    """Of a file: what it names, and the hashes of each."""
    text = re.sub(r"#.*", "", (ROOT / name).read_text()).replace("\\\n", " ")
    found: dict[str, tuple[Requirement, list[str]]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        wanted, *hashes = re.split(r"\s+--hash=", line)
        requirement = Requirement(wanted)
        found[canonicalize_name(requirement.name)] = requirement, hashes
    return found


def wanted() -> list[tuple[str, str]]:
    """What pyproject.toml asks for, with the file that must have it."""
    project = PROJECT["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    runs = {line for each in lists for line in each if not line.startswith("memfs-agent")}
    return [(LOCKS[0], line) for line in sorted(runs)] + [
        (LOCKS[1], line) for line in PROJECT["build-system"]["requires"]
    ]


@pytest.mark.parametrize("name, line", wanted())
def test_each_requirement_is_locked_within_its_range(name: str, line: str) -> None:
    requirement = Requirement(line)
    found, _ = locked(name)[canonicalize_name(requirement.name)]
    (pinned,) = found.specifier
    assert pinned.operator == "=="
    assert requirement.specifier.contains(pinned.version), f"run scripts/lock: {found} is not {line}"


@pytest.mark.parametrize("name", LOCKS)
def test_each_file_that_may_come_has_its_hash(name: str) -> None:
    for requirement, hashes in locked(name).values():
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), requirement


@pytest.mark.parametrize("name", LOCKS)
def test_what_is_installed_is_what_is_locked(name: str) -> None:
    here = [
        requirement
        for requirement, _ in locked(name).values()
        if not requirement.marker or requirement.marker.evaluate()
    ]
    assert len(here) >= 5
    other = {each.name: version(each.name) for each in here if not each.specifier.contains(version(each.name))}
    assert not other, "run 'make clean install'"


def test_nothing_is_installed_without_a_hash() -> None:
    """But for memfs itself, with which nothing else comes."""
    script = (ROOT / "scripts/setup").read_text()
    calls = [shlex.split(line) for line in re.findall(r"^pip (.+)$", script, re.MULTILINE)]
    assert script.count("pip install") == 1, "all goes through the function pip"
    assert [call for call in calls if "--require-hashes" not in call] == [
        ["--no-build-isolation", "--no-deps", "-e", "."]
    ]
    assert {word for call in calls for word in call if word.startswith("scripts/")} == set(LOCKS)
