"""How does a broker that dials get a key for its datagrams? It asks over TLS, where both ends prove who they are."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable

from palio.errors import Refused
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.framing import FrameReader, length_of
from palio.network.links.connector import PATIENCE
from palio.network.protocol import AskKey, BrokerHello, Goodbye, KeyGiven
from palio.network.security.sealing import SECRET_BYTES, Key

_LONGEST_ANSWER = 64 * 1024


async def agree_on_key(at: Address, token: str, tls: Callable[[], ssl.SSLContext], replaces: bytes) -> Key:
    """A new key from the broker that listens there, in the place of one that it gave before, if any.

    `OSError`, `TimeoutError` and `PalioError` say why there is none.
    """
    asked = AskKey(secrets.token_bytes(SECRET_BYTES), replaces)
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection(at.host, at.port, ssl=tls())
        try:
            for each in (BrokerHello(protocol.VERSION, token), asked):
                frame = protocol.encode(each)
                writer.write(length_of(len(frame)) + frame)
            given = await _answer(reader)
        finally:
            writer.close()
    return Key(given.id, given.secret, asked.secret, given.seconds, given.datagrams)


async def _answer(reader: asyncio.StreamReader) -> KeyGiven:
    frames = FrameReader(_LONGEST_ANSWER)
    while data := await reader.read(_LONGEST_ANSWER):
        for frame in frames.feed(data):
            said = protocol.decode_key_answer(frame)
            if type(said) is KeyGiven:
                return said
            if type(said) is Goodbye:
                raise Refused(f"{said.reason} (said by the other end)")
    raise Refused("the other end gave no key for datagrams")
