"""Files as tools use them, on a real mount, and what the history says afterwards.

The kinds of fault are those that people met on comparable filesystems; each test names the rule of DESIGN.md that it
shows ("A file is a memory").
"""

import ctypes
import errno
import mmap
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mount.harness import LIMIT, Site, shell, wait_until

pytestmark = pytest.mark.mount


def errno_of(action: Callable[[], object]) -> int | None:
    """The errno of a refused call, None where it went through."""
    try:
        action()
    except OSError as error:
        return error.errno
    return None


# 1, 2: when a version is made


def test_a_shell_redirection_is_one_version(at: Site, notes: Path) -> None:
    """1: the shell closes a copy of the descriptor before it writes; that is no version of an empty text."""
    shell("echo one > a.md; echo two > a.md; printf three >> a.md", notes)
    assert at.operations("notes") == [
        ("created", "/a.md", b"one\n"),
        ("modified", "/a.md", b"two\n"),
        ("modified", "/a.md", b"two\nthree"),
    ]


def test_what_changes_no_byte_makes_no_version(at: Site, notes: Path) -> None:
    """1: identical re-save, touch, chmod, opening for writing, reading."""
    shell("echo same > f", notes)
    before = at.operations("notes")
    shell("echo same > f; touch f; chmod 600 f; cat f; exec 5<> f; exec 5>&-; : >> f; cp f /dev/null", notes)
    assert at.operations("notes") == before


def test_an_empty_file_is_a_memory(at: Site, notes: Path) -> None:
    """1, 2: closed is committed, also where nothing was written."""
    shell('touch t; : > r; python3 -c \'open("p", "w").close()\'; truncate -s 2 z', notes)
    assert at.heads("notes") == {"/t": b"", "/r": b"", "/p": b"", "/z": b"\0\0"}


def test_emptying_is_a_version(at: Site, notes: Path) -> None:
    """1: one version for `: >`, truncate(1), truncate(2) and O_TRUNC each."""
    shell("for f in a b c; do echo text > $f; done; : > a; truncate -s 0 b", notes)
    os.truncate(notes / "c", 2)
    assert at.operations("notes")[3:] == [("modified", "/a", b""), ("modified", "/b", b""), ("modified", "/c", b"te")]


def test_a_version_is_there_when_close_returns(at: Site, notes: Path) -> None:
    """2: for each of many closes, not soon after."""
    for number in range(30):
        (notes / "a.md").write_text(str(number))
        assert at.heads("notes")["/a.md"] == str(number).encode()


def test_a_version_is_there_when_fsync_returns(at: Site, notes: Path) -> None:
    """2."""
    with (notes / "a.md").open("w") as file:
        file.write("synced")
        file.flush()
        os.fsync(file.fileno())
        assert at.heads("notes") == {"/a.md": b"synced"}
    assert len(at.history("notes")) == 1


def test_a_buffer_that_stays_open_is_committed_in_time(at: Site, notes: Path) -> None:
    """1: after 5 seconds dirty, for who never closes."""
    with (notes / "log.md").open("w") as file:
        file.write("line\n")
        file.flush()
        wait_until(lambda: at.heads("notes").get("/log.md") == b"line\n", "the timer")


def test_what_a_reader_makes_or_empties_is_committed_at_close(at: Site, notes: Path) -> None:
    """2: Linux does both for O_RDONLY too."""
    (notes / "f").write_text("text")
    os.close(os.open(notes / "f", os.O_RDONLY | os.O_TRUNC))
    os.close(os.open(notes / "g", os.O_RDONLY | os.O_CREAT, 0o644))
    assert at.heads("notes") == {"/f": b"", "/g": b""}


def test_many_flushes_of_one_save(at: Site, notes: Path) -> None:
    """1: children that inherit the descriptor and end do not cut a character, and the last text is whole."""
    shell(
        r"""
        exec 5> f; printf part1 >&5; (exit 0); sh -c 'printf "\303" >&5'; (:); printf '\251part3' >&5; exec 5>&-
        { echo a; /bin/true; echo b; ( echo c ); } > g
        """,
        notes,
    )
    assert at.heads("notes") == {"/f": "part1épart3".encode(), "/g": b"a\nb\nc\n"}


def test_emptying_beside_a_reader_is_committed_at_close(at: Site, notes: Path) -> None:
    """2: only another descriptor for writing says that the emptying is not all that was meant."""
    (notes / "f").write_text("text")
    reader = os.open(notes / "f", os.O_RDONLY)
    try:
        os.close(os.open(notes / "f", os.O_WRONLY | os.O_TRUNC))
        assert at.heads("notes") == {"/f": b""}
    finally:
        os.close(reader)


