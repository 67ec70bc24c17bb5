"""Making what a test wants before its agent begins."""

import os
from collections.abc import Sequence
from pathlib import Path

from memfs.model.records import Actor, Session
from memfs.testing.given import GivenStore
from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource

GIVER = Actor("user_actor", "pytest")
"""Who wrote what was there before."""


def make_session(workspace: Workspace, stores: Sequence[GivenStore], root: Path) -> Session:
    """A session with these stores, to be mounted below ``root``.

    A memory's path may leave out the ``/`` at its beginning. Raises what the workspace says of a path or a text.
    """
    resources = []
    for given in stores:
        store = workspace.stores.create(given.name, given.description)
        for path, text in given.memories.items():
            workspace.memories.create(store.id, f"/{path.removeprefix('/')}", text.encode(), GIVER)
        resources.append(Resource(store, given.access, given.instructions))
    return workspace.sessions.create(resources, os.fspath(root))
