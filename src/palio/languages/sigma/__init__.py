"""Sigma's detection rules as conditions; `docs/languages/sigma.md` is the specification.

Needs the extra `sigma` (pySigma, which knows the rules' values and modifiers). `parse` makes a filter of one rule,
`read_rules` reads a collection of rules, and `flatten_windows_event` gives a Windows event the field names of rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from palio.filters.filter import Filter
from palio.languages.sigma.rule_files import RefusedRule, Rules, SigmaRule, read_rules
from palio.languages.sigma.windows_log import flatten_windows_event

__all__ = ["RefusedRule", "Rules", "SigmaRule", "flatten_windows_event", "parse", "read_rules"]


def parse(
    condition: Any,
    *,
    logsources: Mapping[str, Any] | str | PathLike[str] | Any = None,
    timezone: str = "UTC",
) -> Filter:
    """The filter of a rule, given as YAML text or as the dict that was read from it.

    `logsources` says in which events the rule's log source is found, see `palio.languages.sigma.logsources`; without
    it, Windows' own channels and event ids are known. Parts of a time (`|hour`) are read in `timezone`.
    """
    from palio.languages.sigma.logsources import LogSources
    from palio.languages.sigma.lowering import lower_rule
    from palio.languages.sigma.parser import parse_rule

    return lower_rule(parse_rule(condition), LogSources.read(logsources), timezone)