# 4: atomic saves


@pytest.mark.parametrize("temporary", ["d.tmp", ".d.md.Xy12zA", "other.md", ".goutputstream-X1", "d.md.tmp.4711.99"])
def test_an_atomic_save_continues_the_history(at: Site, notes: Path, temporary: str) -> None:
    """4: by whatever name the new text was written first."""
    shell(f"echo old > d.md; echo new > {temporary}; mv -f {temporary} d.md", notes)
    history = at.history("notes", "/d.md")
    assert [(v.operation, v.content) for v in history] == [("created", b"old\n"), ("modified", b"new\n")]
    assert os.listdir(notes) == ["d.md"]
    others = [v for v in at.history("notes") if v.memory_id != history[0].memory_id]
    assert [v.operation for v in others] in ([], ["created", "deleted"])


def test_sed_and_perl_edit_in_place(at: Site, notes: Path) -> None:
    """4, 12, 13: one version an edit, the same memory, the mode kept, no leftover."""
    shell("echo one > f; chmod 640 f; sed -i s/one/two/ f; perl -pi -e s/two/three/ f", notes)
    history = at.history("notes")
    assert [(v.operation, v.content) for v in history[:2]] == [("created", b"one\n"), ("modified", b"two\n")]
    assert at.heads("notes") == {"/f": b"three\n"}
    assert {v.memory_id for v in history[:2]} == {history[0].memory_id}
    assert stat.S_IMODE((notes / "f").stat().st_mode) == 0o640
    assert os.listdir(notes) == ["f"]


def test_an_editor_that_renames_the_original_to_a_backup(at: Site, notes: Path) -> None:
    """4, 13: as vim saves; one version a save, the memory's id unchanged."""
    shell("echo v1 > n.md", notes)
    for number in (2, 3):
        shell(f"mv n.md n.md~; echo v{number} > n.md; rm n.md~", notes)
    assert at.operations("notes") == [
        ("created", "/n.md", b"v1\n"),
        ("modified", "/n.md", b"v2\n"),
        ("modified", "/n.md", b"v3\n"),
    ]
    assert len({v.memory_id for v in at.history("notes")}) == 1


def test_saving_over_a_path_that_was_deleted(at: Site, notes: Path) -> None:
    """4, 5: a new memory; the old one's history ends with `deleted`."""
    shell("echo a > d; rm d; echo b > d.tmp; mv d.tmp d; echo c > d.tmp; mv d.tmp d", notes)
    assert [(v.operation, v.content) for v in at.history("notes", "/d")] == [
        ("created", b"b\n"),
        ("modified", b"c\n"),
    ]
    assert at.operations("notes")[:2] == [("created", "/d", b"a\n"), ("deleted", "/d", None)]


