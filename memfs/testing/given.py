"""What a test says of the stores that it wants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class GivenStore:
    """A store of the session under test. ``memories`` is path in the store to text, before the agent begins."""

    name: str = "Notes"
    memories: Mapping[str, str] = field(default_factory=dict)
    access: Literal["read_write", "read_only"] = "read_write"
    description: str = ""
    instructions: str = ""
