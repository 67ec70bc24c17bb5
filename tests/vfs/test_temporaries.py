"""Which names are editor temporaries (DESIGN.md 13), and that temporaries are scratch."""

import errno
import os
import re
import time

import pytest

from memfs.model.errors import ContentNotText, ContentTooLarge, InvalidRequest
from memfs.model.records import MAX_CONTENT_BYTES
from memfs.vfs import Filesystem, Temporaries
from memfs.vfs.temporaries import TemporaryNames, check_names
from memfs.workspace import Workspace
from tests.vfs.harness import EXCLUSIVE, SAVE, WRITE, Files, in_trio, refused

ALWAYS = [
    "notes.md~",
    "notes.md.~1~",
    "#notes.md#",
    ".#notes.md",
    ".#-emacsQx3fZ1",
    ".notes.md.swp",
    ".notes.md.swo",
    ".notes.md.swx",
    ".notes.md.swpx",
    ".notes.md.un~",
    ".nfs000000000001",
    ".goutputstream-ABC123",
    ".notes.md.kate-swp",
    ".~lock.notes.odt#",
    "notes.tmp",
    ".tmp",
    ".tmp-4711-7b0bd0b5-27c0-4c9c-9a4c-0d5f4e0b7a55",
    "notes.md.tmp.1234.1700000000000",
    "notes.md.tmp.2942327.410b0df6512e",
    "notes.md.tmp.410b0df6512e",
    "notes.md.tmp-17012345670a1b2c",
    "notes.md.vsctmp",
    "notes.md.crswap",
    "notes.md___jb_tmp___",
    "notes.md___jb_old___",
    "notes.md___jb_bak___",
]

AS_MKSTEMP_MAKES_THEM = [
    "sedAbC123",
    "sedquickl",
    "tmpab_1xyz9",
    "tmpNuFHRH",
    "tmp.AbCdEf1234",
    ".notes.md.AbC123",
    ".tmpAbC12x",
    "XXAbC123",
]
"""Only with O_EXCL and a mode that keeps others out; most of them also where no person would choose the letters."""

WORDS_THAT_LOOK_ALIKE = [
    "sedatives",
    "sedation1",
    "tmpreview",
    "tmp_meeting",
    "tmp.backup",
    "tmp.Backup",
    ".config.backup",
    ".plan.2024q4",
    ".tmpreview",
    "XXhidden",
]
"""What a person or an agent may call a memory, and make with O_EXCL."""

BESIDE = {
    # name: (exclusive, mode, what is beside it)
    "notes.md.3141592653": (False, 0o644, "notes.md"),
    "notes.md.1234567": (False, 0o644, "notes.md"),
    "notes.md.AbC123": (True, 0o644, "notes.md"),
    "notes.md.XyZabc": (True, 0o644, "notes.md"),
    "notes.md.oHbIFhx": (True, 0o644, "notes.md"),
    ".notes.md3916589616287113937": (True, 0o644, "notes.md"),
    ".notes22718281828": (True, 0o644, "notes2"),
    "notes.md271828182": (True, 0o600, "notes.md"),
    ".notes.md.271828182": (True, 0o600, "notes.md"),
    "notes.mdAbC123": (True, 0o600, "notes.md"),
    "notes.mdabcdef.bck": (False, 0o644, "notes.md"),
}
"""Names that hold the name of the file that is being saved."""

NEVER = [
    "notes.md",
    "README",
    "a.b",
    "tmp",
    "temporary",
    "template.md",
    "tmp.md",
    "meeting.tmp.md",
    "todo.tmp.2nd.md",
    "sedate",
    "sedate99.md",
    "part",
    "chapter.part",
    "swp",
    "notes.swp",
    ".hidden",
    ".config",
    ".tmpl",
    ".tmpfiles.md",
    ".nfs-exports",
    ".movie.swf2",
    "a~b",
    "#1",
    "#1 priority.md",
    "49130",
    "notes.tmpl",
    "perl.md",
    "perlAbCd1234",
    "2024.md",
    "report.2024",
    "report.20241130",
    "notes.2024-11-30",
    "notes.0123456789ab",
    "日本語.md",
]


def made(name: str, *beside: str, exclusive: bool = False, mode: int = 0o644) -> bool:
    return Temporaries().made(name, exclusive=exclusive, mode=mode, beside=set(beside))


@pytest.mark.parametrize("name", ALWAYS)
def test_13_names_that_are_always_temporaries(name: str) -> None:
    assert made(name)
    assert made(name, exclusive=True)
    assert Temporaries().renamed(name)


@pytest.mark.parametrize("name", AS_MKSTEMP_MAKES_THEM)
def test_13_shapes_that_people_use_too_need_the_way_they_are_made(name: str) -> None:
    assert made(name, exclusive=True, mode=0o600)
    assert not made(name, mode=0o600)
    assert not Temporaries().renamed(name)