def test_a_file_renamed_while_it_is_open(at: Site, notes: Path) -> None:
    """4: the handle follows the inode."""
    (notes / "d.txt").write_text("old\n")
    descriptor = os.open(notes / ".goutputstream-X1", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    os.write(descriptor, b"new\n")
    os.rename(notes / ".goutputstream-X1", notes / "d.txt")
    assert at.heads("notes") == {"/d.txt": b"new\n"}
    os.write(descriptor, b"more\n")
    os.close(descriptor)
    assert at.heads("notes") == {"/d.txt": b"new\nmore\n"}
    descriptor = os.open(notes / "1", os.O_CREAT | os.O_WRONLY, 0o644)
    os.rename(notes / "1", notes / "2")
    os.write(descriptor, b"0123")
    os.close(descriptor)
    assert at.operations("notes", "/2") == [("created", "/2", b"0123")]


def test_moving_keeps_the_memory(at: Site, notes: Path) -> None:
    """4: its id, its inode, its mtime; `modified` with the new path."""
    shell("mkdir d; echo x > a", notes)
    before = (notes / "a").stat()
    os.rename(notes / "a", notes / "d" / "b")
    after = (notes / "d" / "b").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert at.operations("notes") == [("created", "/a", b"x\n"), ("modified", "/d/b", b"x\n")]
    at.run("umount", at.root)
    (notes,) = at.mount("notes")
    again = (notes / "d" / "b").stat()
    assert (again.st_ino, again.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_directory_moves_as_a_whole(at: Site, notes: Path) -> None:
    """4: names with _ and %, and neighbours that begin alike, are nothing special."""
    shell(
        "mkdir a_b axb ab abc 'p%' pzz; for d in *; do echo $d > $d/f; done; mkdir ab/deep; echo x > ab/deep/y", notes
    )
    inode = (notes / "ab" / "deep").stat().st_ino
    shell("mv a_b new; mv ab zz; rm -r 'p%'", notes)
    assert at.heads("notes") == {
        "/abc/f": b"abc\n",
        "/axb/f": b"axb\n",
        "/new/f": b"a_b\n",
        "/pzz/f": b"pzz\n",
        "/zz/deep/y": b"x\n",
        "/zz/f": b"ab\n",
    }
    assert (notes / "zz" / "deep").stat().st_ino == inode


def test_renameat2_flags(at: Site, notes: Path) -> None:
    """4: NOREPLACE refuses, EXCHANGE swaps, and the memories keep their ids."""
    libc = ctypes.CDLL(None, use_errno=True)
    (notes / "a").write_text("a")
    (notes / "b").write_text("b")
    ids = {v.path: v.memory_id for v in at.history("notes")}

    def renameat2(flags: int) -> int:
        a, b = os.fsencode(notes / "a"), os.fsencode(notes / "b")
        return 0 if libc.renameat2(-100, a, -100, b, flags) == 0 else ctypes.get_errno()

    assert renameat2(1) == errno.EEXIST
    assert renameat2(2) == 0
    assert at.heads("notes") == {"/a": b"b", "/b": b"a"}
    assert at.history("notes", "/a")[-1].memory_id == ids["/b"]
    assert renameat2(4) == errno.EINVAL


# 5, 6: unlinking and inodes


def test_an_unlinked_file_keeps_its_bytes_for_its_holders(at: Site, notes: Path) -> None:
    """5: and never comes back at close."""
    (notes / "f").write_text("bytes")
    with (notes / "f").open("r+") as file:
        os.unlink(notes / "f")
        assert file.read() == "bytes"
        file.write("ghost")
        file.flush()
        os.fsync(file.fileno())
        assert os.fstat(file.fileno()).st_nlink == 0
        assert file.seek(0) == 0
        assert file.read() == "bytesghost"
    assert os.listdir(notes) == []
    assert at.operations("notes") == [("created", "/f", b"bytes"), ("deleted", "/f", None)]


def test_a_replaced_file_keeps_its_bytes_for_its_holders(notes: Path) -> None:
    """5, 6: the new file has another inode."""
    (notes / "f").write_text("OLD" * 2000)
    with (notes / "f").open() as reader:
        inode = os.fstat(reader.fileno()).st_ino
        assert reader.read(3) == "OLD"
        (notes / "t").write_text("new")
        new_inode = (notes / "t").stat().st_ino
        os.replace(notes / "t", notes / "f")
        assert reader.read() == "OLD" * 1999
        assert (notes / "f").read_text() == "new"
        assert (notes / "f").stat().st_ino == new_inode != inode


def test_inodes_are_the_same_in_listings_and_over_mounts(at: Site, notes: Path) -> None:
    """6."""
    shell("mkdir -p d/e; echo 1 > f; echo 2 > d/g; echo 3 > t; mv t f; mv d q; mkdir d", notes)
    paths = [notes, *notes.rglob("*")]
    inodes = {path: path.stat().st_ino for path in paths}
    assert len(set(inodes.values())) == len(inodes)
    for directory in (notes, notes / "q"):
        for entry in os.scandir(directory):
            assert entry.inode() == inodes[Path(entry.path)]
    at.run("umount", at.root)
    at.mount("notes")
    assert {path: path.stat().st_ino for path in paths} == inodes


# 9, 10: what a store holds


def test_too_much_is_refused_at_the_write(at: Site, notes: Path) -> None:
    """9: nothing of it is committed, the text before stays, and nothing is allocated."""
    at.expected_log.append("dropped .* a write over 102400 bytes was refused")
    (notes / "f").write_text("keep")
    assert errno_of(lambda: (notes / "f").write_bytes(b"x" * 102_401)) == errno.EFBIG
    assert at.heads("notes") == {"/f": b"keep"}
    wait_until(lambda: (notes / "f").read_bytes() == b"keep", "the old text")
    (notes / "ok").write_bytes(b"y" * 102_400)
    with (notes / "ok").open("ab") as file:
        assert errno_of(lambda: os.write(file.fileno(), b"z")) == errno.EFBIG
    assert (notes / "ok").stat().st_size == 102_400
    assert errno_of(lambda: os.truncate(notes / "f", 10**10)) == errno.EFBIG
    descriptor = os.open(notes / "g", os.O_CREAT | os.O_WRONLY)
    assert errno_of(lambda: os.pwrite(descriptor, b"x", 10**10)) == errno.EFBIG
    assert errno_of(lambda: os.close(descriptor)) == errno.EFBIG
    (notes / "u").write_text("é" * 51_200)
    assert errno_of(lambda: (notes / "v").write_text("é" * 51_200 + "e")) == errno.EFBIG
    assert sorted(at.heads("notes")) == ["/f", "/ok", "/u"]
    resident = Path(f"/proc/{at.worker('notes')}/statm").read_text().split()[1]
    assert int(resident) * 4096 < 150_000_000


def test_binary_is_refused_at_close(at: Site, notes: Path) -> None:
    """9: judged as a whole, so that a character may be written in parts; the version before stays."""
    at.expected_log.append("dropped .* not UTF-8")
    text = ("日本語😀é" * 400).encode()  # written before the timer of five seconds makes a version of some of it
    for step in (1000, 4096, 7):
        with (notes / "u").open("wb", buffering=0) as file:
            for start in range(0, len(text), step):
                file.write(text[start : start + step])
        assert (notes / "u").read_bytes() == text
    with (notes / "u").open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), b"\xe6", 0)
        os.pwrite(file.fileno(), b"\x97\xa5", 1)
    assert len(at.history("notes")) == 1
    assert errno_of(lambda: (notes / "u").write_bytes(b"\xff\xfe")) == errno.EILSEQ
    assert errno_of(lambda: (notes / "new").write_bytes(text[:700])) == errno.EILSEQ
    wait_until(lambda: (notes / "u").read_bytes() == text, "the old text")
    wait_until(lambda: not (notes / "new").exists(), "the refused file to go")
    assert at.heads("notes") == {"/u": text}


