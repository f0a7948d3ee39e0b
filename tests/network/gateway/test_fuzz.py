"""Random requests to the API: no answer is an internal error, and no caller sees data of another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palio import Filter
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from tests.network.processes import served

SECRET = "xyzzy-of-the-owner"
OFTEN = settings(
    max_examples=settings.default.max_examples // 10, deadline=None, suppress_health_check=list(HealthCheck)
)


class Guarded:
    """A real broker that keeps a secret, and the token of somebody who may do a little."""

    def __init__(self, url: str, visitor: str) -> None:
        self.url = url
        self.visitor = visitor

    def check(self, response: Any) -> None:
        """What must hold for every answer to a visitor or a stranger."""
        assert response.status_code < 500, response.text
        assert SECRET not in response.text
        assert SECRET not in str(response.headers)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    data = tmp_path_factory.mktemp("guarded") / "data"
    tokens = Tokens(data)
    owner = tokens.add(unrestricted(SECRET))
    visitor = tokens.add(Principal("visitor", may_subscribe=Filter.parse("public"), may_publish=Filter.everything))
    with served("--http", "127.0.0.1:0", data=str(data)) as broker:
        httpx.post(f"{broker.http}/events", json={"secret": SECRET}, headers={"Authorization": f"Bearer {owner}"})
        yield Guarded(broker.http, visitor)


@pytest.fixture(scope="module")
def api(guarded: Guarded) -> Any:
    return schemathesis.openapi.from_url(f"{guarded.url}/openapi.json")


# A stream does not end; it has a test of its own.
schema = schemathesis.pytest.from_fixture("api").exclude(path="/events", method="GET")


@schema.parametrize()
@OFTEN
def test_visitors_get_answers_and_no_secrets(case: Any, guarded: Guarded) -> None:
    guarded.check(case.call(headers={"Authorization": f"Bearer {guarded.visitor}"}))


@schema.parametrize()
@OFTEN
def test_strangers_get_no_secrets(case: Any, guarded: Guarded) -> None:
    response = case.call(headers={"Authorization": "Bearer palio_00000000_x"})
    guarded.check(response)
    if case.path not in ("/health", "/ready"):
        assert response.status_code >= 400


TEXTS = st.text(max_size=40)
HEADER = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40).map(str.strip)


@OFTEN
@given(
    st.dictionaries(st.sampled_from(["where", "language", "durable", "ticket", "other"]), TEXTS),
    st.one_of(st.none(), HEADER),
)
def test_streams_are_opened_or_refused(guarded: Guarded, parameters: dict[str, str], last: str | None) -> None:
    headers = {"Authorization": f"Bearer {guarded.visitor}"} | ({} if last is None else {"Last-Event-ID": last})
    with httpx.stream("GET", f"{guarded.url}/events", params=parameters, headers=headers) as response:
        if response.status_code != 200:
            response.read()
            guarded.check(response)
        else:
            assert response.headers["content-type"].startswith("text/event-stream")


@OFTEN
@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]),
    st.sampled_from(
        ["/events", "/subscriptions", "/subscriptions/%00", "/tickets", "/static/../app.py", "/nowhere", "//"]
    ),
    st.dictionaries(st.sampled_from(["Content-Type", "Origin", "Prefer", "ce-id", "Expect", "Authorization"]), HEADER),
    st.binary(max_size=200),
)
def test_whatever_is_sent_is_answered(
    guarded: Guarded, method: str, path: str, headers: dict[str, str], body: bytes
) -> None:
    if method == "GET" and path == "/events":
        headers["Authorization"] = "Bearer nobody"
    with contextlib.suppress(httpx.RemoteProtocolError):  # what is no request may be answered by closing
        guarded.check(httpx.request(method, guarded.url + path, headers=headers, content=body))
    assert httpx.get(f"{guarded.url}/health").status_code == 200
