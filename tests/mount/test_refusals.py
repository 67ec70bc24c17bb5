"""What a mount refuses is told once, where it was, by which operation and rule; and a flood of it is not."""

import errno
import json
import logging
import os
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from memfs.mount.refusals import KEPT, Refusals, escaped, quoted, read_refusals
from tests.mount.harness import Site, wait_until

# The account


def test_a_name_cannot_forge_a_line() -> None:
    name = '/a"b\\ c=d\n2026 level=ERROR \x1b[2J\u2028\u202e\udcff'
    text = quoted(name)
    assert text.isprintable()
    assert text == '"/a\\"b\\\\ c=d\\n2026 level=ERROR \\x1b[2J\\u2028\\u202e\\udcff"'
    assert quoted("/plain/日本語.md") == "/plain/日本語.md"
    assert quoted("/two words") == '"/two words"'
    assert len(escaped("x" * 100_000)) < 2_000


def test_a_flood_has_few_lines_and_a_summary(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    moment = 100.0
    caplog.set_level(logging.INFO)
    account = Refusals(tmp_path / "x.refused", clock=lambda: moment)
    for _ in range(10):
        for _ in range(1_000):
            account.add("/a", "flush", errno.EILSEQ, "not text")
        moment += 1.0
    account.close()
    lines = caplog.messages
    told = [line for line in lines if line == "refused path=/a operation=flush errno=EILSEQ reason=not text"]
    more = [int(found[1]) for line in lines if (found := re.fullmatch(r"refused more=(\d+) seconds=\d+", line))]
    assert len(told) == 29
    assert len(told) + sum(more) == 10_000
    assert len(lines) == len(told) + len(more) < 50
    assert len(read_refusals(tmp_path / "x.refused")) == KEPT


def test_failures_are_limited_too_and_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    account = Refusals(tmp_path / "x.refused")
    for number in range(100):
        try:
            raise RuntimeError(f"fault {number}")
        except RuntimeError as error:
            account.fault("/a", "read", error)
    account.add("/a", "flush", errno.EFBIG, "too much", level=logging.WARNING)
    assert 20 <= sum("failed path=/a operation=read errno=EIO" in line for line in caplog.messages) <= 25
    assert caplog.text.count("Traceback") <= 25
    assert caplog.messages[-1] == "refused path=/a operation=flush errno=EFBIG reason=too much"


def test_a_flood_does_not_write_a_file_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    dump: Callable[..., None] = json.dump

    def counting(*arguments: object) -> None:
        nonlocal written
        written += 1
        dump(*arguments)

    monkeypatch.setattr("memfs.mount.refusals.json.dump", counting)
    file = tmp_path / "x.refused"

    async def flood() -> None:
        account = Refusals(file)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(account.keep)
            account.add("/first", "flush", errno.EILSEQ, "not text")
            await trio.testing.wait_all_tasks_blocked()
            assert [each.path for each in read_refusals(file)] == ["/first"], "the first is there at once"
            for number in range(5_000):
                account.add(f"/{number}", "flush", errno.EILSEQ, "not text")
                if number % 100 == 0:
                    await trio.lowlevel.checkpoint()
            with trio.fail_after(10):
                while [each.path for each in read_refusals(file)][-1:] != ["/4999"]:
                    await trio.sleep(0.05)
            nursery.cancel_scope.cancel()

    trio.run(flood)
    assert written <= 20


# On a mount

REFUSED: dict[str, tuple[Callable[[Path], object], str, str, str, str]] = {
    # by: what is done, path, operation, errno, part of the rule
    "binary": (lambda d: (d / "b.md").write_bytes(b"\xff"), "/b.md", "flush", "EILSEQ", "not UTF-8"),
    "size": (lambda d: (d / "l.md").write_text("x" * 102_401), "/l.md", "write", "EFBIG", "102400 bytes"),
    "truncate": (lambda d: os.truncate(d / "a.md", 200_000), "/a.md", "setattr", "EFBIG", "102400 bytes"),
    "control": (lambda d: (d / "x\ny").write_text(""), "/x\ny", "create", "EINVAL", "control"),
    "bytes": (lambda d: (d / os.fsdecode(b"x\xff")).mkdir(), "/x\udcff", "mkdir", "EILSEQ", "UTF-8"),
    "git": (lambda d: (d / "sub" / ".git").mkdir(), "/sub/.git", "mkdir", "EPERM", "git repository"),
    "symlink": (lambda d: (d / "s").symlink_to("a.md"), "/s", "symlink", "EPERM", "no links"),
    "link": (lambda d: os.link(d / "a.md", d / "sub" / "h"), "/sub/h", "link", "EPERM", "no links"),
    "pipe": (lambda d: os.mkfifo(d / "p"), "/p", "mknod", "EPERM", "no pipes"),
    "socket": (lambda d: os.mknod(d / "k", stat.S_IFSOCK | 0o600), "/k", "mknod", "EPERM", "no pipes, sockets"),
    "rename": (lambda d: os.rename(d / "bad.tmp", d / "a.md"), "/a.md", "rename", "EILSEQ", "not UTF-8"),
}


def told(at: Site, path: str, operation: str) -> dict[str, str]:
    """What status tells of a refused operation."""

    def find() -> list[dict[str, str]]:
        refused = at.status()[0]["refusals"]
        return [each for each in refused if (each["path"], each["operation"]) == (path, operation)]

    return wait_until(find, f"{operation} of {path} is told")[0]


@pytest.mark.mount
def test_each_refusal_is_told_with_path_operation_errno_and_rule(at: Site, notes: Path) -> None:
    (notes / "sub").mkdir()
    (notes / "a.md").write_text("a")
    (notes / "bad.tmp").write_bytes(b"\xff")
    before = at.status()[0]["refusals"]
    assert before == []
    for act, path, operation, name, rule in REFUSED.values():
        with pytest.raises(OSError) as raised:  # noqa: PT011 (the errno is looked at)
            act(notes)
        assert errno.errorcode[raised.value.errno or 0] == name
        found = told(at, path, operation)
        assert found["errno"] == name
        assert rule in found["reason"]
    log = Path(at.status()[0]["log"]).read_text()
    lines = [line for line in log.splitlines() if " refused path=" in line]
    assert len(lines) == len(REFUSED) + 1, "the close after the write that was too long"
    assert all("session=sesn_" in line and "store=memstore_" in line for line in lines)
    assert 'refused path="/x\\ny" operation=create errno=EINVAL' in log
    table = at.run("status").stdout
    assert f"{notes}/a.md: " in table
    assert " (rename, EILSEQ)" in table
    at.expected_log += ["dropped b.md", "dropped l.md"]


@pytest.mark.mount
def test_looking_around_is_not_told(at: Site, notes: Path) -> None:
    """What programs provoke all the time, editors' locks, and what the kernel refuses by itself."""
    (notes / "a.md").write_text("a")
    (notes / "d").mkdir()
    for act in (
        lambda: (notes / "missing").read_text(),
        lambda: (notes / "d").mkdir(),
        lambda: (notes / "a.md" / "x").read_text(),
        lambda: (notes / "d").read_text(),
        lambda: os.rmdir(notes / "a.md"),
        lambda: os.stat(notes / ("x" * 256)),
        lambda: os.symlink("ada@host.1", notes / ".#a.md"),
        lambda: os.getxattr(notes / "a.md", "user.x"),
    ):
        with pytest.raises(OSError):  # noqa: PT011 (any: that they are refused is not what is tested)
            act()
    log = Path(at.status()[0]["log"])
    with pytest.raises(PermissionError):
        os.mkfifo(notes / "pipe")
    assert [told["operation"] for told in at.refusals()] == ["mknod"], "and nothing before it"
    assert log.read_text().count("refused") == 1


@pytest.mark.mount
def test_refusals_outlive_the_worker(at: Site, notes: Path) -> None:
    with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as server:  # noqa: PT011 (the next line tells)
        server.bind(os.fspath(notes / "s"))
    assert [told["operation"] for told in at.refusals()] == ["mknod"]
    at.restart_worker("notes")
    assert [r["path"] for r in at.status()[0]["refusals"]] == ["/s"]
    at.expected_log += ["a worker died"]
