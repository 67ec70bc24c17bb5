"""`make stress` is what its page says, and sees what is wrong: held without stress-ng, fio or bonnie++ being there."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from memfs.model.records import MAX_CONTENT_BYTES
from tests.mount.harness import Site, site
from tests.processes import ROOT
from tests.stress import bonnie, fio
from tests.stress.beside import Outcome, contents, run_beside
from tests.stress.ground import STORE, Ground, kept_texts
from tests.stress.round import ALL, judge_stress_ng
from tests.stress.stressors import LEFT_OUT, NAMES, STRESSORS, TOGETHER, Stressor

CLASSES = """
    access bind-mount binderfs chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify dup eventfd
    fallocate fanotify fcntl fiemap file-ioctl filename flock fpunch fsize fstat getdent handle hdd inode-flags inotify
    io iomix ioprio lease link locka lockf lockofd mknod open procfs rename symlink sync-file touch utime verity xattr
    aio aiol hdd io-uring rawdev readahead revio seek sync-file
"""
"""What ``stress-ng --class 'filesystem?'`` and ``'io?'`` list in Debian 12."""

OTHERS = {"mmap", "msync", "msyncmany", "sendfile"}

PAGE = (ROOT / "docs" / "design" / "stress.md").read_text()

ALWAYS = (
    "stress-ng: info:  [7] dispatching hogs\nstress-ng: metrc: [7] rename   {}   2.00   0.1   0.1   50.0   90.0   3\n"
)


def test_each_stressor_of_the_two_classes_is_run_or_left_out() -> None:
    assert len(NAMES) == len(STRESSORS)
    assert not NAMES.keys() & LEFT_OUT.keys()
    assert NAMES.keys() | LEFT_OUT.keys() == set(CLASSES.split()) | OTHERS
    assert set(TOGETHER) <= NAMES.keys()
    assert len(set(ALL)) == len(ALL)
    assert not any(NAMES[name].refused for name in TOGETHER)


def test_the_page_has_the_table() -> None:
    run = {
        f"| `{each.name}` | {' '.join(f'`{option}`' for option in each.options)} | {each.note} |" for each in STRESSORS
    }
    left = {f"| `{name}` | {reason} |" for name, reason in LEFT_OUT.items()}
    left |= {f"| `bonnie++ {name}` | {reason} |" for name, reason in bonnie.LEFT_OUT.items()}
    lines = {re.sub(r" +", " ", line) for line in PAGE.splitlines()}
    assert {re.sub(r" +", " ", line) for line in run | left} <= lines
    section = PAGE.partition("## What is run")[2].partition("## What was found")[0]
    named = set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))
    assert named == NAMES.keys() | LEFT_OUT.keys()


@pytest.mark.parametrize("job", fio.JOBS, ids=lambda job: job.name)
def test_what_fio_writes_into_memories_is_text_that_fits(job: fio.Job) -> None:
    lines = dict(line.split("=", 1) for line in job.file("/somewhere: else", 2.0).splitlines() if "=" in line)
    assert lines["directory"] == "/somewhere\\: else"
    assert lines["filename_format"].endswith(".md" if job.text else ".tmp")
    if job.text:
        assert int(lines["filesize"].replace("k", "000")) <= MAX_CONTENT_BYTES
        assert lines["buffer_pattern"] == fio.quoted(fio.REWRITTEN if job.rewritten else fio.PATTERN)
        assert lines.get("verify", "pattern") == "pattern"
    else:
        assert lines["verify"] != "pattern"


@pytest.mark.parametrize("text", [fio.PATTERN, fio.REWRITTEN], ids=["first", "again"])
def test_a_block_of_any_size_is_text(text: str) -> None:
    for size in (512, *range(1024, 16_385, 1024)):
        (text.encode() * size)[:size].decode()


def test_a_stressor_is_judged_by_the_tmpfs() -> None:
    stressor = [NAMES["rename"]]
    good = Outcome(0, ALWAYS.format(100))
    assert judge_stress_ng(stressor, good, good) == []
    assert judge_stress_ng(stressor, Outcome(2, ALWAYS.format(100)), good)[0].startswith("ended with 2")
    assert judge_stress_ng(stressor, Outcome(None, ""), good)[0].startswith("did not end in time here")
    assert judge_stress_ng(stressor, Outcome(0, ALWAYS.format(0)), good) == ["did nothing"]
    complaint = "stress-ng: fail:  [{}] rename: errno={} (Input/output error)\n"
    bad = Outcome(0, ALWAYS.format(100) + complaint.format(8, 5))
    assert judge_stress_ng(stressor, bad, good) == ["complains: rename: errno=# (Input/output error)"]
    assert judge_stress_ng(stressor, bad, Outcome(0, ALWAYS.format(9) + complaint.format(9, 6))) == []


def test_a_refusal_must_be_the_one_that_is_expected() -> None:
    link = [Stressor("link", refused="link calls not allowed")]
    said = "stress-ng: info:  [7] link: link calls not allowed on the filesystem, skipping stressor\n"
    there = Outcome(0, "")
    assert judge_stress_ng(link, Outcome(3, said), there) == []
    assert judge_stress_ng(link, Outcome(0, said), there) != []
    assert judge_stress_ng(link, Outcome(3, "another reason"), there) != []


def test_two_programs_run_beside_each_other_and_end_in_time(tmp_path: Path) -> None:
    one, two = run_beside(["sh", "-c", "echo one; exit 3"], ["sh", "-c", "echo two >&2"], 30)
    assert (one, two) == (Outcome(3, "one\n"), Outcome(0, "two\n"))
    pid = tmp_path / "pid"
    one, two = run_beside(["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"], ["true"], 3)
    assert (one.status, two.status) == (None, 0)
    assert not Path(f"/proc/{pid.read_text().strip()}/cwd").exists()  # what it started went with it


def test_a_worker_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as worker:
        ground = Ground(Site(tmp_path), tmp_path, tmp_path, worker=worker.pid)
        with ground.watched(0.1):
            assert worker.wait(30) == -signal.SIGKILL
        assert ground.wrong == ["something was not answered in 0 s"]


@pytest.mark.mount
def test_what_is_wrong_is_seen(tmp_path: Path) -> None:
    """Each fault is planted in a mount or database that was right before."""

    def judged(ground: Ground) -> list[str]:
        left = contents(ground.mount)
        ground.wrong.clear()
        ground.judge_history(left)
        return ground.wrong

    twin = tmp_path / "twin"
    twin.mkdir()
    place = tmp_path / "site"
    place.mkdir()
    with site(place) as at:
        ground = begun(at, twin)
        assert judged(ground) == []
        kept = next(iter(kept_texts()))
        (ground.mount / "probe.md").write_text("a write that nobody counted\n")
        assert judged(ground) == ["the probe was written 1 times and has 2 versions"]
        ground.probes += 1
        (ground.mount / kept).write_text("changed\n")
        assert judged(ground) == [f"{kept} was written once and has 2 versions"]
        left = contents(ground.mount) | {"/never-committed.md": b"x"}
        ground.wrong.clear()
        ground.judge_history(left)
        assert "1 heads are not what the mount showed: /never-committed.md" in ground.wrong
        ground.wrong.clear()
        ground.end()
        assert ground.wrong == [f"{kept} is not what it was", f"{kept} was written once and has 2 versions"]


def begun(at: Site, twin: Path) -> Ground:
    """A ground at its beginning, and a first probe."""
    at.store(STORE)
    (mount,) = at.mount(STORE)
    ground = Ground(at, mount, twin)
    ground.begin()
    ground.probe("the beginning")
    return ground
