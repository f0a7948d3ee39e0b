"""Log output in its plain and JSON forms."""

from __future__ import annotations

import json
import signal
import socket
from urllib.parse import urlsplit

from tests.network.processes import Broker, running


def lines(said: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in said.splitlines()]


def test_a_neighbour_of_another_network_is_never_called_linked_and_bad_requests_are_logged_as_all_else() -> None:
    with running(Broker("--http", "127.0.0.1:0")) as one:
        assert isinstance(one, Broker)
        place = urlsplit(one.http)
        with socket.create_connection((place.hostname, place.port)) as stranger:
            stranger.sendall(b"this is no HTTP\r\n\r\n")
            assert b"400" in stranger.recv(1_000)
        with running(Broker("--propagation", "covering", "--connect", one.url, "--http", "off")) as other:
            while "no link" not in (said := other.message()):
                assert "linked" not in said
            other.send(signal.SIGTERM)
            assert all(line["message"] != "linked" for line in lines(other.end()[2]))
        one.send(signal.SIGTERM)
        code, _, said = one.end()
        assert code == 0
        logged = lines(said)
        assert all(line["message"] != "linked" for line in logged)
        assert any("Invalid HTTP request" in str(line["message"]) for line in logged)
