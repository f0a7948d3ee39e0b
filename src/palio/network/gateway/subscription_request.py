"""Requests of the CloudEvents Subscriptions API (§3.2): which events are pushed to which sink, with which credential.

A secret is never visible again, is sent to its sink only, and only over TLS.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from palio.errors import InvalidArgument
from palio.events.json import parse_value
from palio.filters.filter import Filter
from palio.network.gateway.cloudevents import STRUCTURED
from palio.network.gateway.webhooks import Sink, SinkUnreachable
from palio.network.security.quotas import BrokerLimits, check_condition
from palio.routing.durable_settings import DurableSettings, OnFull

_AUTHORIZATION: Final = "Authorization"
_Secret: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[\x21-\x7e]+$")]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^:\x00-\x1f\x7f]+$")]


class _Credential(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="credentialtype"):
    def check(self, sink: Sink, headers: Mapping[str, str]) -> None:
        """InvalidArgument for a sink without TLS, or an Authorization header beside the credential."""
        if not sink.is_secure:
            raise InvalidArgument("a credential is sent to https:// sinks alone - at `$.sinkcredential`")
        if any(name.lower() == _AUTHORIZATION.lower() for name in headers):
            raise InvalidArgument(
                f"{_AUTHORIZATION} is either a header or a credential, not both - at `$.sinkcredential`"
            )


class PlainCredential(_Credential, frozen=True, tag="PLAIN"):
    """A user name and a password (RFC 7617)."""

    identifier: _Name
    secret: _Secret

    def headers(self, now: datetime) -> dict[str, str]:
        """The headers that authenticate a request."""
        return {_AUTHORIZATION: f"Basic {b64encode(f'{self.identifier}:{self.secret}'.encode()).decode()}"}

    def redacted(self) -> dict[str, Any]:
        """The credential without its secret."""
        return {"credentialtype": "PLAIN", "identifier": self.identifier, "secret": "…"}


class TokenCredential(_Credential, frozen=True, tag="ACCESSTOKEN"):
    """A bearer token with an expiry (RFC 6750 §2.1)."""

    accesstoken: _Secret
    accesstokenexpiresutc: Annotated[datetime, Meta(tz=True)]
    accesstokentype: Annotated[str, Meta(pattern="^[Bb]earer$")] = "bearer"

    def headers(self, now: datetime) -> dict[str, str]:
        """The headers that authenticate a request; SinkUnreachable after the token's expiry."""
        if now >= self.accesstokenexpiresutc:
            raise SinkUnreachable("the access token for the sink has expired; replace the subscription with a new one")
        return {_AUTHORIZATION: f"Bearer {self.accesstoken}"}

    def redacted(self) -> dict[str, Any]:
        """The credential without its secret."""
        expires = self.accesstokenexpiresutc.isoformat()
        return {"credentialtype": "ACCESSTOKEN", "accesstoken": "…", "accesstokenexpiresutc": expires}


SinkCredential: TypeAlias = PlainCredential | TokenCredential

# Set by the broker itself, or of the connection: with these a subscriber could smuggle in a second request.
_FORBIDDEN_HEADERS: Final = frozenset(
    {"host", "content-length", "content-type", "connection", "transfer-encoding", "upgrade", "te", "trailer", "expect"}
)
_MAX_HEADERS: Final = 32
_MAX_NAME_LENGTH: Final = 200


class ProtocolSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """HTTP options of the requests to a sink."""

    headers: dict[str, str] = {}
    method: Literal["POST"] = "POST"


class SubscriptionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Palio's extension of the API: a condition in any registered language."""

    where: str | None = None
    language: str = "sql"


class DurableLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of a durable subscription, as `DurableSettings` has them."""

    max_events: int | None = None
    max_bytes: int | None = None
    on_full: OnFull | None = None
    expires_after: float | None = None
    max_deliveries: int | None = None

    def to_settings(self) -> DurableSettings:
        """The settings; `InvalidArgument` for one that is out of bounds."""
        return DurableSettings(**msgspec.structs.asdict(self))


class ConditionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The condition of a durable subscription and, unless it is to keep those that it has, its limits."""

    where: str
    language: str = "sql"
    limits: DurableLimits | None = None


class SubscriptionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A subscription as its owner wrote it."""

    sink: str
    protocol: Literal["HTTP"]
    id: str | None = None
    source: str | None = None
    types: tuple[str, ...] | None = None
    config: SubscriptionConfig = SubscriptionConfig()
    filters: tuple[dict[str, Any], ...] = ()
    protocolsettings: ProtocolSettings = ProtocolSettings()
    sinkcredential: SinkCredential | None = None

    def to_filter(self, limits: BrokerLimits) -> Filter:
        """The conjunction of its filters, source, types and condition; ParseError for an unreadable part."""
        expressions: list[dict[str, Any]] = [*self.filters]
        if self.source is not None:
            expressions.append({"exact": {"source": self.source}})
        if self.types:
            expressions.append({"any": [{"exact": {"type": each}} for each in self.types]})
        wanted = Filter.parse(expressions, "cloudevents") if expressions else Filter.everything
        if self.config.where is None:
            return wanted
        return wanted & Filter.parse(check_condition(self.config.where, limits), self.config.language)

    def headers(self) -> dict[str, str]:
        """Headers of a request to the sink; SinkUnreachable where the credential has expired."""
        credential = {} if self.sinkcredential is None else self.sinkcredential.headers(datetime.now(UTC))
        return {**self.protocolsettings.headers, **credential, "Content-Type": STRUCTURED}

    def to_dict(self, id: str) -> dict[str, Any]:
        """The subscription as its owner sees it. Headers may be secrets: only their names are visible."""
        visible: dict[str, Any] = msgspec.to_builtins(self)
        if self.protocolsettings.headers:
            visible["protocolsettings"]["headers"] = dict.fromkeys(self.protocolsettings.headers, "…")
        if self.sinkcredential is not None:
            visible["sinkcredential"] = self.sinkcredential.redacted()
        return {**visible, "id": id}


_Request = TypeVar("_Request", bound=msgspec.Struct)


def read_condition_request(body: bytes, limits: BrokerLimits) -> ConditionRequest:
    """The condition of a durable subscription from its JSON text; InvalidArgument says what is wrong where."""
    return _read(body, limits, ConditionRequest)


def _read(body: bytes, limits: BrokerLimits, kind: type[_Request]) -> _Request:
    # The filters of a request are conditions, too, so the whole is bounded as one.
    check_condition(body.decode("utf-8", "replace"), limits)
    try:
        return msgspec.convert(parse_value(body, limits.event), kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"not a subscription: {error}") from None


def read_subscription_request(body: bytes, limits: BrokerLimits) -> SubscriptionRequest:
    """A subscription from its JSON text; InvalidArgument says what is wrong where."""
    request = _read(body, limits, SubscriptionRequest)
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
    """The name, if a subscription may have it; else InvalidArgument."""
    if not 0 < len(name) <= _MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidArgument(f"a subscription's name has 1 to {_MAX_NAME_LENGTH} characters that can be printed")
    return name


def _check_headers(headers: dict[str, str]) -> None:
    if len(headers) > _MAX_HEADERS:
        raise InvalidArgument(f"a subscription sets at most {_MAX_HEADERS} headers")
    for name, value in headers.items():
        is_token = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if not is_token or name.lower() in _FORBIDDEN_HEADERS or name.lower().startswith("webhook-"):
            raise InvalidArgument(f"the header {name!r:.80} cannot be set - at `$.protocolsettings.headers`")
        if not value.isascii() or not value.isprintable() or value != value.strip() or len(value) > 4_096:
            raise InvalidArgument(f"the header {name!r} is a line of ASCII - at `$.protocolsettings.headers`")
