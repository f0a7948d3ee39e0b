"""Is what a client asks for carried out in its order, however writes and answers of the disk fall between?"""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.routing.clients import ClientRequest, PublishClient, SubscribeClient, UnsubscribeClient
from palio.routing.effects import Client, Persist
from palio.routing.requests import LASTING, Requests

asked = st.tuples(st.sampled_from("ab"), st.sampled_from(["subscribe", "unsubscribe", "publish"]))
steps = st.lists(st.one_of(asked, st.sampled_from(["write", "answer", "fail"])), max_size=40)


def request(kind: str, number: int) -> ClientRequest:
    if kind == "subscribe":
        return SubscribeClient(str(number), Filter.everything)
    return UnsubscribeClient(str(number)) if kind == "unsubscribe" else PublishClient(str(number).encode())


@given(steps)
def test_each_client_is_served_in_its_order_and_nothing_before_it_is_written(steps: list[object]) -> None:
    done: list[tuple[Client, ClientRequest]] = []
    requests = Requests(lambda client, each: done.append((client, each)), lambda client: [], count(1))
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
            written_now = requests.write()
            writing += [] if written_now is None else [written_now]
        elif writing and step == "answer":
            written += writing[0].records
            requests.written(writing.pop(0).token)
        elif writing:
            lost += [(each.client, each.request) for each in writing[0].records]  # type: ignore[union-attr]
            requests.failed(writing[0].token, "full", "full")
            writing.pop(0)
        assert all(each in written for each in done if type(each[1]) in LASTING)
    for client in "ab":
        assert [each for each in done if each[0] == client] == [
            each for each in wanted if each[0] == client and each not in lost
        ]


def test_many_subscriptions_of_one_client_are_one_write() -> None:
    done: list[ClientRequest] = []
    requests = Requests(lambda client, each: done.append(each), lambda client: [], count(1))
    for number in range(1_000):
        requests.take("a", request("subscribe", number))
    requests.take("a", request("publish", 1_000))
    written = requests.write()
    assert written is not None
    assert (len(written.records), done) == (1_000, [])
    requests.written(written.token)
    assert (len(done), type(done[-1])) == (1_001, PublishClient)
