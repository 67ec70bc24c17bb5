"""Eight sessions with a mount each of one store: nothing is lost, nothing made up, and nothing done while they idle.

`make soak` does the same with four processes in each, for minutes.
"""

import errno
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.mount.harness import Site, wait_until
from tests.mount.together import checks
from tests.mount.together.blocking import beside_a_lock, writer_lock
from tests.mount.together.hands import Hands, hands
from tests.mount.together.mounts import STORE, SharedSite, sessions
from tests.mount.together.running import Outcome, work_together
from tests.mount.together.usage import idle

pytestmark = pytest.mark.mount

SESSIONS = 8
PROCESSES = 2
"""In each session; more would need longer to start than they work."""


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SharedSite]]:
    with sessions(tmp_path_factory.mktemp("many"), SESSIONS) as made:
        yield made


def test_mounts_with_no_work_do_nothing(sites: list[SharedSite]) -> None:
    """A thread that polled ten times a second would be woken as often, in each of the mounts.

    Others on this machine may ask for the state of all its mounts (``memfs status`` does), and what they wrote last is
    looked after for some seconds: so the best of many short windows counts.
    """
    pids = [pid for one in sites for pid in one.pids()]
    assert len(set(pids)) == 2 * SESSIONS
    windows = []
    for _ in range(200):
        windows.append(idle(pids, 0.5))
        if windows[-1].switches <= SESSIONS // 4:
            return
    pytest.fail(f"{SESSIONS} idle mounts used {windows}")


