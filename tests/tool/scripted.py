"""A model for the SDK's client that says what a test has written down. No network: a transport in this process."""

import json
from collections.abc import Sequence
from typing import Any

import httpx2
from anthropic import Anthropic, AsyncAnthropic

Turn = Sequence[object] | str
"""What the model says: the inputs of its calls of the memory tool, or its last words."""


class ScriptedModel:
    """Answers ``POST /v1/messages`` with one turn after the other; ``requests`` has what it was sent."""

    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self.requests: list[dict[str, Any]] = []

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        assert (request.method, request.url.path) == ("POST", "/v1/messages")
        self.requests.append(json.loads(request.content))
        number, turn = len(self.requests), self._turns[len(self.requests) - 1]
        content = (
            [{"type": "text", "text": turn}]
            if isinstance(turn, str)
            else [
                {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": "memory", "input": given}
                for index, given in enumerate(turn)
            ]
        )
        return httpx2.Response(
            200,
            json={
                "id": f"msg_{number}",
                "type": "message",
                "role": "assistant",
                "model": "scripted",
                "content": content,
                "stop_reason": "end_turn" if isinstance(turn, str) else "tool_use",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        )

    def client(self) -> Anthropic:
        """A client that talks to this model."""
        return Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(self._respond)))

    def async_client(self) -> AsyncAnthropic:
        """The same for async code."""
        return AsyncAnthropic(
            api_key="none", http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(self._respond))
        )

    @property
    def results(self) -> list[dict[str, Any]]:
        """The tool_result blocks that the model was sent, in their order: each request ends with those of a turn."""
        last = [request["messages"][-1]["content"] for request in self.requests[1:]]
        return [block for content in last for block in content]
