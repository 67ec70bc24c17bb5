"""Fixtures of the tests of faults."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.injecting import Faults, build
from tests.faults.places import FaultySite, small_disk


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes calls fail."""
    return build(tmp_path_factory.mktemp("inject"))


@pytest.fixture
def faults(library: Path, tmp_path: Path, record_property: Callable[[str, object], None]) -> Iterator[Faults]:
    """The faults of this test; how many calls failed is in its report."""
    made = Faults(library, tmp_path / "rules")
    yield made
    record_property("injected", made.total)
    made.close()


@pytest.fixture
def place(tmp_path: Path, faults: Faults) -> Iterator[FaultySite]:
    """A site that faults can reach, with nothing in it."""
    made = FaultySite(tmp_path, extra=faults.environment)
    yield made
    made.end()


@pytest.fixture
def at(place: FaultySite) -> FaultySite:
    """A site with a store ``notes`` that holds nothing."""
    place.store("notes")
    return place


@pytest.fixture
def notes(at: FaultySite) -> Path:
    """The directory of the mounted store ``notes``, with a text that is known."""
    (directory,) = at.mount("notes")
    (directory / "known.md").write_text("known\n")
    return directory


@pytest.fixture
def small(tmp_path: Path, faults: Faults) -> Iterator[FaultySite]:
    """A site whose database is on a small disk of its own, with a store ``notes``."""
    with small_disk(tmp_path / "disk", 12 << 20) as disk:
        made = FaultySite(tmp_path / "site", extra=faults.environment, disk=disk)
        made.directory.mkdir()
        made.store("notes")
        yield made
        made.end()
