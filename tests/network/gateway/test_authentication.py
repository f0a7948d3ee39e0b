"""Authentication and grants over HTTP: by token, by origin, and after a grant is withdrawn."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from palio import Filter, InvalidArgument
from palio.network.gateway.settings import HttpSettings
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from palio.network.security.tls import ServerTls
from tests.network.certificates import Authority
from tests.network.gateway.serving import base, bearing, client_of, listening, serving
from tests.network.processes import Broker
from tests.network.running import run

DESK = Principal("desk", may_subscribe=Filter.parse("symbol = 'ACME'"), may_publish=Filter.parse("price > 0"))
NEEDS_A_TOKEN = [
    ("GET", "/events"),
    ("POST", "/events"),
    ("POST", "/tickets"),
    ("GET", "/subscriptions"),
    ("POST", "/subscriptions"),
    ("GET", "/subscriptions/1"),
    ("PUT", "/subscriptions/1"),
    ("DELETE", "/subscriptions/1"),
    ("GET", "/status"),
    ("GET", "/metrics"),
    ("GET", "/dead-letters"),
]
NEEDS_A_GRANT = ["/status", "/metrics", "/dead-letters"]


def test_strangers_get_nothing_but_what_everyone_may_have(tmp_path: Path) -> None:
    Tokens(tmp_path).add(unrestricted("root"))

    async def test() -> None:
        async with serving(data=tmp_path) as (_, client):
            for headers in ({}, bearing("palio_00000000_wrong"), {"Authorization": "Basic cm9vdDpyb290"}):
                for method, path in NEEDS_A_TOKEN:
                    answer = await client.request(method, path, headers=headers)
                    assert answer.status_code == 401, (method, path)
                    assert answer.headers["www-authenticate"].startswith("Bearer")
                    assert "root" not in answer.text
            for path in ("/health", "/ready", "/", "/docs", "/openapi.json"):
                assert (await client.get(path)).status_code == 200

    run(test)


def test_status_metrics_and_dead_letters_need_a_grant(tmp_path: Path) -> None:
    plain = Tokens(tmp_path).add(DESK)
    seeing = Tokens(tmp_path).add(Principal("watch", may_see_status=True))

    async def test() -> None:
        async with serving(data=tmp_path) as (_, client):
            for path in NEEDS_A_GRANT:
                assert (await client.get(path, headers=bearing(plain))).status_code == 403
                assert (await client.get(path, headers=bearing(seeing))).status_code == 200
            metrics = (await client.get("/metrics", headers=bearing(seeing))).text
            assert "# TYPE palio_clients gauge\npalio_clients " in metrics

    run(test)


def test_a_stream_has_what_was_asked_for_and_granted_and_a_publisher_says_what_it_may(tmp_path: Path) -> None:
    root = Tokens(tmp_path).add(unrestricted("root"))
    desk = Tokens(tmp_path).add(DESK)

    async def test() -> None:
        async with (
            serving(data=tmp_path) as (server, _),
            client_of(server, root) as owner,
            client_of(server, desk) as client,
            listening(client, "price > 100") as events,
        ):
            for symbol, price in [("INIT", 200), ("ACME", 50), ("ACME", 120)]:
                await owner.post("/events", json={"symbol": symbol, "price": price})
            assert (await events.next())["data"] == {"symbol": "ACME", "price": 120}
            refused = await client.get("/events", params={"where": "symbol = 'INIT'"})
            assert refused.status_code == 403
            for content, said in [
                ({"price": 0}, "grant does not match"),
                ({"price": 1, "source": "root"}, "publish as 'root'"),
            ]:
                answer = await client.post("/events", json=content)
                assert answer.status_code == 403
                assert said in answer.json()["detail"]
            await client.post("/events", json={"price": 101, "symbol": "ACME"})
            assert (await events.next())["source"] == "desk"

    run(test)


def test_whoever_loses_a_grant_loses_the_stream_too(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    root, desk = tokens.add(unrestricted("root")), tokens.add(DESK)

    async def test() -> None:
        async with (
            serving(data=tmp_path, watch=0.05) as (server, _),
            client_of(server, root) as owner,
            client_of(server, desk) as client,
            listening(client) as events,
        ):
            await owner.post("/events", json={"symbol": "ACME", "n": 1})
            assert (await events.next())["data"]["n"] == 1
            narrower = replace(DESK, may_subscribe=Filter.parse("symbol = 'ACME' AND n >= 10"))
            tokens.change(narrower)
            while not any(each.principal == narrower for each in server.sessions):
                await asyncio.sleep(0.05)
            for n in (2, 10):
                await owner.post("/events", json={"symbol": "ACME", "n": n})
            assert (await events.next())["data"]["n"] == 10
            tokens.remove("desk")
            problem = await events.next()
            assert problem["detail"]
            with pytest.raises(EOFError):
                await events.next()
            assert (await client.get("/subscriptions")).status_code == 401

    run(test)


def test_a_ticket_opens_one_stream_and_is_used_up(tmp_path: Path) -> None:
    desk = Tokens(tmp_path).add(DESK)

    async def test() -> None:
        async with serving(data=tmp_path) as (server, stranger), client_of(server, desk) as client:
            made = await client.post("/tickets")
            assert made.status_code == 201
            ticket = made.json()["ticket"]
            async with listening(stranger, ticket=ticket):
                pass
            for again in (ticket, "", "guess"):
                answer = await stranger.get("/events", params={"ticket": again})
                assert answer.status_code == 401
            for name in ("token", "access_token"):
                answer = await client.get("/events", params={name: desk})
                assert answer.status_code == 400
                assert desk not in answer.text

    run(test)


def test_pages_of_other_origins_and_names_of_other_machines_are_turned_away() -> None:
    async def test() -> None:
        async with serving(HttpSettings(port=0, origins=("https://app.example",))) as (server, client):
            own = base(server)
            for headers, status in [
                ({"Origin": own}, 200),
                ({"Origin": "https://app.example"}, 200),
                ({"Origin": "https://evil.example"}, 403),
                ({"Origin": "null"}, 403),
                ({"Origin": own.replace("http:", "https:")}, 403),
                ({"Host": "evil.example"}, 421),
                ({"Host": "127.0.0.1.evil.example", "Origin": "http://127.0.0.1.evil.example"}, 421),
                ({"Host": "localhost:1"}, 200),
                ({"Host": "[::1]:7480"}, 200),
            ]:
                answer = await client.post("/events", json={"n": 1}, headers=headers)
                assert answer.status_code == status, headers
            allowed = await client.get("/health", headers={"Origin": "https://app.example"})
            assert allowed.headers["access-control-allow-origin"] == "https://app.example"
            asking = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
            assert (await client.options("/events", headers=asking)).status_code == 204
            assert "access-control-allow-origin" not in (await client.get("/health", headers={"Origin": own})).headers
            for page in ("/", "/docs"):
                policy = (await client.get(page)).headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "frame-ancestors 'none'" in policy

    run(test)


IMAGE = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
LINK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("site", ["cross-site", "same-site", "something new"])
def test_what_another_page_embeds_reaches_nothing(site: str) -> None:
    """A picture of another page, also of another port of this machine, names no origin."""

    async def test() -> None:
        async with serving(HttpSettings(port=0, origins=("https://app.example",))) as (_, client):
            await client.post("/durable/desk", json={"where": "n > 0"})
            elsewhere = {"Sec-Fetch-Site": site}
            for path in ("/events?durable=desk", "/events?where=true", "/status", "/metrics", "/subscriptions", "/"):
                answer = await client.get(path, headers=elsewhere | IMAGE)
                assert answer.status_code == 403, path
            answer = await client.post(
                "/events", content=b'{"n": 1}', headers=elsewhere | {"Content-Type": "text/plain"}
            )
            assert answer.status_code == 403
            assert (await client.get("/status", headers=elsewhere | LINK)).status_code == 403
            for page in ("/", "/docs"):
                assert (await client.get(page, headers=elsewhere | LINK)).status_code == 200
            allowed = elsewhere | {"Origin": "https://app.example", "Sec-Fetch-Mode": "cors"}
            assert (await client.get("/status", headers=allowed)).status_code == 200
            for near in ("none", "same-origin"):
                assert (await client.get("/status", headers={"Sec-Fetch-Site": near})).status_code == 200

    run(test)


def test_over_tls_a_certificate_says_who_is_there(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, own = authority.sign("broker", ("127.0.0.1",)), authority.sign("desk")
    data = tmp_path / "data"
    Tokens(data).add(replace(DESK, may_see_status=True), certificates=("desk",))

    async def test() -> None:
        tls = ServerTls(pair.certificate, pair.key, authority.certificate)
        async with serving(data=data, tls=tls) as (server, _):
            import ssl

            context = ssl.create_default_context(cafile=str(authority.certificate))
            async with httpx.AsyncClient(verify=context, trust_env=False) as stranger:
                assert (await stranger.get(f"{base(server, 'https')}/status")).status_code == 401
            context.load_cert_chain(own.certificate, own.key)
            async with httpx.AsyncClient(verify=context, trust_env=False) as desk:
                assert (await desk.get(f"{base(server, 'https')}/status")).status_code == 200

    run(test)


def test_http_that_strangers_can_reach_needs_tls_and_tokens() -> None:
    async def test(**changes: Any) -> None:
        async with serving(HttpSettings("0.0.0.0", 0), **changes):
            pass

    with pytest.raises(InvalidArgument, match="no TLS"):
        run(test)
    run(lambda: test(insecure=True))


def test_nothing_secret_is_logged(tmp_path: Path) -> None:
    token = Tokens(tmp_path).add(unrestricted("root"))
    broker = Broker("--http", "127.0.0.1:0", data=str(tmp_path))
    try:
        with httpx.Client(base_url=broker.http, trust_env=False) as client:
            ticket = client.post("/tickets", headers=bearing(token)).json()["ticket"]
            wrong = token[:-4] + "wxyz"
            for headers, parameters in [(bearing(wrong), {}), ({}, {"token": token}), ({}, {"ticket": ticket + "x"})]:
                assert client.get("/events", headers=headers, params=parameters).status_code in (400, 401)
        broker.send(signal.SIGTERM)
        code, out, err = broker.end()
        assert code == 0
        assert [secret for secret in (token, wrong, ticket, token.split("_", 2)[2]) if secret in out + err] == []
    finally:
        broker.kill()
