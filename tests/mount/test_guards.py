"""Guards, reads on record, and stores that are archived or deleted, on real mounts."""

import errno
import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memfs.model.records import GuardAction, Guards
from memfs.mount.processes import mounted_at
from memfs.workspace import Workspace
from tests.mount.harness import Site, shell, wait_for_end, wait_until

KEY = "AKIA" + "QYLPMN5HHHFPZAM2"
"""What looks like an AWS access key, and is none."""


def guard(at: Site, guards: Guards) -> None:
    """Guard the store ``notes`` while it is mounted."""
    with Workspace.open(at.db) as workspace:
        workspace.stores.set_guards(workspace.stores.resolve("notes").id, guards)


def test_a_secret_is_refused_at_close_with_the_reason_in_log_and_status(at: Site, notes: Path) -> None:
    (notes / "a.md").write_text("before\n")
    guard(at, Guards(secrets="reject"))
    file = (notes / "a.md").open("w")
    file.write(f"aws_access_key_id = {KEY}\n")
    with pytest.raises(PermissionError) as raised:
        file.close()
    assert raised.value.errno == errno.EACCES
    assert (notes / "a.md").read_text() == "before\n"
    (refusal,) = at.refusals()
    (mount,) = at.status()
    assert refusal["path"] == "/a.md"
    assert "in line 1" in refusal["reason"]
    table = at.run("status").stdout
    assert f"{notes}/a.md: {refusal['reason']}" in table
    log = Path(mount["log"]).read_text()
    assert refusal["reason"] in log
    assert KEY not in json.dumps(mount) + table + log
    at.expected_log += ["refused path=/a.md", "dropped a.md"]


def test_tools_see_permission_denied(at: Site, notes: Path) -> None:
    (notes / "a.md").write_text("one\n")
    guard(at, Guards(secrets="reject"))
    script = f"""
    echo 'key: {KEY}' > "$T/key"
    if cp "$T/key" b.md 2> "$T/cp"; then exit 1; fi
    grep -qi 'permission denied' "$T/cp"
    if sed -i 's/one/{KEY}/' a.md 2> "$T/sed"; then exit 1; fi
    grep -qi 'permission denied' "$T/sed"
    echo 'key: {KEY}' > c.md  # a shell's redirection does not look at what close() says
    test "$(cat a.md)" = one
    ls -A > "$T/ls"; test "$(cat "$T/ls")" = a.md
    echo two >> a.md
    """
    shell(f"T={at.directory}\n{script}", notes)
    assert at.heads("notes") == {"/a.md": b"one\ntwo\n"}
    at.expected_log += ["refused path=/a.md", "refused path=/[bc].md", "dropped b.md", "dropped c.md"]


def test_what_a_guard_masked_is_what_everybody_reads_next(at: Site, notes: Path) -> None:
    guard(at, Guards(secrets="mask"))
    (notes / "a.md").write_text(f"before\naws_access_key_id = {KEY}\nafter\n")
    stored = (notes / "a.md").read_text()
    assert KEY not in stored
    assert stored.startswith("before\n")
    assert stored.endswith("\nafter\n")
    assert (notes / "a.md").stat().st_size == len(stored.encode())
    assert at.operations("notes") == [("created", "/a.md", stored.encode())]
    # A save by rename, and an append through a descriptor that was open all the time.
    shell(f"printf '%s\\n' 'x {KEY} y' > .a.md.tmp && mv .a.md.tmp a.md && ! grep -q {KEY} a.md", notes)
    shell(
        f"exec 3>> a.md; echo 'key {KEY}' >&3; sync a.md; echo end >&3; exec 3>&-; tail -n 1 a.md | grep -qx end", notes
    )
    assert KEY.encode() not in b"".join(content or b"" for _, _, content in at.operations("notes"))


def test_a_writer_goes_on_where_it_is_when_a_guard_has_masked_what_it_wrote(at: Site, notes: Path) -> None:
    guard(at, Guards(secrets="mask"))
    script = f"""
    {{ echo 'key {KEY}' | cat; date +one; echo two; }} > longer.md
    {{ echo 'password = "hunter2x{"hunter2x" * 20}"' | cat; echo tail; }} > shorter.md
    exec 3> by-hand.md; echo 'key {KEY}' >&3; sync by-hand.md; echo end >&3; exec 3>&-
    """
    shell(script, notes)
    masked = "key [AWS access key removed]\n"
    assert (notes / "longer.md").read_text() == f"{masked}one\ntwo\n"
    assert (notes / "by-hand.md").read_text() == f"{masked}end\n"
    shorter = (notes / "shorter.md").read_text()
    assert "\0" not in shorter
    assert shorter.endswith("\ntail\n")
    assert KEY.encode() not in b"".join(content or b"" for _, _, content in at.operations("notes"))


