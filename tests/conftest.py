"""Fixtures that every layer's tests share. Everything is real: a database in a temporary directory, no stand-ins."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.model.records import Actor, Store
from memfs.workspace import Workspace, guards
from tests.soundness import assert_sound


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what mounts: it takes long, and of several processes none shall be left with it at the end."""
    mounting = {item.path for item in items if item.get_closest_marker("mount")}
    items.sort(key=lambda item: item.path not in mounting)


@pytest.fixture(autouse=True)
def nothing_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test's own detectors find is not remembered by the next one."""
    monkeypatch.setattr(guards, "_searches", guards._Searches())


@pytest.fixture
def db(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where a test's database is, or will be. In the end every invariant holds in it."""
    path = tmp_path / "memfs.db"
    yield path
    if "damaged" not in request.fixturenames:
        assert_sound(path)


@pytest.fixture
def damaged() -> None:
    """Asked for by a test that writes to its database what memfs never would."""


@pytest.fixture
def workspace(db: Path) -> Iterator[Workspace]:
    """A new workspace."""
    with Workspace.open(db, create=True) as opened:
        yield opened


@pytest.fixture
def store(workspace: Workspace) -> Store:
    """A store in the new workspace."""
    return workspace.stores.create("User preferences")


@pytest.fixture
def actor() -> Actor:
    """Somebody."""
    return Actor("user_actor", "alice")
