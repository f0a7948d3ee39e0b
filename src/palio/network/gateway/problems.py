"""What is a caller told when something is wrong? RFC 9457: a status, a name, a sentence, and what it is about."""

from __future__ import annotations

import re
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from palio.errors import (
    AuthenticationFailed,
    DuplicateSubscription,
    EventError,
    HomeAway,
    LimitReached,
    LivesElsewhere,
    NotAdvertised,
    NotPermitted,
    PalioError,
    ParseError,
    Refused,
    StoreError,
    SubscriptionError,
    UnknownSubscription,
)
from palio.network.gateway.sinks import SinkRefused

_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class HttpProblem(PalioError):
    """Something that is wrong with a request as such; `status` is HTTP's number for it."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers or {}
        super().__init__(reason)


_STATUS: Final[tuple[tuple[type[PalioError], int], ...]] = (
    (AuthenticationFailed, 401),
    (NotPermitted, 403),
    (NotAdvertised, 409),
    (UnknownSubscription, 404),
    (DuplicateSubscription, 409),
    (LivesElsewhere, 421),
    (HomeAway, 503),
    (Refused, 409),
    (StoreError, 507),
    (SinkRefused, 422),
)
_LIMIT_STATUS: Final = {
    "frame_bytes": 413,
    "batch_events": 413,
    "burst_events": 413,
    "event_bytes": 413,
    "filter_bytes": 413,
    "filter_conjunctions": 422,
    "connections": 503,
}


def status_of(error: PalioError) -> int:
    """HTTP's number for an error."""
    if isinstance(error, HttpProblem):
        return error.status
    if isinstance(error, LimitReached):
        return _LIMIT_STATUS.get(error.limit, 429)
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 400)


def describe(error: PalioError) -> dict[str, Any]:
    """An error as a problem document."""
    words = _WORDS.sub(" ", type(error).__name__).lower()
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


def respond(error: PalioError) -> Response:
    """The response that tells a caller of an error."""
    problem = describe(error)
    headers = dict(error.headers) if isinstance(error, HttpProblem) else {}
    if problem["status"] == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="palio"'
    if problem["status"] in (429, 503):
        headers.setdefault("Retry-After", "1")
    return JSONResponse(problem, problem["status"], headers, media_type="application/problem+json")
