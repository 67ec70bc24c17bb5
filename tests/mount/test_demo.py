"""What a newcomer types first works, and leaves nothing behind."""

import subprocess
from pathlib import Path

import pytest

from memfs.mount.processes import mounted_below
from tests.mount.harness import LIMIT
from tests.processes import ROOT, environment

pytestmark = pytest.mark.mount


def test_the_demo_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "demo"],
        env=environment(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in ("sed -i", "Read-only file system", "modified", "deleted", "session sesn_", "nothing is left mounted"):
        assert shown in done.stdout, shown
    assert mounted_below(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
