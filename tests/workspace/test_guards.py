"""What a store's guards refuse and mask, by whatever way something is written. The detectors have tests of their own:
here they find two words only.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from memfs.model import ids
from memfs.model.errors import (
    ContentTooLarge,
    InvalidRequest,
    NotFound,
    PathConflict,
    PreconditionFailed,
    StoreArchived,
    WriteRefused,
)
from memfs.model.mutations import Create, Delete, KeepDirectory, MoveDirectory, Mutation, SetAttributes, Update
from memfs.model.paths import MAX_PATH_BYTES, MAX_SEGMENTS
from memfs.model.records import MAX_CONTENT_BYTES, NO_GUARDS, Actor, FileAttributes, Guards, Memory, Store, now
from memfs.workspace import Workspace, detectors
from memfs.workspace.guards import MAX_PATTERNS, guard_path

SECRET, PERSONAL = "hunter2", "alice@home"


@pytest.fixture(autouse=True)
def plain_detectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Detectors that find the two words, and nothing in what a mask leaves."""

    def find(text: str, kinds: Collection[detectors.Kind]) -> list[detectors.Finding]:
        words: list[tuple[detectors.Kind, str, str]] = [
            ("secret", "password", SECRET),
            ("personal_data", "address", PERSONAL),
        ]
        return sorted(
            (
                detectors.Finding(kind, label, start, start + len(word))
                for kind, label, word in words
                if kind in kinds
                for start in range(len(text))
                if text.startswith(word, start)
            ),
            key=lambda finding: finding.start,
        )

    monkeypatch.setattr(detectors, "find", find)


# What guards may be


@pytest.mark.parametrize(
    "guards",
    [
        Guards(),
        Guards("reject", "mask", 1, ("/a",)),
        Guards(max_content_bytes=MAX_CONTENT_BYTES),
        Guards(allowed_paths=("/**",)),
        Guards(allowed_paths=tuple(f"/{i}/**" for i in range(MAX_PATTERNS))),
        Guards(allowed_paths=("/é_%[a]{b,c}!~\\", "/" + "x" * (MAX_PATH_BYTES - 1), "/*" * MAX_SEGMENTS)),
    ],
)
def test_guards_are_kept_and_followed(workspace: Workspace, store: Store, guards: Guards) -> None:
    sequence = workspace.engine.snapshot(store.id).sequence
    guarded = workspace.stores.set_guards(store.id, guards)
    assert guarded == replace(store, guards=guards, updated_at=guarded.updated_at)
    assert workspace.stores.get(store.id) == guarded
    changed = workspace.engine.changes(store.id, sequence).store
    if guards == NO_GUARDS:
        assert guarded == store
        assert changed is None, "an equal store is no change"
    else:
        assert guarded.updated_at > store.updated_at
        assert changed == guarded
    assert workspace.stores.set_guards(store.id, guards) == guarded
    assert workspace.stores.set_guards(store.id, NO_GUARDS).guards == NO_GUARDS


@pytest.mark.parametrize(
    "guards",
    [
        Guards(max_content_bytes=0),
        Guards(max_content_bytes=-1),
        Guards(max_content_bytes=MAX_CONTENT_BYTES + 1),
        Guards(allowed_paths=("a",)),
        Guards(allowed_paths=("",)),
        Guards(allowed_paths=("/a/",)),
        Guards(allowed_paths=("/a", "/../b")),
        Guards(allowed_paths=("/a//b",)),
        Guards(allowed_paths=("/e\u0301",)),
        Guards(allowed_paths=("/" + "x" * MAX_PATH_BYTES,)),
        Guards(allowed_paths=("/*" * (MAX_SEGMENTS + 1),)),
        Guards(allowed_paths=tuple(f"/{i}" for i in range(MAX_PATTERNS + 1))),
    ],
)
def test_other_guards_are_refused(workspace: Workspace, store: Store, guards: Guards) -> None:
    with pytest.raises(InvalidRequest):
        workspace.stores.set_guards(store.id, guards)
    assert workspace.stores.get(store.id) == store


def test_an_archived_store_keeps_its_guards(workspace: Workspace, store: Store) -> None:
    guards = Guards(max_content_bytes=10)
    workspace.stores.set_guards(store.id, guards)
    archived = workspace.stores.archive(store.id)
    assert archived.guards == guards
    with pytest.raises(StoreArchived):
        workspace.stores.set_guards(store.id, NO_GUARDS)
    with pytest.raises(NotFound):
        workspace.stores.set_guards(ids.new_id(ids.MEMORY_STORE), guards)


