"""What a store's guards do to saving: refuse at close, or store something else than was written. No kernel."""

import errno
import math
import os
import threading
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from memfs.model.errors import MemoryChanged, NotFound, StoreArchived, WriteRefused
from memfs.model.records import ConflictPolicy, Guards, Store
from memfs.mount.errnos import errno_of
from memfs.vfs.saving import DIRTY_SECONDS
from memfs.workspace import Workspace, detectors
from tests.vfs.harness import APPEND, SAVE, UPDATE, Files, in_trio, jump, on_mock_clock, policy, refused

WORD = "xyzzy"


@pytest.fixture(autouse=True)
def simple_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret is the word xyzzy: what is one is the detectors' business and not of these tests."""

    def find(text: str, kinds: object) -> list[detectors.Finding]:
        found, at = [], text.find(WORD)
        while at != -1:
            found.append(detectors.Finding("secret", "magic word", at, at + len(WORD)))
            at = text.find(WORD, at + 1)
        return found

    monkeypatch.setattr(detectors, "find", find)


def guard(files: Files, wanted: Guards) -> list[tuple[str, str]]:
    """Guard the store; returns the list that refusals are put into."""
    files.workspace.stores.set_guards(files.store.id, wanted)
    return files.refusals


@in_trio
async def test_a_refused_text_is_told_at_close_and_the_version_before_stays(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    await files.write("/a", "before")
    refusals = guard(files, Guards(secrets="reject"))
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, f"one\nthe word is {WORD}\n")
    with pytest.raises(WriteRefused) as raised:
        await files.close(handle)
    assert errno_of(raised.value) == errno.EACCES
    assert "magic word in line 2" in str(raised.value)
    assert WORD not in str(raised.value)
    assert refusals == [("/a", str(raised.value))]
    assert await files.read("/a") == "before"
    assert files.history("/a") == ["created /a before"]
    assert WORD not in caplog.text
    caplog.clear()
    await files.write("/a", "after")
    files.check()


@in_trio
async def test_a_new_file_with_a_refused_text_is_gone(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    refusals = guard(files, Guards(secrets="reject"))
    with pytest.raises(WriteRefused):
        await files.write("/a", WORD)
    assert not files.exists("/a")
    assert [path for path, _ in refusals] == ["/a"]
    caplog.clear()
    files.check()


@in_trio
async def test_what_a_guard_masked_is_what_is_read(files: Files) -> None:
    guard(files, Guards(secrets="mask"))
    masked = f"the word is {detectors.mask(WORD, detectors.find(WORD, {'secret'}))}."
    await files.write("/a", f"the word is {WORD}.")
    assert await files.read("/a") == masked
    assert files.file("/a").size == len(masked)
    assert files.history("/a") == [f"created /a {masked}"]
    await files.write("/a", masked)
    assert len(files.history("/a")) == 1, "masked text can be saved again"
    handle = await files.open("/a", APPEND)
    files.put(handle, len(masked), f" {WORD}")
    await files.close(handle)
    assert WORD not in await files.read("/a")
    assert (await files.read("/a")).startswith(masked + " ")
    files.check()


@in_trio
async def test_a_writer_that_stays_goes_on_where_it_is_though_what_is_stored_is_longer(files: Files) -> None:
    guard(files, Guards(secrets="mask"))
    handle = await files.open("/a", UPDATE | os.O_CREAT)
    files.put(handle, 0, WORD)
    await files.fs.fsync(handle.number)
    files.put(handle, len(WORD), " and on")
    await files.fs.flush(handle.number)  # of a duplicate, as a command in a group leaves it
    files.put(handle, len(f"{WORD} and on"), ".")
    await files.close(handle)
    masked = detectors.mask(WORD, detectors.find(WORD, {"secret"}))
    assert await files.read("/a") == f"{masked} and on."
    assert files.history("/a") == [
        f"created /a {masked}",
        f"modified /a {masked} and on",
        f"modified /a {masked} and on.",
    ]
    files.check()


@in_trio
async def test_an_open_after_a_close_that_masked_waits_for_the_release(files: Files) -> None:
    guard(files, Guards(secrets="mask"))
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, WORD)
    await files.fs.flush(handle.number)
    assert files.fs.passing(handle)
    seen = []

    async def look() -> None:
        seen.append(await files.read("/a"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == []
        await files.fs.release(handle.number)
    assert seen == [detectors.mask(WORD, detectors.find(WORD, {"secret"}))]
    files.check()


@in_trio
async def test_what_a_reader_keeps_open_is_the_masked_text_once_the_writer_is_done(files: Files) -> None:
    guard(files, Guards(secrets="mask"))
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, WORD)
    reader = await files.open("/a")
    await files.close(handle)
    assert WORD.encode() not in files.get(reader)
    await files.close(reader)
    files.check()


@in_trio
async def test_a_kernel_is_told_that_its_pages_are_out_of_date(files: Files) -> None:
    guard(files, Guards(secrets="mask"))
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, WORD)
    node = files.file("/a")
    node.served = node.content_key()
    files.fs.tree.stale.clear()
    await files.close(handle)
    assert files.file("/a").served is None
    assert node.inode in [getattr(stale, "inode", None) for stale in files.fs.tree.stale]


