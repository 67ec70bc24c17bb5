"""When a version is made, and when none is (DESIGN.md 1-3, 5, 9, 12)."""

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from trio import current_time as now

from memfs.engine import opening
from memfs.model.errors import Busy, ContentNotText, ContentTooLarge, ReadOnly, StoreArchived
from memfs.model.records import MAX_CONTENT_BYTES, Store
from memfs.vfs import Node
from memfs.vfs.saving import DIRTY_SECONDS
from memfs.workspace import Workspace
from tests.vfs.harness import APPEND, EXCLUSIVE, READ, SAVE, UPDATE, WRITE, Files, in_trio, jump, on_mock_clock, refused

HALF = "é".encode()[:1]
REST = "é".encode()[1:]


@in_trio
async def test_1_one_commit_is_one_version(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "one ")
    files.put(handle, 4, "two")
    await files.fs.flush(handle.number)
    assert files.history() == ["created /a one two"]
    await files.fs.release(handle.number)
    await files.write("/a", "three")
    assert files.history() == ["created /a one two", "modified /a three"]


@in_trio
async def test_1_an_empty_file_is_a_memory_when_it_is_closed(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    assert files.history() == []
    assert await files.names() == ["a"]
    await files.close(handle)
    assert files.history() == ["created /a"]


@in_trio
async def test_1_what_changes_no_byte_makes_no_version(files: Files) -> None:
    await files.write("/a", "text")
    await files.write("/empty", "")
    before = files.versions()
    await files.write("/a", "text")
    await files.write("/empty", "")
    await files.write("/a", "", WRITE)
    await files.write("/a", "te", WRITE)
    await files.write("/a", "", APPEND)
    await files.fs.set_attributes(files.node("/a").inode, mode=0o600)
    await files.fs.set_attributes(files.node("/a").inode, mtime_ns=1, atime_ns=2)
    await files.fs.set_attributes(files.node("/a").inode, size=4)
    for flags in (READ, WRITE, UPDATE):
        handle = await files.open("/a", flags)
        await files.fs.fsync(handle.number)
        await files.close(handle)
    assert files.versions() == before
    assert files.node("/a").mode == 0o600


@in_trio
async def test_1_all_handles_share_one_buffer(files: Files) -> None:
    await files.write("/a", "text")
    first, second = await files.open("/a", UPDATE), await files.open("/a", UPDATE)
    files.put(first, 0, "T")
    assert files.get(second) == b"Text"
    files.put(second, 4, "!")
    await files.close(first)
    assert files.history("/a")[1:] == ["modified /a Text!"]
    await files.close(second)
    assert files.history("/a")[1:] == ["modified /a Text!"]


@in_trio
async def test_1_the_early_close_of_a_shell_makes_no_version(files: Files) -> None:
    # `echo text > a`: open gives 3, dup2(3, 1), close(3), and only then the write.
    await files.write("/a", "old")
    handle = await files.open("/a", SAVE, pid=7)
    files.held.add((7, handle.node.inode))
    await files.fs.flush(handle.number)
    assert files.history() == ["created /a old"]
    files.put(handle, 0, "new")
    await files.close(handle)
    assert files.history() == ["created /a old", "modified /a new"]


@in_trio
async def test_1_an_emptied_file_is_a_version_once_its_own_open_is_over(files: Files) -> None:
    # `open(path, "w").close()` by who has the file open for writing elsewhere: only the release tells it from a shell.
    await files.write("/a", "old")
    elsewhere = await files.open("/a", UPDATE, pid=7)
    handle = await files.open("/a", SAVE, pid=7)
    files.held.add((7, handle.node.inode))
    await files.fs.flush(handle.number)
    assert files.history() == ["created /a old"]
    await files.fs.release(handle.number)
    assert files.history() == ["created /a old", "modified /a"]
    await files.close(elsewhere)


@in_trio
async def test_1_a_dup_that_is_closed_after_a_write_commits(files: Files) -> None:
    handle = await files.open("/a", SAVE, pid=7)
    files.held.add((7, handle.node.inode))
    files.put(handle, 0, "new")
    await files.fs.flush(handle.number)
    assert files.history() == ["created /a new"]
    await files.fs.release(handle.number)


@in_trio
async def test_1_a_readers_close_commits_nothing(files: Files) -> None:
    await files.write("/a", "old")
    writer, reader = await files.open("/a", WRITE), await files.open("/a", READ)
    files.put(writer, 0, "new")
    assert files.get(reader) == b"new"
    await files.close(reader)
    assert files.history() == ["created /a old"]
    await files.close(writer)
    assert files.history() == ["created /a old", "modified /a new"]


@in_trio
async def test_1_fsync_commits(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "text")
    await files.fs.fsync(handle.number)
    assert files.history() == ["created /a text"]
    await files.close(handle)


@in_trio
async def test_1_release_commits_what_was_written_after_the_last_flush(files: Files) -> None:
    # A shared mapping is written back after close().
    handle = await files.open("/a", SAVE)
    await files.fs.flush(handle.number)
    files.put(handle, 0, "mapped")
    await files.fs.release(handle.number)
    assert files.history() == ["created /a", "modified /a mapped"]


@on_mock_clock
async def test_1_a_buffer_is_committed_when_it_has_been_dirty_for_5_seconds(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    due = await files.fs.commit_aged(now())
    assert due == now() + DIRTY_SECONDS
    jump(3)
    files.put(handle, 0, "text")
    await files.fs.commit_aged(now())
    assert files.history() == []
    jump(2)
    assert await files.fs.commit_aged(now()) is None
    assert files.history() == ["created /a text"]
    files.put(handle, 4, "!")
    assert await files.fs.commit_aged(now()) == now() + DIRTY_SECONDS
    assert files.history() == ["created /a text"]
    await files.close(handle)
    assert files.history() == ["created /a text", "modified /a text!"]


@on_mock_clock
async def test_1_half_a_text_is_tried_again_later(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, HALF)
    jump(DIRTY_SECONDS)
    assert await files.fs.commit_aged(now()) == now() + DIRTY_SECONDS
    assert files.history() == []
    files.put(handle, 1, REST)
    jump(DIRTY_SECONDS)
    assert await files.fs.commit_aged(now()) is None
    assert files.history() == ["created /a é"]
    await files.close(handle)


@in_trio
async def test_1_becoming_dirty_wakes_the_timer(files: Files) -> None:
    assert not files.fs.became_dirty.is_set()
    handle = await files.open("/a", SAVE)
    assert files.fs.became_dirty.is_set()
    await files.close(handle)


@in_trio
async def test_2_a_closed_text_is_seen_by_a_new_process(files: Files, db: Path, store: Store) -> None:
    await files.write("/a", "text")
    with Workspace.open(db) as workspace:
        assert workspace.memories.get(store.id, "/a").content == b"text"


@in_trio
async def test_3_versions_are_attributed_to_the_session(files: Files, other: Files) -> None:
    await files.write("/a", "one")
    await other.write("/a", "two")
    await other.unlink("/a")
    assert [version.created_by for version in files.versions()] == [files.actor, other.actor, other.actor]


@in_trio
async def test_1_truncate_by_path_is_committed_at_once(files: Files) -> None:
    await files.write("/a", "text")
    await files.fs.set_attributes(files.node("/a").inode, size=2)
    assert files.history() == ["created /a text", "modified /a te"]
    await files.fs.set_attributes(files.node("/a").inode, size=4)
    assert files.history()[-1] == "modified /a te\0\0"


@in_trio
async def test_1_truncate_waits_for_the_writer_that_has_it_open(files: Files) -> None:
    await files.write("/a", "text")
    handle = await files.open("/a", WRITE)
    await files.fs.set_attributes(handle.node.inode, size=0, handle=handle.number)
    await files.fs.set_attributes(handle.node.inode, size=0)
    files.put(handle, 0, "new")
    await files.close(handle)
    assert files.history() == ["created /a text", "modified /a new"]


@in_trio
async def test_9_truncate_by_path_through_a_character_is_refused_and_changes_nothing(files: Files) -> None:
    await files.write("/a", "caffé")
    before = files.node("/a").mtime_ns
    with pytest.raises(ContentNotText):
        await files.fs.set_attributes(files.node("/a").inode, size=5)
    assert await files.read("/a") == "caffé"
    assert files.node("/a").mtime_ns == before
    assert files.history() == ["created /a caffé"]


@in_trio
async def test_1_an_append_goes_to_the_end_whatever_the_offset(files: Files, other: Files) -> None:
    await files.write("/a", "one\n")
    handle = await files.open("/a", APPEND)
    await other.write("/a", "two\n", APPEND)
    await files.fs.refresh()
    files.put(handle, 4, "three\n")
    files.put(handle, 0, "four\n")
    await files.close(handle)
    assert await files.read("/a") == "one\ntwo\nthree\nfour\n"
    assert len(files.history()) == 3


@in_trio
async def test_1_a_mapping_of_an_append_handle_is_written_back_in_place(files: Files) -> None:
    await files.write("/a", "text")
    handle = await files.open("/a", UPDATE | os.O_APPEND)
    files.put(handle, 0, "T")
    await files.close(handle)
    assert await files.read("/a") == "Text"


# What is no text, and what is too long


@in_trio
async def test_9_a_write_over_the_limit_is_efbig_and_nothing_partial_is_committed(files: Files) -> None:
    await files.write("/a", "old")
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, b"x" * MAX_CONTENT_BYTES)
    with pytest.raises(ContentTooLarge):
        files.put(handle, MAX_CONTENT_BYTES, "y")
    with pytest.raises(ContentTooLarge):
        await files.fs.fsync(handle.number)
    with pytest.raises(ContentTooLarge):
        await files.close(handle)
    assert await files.read("/a") == "old"
    assert files.history() == ["created /a old"]


@in_trio
async def test_9_a_refused_write_leaves_a_clean_file_clean(files: Files) -> None:
    await files.write("/a", b"x" * MAX_CONTENT_BYTES)
    for offset in (MAX_CONTENT_BYTES, 1 << 40):
        handle = await files.open("/a", WRITE)
        with pytest.raises(ContentTooLarge):
            files.put(handle, offset, "y")
        await files.close(handle)
    with pytest.raises(ContentTooLarge):
        await files.fs.set_attributes(files.node("/a").inode, size=1 << 40)
    assert len(files.history()) == 1


@in_trio
async def test_9_a_spoiled_text_is_made_good_by_truncating_it(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "x")
    with pytest.raises(ContentTooLarge):
        files.put(handle, MAX_CONTENT_BYTES, "y")
    await files.fs.set_attributes(handle.node.inode, size=0, handle=handle.number)
    files.put(handle, 0, "small")
    await files.close(handle)
    assert files.history() == ["created /a small"]


@on_mock_clock
async def test_9_the_timer_does_not_commit_a_spoiled_text(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "x")
    with pytest.raises(ContentTooLarge):
        files.put(handle, MAX_CONTENT_BYTES, "y")
    jump(DIRTY_SECONDS)
    await files.fs.commit_aged(now())
    with pytest.raises(ContentTooLarge):
        await files.close(handle)
    assert files.history() == []
    assert await files.names() == []


@in_trio
async def test_9_what_is_no_utf8_is_reported_at_close_and_can_still_be_completed(files: Files) -> None:
    await files.write("/a", "old")
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, HALF)
    with pytest.raises(ContentNotText):
        await files.fs.flush(handle.number)  # of a dup
    assert files.get(handle) == HALF
    files.put(handle, 1, REST)
    await files.close(handle)
    assert files.history() == ["created /a old", "modified /a é"]


