"""Which names are editor temporaries (DESIGN.md 13), and that temporaries are scratch."""

import errno
import os

import pytest

from memfs.model.errors import ContentNotText, ContentTooLarge
from memfs.model.records import MAX_CONTENT_BYTES
from memfs.vfs import Filesystem, Temporaries
from memfs.workspace import Workspace
from tests.vfs.harness import EXCLUSIVE, SAVE, WRITE, Files, in_trio, refused

ALWAYS = [
    "notes.md~",
    "#notes.md#",
    ".#notes.md",
    ".notes.md.swp",
    ".notes.md.swo",
    ".notes.md.swpx",
    ".notes.md.un~",
    "4913",
    ".nfs000000000001",
    ".goutputstream-ABC123",
    ".notes.md.kate-swp",
    ".~lock.notes.odt#",
    "notes.tmp",
    ".tmp",
    ".tmpAbC",
    "notes.md.tmp.1234.1700000000",
    "notes.vsctmp",
    "notes.md___jb_tmp___",
    "notes.md___jb_old___",
    "notes.part",
]

ONLY_EXCLUSIVE = [
    "sedAbC123",
    "tmpab_1xyz9",
    "tmp.AbCdEf1234",
    ".notes.md.AbC123",
    "perlAbCd1234",
    "XXAbC123",
    "notes.md.1234567890",
    "notes.md.0123456789ab",
]

NEVER = [
    "notes.md",
    "README",
    "a.b",
    "tmp",
    "temporary",
    "template.md",
    "sedate",
    "part",
    "swp",
    ".hidden",
    ".config",
    "notes.swp",
    "a~b",
    "#1",
    "#1 priority.md",
    "49130",
    "notes.tmpl",
    "日本語.md",
]

NEVER += ["sedate99.md", "perl.md", "2024.md", "report.2024", "tmp.md"]


@pytest.mark.parametrize("name", ALWAYS)
def test_13_names_that_are_always_temporaries(name: str) -> None:
    assert Temporaries().match(name, exclusive=False)
    assert Temporaries().match(name, exclusive=True)


@pytest.mark.parametrize("name", ONLY_EXCLUSIVE)
def test_13_shapes_that_people_use_too_need_o_excl(name: str) -> None:
    assert Temporaries().match(name, exclusive=True)
    assert not Temporaries().match(name, exclusive=False)


def test_13_an_ordinary_word_that_looks_like_one_is_none_without_o_excl() -> None:
    assert not Temporaries().match("sedatives", exclusive=False)


@pytest.mark.parametrize("name", NEVER)
def test_13_names_that_are_no_temporaries_however_they_are_made(name: str) -> None:
    assert not Temporaries().match(name, exclusive=False)
    assert not Temporaries().match(name, exclusive=True)


def test_13_the_patterns_are_configurable() -> None:
    mine = Temporaries(["*.draft"], [r"x\d+"])
    assert mine.match("a.draft", exclusive=False)
    assert mine.match("x1", exclusive=True)
    assert not mine.match("x1", exclusive=False)
    assert not mine.match("a~", exclusive=False)
    assert not Temporaries([], []).match("", exclusive=True)
    assert not Temporaries([], []).match("a~", exclusive=True)


@in_trio
async def test_13_scratch_holds_any_bytes_and_nobody_else_sees_it(files: Files, other: Files) -> None:
    await files.write("/.notes.md.swp", b"\xff\xfe" * MAX_CONTENT_BYTES)
    assert files.file("/.notes.md.swp").size == 2 * MAX_CONTENT_BYTES
    assert files.history() == []
    await other.fs.refresh()
    assert await other.names() == []
    assert Filesystem(files.fs.store).tree.root.children == {}


