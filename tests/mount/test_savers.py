"""How programs save: one version of the same memory each, nothing left beside it, and in a full store too."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.engine import VersionFilter
from memfs.model import ids
from memfs.model.mutations import Create
from memfs.model.records import MAX_MEMORIES, Actor, Memory, MemoryVersion
from memfs.workspace import Workspace
from tests.mount.harness import LIMIT, Site, shell, site
from tests.mount.savers import SAVERS

pytestmark = pytest.mark.mount


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two stores, both mounted: ``few`` has a memory for each saver, ``full`` has as many as there may be."""
    with site(tmp_path_factory.mktemp("savers")) as made:
        for store, count in (("few", 0), ("full", MAX_MEMORIES - len(SAVERS))):
            made.store(store)
            names = [f"{saver}.md" for saver in SAVERS] + [f"other{number:04d}.md" for number in range(count)]
            with Workspace.open(made.db) as workspace:
                store_id = workspace.stores.resolve(store).id
                mutations = [Create(ids.new_id(ids.MEMORY), f"/{name}", b"before\n") for name in names]
                workspace.memories.apply(store_id, mutations, Actor("user_actor", "ada"))
        made.mount("few", "full")
        yield made


def look(at: Site, store: str, path: str) -> tuple[Memory, list[MemoryVersion], int]:
    """The memory at a path, its versions, the oldest first, and how many versions the store has."""
    with Workspace.open(at.db, read_only=True) as workspace:
        store_id = workspace.stores.resolve(store).id
        memory = workspace.memories.get(store_id, path)
        versions = workspace.versions.list(store_id, VersionFilter(memory_id=memory.id), content=True)[::-1]
        return memory, versions, len(workspace.versions.list(store_id))


@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("store", ["few", "full"])
def test_a_save_is_one_version_of_the_same_memory(place: Site, store: str, saver: str) -> None:
    """13 and 4; with ``full`` also 9: at the limit, existing memories can be saved by every program."""
    directory, name = place.root / store, f"{saver}.md"
    names = sorted(os.listdir(directory))
    before, _, count = look(place, store, f"/{name}")
    SAVERS[saver](directory, name, b"after\n")
    assert (directory / name).read_bytes() == b"after\n"
    after, versions, count_after = look(place, store, f"/{name}")
    assert after.id == before.id
    assert [(version.operation, version.content) for version in versions] == [
        ("created", b"before\n"),
        ("modified", b"after\n"),
    ]
    assert count_after == count + 1, "a temporary became a version"
    assert sorted(os.listdir(directory)) == names


def test_what_people_make_beside_a_memory_is_a_memory(at: Site, notes: Path) -> None:
    """Copies and new files with names that temporaries have too, by the tools that make them."""
    (notes / "plan.md").write_text("plan")
    shell(
        "cp plan.md plan.md.20241130; cp plan.md plan.md.backup; cp -a plan.md plan.md.old2024;"
        'cp plan.md "plan.md.$(date +%s)"; cp plan.md plan.md.2; cp plan.md plan.mdbackup; cp plan.md .plan.backup;'
        "set -C; echo a > tmpreview; echo b > sedatives; echo c > .tmpl; echo d > notes.2024; echo e > 4914;"
        "echo f > chapter.part; echo g > draft.tmp.md; echo h > tmp_meeting; echo i > XXhidden",
        notes,
    )
    at.run("umount", at.root)
    heads = at.heads("notes")
    copies = [path for path in heads if "plan" in path]
    assert len(copies) == 8
    assert {heads[path] for path in copies} == {b"plan"}
    assert {path: text.decode().strip() for path, text in heads.items() if path not in copies} == {
        "/tmpreview": "a",
        "/sedatives": "b",
        "/.tmpl": "c",
        "/notes.2024": "d",
        "/4914": "e",
        "/chapter.part": "f",
        "/draft.tmp.md": "g",
        "/tmp_meeting": "h",
        "/XXhidden": "i",
    }


