"""Running the command line in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memfs.cli.main import main

Run = Callable[..., Result]


@pytest.fixture
def run(db: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs ``memfs`` with the test's database, as a user who has set nothing."""
    for name in ("MEMFS_DB", "MEMFS_DEBUG", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str | Path, code: int = 0, database: Path | None = db, stdin: bytes = b"") -> Result:
        chosen = [] if database is None else ["--db", str(database)]
        result = CliRunner().invoke(main, [*chosen, *map(str, arguments)], input=stdin, prog_name="memfs")
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return run