# Patterns of paths

MATCHES = [
    ("/a", ["/a"], ["/b", "/a/b", "/A", "/ab"]),
    ("/*", ["/a", "/.a", "/é", "/a b", "/*"], ["/a/b"]),
    ("/*.md", ["/a.md", "/.md", "/a.b.md"], ["/a.txt", "/a/b.md", "/a.mdx", "/a.MD"]),
    ("/?", ["/a", "/é", "/\U0001f600", "/?"], ["/ab", "/a/b"]),
    ("/a?c", ["/abc", "/a.c"], ["/ac", "/a/c"]),
    ("/notes/*", ["/notes/a", "/notes/.a"], ["/notes", "/notes/a/b", "/notesa"]),
    ("/notes/**", ["/notes/a", "/notes/a/b/c", "/notes/.a/.b"], ["/notes", "/notesa", "/x/notes/a"]),
    ("/**", ["/a", "/a/b/c"], []),
    ("/**/**", ["/a", "/a/b/c"], []),
    ("/**/a.md", ["/a.md", "/b/a.md", "/b/c/a.md"], ["/ba.md", "/a.md/b"]),
    ("/a/**/b", ["/a/b", "/a/x/b", "/a/x/y/b"], ["/ab", "/a/xb", "/a/b/c"]),
    ("/a/**/**/b", ["/a/b", "/a/x/b"], ["/ab"]),
    ("/a/**/b/*", ["/a/b/c", "/a/x/b/c"], ["/a/b", "/a/b/c/d"]),
    ("/a**b", ["/ab", "/axb"], ["/a/b", "/a/x/b"]),
    ("/a*b*c", ["/abc", "/axbxc", "/abcbc", "/abbc"], ["/acb", "/ab/c"]),
    ("/*-*-*.md", ["/2026-01-02.md", "/--.md", "/a-b-c-d.md"], ["/a-b.md"]),
    ("/[ab]", ["/[ab]"], ["/a"]),
    ("/{a,b}", ["/{a,b}"], ["/a"]),
    ("/!a", ["/!a"], ["/b"]),
    ("/a\\*", ["/a\\", "/a\\b"], ["/a*"]),
    ("/a|b", ["/a|b"], ["/a", "/b"]),
    ("/~", ["/~"], []),
    ("/.+", ["/.+"], ["/ab"]),
    ("/(a)$^", ["/(a)$^"], ["/a"]),
]


@pytest.mark.parametrize("pattern, allowed, refused", MATCHES)
def test_a_pattern_is_of_whole_paths(pattern: str, allowed: list[str], refused: list[str]) -> None:
    guards = Guards(allowed_paths=(pattern,))
    for path in allowed:
        guard_path(guards, path)
        guard_path(Guards(allowed_paths=("/never", pattern)), path)
    for path in refused:
        with pytest.raises(WriteRefused, match=r"a guard of the store allows"):
            guard_path(guards, path)


@pytest.mark.parametrize(
    "pattern, path",
    [
        ("/*-*-*-*-*-*.md", "/" + "-" * (MAX_PATH_BYTES - 1)),
        ("/" + "*a" * 100 + "b", "/" + "a" * (MAX_PATH_BYTES - 1)),
        ("/**/*a*" * 5 + "/b", "/" + "/".join(["a" * 50] * (MAX_SEGMENTS - 1)) + "/c"),
        ("/**/a" * 9 + "/b", "/a" * MAX_SEGMENTS),
    ],
)
def test_no_path_keeps_a_pattern_busy(pattern: str, path: str) -> None:
    """Whoever may write chooses the path, and a mount's worker waits for the answer."""
    start = time.process_time()
    with pytest.raises(WriteRefused):
        guard_path(Guards(allowed_paths=(pattern,)), path)
    assert time.process_time() - start < 1


# By whatever way


