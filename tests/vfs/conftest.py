"""Fixtures of the filesystem's tests: each filesystem is settled and checked when its test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from memfs.model.records import Store
from memfs.workspace import Workspace
from tests.vfs.harness import Files


@pytest.fixture
def files(workspace: Workspace, store: Store) -> Iterator[Files]:
    """An empty store's filesystem."""
    made = Files(workspace, store)
    yield made
    trio.run(made.settle)
    made.check()


@pytest.fixture
def other(files: Files, db: Path, store: Store) -> Iterator[Files]:
    """Another session's filesystem on the same store, with a workspace of its own."""
    with Workspace.open(db) as workspace:
        made = Files(workspace, store, session="sesn_2")
        made.compare_inodes = files.compare_inodes = False
        yield made
        trio.run(files.settle)
        trio.run(made.settle)
        trio.run(files.fs.refresh)
        made.check()
