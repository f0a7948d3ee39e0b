"""Screening: the usable subscriptions of a batch are added, and every unusable one is named with its error."""

from __future__ import annotations

import pytest

from palio.errors import DuplicateSubscription, InvalidSubscription, ParseError
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.matching.subscription_screening import add_usable


def subscription(number: int, where: str | None = None) -> Subscription:
    return Subscription(f"s{number}", where or f"x = {number}")


def test_usable_subscriptions_are_added_at_once() -> None:
    matcher = Matcher()
    assert add_usable(matcher, [subscription(number) for number in range(3)]) == {}
    assert list(matcher) == ["s0", "s1", "s2"]


def test_every_unusable_one_is_found_in_its_order_and_the_others_are_added() -> None:
    faulty = [1, 499, 500, 1_203]
    given = [subscription(number, "x >" if number in faulty else None) for number in range(1_300)]
    matcher = Matcher()
    unusable = add_usable(matcher, given)
    assert list(unusable) == [f"s{number}" for number in faulty]
    assert all(isinstance(error, InvalidSubscription) for error in unusable.values())
    assert all(isinstance(error.__cause__, ParseError) for error in unusable.values())
    assert list(matcher) == [each.id for each in given if each.id not in unusable]
    assert matcher.match({"x": 1_299}) == {"s1299"}


def test_an_id_that_the_matcher_has_is_no_matter_of_screening() -> None:
    matcher = Matcher()
    matcher.add_subscriptions([subscription(1)])
    with pytest.raises(DuplicateSubscription):
        add_usable(matcher, [subscription(1), subscription(2)])
