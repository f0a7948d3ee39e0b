"""Refused requests: each counted, some logged, never with their content."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import palio
from palio import AuthenticationFailed, Filter, NotPermitted
from palio.network.gateway.metrics import write_metrics
from palio.network.log_throttle import RefusalLog
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal
from tests.network.gateway.serving import client_of, serving
from tests.network.running import run, url


def test_strangers_and_what_may_not_be_published_are_counted_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Tokens(tmp_path).add(Principal("desk", may_publish=Filter.parse("x > 0")))

    async def test() -> None:
        async with serving(data=tmp_path) as (server, _):
            for _ in range(3):
                with pytest.raises(AuthenticationFailed):
                    await palio.connect(url(server), token="palio_guessed").__aenter__()
            async with palio.connect(url(server), token=desk) as client:
                with pytest.raises(NotPermitted):
                    await client.publish({"x": 0}, confirm=True)
            async with client_of(server, "palio_guessed") as stranger:
                assert (await stranger.post("/events", json={"x": 1})).status_code == 401
            status = server.status()
            assert status["refusals"] == {"not authenticated": 4, "not permitted": 1}
            assert 'palio_refused_total{kind="not authenticated"} 4\n' in write_metrics(status)

    with caplog.at_level(logging.DEBUG, "palio"):
        run(test)
    lines = [vars(each) for each in caplog.records if each.name == "palio.refusals"]
    assert [each["kind"] for each in lines] == ["not authenticated", "not permitted"]
    assert lines[1]["who"] == "desk"
    assert "guessed" not in str(lines)
    assert {"came", "left"} <= {each.getMessage() for each in caplog.records}


def test_of_many_refusals_of_one_kind_a_line_says_how_many_there_were(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 1.0, 2.0, 6.0, 6.5])
    refusals = RefusalLog(lambda: next(times))
    for _ in range(5):
        refusals.note(NotPermitted("desk", "publish that", "no grant"), "desk")
    assert [vars(each)["count"] for each in caplog.records] == [1, 3]
    assert refusals.counts == {"not permitted": 5}
