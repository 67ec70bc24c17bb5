"""No lost updates (DESIGN.md 8): what a writer started from, and what becomes of its text where others saved before."""

import errno
import os
from collections.abc import Iterator

import pytest
import trio

from memfs.model.errors import ContentNotText, ContentTooLarge, MemoryChanged
from memfs.model.records import MAX_CONTENT_BYTES, Store
from memfs.vfs import FileHandle, StaleInode, bases
from memfs.vfs.bases import KEPT_TEXT_BYTES
from memfs.workspace import Workspace
from tests.vfs.harness import APPEND, READ, SAVE, UPDATE, Files, in_trio, jump, on_mock_clock, policy, refused
from tests.vfs.test_races import just_before_the_next_commit

AGENT, TOOL, SHELL = 101, 102, 103
"""Processes of one session."""


async def save(files: Files, path: str, text: str, pid: int) -> None:
    """What ``open(path, "w").write(text)`` does."""
    handle = await files.open(path, SAVE, pid=pid)
    try:
        files.put(handle, 0, text)
    finally:
        await files.close(handle)


async def look(files: Files, path: str, pid: int) -> str:
    """What ``open(path).read()`` does."""
    handle = await files.open(path, READ, pid=pid)
    try:
        return files.get(handle).decode()
    finally:
        await files.close(handle)


def conflicts(files: Files) -> list[str]:
    """The texts of the versions that were committed over a conflict."""
    return [(v.content or b"").decode() for v in files.versions() if v.merged is not None and v.merged.conflict]


@in_trio
async def test_a_text_read_before_anothers_save_is_merged_with_it(files: Files, other: Files) -> None:
    """Read, modify, write in one process: both edits are there, and the merge says from where it started."""
    await files.write("/f", "one\ntwo\nthree\n")
    text = await look(files, "/f", AGENT)
    await other.write("/f", "one\ntwo\nTHREE\n")
    await save(files, "/f", text.replace("one", "ONE"), AGENT)
    assert await files.read("/f") == await other.read("/f") == "ONE\ntwo\nTHREE\n"
    created, _, merged = files.versions()
    assert merged.merged is not None
    assert merged.merged.base_version_id == created.id
    assert not merged.merged.conflict
    assert merged.created_by.id == "sesn_1"


@in_trio
async def test_the_later_writer_wins_where_both_changed_the_same_line(files: Files, other: Files) -> None:
    """With both texts in the history, and the conflict on record."""
    await files.write("/f", "one\ntwo\n")
    text = await look(files, "/f", AGENT)
    await other.write("/f", "1\ntwo\nmore\n")
    await save(files, "/f", text.replace("one", "ONE"), AGENT)
    assert await other.read("/f") == "ONE\ntwo\nmore\n"
    assert files.history("/f")[1:] == ["modified /f 1\ntwo\nmore", "modified /f ONE\ntwo\nmore"]
    assert conflicts(files) == ["ONE\ntwo\nmore\n"]


@in_trio
async def test_each_process_started_from_what_it_read_itself(files: Files, other: Files) -> None:
    """A process that read late does not make one that read early a late one."""
    await files.write("/f", "one\ntwo\n")
    text = await look(files, "/f", AGENT)
    await other.write("/f", "one\ntwo\nthree\n")
    assert await look(files, "/f", TOOL) == "one\ntwo\nthree\n"
    await save(files, "/f", text.replace("two", "TWO"), AGENT)
    assert await files.read("/f") == "one\nTWO\nthree\n"
    # And who has seen the other's line and takes it out means it.
    assert await look(files, "/f", TOOL) == "one\nTWO\nthree\n"
    await save(files, "/f", "one\nTWO\n", TOOL)
    assert await files.read("/f") == "one\nTWO\n"
    assert conflicts(files) == []


