"""The map of cases to tests is true: it names every case, every test of these directories, and only what is there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.processes import ROOT

PAGE = ROOT / "docs" / "design" / "cases.md"
ABOUT_THE_CASES_THEMSELVES = {"test_map.py", "test_runner.py"}

_CASE = re.compile(r"\b[A-P][0-9]{2}\b")


def rows() -> dict[str, set[str]]:
    """The map: case to tests, as ``directory/file.py::test``."""
    found: dict[str, set[str]] = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and _CASE.fullmatch(cells[1]):
            assert cells[1] not in found, cells[1]
            tests = set(re.findall(r"`([\w/]+\.py::\w+)`", cells[2]))
            assert tests, cells[1]
            found[cells[1]] = tests
    return found


def beginnings(path: Path) -> Iterator[tuple[str, str]]:
    """The tests of a file, and what their docstrings begin with, up to the colon."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, (ast.get_docstring(node) or "").partition(":")[0]


def test_every_test_of_the_map_exists() -> None:
    named = {test for tests in rows().values() for test in tests}
    files = {test.partition("::")[0] for test in named}
    there = {f"{file}::{name}" for file in files for name, _ in beginnings(ROOT / "tests" / file)}
    assert named - there == set()


def test_every_test_of_a_kind_is_in_the_map_with_its_cases() -> None:
    mapped = rows()
    count = 0
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name not in ABOUT_THE_CASES_THEMSELVES:
            for name, beginning in beginnings(path):
                cases = _CASE.findall(beginning)
                assert cases, f"{path.name}::{name} says no case that it stands for"
                test = f"cases/{path.name}::{name}"
                assert [case for case, tests in mapped.items() if test in tests] == sorted(
                    cases, key=list(mapped).index
                ), test
                count += 1
    assert count > 80


def test_no_case_is_left_out() -> None:
    """So many has the collection, which is not asked here: what is tested must not hang on what lies beside us."""
    mapped = rows()
    assert len(mapped) == 63 + 26
    assert all(
        test.startswith(("cases/", "mount/", "programs/", "vfs/", "tool/"))
        for tests in mapped.values()
        for test in tests
    )