@in_trio
async def test_9_a_write_may_end_within_a_character(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, b"caf" + HALF)
    files.put(handle, 4, REST)
    await files.close(handle)
    assert files.history() == ["created /a café"]


@in_trio
async def test_9_the_last_writer_drops_what_is_no_text_and_the_version_before_stays(files: Files) -> None:
    await files.write("/a", "old")
    first, second = await files.open("/a", WRITE), await files.open("/a", WRITE)
    reader = await files.open("/a", READ)
    files.put(first, 0, HALF)
    with pytest.raises(ContentNotText):
        await files.close(first)
    assert files.get(reader).startswith(HALF)  # the other writer may complete it
    with pytest.raises(ContentNotText):
        await files.close(second)
    assert files.get(reader) == b"old"
    await files.close(reader)
    assert files.history() == ["created /a old"]


@in_trio
async def test_9_a_new_file_that_is_no_text_is_gone_when_it_is_closed(files: Files) -> None:
    with pytest.raises(ContentNotText):
        await files.write("/a", HALF)
    assert await files.names() == []
    assert files.history() == []
    await files.write("/a", "text")
    assert files.history() == ["created /a text"]


@in_trio
async def test_9_nul_is_text(files: Files) -> None:
    await files.write("/a", b"\0\n\0")
    assert await files.read("/a") == "\0\n\0"


