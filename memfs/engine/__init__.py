"""Engines keep a workspace's rows. The only layer with SQL; SQLite is the first engine, PostgreSQL can be the next."""

from memfs.engine.protocol import Engine, Limits, VersionFilter
from memfs.engine.sqlite import SqliteEngine

__all__ = ["Engine", "Limits", "SqliteEngine", "VersionFilter"]
