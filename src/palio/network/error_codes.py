"""Error table: every error class with its wire code, its HTTP status and the broker's refusal kind.

The binary protocol, the gateway and the client all read this one table. An error is described by the first row whose
class it is an instance of, so that subclasses stand before their bases; errors without a row are `refused` and 400.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from palio.errors import (
    AuthenticationFailed,
    ConfirmTimeout,
    ConnectionFailed,
    DuplicateSubscription,
    DurableInUse,
    HomeAway,
    LimitReached,
    LivesElsewhere,
    NotAdvertised,
    NotPermitted,
    PalioError,
    Refused,
    StoreError,
    StoreFull,
    UnknownSubscription,
    WireError,
)
from palio.network.protocol import ErrorCode
from palio.routing.client_messages import Refusal


class ErrorRow(NamedTuple):
    """One error class in all three vocabularies."""

    error: type[PalioError]
    code: ErrorCode
    status: int
    refusal: Refusal = "refused"


_TABLE: Final = (
    ErrorRow(AuthenticationFailed, "not authenticated", 401),
    ErrorRow(NotPermitted, "not permitted", 403),
    ErrorRow(NotAdvertised, "not advertised", 409, "unadvertised"),
    ErrorRow(LimitReached, "limit", 429),
    ErrorRow(UnknownSubscription, "refused", 404),
    ErrorRow(DuplicateSubscription, "refused", 409),
    ErrorRow(DurableInUse, "in use", 409),
    ErrorRow(LivesElsewhere, "refused", 421),  # the binary protocol has the message `Elsewhere` for it
    ErrorRow(HomeAway, "away", 503),
    ErrorRow(ConfirmTimeout, "timeout", 504),
    ErrorRow(StoreFull, "full", 507, "full"),
    ErrorRow(StoreError, "broken", 507, "broken"),
    ErrorRow(ConnectionFailed, "unavailable", 503),  # such as a broker that drains
    ErrorRow(WireError, "wire", 400),
    ErrorRow(Refused, "refused", 409),
)
_OTHERS: Final = ErrorRow(PalioError, "refused", 400)
_LIMIT_STATUS: Final = {
    "frame_bytes": 413,
    "batch_events": 413,
    "burst_events": 413,
    "event_bytes": 413,
    "filter_bytes": 413,
    "filter_conjunctions": 422,
    "connections": 503,
}
_ROW_OF_TYPE: Final[dict[type[PalioError], ErrorRow]] = {}  # found so far: a flood of errors must stay cheap
# Several classes share `refused`; a client sees all of them as `Refused`.
_ERROR_OF_CODE: Final[dict[ErrorCode, type[PalioError]]] = {
    row.code: row.error for row in _TABLE if row.code != "refused"
}
_ERROR_OF_REFUSAL: Final[dict[Refusal, type[PalioError]]] = {
    row.refusal: row.error for row in _TABLE if row.refusal != "refused"
}


def _row_of(error: PalioError) -> ErrorRow:
    row = _ROW_OF_TYPE.get(type(error))
    if row is None:
        row = next((each for each in _TABLE if isinstance(error, each.error)), _OTHERS)
        _ROW_OF_TYPE[type(error)] = row
    return row


def code_of(error: PalioError) -> ErrorCode:
    """The wire code of an error."""
    return _row_of(error).code


def http_status(error: PalioError) -> int:
    """The HTTP status of an error; that of a limit depends on which limit it is."""
    if isinstance(error, LimitReached):
        return _LIMIT_STATUS.get(error.limit, 429)
    return _row_of(error).status


def refusal_of(error: PalioError) -> Refusal:
    """The kind of refusal by which the broker reports an error to a client."""
    return _row_of(error).refusal


def error_of_code(code: ErrorCode, reason: str) -> PalioError:
    """The error that a wire code stands for, with the message that the broker made of it."""
    return _with_message(_ERROR_OF_CODE.get(code, Refused), reason)


def error_of_refusal(kind: Refusal, reason: str) -> PalioError:
    """The error that a refusal of the broker stands for."""
    error = _ERROR_OF_REFUSAL.get(kind, Refused)
    # A store error names a path, and which directory the broker uses is not for its clients.
    return error("the broker", reason) if issubclass(error, StoreError) else error(reason)


def _with_message(error_type: type[PalioError], reason: str) -> PalioError:
    """An error whose fields stayed at the broker: only its message crossed the wire."""
    error = error_type.__new__(error_type)
    error.args = (reason,)
    error.reason = reason  # type: ignore[attr-defined]
    return error