@in_trio
async def test_13_scratch_counts_against_no_limit_of_memories(files: Files) -> None:
    before = files.fs.statfs().f_ffree
    await files.write("/a.tmp", "x")
    await files.write("/sedAbC123", "x", EXCLUSIVE)
    assert files.fs.statfs().f_ffree == before
    await files.write("/a", "x")
    assert files.fs.statfs().f_ffree == before - 1


@in_trio
async def test_13_renamed_onto_a_memory_scratch_is_judged(files: Files) -> None:
    await files.write("/a", "old")
    await files.write("/a.tmp", b"caf\xe9")
    with pytest.raises(ContentNotText):
        await files.rename("/a.tmp", "/a")
    await files.write("/b.tmp", b"x" * (MAX_CONTENT_BYTES + 1))
    with pytest.raises(ContentTooLarge):
        await files.rename("/b.tmp", "/a")
    with pytest.raises(ContentTooLarge):
        await files.rename("/b.tmp", "/b")
    assert await files.read("/a") == "old"
    assert await files.names() == ["a", "a.tmp", "b.tmp"]
    await files.write("/a.tmp", "new")
    await files.rename("/a.tmp", "/a")
    assert files.history() == ["created /a old", "modified /a new"]


@pytest.fixture
def small(workspace: Workspace) -> Files:
    """A filesystem with room for 10 bytes of scratch."""
    return Files(workspace, workspace.stores.create("Small"), scratch_bytes=10)


@in_trio
async def test_13_scratch_has_a_limit_of_bytes_and_gives_them_back(small: Files) -> None:
    await small.write("/a.tmp", "123456")
    handle = await small.open("/b.tmp", SAVE)
    small.put(handle, 0, "1234")
    with refused(errno.ENOSPC):
        small.put(handle, 4, "5")
    with refused(errno.EFBIG):
        small.put(handle, 1 << 40, "5")
    with refused(errno.ENOSPC):
        await small.fs.set_attributes(handle.node.inode, size=1 << 40)
    # What is overwritten is no more; what is unlinked counts while somebody holds it.
    small.put(handle, 0, "abcd")
    await small.unlink("/b.tmp")
    with refused(errno.ENOSPC):
        await small.write("/a.tmp", "1234567")
    await small.close(handle)
    await small.write("/a.tmp", "1234567890")
    # A memory's bytes are no scratch: by rename to and fro.
    await small.rename("/a.tmp", "/a")
    await small.write("/b.tmp", "1234567890")
    with refused(errno.ENOSPC):
        await small.rename("/a", "/a~")
    assert await small.read("/a") == "1234567890"
    await small.rename("/b.tmp", "/a")
    await small.rename("/a", "/a~")
    await small.settle()
    small.check()


@in_trio
async def test_13_scratch_that_is_replaced_gives_its_bytes_back(small: Files) -> None:
    await small.write("/a.tmp", "12345")
    await small.write("/b.tmp", "12345")
    await small.rename("/a.tmp", "/b.tmp")
    await small.write("/c.tmp", "12345")
    await small.write("/c.tmp", "1234", WRITE | os.O_TRUNC)
    small.check()


@in_trio
async def test_13_scratch_whose_name_others_take_gives_its_bytes_back(workspace: Workspace) -> None:
    store = workspace.stores.create("Small")
    here, there = Files(workspace, store, scratch_bytes=10), Files(workspace, store)
    await here.write("/a~", "1234567890")
    await there.write("/b", "theirs")
    await there.rename("/b", "/c")
    await there.fs.mkdir(1, b"a~", 0o755)
    await here.fs.refresh()
    assert isinstance(here.node("/a~").inode, int)
    await here.write("/b~", "1234567890")
    here.check()


@in_trio
async def test_13_git_is_refused(files: Files) -> None:
    await files.write("/a", "x")
    for attempt in (files.mkdir("/.git"), files.write("/.git", "gitdir: /x"), files.rename("/a", "/.git")):
        with refused(errno.EPERM):
            await attempt
    await files.write("/.gitignore", "*.pyc")