# Unlinked


@in_trio
async def test_5_unlink_writes_deleted(files: Files) -> None:
    await files.write("/a", "text")
    await files.unlink("/a")
    assert files.history() == ["created /a text", "deleted /a"]
    await files.write("/a", "again")
    assert files.history("/a") == ["created /a again"]


@in_trio
async def test_5_an_unlinked_file_keeps_its_bytes_for_its_holders_and_never_comes_back(files: Files) -> None:
    await files.write("/a", "text")
    handle = await files.open("/a", UPDATE)
    inode = handle.node.inode
    files.put(handle, 0, "T")
    await files.unlink("/a")
    assert files.get(handle) == b"Text"
    files.put(handle, 4, "!")
    await files.fs.set_attributes(inode, size=5, handle=handle.number)
    await files.fs.fsync(handle.number)
    assert files.get(handle) == b"Text!"
    again = await files.fs.open(inode, READ, 0)  # by /proc/self/fd
    assert files.get(again) == b"Text!"
    await files.close(again)
    await files.close(handle)
    assert await files.names() == []
    assert files.history() == ["created /a text", "deleted /a"]
    with refused(errno.ESTALE):
        files.fs.node(inode)


@in_trio
async def test_5_a_new_file_that_is_unlinked_before_its_close_was_never_there(files: Files) -> None:
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "text")
    await files.unlink("/a")
    assert files.get(handle) == b"text"
    await files.close(handle)
    assert files.history() == []