@in_trio
async def test_of_threads_the_process_counts(files: Files, other: Files) -> None:
    """Language runtimes read in one thread and write in another."""
    files.fs.bases._same_process = lambda pid, other, _moment: {pid, other} == {AGENT, AGENT + 1000}
    await files.write("/f", "a\nb\nc\nd\n")
    await look(files, "/f", AGENT + 1000)
    await other.write("/f", "a\nb\nc\nD\n")
    await look(files, "/f", TOOL)
    # By its lines, this could as well be the second text with a line taken back.
    await save(files, "/f", "A\nb\nc\nd\n", AGENT)
    assert await files.read("/f") == "A\nb\nc\nD\n"


@in_trio
async def test_a_number_that_was_given_again_is_another_process(files: Files, other: Files) -> None:
    """It has read nothing, whoever had its number has; there are 32,768 of them where a kernel is asked for no more."""
    files.fs.bases._same_process = lambda _pid, _other, _moment: False
    await files.write("/f", "top\na\nend\n")
    await look(files, "/f", AGENT)
    await other.write("/f", "top\nA\nend\nlast\n")
    await look(files, "/f", TOOL)
    await save(files, "/f", "top\nA\nend\nLAST\n", AGENT)
    assert await files.read("/f") == "top\nA\nend\nLAST\n"


@in_trio
async def test_a_process_that_read_nothing_started_from_the_nearest_text_that_was_served(
    files: Files, other: Files
) -> None:
    """An agent's commands are many short processes: one shows the file, another one writes it."""
    lines = [f"line {number}" for number in range(9)]
    await files.write("/f", "\n".join(lines))
    await look(files, "/f", SHELL)
    await other.write("/f", "\n".join(["title", *lines]))
    await look(files, "/f", SHELL + 1)
    await other.write("/f", "\n".join(["title", *lines, "end"]))
    # Made from the second: without its title it would be said to have taken that out.
    await save(files, "/f", "\n".join(["title", *lines[:8], "line eight"]), SHELL + 2)
    assert await files.read("/f") == "\n".join(["title", *lines[:8], "line eight", "end"])
    assert conflicts(files) == []


@in_trio
async def test_a_text_that_nobody_read_is_simply_replaced(files: Files, other: Files) -> None:
    """Who never looked means to write what there shall be."""
    await other.write("/f", "theirs\n")
    await save(files, "/f", "ours\n", SHELL)
    assert await other.read("/f") == "ours\n"
    assert files.versions()[-1].merged is None


@in_trio
async def test_one_that_changes_while_it_is_written_anew_is_merged(files: Files, other: Files) -> None:
    """Emptied at one moment, saved at another: what came in between is no less an update."""
    await files.write("/f", "a\n")
    await files.read("/f")
    handle = await files.open("/f", SAVE, pid=SHELL)
    await other.write("/f", "b\n", APPEND)
    files.put(handle, 0, "A\n")
    await files.close(handle)
    assert await files.read("/f") == "A\nb\n"


@in_trio
async def test_within_one_mount_the_last_writer_wins(files: Files) -> None:
    """As on a local disk: there, processes need a lock."""
    await files.write("/f", "one\ntwo\n")
    first, second = await look(files, "/f", AGENT), await look(files, "/f", TOOL)
    await save(files, "/f", first.replace("one", "ONE"), AGENT)
    await save(files, "/f", second.replace("two", "TWO"), TOOL)
    assert await files.read("/f") == "one\nTWO\n"
    assert all(version.merged is None for version in files.versions())


@in_trio
async def test_within_one_mount_the_last_writer_wins_over_a_merged_text_too(files: Files, other: Files) -> None:
    """What others did in between stays whatever two processes here do to each other."""
    await files.write("/f", "one\ntwo\nthree\n")
    first, second = await look(files, "/f", AGENT), await look(files, "/f", TOOL)
    await other.write("/f", "one\ntwo\nTHREE\n")
    await save(files, "/f", first.replace("one", "ONE"), AGENT)
    await save(files, "/f", second.replace("two", "TWO"), TOOL)
    assert await files.read("/f") == "one\nTWO\nTHREE\n"


