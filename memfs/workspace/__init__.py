"""The rules of memfs in one place: what the command line, the API, the tool and the mounts all call."""

from memfs.engine import Feed, Looks, SessionFilter, VersionFilter
from memfs.workspace.attached import AttachedStore
from memfs.workspace.workspace import Workspace

__all__ = ["AttachedStore", "Feed", "Looks", "SessionFilter", "VersionFilter", "Workspace"]
