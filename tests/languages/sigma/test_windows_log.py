"""Events of the Windows event log, as what turns them into JSON leaves them, become what rules speak of."""

from __future__ import annotations

from typing import Any

import pytest

from palio.languages.sigma import flatten_windows_event

SYSTEM = {
    "Provider": {"#attributes": {"Name": "Sysmon", "Guid": "{1}"}},
    "EventID": {"#text": 1, "#attributes": {"Qualifiers": ""}},
    "Channel": "Security",
    "Correlation": None,
}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        (
            {"#attributes": {"xmlns": "x"}, "System": SYSTEM, "EventData": {"Image": "a", "Channel": "own"}},
            {
                "Image": "a", "Channel": "own", "Provider_Name": "Sysmon", "Provider_Guid": "{1}", "EventID": 1,
                "EventID_Qualifiers": "", "Correlation": None,
            },
        ),
        ({"Event": {"EventData": {"Image": "a"}}}, {"Image": "a"}),
        (
            {"UserData": {"Operation": {"#attributes": {"xmlns": "x"}, "User": "a", "Deep": {"Er": 1}}}},
            {"User": "a", "Er": 1},
        ),
        (
            {"EventData": {"Data": [{"#attributes": {"Name": "Image"}, "#text": "a"}, {"@Name": "B", "#text": 2}]}},
            {"Image": "a", "B": 2},
        ),
        ({"EventData": {"Data": ["one", "two"]}}, {"Data": ["one", "two"]}),
        ({"EventData": {"Data": {"#text": "one"}}}, {"Data": "one"}),
        ({"EventData": {"Image": {"#text": "a", "#attributes": {"x": 1}}}}, {"Image": "a"}),
        ({"EventData": None, "System": None}, {}),
        ({"EventData": "text"}, {}),
    ],
)  # fmt: skip
def test_an_event_is_made_flat(event: dict[str, Any], expected: dict[str, Any]) -> None:
    assert flatten_windows_event(event) == expected


def test_an_event_that_nests_without_end_ends() -> None:
    deep: dict[str, Any] = {"x": 1}
    for _ in range(5_000):
        deep = {"a": deep}
    assert flatten_windows_event({"EventData": deep}) == {}
