"""The error table: wire codes, refusals and HTTP statuses name the same errors in both directions."""

from __future__ import annotations

from typing import get_args

import pytest

from palio import errors
from palio.network.error_codes import code_of, error_of_code, error_of_refusal, http_status, refusal_of
from palio.network.protocol import ErrorCode
from palio.routing.client_messages import Refusal


@pytest.mark.parametrize("code", get_args(ErrorCode))
def test_a_code_comes_back_from_the_error_that_it_stands_for(code: ErrorCode) -> None:
    error = error_of_code(code, "why")
    assert (code_of(error), str(error)) == (code, "why")


@pytest.mark.parametrize("kind", [each for each in get_args(Refusal) if each != "busy"])
def test_a_refusal_comes_back_from_the_error_that_it_stands_for(kind: Refusal) -> None:
    error = error_of_refusal(kind, "why")
    assert refusal_of(error) == kind
    assert "why" in str(error)


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (errors.StoreFull("here", "why"), "full", 507),
        (errors.StoreInUse("here"), "broken", 507),
        (errors.LimitReached("event_bytes", 1, "why"), "limit", 413),
        (errors.LimitReached("window", 1, "why"), "limit", 429),
        (errors.UnknownSubscription("a"), "refused", 404),
        (errors.LivesElsewhere("a", ()), "refused", 421),
        (errors.HomeAway("a", (1,)), "away", 503),
        (errors.Refused("why"), "refused", 409),
        (errors.EventError("why"), "refused", 400),
    ],
)
def test_an_error_has_the_code_and_the_status_of_its_most_specific_row(
    error: errors.PalioError, code: ErrorCode, status: int
) -> None:
    assert (code_of(error), http_status(error)) == (code, status)
