"""The SDK's own agent tools, called as a model would."""

from pathlib import Path
from typing import Any

from anthropic.lib.tools._beta_functions import aclose_runnable_tool
from anthropic.lib.tools.agent_toolset import AgentToolContext, beta_agent_toolset_20260401


class Tools:
    """The toolset, called as a model would."""

    def __init__(self, workdir: Path) -> None:
        self.context = AgentToolContext(workdir=workdir)
        self._tools = {tool.name: tool for tool in beta_agent_toolset_20260401(self.context)}

    async def call(self, name: str, **arguments: Any) -> str:
        """One tool_use; its text."""
        return str(await self._tools[name].call(arguments))

    async def close(self) -> None:
        """End the shell, as the SDK's runner does."""
        for tool in self._tools.values():
            await aclose_runnable_tool(tool)
        await self.context.close()