@pytest.mark.parametrize("name", WORDS_THAT_LOOK_ALIKE)
def test_13_a_word_that_looks_like_one_is_a_memory(name: str) -> None:
    assert not made(name)
    assert not made(name, exclusive=True)
    assert not Temporaries().renamed(name)


def test_13_what_vim_tries_a_directory_with() -> None:
    assert made("4913", exclusive=True)
    assert not made("4913")


@pytest.mark.parametrize("name", BESIDE)
def test_13_names_that_hold_another_count_beside_it_only(name: str) -> None:
    exclusive, mode, beside = BESIDE[name]
    assert made(name, beside, exclusive=exclusive, mode=mode)
    assert not made(name, "other.md", exclusive=exclusive, mode=mode)
    assert not made(name, beside, exclusive=not exclusive, mode=mode) or name.endswith(".bck")


NOW = str(int(time.time()))

COPIES = [
    "notes.md.1",
    "notes.md.2024",
    "notes.md.20241130",
    "notes.md.2024113012",
    f"notes.md.{NOW}",
    "notes.md.bak",
    "notes.md.backup",
    "notes.md.Backup",
    "notes.md.BACKUP",
    "notes.md.old123",
    "notes.md.2024q4",
    "notes.md.v2beta",
    "notes.md.old2024",
    "notes.md.outline",
    "notes.md20241130",
    "notes.md.bck",
    ".notes.md.20241130",
    "notes.md.20241130120000",
    "notes.md.deadbeefdead",
]


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("name", COPIES, ids=lambda name: name.replace(NOW, "NOW"))
def test_13_the_copies_that_people_make_of_a_memory_are_memories(name: str, exclusive: bool) -> None:
    assert not made(name, "notes.md", exclusive=exclusive)
    assert not Temporaries().renamed(name, {"notes.md"})


def test_13_a_backup_that_an_editor_makes_by_rename_is_told_by_the_file_it_is_of() -> None:
    assert Temporaries().renamed("notes.mdAbC123.bck", {"notes.md"})
    assert not Temporaries().renamed("notes.mdAbC123.bck", {"other.md"})
    assert not Temporaries().renamed("notes.md.3141592653", {"notes.md"})


@pytest.mark.parametrize("name", NEVER)
def test_13_names_that_are_no_temporaries_however_they_are_made(name: str) -> None:
    assert not made(name)
    assert not made(name, exclusive=True)
    assert not made(name, exclusive=True, mode=0o600)


def test_13_the_patterns_are_configurable() -> None:
    mine = Temporaries(TemporaryNames(added=("*.draft",), excepted=("keep.*", "4913", "tmp*")))
    assert mine.made("a.draft", exclusive=False, mode=0o644)
    assert mine.renamed("a.draft")
    assert mine.plain("a.draft")
    assert mine.plain("a~")
    for name in ("keep.draft", "keep.tmp", "4913", "tmpab_1xyz9"):
        assert not mine.made(name, exclusive=True, mode=0o600)
        assert not mine.renamed(name)
    bare = Temporaries(TemporaryNames(defaults=False, added=("*.draft",)))
    assert bare.made("a.draft", exclusive=False, mode=0o644)
    for name in (*ALWAYS, *AS_MKSTEMP_MAKES_THEM, "4913", "notes.md.AbC123"):
        assert not bare.made(name, exclusive=True, mode=0o600, beside={"notes.md"})
        assert not bare.renamed(name, {"notes.md"})
    assert not Temporaries(TemporaryNames(defaults=False)).made("", exclusive=True, mode=0o600)


@pytest.mark.parametrize(
    "pattern,reason",
    [
        ("", "empty"),
        ("drafts/*", "has a '/'"),
        ("a\nb", "no name in a store may have"),
        ("a\udcff", "no name in a store may have"),
        ("x" * 256, "255 bytes"),
        ("[ab", "without its ']'"),
        ("*", "every name"),
        ("**", "every name"),
        ("?*", "every name"),
        ("[!~]*", "every name"),
    ],
)
def test_13_a_pattern_that_is_none_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(reason)) as raised:
        check_names(TemporaryNames(added=(pattern,)))
    assert str(raised.value).startswith("--temporary: ")
    assert str(raised.value).isprintable()


def test_13_patterns_are_checked_on_both_sides_and_counted() -> None:
    fine = TemporaryNames(added=("*.draft", "[[]x]", "[!a-c]*.wip", "*.md"), excepted=("*",))
    assert check_names(fine) is fine
    with pytest.raises(InvalidRequest, match=r"--not-temporary: .* has a '/'"):
        check_names(TemporaryNames(excepted=("a/b",)))
    with pytest.raises(InvalidRequest, match="at most 64 patterns, not 65"):
        check_names(TemporaryNames(added=tuple(f"{number}.x" for number in range(65))))


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
