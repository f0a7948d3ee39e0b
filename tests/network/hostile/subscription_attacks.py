"""Attacks by subscriptions: filters, patterns, credits, acknowledgements, durable names, logs and status."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

import palio
from palio import DurableSettings, Filter
from palio.errors import PalioError
from palio.network import protocol
from palio.routing import codec
from tests.network.hostile.arena import Arena, attack, body
from tests.network.running import until, url

_HOSTILE = "(a|b)*a(a|b){900}c"
_COSTLY = "what a condition may cost is bounded when it is subscribed to"
_NOT_HIS = "what belongs to one principal is no other's"


async def refused(arena: Arena, where: str) -> str:
    """The refusal of a condition that Eve subscribes to."""
    async with palio.connect(url(arena.server), arena.eve) as client:
        with pytest.raises(PalioError) as caught:
            async with client.subscribe(where) as events:
                await anext(events)
    return str(caught.value)


def asked(where: str, name: str = "x", request: int = 1) -> bytes:
    """A request to subscribe whose condition no honest client would write."""
    frame = protocol.encode(protocol.Subscribe(request, name, Filter.nothing))
    return frame.replace(codec._encoder.encode("FALSE"), codec._encoder.encode(where))


@attack(_COSTLY)
async def regex_of_exponentially_many_states(arena: Arena) -> None:
    assert "pattern_size = 1,000" in await refused(arena, f"t RLIKE '{_HOSTILE}'")


@attack("a search takes no more work than the limit for one event")
async def slow_regex_on_the_longest_text(arena: Arena) -> None:
    async with palio.connect(url(arena.server), arena.eve) as client, client.subscribe("t RLIKE 'a[ab]{60}c'"):
        for _ in range(3):
            await client.publish({"eve": 1, "t": "ab" * 200_000}, confirm=True)
        await until(lambda: arena.server.status()["slowest"] != [])
        assert arena.server.status()["slowest"][0]["unexamined"] == 3


@attack("expressions that people write read a long text once")
async def bounded_gap_on_the_longest_text(arena: Arena) -> None:
    async with (
        palio.connect(url(arena.server), arena.eve) as client,
        client.subscribe("t RLIKE 'a.{0,200}z'") as events,
    ):
        await client.publish({"eve": 1, "t": "ab" * 200_000}, confirm=True)
        await client.publish({"eve": 2, "t": "ab" * 200_000 + "z"}, confirm=True)
        assert (await anext(events)).get("eve") == 2


@attack(_COSTLY)
async def many_slow_regexes_in_one_condition(arena: Arena) -> None:
    where = " OR ".join(f"t RLIKE 'a[ab]{{{n}}}c'" for n in range(40, 60))
    assert "filter_steps = 64" in await refused(arena, where)


@attack(_COSTLY)
async def like_of_thousands_of_underscores(arena: Arena) -> None:
    assert "pattern_size" in await refused(arena, "t LIKE '%" + "a_" * 2_000 + "b%'")


@attack(_COSTLY)
async def nested_text_functions(arena: Arena) -> None:
    assert "filter_steps" in await refused(arena, "upper(" * 100 + "t" + ")" * 100 + " = 'x'")


@attack("short texts are not blown up")
async def repeated_texts(arena: Arena) -> None:
    texts = [f"{n}" for n in range(1_000)]
    async with (
        palio.connect(url(arena.server), arena.eve) as client,
        client.subscribe("length(repeat(t, 1000000)) > length(u)"),
    ):
        await client.publish({"eve": 1, "t": texts, "u": texts}, confirm=True)


@attack("patterns that keep megabytes of states are bounded in number")
async def many_slow_patterns(arena: Arena) -> None:
    wire = await arena.wire()
    for n in range(70):
        wire.tell(protocol.Subscribe(n + 1, f"s{n}", Filter.parse(f"t RLIKE 'a[ab]{{30}}x{n}'")))
    assert "slow_patterns_per_principal = 64" in (await wire.hear_failure()).reason


@attack("patterns are examined beside the loop")
async def patterns_that_take_long_to_examine(arena: Arena) -> None:
    wire = await arena.wire()
    for n in range(5):
        wire.say(asked(" OR ".join(f"t RLIKE 'a.{{0,500}}{n}{m}'" for m in range(8)), f"s{n}", n + 1))
    assert "filter_steps" in (await wire.hear_failure()).reason


@attack("a condition with back-references is refused with the reason")
async def backtracking_regex(arena: Arena) -> None:
    assert await refused(arena, r"t RLIKE '(a+)+\\1$'")


@attack("a condition has a bounded length")
async def condition_of_a_megabyte(arena: Arena) -> None:
    wire = await arena.wire()
    wire.say(asked("x = 1 OR " * 100_000 + "x = 2"))
    assert "filter_bytes" in (await wire.hear_failure()).reason


@attack("alternatives of a condition, written out, are bounded")
async def product_of_alternatives(arena: Arena) -> None:
    where = " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(20))
    assert "filter_conjunctions" in await refused(arena, where)


@attack("nesting is bounded")
async def condition_of_a_thousand_brackets(arena: Arena) -> None:
    wire = await arena.wire()
    wire.say(asked("(" * 4_000 + "x = 1" + ")" * 4_000))
    assert await wire.hear_failure() is not None


@attack("what is no condition is refused with the reason")
async def condition_that_is_none(arena: Arena) -> None:
    wire = await arena.wire()
    wire.say(asked("x = = ' \\"))
    assert await wire.hear_failure() is not None


@attack("subscriptions of a principal are bounded")
async def many_subscriptions(arena: Arena) -> None:
    wire = await arena.wire()
    for n in range(150):
        wire.tell(protocol.Subscribe(n + 1, f"s{n}", Filter.parse("n = 1")))
    assert "subscriptions_per_principal = 100" in (await wire.hear_failure()).reason


@attack("advertisements of a principal are bounded")
async def many_advertisements(arena: Arena) -> None:
    wire = await arena.wire()
    for n in range(150):
        wire.tell(protocol.Advertise(n + 1, f"a{n}", Filter.parse("eve = 1")))
    assert "subscriptions_per_principal = 100" in (await wire.hear_failure()).reason


@attack("subscribing and leaving leaves nothing")
async def subscriptions_that_come_and_go(arena: Arena) -> None:
    wire = await arena.wire()
    for n in range(300):
        wire.tell(protocol.Subscribe(0, "s", Filter.parse(f"n = {n}")), protocol.Unsubscribe(0, "s"))
    wire.tell(protocol.Sync(7))
    while (said := await wire.hear()) is not None and not (type(said) is protocol.Done and 7 in said.requests):
        pass
    assert said is not None
    assert arena.server.quotas.subscriptions.used_by("eve") == 0


@attack("a name is used once in a session")
async def two_subscriptions_of_one_name(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Subscribe(1, "s", Filter.parse("n = 1")), protocol.Subscribe(2, "s", Filter.parse("n = 2")))
    assert "already" in (await wire.hear_failure()).reason


@attack("a name has a bounded length")
async def name_of_sixty_kilobytes(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Subscribe(1, "s" * 60_000, Filter.parse("n = 1")))
    assert await wire.hear_failure() is not None


@attack("credit beyond all measure changes nothing for others")
async def credit_without_measure(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Subscribe(1, "s", Filter.parse("honest > 0"), credit=2**62))
    wire.tell(*[protocol.More("s", 2**62)] * 100, protocol.More("s", -(2**62)), protocol.More("none", 5))
    await arena.exchange()


@attack("a subscriber without credit has a bounded queue, and others do not wait")
async def subscriber_without_credit(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Subscribe(1, "s", Filter.everything, credit=0, queue=10))
    for _ in range(30):
        await arena.exchange()
    [eve] = [each for each in arena.server.status()["clients"] if each["principal"] == "eve"]
    assert eve["subscriptions"][0]["queued"] <= 10


@attack("a subscriber that never reads is bounded, and others do not wait")
async def subscriber_that_never_reads(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Subscribe(1, "s", Filter.everything, credit=2**30, queue=20))
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    async with palio.connect(url(arena.server), arena.eve) as flooding:
        for _ in range(100):
            await flooding.publish({"eve": "x" * 100_000}, confirm=True)


@attack(_NOT_HIS)
async def acknowledgements_of_the_events_of_another(arena: Arena) -> None:
    publisher = arena.publisher
    async with publisher.subscribe("honest < 0", durable="queue"):
        pass
    await publisher.publish({"honest": -1}, confirm=True)
    wire = await arena.wire()
    wire.tell(protocol.Acknowledge("queue", tuple(range(1_000))), protocol.Sync(1))
    await wire.hear()
    async with publisher.subscribe("honest < 0", durable="queue") as events:
        assert (await anext(events)).get("honest") == -1


@attack(_NOT_HIS)
async def durable_name_of_another(arena: Arena) -> None:
    publisher = arena.publisher
    async with publisher.subscribe("honest < 0", durable="mine"):
        pass
    await publisher.publish({"honest": -2}, confirm=True)
    wire = await arena.wire()
    wire.tell(protocol.Subscribe(1, "mine", Filter.parse("eve = 1"), durable=True), protocol.Unsubscribe(2, "mine"))
    for name in ("honest/mine", "durable honest/mine", "../honest/mine"):
        wire.tell(protocol.Unsubscribe(3, name))
    assert await wire.hear() is not None
    async with publisher.subscribe("honest < 0", durable="mine") as events:
        assert (await anext(events)).get("honest") == -2


@attack("acknowledgements of numbers that never were change nothing")
async def acknowledgements_of_nothing(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Subscribe(1, "d", Filter.parse("eve = 1"), durable=True))
    assert type(await wire.hear()) is protocol.Done
    wire.tell(protocol.Acknowledge("d", (-1, 0, 2**62, 5)), protocol.Sync(2))
    assert type(await wire.hear()) is protocol.Done


@attack("replay gives what the grant admits, no more")
async def replay_beyond_the_grant(arena: Arena) -> None:
    await arena.exchange()
    wire = await arena.wire(arena.mallory)
    wire.tell(protocol.ReplayQuery(1, Filter.everything, 0.0))
    said = await wire.hear()
    assert type(said) is not protocol.ReplayAnswer or said.past.events == ()


@attack("the log gives what the grant admits, no more")
async def log_beyond_the_grant(arena: Arena) -> None:
    await arena.exchange()
    wire = await arena.wire(arena.mallory)
    wire.tell(protocol.LogQuery(1, Filter.everything))
    said = await wire.hear()
    assert type(said) is not protocol.LogAnswer or said.events == ()


@attack("queries of one client at a time are bounded")
async def many_log_queries(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(*[protocol.LogQuery(n, Filter.parse("n = 1")) for n in range(1, 100)])
    assert "queries = 4" in (await wire.hear_failure()).reason


@attack("a log query is bounded as a subscription is")
async def hostile_regex_in_a_log_query(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.LogQuery(1, Filter.parse(f"t RLIKE '{_HOSTILE}'")))
    assert "pattern_size" in (await wire.hear_failure()).reason


@attack("status is for those who may see it")
async def status_asked_for_by_anyone(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(*[protocol.StatusQuery(n) for n in range(1, 200)])
    assert (await wire.hear_failure()).kind == "not permitted"


@attack("brokers are given up by operators alone")
async def broker_forgotten_by_a_client(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Forget(1, arena.server.node))
    assert (await wire.hear_failure()).kind == "not permitted"


@attack("unconfirmed publications are bounded by a window")
async def publications_beyond_the_window(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(*[protocol.Publish(n, body(eve=n)) for n in range(1, 5_000)])
    wire.tell(protocol.Sync(9_999_999))
    answered = 0
    while answered < 5_000 and (said := await wire.hear()) is not None:
        answered += len(said.requests) if type(said) is protocol.Done else type(said) is protocol.Failed
    assert answered == 5_000


@attack("a connection that breaks in the middle leaves nothing")
async def connections_that_break_off(arena: Arena) -> None:
    for _ in range(20):
        wire = await arena.wire()
        wire.tell(protocol.Subscribe(1, "s", Filter.everything, durable=False))
        wire.writer.write(b"\0\0\1")
        wire.writer.transport.abort()
    await until(lambda: arena.server.quotas.connections.used_by("eve") == 0)


@attack("thousands of requests in one read take turns with those of others")
async def thousands_of_small_requests(arena: Arena) -> None:
    handled = Counter[int]()  # by turn of the loop
    turn = 0

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    after_pending = arena.server.host.after_pending

    def note(do: Callable[[], None]) -> None:
        handled[turn] += 1
        after_pending(do)

    arena.server.host.after_pending = note  # type: ignore[method-assign]
    counting = asyncio.create_task(count_turns())
    wire = await arena.wire()
    wire.tell(*map(protocol.Sync, range(1, 20_001)))
    answered: list[int] = []
    while len(answered) < 20_000:
        said = await wire.hear()
        assert type(said) is protocol.Done
        answered += said.requests
    counting.cancel()
    assert answered == list(range(1, 20_001))
    assert max(handled.values()) <= 1_024


@attack("a queue that refuses events while it is small holds nobody back without a grant")
async def small_queue_that_nobody_reads(arena: Arena) -> None:
    wire = await arena.wire()
    small = DurableSettings(max_events=1, on_full="refuse")
    wire.tell(protocol.Subscribe(1, "d", Filter.everything, durable=True, settings=small))
    said = await wire.hear_failure()
    assert isinstance(said, protocol.Failed)
    assert said.kind == "not permitted"
    wire.tell(protocol.Subscribe(2, "d", Filter.everything, durable=True), protocol.DurableLimit(3, "d", small))
    said = await wire.hear_failure()
    assert isinstance(said, protocol.Failed)
    assert (said.request, said.kind) == (3, "not permitted")


@attack("a standby that is away holds nobody back without a grant")
async def standby_that_nobody_has(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Subscribe(1, "d", Filter.everything, durable=True, standby="palio://127.0.0.1:1"))
    said = await wire.hear_failure()
    assert isinstance(said, protocol.Failed)
    assert said.kind == "not permitted"
