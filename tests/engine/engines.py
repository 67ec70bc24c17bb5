"""The engines that the contract suite runs on."""

from collections.abc import Callable
from pathlib import Path

from memfs.engine import Engine, SqliteEngine

ENGINES: dict[str, Callable[[Path], Engine]] = {
    "sqlite": lambda directory: SqliteEngine(directory / "memfs.db", create=True),
}
"""How to open, and where need be make, a workspace of each kind in a directory. Opened twice, it is the same one."""
