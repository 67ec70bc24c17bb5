"""Fixtures for real programs on a mount beside the disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.conftest import open_device, prefix, user
from tests.mount.harness import Site, site
from tests.programs.sides import Sides

__all__ = ["mounted", "open_device", "prefix", "sides", "user"]


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    """A mounted store ``notes`` that the tests of a file share, because mounting takes longer than most of them."""
    with site(tmp_path_factory.mktemp("programs")) as made:
        made.store("notes")
        (directory,) = made.mount("notes")
        yield made, directory


@pytest.fixture
def sides(mounted: tuple[Site, Path]) -> Sides:
    """Two empty directories of this test, in the store and on the disk."""
    made, directory = mounted
    return Sides(made, directory, f"t{len(list(directory.iterdir()))}")
