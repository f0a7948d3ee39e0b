"""Problem documents (RFC 9457): the HTTP status and the JSON object that report an error to a caller."""

from __future__ import annotations

import re
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from palio.errors import (
    EventError,
    LimitReached,
    LivesElsewhere,
    PalioError,
    ParseError,
    SubscriptionError,
)
from palio.network.error_codes import http_status
from palio.network.gateway.webhooks import SinkRefused

_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class HttpProblem(PalioError):
    """A fault of the HTTP request itself; `status` is its HTTP status code."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers or {}
        super().__init__(reason)


def status_of(error: PalioError) -> int:
    """The HTTP status code of an error."""
    match error:
        case HttpProblem():
            return error.status
        case SinkRefused():
            return 422
    return http_status(error)


def problem_document(error: PalioError) -> dict[str, Any]:
    """The problem document of an error, with its typed fields as extension members."""
    words = _WORD_BOUNDARY.sub(" ", type(error).__name__).lower()
    problem: dict[str, Any] = {
        "type": f"urn:palio:problem:{words.replace(' ', '-')}",
        "title": words,
        "status": status_of(error),
        "detail": getattr(error, "reason", None) if isinstance(error, ParseError) else str(error),
    }
    match error:
        case ParseError():
            problem |= {"position": error.position, "line": error.line, "column": error.column}
            if error.hint:
                problem["hint"] = error.hint
        case EventError(path=str() as path):
            problem["path"] = path
        case LimitReached():
            problem |= {"limit": error.limit, "most": error.most}
        case LivesElsewhere():
            homes = [{"broker": number, "address": address} for number, address in error.homes]
            problem |= {"subscription": error.subscription, "homes": homes}
        case SubscriptionError():
            problem["subscription"] = error.subscription
    return problem


def problem_response(error: PalioError) -> Response:
    """The HTTP response of an error."""
    problem = problem_document(error)
    headers = dict(error.headers) if isinstance(error, HttpProblem) else {}
    if problem["status"] == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="palio"'
    if problem["status"] in (429, 503):
        headers.setdefault("Retry-After", "1")
    return JSONResponse(problem, problem["status"], headers, media_type="application/problem+json")
