"""`make cases`: what it says and how it ends, with collections of our own that pass, fail, hang on or are not there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memfs.mount.processes import mounted_below
from tests.mount.harness import LIMIT, wait_until
from tests.processes import ROOT, environment

pytestmark = pytest.mark.mount

RUN = """#!/bin/sh
# usage: run DIR [CASE ...]; the cases are words in the file "cases": name and result
cd "$1" || exit 2
shift
status=0
while read -r name result; do
    case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
    echo "text of $name" > "$name.md"
    cat "$R/a.md" > /dev/null && test -d "$T" && test "$(cat "$name.md")" = "text of $name" || result=FAIL
    case $result in
        ok) echo "ok   $name" ;;
        FAIL) echo "FAIL $name (1): what it is about"; echo "       its last line"; status=1 ;;
        skip) echo "skip $name: no reason" ;;
        wait) echo "waiting in $(pwd)"; exec sleep 50 ;;
        crash) exit 7 ;;
    esac
    if echo no > "$R/x" 2> /dev/null; then exit 9; fi
done < "$CASES_OF_TEST"
exit $status
"""


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where the program makes its own directory, which must be empty again at the end."""
    made = tmp_path / "temporary"
    made.mkdir()
    return made


def start(collection: Path, temporary: Path, cases: str, *names: str) -> subprocess.Popen[str]:
    """Begin to run a collection whose cases have these results."""
    collection.mkdir()
    (collection / "run").write_text(RUN)
    (collection / "run").chmod(0o755)
    (collection / "cases").write_text(cases)
    return subprocess.Popen(
        [sys.executable, ROOT / "scripts" / "cases", collection, *names],
        env=environment(TMPDIR=str(temporary), CASES_OF_TEST=str(collection / "cases")),
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def nothing_left(temporary: Path) -> None:
    assert not mounted_below(temporary)
    assert os.listdir(temporary) == []


@pytest.mark.parametrize(
    "cases, status, said",
    [
        ("A01 ok\nA02 ok\n", 0, "cases: 2 passed, 0 failed, 0 failed as expected"),
        ("A01 ok\nH03 FAIL\nM04 FAIL\n", 0, "cases: 1 passed, 0 failed, 2 failed as expected"),
        ("A01 ok\nA02 FAIL\n", 1, "cases: error: A02 failed"),
        ("A01 ok\nH03 ok\n", 1, "cases: error: H03 passed, but wants names"),
        ("A01 ok\nL01 skip\n", 1, "cases: error: L01 was left out"),
        ("A01 ok\nA02 crash\n", 1, "cases: error: the program of the cases did not come to its end: 7"),
        ("", 1, "cases: error: no case was run"),
    ],
    ids=["passing", "expected", "failing", "unexpected", "left out", "crashing", "empty"],
)
def test_how_a_run_ends(tmp_path: Path, temporary: Path, cases: str, status: int, said: str) -> None:
    process = start(tmp_path / "collection", temporary, cases)
    try:
        output, errors = process.communicate(timeout=LIMIT)
    finally:
        process.terminate()
    assert said in output + errors
    assert process.returncode == status, errors
    if "H03 FAIL" in cases:
        assert "expected: H03 fails: it wants names with control and format characters" in output
        assert "expected: M04 fails: it cuts a text within a character" in output
    nothing_left(temporary)


def test_only_the_cases_that_were_named(tmp_path: Path, temporary: Path) -> None:
    process = start(tmp_path / "collection", temporary, "A01 ok\nA02 FAIL\nA03 ok\n", "A01", "A03")
    try:
        output, errors = process.communicate(timeout=LIMIT)
    finally:
        process.terminate()
    assert process.returncode == 0, errors
    assert output.splitlines() == ["ok   A01", "ok   A03", "cases: 2 passed, 0 failed, 0 failed as expected"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, temporary: Path, number: signal.Signals) -> None:
    process = start(tmp_path / "collection", temporary, "A01 ok\nA02 wait\n")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ok   A01\n"
        assert process.stdout.readline().startswith("waiting in ")
        assert mounted_below(temporary)
        process.send_signal(number)
        process.communicate(timeout=LIMIT)
    finally:
        process.terminate()
    assert process.returncode == 1
    wait_until(lambda: not mounted_below(temporary) and not os.listdir(temporary), "the mounts to go")
    nothing_left(temporary)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, reason in (("nowhere", "there is no directory"), ("empty", "has no program 'run'")):
        done = subprocess.run(
            [sys.executable, ROOT / "scripts" / "cases", tmp_path / name],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")
        assert reason in done.stderr
        assert str(tmp_path / name) in done.stderr
        assert len(done.stderr.splitlines()) == 1
