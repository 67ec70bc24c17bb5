"""The pytest plugin, in runs of pytest as other people's are: warnings are errors, tests fail, or are killed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from memfs.mount.processes import mounted_below
from tests.mount.harness import LIMIT, SCRIPT_LIMIT, Site, wait_until
from tests.processes import PYTHON, ROOT, environment

pytestmark = pytest.mark.mount

GUIDE = ROOT / "docs" / "guide" / "testing.md"
EXAMPLE = ROOT / "docs" / "guide" / "examples" / "testing" / "test_agent.py"
RUN = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-rs")


def pytest_in(directory: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run pytest in a directory, with everything that it makes below it."""
    return subprocess.run(
        [*prefix, *PYTHON, *RUN, f"--basetemp={directory / 'made'}", *arguments],
        cwd=directory,
        env=environment(PYTHONDONTWRITEBYTECODE="1", XDG_RUNTIME_DIR=str(directory)),
        capture_output=True,
        text=True,
        timeout=SCRIPT_LIMIT,
        check=False,
    )


def keepers(directory: Path) -> list[int]:
    """Processes that a run of pytest in this directory left."""
    found = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue  # it ended
        if os.fsencode(directory / "made") in line and b"memfs" in line:
            found.append(int(entry))
    return found


def nothing_left(directory: Path) -> bool:
    return not mounted_below(directory) and not keepers(directory)


WORKING = """
import errno
from pathlib import Path

import pytest

from memfs.testing import GivenStore

TEAM = [GivenStore("Notes"), GivenStore("Team standards", {"style.md": "Tabs.\\n"}, "read_only", "How", "Obey.")]


def test_an_empty_store(memfs_mount, memfs_store, memfs_history, memfs_root, tmp_path):
    assert memfs_store.name == "Notes"
    assert list(memfs_mount.iterdir()) == []
    (memfs_mount / "a.md").write_text("one\\n")
    (memfs_mount / "a.md").write_text("two\\n")
    (memfs_mount / "a.md").rename(memfs_mount / "b.md")
    (memfs_mount / "b.md").unlink()
    assert memfs_history.changes() == [
        ("created", "/a.md", "one\\n"),
        ("modified", "/a.md", "two\\n"),
        ("modified", "/b.md", "two\\n"),
        ("deleted", "/b.md", None),
    ]
    assert memfs_history.texts() == {}
    assert memfs_mount.parent == memfs_root
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("memfs_stores", [TEAM], ids=["team"])
def test_stores_and_accesses(memfs_root, memfs_session, memfs_history, memfs_workspace, memfs_database):
    assert [each.access for each in memfs_session.attachments] == ["read_write", "read_only"]
    assert memfs_session.attachments[1].instructions == "Obey."
    with pytest.raises(OSError) as refused:
        (memfs_root / "team-standards" / "style.md").write_text("Spaces.\\n")
    assert refused.value.errno == errno.EROFS
    assert memfs_history.changes("Team standards") == []
    assert memfs_history.changes("team-standards", everybody=True) == [("created", "/style.md", "Tabs.\\n")]
    assert memfs_history.texts("Team standards") == {"/style.md": "Tabs.\\n"}
    assert memfs_database.exists()
    assert memfs_workspace.sessions.get(memfs_session.id).ended_at is None


@pytest.mark.parametrize("number", range(2))
def test_each_test_has_its_own(memfs_mount, number):
    assert list(memfs_mount.iterdir()) == []
    (memfs_mount / "x.md").write_text(f"{number}\\n")
"""


