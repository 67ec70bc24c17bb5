"""What every request meets first: an id, a line in the log, a number in the metrics; then the key, and the rate.

Plain ASGI around the framework, so that nothing is answered past it, whatever the framework makes of a request.
"""

import logging
import re
import time
from collections.abc import Iterable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memfs.api.answers import FAILED, INVALID, TOO_MANY, answer, error_answer
from memfs.api.calls import Threads
from memfs.api.metrics import NO_ROUTE, Metrics
from memfs.api.rates import Rates, whole_seconds
from memfs.model import ids
from memfs.model.errors import MemfsError, NotAuthenticated
from memfs.model.records import ApiKey

log = logging.getLogger(__name__)
access_log = logging.getLogger("memfs.api.access")

OPEN_PATHS = ("/healthz",)
"""All that is answered without a key."""

LOGGED_CHARACTERS = 300
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BETAS = frozenset({"agent-memory-2026-07-22", "managed-agents-2026-04-01"})
_BEARER = re.compile(r"Bearer +(\S+) *", re.IGNORECASE)

Headers = Iterable[tuple[bytes, bytes]]


class Front:
    """The outermost application."""

    def __init__(self, app: ASGIApp, threads: Threads, metrics: Metrics, rates: Rates) -> None:
        self._app = app
        self._threads = threads
        self._metrics = metrics
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":  # there is none
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        request_id = scope["memfs.request_id"] = ids.new_id(ids.REQUEST)
        began = time.perf_counter()
        status: int | None = None
        seconds = 0.0

        async def sending(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"request-id", request_id.encode())]
            await send(message)
            if not seconds:
                seconds = time.perf_counter() - began

        with self._metrics.in_progress.track_inprogress():
            try:
                refusal = await self._refusal(scope, request_id)
                await (refusal or self._app)(scope, receive, sending)
            except Exception:
                log.exception("a request failed request=%s", request_id)
                if status is None:
                    failed = error_answer(*FAILED, "a fault of the server, which its log describes", request_id)
                    await failed(scope, receive, sending)
            finally:
                self._done(scope, status, seconds or time.perf_counter() - began)

    def _done(self, scope: Scope, status: int | None, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        self._metrics.answered(method, route, status or 0, seconds)
        key = scope.get("memfs.key")
        # The path as it was sent: percent-encoded, so that nothing in it can break the line. Never its query.
        path = scope["raw_path"].decode("ascii", "backslashreplace")
        if len(path) > LOGGED_CHARACTERS:
            path = path[:LOGGED_CHARACTERS] + "…"
        access_log.info(
            "method=%s path=%s status=%s ms=%.1f key=%s request=%s",
            method,
            path,
            status or "none",
            seconds * 1000,
            "none" if key is None else key.id,
            scope["memfs.request_id"],
        )

    async def _refusal(self, scope: Scope, request_id: str) -> JSONResponse | None:
        """Why a request goes no further; else its key is known from here on."""
        if scope["path"] in OPEN_PATHS:
            return None
        client = "address " + (scope["client"] or ("unknown",))[0]
        secret = _secret(scope["headers"])
        try:
            key = await self._authenticated(secret)
        except NotAuthenticated as error:
            self._metrics.refused.labels("key").inc()
            return self._over_rate(client, request_id) or answer(error, request_id)
        except MemfsError as error:
            return answer(error, request_id)
        scope["memfs.key"] = key
        if (over := self._over_rate(key.id, request_id)) is not None:
            return over
        if _betas(scope["headers"]) >= _BETAS:
            message = f"the header anthropic-beta may name only one of {' and '.join(sorted(_BETAS))}"
            return error_answer(*INVALID, message, request_id)
        return None

    async def _authenticated(self, secret: str | None) -> ApiKey:
        if secret is None:
            raise NotAuthenticated("an API key is needed: send 'authorization: Bearer KEY' or 'x-api-key: KEY'")
        given = secret
        return await self._threads.read(lambda workspace: workspace.keys.authenticate(given))

    def _over_rate(self, client: str, request_id: str) -> JSONResponse | None:
        seconds = self._rates.wait(client)
        if not seconds:
            return None
        self._metrics.refused.labels("rate").inc()
        again = {"retry-after": whole_seconds(seconds)}
        return error_answer(*TOO_MANY, "too many requests in a second", request_id, headers=again)


def _secret(headers: Headers) -> str | None:
    """The key that a request brings: as a bearer token, as newer SDKs do, or in x-api-key."""
    found = {name: value.decode("latin-1") for name, value in headers if name in (b"authorization", b"x-api-key")}
    bearer = _BEARER.fullmatch(found.get(b"authorization", ""))
    return bearer[1] if bearer else found.get(b"x-api-key", "").strip() or None


def _betas(headers: Headers) -> set[str]:
    named = ",".join(value.decode("latin-1") for name, value in headers if name == b"anthropic-beta")
    return {each.strip() for each in named.split(",")}
