"""How does the broker prove to a sink who it is? By what its subscriber gave it (CloudEvents Subscriptions API §3.2).

A secret that was given is never shown again, goes to its sink alone, and only where nobody can read along.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from palio.errors import InvalidArgument
from palio.network.gateway.sinks import Sink, SinkUnreachable

_HEADER: Final = "Authorization"
_Secret: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[\x21-\x7e]+$")]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^:\x00-\x1f\x7f]+$")]


class _Credential(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="credentialtype"):
    def check(self, sink: Sink, headers: Mapping[str, str]) -> None:
        """InvalidArgument where the secret could be read on its way, or is given twice."""
        if not sink.is_secure:
            raise InvalidArgument("a credential is sent to https:// sinks alone - at `$.sinkcredential`")
        if any(name.lower() == _HEADER.lower() for name in headers):
            raise InvalidArgument(f"{_HEADER} is either a header or a credential, not both - at `$.sinkcredential`")


class PlainCredential(_Credential, frozen=True, tag="PLAIN"):
    """A name and a password (RFC 7617)."""

    identifier: _Name
    secret: _Secret

    def headers(self, now: datetime) -> dict[str, str]:
        """What a request has to have."""
        return {_HEADER: f"Basic {b64encode(f'{self.identifier}:{self.secret}'.encode()).decode()}"}

    def shown(self) -> dict[str, Any]:
        """What anybody may see of it."""
        return {"credentialtype": "PLAIN", "identifier": self.identifier, "secret": "…"}


class TokenCredential(_Credential, frozen=True, tag="ACCESSTOKEN"):
    """A token that whoever has it may use, until a time (RFC 6750 §2.1)."""

    accesstoken: _Secret
    accesstokenexpiresutc: Annotated[datetime, Meta(tz=True)]
    accesstokentype: Annotated[str, Meta(pattern="^[Bb]earer$")] = "bearer"

    def headers(self, now: datetime) -> dict[str, str]:
        """What a request has to have; SinkUnreachable after the token's time."""
        if now >= self.accesstokenexpiresutc:
            raise SinkUnreachable("the access token for the sink has expired; replace the subscription with a new one")
        return {_HEADER: f"Bearer {self.accesstoken}"}

    def shown(self) -> dict[str, Any]:
        """What anybody may see of it."""
        expires = self.accesstokenexpiresutc.isoformat()
        return {"credentialtype": "ACCESSTOKEN", "accesstoken": "…", "accesstokenexpiresutc": expires}


SinkCredential: TypeAlias = PlainCredential | TokenCredential