@pytest.mark.parametrize("action", ["mask", "reject"])
def test_the_size_right_after_a_close_is_that_of_the_text(at: Site, notes: Path, action: GuardAction) -> None:
    before = "a note that stays what it is\n"
    guard(at, Guards(secrets=action))
    at.expected_log += ["refused path=", "dropped"] if action == "reject" else []
    for number in range(100):
        (notes / "a.md").write_text(before)
        for name in ("a.md", f"new{number}.md"):
            descriptor = os.open(notes / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.write(descriptor, f"key {KEY}\n".encode())
            os.fstat(descriptor)  # so that the kernel knows a size
            if action == "mask":
                os.close(descriptor)
                size = (notes / name).stat().st_size
                assert size == len("key [AWS access key removed]\n") == len((notes / name).read_bytes())
                continue
            with pytest.raises(PermissionError):
                os.close(descriptor)
            if name == "a.md":
                assert (notes / name).stat().st_size == len(before)
            else:
                assert not (notes / name).exists()


def test_sizes_and_paths_are_guarded(at: Site, notes: Path) -> None:
    guard(at, Guards(max_content_bytes=5, allowed_paths=("/ok/**",)))
    (notes / "ok").mkdir()
    (notes / "ok" / "a.md").write_text("12345")
    for name, text in (("ok/b.md", "123456"), ("a.md", "1")):
        with pytest.raises(PermissionError):
            (notes / name).write_text(text)
    assert at.heads("notes") == {"/ok/a.md": b"12345"}
    assert [refusal["path"] for refusal in at.refusals(2)] == ["/ok/b.md", "/a.md"]
    at.expected_log += ["refused path=/ok/b.md", "refused path=/a.md", "dropped [ab].md"]


def accessed(at: Site) -> dict[str, str]:
    """When each memory was last read, by path."""
    with closing(sqlite3.connect(at.db)) as db:
        return dict(
            db.execute("SELECT path, accessed_at FROM memories JOIN memory_accesses ON memory_id = memories.id")
        )


@pytest.mark.parametrize("access", ["read_write", "read_only"])
def test_reads_are_on_record_after_unmount_and_change_nothing_else(at: Site, access: str) -> None:
    at.store("read", a_md="a", b_md="b")
    (directory,) = at.mount(f"read:{access}")
    shell("cat a.md && stat b.md && ls -l", directory)
    assert accessed(at) == {}, "reading is no write"
    before = at.operations("read")
    at.run("umount", at.root)
    assert accessed(at).keys() == {"/a.md"}
    assert at.operations("read") == before


def test_a_store_that_is_deleted_under_its_mount_is_a_stale_handle(at: Site, notes: Path) -> None:
    (notes / "a.md").write_text("a")
    with Workspace.open(at.db) as workspace:
        workspace.stores.delete(workspace.stores.resolve("notes").id)
    for attempt in (lambda: (notes / "a.md").read_text(), lambda: (notes / "b.md").write_text("b")):
        with pytest.raises(OSError, match="Stale file handle"):
            attempt()
    wait_until(lambda: at.status()[0]["state"] == "deleted", "the store is seen as deleted")
    at.run("umount", at.root)


def test_the_worker_of_a_deleted_store_is_not_started_again(at: Site) -> None:
    at.store("gone", a_md="a")
    at.store("there", a_md="a")
    _, there = at.mount("gone", "there")
    with Workspace.open(at.db) as workspace:
        workspace.stores.delete(workspace.stores.resolve("gone").id)
    os.kill(at.worker("gone"), signal.SIGKILL)
    log = Path(at.status()[0]["log"])
    wait_until(lambda: "not mounted again, for the store is deleted" in log.read_text(), "the worker is given up")
    assert [mount["state"] for mount in at.status()] == ["unmounted", "mounted"]
    assert log.read_text().count("a worker died") == 1
    (there / "b.md").write_text("b")
    at.expected_log += ["a worker died", "could not mount again", "not mounted again"]


def test_refusals_are_forgotten_where_another_session_mounts_after_a_crash(at: Site, notes: Path) -> None:
    guard(at, Guards(secrets="reject"))
    with pytest.raises(PermissionError):
        (notes / "a.md").write_text(KEY)
    assert len(at.refusals()) == 1
    at.restart_worker("notes")
    assert len(at.status()[0]["refusals"]) == 1, "a worker goes on where the one before it ended"
    supervisor = at.supervisor()
    os.kill(supervisor, signal.SIGKILL)
    wait_for_end(supervisor)
    wait_until(lambda: not mounted_at(notes), "the worker has unmounted")
    at.mount("notes")
    assert at.status()[0]["refusals"] == []
    at.expected_log += ["refused path=/a.md", "dropped a.md", "a worker died"]


@pytest.mark.parametrize("text", ["[1]", "null", "\0", "[" * 100_000, '[{"at": 5, "path": 1, "reason": null}]'])
def test_status_is_shown_where_the_refusals_are_damaged(at: Site, notes: Path, text: str) -> None:
    guard(at, Guards(secrets="reject"))
    with pytest.raises(PermissionError):
        (notes / "a.md").write_text(KEY)
    assert len(at.refusals()) == 1  # or the worker would write to the file after us
    log = Path(at.status()[0]["log"])
    (file,) = log.parent.glob(f"{log.stem}.*.refused")
    file.write_text(text)
    assert at.status()[0]["refusals"] == []
    assert str(notes) in at.run("status").stdout
    at.expected_log += ["refused path=/a.md", "dropped a.md"]


def test_a_loop_of_refused_writes_does_not_fill_the_log(at: Site, notes: Path) -> None:
    guard(at, Guards(max_content_bytes=1))
    for _ in range(300):
        with pytest.raises(PermissionError):
            (notes / "a.md").write_text("12")
    assert len(at.refusals(10)) == 10
    seconds = len({line[:19] for line in Path(at.status()[0]["log"]).read_text().splitlines()})
    assert len(Path(at.status()[0]["log"]).read_text().splitlines()) <= 40 * seconds + 1
    at.expected_log += ["refused path=/a.md", "dropped a.md"]
