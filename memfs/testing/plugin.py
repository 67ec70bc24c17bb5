"""Fixtures that give a test a workspace, stores, a session, its mounts, and what the history says afterwards.

pytest loads this module in every run where memfs is installed. So it imports nothing else of memfs before a fixture is
used, and does nothing.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from memfs.model.records import Session, Store
    from memfs.testing.given import GivenStore
    from memfs.testing.history import SessionHistory
    from memfs.workspace import Workspace


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option ``--memfs-require``."""
    parser.getgroup("memfs").addoption(
        "--memfs-require",
        action="store_true",
        help="Fail tests that need a mount where none can be made, instead of skipping them.",
    )


@pytest.fixture
def memfs_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for everything of memfs in this test; ``tmp_path`` stays the test's own."""
    return tmp_path_factory.mktemp("memfs")


@pytest.fixture
def memfs_database(memfs_directory: Path) -> Path:
    """The database, for commands that want ``--db`` or MEMFS_DB."""
    return memfs_directory / "database" / "memfs.db"


@pytest.fixture
def memfs_workspace(memfs_database: Path) -> "Iterator[Workspace]":
    """A new workspace."""
    from memfs.workspace import Workspace

    with Workspace.open(memfs_database, create=True) as workspace:
        yield workspace


@pytest.fixture
def memfs_stores() -> "Sequence[GivenStore]":
    """Which stores the session shall have: one that is empty. Override it, or parametrize it."""
    from memfs.testing.given import GivenStore

    return [GivenStore()]


@pytest.fixture
def memfs_session(
    memfs_workspace: "Workspace", memfs_stores: "Sequence[GivenStore]", memfs_directory: Path
) -> "Iterator[Session]":
    """A session with the stores of ``memfs_stores``, which ends with the test."""
    from memfs.testing.making import make_session

    session = make_session(memfs_workspace, memfs_stores, memfs_directory / "memory")
    yield session
    memfs_workspace.sessions.end(session.id)


@pytest.fixture
def memfs_store(memfs_workspace: "Workspace", memfs_session: "Session") -> "Store":
    """The first of the session's stores."""
    return memfs_workspace.stores.get(memfs_session.attachments[0].memory_store_id)


@pytest.fixture
def memfs_root(
    request: pytest.FixtureRequest, memfs_session: "Session", memfs_database: Path, memfs_directory: Path
) -> Iterator[Path]:
    """The directory in which the session's stores are mounted, each under its slug; taken down after the test.

    Where nothing can be mounted the test is skipped with the reason, or fails with ``--memfs-require``.
    """
    reason = _missing()
    if reason is not None and request.config.getoption("--memfs-require"):
        pytest.fail(f"memfs cannot mount here: {reason}", pytrace=False)
    if reason is not None:
        pytest.skip(f"memfs cannot mount here: {reason}")
    from memfs.testing.mounting import mounted

    with mounted(memfs_session, memfs_database, memfs_directory / "memory", memfs_directory / "memfs.log") as root:
        yield root


def _missing() -> str | None:
    """What mounting needs and this system does not have, with what to do; None where all is there."""
    from memfs.mount import system
    from memfs.mount.processes import can_mount

    mounting = can_mount()
    for found in (
        system.fuse_device(Path("/dev/fuse")),
        system.fusermount3(os.environ.get("PATH", os.defpath), Path("/proc/self/status"), mounting=mounting),
    ):
        if found.state == "missing":
            return f"{found.check}: {found.found}; {found.next_step}"
    return None


@pytest.fixture
def memfs_mount(memfs_root: Path, memfs_session: "Session") -> Path:
    """The directory of the first store, mounted."""
    return memfs_root / Path(memfs_session.attachments[0].mount_path).name


@pytest.fixture
def memfs_history(memfs_workspace: "Workspace", memfs_session: "Session") -> "SessionHistory":
    """What the history says: ask it after the agent has done its work."""
    from memfs.testing.history import SessionHistory

    return SessionHistory(memfs_workspace, memfs_session)
