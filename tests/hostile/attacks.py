"""What an agent may do to hurt: each attack is run in a process of its own, by ``python -m tests.hostile.attacks``.

An attack works in a directory of a mounted store, and in the scratch beside the store; ``scale`` is 1 for as much as
``make hostile`` does. It asserts what it is answered, and returns figures. What it leaves open the kernel closes.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import stat
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from memfs.model.records import MAX_CONTENT_BYTES, MAX_DIRECTORIES
from memfs.vfs.handles import MAX_OPEN
from memfs.vfs.scratch import MAX_SCRATCH_BYTES, MAX_SCRATCH_FILES
from memfs.vfs.working import MAX_WORKING_BYTES

Figures = dict[str, int]
Attack = Callable[[Path, Path, float], Figures]

FULL = b"x" * MAX_CONTENT_BYTES
RENAME_EXCHANGE = 2

_libc = ctypes.CDLL(None, use_errno=True)


def answer(call: Callable[..., object], *arguments: object) -> str:
    """What a call is answered: "done", or the name of its errno."""
    try:
        call(*arguments)
    except OSError as error:
        return _name(error)
    return "done"


def _name(error: OSError) -> str:
    if error.errno == errno.EOPNOTSUPP:
        return "EOPNOTSUPP"  # which has two names
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def must(answers: str, call: Callable[..., object], *arguments: object) -> None:
    """The call is answered with one of these, which stand in a row."""
    got = answer(call, *arguments)
    assert got in answers.split(), f"{got}, not {' or '.join(answers.split())}, for {call.__name__}{arguments!r:.200}"


def times(number: int, scale: float, least: int = 1) -> int:
    return max(least, int(number * scale))


def many_descriptors(number: int) -> int:
    """Let this process have so many open, or as many as it may; returns how many more it can open now."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(hard, number + 50)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return min(number, allowed - 50)


