"""From a rule to a filter: its detections under the names that its log source has in the events.

Sigma has two truth values, so a tree is made once as what holds and, where NOT is on the way, as what fails; both have
one leaf per question that was asked. Nothing is multiplied out: a rule whose disjunctive form has 10^10 terms has a
tree as large as the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from palio.events.names import join_path, split_path
from palio.filters.filter import Filter
from palio.filters.tree import And, Node, Or
from palio.languages.sigma.detections import DetectionError, fields_in, read_detection
from palio.languages.sigma.formulas import All, Any, Ask, Formula, Not
from palio.languages.sigma.logsources import LogSources, Place
from palio.languages.sigma.meanings import Every, Meaning, Values
from palio.languages.sigma.rule import Rule, Source
from palio.languages.sigma.values import meaning_of, refers_to, search_for

if TYPE_CHECKING:
    from sigma.types import SigmaType

_MOST_DOTS: Final = 3  # each doubles the ways to read a name


def lower_rule(rule: Rule, logsources: LogSources, timezone: str) -> Filter:
    """The filter of a rule, whose log source is found as a mapping says."""
    try:
        places = logsources.places(rule.logsource)
    except ValueError as error:
        raise rule.source.refuse(("logsource",), str(error)) from None
    used = set(fields_in(rule.formula))
    # Places that give the fields of the rule the same names share its detections.
    by_names: dict[tuple[tuple[str, tuple[str, ...]], ...], list[Place]] = {}
    for place in places:
        named = tuple(sorted((field, names) for field, names in place.names.items() if field in used))
        by_names.setdefault(named, []).append(place)
    groups = [_Group(dict(named), alike, rule, timezone) for named, alike in by_names.items()]
    return Filter(Or(tuple(each.holds() for each in groups)), lambda: And(tuple(each.fails() for each in groups)))


@dataclass(frozen=True)
class _Group:
    """A rule in the places where its fields have the same names."""

    names: Mapping[str, tuple[str, ...]]
    places: Sequence[Place]
    rule: Rule
    timezone: str

    def holds(self) -> Node:
        found = Or(tuple(And(tuple(self._where(place, True))) for place in self.places))
        return And((found, self._rule.lower(self.rule.formula, True)))

    def fails(self) -> Node:
        found = And(tuple(Or(tuple(self._where(place, False))) for place in self.places))
        return Or((found, self._rule.lower(self.rule.formula, False)))

    @property
    def _rule(self) -> _Lowering:
        return _Lowering(self.names, self.rule.source, self.timezone)

    def _where(self, place: Place, wanted: bool) -> list[Node]:
        lowering = _Lowering(place.names, self.rule.source, self.timezone)
        return [lowering.lower(self._condition(each), wanted) for each in place.conditions]

    def _condition(self, definition: Mapping[str, object]) -> Formula:
        """A condition of the mapping; what is wrong with it is said of the log source that led to it."""
        try:
            return read_detection(dict(definition), ("logsource",))
        except DetectionError as error:
            reason = f"the mapping asks {dict(definition)}: {error.reason}"
            raise self.rule.source.refuse(("logsource",), reason, error.hint) from None


@dataclass(frozen=True)
class _Lowering:
    names: Mapping[str, tuple[str, ...]]
    source: Source
    timezone: str

    def lower(self, formula: Formula, wanted: bool) -> Node:
        """The tree of the events for which a formula holds, or fails."""
        match formula:
            case Not(part):
                return self.lower(part, not wanted)
            case All(parts) | Any(parts):
                nodes = tuple(self.lower(part, wanted) for part in dict.fromkeys(parts))
                return And(nodes) if isinstance(formula, All) == wanted else Or(nodes)
            case Ask():
                nodes = tuple(each.holds if wanted else each.fails for each in self._meanings(formula))
                return Or(nodes) if wanted else And(nodes)

    def _meanings(self, ask: Ask) -> list[Meaning]:
        """What a question means of each attribute that its field may be; sets of one attribute's values are united."""
        found: list[Meaning] = []
        united: dict[str, Values] = {}
        for value in ask.values or (None,):
            try:
                for meaning in self._of_value(ask, value):
                    if isinstance(meaning, Values):
                        known = united.get(meaning.attribute)
                        united[meaning.attribute] = meaning if known is None else known.union(meaning)
                    else:
                        found.append(meaning)
            except ValueError as error:
                raise self.source.refuse(ask.path, str(error)) from None
        return [*united.values(), *found]

    def _of_value(self, ask: Ask, value: SigmaType | None) -> list[Meaning]:
        from sigma.types import SigmaExists, SigmaExpansion, SigmaFieldReference, SigmaNull

        if isinstance(value, SigmaExpansion):
            return [meaning for each in value.values for meaning in self._of_value(ask, each)]
        if ask.field is None:
            if value is None:
                raise ValueError("null is the value of a field; here no field is named")
            return [search_for(value)]
        attributes = self._attributes(ask.field)
        if isinstance(value, SigmaFieldReference):
            others = self._attributes(value.field)
            return [refers_to(mine, value, other, ask.cased) for mine in attributes for other in others]
        wanted = SigmaNull() if value is None else value
        meanings = [meaning_of(attribute, wanted, self.timezone) for attribute in attributes]
        if isinstance(wanted, SigmaNull) or (isinstance(wanted, SigmaExists) and not wanted.exists):
            return [Every(tuple(meanings))] if len(meanings) > 1 else meanings  # absent under all its names
        return meanings

    def _attributes(self, field: str) -> list[str]:
        """The attributes a field may be; a dot in its name leads into an object, or is part of a name in the event."""
        mapped = self.names.get(field)
        if mapped is None:
            return [join_path(names) for names in _readings(field)]
        return [join_path(split_path(each)) for each in mapped]


def _readings(field: str) -> list[list[str]]:
    """The ways to read the dots of a name, all as steps first; of many dots, all as steps or none."""
    first, *rest = field.split(".")
    if len(rest) > _MOST_DOTS:
        return [[first, *rest], [field]]
    found = [[first]]
    for step in rest:
        found = [*([*names, step] for names in found), *([*names[:-1], f"{names[-1]}.{step}"] for names in found)]
    return found
