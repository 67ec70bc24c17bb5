"""What is put on record of merges: the version that a writer started from, and conflicts (DESIGN.md 8)."""

from hashlib import sha256

import pytest

from memfs.engine import VersionFilter
from memfs.model.errors import MemoryChanged, WriteRefused
from memfs.model.mutations import Edit, Update
from memfs.model.records import Actor, ConflictPolicy, Guards, MemoryVersion, Merged, Store
from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource


class Writers:
    """Two who started from the same version of one memory, of which the other one has saved already."""

    def __init__(self, workspace: Workspace, store: Store, base: str, theirs: str) -> None:
        self.workspace, self.store = workspace, store
        self.other, self.me = Actor("user_actor", "other"), Actor("session_actor", "sesn_1")
        memory = workspace.memories.create(store.id, "/f", base.encode(), self.other)
        self.memory_id = memory.id
        self.edit = Edit(memory.memory_version_id, sha256(base.encode()).hexdigest())
        workspace.memories.update(store.id, "/f", self.other, content=theirs.encode())

    def save(self, text: str, on_conflict: ConflictPolicy = "merge") -> str:
        """Save what was made from the base; returns what is there then."""
        update = Update(self.memory_id, content=text.encode(), edit=self.edit)
        self.workspace.memories.apply(self.store.id, [update], self.me, on_conflict=on_conflict)
        content = self.workspace.memories.get(self.store.id, "/f").content
        assert content is not None
        return content.decode()

    def versions(self, *, conflicts: bool = False) -> list[MemoryVersion]:
        """The newest first."""
        return list(self.workspace.versions.list(self.store.id, VersionFilter(conflicts=conflicts)))


def test_a_merge_says_what_its_writer_started_from(workspace: Workspace, store: Store) -> None:
    """And that it is none for everything else."""
    writers = Writers(workspace, store, "a\nb\n", "a\nB\n")
    assert writers.save("A\nb\n") == "A\nB\n"
    merged, theirs, base = writers.versions()
    assert merged.merged == Merged(base.id, conflict=False)
    assert (theirs.merged, base.merged) == (None, None)
    assert writers.versions(conflicts=True) == []
    assert workspace.versions.get(store.id, merged.id).merged == merged.merged


def test_conflicts_are_listed_and_go_with_their_versions(workspace: Workspace, store: Store) -> None:
    """What is pruned leaves no row behind."""
    writers = Writers(workspace, store, "a\n", "theirs\n")
    assert writers.save("ours\n") == "ours\n"
    (conflict,) = writers.versions(conflicts=True)
    assert conflict.merged == Merged(writers.edit.base_version_id, conflict=True)
    workspace.memories.update(store.id, "/f", writers.other, content=b"later")
    assert writers.versions(conflicts=True) == [conflict]
    assert workspace.engine.prune(store.id, "9999-12-31T23:59:59Z", limit=100) == 3
    assert writers.versions(conflicts=True) == []


def test_what_is_there_already_makes_no_version(workspace: Workspace, store: Store) -> None:
    """Both did the same, or the later one only what the other had done too."""
    writers = Writers(workspace, store, "a\nb\n", "A\nB\n")
    assert writers.save("A\nB\n") == "A\nB\n"
    assert writers.save("A\nb\n") == "A\nB\n"
    assert len(writers.versions()) == 2


def test_policies(workspace: Workspace, store: Store) -> None:
    """Without any, what an update started from does not matter."""
    writers = Writers(workspace, store, "a\nb\n", "a\nB\n")
    with pytest.raises(MemoryChanged):
        writers.save("A\nb\n", "fail")
    assert len(writers.versions()) == 2
    assert writers.save("A\nb\n", "overwrite") == "A\nb\n"


def test_guards_judge_what_a_merge_makes(workspace: Workspace, store: Store) -> None:
    """Each text alone may be small enough; where both together are not, the later one stays, and that is a conflict."""
    writers = Writers(workspace, store, "a\n", "a\n" + "b" * 60)
    workspace.stores.set_guards(store.id, Guards(max_content_bytes=100))
    ours = "c" * 60 + "\na\n"
    assert writers.save(ours) == ours
    assert len(writers.versions(conflicts=True)) == 1
    with pytest.raises(WriteRefused):
        writers.save("c" * 101)


def test_a_sessions_policy_is_fixed_with_it(workspace: Workspace, store: Store) -> None:
    """Like its stores."""
    session = workspace.sessions.create([Resource(store, on_conflict="fail")])
    assert workspace.sessions.get(session.id).attachments[0].on_conflict == "fail"
    assert workspace.sessions.create([Resource(store)]).attachments[0].on_conflict == "merge"
    with pytest.raises(Exception, match="that is fixed"):
        workspace.sessions.take_up([Resource(store)], "/mnt/memory", session.id)
    assert workspace.sessions.take_up([Resource(store, on_conflict="fail")], "/mnt/memory", session.id)[0] == session