@in_trio
async def test_within_one_mount_the_last_writer_wins_after_a_refused_text_too(files: Files) -> None:
    """What was dropped is no version that only some have started from."""
    await files.write("/f", "one\ntwo\n")
    first = await look(files, "/f", AGENT)
    handle = await files.open("/f", SAVE, pid=SHELL)
    files.put(handle, 0, b"\xff")
    with pytest.raises(ContentNotText):
        await files.close(handle)
    second = await look(files, "/f", TOOL)
    await save(files, "/f", second.replace("two", "TWO"), TOOL)
    await save(files, "/f", first.replace("one", "ONE"), AGENT)
    assert await files.read("/f") == "ONE\ntwo\n"
    assert all(version.merged is None for version in files.versions())


@in_trio
async def test_one_that_is_written_anew_during_a_commit_is_merged(files: Files, other: Files) -> None:
    """The commit was of another text: what the new one is made from, its own writer has read."""
    await files.write("/f", "one\ntwo\nthree\n")
    text = await look(files, "/f", AGENT)
    await other.write("/f", "one\ntwo\nTHREE\n")
    change = await files.open("/f", UPDATE, pid=TOOL)
    files.put(change, 4, "TWO")
    anew: list[FileHandle] = []

    async def begin() -> None:
        anew.append(await files.open("/f", SAVE, pid=AGENT))

    with just_before_the_next_commit(files, lambda: trio.from_thread.run(begin)):
        await files.close(change)
    assert files.history("/f")[-1] == "modified /f one\nTWO\nTHREE"  # and the last close of it cut no empty version
    files.put(anew[0], 0, text.replace("one", "ONE"))
    await files.close(anew[0])
    # Within one mount the last writer wins; what others have saved stays.
    assert await files.read("/f") == "ONE\nTWO\nTHREE\n"


@in_trio
async def test_the_last_close_of_one_writer_saves_no_half_of_what_another_began_during_its_commit(files: Files) -> None:
    """The kernel tells of it after close() has returned; what was done through it is committed by then."""
    await files.write("/f", "one\ntwo\n")
    first, second = await files.open("/f", UPDATE, pid=AGENT), await files.open("/f", UPDATE, pid=TOOL)
    files.put(first, 0, "ONE")

    async def begin() -> None:
        files.put(second, 4, "T")

    with just_before_the_next_commit(files, lambda: trio.from_thread.run(begin)):
        await files.close(first)
    files.put(second, 5, "WO")
    await files.close(second)
    assert files.history("/f")[1:] == ["modified /f ONE\ntwo", "modified /f ONE\nTWO"]


@in_trio
async def test_who_reads_what_is_written_anew_started_from_that(files: Files, other: Files) -> None:
    """Though it was not committed yet, and merged when it was: else what others saved would seem to be taken out."""
    await files.write("/f", "one\ntwo\nthree\n")
    text = await look(files, "/f", AGENT)
    await other.write("/f", "one\ntwo\nTHREE\n")
    handle = await files.open("/f", SAVE, pid=AGENT)
    files.put(handle, 0, text.replace("one", "ONE"))
    seen = await look(files, "/f", TOOL)
    assert seen == "ONE\ntwo\nthree\n"
    await files.close(handle)
    await save(files, "/f", seen.replace("two", "TWO"), TOOL)
    assert await files.read("/f") == "ONE\nTWO\nTHREE\n"


# Appending


@in_trio
async def test_appends_append(files: Files, other: Files) -> None:
    """Also the same line from both, and to a last line without an end."""
    await files.write("/log", "start")
    mine, theirs = await files.open("/log", APPEND), await other.open("/log", APPEND)
    files.put(mine, 5, "\ntick")
    other.put(theirs, 5, "\ntick")
    await files.close(mine)
    await other.close(theirs)
    assert await files.read("/log") == await other.read("/log") == "start\ntick\ntick"
    assert conflicts(files) == []