class Writing:
    """Everything that can write to a guarded store, each as a call with a path and a content."""

    def __init__(self, workspace: Workspace, store: Store, actor: Actor) -> None:
        self.workspace = workspace
        self.store_id = store.id
        self.actor = actor
        self.attached = workspace.attached(store.id, Actor("session_actor", ids.new_id(ids.SESSION)), "read_write")
        self.there = workspace.memories.create(store.id, "/ok/there", b"there", actor)

    def old(self, path: str, content: bytes) -> Memory:
        """A memory that is not there any more, from before the guards."""
        memory = self.workspace.memories.create(self.store_id, path, content, self.actor)
        self.workspace.memories.delete(self.store_id, memory.id, self.actor)
        return memory

    def create(self, path: str, content: bytes) -> object:
        return self.workspace.memories.create(self.store_id, path, content, self.actor)

    def update(self, path: str, content: bytes) -> object:
        return self.workspace.memories.update(self.store_id, self.there.id, self.actor, content=content, path=path)

    def import_(self, path: str, content: bytes) -> object:
        return self.apply(Create(ids.new_id(ids.MEMORY), path, content))

    def apply(self, *mutations: Mutation) -> object:
        return self.workspace.memories.apply(self.store_id, mutations, self.actor)

    def save(self, path: str, content: bytes) -> object:
        return self.attached.commit([Create(ids.new_id(ids.MEMORY), path, content)])

    def rewrite(self, path: str, content: bytes) -> object:
        return self.attached.commit([Update(self.there.id, path=path, content=content)])

    def save_among_others(self, path: str, content: bytes) -> object:
        others: list[Mutation] = [Update(self.there.id, content=b"other"), KeepDirectory("/kept")]
        return self.attached.commit([*others, Create(ids.new_id(ids.MEMORY), path, content)])


WAYS = ["create", "update", "import_", "save", "rewrite", "save_among_others"]


@pytest.fixture
def writing(workspace: Workspace, store: Store, actor: Actor) -> Writing:
    return Writing(workspace, store, actor)


def everything(workspace: Workspace, store: Store) -> object:
    snapshot = workspace.engine.snapshot(store.id)
    return snapshot.sequence, workspace.memories.list(store.id, content=True), snapshot.directories


