"""In which store's mount a file lies: told by the records and the list of mounts, before the mount is asked."""

import os
from dataclasses import dataclass
from pathlib import Path

from memfs.model.errors import MountFailed, NotFound
from memfs.mount.processes import asked, kind_at, mounted_at
from memfs.mount.runtime import MountRecord, RootRecord, RootState, records

ANSWER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """A path within a store, and the mount that it was found by."""

    root: RootRecord
    mount: MountRecord
    path: str
    """Within the store; ``/`` is the store's own directory."""


def locate(file: Path) -> Place:
    """The store and path of a file below a mount of this user's; whether there is such a file is not asked.

    Raises NotFound where it lies in no such mount, MountFailed where the mount is not served.
    """
    known = records()
    # As it is written first: resolving links asks the filesystems on the way, of which one may not answer.
    absolute = Path(os.path.abspath(file))
    found = _within(known, absolute)
    if found is None:
        resolved = Path(os.path.realpath(file.parent)) / file.name
        found = _within(known, Path(os.path.abspath(resolved)))
    if found is None:
        for _, root in known:
            if any(absolute.is_relative_to(top) for top in (root.root, root.place)):
                raise NotFound(f"{file} lies beside the stores: it is scratch, in no history, and gone at unmount")
        if kind_at(absolute) == "fuse.memfs":
            raise NotFound(
                f"{file} lies in a mount that another user or container made: ask there, or ask the store by its name"
                " with 'memfs memory show'"
            )
        raise NotFound(f"{file} lies in no mounted store: 'memfs status' shows what is mounted")
    state, place = found
    top = Path(place.root.place) / Path(place.mount.path).name
    if not state.alive() or not mounted_at(top):
        raise MountFailed(f"{place.mount.path} is not mounted any more: 'memfs status' shows why")
    answer = asked(top, ANSWER_SECONDS)
    if answer == "deleted":
        raise NotFound(f"the store of {place.mount.path} was deleted")
    if answer == "silent":
        raise MountFailed(f"{place.mount.path} does not answer: see {state.log_path}")
    return place


def _within(known: list[tuple[RootState, RootRecord]], path: Path) -> tuple[RootState, Place] | None:
    for state, root in known:
        for mount in root.mounts:
            for top in (Path(mount.path), Path(root.place) / Path(mount.path).name):
                if path.is_relative_to(top):
                    inner = path.relative_to(top).as_posix()
                    return state, Place(root, mount, "/" if inner == "." else f"/{inner}")
    return None
