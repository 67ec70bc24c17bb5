"""One server for the tests of a module, on a database of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.harness import Server, serving


@pytest.fixture(scope="module")
def server_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module's database is."""
    return tmp_path_factory.mktemp("api") / "memfs.db"


@pytest.fixture(scope="module")
def server(server_db: Path) -> Iterator[Server]:
    """A server without a limit of its rate; its tests make stores of their own."""
    with serving(server_db, "--rate", "0") as running:
        yield running


@pytest.fixture
def store(server: Server) -> str:
    """The path of a new store."""
    return server.store()
