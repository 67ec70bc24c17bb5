"""What becomes of an error in an answer: the one table of this adapter (a test keeps it exhaustive)."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match

from memfs.model import errors

log = logging.getLogger(__name__)

INVALID = (400, "invalid_request_error")
UNAUTHENTICATED = (401, "authentication_error")
FORBIDDEN = (403, "permission_error")
MISSING = (404, "not_found_error")
CONFLICT = (409, "conflict_error")
TOO_LARGE = (413, "request_too_large")
TOO_MANY = (429, "rate_limit_error")
FAILED = (500, "api_error")
UNAVAILABLE = (503, "overloaded_error")

ANSWERS: dict[type[errors.MemfsError], tuple[int, str]] = {
    errors.MemfsError: FAILED,
    errors.InvalidRequest: INVALID,
    errors.InvalidPath: INVALID,
    errors.NameNotUtf8: INVALID,
    errors.PathTooLong: INVALID,
    errors.ContentNotText: INVALID,
    errors.ContentTooLarge: INVALID,
    errors.AmbiguousName: INVALID,
    errors.TooManyStores: INVALID,
    errors.VersionInUse: INVALID,
    errors.StoreArchived: INVALID,
    errors.SessionArchived: INVALID,
    errors.WriteRefused: INVALID,
    errors.NotAuthenticated: UNAUTHENTICATED,
    errors.NotPermitted: FORBIDDEN,
    errors.ReadOnly: FORBIDDEN,
    errors.NotFound: MISSING,
    errors.PathConflict: (409, "memory_path_conflict_error"),
    errors.PreconditionFailed: (409, "memory_precondition_failed_error"),
    errors.MemoryChanged: CONFLICT,
    errors.StoreFull: CONFLICT,
    errors.HistoryGone: CONFLICT,
    errors.Busy: UNAVAILABLE,
    errors.StorageFailed: FAILED,
    errors.StorageFull: FAILED,
    errors.StorageReadOnly: FAILED,
    errors.UnusableDatabase: FAILED,
    errors.MountFailed: FAILED,
}
"""Status and ``error.type`` (CONTRACT.md 2)."""

HIDDEN = "the memory cannot be reached now; the server's log says why"
"""Instead of a message that would name files of the server."""

RETRY_SECONDS = "1"

MAX_FINDINGS = 20
"""What is wrong with a request is told so far."""


def _named(error: errors.MemfsError) -> type[errors.MemfsError]:
    return next(cls for cls in type(error).__mro__ if cls in ANSWERS)


def answer(error: errors.MemfsError, request_id: str) -> JSONResponse:
    """The answer to a request that ended in one of our errors."""
    status, kind = ANSWERS[_named(error)]
    if status == FAILED[0]:
        log.error("a request failed: %s request=%s", error, request_id)
    details = {}
    if isinstance(error, errors.PathConflict):
        details = {
            "conflicting_memory_id": error.conflicting_memory_id,
            "conflicting_path": error.conflicting_path,
        }
    message = "the database is busy; try again" if isinstance(error, errors.Busy) else str(error)
    return error_answer(status, kind, HIDDEN if status == FAILED[0] else message, request_id, details)


def error_answer(
    status: int,
    kind: str,
    message: str,
    request_id: str,
    details: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """An error object with its headers."""
    sent = dict(headers or {})
    if status == UNAUTHENTICATED[0]:
        sent["www-authenticate"] = "Bearer"
    if status == CONFLICT[0]:
        sent["x-should-retry"] = "false"  # the SDKs would repeat it three times, to no avail
    if status == UNAVAILABLE[0]:
        sent.setdefault("retry-after", RETRY_SECONDS)
    # What a client sent may be quoted in it, and JSON can carry what UTF-8 cannot.
    text = message.encode(errors="backslashreplace").decode()
    error = {"type": kind, "message": text, **(details or {})}
    return JSONResponse({"type": "error", "error": error, "request_id": request_id}, status, sent)


def request_id_of(request: Request) -> str:
    """The id that the request got (see ``memfs.api.front``)."""
    return str(request.scope["memfs.request_id"])


async def on_memfs_error(request: Request, error: Exception) -> JSONResponse:
    """For the framework: one of our errors."""
    assert isinstance(error, errors.MemfsError)
    return answer(error, request_id_of(request))


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    """For the framework: a request that has not the form that it must have."""
    assert isinstance(error, RequestValidationError)
    return error_answer(*INVALID, described(error.errors()), request_id_of(request))


_KINDS = {
    401: UNAUTHENTICATED[1],
    403: FORBIDDEN[1],
    404: MISSING[1],
    409: CONFLICT[1],
    413: TOO_LARGE[1],
    429: TOO_MANY[1],
    503: UNAVAILABLE[1],
}


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    """For the framework: what it refuses itself, such as a path or a method that there is not."""
    assert isinstance(error, HTTPException)
    kind = _KINDS.get(error.status_code, INVALID[1] if error.status_code < 500 else FAILED[1])
    message = {
        404: f"there is nothing at {request.url.path}",
        405: f"{request.method} cannot be used here",
        # The framework's word for a body that it cannot decode.
        400: "the body is no JSON in UTF-8",
    }.get(error.status_code, str(error.detail))
    headers = {"allow": _allowed(request)} if error.status_code == 405 else error.headers
    return error_answer(error.status_code, kind, message, request_id_of(request), headers=headers)


def _allowed(request: Request) -> str:
    """The methods that there are at a request's path. The framework names those of the first route alone."""
    routes = request.app.router.routes
    return ", ".join(
        method
        for method in ("DELETE", "GET", "HEAD", "PATCH", "POST")
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    )


async def on_fault(request: Request, _error: Exception) -> JSONResponse:
    """For the framework: an error that nobody foresaw. It goes on to whoever logs it."""
    return error_answer(*FAILED, "a fault of the server, which its log describes", request_id_of(request))


def described(found: Sequence[Any]) -> str:
    """What is wrong with a request, by the framework's findings: each with the place of it, never with its value."""
    sentences = dict.fromkeys(_sentence(each) for each in found[:MAX_FINDINGS])
    return "; ".join([*sentences, *(["and more"] if len(found) > MAX_FINDINGS else [])])


def _sentence(finding: Mapping[str, Any]) -> str:
    where, *rest = finding["loc"]
    place = ""
    for part in rest:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    kind = finding["type"]
    if kind == "json_invalid":
        return f"the body is no JSON, at character {rest[0] if rest else 0}"
    if where == "body" and not rest:
        return "the body must be a JSON object, with the header content-type: application/json"
    if kind == "missing":
        return f"{place} is required"
    if kind == "extra_forbidden":
        return f"{place} is no field of this request"
    message = str(finding["msg"])
    return f"{place}: {message[0].lower()}{message[1:]}"
