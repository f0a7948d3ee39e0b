"""Attacks over HTTP, WebSocket and server-sent events: slow and long requests, frames, origins, tokens, and sinks."""

from __future__ import annotations

import asyncio
import base64
import json
import os

from tests.network.hostile.arena import Arena, Wire, answer_of, attack

_IN_TIME = "a request arrives in time, or its connection is closed"
_RESET = b""  # who sends on after the end may lose the answer to a reset
_NAMED = "a refusal names what was wrong"


async def drip(wire: Wire, byte: bytes = b"x") -> bytes:
    """Send a byte now and then until the broker answers or closes; what it answered."""
    answered = asyncio.create_task(wire.reader.read())
    while not answered.done():
        wire.writer.write(byte)
        await asyncio.sleep(0.02)
    return b"" if answered.exception() else answered.result()


@attack(_IN_TIME)
async def head_dripped_a_byte_at_a_time(arena: Arena) -> None:
    wire = await arena.raw(http=True)
    wire.writer.write(b"GET /health HTTP/1.1\r\nX: ")
    await drip(wire)


@attack(_IN_TIME)
async def body_dripped_a_byte_at_a_time(arena: Arena) -> None:
    wire = await arena.raw(http=True)
    wire.writer.write(arena.head("POST /events", "Content-Length: 100000", "Content-Type: application/json"))
    assert (await drip(wire, b" "))[9:12] in (b"408", _RESET)


@attack("the body of a request that is answered already must come to its end too")
async def body_dripped_after_the_answer(arena: Arena) -> None:
    wire = await arena.raw(http=True)
    wire.writer.write(arena.head("POST /nowhere", "Content-Length: 100000"))
    assert (await drip(wire))[9:12] in (b"404", _RESET)


@attack(_IN_TIME)
async def chunked_body_without_end(arena: Arena) -> None:
    wire = await arena.raw(http=True)
    wire.writer.write(arena.head("POST /events", "Transfer-Encoding: chunked"))
    assert (await drip(wire, b"1\r\nx\r\n"))[9:12] in (b"408", _RESET)


@attack("a request has a bounded length")
async def body_of_a_gigabyte(arena: Arena) -> None:
    wire = await arena.raw(http=True)
    wire.writer.write(arena.head("POST /events", "Content-Length: 1000000000"))
    answered = asyncio.create_task(answer_of(wire))
    while not answered.done():
        wire.writer.write(b"x" * 65_536)
        await asyncio.sleep(0)
    assert answered.result()[9:12] in (b"413", b"")


@attack("headers are bounded in number")
async def thousands_of_headers(arena: Arena) -> None:
    assert b" 431 " in await arena.ask(arena.head("GET /health", *[f"X{n}: 1" for n in range(2_000)]))


@attack("headers are bounded in size")
async def header_of_a_megabyte(arena: Arena) -> None:
    wire = await arena.raw(http=True)
    wire.writer.write(b"GET /health HTTP/1.1\r\nX: " + b"x" * 1_000_000)
    assert (await answer_of(wire))[9:12] in (b"400", b"431", b"")


@attack(_NAMED)
async def compressed_bomb(arena: Arena) -> None:
    request = arena.head("POST /events", "Content-Encoding: gzip", "Content-Length: 2") + b"xx"
    assert b" 415 " in await arena.ask(request)


@attack("a batch has a bounded number of events")
async def batch_of_many_events(arena: Arena) -> None:
    lines = b'{"eve": 1}\n' * 5_000
    head = arena.head("POST /events", "Content-Type: application/x-ndjson", f"Content-Length: {len(lines)}")
    assert b" 413 " in await arena.ask(head + lines)


@attack("nesting of JSON is bounded")
async def deeply_nested_json(arena: Arena) -> None:
    text = b'{"eve": ' * 50_000
    head = arena.head("POST /events", "Content-Type: application/json", f"Content-Length: {len(text)}")
    assert b" 400 " in await arena.ask(head + text)


@attack("a smuggled second request is refused")
async def two_lengths_in_one_request(arena: Arena) -> None:
    request = arena.head("POST /events", "Content-Length: 5", "Transfer-Encoding: chunked", "Content-Length: 6")
    assert b" 400 " in await arena.ask(request + b"0\r\n\r\nGET /status HTTP/1.1\r\n\r\n")


@attack("a page of another origin uses no broker")
async def page_of_another_origin(arena: Arena) -> None:
    for line in ("GET /events?where=true", "POST /events", "DELETE /durable/x", "GET /status"):
        assert b" 403 " in await arena.ask(arena.head(line, "Origin: https://evil.example", "Content-Length: 0"))
        assert b" 403 " in await arena.ask(arena.head(line, "Sec-Fetch-Site: cross-site", "Content-Length: 0"))


@attack("a token in a URL is refused, where logs would keep it")
async def token_in_a_url(arena: Arena) -> None:
    assert b" 400 " in await arena.ask(arena.head(f"GET /events?token={arena.eve}"))


@attack("without credentials nothing is told")
async def requests_without_a_token(arena: Arena) -> None:
    for path in ("/events", "/status", "/metrics", "/subscriptions", "/dead-letters"):
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        assert b" 401 " in await arena.ask(request)


@attack("status and metrics are for those who may see them")
async def metrics_asked_for_by_anyone(arena: Arena) -> None:
    for path in ("/status", "/metrics", "/dead-letters"):
        assert b" 403 " in await arena.ask(arena.head(f"GET {path}"))


@attack("a GET changes no condition of a durable subscription")
async def durable_condition_changed_by_a_link(arena: Arena) -> None:
    assert (await arena.ask(arena.head("GET /events?durable=d&where=true")))[9:10] == b"4"


