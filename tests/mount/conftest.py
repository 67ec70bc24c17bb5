"""Fixtures for tests on real mounts."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.harness import Site, site


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Site]:
    """A place to mount, with a store ``notes`` that holds nothing."""
    with site(tmp_path) as made:
        made.store("notes")
        yield made


@pytest.fixture
def notes(at: Site) -> Path:
    """The directory of the mounted store ``notes``."""
    (directory,) = at.mount("notes")
    return directory


@pytest.fixture(autouse=True)
def no_leaked_descriptors() -> Iterator[None]:
    """A test closes what it opens."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) <= before + 1
