"""An agent that tries to hurt: less of each attack than ``make hostile`` does, with the same bounds."""

from collections.abc import Iterator

import pytest

from tests.hostile.attacks import ATTACKS
from tests.hostile.ground import Ground
from tests.mount.harness import site

pytestmark = pytest.mark.mount

SCALE = 0.003


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with site(tmp_path_factory.mktemp("hostile")) as made:
        yield Ground(made)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_answered_and_nothing_grows_past_its_bound(ground: Ground, name: str) -> None:
    found = ground.attack(name, SCALE)
    assert not found.wrong, "\n".join(found.wrong)