def beside(work: Callable[..., None], *arguments: object) -> int:
    """Do something in another process; returns its id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work(*arguments)
            status = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)
    return child


def ended(*children: int) -> None:
    """Wait for them; they have ended well."""
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a process of the attack failed"


# Much


def tiny_writes(top: Path, _scratch: Path, scale: float) -> Figures:
    """A byte at a time: through one descriptor, by a close each to one file, and to many."""
    through = times(100_000, scale)
    closes = times(50_000, scale)
    one = top / "one.md"
    with one.open("wb", buffering=0) as file:
        for number in range(through):
            os.pwrite(file.fileno(), b"%d" % (number % 10), number % 1_000)
    for number in range(closes):
        descriptor = os.open(one, os.O_WRONLY)
        os.pwrite(descriptor, b"%d" % (number % 10), number % 1_000)
        os.close(descriptor)
    many = [top / f"{number}.md" for number in range(200)]
    for number in range(closes):
        descriptor = os.open(many[number % 200], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, b"%d" % (number % 10))
        os.close(descriptor)
    assert len(one.read_bytes()) == min(1_000, max(through, closes))
    assert sum(path.stat().st_size for path in many if path.exists()) == closes
    return {"writes": through + 2 * closes, "closes": 2 * closes + 1}


def directories(top: Path, _scratch: Path, scale: float) -> Figures:
    """As many as there may be, and many more."""
    made: Counter[str] = Counter()
    for number in range(times(100_000, scale)):
        made[answer((top / f"d{number}").mkdir)] += 1
    assert made["done"] <= MAX_DIRECTORIES
    assert not made.keys() - {"done", "ENOSPC"}, made
    (top / "d0" / "still.md").write_text("a memory can be made all the same\n")
    return {"asked": made.total(), "made": made["done"]}


def deep(top: Path, _scratch: Path, _scale: float) -> Figures:
    """Names and paths at their limits, and one over."""
    refused = 0
    for size in (254, 255):
        (top / ("n" * size)).write_text("at the limit\n")
    must("ENAMETOOLONG", (top / ("n" * 256)).touch)
    must("ENAMETOOLONG", (top / ("ü" * 128)).mkdir)
    place, depth = top, len(top.relative_to(top.parent.parent).parts) - 1
    while answer((place / "d").mkdir) == "done":
        place, depth = place / "d", depth + 1
    assert depth == 20, depth
    must("ENAMETOOLONG", (place / "file.md").touch)
    (place.parent / "file.md").write_text("deep\n")
    wide, name = top, "w" * 200
    while answer((wide / name).mkdir) == "done":
        wide = wide / name
    must("ENAMETOOLONG", (wide / name).mkdir)
    for bad in (b"\xff", b"a\x01", b"a\nb", "\u202e".encode(), "e\u0301".encode(), "\u200b".encode(), b"\xed\xa0\x80"):
        path = os.fsencode(top) + b"/" + bad
        must("EINVAL EILSEQ", os.mkdir, path)
        must("EINVAL EILSEQ", os.open, path, os.O_CREAT | os.O_WRONLY)
        must("EINVAL EILSEQ", os.rename, top / ("n" * 255), path)
        refused += 3
    assert sorted(os.listdir(top)) == sorted({"d", "w" * 200, "n" * 254, "n" * 255}), "what is refused leaves nothing"
    return {"depth": depth, "refused": refused}


def sparse(top: Path, scratch: Path, _scale: float) -> Figures:
    """Sizes that nobody has room for."""
    asked = 0
    (top / "text.md").write_text("before\n")
    for path, large in ((top / "text.md", "EFBIG"), (top / "some.tmp", "EFBIG ENOSPC")):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        for size in (1 << 40, 1 << 62, (1 << 63) - 1):
            must(large, os.ftruncate, descriptor, size)
            must(f"{large} EINVAL", os.pwrite, descriptor, b"x", size - 1)
            must(large, os.truncate, path, size)
            must(f"{large} EOPNOTSUPP", _fallocate, descriptor, size)
            asked += 4
        before = os.fstat(descriptor).st_size
        assert before <= 7, before
        answer(os.close, descriptor)
    assert (top / "text.md").read_text() == "before\n"
    descriptor = os.open(scratch / "large", os.O_RDWR | os.O_CREAT)
    answer(os.ftruncate, descriptor, 1 << 40)  # a hole: no page of it is there
    must("ENOSPC EFBIG EOPNOTSUPP", _fallocate, descriptor, 1 << 40)
    os.close(descriptor)
    os.unlink(scratch / "large")
    return {"asked": asked}


def _fallocate(descriptor: int, size: int) -> None:
    if _libc.fallocate(descriptor, 0, ctypes.c_long(0), ctypes.c_long(size)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


# Held open


def handles(top: Path, _scratch: Path, scale: float) -> Figures:
    """One file opened more often than there may be handles, by as many processes as it takes; then many files."""
    wanted = times(20_000, scale, least=200)
    each = many_descriptors(wanted)
    path = top / "one.md"
    path.write_text("text\n")
    got: Counter[str] = Counter()
    told, tell = os.pipe()
    wait, go = os.pipe()

    def hold(number: int) -> None:
        os.close(go)
        own: Counter[str] = Counter()
        held = []
        for each in range(number):
            try:
                held.append(os.open(path, os.O_RDWR if each % 2 else os.O_RDONLY))
            except OSError as error:
                own[_name(error)] += 1
            else:
                own["done"] += 1
        assert not held or os.pread(held[-1], 9, 0) == b"text\n"
        os.write(tell, json.dumps(own).encode() + b"\n")
        os.read(wait, 1)  # ends when the attack has closed its end

    children = []
    with open(told) as lines:
        for _ in range(-(-wanted // each)):
            children.append(beside(hold, each))
            got.update(json.loads(lines.readline()))
        os.close(go)
        ended(*children)
    assert not got.keys() - {"done", "ENFILE"}, got
    assert (got["ENFILE"] > 0) == (got.total() > MAX_OPEN), got
    many = min(each, times(2_000, scale, least=50)) - 30
    for number in range(many):
        os.open(top / f"{number}.md", os.O_RDWR | os.O_CREAT)
    return {"asked": got.total(), "opened": got["done"], "files": many}


def listings(top: Path, _scratch: Path, scale: float) -> Figures:
    """A directory that is opened, read in part and changed, again and again."""
    entries, wanted = times(1_900, scale, least=100), many_descriptors(times(2_000, scale, least=100))
    for number in range(entries):
        (top / f"{number}.tmp").touch()
    got: Counter[str] = Counter()
    held = []
    for number in range(wanted):
        try:
            descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
            held.append(descriptor)
            _libc.getdents64(descriptor, ctypes.create_string_buffer(1_024), 1_024)
        except OSError as error:
            got[errno.errorcode[error.errno or 0]] += 1
        else:
            got["done"] += 1
        (top / f"{number % entries}.tmp").unlink()
        (top / f"{number % entries}.tmp").touch()
    assert not got.keys() - {"done", "ENFILE"}, got
    return {"opened": got["done"], "refused": got["ENFILE"], "entries": entries}


def removed(top: Path, _scratch: Path, scale: float) -> Figures:
    """Files of 100 KB that are removed while they are open, until no more fit."""
    wanted = many_descriptors(times(3_000, scale, least=60))
    got: Counter[str] = Counter()
    held = []
    for number in range(wanted):
        path = top / f"f{number % 50}.md"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        held.append(descriptor)
        got[answer(os.write, descriptor, FULL)] += 1
        path.unlink()
    assert not got.keys() - {"done", "ENOSPC"}, got
    assert got["done"] * MAX_CONTENT_BYTES <= MAX_WORKING_BYTES + MAX_SCRATCH_BYTES
    assert os.pread(held[0], MAX_CONTENT_BYTES, 0) == FULL, "what was written stays with who has it"
    must("done", (top / "later.md").touch)
    return {"asked": wanted, "held": got["done"], "refused": got["ENOSPC"]}


def mapped(top: Path, _scratch: Path, scale: float) -> Figures:
    """Mappings that nobody takes down, while others write and remove the files."""
    kept = []
    for number in range(times(1_000, scale, least=20)):
        path = top / f"m{number}.md"
        path.write_bytes(b"before\n" * 100)
        with path.open("r+b") as file:
            kept.append(mmap.mmap(file.fileno(), 0))
        if number % 3 == 0:
            path.unlink()
        elif number % 3 == 1:
            path.write_bytes(b"after!\n" * 100)
        else:
            kept[-1][:7] = b"mapped\n"
            kept[-1].flush()
    for number, each in enumerate(kept):
        assert len(each[:]) == 700, number
    return {"mappings": len(kept)}


# Names


def _renameat2(one: Path, other: Path, flags: int) -> None:
    if _libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def circles(top: Path, _scratch: Path, scale: float) -> Figures:
    """a to b to c to a, exchanges and directories into themselves, by several processes at once."""
    rounds, names = times(3_000, scale), "abcd"
    for name in names:
        (top / name).write_text(name)
        (top / f"{name}-dir" / "below").mkdir(parents=True)
        (top / f"{name}-dir" / "file").write_text(name)

    def turn(first: int) -> None:
        own = top / f"own-{first}"
        (own / "below").mkdir(parents=True)
        for number in range(rounds):
            one, other = (names[(first + number + step) % 4] for step in (0, 1))
            must("done ENOENT", os.rename, top / one, top / "way")
            must("done ENOENT", os.rename, top / "way", top / other)
            must("done ENOENT", _renameat2, top / one, top / other, RENAME_EXCHANGE)
            must("done", _renameat2, top / f"{one}-dir", top / f"{other}-dir", RENAME_EXCHANGE)
            must("EINVAL", os.rename, own, own / "below" / "in")
            must("EINVAL", _renameat2, own, own / "below", RENAME_EXCHANGE)

    ended(*[beside(turn, first) for first in range(3)])
    assert {path.read_text() for path in top.glob("?-dir/file")} == set(names)
    return {"renames": 3 * rounds * 6}


def changing(top: Path, _scratch: Path, scale: float) -> Figures:
    """A directory that is listed while it changes: none twice, and none left out that was there all the time."""
    stay = {f"stay-{number}" for number in range(times(1_500, scale, least=300))}
    for name in stay:
        (top / name).touch()

    def churn() -> None:
        for number in range(1 << 30):
            (top / f"come-{number % 400}").touch()
            (top / f"come-{(number + 200) % 400}").unlink(missing_ok=True)

    child = beside(churn)
    listed = 0
    try:
        for _ in range(times(300, scale, least=30)):
            names = os.listdir(top)
            assert len(names) == len(set(names)), [name for name, count in Counter(names).items() if count > 1]
            assert stay <= set(names), stay - set(names)
            listed += len(names)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return {"entries": listed}


def kinds(top: Path, _scratch: Path, scale: float) -> Figures:
    """What a store does not hold."""
    number = times(5_000, scale)
    (top / "file").write_text("text\n")
    for each in range(number):
        new = top / f"n{each}"
        must("EPERM", os.symlink, "/etc/passwd", new)
        must("EPERM", os.link, top / "file", new)
        must("EPERM", os.mkfifo, new)
        must("EPERM", os.mknod, new, stat.S_IFBLK | 0o600, os.makedev(7, 0))
        must("EOPNOTSUPP", os.setxattr, top / "file", "user.a", b"b")
        must("EPERM", os.mkdir, top / ".git")
    assert os.listdir(top) == ["file"]
    return {"refused": 6 * number}


# What is beside


def full_scratch(top: Path, scratch: Path, scale: float) -> Figures:
    """The scratch beside the stores, in bytes and in files, and the temporaries in one: full, and memories go on."""
    block, beside_bytes = b"\xff" * (1 << 20), 0
    place = scratch / "fill"
    with place.open("wb", buffering=0) as file:
        while answer(file.write, block) == "done":
            beside_bytes += len(block)
            assert beside_bytes < 1 << 28
    (top / "text.md").write_text("saved while the scratch is full\n")
    place.unlink()
    inodes = scratch / "inodes"
    inodes.mkdir()
    files = 0
    while scale >= 1 and answer((inodes / str(files)).touch) == "done":
        files += 1
        assert files < 1 << 20
    temporaries: list[Path] = []
    while True:
        path = top / f"fill-{len(temporaries)}.tmp"
        temporaries.append(path)
        if answer(path.write_bytes, block) != "done":
            break
        assert len(temporaries) < 200
    held = sum(path.stat().st_size for path in temporaries)
    assert held <= MAX_SCRATCH_BYTES
    (top / "text.md").write_text("saved while the temporaries are full too\n")
    for path in temporaries:
        path.unlink()
    empty: Counter[str] = Counter()
    for number in range(times(MAX_SCRATCH_FILES + 900, scale)):
        empty[answer((top / f"e{number}.tmp").touch)] += 1
    assert empty["done"] <= MAX_SCRATCH_FILES
    assert not empty.keys() - {"done", "ENOSPC"}, empty
    assert (top / "text.md").read_text() == "saved while the temporaries are full too\n"
    return {"beside": beside_bytes, "files_beside": files, "temporaries": held, "empty": empty["done"]}


def locks(top: Path, _scratch: Path, scale: float) -> Figures:
    """Thousands of locks, held while others ask for them."""
    number = times(20_000, scale, least=100)
    path = top / "locked.md"
    path.write_text("text\n")
    descriptor = os.open(path, os.O_RDWR)
    for each in range(number):
        fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, 2 * each)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    def ask() -> None:
        own = os.open(path, os.O_RDWR)
        for each in range(number):
            must("EAGAIN EACCES", fcntl.lockf, own, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * each)
        must("EAGAIN", fcntl.flock, own, fcntl.LOCK_EX | fcntl.LOCK_NB)

    ended(beside(ask))
    os.close(descriptor)
    ended(beside(lambda: fcntl.flock(os.open(path, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)))
    return {"locks": number}


def watched(top: Path, _scratch: Path, scale: float) -> Figures:
    """Watches whose events nobody reads."""
    watching = _libc.inotify_init1(os.O_CLOEXEC)
    assert watching >= 0 or ctypes.get_errno() == errno.EMFILE
    if watching >= 0:
        _libc.inotify_add_watch(watching, os.fsencode(top), 0xFFF)
    number = times(20_000, scale)
    for each in range(number):
        (top / f"{each % 40}.tmp").write_text("x")
        os.listdir(top)
    return {"operations": 2 * number}


# Processes


def stopped(top: Path, _scratch: Path, scale: float) -> Figures:
    """Processes that are stopped in the middle of reading and writing, with files open; then killed."""
    for number in range(10):
        (top / f"{number}.md").write_bytes(FULL)

    def at_it(number: int) -> None:
        while True:
            (top / f"{number}.md").read_bytes()
            with (top / f"{number}.md").open("r+b", buffering=0) as file:
                file.write(b"y" * 1_000)

    children = [beside(at_it, number) for number in range(5)]
    try:
        for each in range(times(200, scale, least=5)):
            for child in children:
                os.kill(child, signal.SIGSTOP)
                os.waitpid(child, os.WUNTRACED)
            assert (top / f"{5 + each % 5}.md").read_bytes() == FULL, "others go on"
            (top / f"{5 + each % 5}.md").write_bytes(FULL)
            os.listdir(top)
            for child in children:
                os.kill(child, signal.SIGCONT)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert all(len((top / f"{number}.md").read_bytes()) == MAX_CONTENT_BYTES for number in range(10))
    return {"stops": 5 * times(200, scale, least=5)}


def signals(top: Path, _scratch: Path, scale: float) -> Figures:
    """A thousand signals a second while it reads and writes."""
    got = 0

    def count(_number: int, _frame: object) -> None:
        nonlocal got
        got += 1

    signal.signal(signal.SIGALRM, count)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    rounds = times(3_000, scale, least=50)
    for number in range(rounds):
        text = b"%d\n" % number * 2_000
        (top / "text.md").write_bytes(text)
        assert (top / "text.md").read_bytes() == text
        os.rename(top / "text.md", top / "moved.md")
        os.rename(top / "moved.md", top / "text.md")
    signal.setitimer(signal.ITIMER_REAL, 0)
    return {"rounds": rounds, "signals": got}


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        deep,
        sparse,
        handles,
        listings,
        removed,
        mapped,
        circles,
        changing,
        kinds,
        full_scratch,
        locks,
        watched,
        stopped,
        signals,
        directories,
        tiny_writes,
    )
}


if __name__ == "__main__":
    name, directory, scratch_directory, how_much = sys.argv[1:]
    print(json.dumps(ATTACKS[name](Path(directory), Path(scratch_directory), float(how_much))))  # noqa: T201 (its answer)
