"""Engines keep a workspace's rows. The only layer with SQL; SQLite is the first engine, PostgreSQL can be the next."""

from memfs.engine.feed import Looks
from memfs.engine.protocol import Engine, Feed, Limits, Rebase, SessionFilter, VersionFilter
from memfs.engine.sqlite import SqliteEngine

__all__ = ["Engine", "Feed", "Limits", "Looks", "Rebase", "SessionFilter", "SqliteEngine", "VersionFilter"]
