"""Whether a surface refuses as the workspace does: the same error, in the same words, and with nothing changed."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from memfs.model.errors import MemfsError
from tests.contract.surfaces import LACKING, Driver, Refusal

Act = Callable[[Driver], object]


def refusal_of(driver: Driver, act: Act) -> Refusal:
    """What a surface says to something that it must refuse."""
    try:
        answer = act(driver)
    except Refusal as refusal:
        return refusal
    raise AssertionError(f"the {driver.name} did not refuse: {answer}")


@dataclass(frozen=True, slots=True)
class Otherwise:
    """A surface has words of its own for something; they must match ``words``, and there must be a reason."""

    words: str
    why: str


def refused_alike(
    surface: Driver,
    reference: Driver,
    act: Act,
    error: type[MemfsError],
    words: str,
    otherwise: Otherwise | None = None,
) -> Refusal:
    """Let the workspace and then a surface refuse; returns what the surface said.

    ``words`` is a regular expression that the workspace's message must match, so that it is known to say what is wrong.
    """
    expected = refusal_of(reference, act)
    assert expected.kind is error, expected
    assert re.search(words, expected.message), expected.message
    assert "\n" not in expected.message
    found = refusal_of(surface, act)
    assert found.kind == surface.kind_of(error), found
    if otherwise is None:
        assert found.message == expected.message
    else:
        assert re.search(otherwise.words, found.message), found.message
        assert found.message != expected.message, "it needs no exception any more"
    if (surface.name, "conflicts as fields") in LACKING:
        # The sentence must name what the fields would.
        assert all(part in found.message for part in expected.conflict or ()), found.message
    else:
        assert found.conflict == expected.conflict
    return found
