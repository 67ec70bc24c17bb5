"""Random sequences of operations: few names, a tree and open files to begin with, else nearly every one meets ENOENT or
EBADF.
"""

import os
import stat

from hypothesis import strategies as st

from memfs.model.records import MAX_CONTENT_BYTES
from tests.mount.differential import operations as op
from tests.mount.differential.differences import NAMES
from tests.mount.differential.pair import PROCESSES

BEGINNING: list[op.Operation] = [
    op.WriteFile("/a", b"first\n", 0),
    op.Mkdir("/d", 0o755),
    op.WriteFile("/d/a", b"second\n", 0),
    op.Mkdir("/d/e", 0o755),
    op.WriteFile("/d/e/a", b"third\n", 0),
]

GOOD = ["/a", "/b", "/d/a", "/d", "/d/b", "/d/e", "/d/e/a", "/e", "/e/a", "/a~", "/d/a.tmp"]
FILES = ["/a", "/a", "/a", "/d/a", "/d/a", "/b", "/d/e/a", "/a~"]
DIRECTORIES = ["", "/d", "/d/e"]
RARE = ["", "/a/b", "/x/y", *(f"/{name}" for name in NAMES), "/d/.git", "/d/" + "n" * 256]
paths = st.sampled_from([*GOOD[:3] * 10, *GOOD * 6, *RARE])
files = st.sampled_from([*FILES * 12, *GOOD * 2, *RARE])
slots = st.integers(0, 3)

TEXTS = [b"x", b"yy\n", b"line\nline\n", b"", "é日\n".encode(), op.Long(b"z" * 5000)]
UNFIT = [b"\xff", "é".encode()[:1]]
data = st.sampled_from([*TEXTS * 4, *UNFIT])
offsets = st.sampled_from([0, 1, 2, 3, 7, 40, 4095, 4097, MAX_CONTENT_BYTES - 3])
sizes = st.sampled_from([0, 1, 2, 3, 5, 4096, 6000, MAX_CONTENT_BYTES, MAX_CONTENT_BYTES + 1])
modes = st.sampled_from([0o600, 0o644, 0o755, 0o444, 0o1666])

access = st.sampled_from([os.O_RDWR, os.O_WRONLY, os.O_RDONLY])
USUAL = [0, os.O_CREAT, os.O_CREAT | os.O_TRUNC, os.O_CREAT | os.O_APPEND, os.O_TRUNC, os.O_APPEND]
UNUSUAL = [
    os.O_CREAT | os.O_EXCL,
    os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND,
    os.O_CREAT | os.O_TRUNC | os.O_APPEND,
    os.O_NOFOLLOW,
    os.O_NOATIME,
    os.O_NONBLOCK | os.O_NOCTTY,
    os.O_DIRECTORY,
    os.O_CREAT | os.O_DIRECTORY,
    os.O_TMPFILE,
]
flags = st.builds(int.__or__, access, st.sampled_from(USUAL * 3 + UNUSUAL))

FILE_WORK: list[st.SearchStrategy[op.Operation]] = [
    st.builds(op.Write, slots, data),
    st.builds(op.Pwrite, slots, data, offsets),
    st.builds(op.WriteFile, files, data, st.sampled_from([0, os.O_TRUNC, os.O_APPEND, os.O_EXCL])),
]
NAME_WORK: list[st.SearchStrategy[op.Operation]] = [
    st.builds(op.Rename, paths, paths, st.sampled_from([0, 0, 0, op.NOREPLACE, op.EXCHANGE])),
    st.builds(op.Unlink, paths),
]
OTHER_FILE_WORK: list[st.SearchStrategy[op.Operation]] = [
    st.builds(op.Read, slots, sizes),
    st.builds(op.Pread, slots, sizes, offsets),
    st.builds(op.Seek, slots, offsets, st.sampled_from([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END])),
    st.builds(op.Seek, slots, offsets, st.sampled_from([os.SEEK_DATA, os.SEEK_HOLE])),
    st.builds(op.Ftruncate, slots, sizes),
    st.builds(op.Truncate, files, sizes),
    st.builds(op.Fsync, slots, st.booleans()),
    st.builds(op.Dup, slots),
    st.builds(op.Fork),
    st.builds(op.Fstat, slots),
    st.builds(op.Stat, paths),
    st.builds(op.ReadFile, files),
    st.builds(op.Fchmod, slots, modes),
    st.builds(op.MapRead, slots),
    st.builds(op.MapWrite, slots, st.sampled_from(TEXTS), offsets),
    st.builds(op.Allocate, slots, offsets, st.sampled_from([1, 5000])),
    st.builds(op.CopyRange, slots, slots, sizes),
    # Often enough that one is read while it changes.
    st.builds(op.OpenDirectory, st.sampled_from([*DIRECTORIES * 4, *GOOD])),
    st.builds(op.ReadDirectory, st.sampled_from([False, False, False, True])),
    st.builds(op.CloseDirectory),
]
OTHER_NAME_WORK: list[st.SearchStrategy[op.Operation]] = [
    st.builds(op.Tree),
    st.builds(op.Chmod, paths, modes),
    st.builds(op.Utimens, paths, st.sampled_from([None, 0, 1_000_000_000_123_456_789, -1_500_000_000])),
    st.builds(op.Mkdir, paths, modes),
    st.builds(op.Rmdir, paths),
    st.builds(op.Link, paths, paths),
    st.builds(op.Symlink, paths),
    st.builds(op.Mknod, paths, st.sampled_from([stat.S_IFREG, stat.S_IFIFO])),
    st.builds(op.ListDirectory, paths),
]
opens = st.builds(op.Open, files, flags, modes)
closes = st.builds(op.Close, slots)
# Not one_of: it takes what is there several times for once.
weighted = st.sampled_from(
    [opens] * 14 + [closes] * 7 + FILE_WORK * 7 + NAME_WORK * 6 + OTHER_FILE_WORK * 3 + OTHER_NAME_WORK
).flatmap(lambda chosen: chosen)
# Most of it by one, so that descriptors meet.
processes = st.sampled_from([0] * 4 + [number for number in range(1, PROCESSES) for _ in range(2)])
first = st.builds(op.Open, st.sampled_from(FILES), st.sampled_from([os.O_RDWR, os.O_RDWR | os.O_CREAT]), st.just(0o644))
sequences = st.builds(
    list.__add__,
    st.lists(st.tuples(processes, first), min_size=1, max_size=4),
    st.lists(st.tuples(processes, weighted), min_size=20, max_size=50),
)