@in_trio
async def test_a_log_that_stays_open_goes_on_behind_what_others_append(files: Files, other: Files) -> None:
    """And shows what they append, though it is never closed."""
    log = await files.open("/log", APPEND, pid=AGENT)
    for number in range(3):
        files.put(log, 0, f"ours {number}\n")
        await files.fs.fsync(log.number)
        await other.write("/log", f"theirs {number}\n", APPEND)
        expected = [f"{who} {n}" for n in range(number + 1) for who in ("ours", "theirs")]
        assert (await look(files, "/log", TOOL)).split("\n") == [*expected, ""]
    await files.close(log)
    assert (await files.read("/log")).split("\n") == [*expected, ""]


@in_trio
async def test_two_who_make_a_log_at_the_same_moment_both_append(files: Files, other: Files) -> None:
    """``>>`` makes the file that it appends to."""
    mine, theirs = await files.open("/log", APPEND), await other.open("/log", APPEND)
    files.put(mine, 0, "ours\n")
    other.put(theirs, 0, "theirs\n")
    await other.close(theirs)
    await files.close(mine)
    assert await files.read("/log") == "theirs\nours\n"
    assert conflicts(files) == []


@in_trio
async def test_appended_and_changed_in_one_go(files: Files, other: Files) -> None:
    """The part that was there is merged, what was appended comes after it."""
    await files.write("/f", "one\ntwo\n")
    change, append = await files.open("/f", UPDATE), await files.open("/f", APPEND)
    files.put(change, 0, "ONE")
    files.put(append, 8, "tick\n")
    await other.write("/f", "one\ntwo\ntick\n")
    await files.close(append)
    await files.close(change)
    assert await files.read("/f") == "ONE\ntwo\ntick\ntick\n"


@in_trio
async def test_an_append_brings_back_nothing_that_was_redacted(files: Files, other: Files) -> None:
    """What it was appended to is gone by then, and was taken out of the memory."""
    await files.write("/log", "a secret\n")
    log = await files.open("/log", APPEND, pid=AGENT)
    files.put(log, 9, "tick\n")
    await other.write("/log", "nothing\n")
    (secret,) = [version for version in files.versions() if version.content == b"a secret\n"]
    files.workspace.versions.redact(files.store.id, [secret.id], files.actor)
    await files.close(log)
    assert await files.read("/log") == "nothing\ntick\n"
    assert conflicts(files) == []


@in_trio
async def test_what_would_not_fit_is_not_appended(files: Files, other: Files) -> None:
    """Rather than take away what others wrote."""
    await files.write("/f", "a\n")
    mine = await files.open("/f", APPEND)
    files.put(mine, 2, "b" * 60_000)
    await other.write("/f", "a\n" + "c" * 60_000)
    with pytest.raises(ContentTooLarge):
        await files.close(mine)
    assert await files.read("/f") == "a\n" + "c" * 60_000


# Writers that hold the file open


@in_trio
async def test_a_place_is_a_place_in_what_the_writer_was_served(files: Files, other: Files) -> None:
    """No torn mixture: what is written at an offset was meant for the text that was read."""
    await files.write("/f", "one\ntwo\nthree\n")
    handle = await files.open("/f", UPDATE, pid=AGENT)
    assert files.get(handle) == b"one\ntwo\nthree\n"
    await other.write("/f", "a title\none\ntwo\nthree\n")
    await files.fs.refresh()
    files.put(handle, 4, "TWO")
    await files.close(handle)
    assert await files.read("/f") == "a title\none\nTWO\nthree\n"


@in_trio
async def test_what_is_redacted_does_not_come_back_with_a_word_of_who_had_it_open(files: Files, other: Files) -> None:
    """Nor is the word written into another text."""
    await files.write("/f", "secret\none\n")
    handle = await files.open("/f", UPDATE, pid=AGENT)
    assert files.get(handle) == b"secret\none\n"
    await other.write("/f", "one\n")
    first = files.versions()[0]
    files.workspace.versions.redact(files.store.id, [first.id], files.actor)
    await files.fs.refresh()
    with refused(errno.ESTALE):
        files.put(handle, 7, "ONE")
    await files.close(handle)
    assert await files.read("/f") == "one\n"
    assert len(files.versions()) == 2