def test_texts_are_kept_byte_for_byte(at: Site, notes: Path) -> None:
    """9: line ends, BOM, NUL, no last newline, every plane of Unicode."""
    texts = [
        b"\xef\xbb\xbfa\r\nb",
        b"no newline",
        b"\n\n",
        b"a\0b",
        b"\r",
        b"x" * 102_400,
        "a\u2028b\u0085c\x0c".encode(),
        "".join(chr(plane << 16 | 0x41) for plane in range(17)).encode(),
        b"",
    ]
    for number, text in enumerate(texts):
        (notes / str(number)).write_bytes(text)
    assert [(notes / str(number)).read_bytes() for number in range(len(texts))] == texts
    assert at.heads("notes") == {f"/{number}": text for number, text in enumerate(texts)}


LEGAL = [" lead", "trail ", "dot.", "..x", "...", "-rf", "q'\";--", "back\\slash", "*?[x]", "😀", "%41", "_", "%", "C:"]
LEGAL += ["a:b", ".hidden", "CON", "café.md", "É.md", "é.md", "飞" * 85, "x" * 255, "~", "#x#"]
FORBIDDEN = ["a\nb", "a\tb", "null\x7f", "é\u200b", "cafe\u0301", "a\u2028b", "\u0085"]


def test_awkward_names_come_back_as_they_are(at: Site, notes: Path) -> None:
    """10: nothing is trimmed, folded or escaped."""
    for name in LEGAL:
        (notes / name).write_text(name)
    assert sorted(os.listdir(notes)) == sorted(LEGAL)
    for name in LEGAL:
        assert (notes / name).read_text() == name
    assert set(at.heads("notes")) == {f"/{name}" for name in LEGAL if name not in ("~", "#x#")}
    for name in LEGAL[:-3]:
        if len(os.fsencode(name)) < 255:
            os.rename(notes / name, notes / f"{name}2")
            os.unlink(notes / f"{name}2")


def test_names_that_no_memory_may_have_are_refused(at: Site, notes: Path) -> None:
    """10: at every way to make one, and never rewritten; asked for, they are not there."""
    (notes / "ok").write_text("ok")
    for encoded in [*map(os.fsencode, FORBIDDEN), b"caf\xe9", b"\xff\xfe"]:
        path = os.fsencode(notes) + b"/" + encoded
        assert not os.path.exists(path)
        for make in (
            lambda path=path: open(path, "w").close(),
            lambda path=path: os.mkdir(path),
            lambda path=path: os.rename(os.fsencode(notes / "ok"), path),
        ):
            assert errno_of(make) in (errno.EINVAL, errno.EILSEQ)
    for name in ("x" * 256, "飞" * 85 + "x", "y" * 1000):
        for use in (
            lambda name=name: (notes / name).write_text(""),
            lambda name=name: (notes / name).mkdir(),
            lambda name=name: (notes / name).stat(),
            lambda name=name: os.rename(notes / "ok", notes / name),
        ):
            assert errno_of(use) == errno.ENAMETOOLONG
    assert os.listdir(notes) == ["ok"]


