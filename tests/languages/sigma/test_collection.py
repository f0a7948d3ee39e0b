"""The rules that people publish become filters, and fire on the events that were published with them."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from palio.languages.sigma import flatten_windows_event, read_rules

ARCHIVE = "subscriptions/sigma_rules.tar.xz"
PAIRS = "subscriptions/sigma_regression_pairs.jsonl.xz"
# Not among these: what its authors call unsupported or deprecated, and rules with placeholders for others to fill in.
ACTIVE = ["rules", "rules-compliance", "rules-emerging-threats", "rules-threat-hunting"]


def test_rules_of_a_folder_become_filters(data_folder: Path) -> None:
    found = read_rules(data_folder / ARCHIVE, folders=["rules-threat-hunting", "rules-compliance", "rules-placeholder"])
    assert len(found) > 100
    assert [each for each in found.refused if "placeholder" not in each.reason] == []
    assert {str(each.filter) for each in found if each.filter.attributes} != set()


@pytest.mark.deep
def test_nearly_all_rules_become_filters_and_all_published_pairs_fire(data_folder: Path) -> None:
    found = read_rules(data_folder / ARCHIVE, folders=ACTIVE)
    assert len(found) > 3_700
    assert len(found.refused) <= 0.005 * len(found)
    filters = {each.id: each.filter for each in found}
    silent, pairs = [], 0
    with lzma.open(data_folder / PAIRS) as lines:
        for line in lines:
            pair = json.loads(line)
            pairs += 1
            events = [flatten_windows_event(event) for event in pair["events"]]
            if sum(map(filters[pair["rule_id"]].matches, events)) < pair["min_matches"]:
                silent.append(pair["title"])
    assert pairs == 202
    assert silent == []