@in_trio
async def test_6_an_inode_is_not_reused_while_the_kernel_may_know_it(files: Files) -> None:
    directory = await files.mkdir("/d")
    files.fs.remember(directory)
    await files.rmdir("/d")
    again = await files.mkdir("/d")
    assert again.inode != directory.inode
    assert files.fs.node(directory.inode) is directory
    files.fs.forget(directory.inode, 1)
    with refused(errno.ESTALE):
        files.fs.node(directory.inode)
    await files.rmdir("/d")
    assert (await files.mkdir("/d")).inode == directory.inode


# Attributes


@in_trio
async def test_12_mode_and_mtime_are_kept_without_a_version(files: Files) -> None:
    await files.write("/a", "text")
    await files.mkdir("/d")
    for path in ("/a", "/d"):
        await files.fs.set_attributes(files.node(path).inode, mode=0o100640, mtime_ns=1_000_000_001)
    assert len(files.history()) == 1
    fresh = Files(files.workspace, files.store)
    for path in ("/a", "/d"):
        assert (fresh.node(path).mode, fresh.node(path).mtime_ns) == (0o640, 1_000_000_001)
    await files.fs.set_attributes(files.node("/a").inode, mode=0o644)
    await files.fs.set_attributes(files.node("/d").inode, mode=0o755)


@in_trio
async def test_12_attributes_of_an_open_file_go_with_its_text(files: Files) -> None:
    handle = await files.open("/a", SAVE, mode=0o600)
    files.put(handle, 0, "text")
    await files.fs.set_attributes(handle.node.inode, mtime_ns=5, mode=0o400)
    await files.close(handle)
    assert (files.node("/a").mode, files.node("/a").mtime_ns) == (0o400, 5)