@pytest.fixture(scope="module")
def outcome(sites: list[SharedSite], tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Of a few seconds' work."""
    return work_together(sites, tmp_path_factory.mktemp("logs"), per_session=PROCESSES, seconds=4.0)


def test_all_that_was_acknowledged_is_there_and_nothing_else(outcome: Outcome) -> None:
    assert not outcome.wrong, f"{len(outcome.wrong)} wrong\n" + "\n".join(outcome.wrong[:40])


def test_everything_was_done(outcome: Outcome) -> None:
    kinds = {entry["kind"] for _, entry in outcome.done.entries if "errno" not in entry}
    assert kinds >= {"append", "edit_by_sed", "edit_by_truncation", "edit_by_replacement", "contest"}
    assert kinds >= {"create", "delete", "share", "move", "move_over", "move_directory"}
    # However often others replace a file meanwhile, it is opened: the kernel tries twice. Where it is deleted and made
    # anew twice between lookup and open, there is nothing to write to.
    errors = outcome.done.errors()
    assert errors.keys() <= {("share", "ESTALE")}, errors
    assert errors.total() <= max(1, len(outcome.done.entries) // 500), errors


@pytest.fixture(scope="module")
def first(sites: list[SharedSite]) -> Iterator[Hands]:
    """A process of one session."""
    with hands(sites[0].store_directory) as made:
        yield made


@pytest.fixture(scope="module")
def second(sites: list[SharedSite]) -> Iterator[Hands]:
    """A process of another session."""
    with hands(sites[1].store_directory) as made:
        yield made


def texts(sites: list[SharedSite], name: str) -> set[str]:
    """What three sessions read, one of which had no part in it."""
    return {(one.store_directory / name[1:]).read_text() for one in sites[:3]}


@pytest.mark.parametrize("others", ["before", "opened", "written", "before opened written"])
def test_appends_add_to_what_others_appended_meanwhile(
    sites: list[SharedSite], first: Hands, second: Hands, others: str
) -> None:
    """Whenever two other sessions append: before the file is opened here, before it is written to, before its close."""
    for number in range(8):
        name = f"/appended-{others.replace(' ', '-')}-{number}.md"
        path = sites[2].store_directory / name[1:]
        first.do("write", name, "start\n")
        wanted = ["start", "ours"]

        def append(when: str, name: str = name, wanted: list[str] = wanted) -> None:
            if when in others.split():
                for who, line in ((first, f"first, {when}"), (second, f"second, {when}")):
                    who.do("append", name, line + "\n")
                    wanted.append(line)

        if number % 2:
            assert path.read_text() == "start\n"  # an append is one also of a process that has read another text
        append("before")
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        append("opened")
        os.write(descriptor, b"ours\n")
        append("written")
        os.close(descriptor)
        (found,) = texts(sites, name)
        assert sorted(found.splitlines()) == sorted(wanted)


LINES = [f"line {number}" for number in range(6)]


def edited(*numbers: int) -> str:
    """All lines, some of them changed."""
    return "".join(f"{line} changed\n" if at in numbers else f"{line}\n" for at, line in enumerate(LINES))


def conflicts(sites: list[SharedSite]) -> set[str]:
    """The ids of versions with one."""
    found = checks.conflicts(sites[0])
    assert found is not None, "memfs version list has no --conflicts"
    return found


@pytest.mark.parametrize("line", [3, 5], ids=["neighbours", "apart"])
def test_edits_of_two_sessions_both_survive(sites: list[SharedSite], first: Hands, second: Hands, line: int) -> None:
    """Each read the same text and saves it with a line of its own changed, then goes on from what it reads then."""
    made = set()
    for first_save, second_save in product(("write", "replace"), repeat=2):
        name = f"/edited-{first_save}-{second_save}-{line}.md"
        first.do("write", name, edited())
        for who in (first, second):
            who.do("read", name)
        first.do(first_save, name, edited(2))
        second.do(second_save, name, edited(line))
        assert texts(sites, name) == {edited(2, line)}
        second.do("read", name)
        second.do(second_save, name, edited(0, 2, line))
        assert texts(sites, name) == {edited(0, 2, line)}
        made |= {version.id for version in sites[0].history(STORE, name)}
    assert not conflicts(sites) & made


def test_of_two_edits_of_a_line_the_later_wins_and_the_conflict_is_on_record(
    sites: list[SharedSite], first: Hands, second: Hands
) -> None:
    made, last = set(), set()
    for first_save, second_save in product(("write", "replace"), repeat=2):
        name = f"/contested-{first_save}-{second_save}.md"
        first.do("write", name, edited())
        for who in (first, second):
            who.do("read", name)
        first.do(first_save, name, edited(1, 4))
        second.do(second_save, name, edited().replace("line 4", "line 4, second"))
        later = edited(1).replace("line 4", "line 4, second")
        assert texts(sites, name) == {later}
        versions = sites[0].history(STORE, name)
        assert [version.content for version in versions] == [edited().encode(), edited(1, 4).encode(), later.encode()]
        made |= {version.id for version in versions}
        last.add(versions[-1].id)
    assert conflicts(sites) & made == last


def test_a_held_writer_lock_delays_commits_and_nothing_else(sites: list[SharedSite]) -> None:
    """How much slower reads are is `make soak`'s to say: here, that none of them waited."""
    held = beside_a_lock(sites[0].db, sites[1].store_directory, 2.0)
    assert not held.early
    assert held.waited > 1.5
    # One that waited for the lock would be the only one of its kind, and the last.
    assert len(held.held.read) > len(held.idle.read) / 20
    assert sorted(held.held.stat + held.held.read)[-3] < held.waited / 2
    assert (sites[2].store_directory / "waiting.md").read_text() == "saved all the same"


SHORT_LOCK = """
import sys
from memfs.engine import opening
opening.LOCK_TIMEOUT_SECONDS = 0.5
from memfs.cli.__main__ import run
run()
"""


class Impatient(Site):
    """A site whose processes wait half a second for the writer lock, so that a test need not wait for 15."""

    def command(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-bb", "-c", SHORT_LOCK, *map(str, arguments)]


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Impatient]:
    made = Impatient(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_commit_that_cannot_get_the_lock_is_an_error_at_close_and_kept(at: Impatient) -> None:
    """I04: EAGAIN, the mount stays up with the text in it, and the next try saves it once."""
    at.expected_log.append("could not commit")
    at.store("notes")
    (directory,) = at.mount("notes")
    (directory / "busy.md").write_text("before\n")
    (directory / "warm.md").write_text("warm\n")
    descriptor = os.open(directory / "busy.md", os.O_WRONLY | os.O_APPEND)
    with writer_lock(at.db):
        os.write(descriptor, b"during\n")
        with pytest.raises(OSError, match="temporarily unavailable") as refused:
            os.close(descriptor)
        assert refused.value.errno == errno.EAGAIN
        assert (directory / "warm.md").read_text() == "warm\n"
        assert (directory / "busy.md").read_text() == "before\nduring\n"
        assert at.heads("notes")["/busy.md"] == b"before\n"
        assert sorted(os.listdir(directory)) == ["busy.md", "warm.md"]
        log = Path(at.status()[0]["log"])
        wait_until(lambda: "could not commit" in log.read_text(), "the last of its descriptors to give up too")
    os.close(os.open(directory / "busy.md", os.O_WRONLY))  # the next try; without it, that of the timer
    assert at.heads("notes")["/busy.md"] == b"before\nduring\n"
    (directory / "busy.md").write_text("after\n")
    saved = [content for _, _, content in at.operations("notes", "/busy.md")]
    assert saved == [b"before\n", b"before\nduring\n", b"after\n"]


def test_what_is_lost_or_made_up_would_be_found(sites: list[SharedSite], outcome: Outcome) -> None:
    """The checks themselves: on logs that say more or less than was done, and a history with a row too many."""
    heads, versions = checks.read_database(sites[0].db)
    done = outcome.done
    text = heads["/journal-0.md"].decode()
    number, append = next(each for each in done.of("append") if f"{each[1].get('token')}\n" in text)
    (_, edit), *_ = done.of("edit_by_sed")
    more = {**append, "token": "never-appended"}
    edited = {**edit, "value": "never-written"}
    created = {"kind": "create", "at": 0.0, "took": 0.0, "versions": [["created", "/box/never.md", "text"]]}
    without = replace(done, entries=[each for each in done.entries if each != (number, append)])

    def with_entry(entry: checks.Entry) -> checks.Done:
        return replace(done, entries=[*done.entries, (number, entry)])

    def found(check: str, logged: checks.Done, history: list[checks.Version] = versions) -> str:
        return "\n".join(getattr(checks, check)(heads, history, logged, sites))

    assert "never-appended" in found("check_journals", with_entry(more))
    assert f"nobody appended '{append['token']}'" in found("check_journals", without)
    assert "never-written" in found("check_lines", with_entry(edited))
    assert "lost: created /box/never.md" in found("check_files", with_entry(created))
    again = next(version for version in versions if version.path == "/lines.md")
    last = [version for version in versions if version.path == "/lines.md"][-1]
    assert "phantom" in found("check_lines", done, [*versions, last])
    assert "of another session" in found("check_lines", done, [*versions, replace(again, session_id="sesn_other")])
    assert "phantom" in found("check_files", done, [*versions, replace(last, path="/box/p00-0.md")])
    assert "phantom" in "\n".join(checks.check_chains([*versions, last], heads))
