"""Fixtures of the contract suite: each test runs on every engine."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memfs.engine import Engine
from tests.engine.engines import ENGINES
from tests.engine.harness import new_store


@pytest.fixture(params=ENGINES)
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Engine]:
    """Opens the test's workspace, each time as another process would."""
    opener = ENGINES[request.param]
    return lambda: opener(tmp_path)


@pytest.fixture
def engine(reopen: Callable[[], Engine]) -> Iterator[Engine]:
    with closing(reopen()) as opened:
        yield opened


@pytest.fixture
def store_id(engine: Engine) -> str:
    return new_store(engine)
