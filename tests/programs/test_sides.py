"""The comparison itself: what a program says or leaves on the mount alone fails."""

import pytest

from tests.programs.sides import Sides

pytestmark = [pytest.mark.mount, pytest.mark.programs]

ON_MOUNT = "[[ $(stat -f -c %T .) == fuseblk || $(stat -f -c %T .) == fuse* ]]"


@pytest.mark.parametrize(
    "script",
    [
        f"if {ON_MOUNT}; then echo warning >&2; fi",
        f"if {ON_MOUNT}; then echo more; fi",
        f"if {ON_MOUNT}; then exit 1; fi",
        f"echo a > f; if {ON_MOUNT}; then echo b > f; fi",
        f"echo a > f; if {ON_MOUNT}; then chmod 600 f; fi",
        f"echo a > f; touch -d 2020-01-01 f; if {ON_MOUNT}; then touch -d 2021-01-01 f; fi",
        f"if {ON_MOUNT}; then mkdir d; fi",
        "no-such-program",
    ],
    ids=["stderr", "stdout", "status", "text", "permissions", "time", "directory", "missing program"],
)
def test_a_difference_fails(sides: Sides, script: str) -> None:
    with pytest.raises(AssertionError):
        sides.run(script)


def test_agreement_passes(sides: Sides) -> None:
    assert sides.run("echo a > f; cat f; echo said >&2; exit 3", status=3) == "a\n"
    assert sides.history() == [("a", "created", "/f", "a\n")]