def test_what_the_fixtures_give_in_several_processes(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(WORKING)
    done = pytest_in(tmp_path, "--memfs-require", "-n", "2")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "4 passed" in done.stdout
    assert nothing_left(tmp_path)


def test_an_ordinary_user(user: Site) -> None:
    (user.directory / "test_it.py").write_text(WORKING)
    done = pytest_in(user.directory, "--memfs-require", prefix=user.prefix)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "4 passed" in done.stdout
    assert nothing_left(user.directory)


def test_nothing_stays_of_a_test_that_fails_with_files_open(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("""
import os
import subprocess

def test_it(memfs_mount, memfs_history):
    os.chdir(memfs_mount)
    held = os.open("a.md", os.O_CREAT | os.O_RDWR)
    os.write(held, b"half")
    subprocess.Popen(["sleep", "30"], cwd=memfs_mount, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).kill()
    assert memfs_history.changes() == "something else"
""")
    done = pytest_in(tmp_path)
    assert "1 failed" in done.stdout
    assert "something else" in done.stdout
    assert nothing_left(tmp_path)


def test_nothing_stays_where_pytest_is_killed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("""
import os
import signal

def test_it(memfs_mount):
    (memfs_mount / "a.md").write_text("saved\\n")
    os.kill(os.getpid(), signal.SIGKILL)
""")
    assert pytest_in(tmp_path).returncode == -9
    wait_until(lambda: nothing_left(tmp_path), "the mount is gone", LIMIT)


@pytest.mark.parametrize("required", [False, True], ids=["skips", "fails"])
def test_where_there_is_no_fuse(tmp_path: Path, required: bool) -> None:
    (tmp_path / "test_it.py").write_text("""
def test_of_a_mount(memfs_mount):
    raise AssertionError("nothing can be mounted")

def test_of_a_store(memfs_store, memfs_session, memfs_history):
    assert memfs_history.changes() == []
""")
    hidden = ("unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /dev/fuse && exec "$@"', "sh")
    done = pytest_in(tmp_path, *(["--memfs-require"] if required else []), prefix=hidden)
    reason = "memfs cannot mount here: fuse-device: /dev/fuse is not the FUSE device; "
    assert reason in done.stdout
    assert "--device /dev/fuse" in done.stdout
    assert ("1 passed, 1 error" if required else "1 passed, 1 skipped") in done.stdout
    assert done.returncode == (1 if required else 0)


def test_a_run_that_does_not_use_it_loads_nothing_of_memfs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it(pytestconfig):
            assert pytestconfig.pluginmanager.hasplugin("memfs")
            loaded = {name for name in sys.modules if name.startswith("memfs")}
            assert loaded <= {"memfs", "memfs.testing", "memfs.testing.given", "memfs.testing.plugin"}
            assert not {"pyfuse3", "sqlite_utils"} & sys.modules.keys()
        """
    )
    result = pytester.runpytest_subprocess(
        "-W", "error", "-p", "no:schemathesis", "-p", "no:hypothesispytest", timeout=120
    )
    result.assert_outcomes(passed=1)
    assert result.stderr.lines == []


def test_memfs_runs_where_pytest_is_not_installed() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "import memfs.testing, memfs.testing.history, memfs.testing.mounting, memfs.testing.keeper, memfs.cli.main\n"
    )
    done = subprocess.run([*PYTHON, "-c", code], env=environment(), capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_example_project(tmp_path: Path) -> None:
    code = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert len(code) <= 10
    assert EXAMPLE.read_text() in GUIDE.read_text()
    shutil.copy(EXAMPLE, tmp_path)
    done = pytest_in(tmp_path, "--memfs-require")
    assert "1 passed" in done.stdout
    assert nothing_left(tmp_path)


def test_the_other_code_of_the_guide(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    others = [block for block in blocks if block != EXAMPLE.read_text()]
    assert others
    (tmp_path / "test_guide.py").write_text("".join(others))
    done = pytest_in(tmp_path, "--memfs-require")
    assert done.returncode == 0, done.stdout
    assert nothing_left(tmp_path)


def test_the_fixtures_of_the_guide_are_those_there_are(pytester: pytest.Pytester) -> None:
    listed = set(re.findall(r"^\| `(memfs_\w+)`", GUIDE.read_text(), re.MULTILINE))
    result = pytester.runpytest_subprocess("--fixtures", timeout=120)
    there = set(re.findall(r"^(memfs_\w+)", result.stdout.str(), re.MULTILINE))
    assert listed == there
