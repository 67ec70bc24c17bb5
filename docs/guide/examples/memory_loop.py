"""Two conversations with a model that has the memory tool: what it notes in the first, it finds in the second.

Run it with ``python docs/guide/examples/memory_loop.py``. Nothing leaves this machine: the model below says what is
written here, in the shape of the API's messages. With the API, ``client.messages.create(...)`` takes its place.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memfs.tool import OpenMemory, open_memory
from memfs.workspace import Workspace

Message = dict[str, Any]

FIRST = [
    {"command": "view", "path": "/memories"},
    {
        "command": "create",
        "path": "/memories/customers/acme.md",
        "file_text": "Acme Corp\n- prefers email follow-ups\n",
    },
    "I have noted that Acme Corp prefers email follow-ups.",
]
SECOND = [
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/customers/acme.md"},
    {"command": "str_replace", "path": "/memories/customers/acme.md", "old_str": "calls", "new_str": "calls, never"},
    {"command": "insert", "path": "/memories/customers/acme.md", "insert_line": 2, "insert_text": "- closes at noon"},
    "Write to Acme Corp before noon: they prefer email.",
]


class ScriptedModel:
    """Answers with one turn after the other: a call of the memory tool, or its last words."""

    def __init__(self, turns: list[Any]) -> None:
        self._turns: Iterator[tuple[int, Any]] = enumerate(turns, 1)

    def create(self, messages: list[Message]) -> Message:
        """The next message of the assistant."""
        assert messages[-1]["role"] == "user"
        number, turn = next(self._turns)
        if isinstance(turn, str):
            return {"role": "assistant", "stop_reason": "end_turn", "content": [{"type": "text", "text": turn}]}
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "memory", "input": turn}
        return {"role": "assistant", "stop_reason": "tool_use", "content": [call]}


def converse(model: ScriptedModel, memory: OpenMemory, question: str) -> str:
    """The loop: ask, carry out what the model asks for, send the results back, until it has nothing more to ask."""
    messages: list[Message] = [{"role": "user", "content": question}]
    while True:
        answer = model.create(messages)
        messages.append({"role": "assistant", "content": answer["content"]})
        if answer["stop_reason"] != "tool_use":
            return "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        results = []
        for block in answer["content"]:
            if block["type"] == "tool_use" and block["name"] == "memory":
                result = memory.handle(block["input"])
                results.append(
                    {
                        "type": "tool_result",
                        "tool_use_id": block["id"],
                        "content": result.content,
                        "is_error": result.is_error,
                    }
                )
                show(block["input"], result.content, result.is_error)
        messages.append({"role": "user", "content": results})


def show(call: dict[str, Any], answer: str, is_error: bool) -> None:
    """Print a call and its answer."""
    print(f"  {call['command']} {call['path']}")
    for line in answer.splitlines():
        print(f"    {'! ' if is_error else ''}{line}")


def main() -> None:
    """Have the two conversations, then look at the history."""
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "memfs.db"
        with Workspace.open(database, create=True) as workspace:
            store = workspace.stores.create("Customers")
        for question, turns in (
            ("Remember that Acme Corp prefers email follow-ups.", FIRST),
            ("How do I best reach Acme Corp? They close at noon.", SECOND),
        ):
            print(f"user: {question}")
            with open_memory(database, [store.id]) as memory:  # a session of its own
                print(f"model: {converse(ScriptedModel(turns), memory, question)}\n")
        with Workspace.open(database) as workspace:
            versions = workspace.versions.list(store.id)
            for version in reversed(versions):
                print(f"{version.operation} {version.path} by a {version.created_by.type}")
            print(f"{len({version.created_by.id for version in versions})} sessions")


if __name__ == "__main__":
    main()