GUARDED: list[tuple[Guards, str, bytes]] = [
    (Guards(max_content_bytes=10), "/a", b"x" * 11),
    (Guards(max_content_bytes=10), "/a", "é".encode() * 5 + b"x"),
    (Guards(allowed_paths=("/ok/**", "/kept")), "/a", b"x"),
    (Guards(secrets="reject"), "/a", f"pw: {SECRET}".encode()),
    (Guards(personal_data="reject"), "/a", f"to {PERSONAL}".encode()),
    (Guards(secrets="mask", personal_data="reject"), "/a", f"{SECRET} {PERSONAL}".encode()),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("guards, path, content", GUARDED)
def test_a_guard_refuses_whatever_way_it_comes(
    workspace: Workspace, store: Store, writing: Writing, way: str, guards: Guards, path: str, content: bytes
) -> None:
    workspace.stores.set_guards(store.id, guards)
    before = everything(workspace, store)
    with pytest.raises(WriteRefused) as raised:
        getattr(writing, way)(path, content)
    assert everything(workspace, store) == before
    assert SECRET not in str(raised.value)
    assert PERSONAL not in str(raised.value)
    assert str(raised.value).isprintable()
    workspace.stores.set_guards(store.id, NO_GUARDS)
    getattr(writing, way)(path, content)  # as another store would take it


@pytest.mark.parametrize("way", WAYS)
def test_what_a_guard_allows_passes(workspace: Workspace, store: Store, writing: Writing, way: str) -> None:
    workspace.stores.set_guards(store.id, Guards("reject", "reject", 10, ("/ok/**",)))
    getattr(writing, way)("/ok/new", "é".encode() * 5)
    assert workspace.memories.get(store.id, "/ok/new").content == "é".encode() * 5


@pytest.mark.parametrize("guards, path, content", GUARDED)
def test_a_guard_refuses_what_a_restore_would_bring_back(
    workspace: Workspace, store: Store, writing: Writing, actor: Actor, guards: Guards, path: str, content: bytes
) -> None:
    gone = writing.old(path, content)
    moment = workspace.versions.list(store.id)[1]
    assert moment.id == gone.memory_version_id
    workspace.stores.set_guards(store.id, guards)
    before = everything(workspace, store)
    with pytest.raises(WriteRefused):
        workspace.versions.restore(store.id, gone.memory_version_id, actor)
    with pytest.raises(WriteRefused):
        workspace.versions.restore(store.id, gone.memory_version_id, actor, path="/a/elsewhere")
    plan = workspace.restoring.plan(store.id, version_id=moment.id)
    assert [step.action for step in plan.steps] == ["create"]
    with pytest.raises(WriteRefused):
        workspace.restoring.restore(plan, actor)
    assert everything(workspace, store) == before
    if path == "/a" and not guards.allowed_paths:
        return
    workspace.versions.restore(store.id, gone.memory_version_id, actor, path="/ok/elsewhere")


@pytest.mark.parametrize("guards, path, content", GUARDED)
def test_a_store_that_its_guards_would_refuse_cannot_be_copied(
    workspace: Workspace, store: Store, writing: Writing, actor: Actor, guards: Guards, path: str, content: bytes
) -> None:
    writing.create(path, content)
    workspace.stores.set_guards(store.id, guards)
    with pytest.raises(WriteRefused):
        workspace.stores.copy(store.id, "Copy", actor)
    assert [each.id for each in workspace.stores.list()] == [store.id]
    workspace.memories.delete(store.id, path, actor)
    copy = workspace.stores.copy(store.id, "Copy", actor)
    assert copy.guards == guards
    with pytest.raises(WriteRefused):
        workspace.memories.create(copy.id, path, content, actor)


def test_a_guard_of_paths_is_for_renames_too(
    workspace: Workspace, store: Store, writing: Writing, actor: Actor
) -> None:
    writing.apply(Create(ids.new_id(ids.MEMORY), "/d/a", b"a"), KeepDirectory("/d"))
    (inside,) = workspace.memories.list(store.id, "/d/")
    workspace.stores.set_guards(store.id, Guards(allowed_paths=("/ok/**",)))
    before = everything(workspace, store)
    for refused in (
        lambda: workspace.memories.update(store.id, writing.there.id, actor, path="/elsewhere"),
        lambda: writing.attached.commit([Update(writing.there.id, path="/elsewhere")]),
        lambda: writing.attached.commit([MoveDirectory("/d", "/e"), Update(inside.id, path="/e/a")]),
        # What lies outside stays as it is: neither its text ...
        lambda: workspace.memories.update(store.id, inside.id, actor, content=b"new"),
        lambda: writing.attached.commit([Update(inside.id, content=b"new")]),
    ):
        with pytest.raises(WriteRefused):
            refused()
    assert everything(workspace, store) == before
    # ... nor its place, but for one that is allowed; and it can be read and deleted.
    writing.attached.commit([SetAttributes(inside.id, FileAttributes(mode=0o600))])
    workspace.memories.update(store.id, inside.id, actor, path="/ok/a")
    workspace.memories.update(store.id, "/ok/a", actor, content=b"new")
    workspace.memories.delete(store.id, "/ok/a", actor)


def test_an_update_of_what_is_not_there_is_not_found_under_a_guard(
    workspace: Workspace, store: Store, writing: Writing, actor: Actor
) -> None:
    workspace.stores.set_guards(store.id, Guards(allowed_paths=("/ok/**",)))
    for memory_id in (ids.new_id(ids.MEMORY), writing.old("/ok/gone", b"x").id):
        with pytest.raises(NotFound):
            writing.attached.commit([Update(memory_id, content=b"x")])


def test_guards_do_not_touch_what_is_there(workspace: Workspace, store: Store, writing: Writing, actor: Actor) -> None:
    text = f"{SECRET} {PERSONAL}".encode()
    memory = workspace.memories.create(store.id, "/a", text, actor)
    workspace.memories.update(store.id, memory.id, actor, content=text + b"!")
    workspace.stores.set_guards(store.id, Guards("reject", "mask", 5, ("/ok/**",)))
    assert workspace.memories.get(store.id, "/a").content == text + b"!"
    assert workspace.versions.content(store.id, memory.memory_version_id) == text
    workspace.versions.redact(store.id, [memory.memory_version_id], actor)
    assert workspace.retention.prune(store.id, now()) == 1
    workspace.memories.delete(store.id, "/a", actor)
    workspace.stores.archive(store.id)
    workspace.stores.delete(store.id)


def test_guards_apply_to_whoever_attached_before(workspace: Workspace, store: Store, writing: Writing) -> None:
    writing.save("/a", b"long enough")
    workspace.stores.set_guards(store.id, Guards(max_content_bytes=5))
    with pytest.raises(WriteRefused):
        writing.save("/b", b"long enough")
    writing.save("/b", b"short")


# Masking


@pytest.mark.parametrize("way", WAYS)
def test_what_is_found_is_stored_masked(workspace: Workspace, store: Store, writing: Writing, way: str) -> None:
    workspace.stores.set_guards(store.id, Guards(secrets="mask"))
    getattr(writing, way)("/a", f"é {SECRET}\n{SECRET}{PERSONAL}\r\n".encode())
    masked = f"é [password removed]\n[password removed]{PERSONAL}\r\n".encode()
    memory = workspace.memories.get(store.id, "/a")
    assert memory.content == masked
    assert memory.content_size_bytes == len(masked)
    newest = next(version for version in workspace.versions.list(store.id, content=True) if version.path == "/a")
    assert (newest.content, newest.content_sha256) == (masked, memory.content_sha256)
    assert not [
        each for each in workspace.versions.list(store.id, content=True) if SECRET.encode() in (each.content or b"")
    ]


def test_both_kinds_are_masked_at_once(workspace: Workspace, store: Store, writing: Writing) -> None:
    workspace.stores.set_guards(store.id, Guards("mask", "mask"))
    writing.create("/a", f"{PERSONAL}:{SECRET}".encode())
    assert workspace.memories.get(store.id, "/a").content == b"[address removed]:[password removed]"
    writing.create("/none", b"nothing to find")
    assert workspace.memories.get(store.id, "/none").content == b"nothing to find"


def test_what_comes_back_from_a_write_is_what_was_stored(
    workspace: Workspace, store: Store, writing: Writing, actor: Actor
) -> None:
    workspace.stores.set_guards(store.id, Guards(secrets="mask"))
    text, masked = f"{SECRET}!".encode(), b"[password removed]!"
    made = workspace.memories.create(store.id, "/a", text, actor)
    assert made == workspace.memories.get(store.id, "/a")
    assert made.content == masked
    again = workspace.memories.update(store.id, made.id, actor, content=text)
    assert (again.changed, again.memory) == (False, made), "masked, it is what is there"
    stale = "0" * 64
    retried = workspace.memories.update(store.id, made.id, actor, content=text, expected_sha256=stale)
    assert not retried.changed
    with pytest.raises(PreconditionFailed):
        workspace.memories.update(store.id, made.id, actor, content=b"other", expected_sha256=stale)
    moved = workspace.memories.update(store.id, made.id, actor, path="/b")
    assert (moved.changed, moved.memory.content) == (True, masked)
    applied = writing.attached.commit([Update(made.id, content=b"x" + text)])
    head = applied.heads[made.id]
    assert head is not None
    assert writing.attached.content(head.version_id) == b"x" + masked
    assert head.size == len(masked) + 1


def test_a_restore_masks_what_is_brought_back(
    workspace: Workspace, store: Store, writing: Writing, actor: Actor
) -> None:
    gone = writing.old("/a", f"{SECRET}!".encode())
    moment = workspace.versions.list(store.id)[1]
    workspace.stores.set_guards(store.id, Guards(secrets="mask"))
    assert workspace.versions.restore(store.id, gone.memory_version_id, actor).memory.content == b"[password removed]!"
    workspace.memories.delete(store.id, "/a", actor)
    workspace.restoring.restore(workspace.restoring.plan(store.id, version_id=moment.id), actor)
    assert workspace.memories.get(store.id, "/a").content == b"[password removed]!"
    copy = workspace.stores.copy(store.id, "Copy", actor)
    assert workspace.memories.get(copy.id, "/a").content == b"[password removed]!"


def test_a_text_is_not_masked_beyond_the_limits(workspace: Workspace, store: Store, writing: Writing) -> None:
    """A placeholder is longer than what it stands for."""
    workspace.stores.set_guards(store.id, Guards(secrets="mask"))
    words = MAX_CONTENT_BYTES // len(SECRET)
    with pytest.raises(ContentTooLarge):
        writing.create("/a", (SECRET * words).encode())
    workspace.stores.set_guards(store.id, Guards(secrets="mask", max_content_bytes=30))
    with pytest.raises(WriteRefused, match="30 bytes"):
        writing.create("/a", (SECRET * 2).encode())
    with pytest.raises(WriteRefused, match="30 bytes"):
        writing.create("/a", b"x" * 31)
    writing.create("/a", f"{SECRET}{'x' * (30 - len('[password removed]'))}".encode())
    # Or it could neither be copied nor restored.
    workspace.stores.copy(store.id, "Copy", writing.actor)


# What is said


def test_a_refusal_names_kinds_and_lines(workspace: Workspace, store: Store, writing: Writing) -> None:
    workspace.stores.set_guards(store.id, Guards("reject", "reject"))
    with pytest.raises(WriteRefused) as raised:
        writing.create("/a", f"one\r\n{SECRET}\n\n{PERSONAL}".encode())
    assert "password in line 2, address in line 4;" in str(raised.value)
    with pytest.raises(WriteRefused, match="line 5 and 3 more; remove"):
        writing.create("/a", f"{SECRET}\n".encode() * 8)
    with pytest.raises(WriteRefused, match=r"^/b: ") as named:
        writing.save_among_others("/b", SECRET.encode())
    assert SECRET not in str(named.value)


def test_a_guard_judges_before_a_path_conflict_does(workspace: Workspace, store: Store, writing: Writing) -> None:
    """Whichever is told first: neither writes anything."""
    workspace.stores.set_guards(store.id, Guards(secrets="reject"))
    before = everything(workspace, store)
    with pytest.raises((WriteRefused, PathConflict)):
        writing.create("/ok/there", SECRET.encode())
    with pytest.raises((WriteRefused, NotFound)):
        writing.attached.commit([Delete(ids.new_id(ids.MEMORY)), Update(writing.there.id, content=SECRET.encode())])
    assert everything(workspace, store) == before


def test_no_detector_runs_where_no_guard_asks(
    workspace: Workspace, store: Store, writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Collection[detectors.Kind]] = []

    def find(text: str, kinds: Collection[detectors.Kind]) -> list[detectors.Finding]:
        asked.append(set(kinds))
        return []

    monkeypatch.setattr(detectors, "find", find)
    ways: list[Callable[[str, bytes], object]] = [writing.create, writing.save]
    for number, way in enumerate(ways):
        workspace.stores.set_guards(store.id, Guards(max_content_bytes=100, allowed_paths=("/**",)))
        way(f"/none{number}", b"x")
        assert asked == []
        workspace.stores.set_guards(store.id, Guards(personal_data="mask"))
        asked.clear()  # setting them may look whether the detectors can be had
        way(f"/one{number}", b"x%d" % number)  # what was searched a moment ago is not searched again
        assert asked == [{"personal_data"}]
        asked.clear()


# Guards that are set while a write is under way


@pytest.fixture
def set_while_judged(
    workspace: Workspace, store: Store, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Guards], list[Guards]]:
    """Has somebody set guards once, right after a write has asked for those that it is to be judged by."""

    def prepare(guards: Guards) -> list[Guards]:
        waiting = [guards]
        asked = workspace.engine.guards

        def then_set(store_id: str) -> Guards:
            found = asked(store_id)
            if waiting:
                workspace.stores.set_guards(store.id, waiting.pop())
            return found

        monkeypatch.setattr(workspace.engine, "guards", then_set)
        return waiting

    return prepare


