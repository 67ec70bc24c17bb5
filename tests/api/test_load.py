"""A few seconds of the load of ``make load-api``: nothing lost, nothing made up, whoever else is at work."""

from contextlib import ExitStack
from dataclasses import replace

import pytest

from memfs.model import ids
from tests.api.load.checks import check_versions
from tests.api.load.clients import READS, WRITES
from tests.api.load.notes import Noted, Notes
from tests.api.load.running import READERS, WRITERS, Found, Load, Plan
from tests.mount.harness import site

PLAN = Plan(clients=8, processes=2, seconds=4.0, per_mount=1, redact_every=1.5, hold=1.0, seed=1)
"""Two mounts, and each kind of work: its figures are no measurement, but it finds what gets lost."""


pytestmark = [pytest.mark.mount, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """One that has run; whatever it started is gone, also where something failed."""
    directory = tmp_path_factory.mktemp("load")
    with site(directory), ExitStack() as stack:
        done = Load(directory, PLAN, stack)
        done.run()
        return done


@pytest.fixture
def found(load: Load) -> Found:
    """What came of it."""
    return load.found


def test_all_that_was_acknowledged_is_there_and_nothing_else(found: Found) -> None:
    assert not found.wrong, "\n".join(found.wrong)


def test_everything_was_done(found: Found) -> None:
    done = {kind for kind, _ in found.load.seconds}
    files = {f"file {step}" for step in ("write", "append", "rename", "save", "delete", "read", "read others")}
    assert done == READS.keys() | WRITES.keys() | files | {"redact"}
    actors = {write.actor.partition("_")[0] for write in found.load.writes}
    assert actors == {"apikey", "sesn", ""}
    assert len({write.actor for write in found.load.writes}) > len(actors), "only one of a kind"
    assert found.load.lines
    assert found.load.redacted


def test_clients_got_in_each_others_way_and_nobody_was_sent_away(found: Found) -> None:
    # What the contract does not know is in ``wrong``.
    assert found.load.refused
    assert all(status in (404, 409) for status, _ in found.load.refused)


def test_streams_went_on_where_they_were_broken_off(found: Found) -> None:
    assert found.reconnections >= 2


def test_reads_go_on_while_another_process_holds_the_writer_lock(found: Found) -> None:
    # Readers stop by the clock: had they waited for the lock, each would have made a request or two.
    assert len(found.held.seconds) > 2 * READERS
    assert not found.held.refused


def test_writes_wait_for_the_lock_and_are_done(found: Found) -> None:
    assert not found.waiting.refused
    assert len(found.waiting.writes) == WRITERS
    assert max(seconds for kind, seconds in found.waiting.seconds if kind == "update") > PLAN.hold / 2


def test_what_is_lost_or_made_up_would_be_found(load: Load) -> None:
    notes = load.found.notes
    assert not list(check_versions(load.database, notes))
    first = next(write for write in notes.writes if write.version_id and write.version_id not in notes.redacted)
    rest = [write for write in notes.writes if write is not first]
    never = replace(first, version_id=ids.new_id(ids.MEMORY_VERSION))
    closed = Noted(actor=ids.new_id(ids.SESSION), operation="created", path="/a.md", sha256="0" * 64)
    for writes, complaint in (
        (rest, "nobody has written this"),
        ([*notes.writes, never], "lost"),
        ([*notes.writes, closed], "lost"),
        ([*notes.writes, first], "lost, or one version for two writes"),
        ([*rest, replace(first, sha256="0" * 64)], "stored otherwise"),
        ([*rest, replace(first, actor="apikey_of_somebody_else")], "of somebody else"),
    ):
        (told,) = check_versions(load.database, Notes(writes=writes, redacted=notes.redacted))
        assert told.startswith(complaint)
