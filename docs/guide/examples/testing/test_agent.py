"""Tests of an agent, of which the shell command stands for yours."""

import subprocess
from pathlib import Path

from memfs.testing import SessionHistory


def test_the_agent_keeps_a_note(memfs_mount: Path, memfs_history: SessionHistory) -> None:
    subprocess.run(["sh", "-c", "echo 'The tests need /dev/fuse.' > tests.md"], cwd=memfs_mount, check=True)
    assert memfs_history.changes() == [("created", "/tests.md", "The tests need /dev/fuse.\n")]
