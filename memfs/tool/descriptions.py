"""What a model is told of the six commands, where nobody else tells it: each as a tool with a description and a schema.

With the tool ``memory_20250818`` the API does that. The names begin with ``memory_``, because a client has the tools of
other servers too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memfs.model.records import MAX_CONTENT_BYTES, Attachment
from memfs.tool.places import ROOT

PREFIX = "memory_"

_FILE = {"type": "string", "description": f"The file, as {ROOT}/notes/plan.md"}
_ENTRY = {"type": "string", "description": f"The file or directory, as {ROOT}/notes"}
_NEW = {"type": "string", "description": f"Where it shall be, as {ROOT}/archive/notes"}


@dataclass(frozen=True, slots=True)
class Described:
    """One command as a tool. ``destroys``: whether it can take away what was there."""

    command: str
    title: str
    description: str
    schema: dict[str, Any]
    changes: bool = True
    destroys: bool = False

    @property
    def name(self) -> str:
        """What the tool is called."""
        return PREFIX + self.command


def describe(*, overwrite: bool, view_characters: int) -> list[Described]:
    """The six tools, true of how create and view are set."""
    existing = (
        "A file that is there already is replaced."
        if overwrite
        else f"Where a file is already, this is an error: change it with {PREFIX}str_replace or {PREFIX}insert."
    )
    return [
        Described(
            "view",
            "Look at the memory",
            f"Look at a directory of the memory (two levels deep, with sizes) or at a text file (with line numbers)."
            f" Begin with the path {ROOT}, which is everything. Of a long file {view_characters:,} characters are"
            f" shown, and view_range reads on.",
            _schema(
                {
                    "path": {"type": "string", "description": f"{ROOT}, or a file or directory below it"},
                    "view_range": {
                        "type": "array",
                        "items": {"type": "integer"},
                        "minItems": 2,
                        "maxItems": 2,
                        "description": "Of a file: the first and the last line to show, from 1; -1 is the last",
                    },
                },
                optional="view_range",
            ),
            changes=False,
        ),
        Described(
            "create",
            "Write a new memory file",
            f"Write a text file of at most {MAX_CONTENT_BYTES:,} bytes into the memory. Directories that are missing"
            f" are made. {existing}",
            _schema({"path": _FILE, "file_text": {"type": "string", "description": "The whole text"}}),
            destroys=overwrite,
        ),
        Described(
            "str_replace",
            "Edit a memory file",
            "Replace a text in a file of the memory. The answer shows the lines around the edit.",
            _schema(
                {
                    "path": _FILE,
                    "old_str": {
                        "type": "string",
                        "description": "What to replace: character for character, without the line numbers, and with"
                        " enough around it that the file has it only once",
                    },
                    "new_str": {"type": "string", "description": "What to write instead; left out, old_str is deleted"},
                },
                optional="new_str",
            ),
            destroys=True,
        ),
        Described(
            "insert",
            "Insert into a memory file",
            "Insert text into a file of the memory, after a line.",
            _schema(
                {
                    "path": _FILE,
                    "insert_line": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "The number of the line that it goes after; 0 is before the first",
                    },
                    "insert_text": {"type": "string", "description": "The text; a newline at its end is added"},
                }
            ),
        ),
        Described(
            "delete",
            "Delete from the memory",
            "Delete a file of the memory, or a directory with everything below it.",
            _schema({"path": _ENTRY}),
            destroys=True,
        ),
        Described(
            "rename",
            "Move within the memory",
            "Rename a file or directory of the memory, or move it. Directories that are missing are made, and nothing"
            " is ever overwritten.",
            _schema({"old_path": _ENTRY, "new_path": _NEW}),
            destroys=True,
        ),
    ]


def _schema(properties: dict[str, Any], optional: str | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name != optional],
    }


def introduce(roots: Mapping[str, Attachment]) -> str:
    """What a model is told of the whole: what the memory is, and the stores by their directories."""
    lines = [
        f"A memory that outlives this conversation: text files below {ROOT}, for the tools whose names begin with"
        f" {PREFIX}. Look at {ROOT} before you begin, in case that earlier work has left something you need."
    ]
    if any(attachment.access == "read_write" for attachment in roots.values()):
        lines.append(
            "Write down what will be worth knowing later as soon as you know it: what is not in the memory is gone when"
            " the conversation ends. Keep it in order: change and delete what is no longer true."
        )
    lines += ["", "What it holds:"]
    lines += [_line(path, attachment) for path, attachment in roots.items()]
    return "\n".join(lines)


def _line(path: str, attachment: Attachment) -> str:
    access = "only to be read" if attachment.access == "read_only" else "to be read and written"
    texts = (attachment.description, attachment.instructions)
    told = "".join(f" {' '.join(text.split())}" for text in texts if text.strip())
    return f"- {path} ({access}): {attachment.name}.{told}"
