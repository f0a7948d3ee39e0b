"""Order of requests: as each client made them, and none before it is on disk."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.routing.client_messages import ClientRequest, PublishClient, SubscribeClient, UnsubscribeClient
from palio.routing.client_requests import DURABLE_REQUESTS, RequestQueue
from palio.routing.effects import Client, Effect, NotPersisted, Persist

asked = st.tuples(st.sampled_from("ab"), st.sampled_from(["subscribe", "unsubscribe", "publish"]))
steps = st.lists(st.one_of(asked, st.sampled_from(["write", "answer", "fail"])), max_size=40)


def request(kind: str, number: int) -> ClientRequest:
    if kind == "subscribe":
        return SubscribeClient(str(number), Filter.everything)
    return UnsubscribeClient(str(number)) if kind == "unsubscribe" else PublishClient(str(number).encode())


@given(steps)
def test_each_client_is_served_in_its_order_and_nothing_before_it_is_written(steps: list[object]) -> None:
    done: list[tuple[Client, ClientRequest]] = []
    effects: list[Effect] = []
    requests = RequestQueue(
        lambda client, each: done.append((client, each)),
        lambda client: [],
        lambda client, name: None,
        count(1),
        effects,
    )
    wanted: list[tuple[Client, ClientRequest]] = []
    writing: list[Persist] = []
    written: list[object] = []
    lost: list[tuple[Client, ClientRequest]] = []
    numbers = count()
    for step in [*steps, *["write", "answer"] * (len(steps) + 1)]:
        if isinstance(step, tuple):
            client, kind = step
            wanted.append((client, request(kind, next(numbers))))
            requests.take(*wanted[-1])
        elif step == "write":
            requests.write()
            writing += [each for each in effects if isinstance(each, Persist)]
            effects.clear()
        elif writing and step == "answer":
            written += writing[0].records
            requests.on_persisted(writing.pop(0).token)
        elif writing:
            lost += [(each.client, each.request) for each in writing[0].records]  # type: ignore[union-attr]
            requests.on_not_persisted(NotPersisted(writing.pop(0).token, "full", "full"))
        assert all(each in written for each in done if type(each[1]) in DURABLE_REQUESTS)
    for client in "ab":
        assert [each for each in done if each[0] == client] == [
            each for each in wanted if each[0] == client and each not in lost
        ]


def test_many_subscriptions_of_one_client_are_one_write() -> None:
    done: list[ClientRequest] = []
    effects: list[Effect] = []
    requests = RequestQueue(
        lambda client, each: done.append(each), lambda client: [], lambda client, name: None, count(1), effects
    )
    for number in range(1_000):
        requests.take("a", request("subscribe", number))
    requests.take("a", request("publish", 1_000))
    requests.write()
    [written] = effects
    assert isinstance(written, Persist)
    assert (len(written.records), done) == (1_000, [])
    requests.on_persisted(written.token)
    assert (len(done), type(done[-1])) == (1_001, PublishClient)
