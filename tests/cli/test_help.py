"""Every command explains itself, and the examples in its help work."""

import os
import shlex
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click
import pytest

from memfs.cli.main import main
from memfs.model.records import Actor, now
from memfs.workspace import Workspace
from tests.cli.conftest import Run

NEEDS_A_MOUNT = {"mount", "umount", "status"}


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
        "tool",
        "mcp",
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


@pytest.mark.parametrize("name", [name for name in ("", *ALL) if not NEEDS_A_MOUNT & set(name.split())])
def test_the_examples_work(
    run: Run, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name != "":
        store = workspace.stores.create("User preferences")
        made = workspace.memories.create(store.id, "/editor/vim.md", b"one\n", Actor("user_actor", "alice"))
        for content in (b"two\n", b"set number\n"):
            workspace.memories.update(store.id, made.id, Actor("user_actor", "alice"), content=content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "true")
    os.makedirs("notes")
    Path("notes/a.md").write_text("a\n")
    # These stand in the help for versions that exist, and are nobody's head.
    versions = ["memver_01M8NMQFRQEHGZHQHXSA2763V0", "memver_01M8NP6DRZ0JJCKNGD96Z9CQNS"]
    real = [found.id for store in workspace.stores.list() for found in reversed(workspace.versions.list(store.id))]
    time = "2026-11-30T09:12:01Z"  # stands for one at which there was something
    ran = 0
    for line in examples(ALL.get(name, main)):
        line = line.removeprefix("id=$(").removesuffix(")") if line.startswith("id=") else line
        if line.startswith("memfs "):
            stand_ins = {time: now(), "$hash": sha256(b"set number\n").hexdigest()}
            stand_ins |= zip(versions, real, strict=False)
            words = [stand_ins.get(word, word) for word in shlex.split(line)[1:]]
            run(*words[: words.index("|")] if "|" in words else words)
            ran += 1
    assert ran


def test_the_version(run: Run) -> None:
    from memfs import __version__

    assert run("--version", database=None).output == f"memfs, version {__version__}\n"