def test_a_write_is_judged_by_the_guards_of_its_moment(
    workspace: Workspace, store: Store, writing: Writing, set_while_judged: Callable[[Guards], list[Guards]]
) -> None:
    """No write gets past guards that are set while it is judged by those before."""
    waiting = set_while_judged(Guards(secrets="reject"))
    with pytest.raises(WriteRefused):
        writing.create("/a", SECRET.encode())
    assert not waiting
    workspace.stores.set_guards(store.id, NO_GUARDS)
    set_while_judged(Guards(secrets="mask"))
    writing.save("/b", SECRET.encode())
    assert workspace.memories.get(store.id, "/b").content == b"[password removed]"
    workspace.stores.set_guards(store.id, Guards(secrets="mask"))
    set_while_judged(NO_GUARDS)
    writing.save("/c", SECRET.encode())
    assert workspace.memories.get(store.id, "/c").content == SECRET.encode(), "nor is it held to those that are gone"


def test_guards_that_are_set_meanwhile_hide_no_failed_precondition(
    workspace: Workspace, store: Store, writing: Writing, set_while_judged: Callable[[Guards], list[Guards]]
) -> None:
    set_while_judged(Guards(secrets="mask"))
    with pytest.raises(PreconditionFailed, match="read it again"):
        workspace.memories.update(store.id, "/ok/there", writing.actor, content=b"x", expected_sha256="0" * 64)
    assert workspace.memories.get(store.id, "/ok/there") == writing.there