def test_paths_have_their_limits(at: Site, notes: Path) -> None:
    """10: 20 segments and 1,024 bytes."""
    deep = notes.joinpath(*["d"] * 19)
    deep.mkdir(parents=True)
    (deep / "f").write_text("deep")
    (deep / "d").mkdir()
    assert errno_of(lambda: (deep / "d" / "f").write_text("")) == errno.ENAMETOOLONG
    long = notes / ("a" * 255) / ("b" * 255) / ("c" * 255)
    long.mkdir(parents=True)
    (long / ("e" * 255)).write_text("1,024 bytes")
    (long / "sub").mkdir()
    assert errno_of(lambda: (long / "sub" / ("f" * 252)).write_text("")) == errno.ENAMETOOLONG
    assert len(at.heads("notes")) == 2


def test_a_git_directory_is_refused(at: Site, notes: Path) -> None:
    """13: with the reason in the log."""
    assert errno_of(lambda: (notes / ".git").mkdir()) == errno.EPERM
    assert errno_of(lambda: (notes / ".git").write_text("gitdir: x")) == errno.EPERM
    log = Path(at.status()[0]["log"]).read_text()
    assert "operation=mkdir errno=EPERM" in log
    assert "git repository" in log


def test_refusals_are_logged_and_cannot_flood(at: Site, notes: Path) -> None:
    """A line for each refused operation, so many a second."""
    for _ in range(500):
        assert errno_of(lambda: (notes / "a\tb").mkdir()) == errno.EINVAL
    lines = [line for line in Path(at.status()[0]["log"]).read_text().splitlines() if "operation=mkdir" in line]
    seconds = len({line[:19] for line in lines})
    assert 20 <= len(lines) <= 40 * seconds
    assert all("errno=EINVAL" in line and "session=sesn_" in line and "store=memstore_" in line for line in lines)


# 11: directories


def test_directories_stay_when_they_are_empty(at: Site, notes: Path) -> None:
    """11: made by mkdir or emptied here, over mounts too."""
    shell(
        "mkdir -p d/e g; touch d/f h; rm d/f; rmdir d/e; mkdir -p only/here; echo x > only/here/f; rm only/here/f",
        notes,
    )
    at.run("umount", at.root)
    at.mount("notes")
    assert shell("find . | sort", notes).split() == [".", "./d", "./g", "./h", "./only", "./only/here"]
    shell("rm -r d g only", notes)
    at.run("umount", at.root)
    at.mount("notes")
    assert os.listdir(notes) == ["h"]


def test_directory_errors_are_those_of_a_disk(notes: Path, tmp_path: Path) -> None:
    """11, 10: the same operations on a plain directory and on the mount give the same errnos."""
    plain = tmp_path / "plain"
    plain.mkdir()

    def errnos(top: Path) -> list[int | None]:
        shell("mkdir full xxx; touch full/bah f; mkdir full/sub", top)
        path = os.fspath(top)
        return [
            errno_of(lambda: os.rename(f"{path}/xxx", f"{path}/full")),
            errno_of(lambda: os.rename(f"{path}/f", f"{path}/xxx")),
            errno_of(lambda: os.rename(f"{path}/xxx", f"{path}/f")),
            errno_of(lambda: os.rename(f"{path}/full", f"{path}/full/sub/x")),
            errno_of(lambda: os.rename(f"{path}/nope", f"{path}/x")),
            errno_of(lambda: os.rename(f"{path}/f", f"{path}/f")),
            errno_of(lambda: os.rmdir(f"{path}/full")),
            errno_of(lambda: os.rmdir(f"{path}/f")),
            errno_of(lambda: os.unlink(f"{path}/xxx")),
            errno_of(lambda: os.mkdir(f"{path}/f")),
            errno_of(lambda: open(f"{path}/f/x", "w")),
            errno_of(lambda: open(f"{path}/xxx", "w")),
            errno_of(lambda: open(f"{path}/no/such", "w")),
            errno_of(lambda: os.listdir(f"{path}/f")),
            errno_of(lambda: os.open(f"{path}/f", os.O_CREAT | os.O_EXCL)),
            errno_of(lambda: os.rmdir(f"{path}/xxx")),
            errno_of(lambda: os.readlink(f"{path}/f")),
            errno_of(lambda: os.open(f"{path}/f", os.O_RDONLY | os.O_DIRECTORY)),
            errno_of(lambda: os.rename(f"{path}/full", f"{path}/moved")),
        ]

    assert errnos(notes) == errnos(plain)