def redact(files: Files, text: str) -> None:
    """Redact the version that has this text."""
    (found,) = [version for version in files.versions() if version.content == text.encode()]
    files.workspace.versions.redact(files.store.id, [found.id], files.actor)


@pytest.mark.parametrize("begun", ["before", "in a commit"])
@in_trio
async def test_what_is_redacted_does_not_come_back_with_a_word_that_was_not_saved_yet(
    files: Files, other: Files, begun: str
) -> None:
    """The word is merged, as if the text it was written in were still there."""
    await files.write("/f", "start\none\n")
    handle = await files.open("/f", UPDATE, pid=AGENT)
    files.put(handle, 0, "secret\none\n")
    if begun == "before":
        await files.fs.fsync(handle.number)
        files.put(handle, 7, "ONE")
    else:

        async def change() -> None:
            files.put(handle, 7, "ONE")

        with just_before_the_next_commit(files, lambda: trio.from_thread.run(change)):
            await files.fs.fsync(handle.number)
    await other.fs.refresh()
    await other.write("/f", "one\ntwo\n")
    redact(files, "secret\none\n")
    files.fs.contents._cache._texts.clear()
    await files.close(handle)
    assert await files.read("/f") == "ONE\ntwo\n"
    assert conflicts(files) == []


@in_trio
async def test_what_is_redacted_comes_back_with_who_changes_the_very_line(files: Files, other: Files) -> None:
    """Or saves a text that holds it: that is a new version, in their name, and on record as a conflict."""
    await files.write("/f", "a secret\none\n")
    handle = await files.open("/f", UPDATE, pid=AGENT)
    files.put(handle, 0, "A")
    await other.write("/f", "one\n")
    redact(files, "a secret\none\n")
    await files.close(handle)
    assert await files.read("/f") == "A secret\none\n"
    assert conflicts(files) == ["A secret\none\n"]


# Texts that are no version's


def own_texts(files: Files) -> int:
    """Bytes of those that a mount keeps."""
    return sum(len(base.text or b"") for base in files.fs.bases._texts)


def letter(lines: int = 700, **changed: str) -> str:
    """A long text, some of whose lines are changed."""
    return "".join(changed.get(f"n{number}", f"line {number} {'x' * 90}") + "\n" for number in range(lines))


async def merged_over(files: Files, other: Files, path: str) -> None:
    """Let a text be merged that its writer did not read again."""
    await files.write(path, letter())
    await look(files, path, AGENT)
    await other.write(path, letter(n3="theirs"))
    await save(files, path, letter(n600="ours"), AGENT)


@in_trio
async def test_merged_texts_take_a_bounded_room_and_the_latest_are_merged_still(files: Files, other: Files) -> None:
    paths = [f"/{number}" for number in range(24)]
    assert len(paths) * len(letter()) > 1.5 * KEPT_TEXT_BYTES
    await files.write("/log", "start\n")
    log = await files.open("/log", UPDATE)
    files.put(log, 0, "START")
    await other.write("/log", "start\nmore\n")
    await files.fs.fsync(log.number)
    for path in paths:
        await merged_over(files, other, path)
        assert own_texts(files) <= KEPT_TEXT_BYTES
    assert own_texts(files) > KEPT_TEXT_BYTES / 2
    # Who saves again goes on in what was written, and the others' lines stay; of a dropped one it is not known which.
    for path in paths:
        await save(files, path, letter(n600="ours", n601="more"), AGENT)
    assert [await files.read(path) for path in paths[-5:]] == [letter(n3="theirs", n600="ours", n601="more")] * 5
    assert await files.read(paths[0]) == letter(n600="ours", n601="more")
    assert [line[:70] for line in files.history(paths[0])[-2:]] == [
        f"modified {paths[0]} {text}"[:70] for text in (letter(n3="theirs", n600="ours"), letter())
    ]
    assert conflicts(files)
    assert set(conflicts(files)) == {letter(n600="ours", n601="more")}
    # A file that is open all the time is dropped last.
    files.put(log, 1, "tart")
    await files.close(log)
    assert await files.read("/log") == "Start\nmore\n"
    assert own_texts(files) == files.fs.bases._text_bytes <= KEPT_TEXT_BYTES


