"""Losses of power at moments of chance: what was synced is there, and a part of the rest, from its beginning."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crashes.disk import TAKEN
from tests.crashes.lives import Life, of_commands, on_mounts
from tests.crashes.power import Examined, examine, replayed
from tests.crashes.recording import Event, Kind
from tests.crashes.upkeep import Chapters, of_upkeep

pytestmark = [pytest.mark.mount, pytest.mark.timeout(900)]

SEED = 1


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """What was recorded of two mounts, a server and commands."""
    return on_mounts(tmp_path_factory.mktemp("mounts"), SEED)


@pytest.fixture(scope="module")
def commanded(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """What was recorded of commands alone."""
    return of_commands(tmp_path_factory.mktemp("commands"), SEED)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """What was recorded of commands that replace and remove."""
    return of_upkeep(tmp_path_factory.mktemp("upkeep"), SEED)


def after(life: Life, place: Path, count: int, events: list[Event] | None = None) -> Examined:
    """What is found after losses of power."""
    return examine(
        life.events if events is None else events,
        life.below,
        life.database,
        life.history,
        count=count,
        seed=SEED,
        place=place,
    )


def assert_recorded_and_kept(life: Life, place: Path, count: int) -> Examined:
    assert replayed(life.events, life.below) == life.files, "the recording is not what was done"
    found = after(life, place, count)
    assert not found.wrong, "\n".join(found.wrong)
    assert set(found.images) == set(TAKEN)
    assert found.states["a part of the history"]
    return found


def test_what_was_synced_on_a_mount_survives_a_loss_of_power(lived: Life, tmp_path: Path) -> None:
    kinds = {event.kind for event in lived.events}
    assert {Kind.CREATE, Kind.WRITE, Kind.TRUNCATE, Kind.SYNC, Kind.UNLINK, Kind.MKDIR, Kind.MARK} <= kinds
    # The log was emptied into the database while it was in use, not only at the end.
    assert sum(event.kind == Kind.SYNC and event.path.endswith("memfs.db") for event in lived.events) > 3
    assert_recorded_and_kept(lived, tmp_path, 18)


def test_so_does_what_was_synced_in_a_database_behind_a_link(tmp_path: Path) -> None:
    life = on_mounts(tmp_path, SEED, steps=18, through_link=True, brief=True)
    images = tmp_path / "images"
    images.mkdir()
    assert_recorded_and_kept(life, images, 9)


def test_a_new_database_a_backup_and_a_redaction_survive_a_loss_of_power(commanded: Life, tmp_path: Path) -> None:
    found = assert_recorded_and_kept(commanded, tmp_path, 21)
    assert found.states["no database"]
    assert found.states["the whole history"]


def test_what_is_imported_put_back_pruned_deleted_and_repaired_is_so_wholly_or_not_at_all(
    kept: Life, tmp_path: Path
) -> None:
    assert_recorded_and_kept(kept, tmp_path, 18)


def test_a_state_that_never_was_is_found(kept: Life, tmp_path: Path) -> None:
    assert isinstance(kept.history, Chapters)
    history = replace(kept.history, chapters=[kept.history.chapters[0], kept.history.chapters[-1]])
    found = after(replace(kept, history=history), tmp_path, 9)
    assert any("as there never were at any time" in wrong for wrong in found.wrong)


def is_the_mounts_sync(event: Event) -> bool:
    """SQLite syncs its log through the descriptor that it writes to."""
    return event.path.endswith("-wal") and event.second & os.O_ACCMODE == os.O_RDONLY


def is_of_names(event: Event) -> bool:
    return "." not in os.path.basename(event.path)  # as all files here have one, and no directory has


def is_of_a_copy(event: Event) -> bool:
    return "before-repair" in event.path


def is_of_a_backup(event: Event) -> bool:
    return event.path.endswith(".part")


@pytest.mark.parametrize(
    "of, planted, count, finds",
    [
        ("lived", is_the_mounts_sync, 9, "that were synced are gone"),
        ("lived", is_of_names, 9, "there is no database"),
        ("commanded", is_of_a_backup, 9, "is not whole"),
        ("commanded", is_of_names, 9, "the backup backup.db is gone"),
        ("kept", is_of_a_copy, 24, "is not whole"),
    ],
    ids=[
        "fsync-without-the-log",
        "no-names",
        "backup-not-synced",
        "backup-without-its-name",
        "copy-not-synced",
    ],
)
def test_a_sync_that_was_forgotten_is_found(
    request: pytest.FixtureRequest, tmp_path: Path, of: str, planted: Callable[[Event], bool], count: int, finds: str
) -> None:
    """As if memfs had not made it: the same recording without these calls."""
    life: Life = request.getfixturevalue(of)
    events = [event for event in life.events if not (event.kind == Kind.SYNC and planted(event))]
    assert len(events) < len(life.events)
    found = after(life, tmp_path, count, events)
    assert any(finds in wrong for wrong in found.wrong)
