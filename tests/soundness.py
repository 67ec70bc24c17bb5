"""What every test that writes ends with: a database in which each invariant holds."""

from pathlib import Path

from memfs.engine.checking import check
from memfs.model.errors import NotFound


def assert_sound(database: Path) -> None:
    """Fail where a check finds anything; costs milliseconds. A database that was never made is sound."""
    try:
        found = check(database)
    except NotFound:
        return  # none, or an empty file
    assert not found.violations, "\n".join(map(str, found.violations))
