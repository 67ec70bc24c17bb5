"""Memories that were set aside: renamed to a temporary's name, most likely as an editor's backup.

The store still has them at their old names. Made again in time, such a name is the memory's next version; else the
memory is deleted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import trio

from memfs.model.mutations import Delete, Mutation
from memfs.model.records import Changes, Head

ASIDE_SECONDS = 5.0
"""A memory whose name was not made again for this long is deleted."""


@dataclass(frozen=True, slots=True)
class Aside:
    """A memory that was set aside from ``path``; ``deadline`` is a trio.current_time()."""

    path: str
    head: Head
    deadline: float


class Asides:
    """The memories of one store that are set aside, by the name that each has left."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """``wake`` is called where there is a new deadline to look at."""
        self._wake = wake
        self._by_path: dict[str, Aside] = {}

    def __len__(self) -> int:
        return len(self._by_path)

    def put(self, path: str, head: Head) -> None:
        """Remember a memory whose file was renamed to a temporary's name."""
        self._by_path[path] = Aside(path, head, trio.current_time() + ASIDE_SECONDS)
        self._wake()

    def at(self, path: str) -> Aside | None:
        """What was set aside from this name."""
        return self._by_path.get(path)

    def take(self, path: str) -> Aside | None:
        """What was set aside from this name, which is made again now; it is no longer set aside."""
        return self._by_path.pop(path, None)

    # Directories: they take a name, or take the names below them along

    def below(self, path: str) -> list[Aside]:
        """What was set aside from this name or from below it."""
        under = f"{path.rstrip('/')}/"
        return [aside for name, aside in self._by_path.items() if name == path or name.startswith(under)]

    def deletions(self, path: str) -> list[Mutation]:
        """What frees a path of memories that were set aside, as a directory is made, replaced or removed there; unless
        somebody else has just saved one, who means to keep it (PreconditionFailed)."""
        return [Delete(aside.head.memory_id, expected_version=aside.head.version_id) for aside in self.below(path)]

    def drop(self, path: str) -> None:
        """Their deletion is committed."""
        for aside in self.below(path):
            del self._by_path[aside.path]

    def move(self, moves: Mapping[str, tuple[str, Head]]) -> None:
        """Directories above them were renamed, all at once: old path to new path and head."""
        taken = {old: self._by_path.pop(old) for old in moves}
        for old, (new, head) in moves.items():
            self._by_path[new] = replace(taken[old], path=new, head=head)

    # Time and others

    def due(self, now: float) -> list[Aside]:
        """Those whose time is over at ``now`` (trio.current_time())."""
        return [aside for aside in self._by_path.values() if aside.deadline <= now]

    def next_deadline(self) -> float | None:
        """When to look again, None where nothing is set aside."""
        return min((aside.deadline for aside in self._by_path.values()), default=None)

    def follow(self, changes: Changes) -> None:
        """Take out of the store's changes what the tree must not see, and let go of what others changed."""
        for aside in list(self._by_path.values()):
            memory_id = aside.head.memory_id
            if memory_id not in changes.heads:
                continue
            present = changes.heads[memory_id]
            if present is not None and present.version_id == aside.head.version_id:
                del changes.heads[memory_id]  # our own doing; its file is still set aside
            else:
                del self._by_path[aside.path]  # changed or deleted elsewhere: no longer ours to decide
