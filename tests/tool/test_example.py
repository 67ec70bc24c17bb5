"""The program that the guide shows runs, and prints what the guide says that it does."""

import os
import re
import subprocess
from pathlib import Path

from tests.processes import PYTHON, ROOT, environment

GUIDE = ROOT / "docs" / "guide" / "memory-tool.md"
EXAMPLE = "docs/guide/examples/memory_loop.py"


def test_the_example_of_the_loop(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PYTHON, EXAMPLE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(TMPDIR=str(tmp_path), PYTHONDONTWRITEBYTECODE="1"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = re.search(
        rf"^```sh\npython {EXAMPLE}\n```\n\n```text\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert shown is not None
    assert done.stdout == shown[1]
    assert os.listdir(tmp_path) == []


def test_the_code_in_the_guide_is_python() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        compile(block, str(GUIDE), "exec")
