"""Reports of interest to the announcer of routing trees."""

from __future__ import annotations

from palio.filters.filter import Filter
from palio.routing.announcements import InterestReports
from palio.routing.forwarding.content import ContentForwarding
from palio.routing.forwarding.strategy import ForwardingConfig
from palio.routing.messages import LOCAL, Report

WANTED = Filter.parse("x > 1")
OTHER = Filter.parse("y > 1")


def _reports() -> InterestReports:
    return InterestReports(7, ContentForwarding(ForwardingConfig()))


def test_nothing_is_reported_before_somebody_asks_and_then_everything() -> None:
    reports = _reports()
    reports.add_filter(LOCAL, b"a", WANTED)
    reports.add_filter(1, b"b", OTHER)
    assert reports.report() is None
    reports.lead(1)
    assert reports.report() == Report(7, True, ((b"a", WANTED),), ())
    assert reports.report() is None


def test_changes_are_reported_once() -> None:
    reports = _reports()
    reports.lead(1)
    assert reports.report() == Report(7, True, (), ())
    reports.add_filter(LOCAL, b"a", WANTED)
    reports.add_filter(LOCAL, b"b", OTHER)
    reports.remove_filter(LOCAL, b"b")
    assert reports.report() == Report(7, False, ((b"a", WANTED),), ())
    reports.remove_filter(LOCAL, b"a")
    assert reports.report() == Report(7, False, (), (b"a",))


def test_on_another_way_everything_is_reported_again() -> None:
    reports = _reports()
    reports.lead(1)
    reports.add_filter(LOCAL, b"a", WANTED)
    reports.open_link(1)
    assert reports.report() == Report(7, True, ((b"a", WANTED),), ())
    reports.lead(1)
    assert reports.report() is None
    reports.close_link(2)
    assert reports.way == 1
    reports.close_link(1)
    reports.add_filter(LOCAL, b"b", OTHER)
    assert reports.report() is None
    reports.lead(2)
    assert reports.report() == Report(7, True, ((b"a", WANTED), (b"b", OTHER)), ())