@in_trio
async def test_a_save_by_rename_is_judged_too(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    await files.write("/a", "before")
    refusals = guard(files, Guards(secrets="reject"))
    await files.write("/a.tmp", WORD)  # scratch may hold anything
    with pytest.raises(WriteRefused):
        await files.rename("/a.tmp", "/a")
    assert [path for path, _ in refusals] == ["/a"]
    assert await files.read("/a") == "before"
    assert await files.read("/a.tmp") == WORD
    guard(files, Guards(secrets="mask"))
    await files.rename("/a.tmp", "/a")
    assert WORD not in await files.read("/a")
    assert [line.split()[0] for line in files.history("/a")] == ["created", "modified"]
    files.check()


@in_trio
async def test_size_and_paths_are_guarded(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    await files.write("/elsewhere", "x")
    refusals = guard(files, Guards(max_content_bytes=10, allowed_paths=("/notes/**", "/*.md")))
    await files.mkdir("/notes")
    await files.write("/notes/deep", "0123456789")
    await files.write("/a.md", "x")
    for path, text in (("/notes/long", "0123456789+"), ("/b.txt", "x"), ("/elsewhere", "changed")):
        with pytest.raises(WriteRefused):
            await files.write(path, text)
    with pytest.raises(WriteRefused):
        await files.rename("/a.md", "/a.txt")
    assert [path for path, _ in refusals] == ["/notes/long", "/b.txt", "/elsewhere", "/a.txt"]
    await files.unlink("/elsewhere")
    caplog.clear()
    files.check()


@on_mock_clock
async def test_the_timer_leaves_what_a_guard_refuses_to_the_close(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = guard(files, Guards(secrets="reject"))
    handle = await files.open("/a", APPEND)
    files.put(handle, 0, WORD)
    jump(DIRTY_SECONDS)
    await files.fs.commit_aged(trio.current_time())
    assert (refusals, caplog.records) == ([], [])
    assert files.get(await files.open("/a", UPDATE)) == WORD.encode(), "the writer's text is still there"
    await files.fs.set_attributes(handle.node.inode, size=0)
    files.put(handle, 0, "fine")
    await files.close(handle)
    assert await files.read("/a") == "fine"


@on_mock_clock
async def test_the_timer_leaves_what_an_archived_store_refuses_to_the_close(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "late")
    files.workspace.stores.archive(files.store.id)
    jump(DIRTY_SECONDS)
    await files.fs.commit_aged(trio.current_time())
    assert caplog.records == []
    with pytest.raises(StoreArchived):
        await files.close(handle)
    caplog.clear()


@in_trio
async def test_a_store_that_was_deleted_answers_estale(
    workspace: Workspace, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    files = Files(workspace, store)
    await files.write("/a", "text")
    handle = await files.open("/a", UPDATE)
    files.put(handle, 0, "lost")
    workspace.stores.delete(store.id)
    for attempt in (files.open("/a", UPDATE), files.fs.flush(handle.number), files.mkdir("/d")):
        with pytest.raises(NotFound) as raised:
            await attempt
        assert errno_of(raised.value) == errno.ESTALE
    await files.fs.commit_aged(trio.current_time() + 60)
    assert await files.fs.commit_aged(trio.current_time() + 600) == math.inf, "it is not tried for ever"
    assert len([record for record in caplog.records if "cannot commit a any more" in record.getMessage()]) == 1
    await files.fs.finish()
    assert "lost at unmount: the unsaved text of /a" in caplog.text
    caplog.clear()


@in_trio
async def test_an_open_after_a_refused_close_waits_for_the_release_that_drops_the_text(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    await files.write("/a", "before")
    guard(files, Guards(secrets="reject"))
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, f"{WORD} and more than before")
    with pytest.raises(WriteRefused):
        await files.fs.flush(handle.number)
    seen = []

    async def look() -> None:
        seen.append(await files.read("/a"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == []
        await files.fs.release(handle.number)
    assert seen == ["before"]
    caplog.clear()


@in_trio
async def test_what_a_close_refused_is_not_saved_where_the_guard_is_lifted_before_the_release(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    await files.write("/a", "before")
    guard(files, Guards(secrets="reject"))
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, WORD)
    with pytest.raises(WriteRefused):
        await files.fs.flush(handle.number)
    guard(files, Guards())
    await files.fs.release(handle.number)
    assert files.history("/a") == ["created /a before"]
    assert await files.read("/a") == "before"
    caplog.clear()
    files.check()


@on_mock_clock
async def test_time_in_which_nothing_ran_is_no_wait_for_the_release(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine with too much to do: the release is there when the worker goes on, and so is the end of the wait."""
    await files.write("/a", "before")
    guard(files, Guards(secrets="reject"))
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, WORD)
    with pytest.raises(WriteRefused):
        await files.fs.flush(handle.number)
    seen = []

    async def look() -> None:
        seen.append(await files.read("/a"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        jump(60.0)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == []
        await files.fs.release(handle.number)
    assert seen == ["before"]
    caplog.clear()
    files.check()


@in_trio
@pytest.mark.parametrize("step", ["truncate", "rename", "size"])
async def test_what_comes_right_after_a_refused_close_finds_the_version_before(
    files: Files, step: str, caplog: pytest.LogCaptureFixture
) -> None:
    await files.write("/a", "before")
    guard(files, Guards(secrets="reject"))
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, f"{WORD} and more than before")
    with pytest.raises(WriteRefused):
        await files.fs.flush(handle.number)

    async def act() -> None:
        if step == "truncate":
            await files.fs.set_attributes(handle.node.inode, size=3)
            assert await files.read("/a") == "bef"
        elif step == "rename":
            await files.rename("/a", "/b")
            assert await files.read("/b") == "before"
        else:
            await files.fs.settle(handle.node.inode)
            assert files.file("/a").size == len("before")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(act)
        await trio.testing.wait_all_tasks_blocked()
        await files.fs.release(handle.number)
    caplog.clear()
    files.check()


@in_trio
async def test_a_new_file_that_was_refused_is_looked_up_anew(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    guard(files, Guards(secrets="reject"))
    handle = await files.open("/a", SAVE)
    files.fs.remember(handle.node)
    files.put(handle, 0, WORD)
    with pytest.raises(WriteRefused):
        await files.close(handle)
    with refused(errno.ESTALE):
        await files.fs.settle(handle.node.inode)
    caplog.clear()
    files.check()


@on_mock_clock
async def test_where_another_descriptor_keeps_a_refused_text_an_open_shows_it(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    guard(files, Guards(secrets="reject"))
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, WORD)
    with pytest.raises(WriteRefused):
        await files.fs.flush(handle.number)  # of a duplicate
    cast(MockClock, trio.lowlevel.current_clock()).autojump_threshold = 0
    assert await files.read("/a") == WORD
    before = trio.current_time()
    assert await files.read("/a") == WORD
    assert trio.current_time() == before, "only the first one waits"
    await files.fs.set_attributes(handle.node.inode, size=0)
    files.put(handle, 0, "fine")
    await files.close(handle)
    assert await files.read("/a") == "fine"


@in_trio
@pytest.mark.parametrize("by_rename", [False, True])
async def test_nobody_waits_for_the_search_of_another_file(
    files: Files, other: Files, by_rename: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await files.write("/a", "a")
    guard(files, Guards(secrets="mask"))
    begun, go_on = threading.Event(), threading.Event()

    def find(text: str, kinds: object) -> list[detectors.Finding]:
        if text == "long":
            begun.set()
            assert go_on.wait(10)
        return []

    monkeypatch.setattr(detectors, "find", find)

    async def save() -> None:
        if by_rename:
            await files.write("/b.tmp", "long")
            await files.rename("/b.tmp", "/b")
        else:
            await files.write("/b", "long")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(save)
        await trio.to_thread.run_sync(begun.wait)
        with trio.fail_after(5):
            await other.write("/a", "from elsewhere")
            assert await files.read("/a") == "from elsewhere"
            await files.write("/c", "c")
        go_on.set()
    assert await files.read("/b") == "long"
    files.check()


@in_trio
async def test_within_one_mount_the_last_writer_wins_over_a_masked_text(files: Files) -> None:
    """All who saw the text that was masked, or the one before, started from the same, as far as merging goes."""
    guard(files, Guards(secrets="mask"))
    await files.write("/a", "one\ntwo\n")
    first = await files.open("/a", UPDATE, pid=1)
    await files.close(first)
    await files.write("/a", f"one\ntwo\n{WORD}\n")
    assert WORD not in await files.read("/a")
    second = await files.open("/a", UPDATE, pid=2)
    files.put(second, 4, "TWO")
    await files.close(second)
    again = await files.open("/a", SAVE, pid=1)
    files.put(again, 0, "ONE\ntwo\n")
    await files.close(again)
    assert await files.read("/a") == "ONE\ntwo\n"
    assert all(version.merged is None for version in files.versions())


@pytest.mark.parametrize("on_conflict", ["merge", "fail"])
@pytest.mark.parametrize("masked", ["before", "now", "before now"])
@in_trio
async def test_what_is_appended_to_a_masked_text_is_appended(
    files: Files, other: Files, on_conflict: ConflictPolicy, masked: str
) -> None:
    """A log that stays open, or one whose new line a guard masks, whatever others append; the same line too."""
    guard(files, Guards(secrets="mask"))
    await files.write("/log", "start\n")
    lines = [WORD if moment in masked.split() else "tick" for moment in ("before", "now")]
    log = await policy(other, on_conflict).open("/log", APPEND)
    other.put(log, 6, f"{lines[0]}\n")
    await other.fs.fsync(log.number)
    await files.write("/log", f"{lines[1]}\n", APPEND)
    other.put(log, 7 + len(lines[0]), f"{lines[1]}\n")
    await other.close(log)
    wanted = [detectors.mask(line, detectors.find(line, {"secret"})) for line in ["start", *lines, lines[1]]]
    assert await files.read("/log") == "".join(f"{line}\n" for line in wanted)
    assert all(version.merged is None or not version.merged.conflict for version in files.versions())


@in_trio
async def test_an_append_that_makes_a_secret_of_what_stood_before_it_is_masked(files: Files, other: Files) -> None:
    """It is no append any more: what was there has changed."""
    guard(files, Guards(secrets="mask"))
    await files.write("/log", WORD[:3])
    log = await policy(other, "fail").open("/log", APPEND)
    other.put(log, 3, WORD[3:])
    await files.write("/log", " more", APPEND)
    with pytest.raises(MemoryChanged):
        await other.close(log)
    await other.write("/log", f"{WORD[3:]}\n", APPEND)
    await other.fs.refresh()
    assert await files.read("/log") == f"{WORD[:3]} more{WORD[3:]}\n"
