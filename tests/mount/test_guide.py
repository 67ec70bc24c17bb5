"""The guide that says it can be followed command by command can be."""

import re
from pathlib import Path

import pytest

from tests.mount.harness import Site
from tests.processes import ROOT

pytestmark = pytest.mark.mount

GUIDE = ROOT / "docs" / "guide" / "life-of-a-store.md"


def test_the_life_of_a_store_runs_as_it_is_written(at: Site) -> None:
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL))
    assert script.count("memfs ") > 20
    done = at.shell(script.replace("./memory", str(at.root)).replace("memory/", f"{at.root}/"))
    assert "Two spaces, no tabs. Asked twice." in done
    assert "Deploy with make deploy." in done
    assert "-Two spaces, no tabs.\n+Four spaces, no tabs." in done
    assert done.index("memstore_") >= 0
    with pytest.raises(AssertionError):
        at.shell("memfs memory create project-notes /late.md --content late")
    assert at.heads("project-notes") == at.heads("project-notes-2027")
    raw = b"".join(path.read_bytes() for path in at.db.parent.iterdir())
    assert b"token is 0000" not in raw
    assert Path(at.directory / "project-notes.jsonl").read_text().startswith('{"id": "memstore_')