def test_large_directories_are_listed_whole_while_they_change(notes: Path) -> None:
    names = [f"file-with-a-long-enough-name-{number:05d}.md" for number in range(300)]
    for name in names:
        (notes / name).touch()
    assert sorted(os.listdir(notes)) == names
    with os.scandir(notes) as entries:
        for entry in entries:
            os.unlink(entry.path)
    assert os.listdir(notes) == []
    assert sorted(os.listdir(notes.parent)) == ["notes"]


def test_files_stay_listed_while_they_are_saved_atomically(notes: Path) -> None:
    """What is saved by rename is another inode at a name that was there all the time."""
    names = [f"n{number:03d}.md" for number in range(300)]
    for name in names:
        (notes / name).touch()
    descriptor = os.open(notes, os.O_RDONLY)
    try:
        for name in names[:50]:
            (notes / f"{name}.tmp").write_text("saved")
            os.rename(notes / f"{name}.tmp", notes / name)
        assert sorted(os.listdir(descriptor)) == names
    finally:
        os.close(descriptor)
    stop = threading.Event()

    def save() -> None:
        number = 0
        while not stop.is_set():
            number = (number + 7) % len(names)
            (notes / "x.tmp").write_text(str(number))
            os.rename(notes / "x.tmp", notes / names[number])

    editor = threading.Thread(target=save)
    editor.start()
    try:
        for _ in range(30):
            assert set(names) <= set(os.listdir(notes))
    finally:
        stop.set()
        editor.join(LIMIT)


# 12: attributes


def test_attributes_are_kept_without_a_version(at: Site, notes: Path) -> None:
    """12: permission bits and an explicit mtime, over mounts too; reading moves nothing."""
    shell("echo x > f; chmod 000 f; echo y > g; mkdir d; chmod 700 d; umask 077; echo z > secret", notes)
    os.utime(notes / "g", ns=(0, 1_704_164_645_123_456_789))
    assert len(at.history("notes")) == 3

    def figures() -> dict[str, tuple[int, int]]:
        found = {name: (notes / name).stat() for name in ("f", "g", "d", "secret")}
        return {name: (stat.S_IMODE(status.st_mode), status.st_mtime_ns) for name, status in found.items()}

    before = figures()
    assert [mode for mode, _ in before.values()] == [0, 0o644, 0o700, 0o600]
    assert before["g"][1] == 1_704_164_645_123_456_789
    status = (notes / "g").stat()
    (notes / "g").read_bytes()
    again = (notes / "g").stat()
    assert (again.st_mtime_ns, again.st_ctime_ns) == (status.st_mtime_ns, status.st_ctime_ns)
    at.run("umount", at.root)
    at.mount("notes")
    assert {name: value for name, value in figures().items() if name != "d"} == {
        name: value for name, value in before.items() if name != "d"
    }
    assert figures()["d"][0] == 0o700