def test_what_git_apply_changes_is_made_anew(at: Site, notes: Path) -> None:
    """It removes the file and makes another one: `deleted`, and a new memory."""
    git = shutil.which("git")
    assert git is not None, "git is missing: install it"
    (notes / "a.md").write_text("one\n")
    patch = "--- a/a.md\n+++ b/a.md\n@@ -1 +1 @@\n-one\n+two\n"
    subprocess.run([git, "apply", "-"], input=patch, cwd=notes, text=True, check=True, timeout=LIMIT)
    assert at.operations("notes") == [
        ("created", "/a.md", b"one\n"),
        ("deleted", "/a.md", None),
        ("created", "/a.md", b"two\n"),
    ]


# Configured


def test_each_mount_has_its_own_temporaries(at: Site) -> None:
    """By options, over the restart of a worker, and told by status."""
    arguments = ["--temporary", "*.draft", "--temporary", "out-?", "--not-temporary", "keep*"]
    at.run("mount", "--root", at.root, "-s", "notes", *arguments)
    at.note_logs()
    notes = at.root / "notes"

    def make(*names: str) -> None:
        for name in names:
            (notes / name).write_text(name)

    make("a.draft", "out-1", "keep.draft", "keep.tmp", "b.tmp", "c.md")
    assert sorted(at.heads("notes")) == ["/c.md", "/keep.draft", "/keep.tmp"]
    (mount,) = at.status()
    assert mount["temporaries"] == {"defaults": True, "added": ["*.draft", "out-?"], "excepted": ["keep*"]}
    assert f"temporaries of {notes}: also *.draft out-?, not keep*\n" in at.run("status").stdout
    at.restart_worker("notes")
    make("d.draft", "keep.draft~", "e.tmp", "f.md")
    assert sorted(at.heads("notes")) == ["/c.md", "/f.md", "/keep.draft", "/keep.draft~", "/keep.tmp"]
    at.run("umount", at.root)
    at.mount("notes")
    make("a.draft")
    assert "/a.draft" in at.heads("notes")
    (mount,) = at.status()
    assert mount["temporaries"] == {"defaults": True, "added": [], "excepted": []}
    assert "temporaries of" not in at.run("status").stdout
    at.expected_log += ["a worker died"]


def test_a_mount_without_the_defaults(at: Site) -> None:
    """Every name is a memory but those that were added; the environment adds too."""
    at.extra["MEMFS_TEMPORARY"] = "*.swp *.draft"
    at.extra["MEMFS_NOT_TEMPORARY"] = "b.*"
    at.run("mount", "--root", at.root, "-s", "notes", "--no-default-temporaries")
    at.note_logs()
    for name in ("a.tmp", "a~", "a.draft", "b.draft", ".a.swp"):
        (at.root / "notes" / name).write_text(name)
    assert sorted(at.heads("notes")) == ["/a.tmp", "/a~", "/b.draft"]
    assert "none of the defaults, also *.swp *.draft, not b.*" in at.run("status").stdout


@pytest.mark.parametrize(
    "arguments,reason",
    [
        (["--temporary", "*"], "--temporary: '*' matches every name"),
        (["--temporary", "a/*.md"], "--temporary: 'a/*.md' has a '/'"),
        (["--temporary", ""], "--temporary: the pattern is empty"),
        (["--not-temporary", "[a"], "--not-temporary: '[a' has a '[' without its ']'"),
        (["--not-temporary", "a\nb"], "--not-temporary: 'a\\nb' holds a character"),
    ],
    ids=["all", "path", "empty", "bracket", "newline"],
)
def test_a_bad_pattern_is_refused_before_anything_is_mounted(at: Site, arguments: list[str], reason: str) -> None:
    done = at.run("mount", "--root", at.root, "-s", "notes", *arguments, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"memfs: {reason}")
    assert done.stderr.count("\n") == 1
    assert at.status() == []
    assert not at.root.exists()
