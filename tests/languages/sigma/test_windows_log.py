"""Events of the Windows event log, as what turns them into JSON leaves them, become what rules speak of."""

from __future__ import annotations

from typing import Any

import pytest

from palio import Filter
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
                "Image": "a", "Channel": "Security", "Provider_Name": "Sysmon", "Provider_Guid": "{1}", "EventID": 1,
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
        ({"EventData": {"Data": ["one", None, 2]}}, {"Data": "one\n2"}),
        ({"EventData": {"Channel": "own"}}, {"Channel": "own"}),
        ({"System": {"Level": 4}, "UserData": {"Cleared": {"Level": 1}}}, {"Level": 1}),
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


def test_an_event_of_a_cleared_log_is_of_the_log_that_recorded_it() -> None:
    event = {
        "System": {"EventID": 104, "Channel": "System"},
        "UserData": {"LogFileCleared": {"SubjectUserName": "eve", "Channel": "Application"}},
    }
    rule = """
        title: Eventlog cleared
        logsource: {product: windows, service: system}
        detection: {selection: {EventID: 104}, condition: selection}
    """
    assert Filter.parse(rule, language="sigma").matches(flatten_windows_event(event))


def test_data_without_names_are_excluded_as_a_whole() -> None:
    system = {"EventID": 400, "Channel": "Windows PowerShell"}
    event = {"System": system, "EventData": {"Data": ["Started", "x", "HostName=ok"]}}
    rule = """
        title: Start
        logsource: {product: windows, category: ps_classic_start}
        detection:
            selection: {Data|contains: Started}
            filter: {Data|contains: HostName=ok}
            condition: selection and not filter
    """
    assert not Filter.parse(rule, language="sigma").matches(flatten_windows_event(event))
