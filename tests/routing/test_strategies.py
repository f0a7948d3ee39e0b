"""Strategies with typed options: what they refuse, and that they mean what options by name mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import palio.simulation
from palio import IllegalCombination, InvalidArgument
from palio.routing.combinations import Combination
from palio.routing.link_sessions import NetworkConstants
from palio.routing.strategies import (
    CRASH_LOG_TYPES,
    FORWARDING_TYPES,
    LOCAL_OPTIONS,
    OPTION_TYPES,
    PATH_UPKEEP_TYPES,
    PROPAGATION_TYPES,
    TABLE_UPKEEP_TYPES,
    Bloom,
    BrokerOptions,
    Covering,
    Merging,
    Options,
    Prefix,
    Reuse,
    SimulationOptions,
    options_help,
)
from palio.simulation import Network


@pytest.mark.parametrize(
    ("kind", "option", "said"),
    [
        (Reuse, {"n": 0}, "n is a whole number from 1 on, not 0"),
        (Reuse, {"n": "20"}, "n is a whole number, not '20'"),
        (Reuse, {"n": True}, "n is a whole number, not True"),
        (Reuse, {"mode": "sometimes"}, "there is no mode 'sometimes'; known are never, always, partial"),
        (Merging, {"slack": 1.5}, "slack is a share from 0 to 1, not 1.5"),
        (Covering, {"epsilon": 1}, "epsilon is a share from 0 to below 1, not 1"),
        (Covering, {"index": "hash"}, "there is no index 'hash'; known are adaptive, linear, columnar, counting"),
        (Prefix, {"patience": float("nan")}, "patience is a number, not nan"),
        (Prefix, {"optimiser": -1}, "optimiser is true, false or the number of a broker from 0 on, not -1"),
        (Bloom, {"m": 64.0}, "m is a whole number, not 64.0"),
        (BrokerOptions, {"trees": "any"}, "there is no trees 'any'; known are shared, publisher"),
        (SimulationOptions, {"loss": 1.0}, "loss is a share from 0 to below 1, not 1.0"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused_with_what_would_be_right(
    kind: type[Options], option: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        kind(**option)
    assert said in str(refused.value)


def test_an_option_of_another_strategy_is_refused_with_the_strategies_that_have_it() -> None:
    with pytest.raises(IllegalCombination, match="n is an option of reuse forwarding"):
        Combination("simple", "content", options={"n": 3})
    with pytest.raises(IllegalCombination, match="index is an option of covering and merging propagation"):
        Combination("simple", "content", options={"index": "linear"})
    with pytest.raises(InvalidArgument, match=r"there is no option 'indexx' of a network; did you mean index\?"):
        Combination("covering", options={"indexx": "linear"})


def test_typed_options_are_options_by_name() -> None:
    by_name = Network.line(2, propagation="merging", forwarding="reuse", options={"slack": 0.1, "n": 3, "delay": 0.5})
    typed = Network.line(
        2, propagation=Merging(slack=0.1), forwarding=Reuse(n=3), options=[SimulationOptions(delay=0.5)]
    )
    assert typed.combination == by_name.combination
    assert (typed.combination.spread, typed.combination.forward) == (Merging(slack=0.1), Reuse(n=3))
    assert typed.combination.simulation.delay == 0.5
    assert NetworkConstants.of(typed.combination) == NetworkConstants.of(by_name.combination)


def test_options_of_one_broker_are_no_constants_of_the_network() -> None:
    made = Combination("covering", "prefix", options={"index": "linear", "optimiser": True, "threshold": 0.1})
    values = NetworkConstants.of(made).values
    assert "threshold" in values
    assert not LOCAL_OPTIONS & values.keys()


def test_help_lists_every_option_once_with_its_values() -> None:
    listed = "\n".join(options_help(OPTION_TYPES))
    assert "merging propagation: those of covering, slack=0.0" in listed
    assert "index=adaptive|linear|columnar|counting|kdtree|curve" in listed
    assert "structure=table|sbstree|counting|skiptree" in listed
    assert "every broker: queue=10000" in listed


def test_every_strategy_is_public_and_may_be_given_by_its_type() -> None:
    axes: dict[str, Mapping[str, type[Options]]] = {
        "propagation": PROPAGATION_TYPES,
        "forwarding": FORWARDING_TYPES,
        "tables": TABLE_UPKEEP_TYPES,
        "crash_log": CRASH_LOG_TYPES,
        "paths": PATH_UPKEEP_TYPES,
    }
    for axis, types in axes.items():
        for name, kind in types.items():
            assert kind.__name__ in palio.simulation.__all__
            given: dict[str, Any] = {"propagation": "simple", axis: kind()}
            if name == "redundant":
                given |= {"forwarding": "group", "options": BrokerOptions(trees="publisher", circles=True)}
            net = Network.line(2, **given)
            assert getattr(net.combination, axis) == name


def test_one_typed_option_needs_no_list() -> None:
    assert Network.line(2, options=BrokerOptions(queue=7)).combination.broker.queue == 7
