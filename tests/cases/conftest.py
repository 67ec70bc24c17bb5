"""Fixtures for the kinds of fault that others met: one mount a module, and a fresh directory in it for each test."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.scene import Here
from tests.mount.harness import Site, site


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A mounted store ``notes`` to write in, and ``rules`` that can only be read; checked and taken down at the end."""
    with site(tmp_path_factory.mktemp("cases")) as made:
        made.store("notes")
        made.store("rules", a_md="# Rules\n\nTabs.\n", b_md="two\n" * 2000)
        made.mount("notes", "rules:read_only")
        yield made


@pytest.fixture
def here(shelves: Site, request: pytest.FixtureRequest) -> Iterator[Here]:
    """An empty directory in the mounted store ``notes``, removed at the end with all that is in it."""
    made = Here(shelves, shelves.root / "notes" / "here")
    made.path.mkdir()
    yield made
    shutil.rmtree(made.path)


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Site]:
    """A place of the test's own to mount at, with an empty store ``notes``."""
    with site(tmp_path) as made:
        made.store("notes")
        yield made


@pytest.fixture(autouse=True)
def no_leaked_descriptors() -> Iterator[None]:
    """A test closes what it opens."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) <= before + 1
