"""Does a sink want events, and what does its answer mean? The rules of HTTP 1.1 Web Hooks for Event Delivery (CNCF).

§4: before anything is sent, the sink is asked by OPTIONS whether it takes events from this origin. §2.2: what the
status of an answer says about the next attempt.
"""

from __future__ import annotations

import ssl
from typing import Final, Literal, TypeAlias

from palio.network.gateway.sinks import Reach, Reply, Sink, SinkRefused, exchange

Verdict: TypeAlias = Literal["done", "again", "never", "gone"]
_LONGEST_ASKED: Final = 3_600.0


def judge(reply: Reply) -> Verdict:
    """What is to become of an event that was answered so."""
    status = reply.status
    if 200 <= status < 300:
        return "done"
    if status == 410:
        return "gone"
    if 300 <= status < 400 or status in (413, 414, 415):
        return "never"  # a redirect is not followed, and what cannot be read will not be later
    return "again"


def asked_to_wait(reply: Reply) -> float:
    """Seconds that a sink asks for before the next attempt; 0 where it asks for none, or for a date."""
    text = reply.headers.get("retry-after", "").strip()
    return min(float(text), _LONGEST_ASKED) if text.isascii() and text.isdigit() else 0.0


async def handshake(sink: Sink, origin: str, reach: Reach, seconds: float, tls: ssl.SSLContext | None) -> float | None:
    """Ask a sink whether it takes events from here; how many a minute it takes, where it says so.

    SinkRefused where it does not agree.
    """
    reply = await exchange(sink, "OPTIONS", {"WebHook-Request-Origin": origin}, b"", reach, seconds=seconds, tls=tls)
    allowed = reply.headers.get("webhook-allowed-origin", "")
    if not 200 <= reply.status < 300 or allowed.strip().lower() not in ("*", origin.lower()):
        raise SinkRefused(
            f"{sink.authority} did not agree to get events: asked by OPTIONS with WebHook-Request-Origin: {origin}, "
            f"it answered {reply.status} and WebHook-Allowed-Origin: {allowed[:80] or 'none'}"
        )
    rate = reply.headers.get("webhook-allowed-rate", "*").strip()
    return float(rate) if rate.isascii() and rate.isdigit() and int(rate) > 0 else None
