"""What does somebody ask for who wants events pushed? A subscription of the CloudEvents Subscriptions API §3.2."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from palio.errors import InvalidArgument
from palio.events.json import parse_value
from palio.filters.filter import Filter
from palio.network.gateway.credentials import SinkCredential
from palio.network.gateway.sinks import Sink
from palio.network.security.limits import Limits, check_condition

_FORBIDDEN_HEADERS: Final = frozenset(
    {"host", "content-length", "content-type", "connection", "transfer-encoding", "upgrade", "te", "trailer", "expect"}
)
_MOST_HEADERS: Final = 32
_LONGEST_NAME: Final = 200


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a sink wants its requests."""

    headers: dict[str, str] = {}
    method: Literal["POST"] = "POST"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What only Palio has: a condition, in any language it knows."""

    where: str | None = None
    language: str = "sql"


class SubscriptionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A subscription as it was asked for."""

    sink: str
    protocol: Literal["HTTP"]
    id: str | None = None
    source: str | None = None
    types: tuple[str, ...] | None = None
    config: Config = Config()
    filters: tuple[dict[str, Any], ...] = ()
    protocolsettings: HttpSettings = HttpSettings()
    sinkcredential: SinkCredential | None = None

    def wanted(self, limits: Limits) -> Filter:
        """All that it asks of an event; ParseError where a part of it cannot be read."""
        expressions: list[dict[str, Any]] = [*self.filters]
        if self.source is not None:
            expressions.append({"exact": {"source": self.source}})
        if self.types:
            expressions.append({"any": [{"exact": {"type": each}} for each in self.types]})
        wanted = Filter.parse(expressions, "cloudevents") if expressions else Filter.everything
        if self.config.where is None:
            return wanted
        return wanted & Filter.parse(check_condition(self.config.where, limits), self.config.language)

    def to_dict(self, id: str) -> dict[str, Any]:
        """The subscription as its owner sees it. Headers may be secrets: only names are shown."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        if self.protocolsettings.headers:
            shown["protocolsettings"]["headers"] = dict.fromkeys(self.protocolsettings.headers, "…")
        if self.sinkcredential is not None:
            shown["sinkcredential"] = self.sinkcredential.shown()
        return {**shown, "id": id}


def read_request(body: bytes, limits: Limits) -> SubscriptionRequest:
    """A subscription from the JSON text of it; InvalidArgument says what is wrong where."""
    check_condition(body.decode("utf-8", "replace"), limits)
    try:
        request = msgspec.convert(parse_value(body, limits.event), SubscriptionRequest)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"not a subscription: {error}") from None
    if request.types == ():
        raise InvalidArgument("not a subscription: types names at least one, or is left out - at `$.types`")
    if request.id is not None:
        check_subscription_name(request.id)
    sink = Sink.parse(request.sink)
    if request.sinkcredential is not None:
        request.sinkcredential.check(sink, request.protocolsettings.headers)
    _check_headers(request.protocolsettings.headers)
    return request


def check_subscription_name(name: str) -> str:
    """A name that a subscription may have."""
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise InvalidArgument(f"a subscription's name has 1 to {_LONGEST_NAME} characters that can be printed")
    return name


def _check_headers(headers: dict[str, str]) -> None:
    if len(headers) > _MOST_HEADERS:
        raise InvalidArgument(f"a subscription sets at most {_MOST_HEADERS} headers")
    for name, value in headers.items():
        is_token = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if not is_token or name.lower() in _FORBIDDEN_HEADERS or name.lower().startswith("webhook-"):
            raise InvalidArgument(f"the header {name!r:.80} cannot be set - at `$.protocolsettings.headers`")
        if not value.isascii() or not value.isprintable() or value != value.strip() or len(value) > 4_096:
            raise InvalidArgument(f"the header {name!r} is a line of ASCII - at `$.protocolsettings.headers`")
