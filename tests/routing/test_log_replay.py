"""Pages of logs that are merged for a replay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio import Filter
from palio.network.security.authorization import LinkFilters
from palio.routing.client_messages import ReplayClient
from palio.routing.log_replay import filter_incoming_pages, filter_outgoing_pages, fit_pages, merge_pages
from palio.routing.messages import BrokerLogPage, PastEvent


def test_an_offset_that_is_not_kept_any_more_is_an_error_and_no_skip() -> None:
    request = ReplayClient(1, Filter.parse("TRUE"), places=((7, 3), (8, 1)))
    pages = [BrokerLogPage(7, 5, 3, 3, 9, 0.0), BrokerLogPage(8, 1, 1, 2, 2, 1.0, (PastEvent(1, 1.0, b"", b""),))]
    past = merge_pages(request, pages, [7, 8])
    assert (past.events, past.expired, past.missing, past.complete) == ((), ((7, 5),), (), False)


def read(log: list[PastEvent], broker: int, place: int, limit: int) -> BrokerLogPage:
    found = tuple(log[place - 1 : place - 1 + limit])
    return BrokerLogPage(broker, 1, place, place + len(found), len(log) + 1, found[-1].time if found else 0.0, found)


@given(
    logs=st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=12), min_size=1, max_size=5),
    limit=st.integers(1, 5),
    most=st.integers(1, 100),
)
def test_answers_that_are_too_long_end_earlier_and_miss_and_double_nothing(
    logs: list[list[tuple[int, int]]], limit: int, most: int
) -> None:
    all_logs = []
    for broker, steps in enumerate(logs):
        time, log = 0.0, []
        for offset, (step, size) in enumerate(steps, 1):
            time += step
            log.append(PastEvent(offset, time, b"%d %d" % (broker, offset), bytes(size)))
        all_logs.append(log)
    found: list[PastEvent] = []
    places = dict.fromkeys(range(len(logs)), 1)
    for _ in range(100):
        pages = [read(log, broker, places[broker], limit) for broker, log in enumerate(all_logs)]
        behind = fit_pages(pages[1:], most)  # those that a neighbour answers for
        answer = fit_pages([pages[0], *behind], most)
        sizes = [len(event.body) for page in answer for event in page.events]
        assert sum(sizes) <= most or sum(size > 0 for size in sizes) == 1
        request = ReplayClient(1, Filter.everything, places=tuple(places.items()))
        past = merge_pages(request, answer, range(len(logs)))
        found += [event for _, event in past.events]
        places = dict(past.places)
        if past.complete:
            break
    assert past.complete
    assert sorted(event.identity for event in found) == sorted(event.identity for log in all_logs for event in log)
    assert [event.time for event in found] == sorted(event.time for event in found)


OPEN = Filter.everything


def test_an_event_that_cannot_be_read_passes_no_link_filter() -> None:
    page = BrokerLogPage(0, 1, 1, 2, 2, 1.0, (PastEvent(1, 1.0, b"", b"\xff no event"),))
    link_filters = {1: LinkFilters(OPEN, OPEN)}
    for pages in (filter_outgoing_pages(1, [page], link_filters), filter_incoming_pages(1, [page], link_filters)):
        assert [each.events for each in pages] == [()]
    assert filter_outgoing_pages(2, [page], link_filters) == filter_incoming_pages(2, [page], link_filters) == [page]