@in_trio
async def test_a_place_in_a_text_that_was_dropped_is_not_guessed(
    files: Files, other: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is appended needs none."""
    monkeypatch.setattr(bases, "KEPT_TEXT_BYTES", 10)
    await files.write("/f", "one\ntwo\n")
    handle, log = await files.open("/f", UPDATE, pid=AGENT), await files.open("/f", APPEND, pid=AGENT)
    files.put(handle, 0, "ONE\nTWO\nthree\n")
    await other.write("/f", "title\none\ntwo\n")
    await files.fs.fsync(handle.number)
    with refused(errno.ESTALE):
        files.put(handle, 4, "2")
    files.put(log, 8, "end\n")
    await files.close(log)
    await files.close(handle)
    assert await files.read("/f") == "title\nONE\nTWO\nthree\nend\n"
    assert conflicts(files) == []


@in_trio
async def test_what_a_writer_reads_again_it_has_been_served(files: Files, other: Files) -> None:
    """Its places are then places in that."""
    await files.write("/f", "one\n")
    handle = await files.open("/f", UPDATE, pid=AGENT)
    await other.write("/f", "title\none\n")
    await files.fs.refresh()
    files.fs.tree.stale.clear()
    handle.node.told = handle.node.head  # the kernel has asked for the size anew
    assert files.get(handle) == b"title\none\n"
    files.put(handle, 6, "ONE")
    await files.close(handle)
    assert await files.read("/f") == "title\nONE\n"


@in_trio
async def test_a_writer_goes_on_in_its_own_text_after_a_merge(files: Files, other: Files) -> None:
    """Until it reads again; and who opens the file sees the merged one at once."""
    await files.write("/f", "one\ntwo\n")
    handle = await files.open("/f", UPDATE, pid=AGENT)
    await other.write("/f", "a title\none\ntwo\n")
    files.put(handle, 0, "ONE")
    await files.fs.fsync(handle.number)
    assert await look(files, "/f", TOOL) == "a title\nONE\ntwo\n"
    files.put(handle, 4, "TWO")
    await files.fs.fsync(handle.number)
    assert await look(files, "/f", TOOL) == "a title\nONE\nTWO\n"
    files.put(handle, 0, "1st")
    await files.close(handle)
    assert await look(files, "/f", TOOL) == "a title\n1st\nTWO\n"
    assert conflicts(files) == []


@in_trio
async def test_emptying_by_handle_and_writing_anew(files: Files, other: Files) -> None:
    """``open(f, "r+")``, read, truncate, write."""
    await files.write("/f", "one\ntwo\n")
    handle = await files.open("/f", UPDATE, pid=AGENT)
    files.get(handle)
    await other.write("/f", "one\nTWO\n")
    await files.fs.refresh()
    await files.fs.set_attributes(handle.node.inode, size=0, handle=handle.number)
    files.put(handle, 0, "ONE\ntwo\n")
    await files.close(handle)
    assert await files.read("/f") == "ONE\nTWO\n"


@on_mock_clock
async def test_what_the_timer_saves_is_merged_too(files: Files, other: Files) -> None:
    """A writer that takes its time."""
    await files.write("/f", "one\ntwo\n")
    handle = await files.open("/f", UPDATE, pid=AGENT)
    files.put(handle, 0, "ONE")
    await other.write("/f", "one\nTWO\n")
    jump(6)
    await files.fs.commit_aged(trio.current_time())
    assert await other.read("/f") == "ONE\nTWO\n"
    await files.close(handle)
    assert len(files.versions()) == 3


@in_trio
async def test_a_mode_given_elsewhere_stays_where_a_text_is_saved(files: Files, other: Files) -> None:
    """A script that is made executable by one session while another one edits it."""
    await files.write("/f", "one\n")
    handle = await files.open("/f", UPDATE, pid=AGENT)
    files.put(handle, 0, "ONE")
    await other.fs.refresh()
    await other.fs.set_attributes(other.node("/f").inode, mode=0o755)
    await files.fs.refresh()
    assert StaleInode(handle.node.inode) in files.fs.tree.stale
    await files.close(handle)
    await other.fs.refresh()
    assert files.node("/f").mode == other.node("/f").mode == 0o755
    assert await other.read("/f") == "ONE\n"


# Saving by rename


@in_trio
async def test_an_atomic_save_is_merged(files: Files, other: Files) -> None:
    """sed -i, editors: one process reads the memory, writes another file and renames it."""
    await files.write("/f", "one\ntwo\nthree\n")
    text = await look(files, "/f", AGENT)
    memory = files.file("/f").memory_id
    await other.write("/f", "one\ntwo\nTHREE\n")
    await save(files, "/.tmp.f", text.replace("one", "ONE"), AGENT)
    await files.rename("/.tmp.f", "/f")
    assert await files.read("/f") == await other.read("/f") == "ONE\ntwo\nTHREE\n"
    assert files.file("/f").memory_id == memory
    assert files.history("/f")[-1] == "modified /f ONE\ntwo\nTHREE"


@in_trio
async def test_a_memory_renamed_over_another_is_merged_with_what_became_of_that(files: Files, other: Files) -> None:
    """``sed … f > new; mv new f``: the source was a memory meanwhile."""
    await files.write("/f", "one\ntwo\n")
    text = await look(files, "/f", AGENT)
    await save(files, "/new", text.replace("one", "ONE"), AGENT)
    await other.write("/f", "one\nTWO\n")
    await files.rename("/new", "/f")
    assert await files.read("/f") == "ONE\nTWO\n"
    assert not files.exists("/new")


@on_mock_clock
async def test_a_backup_and_a_new_file_are_merged(files: Files, other: Files) -> None:
    """vim: the memory is set aside under a backup's name and made anew."""
    await files.write("/f", "one\ntwo\n")
    text = await look(files, "/f", AGENT)
    await other.write("/f", "one\nTWO\n")
    await files.fs.refresh()
    await files.rename("/f", "/f~")
    await save(files, "/f", text.replace("one", "ONE"), AGENT)
    await files.unlink("/f~")
    assert await files.read("/f") == "ONE\nTWO\n"


# What has no common beginning


@in_trio
async def test_two_who_make_one_file_at_the_same_moment(files: Files, other: Files) -> None:
    """The later text stays, the other one is in the history, and the conflict is on record."""
    mine, theirs = await files.open("/f", SAVE), await other.open("/f", SAVE)
    files.put(mine, 0, "ours\n")
    other.put(theirs, 0, "theirs\n")
    await other.close(theirs)
    await files.close(mine)
    assert await other.read("/f") == "ours\n"
    assert files.history("/f") == ["created /f theirs", "modified /f ours"]
    assert conflicts(files) == ["ours\n"]


@in_trio
async def test_touch_takes_nobodys_text(files: Files, other: Files) -> None:
    """An empty file that is made where another one is being made."""
    mine, theirs = await files.open("/f", os.O_WRONLY | os.O_CREAT), await other.open("/f", SAVE)
    other.put(theirs, 0, "theirs\n")
    await other.close(theirs)
    await files.close(mine)
    assert await files.read("/f") == "theirs\n"
    assert files.history("/f") == ["created /f theirs"]


@in_trio
async def test_a_base_that_is_gone_is_a_conflict(files: Files, other: Files) -> None:
    """Redacted meanwhile: nothing can be compared with it."""
    await files.write("/f", "secret\ntwo\n")
    await look(files, "/f", AGENT)
    await other.write("/f", "two\nthree\n")
    first = files.versions()[0]
    files.workspace.versions.redact(files.store.id, [first.id], files.actor)
    files.fs.contents._cache._texts.clear()
    await save(files, "/f", "ours\n", AGENT)
    assert await files.read("/f") == "ours\n"
    assert conflicts(files) == ["ours\n"]


@in_trio
async def test_merged_texts_that_are_too_large_are_a_conflict(files: Files, other: Files) -> None:
    """The later writer's text is one that fits."""
    await files.write("/f", "a\nb\n")
    await look(files, "/f", AGENT)
    await other.write("/f", "a\nb\n" + "t" * 60_000)
    ours = "o" * 60_000 + "\na\nb\n"
    await save(files, "/f", ours, AGENT)
    assert len(ours) + 60_000 > MAX_CONTENT_BYTES
    assert await files.read("/f") == ours
    assert conflicts(files) == [ours]


# Policies


@pytest.fixture
def strict(workspace: Workspace, store: Store, files: Files) -> Iterator[Files]:
    """A mount of the same store with another policy, set by ``policy``."""
    made = Files(workspace, store, session="sesn_3")
    yield made
    trio.run(made.settle)
    trio.run(files.fs.refresh)
    made.compare_inodes = files.compare_inodes = False
    made.check()


@in_trio
async def test_with_the_policy_overwrite_the_later_text_stays_as_it_is(files: Files, strict: Files) -> None:
    """The other one is in the history."""
    await files.write("/f", "one\ntwo\n")
    await look(policy(strict, "overwrite"), "/f", AGENT)
    await files.write("/f", "one\nTWO\n")
    await save(strict, "/f", "ONE\ntwo\n", AGENT)
    assert await files.read("/f") == "ONE\ntwo\n"
    assert files.history("/f")[1:] == ["modified /f one\nTWO", "modified /f ONE\ntwo"]


@in_trio
async def test_with_the_policy_fail_nothing_is_saved(files: Files, strict: Files) -> None:
    """close() says so, and the file shows what is there; after that is read, it can be saved."""
    await files.write("/f", "one\ntwo\n")
    await look(policy(strict, "fail"), "/f", AGENT)
    await files.write("/f", "one\nTWO\n")
    with pytest.raises(MemoryChanged, match="read it again"):
        await save(strict, "/f", "ONE\ntwo\n", AGENT)
    assert await look(strict, "/f", AGENT) == "one\nTWO\n"
    await save(strict, "/f", "ONE\nTWO\n", AGENT)
    assert await files.read("/f") == "ONE\nTWO\n"
    assert len(files.versions()) == 3


@in_trio
async def test_with_the_policy_fail_an_atomic_save_fails_at_its_rename(files: Files, strict: Files) -> None:
    """And the temporary is still there."""
    await files.write("/f", "one\ntwo\n")
    await look(policy(strict, "fail"), "/f", AGENT)
    await files.write("/f", "one\nTWO\n")
    await save(strict, "/.tmp.f", "ONE\ntwo\n", AGENT)
    with pytest.raises(MemoryChanged):
        await strict.rename("/.tmp.f", "/f")
    assert await strict.read("/f") == "one\nTWO\n"
    assert await strict.read("/.tmp.f") == "ONE\ntwo\n"
    await strict.unlink("/.tmp.f")


@in_trio
async def test_with_the_policy_fail_appends_append(files: Files, strict: Files) -> None:
    """They depend on nothing that was read."""
    await files.write("/log", "one\n")
    log = await policy(strict, "fail").open("/log", APPEND)
    strict.put(log, 4, "two\n")
    await files.write("/log", "other\n", APPEND)
    await strict.close(log)
    assert await files.read("/log") == "one\nother\ntwo\n"
