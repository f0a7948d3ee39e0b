"""Model-based test: the matcher stays right under any sequence of operations.

A model of plain filters goes through the same additions, removals and replacements. The sizes at which the
matcher seals and merges are made small, so that a few steps reach every state of its segments.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from palio.errors import DuplicateSubscription, UnknownSubscription
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching import compaction, live_segment, segments
from palio.matching.matcher import Matcher
from tests.matching.suite import SORTS, as_table, ids_by_row, wait_for_merges
from tests.strategies import attributes, readable_conditions, scalar_attributes

_conditions = st.sampled_from(list(SORTS.values())) | readable_conditions(depth=2)
_SMALL = {"MAX_LIVE_WHEN_SETTLED": 1, "_QUIET_MATCHES": 2, "_MAX_LIVE_EVALUATIONS": 2, "QUIET_SECONDS": 0.001}


class MatcherMachine(RuleBasedStateMachine):
    """The matcher and its model, changed together."""

    ids: Bundle[str] = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self._folder = tempfile.TemporaryDirectory()
        self._files = 0
        self.matcher = Matcher()
        self.model: dict[str, Filter] = {}

    @initialize(small=st.booleans())
    def choose_sizes(self, small: bool) -> None:
        if small:
            self._patch.setattr(live_segment, "_MAX_SUBSCRIPTIONS", 6)
            for name, value in _SMALL.items():
                self._patch.setattr(segments, name, value)
            self._patch.setattr(compaction, "_MERGE_FACTOR", 2)
            self._patch.setattr(compaction, "_MAX_ABSORBED", 4)

    def teardown(self) -> None:
        wait_for_merges(self.matcher)
        self._patch.undo()
        self._folder.cleanup()

    @rule(target=ids, id=st.text(min_size=1, max_size=4), where=_conditions)
    def add(self, id: str, where: str) -> Any:
        if id in self.model:
            with pytest.raises(DuplicateSubscription):
                self.matcher.add(id, where)
            return multiple()
        self.matcher.add(id, where)
        self.model[id] = Filter.parse(where)
        return id

    @rule(target=ids, wheres=st.dictionaries(st.text(min_size=1, max_size=4), _conditions, min_size=1, max_size=8))
    def add_many(self, wheres: dict[str, str]) -> Any:
        if wheres.keys() & self.model.keys():
            with pytest.raises(DuplicateSubscription):
                self.matcher.add_many(wheres.keys(), wheres.values())
            return multiple()
        self.matcher.add_many(wheres.keys(), wheres.values())
        self.model.update({id: Filter.parse(where) for id, where in wheres.items()})
        return multiple(*wheres)

    @rule(id=consumes(ids))
    def remove(self, id: str) -> None:
        self.matcher.remove(id)
        del self.model[id]
        with pytest.raises(UnknownSubscription):
            self.matcher.remove(id)

    @rule(id=ids, where=_conditions)
    def replace(self, id: str, where: str) -> None:
        self.matcher.replace(id, where)
        self.model[id] = Filter.parse(where)

    @rule(event=attributes())
    def match(self, event: dict[str, Any]) -> None:
        assert self.matcher.match(Event(event)) == self._expected(Event(event))

    @rule(events=st.lists(attributes(), max_size=4))
    def match_rows(self, events: list[dict[str, Any]]) -> None:
        made = [Event(event) for event in events]
        assert ids_by_row(self.matcher.match_batch(made), len(made)) == [self._expected(event) for event in made]

    @rule(events=st.lists(scalar_attributes(), min_size=1, max_size=4))
    def match_columns(self, events: list[dict[str, Any]]) -> None:
        table = as_table([Event(event) for event in events])
        if table is not None:
            rows = list(Event.from_arrow(table))
            found = ids_by_row(self.matcher.match_batch(table), len(rows))
            assert found == [self._expected(event) for event in rows]

    @rule(copies=st.booleans())
    def save_and_open(self, copies: bool) -> None:
        self._files += 1
        path = Path(self._folder.name) / f"{self._files}.palio"
        self.matcher.save(path)
        opened = Matcher.open(path)
        if copies:
            self.matcher = opened

    @rule()
    def merge(self) -> None:
        self.matcher.merge()

    @invariant()
    def it_holds_what_the_model_holds(self) -> None:
        assert len(self.matcher) == len(self.model)
        assert set(self.matcher) == set(self.model)
        assert all(id in self.matcher for id in self.model)

    def _expected(self, event: Event) -> set[str]:
        return {id for id, each in self.model.items() if each.matches(event)}


TestMatcherMachine = MatcherMachine.TestCase
TestMatcherMachine.settings = settings(
    max_examples=max(10, settings.default.max_examples // 5) if settings.default else 20,
    stateful_step_count=30,
)
