"""Crashes at random: nothing acknowledged is lost, nothing is made up, and nobody has to clear up."""

from pathlib import Path

import pytest

from tests.crashes.rounds import play

pytestmark = [pytest.mark.mount, pytest.mark.timeout(900)]

ROUNDS = 20
SEED = 1


def test_what_was_acknowledged_survives_kills_at_any_moment(tmp_path: Path) -> None:
    figures = play(tmp_path, SEED, ROUNDS)
    assert not figures.wrong, f"seed {SEED}:\n" + "\n".join(figures.wrong)
    assert figures.rounds == ROUNDS
    # So that the test cannot pass by doing nothing.
    done = {name.partition(":")[0] for name in figures.operations if name.endswith(": acknowledged")}
    assert {"mount save", "mount replace", "mount rename", "api create", "command create"} <= done
    assert {"worker", "supervisor", "server", "writer"} <= set(figures.killed)
