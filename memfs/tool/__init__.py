"""The memory tool (``memory_20250818``) on stores: for applications that give a model this tool instead of a shell.

``MemoryTool`` and ``AsyncMemoryTool`` are for the tool runner of the SDK, which the extra ``sdk`` installs; they are
loaded on use, so that the rest costs nobody its import.
"""

from typing import TYPE_CHECKING, Any

from memfs.tool.commands import MemoryCommands, ToolResult
from memfs.tool.session import OpenMemory, open_memory
from memfs.tool.wording import SDK, SEED, Wording

if TYPE_CHECKING:
    from memfs.tool.sdk import AsyncMemoryTool as AsyncMemoryTool
    from memfs.tool.sdk import MemoryTool as MemoryTool

# Without the two: `from memfs.tool import *` must work where there is no SDK.
__all__ = ["SDK", "SEED", "MemoryCommands", "OpenMemory", "ToolResult", "Wording", "open_memory"]


def __getattr__(name: str) -> Any:
    """Load what needs the SDK. Raises ImportError where it is not installed."""
    if name in ("AsyncMemoryTool", "MemoryTool"):
        from memfs.tool import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
