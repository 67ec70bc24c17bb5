"""The smallest run of the benchmark: its figures are no measurement, but each row and each file must come."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memfs.mount.processes import kind_at, mounted_below
from tests.bench.bars import BARS, PASSTHROUGH, TMPFS
from tests.bench.contestants import EXAMPLE, CannotMeasure, Place, Programs, check_kinds, grep, run
from tests.bench.measuring import Measuring
from tests.bench.plan import Plan
from tests.bench.report import as_text, tables

PLAN = Plan(
    rounds=2,
    searches=1,
    sample=1,
    memories=100,
    size=200,
    starts=1,
    stores=2,
    changes=2,
    versions=300,
    history_rounds=20,
    history_memories=100,
)
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """What the benchmark compiles."""
    if not EXAMPLE.exists():
        pytest.skip(f"{EXAMPLE} is left out here")
    return Programs(tmp_path_factory.mktemp("programs"), EXAMPLE)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Three texts of ten bytes."""
    for n in range(3):
        (tmp_path / f"note-{n:04}.md").write_text("0123456789")
    return tmp_path


@pytest.mark.parametrize("kind", ["stat", "read", "list", "create"])
def test_the_inner_loops_say_nanoseconds_and_leave_all_as_it_was(programs: Programs, notes: Path, kind: str) -> None:
    before = sorted(os.listdir(notes))
    median, mean = map(float, run(programs.work, kind, notes, "3", "10", "1").split())
    assert 0 < median < 1e9
    assert 0 < mean < 1e9
    assert sorted(os.listdir(notes)) == before


@pytest.mark.parametrize("kind", ["stat", "read", "list"])
@pytest.mark.parametrize("files, size", [("4", "10"), ("3", "11")], ids=["a file missing", "another size"])
def test_the_inner_loops_do_not_time_what_is_not_so(
    programs: Programs, notes: Path, kind: str, files: str, size: str
) -> None:
    with pytest.raises(CannotMeasure, match="work: "):
        run(programs.work, kind, notes, files, size, "1")


def test_a_search_that_does_not_find_all_is_not_timed(notes: Path) -> None:
    (notes / "note-0001.md").write_text("a needle in the haystack")
    assert grep(notes, 1) > 0
    with pytest.raises(CannotMeasure, match="1 texts of 2"):
        grep(notes, 2)


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(CannotMeasure, match="--passthrough"):
        Programs(tmp_path, tmp_path / "none.c")
    with pytest.raises(CannotMeasure, match="needed and not here"):
        run("no-such-program-of-ours")
    with pytest.raises(CannotMeasure, match="--disk"):
        check_kinds(MEMORY, MEMORY)
    with pytest.raises(CannotMeasure, match="--tmpfs"):
        check_kinds(Path("/proc"), Path("/proc"))


@pytest.mark.mount
def test_each_row_of_the_table_is_measured(programs: Programs, tmp_path: Path) -> None:
    if kind_at(MEMORY) != "tmpfs":
        pytest.skip(f"{MEMORY} is no tmpfs here")
    memory = MEMORY / f"memfs-test-{os.getpid()}"
    place = Place(programs, tmp_path / "disk", memory, memories=PLAN.memories, size=PLAN.size)
    said: list[str] = []
    try:
        measuring = Measuring(place, PLAN, tmp_path / "histories", said.append, bindfs=False)
        measuring.table()
    finally:
        assert not mounted_below(tmp_path)
        run("rm", "-r", memory)
    assert [row.work for row in measuring.rows] == list(BARS)
    for row in measuring.rows:
        assert row.value >= 0
        if row.bar.than in (TMPFS, PASSTHROUGH):
            assert len(row.values) == (PLAN.searches if row.work.startswith("grep") else PLAN.rounds)
            assert {"memfs", row.bar.than} <= row.times.keys()
            assert all(value > 0 for values in row.times.values() for value in values)
    assert json.loads(json.dumps([row.as_json() for row in measuring.rows]))
    text = as_text(tables(measuring.rows)[0])
    assert all(work in text for work in BARS)
    assert any("history of 300 versions" in each for each in said)


@pytest.mark.mount
def test_bad_input_is_told_without_a_traceback(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parent.parent.parent / "scripts" / "bench"
    command = [sys.executable, str(script), f"--out={tmp_path}", f"--passthrough={tmp_path / 'none.c'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Error: " in done.stderr
