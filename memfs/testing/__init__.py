"""Real mounts for tests of agents: a pytest plugin, of which pytest loads ``memfs.testing.plugin`` by its entry point.

Importing this loads nothing else of memfs: every run of pytest does it where memfs is installed.
"""

from typing import TYPE_CHECKING, Any

from memfs.testing.given import GivenStore

if TYPE_CHECKING:
    from memfs.testing.history import SessionHistory

__all__ = ["GivenStore", "SessionHistory"]


def __getattr__(name: str) -> Any:
    """Load the type of ``memfs_history`` where somebody asks for it. Raises AttributeError."""
    if name == "SessionHistory":
        from memfs.testing.history import SessionHistory

        return SessionHistory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
