"""Fixtures for tests on real mounts."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.mount.runtime import RootState
from tests.mount.harness import LIMIT, Site, site
from tests.mount.users import AS_NOBODY, NOBODY, give, opened_device


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Site]:
    """A place to mount, with a store ``notes`` that holds nothing."""
    with site(tmp_path) as made:
        made.store("notes")
        yield made


@pytest.fixture
def notes(at: Site) -> Path:
    """The directory of the mounted store ``notes``."""
    (directory,) = at.mount("notes")
    return directory


@pytest.fixture(scope="module")
def open_device() -> Iterator[None]:
    """See ``opened_device``."""
    with opened_device():
        yield


@pytest.fixture
def prefix() -> tuple[str, ...]:
    """How to run as the user nobody; with the one right to read past root's own directories, where Python is in one."""
    probe = [*AS_NOBODY, sys.executable, "-c", "import memfs.cli.main, pyfuse3"]
    if subprocess.run(probe, cwd="/", capture_output=True, timeout=LIMIT, check=False).returncode == 0:
        return AS_NOBODY
    reading = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    return (*AS_NOBODY[:1], *reading, *AS_NOBODY[1:])


@pytest.fixture
def user(open_device: None, prefix: tuple[str, ...]) -> Iterator[Site]:
    """A site of an ordinary user, in a home of theirs; pytest's own directories are closed to other users."""
    home = Path(tempfile.mkdtemp(prefix="memfs-user-"))
    give(home)
    try:
        runtime = home / "runtime"
        runtime.mkdir(mode=0o700)
        give(runtime)
        with site(home, prefix=prefix, HOME=str(home), XDG_RUNTIME_DIR=str(runtime)) as made:
            made.store("notes")
            yield made
            place = RootState(made.root, runtime).private_place(shared=True)
        assert not place.with_name(place.name.replace(f"memfs-{os.getuid()}", f"memfs-{NOBODY.pw_uid}")).exists()
    finally:
        shutil.rmtree(home)


@pytest.fixture(autouse=True)
def no_leaked_descriptors() -> Iterator[None]:
    """A test closes what it opens."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) <= before + 1
