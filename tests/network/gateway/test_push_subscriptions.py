"""Push subscriptions to a real sink: permission, order, retries, credentials, and ownership."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from palio import Filter
from palio.network.gateway.settings import HttpSettings, RetryPolicy
from palio.network.gateway.webhooks import SinkReply, classify_reply, retry_after_seconds
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from palio.network.security.tls import ClientTls, ServerTls
from palio.network.server.process import Server
from tests.network.certificates import Authority
from tests.network.gateway.serving import client_of, serving
from tests.network.running import run

QUICK = RetryPolicy(attempts=3, first_wait=0.01, longest_wait=0.05, seconds=5)
HTTP = HttpSettings(port=0, sinks=("127.0.0.0/8",), origin="broker.example", persistence=QUICK)
AGREES = "WebHook-Allowed-Origin: broker.example\r\n"


@dataclass
class RealSink:
    """A webhook. `answer` is its status for each event; `agreement` what it says to OPTIONS."""

    answer: Callable[[dict[str, Any]], str] = lambda event: "200 OK"
    agreement: str = AGREES
    keeps: bool = False
    connections: int = 0
    asked: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            await self.answer_one(reader, writer)
            while self.keeps:
                await self.answer_one(reader, writer)
        writer.close()

    async def answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length")
        )
        body = await reader.readexactly(length)
        if head.startswith("OPTIONS"):
            self.asked.append(head)
            writer.write(f"HTTP/1.1 200 OK\r\n{self.agreement}Content-Length: 0\r\n\r\n".encode())
        else:
            self.requests.append(head)
            self.events.append(json.loads(body))
            status = self.answer(self.events[-1])
            writer.write(f"HTTP/1.1 {status}\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()

    async def have(self, count: int) -> list[int]:
        """The numbers of the events that came, once there are so many."""
        while len(self.events) < count:
            await asyncio.sleep(0.01)
        return [event["data"]["n"] for event in self.events]


@asynccontextmanager
async def sink(tls: ServerTls | None = None, **options: Any) -> AsyncIterator[RealSink]:
    made = RealSink(**options)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls and tls.context())
    made.url = f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield made
    finally:
        server.close()


async def subscribe(client: httpx.AsyncClient, url: str, **members: Any) -> dict[str, Any]:
    answer = await client.post("/subscriptions", json={"sink": url, "protocol": "HTTP", **members})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/subscriptions/{made['id']}"
    return made


async def publish(client: httpx.AsyncClient, n: int, **members: Any) -> None:
    context = {"specversion": "1.0", "id": str(n), "source": "/shop", "type": "sold", **members}
    answer = await client.post(
        "/events",
        content=json.dumps({**context, "data": {"n": n}}),
        headers={"Content-Type": "application/cloudevents+json"},
    )
    assert answer.status_code == 200


async def dead(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    letters: list[dict[str, Any]] = (await client.get("/dead-letters")).json()
    return letters


def test_a_sink_that_agrees_gets_what_the_filters_match() -> None:
    async def test() -> None:
        async with serving(HTTP) as (_, client), sink() as there:
            made = await subscribe(
                client,
                there.url,
                source="/shop",
                types=["sold", "returned"],
                filters=[{"prefix": {"subject": "shoe"}}, {"not": {"suffix": {"subject": "lace"}}}],
                config={"where": "data.n > 1"},
                protocolsettings={"headers": {"X-Key": "secret"}},
            )
            assert "WebHook-Request-Origin: broker.example" in there.asked[0]
            assert made["protocolsettings"] == {"headers": {"X-Key": "…"}}
            await publish(client, 1, subject="shoes")
            await publish(client, 2, subject="shoelace")
            await publish(client, 3, subject="shoes", type="lost")
            await publish(client, 4, subject="shoes", source="/other")
            await publish(client, 5, subject="shoes", type="returned")
            await publish(client, 6, subject="shoes")
            assert await there.have(2) == [5, 6]
            assert "X-Key: secret" in there.requests[0]
            assert "application/cloudevents+json" in there.requests[0]
            assert there.events[0]["source"] == "/shop"

    run(test)


def test_a_subscription_can_be_read_replaced_and_ended() -> None:
    async def test() -> None:
        async with serving(HTTP) as (_, client), sink() as there:
            made = await subscribe(client, there.url, id="mine", filters=[{"exact": {"type": "sold"}}])
            place = "/subscriptions/mine"
            assert (await client.get(place)).json() == made
            assert (await client.get("/subscriptions")).json() == [made]
            again = await client.post("/subscriptions", json={"sink": there.url, "protocol": "HTTP", "id": "mine"})
            assert again.status_code == 409
            assert "use PUT to change it" in again.json()["detail"]
            changed = {"sink": there.url, "protocol": "HTTP", "config": {"where": "data.n = 2"}}
            assert (await client.put(place, json=changed)).status_code == 200
            assert (await client.put(place, json={**changed, "id": "other"})).status_code == 400
            await publish(client, 1)
            await publish(client, 2)
            assert await there.have(1) == [2]
            assert (await client.delete(place)).status_code == 204
            for method in ("GET", "DELETE"):
                assert (await client.request(method, place)).status_code == 404
            await publish(client, 2)
            assert len(there.events) == 1

    run(test)


async def until_served(server: Server) -> None:
    while not any(session.app == "push" and session.queues for session in server.sessions):
        await asyncio.sleep(0.01)


def test_a_sink_that_does_not_agree_gets_nothing() -> None:
    async def test() -> None:
        async with serving(HTTP) as (_, client):
            for agreement in ("", "WebHook-Allowed-Origin: other.example\r\n"):
                async with sink(agreement=agreement) as there:
                    answer = await client.post("/subscriptions", json={"sink": there.url, "protocol": "HTTP"})
                    assert answer.status_code == 422
                    assert "did not agree" in answer.json()["detail"]
                    await publish(client, 1)
                    assert there.events == []
            assert (await client.get("/subscriptions")).json() == []

    run(test)


def test_sinks_inside_are_refused_unless_the_owner_allows_them() -> None:
    async def test() -> None:
        async with serving() as (_, client), sink() as there:
            port = there.url.split(":")[2]
            for url in (
                there.url,
                f"http://localhost:{port}",
                f"http://[::ffff:127.0.0.1]:{port}",
                f"http://127.1:{port}",
            ):
                answer = await client.post("/subscriptions", json={"sink": url, "protocol": "HTTP"})
                assert answer.status_code == 422, url
            assert there.asked == []

    run(test)


def test_what_is_not_taken_is_sent_again_and_is_a_dead_letter_in_the_end() -> None:
    async def test() -> None:
        seen: dict[int, int] = {}

        def answer(event: dict[str, Any]) -> str:
            n = event["data"]["n"]
            seen[n] = seen.get(n, 0) + 1
            if n == 1 and seen[n] < 3:
                return "503 Busy\r\nRetry-After: 0"
            return {2: "500 Oops", 3: "415 What", 4: "302 Found"}.get(n, "204 Fine")

        async with serving(HTTP) as (_, client), sink(answer=answer) as there:
            await subscribe(client, there.url, id="mine")
            for n in (1, 2, 3, 4, 5):
                await publish(client, n)
            # Twice refused and taken, three times refused, and twice what is never sent again; a redirect goes nowhere.
            assert await there.have(9) == [1, 1, 1, 2, 2, 2, 3, 4, 5]
            letters = await dead(client)
            assert [json.loads(each["data"])["data"]["n"] for each in letters] == [2, 3, 4]
            assert [each["subscription"] for each in letters] == ["mine"] * 3
            assert "answered 500, after 3 attempts" in letters[0]["reason"]
            assert all("/elsewhere" not in head for head in there.requests)
            metrics = (await client.get("/metrics")).text
            assert "palio_dead_letters 3" in metrics
            assert 'palio_dropped_total{reason="not taken by a sink"} 3' in metrics

    run(test)


def test_one_connection_carries_the_events_of_a_sink_that_keeps_it() -> None:
    async def test() -> None:
        async with serving(HTTP) as (_, client), sink(keeps=True) as there:
            await subscribe(client, there.url)
            for n in range(5):
                await publish(client, n)
            assert await there.have(5) == [0, 1, 2, 3, 4]
            assert there.connections == 2  # the first asked whether it agrees

    run(test)


PLAIN = {"credentialtype": "PLAIN", "identifier": "broker", "secret": "open-sesame"}
TOKEN = {"credentialtype": "ACCESSTOKEN", "accesstoken": "t-o-k-e-n", "accesstokenexpiresutc": "2999-01-01T00:00:00Z"}


def test_a_sink_gets_the_credential_that_its_subscriber_gave_and_nobody_else_does(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.sign("sink", ("127.0.0.1",))
    tls = ServerTls(pair.certificate, pair.key)

    async def test() -> None:
        trust = ClientTls(authority.certificate)
        async with serving(HTTP, trust=trust) as (_, client), sink(tls, keeps=True) as there:
            for n, (given, header) in enumerate(
                [(PLAIN, "Basic YnJva2VyOm9wZW4tc2VzYW1l"), (TOKEN, "Bearer t-o-k-e-n")]
            ):
                made = await subscribe(client, there.url, id=str(n), sinkcredential=given)
                await publish(client, n)
                await there.have(n + 1)
                assert f"Authorization: {header}" in there.requests[n]
                shown = json.dumps([made, (await client.get("/subscriptions")).json()])
                assert not [secret for secret in ("open-sesame", "t-o-k-e-n") if secret in shown]
                await client.delete(f"/subscriptions/{n}")
            assert not [head for head in there.asked if "Authorization" in head]
            over = {**TOKEN, "accesstokenexpiresutc": "2001-01-01T00:00:00Z"}
            await subscribe(client, there.url, id="late", sinkcredential=over)
            await publish(client, 7)
            while not (letters := await dead(client)):
                await asyncio.sleep(0.01)
            assert "has expired" in letters[0]["reason"]
            assert len(there.events) == 2

    run(test)


def test_a_sink_that_is_gone_ends_its_subscription() -> None:
    async def test() -> None:
        async with serving(HTTP) as (_, client), sink(answer=lambda event: "410 Gone") as there:
            await subscribe(client, there.url, id="mine")
            await publish(client, 1)
            while (await client.get("/subscriptions")).json():
                await asyncio.sleep(0.01)
            assert await there.have(1) == [1]

    run(test)


def test_a_subscription_outlives_its_broker_and_is_not_others_to_see(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    root = tokens.add(unrestricted("root"))
    desk = tokens.add(Principal("desk", may_subscribe=Filter.parse("data.n > 1")))
    other = tokens.add(Principal("other", may_subscribe=Filter.everything))

    async def test() -> None:
        async with sink() as there:
            async with serving(HTTP, data=tmp_path) as (server, _), client_of(server, desk) as client:
                await subscribe(client, there.url, id="mine")
            assert (tmp_path / "push.json").stat().st_mode & 0o777 == 0o600
            async with (
                serving(HTTP, data=tmp_path) as (server, _),
                client_of(server, root) as owner,
                client_of(server, other) as stranger,
            ):
                await until_served(server)
                await publish(owner, 1)
                await publish(owner, 2)
                assert await there.have(1) == [2]
                assert (await stranger.get("/subscriptions")).json() == []
                for method in ("GET", "DELETE", "PUT"):
                    body = {"sink": there.url, "protocol": "HTTP"} if method == "PUT" else None
                    assert (await stranger.request(method, "/subscriptions/mine", json=body)).status_code == 404
                assert len((await owner.get("/subscriptions")).json()) == 1

    run(test)


def test_a_subscription_ends_with_its_owner_and_is_not_that_of_the_next_one_of_that_name(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    root = tokens.add(unrestricted("root"))
    desk = Principal("desk", may_subscribe=Filter.everything)
    first = tokens.add(desk)

    async def test() -> None:
        async with (
            sink() as there,
            serving(HTTP, data=tmp_path, watch=0.05) as (server, _),
            client_of(server, root) as owner,
            client_of(server, first) as client,
        ):
            await subscribe(client, there.url, id="mine")
            tokens.remove("desk")
            while (await owner.get("/subscriptions")).json():
                await asyncio.sleep(0.01)
            async with client_of(server, tokens.add(desk)) as next_one:
                while (await next_one.get("/subscriptions")).status_code != 200:
                    await asyncio.sleep(0.02)
                await publish(owner, 1)
                assert (await next_one.get("/subscriptions")).json() == []
            assert json.loads((tmp_path / "push.json").read_text()) == []
            assert there.events == []

    run(test)


def test_two_who_want_the_same_id_at_the_same_time_do_not_both_get_it(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    one, other = (tokens.add(Principal(name, may_subscribe=Filter.everything)) for name in ("one", "other"))

    async def test() -> None:
        async with (
            sink() as there,
            serving(HTTP, data=tmp_path) as (server, _),
            client_of(server, one) as first,
            client_of(server, other) as second,
        ):
            body = {"sink": there.url, "protocol": "HTTP", "id": "mine"}
            answers = await asyncio.gather(*(each.post("/subscriptions", json=body) for each in (first, second)))
            assert sorted(each.status_code for each in answers) in ([201, 400], [201, 409])
            held = [len((await each.get("/subscriptions")).json()) for each in (first, second)]
            assert held == [int(each.status_code == 201) for each in answers]

    run(test)


@pytest.mark.parametrize(
    "body",
    [
        {}, [], {"sink": "http://a/"}, {"sink": "http://a/", "protocol": "MQTT"}, {"sink": 5, "protocol": "HTTP"},
        {"sink": "http://a/", "protocol": "HTTP", "types": []}, {"sink": "http://a/", "protocol": "HTTP", "dance": 1},
        {"sink": "http://a/", "protocol": "HTTP", "filters": [{"fuzzy": {}}]},
        {"sink": "http://a/", "protocol": "HTTP", "filters": [{"exact": {}, "prefix": {}}]},
        {"sink": "http://a/", "protocol": "HTTP", "config": {"where": "x >"}},
        {"sink": "http://a/", "protocol": "HTTP", "protocolsettings": {"headers": {"Host": "b"}}},
        {"sink": "http://a/", "protocol": "HTTP", "protocolsettings": {"headers": {"A": "b\r\nC: d"}}},
        {"sink": "http://a/", "protocol": "HTTP", "protocolsettings": {"headers": {"A b": "c"}}},
        {"sink": "http://a/", "protocol": "HTTP", "protocolsettings": {"method": "DELETE"}},
        {"sink": "file:///etc/passwd", "protocol": "HTTP"},
        {"sink": "http://a/", "protocol": "HTTP", "sinkcredential": PLAIN},
        {"sink": "https://a/", "protocol": "HTTP", "sinkcredential": {**PLAIN, "identifier": "a:b"}},
        {"sink": "https://a/", "protocol": "HTTP", "sinkcredential": {**PLAIN, "secret": "a\r\nB: c"}},
        {"sink": "https://a/", "protocol": "HTTP", "sinkcredential": {**TOKEN, "accesstokentype": "mac"}},
        {"sink": "https://a/", "protocol": "HTTP", "sinkcredential": {"credentialtype": "REFRESHTOKEN"}},
        {"sink": "https://a/", "protocol": "HTTP", "sinkcredential": PLAIN,
         "protocolsettings": {"headers": {"authorization": "b"}}},
    ],
)  # fmt: skip
def test_a_request_that_is_none_is_refused(body: Any) -> None:
    from palio import PalioError
    from palio.network.gateway.subscription_request import read_subscription_request
    from palio.network.security.quotas import BrokerLimits

    def read() -> None:
        read_subscription_request(json.dumps(body).encode(), BrokerLimits()).to_filter(BrokerLimits())

    with pytest.raises(PalioError):
        read()


def test_waiting_times_double_up_to_a_bound_and_are_never_the_same_for_all() -> None:
    patient = RetryPolicy(first_wait=1, longest_wait=60)
    assert [patient.wait(n, lambda: 1.0) for n in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert patient.wait(1_000_000, lambda: 0.5) == 30
    assert patient.wait(3, lambda: 0.0) > 0


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, "delivered"), (204, "delivered"), (301, "rejected"), (400, "retry"), (404, "retry"),
        (410, "gone"), (415, "rejected"), (429, "retry"), (500, "retry"),
    ],
)  # fmt: skip
def test_an_answer_says_what_becomes_of_an_event(status: int, verdict: str) -> None:
    assert classify_reply(SinkReply(status, {})) == verdict


def test_a_sink_may_ask_for_a_pause_but_not_for_one_without_end() -> None:
    asked = ("5", "", "soon", "-1", "9" * 30)
    replies = [SinkReply(503, {"retry-after": text}) for text in asked]
    assert [retry_after_seconds(reply) for reply in replies] == [5, 0, 0, 0, 3_600]