@in_trio
async def test_12_attributes_that_could_not_be_kept_are_not_shown(
    files: Files, db: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(node: Node) -> tuple[int, ...]:
        return node.mode, node.atime_ns, node.mtime_ns, node.ctime_ns

    await files.write("/a", "text")
    await files.mkdir("/d")
    monkeypatch.setattr(opening, "LOCK_TIMEOUT_SECONDS", 0.02)
    with Workspace.open(db) as workspace, closing(sqlite3.connect(db, isolation_level=None)) as holder:
        impatient = Files(workspace, store)
        holder.execute("BEGIN IMMEDIATE")
        for path in ("/a", "/d"):
            node = impatient.node(path)
            before = shown(node)
            with pytest.raises(Busy):
                await impatient.fs.set_attributes(node.inode, mode=0o100600)
            with pytest.raises(Busy):
                await impatient.fs.set_attributes(node.inode, atime_ns=1, mtime_ns=2)
            assert shown(node) == before
        holder.execute("ROLLBACK")
        for path in ("/a", "/d"):
            node = impatient.node(path)
            await impatient.fs.set_attributes(node.inode, mode=0o100600, atime_ns=1, mtime_ns=2)
            assert shown(node)[:3] == (0o600, 1, 2)
        impatient.check()


@in_trio
async def test_12_emptying_what_is_empty_moves_mtime_and_keeps_it(files: Files) -> None:
    await files.write("/a", "")
    before = files.node("/a").mtime_ns
    await files.write("/a", "")
    assert files.node("/a").mtime_ns > before
    await files.fs.set_attributes(files.node("/a").inode, size=0)
    files.check()  # a new mount shows the same
    assert files.history() == ["created /a"]


@in_trio
async def test_12_reading_moves_no_time(files: Files) -> None:
    await files.write("/a", "text")
    node, root = files.node("/a"), files.node("/")
    times = [(each.mtime_ns, each.ctime_ns, each.atime_ns) for each in (node, root)]
    await files.read("/a")
    await files.names()
    assert times == [(each.mtime_ns, each.ctime_ns, each.atime_ns) for each in (node, root)]


@in_trio
async def test_12_loading_a_store_moves_no_directorys_time(files: Files) -> None:
    await files.mkdir("/d")
    first, second = (Files(files.workspace, files.store) for _ in range(2))
    for path in ("/", "/d"):
        assert first.node(path).mtime_ns == second.node(path).mtime_ns


@in_trio
async def test_12_only_regular_files_are_made(files: Files) -> None:
    for kind in (0o010000, 0o020000, 0o060000, 0o140000, 0o120000):
        with refused(errno.EPERM):
            await files.fs.mknod(1, b"a", kind | 0o644)
    await files.fs.mknod(1, b"a", 0o100600)
    with refused(errno.EEXIST):
        await files.fs.mknod(1, b"a", 0o100600)
    assert files.history() == ["created /a"]


# Where nothing may be written


@in_trio
async def test_15_a_read_only_mount_refuses_every_change(files: Files) -> None:
    await files.write("/a", "text")
    await files.mkdir("/d")
    mount = Files(files.workspace, files.store, access="read_only")
    node = mount.node("/a").inode
    attempts = (
        mount.write("/b", "x"),
        mount.open("/a", WRITE),
        mount.open("/a", READ | os.O_TRUNC),
        mount.mkdir("/e"),
        mount.rmdir("/d"),
        mount.unlink("/a"),
        mount.rename("/a", "/b"),
        mount.fs.mknod(1, b"b", 0o100644),
        mount.fs.set_attributes(node, mode=0o600),
        mount.write("/x.tmp", "scratch too"),
    )
    for attempt in attempts:
        with pytest.raises(ReadOnly):
            await attempt
    assert await mount.read("/a") == "text"
    mount.check()


@in_trio
async def test_an_archived_store_gives_up_what_was_not_saved(files: Files) -> None:
    await files.write("/a", "text")
    handle = await files.open("/a", SAVE)
    files.put(handle, 0, "lost")
    files.workspace.stores.archive(files.store.id)
    with pytest.raises(StoreArchived):
        await files.close(handle)
    assert await files.read("/a") == "text"
    with pytest.raises(StoreArchived):
        await files.write("/a", "x")


@in_trio
async def test_handles_that_are_not_open_are_ebadf(files: Files) -> None:
    handle = await files.open("/a", EXCLUSIVE)
    await files.close(handle)
    with refused(errno.EBADF):
        files.fs.read(handle.number, 0, 1)
    with refused(errno.EBADF):
        files.fs.open_directory(handle.number)
