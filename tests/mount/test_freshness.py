"""An open in one session shows what was closed before in another, or by the API, the CLI or SQL: every time.

`make soak` does ten times as much and says how long what is not opened takes to be seen.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memfs.workspace import Workspace
from tests.api.harness import serving
from tests.mount.together import freshness as f
from tests.mount.together.foreign import Api, CommandLine, Prompt, Writer
from tests.mount.together.hands import Hands, hands
from tests.mount.together.mounts import STORE, SharedSite, sessions

pytestmark = pytest.mark.mount


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SharedSite, SharedSite]]:
    """Two sessions with a mount each of one store."""
    with sessions(tmp_path_factory.mktemp("fresh"), 2) as (writer, reader):
        yield writer, reader


@pytest.fixture
def writer(pair: tuple[SharedSite, SharedSite]) -> Iterator[Hands]:
    """Whoever changes files, in the first session."""
    with hands(pair[0].store_directory) as made:
        yield made


@pytest.fixture
def seen(pair: tuple[SharedSite, SharedSite]) -> Path:
    """Where they are read, in the second."""
    return pair[1].store_directory


def test_an_open_shows_what_was_closed_in_another_session(writer: Hands, seen: Path) -> None:
    """Names that did not exist a moment ago, replaced, cut, grown, deleted and made again, with their directories."""
    found = f.Reader(writer, seen).pairs(1_000)
    assert len(found.pairs) >= 20, "some kinds of change were not tried"
    assert not found.stale, "\n".join(found.wrong())


@contextmanager
def elsewhere(who: str, site: SharedSite) -> Iterator[Writer]:
    """A writer that is no mount."""
    with Workspace.open(site.db, read_only=True) as workspace:
        store_id = workspace.stores.resolve(STORE).id
    if who == "api":
        with serving(site.db) as server:
            yield Api(server, store_id)
    elif who == "cli":
        yield CommandLine(site)
    else:
        yield Prompt(site, store_id)


@pytest.mark.parametrize("who, count", [("api", 50), ("cli", 5), ("sql", 20)])
def test_an_open_shows_what_was_done_without_a_mount(
    pair: tuple[SharedSite, SharedSite], writer: Hands, seen: Path, who: str, count: int
) -> None:
    with elsewhere(who, pair[0]) as other:
        found = f.Reader(writer, seen).pairs_with(who, other, count)
    assert found.pairs.total() >= count
    assert not found.stale, "\n".join(found.wrong())


def test_stat_shows_within_two_seconds_what_was_closed_in_another_session(writer: Hands, seen: Path) -> None:
    """And mostly much sooner: the kernel is told, which trusts what it knows for a second."""
    lags = f.stat_lags(writer, seen, seconds=4.0, most=500)
    assert lags
    assert max(lags) < f.SEEN_SECONDS
    assert sorted(lags)[len(lags) // 4] < 0.5


def test_who_opened_before_reads_the_old_text_or_the_new_one(writer: Hands, seen: Path) -> None:
    """Never the new one cut at the old one's size, or filled up with zeros."""
    found = Counter(f.held_descriptors(writer, seen, 20))
    assert found.total() == 320
    wrong = {held: count for held, count in found.items() if held.got not in ("old", "new")}
    assert not wrong


def test_a_file_is_read_whole_while_another_session_saves_it(
    pair: tuple[SharedSite, SharedSite], writer: Hands, seen: Path
) -> None:
    with hands(seen) as other:
        found = f.torn_reads(writer, other, seen, 200)
    assert found["whole"] > 200
    assert found.keys() == {"whole"}, found
