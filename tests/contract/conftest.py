"""One database for the tests of a module, and the three ways to it. Each test makes a store of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource
from tests.api.harness import Server, serving
from tests.contract.command_line import CliDriver
from tests.contract.in_process import WorkspaceDriver
from tests.contract.over_http import ApiDriver
from tests.contract.scene import Scene
from tests.contract.surfaces import SURFACES, Driver


@pytest.fixture(scope="module")
def shared_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module's database is."""
    return tmp_path_factory.mktemp("contract") / "memfs.db"


@pytest.fixture(scope="module")
def shared_server(shared_db: Path) -> Iterator[Server]:
    """A server on it."""
    with serving(shared_db, "--rate", "0") as running:
        yield running


@pytest.fixture(scope="module")
def shared_workspace(shared_db: Path, shared_server: Server) -> Iterator[Workspace]:
    """The same database in this process."""
    with Workspace.open(shared_db) as opened:
        yield opened


@pytest.fixture(scope="module")
def drivers(shared_db: Path, shared_server: Server, shared_workspace: Workspace) -> dict[str, Driver]:
    """All surfaces by name."""
    made = shared_workspace.stores.create("What the session is for")
    session = shared_workspace.sessions.create([Resource(made)])
    (key,) = shared_workspace.keys.list()
    found: list[Driver] = [
        WorkspaceDriver(shared_workspace, session.id),
        CliDriver(shared_db),
        ApiDriver(shared_server, key.id),
    ]
    by_name = {driver.name: driver for driver in found}
    assert tuple(by_name) == SURFACES
    return by_name


@pytest.fixture(params=SURFACES)
def surface(request: pytest.FixtureRequest, drivers: dict[str, Driver]) -> Driver:
    """The surface under test."""
    return drivers[request.param]


@pytest.fixture(scope="module")
def reference(drivers: dict[str, Driver]) -> Driver:
    """The workspace, which the others are compared with."""
    return drivers["workspace"]


@pytest.fixture
def store(surface: Driver) -> str:
    """The id of a new store, made by the surface under test."""
    made: str = surface.create_store("Notes")["id"]
    return made


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    """The scene that is prepared; whoever has spoilt it takes it out, so that the next test gets another."""
    return []


@pytest.fixture
def scene(shared_workspace: Workspace, scenes: list[Scene]) -> Scene:
    """Stores in every state, for what is refused."""
    if not scenes:
        scenes.append(Scene.prepare(shared_workspace))
    return scenes[0]
