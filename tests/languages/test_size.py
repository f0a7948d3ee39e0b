"""Tests of the number of conditions that one text may have, in every language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palio import Filter, ParseError
from palio.languages.grammar import MAX_CONDITIONS

Writer = Callable[[int], Any]


def _sigma(count: int) -> dict[str, Any]:
    fields = {f"f{n}": f"v{n}" for n in range(count)}
    source = {"product": "windows", "service": "security"}
    return {"title": "t", "logsource": source, "detection": {"k": fields, "condition": "k"}}


WRITERS: dict[str, Writer] = {
    "sql": lambda count: " OR ".join(f"a{n} = {n}" for n in range(count)),
    "cesql": lambda count: " OR ".join(f"a{n} = 'x'" for n in range(count)),
    "jms": lambda count: " OR ".join(f"a{n} = {n}" for n in range(count)),
    "cloudevents": lambda count: {"exact": {f"a{n}": "x" for n in range(count)}},
    "eventbridge": lambda count: {f"a{n}": [n] for n in range(count)},
    "sigma": _sigma,
}
LISTS: dict[str, Any] = {
    "sql": f"a IN ({', '.join(map(str, range(2 * MAX_CONDITIONS)))})",
    "cesql": f"a IN ({', '.join(map(str, range(2 * MAX_CONDITIONS)))})",
    "jms": f"a IN ({', '.join(repr(str(n)) for n in range(2 * MAX_CONDITIONS))})",
    "eventbridge": {"a": list(range(2 * MAX_CONDITIONS))},
}


@pytest.mark.parametrize("language", WRITERS)
def test_a_text_of_too_many_conditions_is_refused_with_their_number(language: str) -> None:
    with pytest.raises(ParseError, match=rf"has \d\d,\d\d\d .*, more than the {MAX_CONDITIONS:,} allowed") as refused:
        Filter.parse(WRITERS[language](MAX_CONDITIONS + 2), language)
    assert "split it into several subscriptions" in str(refused.value)


@pytest.mark.parametrize("language", WRITERS)
def test_a_text_of_many_conditions_is_read(language: str) -> None:
    assert Filter.parse(WRITERS[language](MAX_CONDITIONS // 2), language) != Filter.nothing


@pytest.mark.parametrize("language", LISTS)
def test_a_list_of_values_is_one_condition(language: str) -> None:
    assert Filter.parse(LISTS[language], language) != Filter.nothing
