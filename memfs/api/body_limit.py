"""How large a request may be."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memfs.api.answers import TOO_LARGE, error_answer


class BodyLimit:
    """Answers 413 as soon as a body is, or is said to be, over the limit. Not the framework's: that answers no JSON."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        message = f"the body of a request has at most {self._max_bytes:,} bytes"
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if said.isdigit() and int(said) > self._max_bytes:
            refusal = error_answer(*TOO_LARGE, message, scope["memfs.request_id"])
            await refusal(scope, receive, send)
            return
        received = 0

        async def receiving() -> Message:
            nonlocal received
            event = await receive()
            received += len(event.get("body", b""))
            if received > self._max_bytes:
                raise HTTPException(TOO_LARGE[0], message)  # any other error the framework takes for a bad body
            return event

        await self._app(scope, receiving, send)
