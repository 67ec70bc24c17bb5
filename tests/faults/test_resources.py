"""Descriptors, memory, threads and processes that the system does not give any more, and then gives again."""

import errno
import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.api.harness import serving
from tests.faults.groups import memory_group
from tests.faults.injecting import Call, Faults
from tests.faults.places import FaultySite, answer, saved, synced
from tests.mount.harness import kill, wait_until
from tests.mount.together.blocking import writer_lock

pytestmark = pytest.mark.mount


@contextmanager
def limited(pid: int, kind: int, value: int) -> Iterator[None]:
    """A running process with a lower limit."""
    before = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (value, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, kind, before)


def descriptors(pid: int) -> int:
    """How many descriptors a process has."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def address_space(pid: int) -> int:
    """How many bytes of addresses a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def test_a_mount_without_descriptors_reads_and_saves_what_it_can(at: FaultySite, notes: Path) -> None:
    """What a mount needs for files it has from the beginning."""
    worker = at.worker("notes")
    with limited(worker, resource.RLIMIT_NOFILE, descriptors(worker)):
        for number in range(40):
            assert saved(notes / f"{number}.md", "text\n") == "ok"
        assert synced(notes / "synced.md", "text\n") == "ok"
        assert (notes / "known.md").read_text() == "known\n"
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda number: (notes / f"{number}.md").read_text(), range(40))) == {"text\n"}
        assert answer(lambda: (notes / "0.md").rename(notes / "moved.md")) == "ok"
    assert len(at.heads("notes")) == 42
    assert at.worker("notes") == worker


def test_a_server_without_descriptors_answers_again_once_it_has_some(at: FaultySite) -> None:
    with serving(at.db, expected_warnings=True) as server:
        store = server.store("More")
        pid = server.process.pid
        server.post(f"{store}/memories", {"path": "/a", "content": "a"}).ok()
        with limited(pid, resource.RLIMIT_NOFILE, descriptors(pid)), ThreadPoolExecutor(3) as pool:
            # No connection can be accepted; it waits in the queue, and is answered afterwards.
            waiting = [pool.submit(server.get, f"{store}/memories") for _ in range(3)]
            wait_until(lambda: "Too many open files" in server.logged, "it says so")
            _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
            for each in waiting:
                each.result(60).ok()
        server.post(f"{store}/memories", {"path": "/b", "content": "b"}).ok()
        assert server.process.poll() is None
        assert len(server.logged) < 100_000, "it tells of it, but not all the time"


def test_a_request_that_gets_no_memory_is_refused_and_the_mount_goes_on(at: FaultySite, notes: Path) -> None:
    """Files that are written and not closed take a buffer each."""
    worker = at.worker("notes")
    with ExitStack() as stack, limited(worker, resource.RLIMIT_AS, address_space(worker) + (16 << 20)):
        answers = set()
        for number in range(300):
            try:
                descriptor = os.open(notes / f"{number}.md", os.O_WRONLY | os.O_CREAT)
            except OSError as error:
                answers.add(errno.errorcode[error.errno or 0])
                continue
            stack.callback(answer, partial(os.close, descriptor))
            answers.add(answer(partial(os.write, descriptor, b"x" * 100_000)))
    assert answers - {"ok"}, "memory was never short"
    assert answers <= {"ok", "ENOMEM", "EAGAIN"}, answers
    assert saved(notes / "after.md", "after\n") == "ok"
    assert (notes / "known.md").read_text() == "known\n"
    assert at.worker("notes") == worker, "it is not the end of the mount"
    at.allow("no memory is left for it", "could not commit")


def test_a_request_that_gets_no_thread_is_told_to_try_again(at: FaultySite, notes: Path, faults: Faults) -> None:
    """One thread waits for another process, so that the next request needs another one."""
    worker = at.worker("notes")
    descriptor = os.open(notes / "known.md", os.O_WRONLY)
    with ThreadPoolExecutor(1) as pool, writer_lock(at.db):
        with faults.fail(Call.THREAD, number=errno.EAGAIN) as fault:
            waiting = pool.submit(saved, notes / "waits.md", "waits\n")

            def refused() -> bool:
                return answer(lambda: os.fsync(descriptor)) == "EAGAIN"

            wait_until(refused, "a second thread is needed")
            assert fault.injected
            assert (notes / "known.md").read_text() == "known\n"
        assert answer(lambda: os.fsync(descriptor)) == "ok"
    os.close(descriptor)
    assert waiting.result() in {"ok", "EAGAIN"}
    at.wait_until_saved("/waits.md", "waits\n")
    assert at.worker("notes") == worker
    assert "no thread could be started" in at.log()
    at.allow("could not commit")


def test_a_worker_that_cannot_be_started_is_started_later(at: FaultySite, notes: Path, faults: Faults) -> None:
    """The supervisor gets no process; it tries again after ever longer times."""
    before = at.worker("notes")
    with faults.fail(Call.FORK, number=errno.EAGAIN) as fault:
        kill(before)
        wait_until(lambda: fault.injected >= 2, "it has been tried twice")
    wait_until(lambda: answer((notes / "known.md").read_text) == "ok", "it is mounted again", 60)
    assert (notes / "known.md").read_text() == "known\n"
    assert saved(notes / "after.md", "after\n") == "ok"
    at.expect("a worker died", "could not start a worker .* Resource temporarily unavailable")


def test_a_command_that_gets_no_process_says_what_to_do(at: FaultySite, notes: Path, faults: Faults) -> None:
    with faults.fail(Call.FORK, number=errno.EAGAIN) as fault:
        at.refused(1, "mount", "-s", "notes", "--root", at.directory / "other", says="raise their limit (ulimit -u")
        assert fault.injected
    assert (notes / "known.md").read_text() == "known\n"


def test_a_worker_that_the_kernel_kills_for_memory_comes_back_with_all_that_was_closed(
    at: FaultySite, notes: Path
) -> None:
    """In a container with little memory it is the kernel that decides who ends; headroom cannot help then."""
    worker = at.worker("notes")
    closed = {f"/{number}.md": f"{number}\n" for number in range(20)}
    for path, text in closed.items():
        assert saved(notes / path[1:], text) == "ok"
    with memory_group(f"memfs-test-{os.getpid()}") as group:
        group.take(worker, 8 << 20)
        with ExitStack() as stack:
            answers = []
            for number in range(300):  # some 30 MB, which nobody has closed yet
                descriptor = -1
                try:
                    descriptor = os.open(notes / f"open{number}.md", os.O_WRONLY | os.O_CREAT)
                    os.write(descriptor, b"x" * 100_000)
                except OSError as error:
                    answers.append(errno.errorcode[error.errno or 0])
                    break
                finally:
                    if descriptor >= 0:
                        stack.callback(answer, partial(os.close, descriptor))
        assert group.killed == 1, "memory was never short"
        assert answers[0] in {"ENOTCONN", "ECONNABORTED"}
    wait_until(lambda: answer((notes / "0.md").read_text) == "ok", "it is mounted again", 60)
    assert at.worker("notes") != worker
    assert {path: (notes / path[1:]).read_text() for path in closed} == closed
    assert saved(notes / "after.md", "after\n") == "ok"
    heads = at.heads("notes")
    assert {path: heads.get(path) for path in closed} == {path: text.encode() for path, text in closed.items()}
    assert heads["/after.md"] == b"after\n"
    at.expect("a worker died .* status=-9")
