"""What a newcomer types first works, and leaves nothing behind."""

import subprocess

import pytest

from memfs.mount.processes import mount_points
from tests.mount.harness import LIMIT
from tests.processes import ROOT, environment

pytestmark = pytest.mark.mount


def test_the_demo_runs() -> None:
    before = mount_points()
    done = subprocess.run(
        [ROOT / "scripts" / "demo"], env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in ("sed -i", "Read-only file system", "modified", "deleted", "session sesn_", "nothing is left mounted"):
        assert shown in done.stdout, shown
    assert mount_points() == before
