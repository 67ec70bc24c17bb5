"""Mounts that nobody serves any more: found, told of, and cleared away, while those that live stay.

Everything happens in a mount namespace of its own, with no records and no mounts of others: what this clears away is
whatever is dead on the machine.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mount.harness import LIMIT, Site, kill, site, wait_for_end
from tests.mount.users import give

pytestmark = pytest.mark.mount

_ALONE = """
mkdir -p /run/memfs && mount -t tmpfs -o mode=700 memfs-test /run/memfs
awk '{for (i = 7; $i != "-"; i++); if ($(i + 2) ~ /^memfs/) print $5}' /proc/self/mountinfo | tac |
while IFS= read -r point; do umount -l "$(printf '%b' "$point")"; done
mount -t tmpfs -o mode=700 memfs-test /run/memfs 2>/dev/null
echo alone; exec cat
"""


@contextmanager
def alone() -> Iterator[tuple[str, ...]]:
    """How to run a command where nothing of memfs is mounted, and whatever it mounts goes at the end."""
    command = ["unshare", "--mount", "--propagation", "private", "--", "bash", "-c", _ALONE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "alone\n"
            yield ("nsenter", "--mount", "--target", str(holder.pid), "--")
        finally:
            holder.stdin.close()
            holder.wait(LIMIT)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Site]:
    """A site in a namespace of its own."""
    with alone() as inside, site(tmp_path, prefix=inside) as made:
        made.store("notes", a_md="one\n")
        yield made


@pytest.fixture
def live(here: Site) -> Iterator[Site]:
    """Another root, which lives all the time."""
    other = here.directory / "other"
    other.mkdir()
    with site(other, prefix=here.prefix) as made:
        made.store("live", b_md="two\n")
        made.mount("live")
        yield made


def inside(at: Site, script: str) -> str:
    """What a script says in the namespace of a site."""
    done = subprocess.run(
        [*at.prefix, "bash", "-c", script], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    return done.stdout + done.stderr


def die(at: Site, name: str = "notes") -> None:
    """End what serves a root, so that none of it can clear up."""
    supervisor, worker = at.supervisor(), at.worker(name)
    os.kill(supervisor, signal.SIGSTOP)  # or it would start another worker
    for pid in (worker, supervisor):
        kill(pid)
        wait_for_end(pid)
    assert "Transport endpoint is not connected" in inside(at, f"ls {at.root}/{name}")


def stale_mounts(at: Site) -> dict[str, str]:
    """What the doctor says of stale mounts."""
    found = json.loads(at.run("doctor", "--format", "json").stdout)
    (said,) = [each for each in found if each["check"] == "stale-mounts"]
    return {key: str(value) for key, value in said.items()}


def test_what_a_supervisor_that_died_left_is_cleared_away(here: Site, live: Site) -> None:
    here.mount("notes")
    die(here)
    told = stale_mounts(here)
    assert (told["state"], told["found"]) == ("warning", f"nobody serves {here.root}")
    assert "umount --stale" in told["next_step"]
    assert here.run("umount", "--stale").stdout == f"{here.root}\n"
    assert here.status() == []
    assert not here.root.exists()
    assert stale_mounts(here)["found"] == "none"
    assert inside(live, f"cat {live.root}/live/b.md") == "two\n"
    assert inside(here, "ls /run/memfs/*.log").count("\n") == 1
    assert here.mount("notes") == [here.root / "notes"]


def test_a_dead_mount_without_a_record_is_cleared_away(here: Site, live: Site) -> None:
    log = Path(live.status()[0]["log"])
    here.mount("notes")
    die(here)
    name = Path(here.status()[0]["log"]).with_suffix("")
    inside(here, f"rm {name}.json {name}.lock")
    assert stale_mounts(here)["found"] == f"nobody serves {here.root}/notes"
    cleared = here.run("umount", "--stale").stdout.splitlines()
    assert cleared == [f"{here.root}/notes", str(here.root), f"{name}.log"]
    assert str(here.directory / "root") not in inside(here, "cat /proc/self/mountinfo")
    assert inside(here, "ls /run/memfs/*.log") == f"{log}\n"
    assert inside(live, f"cat {live.root}/live/b.md") == "two\n"
    again = here.run("umount", "--stale")
    assert (again.stdout, again.stderr) == ("", "memfs: nothing is stale\n")


def test_one_that_lives_but_does_not_answer_is_not_stale(live: Site) -> None:
    worker = live.worker("live")
    os.kill(worker, signal.SIGSTOP)
    try:
        assert live.run("umount", "--stale").stdout == ""
    finally:
        os.kill(worker, signal.SIGCONT)
    assert inside(live, f"cat {live.root}/live/b.md") == "two\n"


def test_one_that_lives_without_a_record_is_not_stale(live: Site) -> None:
    name = Path(live.status()[0]["log"]).with_suffix("")
    inside(live, f"mkdir /run/memfs/kept && mv {name}.json {name}.lock /run/memfs/kept")
    try:
        assert live.run("umount", "--stale").stdout == ""
        assert inside(live, f"cat {live.root}/live/b.md; ls {name}.log") == f"two\n{name}.log\n"
    finally:
        inside(live, "mv /run/memfs/kept/* /run/memfs && rmdir /run/memfs/kept")


def test_a_record_that_cannot_be_read_is_told_and_stays(here: Site) -> None:
    inside(here, "echo '{' > /run/memfs/broken.json")
    assert stale_mounts(here)["found"] == "records that cannot be read: /run/memfs/broken.json"
    done = here.run("umount", "--stale", check=False)
    assert done.returncode == 1
    assert "/run/memfs/broken.json: it cannot be read; unmount its root, then remove it" in done.stderr


def test_ordinary_users_clear_away_their_own(open_device: None, prefix: tuple[str, ...]) -> None:
    home = Path(tempfile.mkdtemp(prefix="memfs-stale-"))
    give(home)
    try:
        with alone() as around, site(home, prefix=(*around, *prefix), XDG_RUNTIME_DIR=str(home)) as made:
            made.store("notes")
            made.mount("notes")
            die(made)
            assert made.run("umount", "--stale").stdout == f"{made.root}\n"
            made.mount("notes")
            die(made)
            name = Path(made.status()[0]["log"]).with_suffix("")
            inside(made, f"rm {name}.json {name}.lock")
            (cleared, log) = made.run("umount", "--stale").stdout.splitlines()
            assert (cleared.endswith("/notes"), log) == (True, f"{name}.log")
            assert cleared not in inside(made, "cat /proc/self/mountinfo")
            assert stale_mounts(made)["found"] == "none"
            inside(made, f"rm -r $(readlink {made.root}) {made.root}")
    finally:
        shutil.rmtree(home)


def test_stale_takes_no_root(here: Site) -> None:
    done = here.run("umount", "--stale", here.root, check=False)
    assert done.returncode == 2
    assert "leave ROOT out" in done.stderr
