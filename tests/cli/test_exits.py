"""Errors: one line on stderr, a documented exit code, never a traceback."""

import signal

import click
import pytest

from memfs.cli import exits
from memfs.cli.main import COMMANDS
from memfs.model import errors
from tests.cli.conftest import Run
from tests.processes import python


def plant(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Add a command ``fail`` that raises ``error``."""

    @click.command()
    def fail() -> None:
        raise error

    monkeypatch.setitem(COMMANDS, "fail", lambda: fail)


def test_every_error_has_an_exit_code_of_its_own() -> None:
    assert set(exits.EXIT_CODES) == errors.all_errors()


def test_an_error_that_is_not_in_the_table_has_that_of_its_nearest_class() -> None:
    # all_errors() finds subclasses, so this one is gone again before another test looks.
    special = type("Special", (errors.PathTooLong,), {})
    assert exits.exit_code(special("x")) == exits.INVALID
    assert exits.exit_code(errors.MemfsError("x")) == exits.REFUSED


def test_the_exit_codes_are_documented(run: Run) -> None:
    text = run("--help", database=None).stdout
    for code in {0, *exits.EXIT_CODES.values(), exits.INTERNAL}:
        assert f"\n    {code} " in text, code


@pytest.mark.parametrize("cls", exits.EXIT_CODES)
def test_an_error_is_one_line_on_stderr(
    run: Run, monkeypatch: pytest.MonkeyPatch, cls: type[errors.MemfsError]
) -> None:
    message = "what is wrong\n\x1b[31mand\u2028what to do \udcff"
    if cls is errors.PathConflict:
        error: errors.MemfsError = errors.PathConflict(message, conflicting_memory_id="mem_1", conflicting_path="/a")
    else:
        error = cls(message)
    plant(monkeypatch, error)
    result = run("fail", code=exits.EXIT_CODES[cls])
    assert result.stdout == ""
    assert result.stderr == "memfs: what is wrong\\n\\x1b[31mand\\u2028what to do \\udcff\n"


def test_a_fault_is_one_line_with_a_hint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, ZeroDivisionError("by\nnothing"))
    result = run("fail", code=exits.INTERNAL)
    assert result.stdout == ""
    assert result.stderr == "memfs: a fault of memfs: ZeroDivisionError: by\\nnothing; MEMFS_DEBUG=1 shows where\n"


def test_a_fault_shows_its_traceback_on_request(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, ZeroDivisionError("by nothing"))
    monkeypatch.setenv("MEMFS_DEBUG", "1")
    stderr = run("fail", code=exits.INTERNAL).stderr
    assert stderr.startswith("Traceback (most recent call last)")
    assert stderr.endswith("memfs: a fault of memfs: ZeroDivisionError: by nothing\n")


def test_an_operating_system_error_names_the_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, FileNotFoundError(2, "No such file or directory", b"/caf\xe9"))
    assert run("fail", code=exits.REFUSED).stderr == "memfs: /caf\\udce9: No such file or directory\n"


def test_an_interrupt_is_quiet(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, KeyboardInterrupt())
    result = run("fail", code=exits.INTERRUPTED)
    assert result.output == ""


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["store", "nothing"], ["store", "list", "--format", "xml"], ["--nothing"]]
)
def test_wrong_usage(run: Run, arguments: list[str]) -> None:
    result = run(*arguments, code=exits.INVALID)
    assert result.stdout == ""
    assert "Usage: memfs" in result.stderr


INTERRUPTED_WHILE_IT_LOADS = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, _path, _target=None):
        if name == "memfs.cli.output":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["memfs", "--version"]
runpy.run_module("memfs.cli", run_name="__main__")
"""


@pytest.mark.parametrize("ignored", [False, True])
def test_an_interrupt_is_quiet_before_a_command_runs(ignored: bool) -> None:
    prepare = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" if ignored else ""
    with python(prepare + INTERRUPTED_WHILE_IT_LOADS) as process:
        output, errors = process.communicate()
    assert errors == ""
    assert bool(output) == ignored
    assert process.returncode == (0 if ignored else -signal.SIGINT), "a shell shows that as 130"