@attack("an acknowledgement is for one's own durable subscription")
async def acknowledgement_of_a_foreign_durable(arena: Arena) -> None:
    async with arena.publisher.subscribe("honest < 0", durable="mine"):
        pass
    await arena.publisher.publish({"honest": -1}, confirm=True)
    request = arena.head("POST /durable/mine/acknowledge?through=999999", "Content-Length: 0")
    assert b" 404 " in await arena.ask(request)
    async with arena.publisher.subscribe("honest < 0", durable="mine") as events:
        assert (await anext(events)).get("honest") == -1


@attack("pipelined requests are answered one by one")
async def thousands_of_pipelined_requests(arena: Arena) -> None:
    wire = await arena.raw(http=True)
    wire.writer.write(arena.head("GET /health") * 2_000)
    assert b" 200 " in await answer_of(wire)


@attack("a reader of a stream that reads nothing is disconnected")
async def stream_that_nobody_reads(arena: Arena) -> None:
    wire = await arena.raw(http=True)
    wire.writer.write(arena.head("GET /events?where=eve%20IS%20NOT%20NULL"))
    assert b" 200 " in await answer_of(wire)
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    event = json.dumps({"eve": "x" * 200_000}).encode()
    head = arena.head("POST /events", "Content-Type: application/json", f"Content-Length: {len(event)}")
    while any(each.app == "sse" for each in arena.server.sessions):
        await arena.ask(head + event)


@attack("a sink is no address of this machine or network")
async def sinks_inside(arena: Arena) -> None:
    for sink in (
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://169.254.169.254/",
        "http://[::ffff:10.0.0.1]/",
        "ftp://x/",
    ):
        text = json.dumps({"sink": sink, "protocol": "HTTP", "filters": [{"sql": "true"}]}).encode()
        head = arena.head("POST /subscriptions", "Content-Type: application/json", f"Content-Length: {len(text)}")
        assert (await arena.ask(head + text))[9:10] == b"4", sink


@attack("a subscription to push is bounded as others are")
async def hostile_regex_for_a_sink(arena: Arena) -> None:
    filters = [{"sql": "t RLIKE '(a|b)*a(a|b){900}c'"}]
    text = json.dumps({"sink": "https://sink.example/", "protocol": "HTTP", "filters": filters}).encode()
    head = arena.head("POST /subscriptions", "Content-Type: application/json", f"Content-Length: {len(text)}")
    assert (await arena.ask(head + text))[9:10] == b"4"


async def websocket(arena: Arena, *, authenticated: bool = True) -> Wire:
    wire = await arena.raw(http=True)
    key = base64.b64encode(os.urandom(16)).decode()
    headers = ["Host: localhost", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}"]
    headers += ["Sec-WebSocket-Version: 13", *([f"Authorization: Bearer {arena.eve}"] if authenticated else [])]
    wire.writer.write("\r\n".join(["GET /ws HTTP/1.1", *headers, "", ""]).encode())
    assert b" 101 " in await answer_of(wire)
    return wire


def frame(opcode: int, data: bytes = b"", *, final: bool = True) -> bytes:
    """A frame of a client, masked with zeros."""
    head = bytes([opcode | (0x80 if final else 0)])
    size = len(data)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big") if size < 65_536 else None
    return head + (length or b"\xff" + size.to_bytes(8, "big")) + bytes(4) + data


async def closed(wire: Wire) -> bool:
    """Wait until the broker closes a connection."""
    try:
        while await wire.reader.read(65_536):
            pass
    except ConnectionError:
        pass
    return True


@attack("who opens a WebSocket and stays silent is disconnected")
async def silent_websocket(arena: Arena) -> None:
    assert await closed(await websocket(arena, authenticated=False))


@attack("a message has a bounded length")
async def websocket_message_of_a_terabyte(arena: Arena) -> None:
    wire = await websocket(arena)
    wire.writer.write(b"\x81\xff" + (2**40).to_bytes(8, "big") + bytes(4) + b"x" * 100)
    assert await closed(wire)


@attack("an unauthenticated caller sends no long message")
async def long_first_websocket_message(arena: Arena) -> None:
    wire = await websocket(arena, authenticated=False)
    wire.writer.write(frame(1, b"x" * 100_000))
    assert await closed(wire)


@attack("fragments of a message are bounded in number")
async def websocket_message_of_many_fragments(arena: Arena) -> None:
    wire = await websocket(arena)
    wire.writer.write(frame(1, b"x", final=False) + frame(0, b"x", final=False) * 50_000)
    assert await closed(wire)


@attack("a frame that is not masked ends its connection")
async def unmasked_websocket_frame(arena: Arena) -> None:
    wire = await websocket(arena)
    wire.writer.write(b"\x81\x02{}")
    assert await closed(wire)


@attack("who pings and does not read is disconnected")
async def websocket_pings_that_nobody_reads(arena: Arena) -> None:
    wire = await websocket(arena)
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    pings = frame(9, b"x" * 125) * 1_000
    while any(each.app == "websocket" for each in arena.server.sessions):
        if not wire.writer.transport.is_closing():
            wire.writer.write(pings)
        await asyncio.sleep(0.001)


@attack(_NAMED)
async def websocket_messages_that_are_none(arena: Arena) -> None:
    wire = await websocket(arena)
    for text in (b"[", b"{}", b'{"type": "nothing"}', b'{"type": "subscribe"}', b"[" * 10_000):
        wire.writer.write(frame(1, text))
    said = b""
    while said.count(b'"type": "problem"') < 5:
        part = await wire.reader.read(65_536)
        assert part
        said += part
