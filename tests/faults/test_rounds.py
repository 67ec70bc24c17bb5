"""A few rounds of chance; ``make faults`` does hundreds."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.rounds import ready

pytestmark = pytest.mark.mount


def test_nothing_acknowledged_is_lost_whatever_fails(
    tmp_path: Path, library: Path, record_property: Callable[[str, object], None]
) -> None:
    with ready(tmp_path, library, seed=4) as rounds:
        outcome = rounds.run(8)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert outcome.injected.total() > 8
    assert outcome.refused.total() > 20
    assert outcome.acknowledged > 50
    record_property("injected", outcome.injected.total())