def test_times_move_with_changes_and_only_then(notes: Path) -> None:
    """12: mtime is the write's, not the commit's; ctime moves also when mtime is set back."""
    descriptor = os.open(notes / "f", os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(descriptor, b"aaaa")
    written = os.fstat(descriptor).st_mtime_ns
    os.close(descriptor)
    assert (notes / "f").stat().st_mtime_ns == written
    with (notes / "f").open("r+") as file:
        file.write("bbbb")
    changed = (notes / "f").stat()
    assert changed.st_mtime_ns > written
    os.utime(notes / "f", ns=(written, written))
    restored = (notes / "f").stat()
    assert restored.st_mtime_ns == written
    assert restored.st_ctime_ns > changed.st_ctime_ns
    descriptor = os.open(notes / "g", os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(descriptor, b"x")
    os.utime(descriptor, (1, 1_577_836_800))
    os.close(descriptor)
    assert (notes / "g").stat().st_mtime == 1_577_836_800


def test_links_and_devices_are_refused_and_chown_is_quiet(at: Site, notes: Path, tmp_path: Path) -> None:
    """12."""
    (notes / "a").write_text("1")
    assert errno_of(lambda: os.link(notes / "a", notes / "b")) == errno.EPERM
    assert errno_of(lambda: os.symlink("a", notes / "b")) == errno.EPERM
    assert errno_of(lambda: os.mkfifo(notes / "b")) == errno.EPERM
    assert errno_of(lambda: os.mknod(notes / "b", stat.S_IFCHR | 0o600, os.makedev(1, 3))) == errno.EPERM
    with socket.socket(socket.AF_UNIX) as listener:
        assert errno_of(lambda: listener.bind(os.fspath(notes / "b"))) == errno.EPERM
    os.mknod(notes / "regular", stat.S_IFREG | 0o640)
    os.chown(notes / "a", 1234, 1234)
    assert (notes / "a").stat().st_uid == os.getuid()
    source = tmp_path / "s"
    source.mkdir(mode=0o751)
    (source / "x").write_text("x")
    shell(f'cp -a "{source}" c; tar -C "{tmp_path}" --owner=4321 -cf - s | tar -xpf -; chown -R 77:77 c', notes)
    assert stat.S_IMODE((notes / "c").stat().st_mode) == 0o751
    assert at.heads("notes") == {"/a": b"1", "/regular": b"", "/c/x": b"x", "/s/x": b"x"}


# 13: editor temporaries


def test_editor_temporaries_are_scratch(at: Site, notes: Path) -> None:
    """13: any bytes, unversioned, uncounted, gone at unmount."""
    before = os.statvfs(notes).f_ffree
    for name in (".n.md.swp", "n.md~", "#n.md#", "n.md.tmp", ".n.md.un~"):
        (notes / name).write_bytes(bytes(range(256)) * 15)
        assert (notes / name).read_bytes() == bytes(range(256)) * 15
    assert os.statvfs(notes).f_ffree == before
    assert at.heads("notes") == {}
    at.run("umount", at.root)
    at.mount("notes")
    assert os.listdir(notes) == []
    assert at.history("notes") == []


def test_a_temporary_of_binary_does_not_become_a_memory(at: Site, notes: Path) -> None:
    """13: it is judged when it is renamed onto a memory's name."""
    (notes / "keep.md").write_text("keep")
    (notes / "x.tmp").write_bytes(b"\xff" * 10)
    assert errno_of(lambda: os.replace(notes / "x.tmp", notes / "keep.md")) == errno.EILSEQ
    (notes / "x.tmp").write_bytes(b"x" * 102_401)
    assert errno_of(lambda: os.replace(notes / "x.tmp", notes / "keep.md")) == errno.EFBIG
    assert (notes / "keep.md").read_text() == "keep"
    assert sorted(os.listdir(notes)) == ["keep.md", "x.tmp"]


def test_python_tempfiles(at: Site, notes: Path) -> None:
    """13, 12."""
    script = (
        "import os, tempfile\n"
        "with tempfile.TemporaryFile(dir='.') as f: f.write(b'hi'); f.seek(0); assert f.read() == b'hi'\n"
        "with tempfile.NamedTemporaryFile('w', dir='.', delete=False) as f: f.write('x')\n"
        "os.replace(f.name, 'final')\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=notes, check=True, timeout=LIMIT)
    assert os.listdir(notes) == ["final"]
    assert at.operations("notes") == [("created", "/final", b"x")]


def test_a_full_store_takes_edits_and_no_new_memory(at: Site, notes: Path) -> None:
    """9, 13: 2,000 memories; the next is ENOSPC at create, and every way to save an old one works."""
    source = at.directory / "many"
    source.mkdir()
    for number in range(1999):
        (source / f"d{number:04d}").write_text(str(number))
    at.run("store", "import", "notes", source)
    (notes / "last").write_text("2000th")
    assert errno_of(lambda: (notes / "d2001").write_text("no")) == errno.ENOSPC
    assert not (notes / "d2001").exists()
    shell(
        "echo edit >> d0001; sed -i s/2/two/ d0002; echo v3 > .tmp; mv .tmp d0003; mv d0004 e0004; rm d0005;"
        "echo again > d2001; mv d0006 d0006~; echo six > d0006; rm d0006~",
        notes,
    )
    heads = at.heads("notes")
    assert len(heads) == 2000
    assert (heads["/d0002"], heads["/d0003"], heads["/d2001"], heads["/d0006"]) == (
        b"two",
        b"v3\n",
        b"again\n",
        b"six\n",
    )


# 14: what local filesystems do


def test_mmap_writes_through(at: Site, notes: Path) -> None:
    """14: shared mappings, also after the descriptor is closed."""
    (notes / "w").write_text("a" * 5000)
    with (notes / "w").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:5] = b"HELLO"
        mapped.flush()
    assert at.heads("notes")["/w"][:6] == b"HELLOa"
    descriptor = os.open(notes / "m", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(descriptor, b"a" * 100)
    mapped = mmap.mmap(descriptor, 100)
    os.close(descriptor)
    mapped[:5] = b"LATER"
    mapped.flush()
    mapped.close()
    wait_until(lambda: at.heads("notes")["/m"][:6] == b"LATERa", "the mapping's release")


def test_seeking_allocating_and_unusual_calls(at: Site, notes: Path) -> None:
    """14: as on a disk, or the errno that makes tools fall back; the mount lives on."""
    descriptor = os.open(notes / "f", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(descriptor, b"text\n" * 2000)
    assert os.lseek(descriptor, 0, os.SEEK_DATA) == 0
    assert os.lseek(descriptor, 5, os.SEEK_HOLE) == 10_000
    assert errno_of(lambda: os.lseek(descriptor, 10_000, os.SEEK_DATA)) == errno.ENXIO
    os.posix_fallocate(descriptor, 0, 12_000)
    assert os.fstat(descriptor).st_size == 12_000
    os.ftruncate(descriptor, 10_000)
    assert errno_of(lambda: os.getxattr(notes / "f", "user.x")) in (errno.ENODATA, errno.EOPNOTSUPP)
    assert errno_of(lambda: os.setxattr(notes / "f", "user.x", b"1")) == errno.EOPNOTSUPP
    assert errno_of(lambda: os.open(notes, os.O_TMPFILE | os.O_RDWR)) in (errno.EOPNOTSUPP, errno.EISDIR)
    for mode in (os.R_OK, os.W_OK, os.X_OK, 7):
        os.access(notes / "f", mode)
    os.close(descriptor)
    for flags in (os.O_SYNC, os.O_DSYNC, os.O_NOATIME, os.O_NOFOLLOW | os.O_NONBLOCK):
        os.close(os.open(notes / "f", os.O_RDWR | flags))
    copy = os.open(notes / "copy", os.O_CREAT | os.O_WRONLY, 0o600)
    source = os.open(notes / "f", os.O_RDONLY)
    refusal = errno_of(lambda: os.copy_file_range(source, copy, 10_000))
    assert refusal in (None, errno.EOPNOTSUPP, errno.EXDEV, errno.ENOSYS)
    os.close(source)
    os.close(copy)
    shell(
        "cp --sparse=always f s; cmp f s; grep -c text f; dd if=f of=part bs=100 count=3 status=none; tail -c 5 f",
        notes,
    )
    assert at.heads("notes")["/f"] == b"text\n" * 2000


def test_locks_work_within_a_mount(notes: Path) -> None:
    """14."""
    (notes / "l").touch()
    shell("exec 3< l; flock -x 3; ! flock -n -x l true; flock -u 3; flock -n -x l true", notes)


# Many at once


def test_appends_of_many_processes_all_arrive(at: Site, notes: Path) -> None:
    shell("for p in 1 2 3 4; do (for i in $(seq 25); do echo $p-$i >> log; done) & done; wait", notes)
    lines = at.heads("notes")["/log"].decode().split()
    assert sorted(lines) == sorted(f"{p}-{i}" for p in range(1, 5) for i in range(1, 26))


def test_a_reader_of_a_replaced_file_sees_a_whole_text(notes: Path) -> None:
    def text(number: int) -> str:
        return f"{number:06d}\n" * 2000

    (notes / "v").write_text(text(0))
    done = threading.Event()

    def write() -> None:
        try:
            for number in range(1, 100):
                (notes / "v.new").write_text(text(number))
                os.replace(notes / "v.new", notes / "v")
        finally:
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    torn = []
    while not done.is_set():
        seen = (notes / "v").read_text()
        if len(seen) != 14_000 or len(set(seen.split())) != 1:
            torn.append(len(seen))
    writer.join(LIMIT)
    assert not torn


def test_exclusive_creation_has_one_winner(notes: Path) -> None:
    script = (
        "import os, sys\n"
        "for n in range(20):\n"
        "    try: os.close(os.open(f'L{n}', os.O_CREAT | os.O_EXCL | os.O_WRONLY)); print(n)\n"
        "    except FileExistsError: pass\n"
    )
    racing = [
        subprocess.Popen([sys.executable, "-c", script], cwd=notes, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    won = sorted(int(word) for process in racing for word in process.communicate(timeout=LIMIT)[0].split())
    assert won == list(range(20))


def test_a_slow_writer_does_not_hold_up_readers(notes: Path) -> None:
    """Writers that sync all the time, and a reader beside them that always gets its answer."""
    script = (
        "import os\n"
        "while True:\n"
        "    fd = os.open(f'w{os.getpid()}', os.O_CREAT | os.O_TRUNC | os.O_WRONLY)\n"
        "    os.write(fd, b'y' * 50000); os.fsync(fd); os.close(fd)\n"
    )
    (notes / "q").write_text("q")
    writers = [subprocess.Popen([sys.executable, "-c", script], cwd=notes) for _ in range(3)]
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert (notes / "q").read_text() == "q"
            assert (notes / "q").stat().st_size == 1
    finally:
        for process in writers:
            process.kill()
            process.wait(LIMIT)
