"""The SDK's tools for agents: bash, read, write, edit, glob, grep; and its memory tool that keeps files."""

import os
import re
from typing import Any

import anyio
import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

from tests.mount.agent_tools import Tools
from tests.programs.sides import Side, Sides

pytestmark = [pytest.mark.mount, pytest.mark.programs]

WORK: list[tuple[str, dict[str, Any]]] = [
    ("write", {"file_path": "user.md", "content": "name: Ada\nlikes: tea, tea\n"}),
    ("read", {"file_path": "user.md"}),
    ("read", {"file_path": "user.md", "view_range": [2, 2]}),
    ("edit", {"file_path": "user.md", "old_string": "Ada", "new_string": "Grace"}),
    ("edit", {"file_path": "user.md", "old_string": "tea", "new_string": "coffee"}),
    ("edit", {"file_path": "user.md", "old_string": "tea", "new_string": "coffee", "replace_all": True}),
    ("edit", {"file_path": "user.md", "old_string": "absent", "new_string": ""}),
    ("write", {"file_path": "projects/täglich/memfs.md", "content": "coffee break\r\nat four"}),
    ("write", {"file_path": "user.md/below", "content": ""}),
    ("write", {"file_path": "projects", "content": ""}),
    ("read", {"file_path": "projects"}),
    ("read", {"file_path": "absent.md"}),
    ("bash", {"command": "cd projects && ls -R && pwd"}),
    ("bash", {"command": "sed -i s/four/five/ täglich/memfs.md && cat ../user.md"}),
    ("bash", {"command": "cat absent"}),
    ("bash", {"restart": True}),
    ("bash", {"command": "echo more >> user.md; mv projects/täglich/memfs.md . && rm -r projects"}),
    ("glob", {"pattern": "**/memfs.*"}),
    ("grep", {"pattern": "coffee", "path": "memfs.md"}),
    ("grep", {"pattern": "absent"}),
    ("write", {"file_path": "user.md", "content": ""}),
]
"""Two of the edits and some others are mistakes that models make."""


async def worked(side: Side) -> list[str]:
    """What the tools answer to the work, in a directory."""
    tools, answers = Tools(side.directory), []
    try:
        for name, arguments in WORK:
            try:
                answer = await tools.call(name, **arguments)
            except ToolError as error:
                answer = f"error: {error}"
            answers.append(side.neutral(answer))
    finally:
        await tools.close()
    return answers


def test_the_agent_toolset(sides: Sides) -> None:
    on_disk, mounted = (anyio.run(worked, side, backend="trio") for side in sides.both)
    assert mounted == on_disk
    assert [answer for answer in on_disk if answer.startswith("error: ")] != []
    assert "name: Grace\nlikes: coffee, coffee\n" in "\n".join(on_disk)
    sides.agree()
    assert sides.history() == [
        ("a", "created", "/user.md", "name: Ada\nlikes: tea, tea\n"),
        ("a", "modified", "/user.md", "name: Grace\nlikes: tea, tea\n"),
        ("a", "modified", "/user.md", "name: Grace\nlikes: coffee, coffee\n"),
        ("b", "created", "/projects/täglich/memfs.md", "coffee break\r\nat four"),
        ("b", "modified", "/projects/täglich/memfs.md", "coffee break\r\nat five"),
        ("a", "modified", "/user.md", "name: Grace\nlikes: coffee, coffee\nmore\n"),
        ("b", "modified", "/memfs.md", "coffee break\r\nat five"),
        ("a", "modified", "/user.md", ""),
    ]


CALLS: list[dict[str, Any]] = [
    {"command": "create", "path": "/memories/user.md", "file_text": "name: Ada\nlikes: tea\n"},
    {"command": "create", "path": "/memories/user.md", "file_text": "again"},
    {"command": "create", "path": "/memories/projects/memfs.md", "file_text": "one\n"},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/user.md"},
    {"command": "str_replace", "path": "/memories/user.md", "old_str": "tea", "new_str": "coffee"},
    {"command": "str_replace", "path": "/memories/user.md", "old_str": "absent", "new_str": ""},
    {"command": "insert", "path": "/memories/user.md", "insert_line": 1, "insert_text": "born: 1815\n"},
    {"command": "rename", "old_path": "/memories/user.md", "new_path": "/memories/people/ada.md"},
    {"command": "rename", "old_path": "/memories/projects", "new_path": "/memories/work"},
    {"command": "rename", "old_path": "/memories/absent", "new_path": "/memories/other"},
    {"command": "delete", "path": "/memories/work/memfs.md"},
    {"command": "delete", "path": "/memories/people"},
    {"command": "delete", "path": "/memories/people"},
    {"command": "view", "path": "/memories/absent"},
]


DIRECTORY_SIZE = re.compile(r"^\S+\t(?=/memories(/.*/)?$)", re.MULTILINE)
"""In a listing; each filesystem has its own idea of it."""


def called(side: Side) -> list[str]:
    """What the SDK's memory tool answers to the calls, with its files in a directory."""
    tool, answers = BetaLocalFilesystemMemoryTool(str(side.directory)), []
    for call in CALLS:
        try:
            answers.append(side.neutral(str(tool.call(call))))
        except ToolError as error:
            answers.append(side.neutral(f"error: {error}"))
    return answers


def test_the_memory_tool_in_files(sides: Sides) -> None:
    """It replaces through .tmp-PID-UUID, which is no memory."""
    on_disk, mounted = ([DIRECTORY_SIZE.sub("", answer) for answer in called(side)] for side in sides.both)
    assert mounted == on_disk
    assert len([answer for answer in on_disk if answer.startswith("error: ")]) == 5
    sides.agree()
    assert os.listdir(sides.mount.directory / "memories") == ["work"]
    assert sides.history() == [
        ("a", "created", "/memories/user.md", "name: Ada\nlikes: tea\n"),
        ("b", "created", "/memories/projects/memfs.md", "one\n"),
        ("a", "modified", "/memories/user.md", "name: Ada\nlikes: coffee\n"),
        ("a", "modified", "/memories/user.md", "name: Ada\nborn: 1815\nlikes: coffee\n"),
        ("a", "modified", "/memories/people/ada.md", "name: Ada\nborn: 1815\nlikes: coffee\n"),
        ("b", "modified", "/memories/work/memfs.md", "one\n"),
        ("b", "deleted", "/memories/work/memfs.md", None),
        ("a", "deleted", "/memories/people/ada.md", None),
    ]
