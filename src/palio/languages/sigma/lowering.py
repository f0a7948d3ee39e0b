"""Lowering of Sigma rules to filters: detections under the names that the log source has in the events.

Sigma has two truth values, so a tree is made once as what holds and, where NOT is on the way, as what fails; both have
one leaf per predicate. Nothing is multiplied out: a rule whose disjunctive form has 10^10 terms has a tree as large as
the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from palio.events.names import dot_readings, join_path, split_path
from palio.filters.filter import Filter
from palio.filters.tree import And, Node, Or
from palio.languages.grammar import SPLIT_HINT, too_many_conditions
from palio.languages.sigma.logsources import LogSourceMapping, LogSources
from palio.languages.sigma.parser import (
    AllOf,
    AnyOf,
    DetectionError,
    FieldTest,
    Formula,
    Not,
    Rule,
    RuleText,
    fields_in,
    parse_detection,
)
from palio.languages.sigma.predicates import (
    AllPredicates,
    Predicate,
    ValuePredicate,
    event_search,
    field_reference,
    pattern_of,
    predicate_of,
    text_predicate,
)

if TYPE_CHECKING:
    from sigma.types import SigmaString, SigmaType

_TEXTS: Final = ("SigmaString", "SigmaCasedString")  # types of pySigma, whose import takes as long as a text
_MAX_DOTS: Final = 3  # each doubles the ways to read a name


def lower_rule(rule: Rule, logsources: LogSources, timezone: str) -> Filter:
    """The filter of a rule, whose log source is looked up in the mappings."""
    try:
        mappings = logsources.mappings(rule.logsource)
    except ValueError as error:
        raise rule.source.refuse(("logsource",), str(error)) from None
    used = set(fields_in(rule.formula))
    # Mappings that give the rule's fields the same names share one copy of its detections.
    by_names: dict[tuple[tuple[str, tuple[str, ...]], ...], list[LogSourceMapping]] = {}
    for mapping in mappings:
        named = tuple(sorted((field, names) for field, names in mapping.names.items() if field in used))
        by_names.setdefault(named, []).append(mapping)
    groups = [_MappedRule(dict(named), alike, rule, timezone) for named, alike in by_names.items()]
    holds = Or(tuple(each.holds() for each in groups))
    refusal = too_many_conditions(holds, "rule")
    if refusal is not None:
        raise rule.source.refuse(("detection",), refusal, SPLIT_HINT)
    return Filter.of_tree(holds, lambda: And(tuple(each.fails() for each in groups)))


@dataclass(frozen=True)
class _MappedRule:
    """A rule with the mappings of its log source that give its fields the same names."""

    names: Mapping[str, tuple[str, ...]]
    mappings: Sequence[LogSourceMapping]
    rule: Rule
    timezone: str

    def holds(self) -> Node:
        in_log_source = Or(tuple(And(self._lower_conditions(mapping, True)) for mapping in self.mappings))
        return And((in_log_source, self._rule.lower(self.rule.formula, True)))

    def fails(self) -> Node:
        outside_log_source = And(tuple(Or(self._lower_conditions(mapping, False)) for mapping in self.mappings))
        return Or((outside_log_source, self._rule.lower(self.rule.formula, False)))

    @property
    def _rule(self) -> _FormulaLowering:
        return _FormulaLowering(self.names, self.rule.source, self.timezone)

    def _lower_conditions(self, mapping: LogSourceMapping, wanted: bool) -> tuple[Node, ...]:
        lowered = mapping.lowered.get((self.timezone, wanted))
        if lowered is None:
            lowering = _FormulaLowering(mapping.names, self.rule.source, self.timezone)
            lowered = tuple(lowering.lower(self._condition(each), wanted) for each in mapping.conditions)
            mapping.lowered[self.timezone, wanted] = lowered
        return lowered

    def _condition(self, definition: Mapping[str, object]) -> Formula:
        """The formula of a condition of the mapping; an error in it is reported at the rule's log source."""
        try:
            return parse_detection(dict(definition), ("logsource",))
        except DetectionError as error:
            reason = f"the mapping asks {dict(definition)}: {error.reason}"
            raise self.rule.source.refuse(("logsource",), reason, error.hint) from None


@dataclass(frozen=True)
class _FormulaLowering:
    names: Mapping[str, tuple[str, ...]]
    source: RuleText
    timezone: str

    def lower(self, formula: Formula, wanted: bool) -> Node:
        """The tree of the events for which a formula holds, or fails."""
        match formula:
            case Not(part):
                return self.lower(part, not wanted)
            case AllOf(parts) | AnyOf(parts):
                # Formulas compare by identity: a condition may name one detection several times.
                nodes = tuple(self.lower(part, wanted) for part in dict.fromkeys(parts))
                return And(nodes) if isinstance(formula, AllOf) == wanted else Or(nodes)
            case FieldTest():
                nodes = tuple(each.holds if wanted else each.fails for each in self._predicates(formula))
                return Or(nodes) if wanted else And(nodes)

    def _predicates(self, test: FieldTest) -> list[Predicate]:
        """The predicates of a test, for each attribute its field may be; sets of one attribute's values are united."""
        others: list[Predicate] = []
        by_attribute: dict[str, list[ValuePredicate]] = {}
        for value in test.values or (None,):
            try:
                for predicate in self._value_predicates(test, value):
                    if isinstance(predicate, ValuePredicate):
                        by_attribute.setdefault(predicate.attribute, []).append(predicate)
                    else:
                        others.append(predicate)
            except ValueError as error:
                raise self.source.refuse(test.path, str(error)) from None
        return [*map(ValuePredicate.any_of, by_attribute.values()), *others]

    def _value_predicates(self, test: FieldTest, value: SigmaType | None) -> list[Predicate]:
        if test.field is not None and type(value).__name__ in _TEXTS:  # as nearly all are
            pattern = pattern_of(cast("SigmaString", value))
            return [text_predicate(attribute, pattern) for attribute in self._attributes(test.field)]
        from sigma.types import SigmaExists, SigmaExpansion, SigmaFieldReference, SigmaNull

        if isinstance(value, SigmaExpansion):
            return [predicate for each in value.values for predicate in self._value_predicates(test, each)]
        if test.field is None:
            if value is None:
                raise ValueError("null is the value of a field; here no field is named")
            return [event_search(value)]
        attributes = self._attributes(test.field)
        if isinstance(value, SigmaFieldReference):
            others = self._attributes(value.field)
            return [field_reference(mine, value, other, test.cased) for mine in attributes for other in others]
        wanted = SigmaNull() if value is None else value
        predicates = [predicate_of(attribute, wanted, self.timezone) for attribute in attributes]
        wants_absence = isinstance(wanted, SigmaNull) or (isinstance(wanted, SigmaExists) and not wanted.exists)
        # Predicates are alternatives, but a field is absent only if it is absent under all its names.
        return [AllPredicates(tuple(predicates))] if wants_absence and len(predicates) > 1 else predicates

    def _attributes(self, field: str) -> Sequence[str]:
        """The attributes a field may be."""
        mapped = self.names.get(field)
        return _readings(field) if mapped is None else [join_path(split_path(each)) for each in mapped]


@lru_cache(maxsize=4096)
def _readings(field: str) -> tuple[str, ...]:
    """The attributes of a name; a dot in it leads into an object, or is part of a name in the event."""
    # Of many dots, all are steps or none is: the readings double with each dot.
    few = field.count(".") <= _MAX_DOTS
    return tuple(map(join_path, dot_readings(field) if few else [tuple(field.split(".")), (field,)]))
