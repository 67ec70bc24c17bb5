"""Every command explains itself, and the examples in its help work."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click
import pytest

from memfs.cli.main import main
from memfs.model.records import Actor, now
from memfs.workspace import Workspace
from memfs.workspace.sessions import Resource
from tests.cli.conftest import Run

NEEDS_A_MOUNT = {"mount", "umount", "status", "stat", "run", "doctor"}
SERVES = {"serve"}
"""These do not end by themselves: tests of their own run them."""


def commands(group: click.Group = main, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below the root, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*above, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*above, name))


ALL = {" ".join(words): command for words, command in commands()}


def examples(command: click.Command) -> list[str]:
    """The command lines in a command's help."""
    assert command.help is not None
    _, marker, text = command.help.partition("Example:\n")
    assert marker, "no example"
    return [line.partition(" #")[0].strip() for line in text.split("\n\n")[0].splitlines()]


def test_the_commands_are_those_that_are_documented() -> None:
    assert {
        "store create",
        "store list",
        "store show",
        "store update",
        "store copy",
        "store archive",
        "store delete",
        "store restore",
        "store guard",
        "store import",
        "store export",
        "memory create",
        "memory update",
        "memory edit",
        "memory delete",
        "memory list",
        "memory show",
        "memory expire",
        "version list",
        "version show",
        "version diff",
        "version restore",
        "version redact",
        "version prune",
        "version export",
        "settings show",
        "settings set",
        "session create",
        "session list",
        "session show",
        "session end",
        "run",
        "prompt",
        "doctor",
        "check",
        "backup",
        "tool",
        "mcp",
        "serve",
        "key create",
        "key list",
        "key revoke",
        "completion",
    } <= ALL.keys()


@pytest.mark.parametrize("name", ["", *ALL])
def test_every_command_has_help_with_an_explanation_and_an_example(run: Run, name: str) -> None:
    words = name.split()
    command = ALL.get(name, main)
    output = run(*words, "--help", database=None).output
    assert run(*words, "-h", database=None).output == output
    assert output.startswith(f"Usage: {' '.join(['memfs', *words])}")
    assert command.help is not None
    summary, explanation, *_ = command.help.split("\n\n")
    assert summary.endswith(".")
    assert len(explanation.split()) > 5
    assert any(line.startswith(" ".join(["memfs", *words])) for line in examples(command))


@pytest.mark.parametrize("name", ALL)
def test_every_option_is_explained(name: str) -> None:
    for parameter in ALL[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@pytest.mark.parametrize("name", [name for name in ALL if name.split()[-1] in ("list", "show", "status")])
def test_every_list_takes_a_format(name: str) -> None:
    (option,) = [parameter for parameter in ALL[name].params if parameter.name == "format_"]
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == ["table", "json", "jsonl"]


VERSIONS = ["memver_01M8NMQFRQEHGZHQHXSA2763V0", "memver_01M8NP6DRZ0JJCKNGD96Z9CQNS"]
"""These stand in the help for versions that exist, and are nobody's head."""
TIME = "2026-11-30T09:12:01Z"
"""Stands for a time at which there was something."""


@pytest.fixture
def world(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the examples in the help speak of; and what stands there for something of a world."""
    store = workspace.stores.create("User preferences")
    made = workspace.memories.create(store.id, "/editor/vim.md", b"one\n", Actor("user_actor", "alice"))
    for content in (b"two\n", b"set number\n"):
        workspace.memories.update(store.id, made.id, Actor("user_actor", "alice"), content=content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "true")
    os.makedirs("notes")
    Path("notes/a.md").write_text("a\n")
    workspace.keys.create("laptop")
    Path("session.yaml").write_text("resources: [{type: memory_store, name: notes}]\n")
    session = workspace.sessions.create([Resource(workspace.stores.create(name)) for name in ("notes", "team")])
    real = [found.id for found in reversed(workspace.versions.list(store.id))]
    return {
        TIME: now(),
        "$SESSION": session.id,
        "$hash": sha256(b"set number\n").hexdigest(),
        **dict(zip(VERSIONS, real, strict=False)),
    }


def example_words(name: str, world: dict[str, str]) -> Iterator[list[str]]:
    """The arguments of each example of a command, up to a pipe."""
    for line in examples(ALL.get(name, main)):
        line = re.sub(r"^\w+=\$\((.*)\)$", r"\1", line)
        if line.startswith("memfs "):
            words = [world.get(word, word) for word in shlex.split(line)[1:]]
            yield words[: words.index("|")] if "|" in words else words


@pytest.mark.parametrize("name", [name for name in ALL if not (NEEDS_A_MOUNT | SERVES) & set(name.split())])
def test_the_examples_work(run: Run, world: dict[str, str], name: str) -> None:
    ran = [run(*words) for words in example_words(name, world)]
    assert ran


def test_the_first_example_of_all_works_where_there_is_nothing_yet(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.makedirs("notes")
    Path("notes/a.md").write_text("a\n")
    assert len([run(*words) for words in example_words("", {})]) == 3


@pytest.mark.parametrize(
    "name,format_",
    [
        (name, format_)
        for name, command in ALL.items()
        if name not in ("stat", "doctor")  # its example needs a mount; it looks at the whole machine
        for option in command.params
        if option.name == "format_" and isinstance(option.type, click.Choice)
        for format_ in ("json", "jsonl")
        if format_ in option.type.choices
    ],
)
def test_every_command_that_answers_answers_programs_too(
    run: Run, world: dict[str, str], name: str, format_: str
) -> None:
    """Each example, asked for JSON: one document, or an object a line, and nothing else on standard output."""
    answers = []
    for words in example_words(name, world):
        if name == "version show" and "--content" in words:
            continue  # asks for the exact bytes, whatever the format
        words = [word for word in words if word not in ("-q", "--quiet")]
        if "--format" in words:
            at = words.index("--format")
            del words[at : at + 2]
        at = words.index("--") if "--" in words else len(words)
        output = run(*words[:at], "--format", format_, *words[at:]).stdout
        lines = output.splitlines() if format_ == "jsonl" else [output]
        answers += [json.loads(line) for line in lines]
        assert all(isinstance(json.loads(line), dict | (list if format_ == "json" else dict)) for line in lines)
    assert answers or name in ("status", "version prune", "memory expire")  # of which there may be none


def test_the_version(run: Run) -> None:
    from memfs import __version__

    assert run("--version", database=None).output == f"memfs, version {__version__}\n"
