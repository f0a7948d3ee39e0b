"""`palio simulate`: the table of costs, the drawing, the exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio
from palio.cli.simulation_run import cost_of, print_costs
from palio.simulation import Network

SMALL = ["--brokers", "6", "--subscriptions", "20", "--events", "100"]


def simulate(*arguments: str) -> Result:
    command = ["simulate", *SMALL, *arguments]
    if "--draw" not in arguments:
        command.append("--no-draw")
    return CliRunner(env={"COLUMNS": "120"}).invoke(palio, command)


def test_a_table_with_a_line_for_each_strategy(tmp_path: Path) -> None:
    answer = simulate("--propagation", "all")
    assert answer.exit_code == 0
    for propagation in ("flooding", "simple", "identity", "covering", "merging"):
        assert f"{propagation}, content" in answer.stdout
    assert "Every delivery is what flooding would have delivered." in answer.stdout
    assert answer.stdout.startswith("6 brokers, 5 links, seed 0\n")


def test_json_has_a_line_for_each_strategy_and_a_seed_gives_one_hash(tmp_path: Path) -> None:
    answers = [simulate("--forwarding", "content", "--forwarding", "bloom", "--json", "--seed", "3") for _ in range(2)]
    lines = [[json.loads(line) for line in answer.stdout.splitlines()] for answer in answers]
    assert [each["forwarding"] for each in lines[0]] == ["content", "bloom"]
    assert [each["hash"] for each in lines[0]] == [each["hash"] for each in lines[1]]
    assert lines[0][0]["deliveries"] == lines[0][1]["deliveries"]
    assert lines[0][0]["event_messages"] > 0


@pytest.mark.parametrize("name", ["net.svg", "net.png"])
def test_the_network_is_drawn(tmp_path: Path, name: str) -> None:
    answer = simulate("--topology", "mesh", "--draw", str(tmp_path / name))
    assert answer.exit_code == 0
    assert f"drawn in {tmp_path / name}" in answer.stderr
    picture = (tmp_path / name).read_bytes()
    if name.endswith("png"):
        assert picture.startswith(b"\x89PNG")
    else:
        assert b"messages over 8 links" in picture


@pytest.mark.parametrize("shape", ["line", "star", "random", "transit-stub"])
def test_shapes(tmp_path: Path, shape: str) -> None:
    assert simulate("--topology", shape).exit_code == 0


def test_a_network_from_a_file_with_advertisements_over_links_that_lose(tmp_path: Path) -> None:
    file = tmp_path / "net.json"
    nodes = [{"id": "a", "name": "Oslo"}, {"id": "b", "name": "Rome"}]
    file.write_text(json.dumps({"nodes": nodes, "edges": [{"source": "a", "target": "b", "dist": 2000.0}]}))
    answer = simulate("--topology", str(file), "--advertisements", "--option", "loss=0.2")
    assert answer.exit_code == 0
    assert "2 brokers, 1 link, with advertisements, seed 0" in answer.stdout


def test_large_numbers_fit_into_eighty_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    net = Network.line(2)
    large = replace(cost_of(net, 1.0), subscription_messages=123_456, subscription_bytes=9_876_000, filters=49_210)
    large = replace(large, event_messages=123_456, event_bytes=98_765_000)
    print_costs([large], net.topology, net)
    told = capsys.readouterr().out
    assert "…" not in told
    assert "identity, content  123,456  9,876  123,456  98,765" in told


def test_hosts_whose_round_trips_were_measured(tmp_path: Path) -> None:
    file = tmp_path / "times"
    file.write_text("0 10 30\n10 0 20\n30 20 0\n")
    answer = CliRunner().invoke(palio, ["simulate", "--topology", str(file), "--events", "5", "--no-draw"])
    assert answer.stdout.startswith("3 brokers, 2 links,")
    assert simulate("--topology", str(file), "--brokers", "2").stdout.startswith("2 brokers, 1 link,")


@pytest.mark.parametrize("arrivals", ["periodic", "poisson", "bursts", "recorded"])
def test_events_in_time_while_subscribers_come_and_go(arrivals: str) -> None:
    chosen = ["--arrivals", arrivals, "--rate", "50", "--stay", "1", "--placement", "popular", "--json"]
    [first, again] = [json.loads(simulate(*chosen).stdout) for _ in range(2)]
    assert first["verdict"].startswith("right")
    assert first["hash"] == again["hash"]
    assert first["virtual_seconds"] == pytest.approx(2, rel=0.5)
    staying = json.loads(simulate("--json").stdout)
    assert first["subscription_messages"] > 2 * staying["subscription_messages"]


def test_something_generated() -> None:
    answer = simulate("--workload", "shen", "--json")
    assert answer.exit_code == 0
    assert json.loads(answer.stdout)["deliveries"] > 0


def test_the_stocks_of_padres(data_folder: Path) -> None:
    files = ["events/padres_stockquotes_245k.txt.xz", "subscriptions/padres_subscriptions_11.9k.tar.xz"]
    chosen = ["--padres", *(str(data_folder / each) for each in files), "--advertisements", "--placement", "alike"]
    answer = simulate(*chosen, "--propagation", "covering", "--propagation", "identity", "--json")
    covering, identity = map(json.loads, answer.stdout.splitlines())
    assert covering["deliveries"] == identity["deliveries"] > 0
    assert covering["filters"] < identity["filters"]
    assert answer.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--stay", "3"], "give --arrivals as well"),
        (["--propagation", "covering", "--forwarding", "bloom"], "is not possible"),
        (["--topology", "cube"], "there is no topology 'cube'"),
        (["--option", "loss"], "an option is NAME=VALUE"),
        (["--option", "loss=9"], "loss is a share from 0 to below 1, not 9"),
        (["--option", "delay=abc"], "delay is a number, not 'abc'"),
        (["--option", "queue=abc"], "queue is a whole number, not 'abc'"),
        (["--option", "los=0.1"], "there is no option 'los' of a network; did you mean loss?"),
        (["--option", "jitter=nan"], "jitter is a number, not nan"),
        (["--draw", "net.gif"], "ends with .svg or .png"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    answer = simulate(*arguments)
    assert answer.exit_code == 2
    assert said in answer.stderr


def test_a_file_that_is_no_network_is_named(tmp_path: Path) -> None:
    file = tmp_path / "net.json"
    file.write_text("[]")
    answer = simulate("--topology", str(file))
    assert answer.exit_code == 2
    assert "net.json" in answer.stderr


def test_of_several_strategies_those_that_do_not_go_together_are_left_out(tmp_path: Path) -> None:
    answer = simulate("--propagation", "flooding", "--forwarding", "all")
    assert answer.exit_code == 0
    assert answer.stderr.count("left out: ") == 4


@pytest.mark.parametrize("content", ["", "[1, 2]", "{}", '{"nodes": [{"id": 1}], "edges": [{"source": 1}]}'])
def test_a_file_that_is_no_network_is_refused_and_told_what_one_is(tmp_path: Path, content: str) -> None:
    file = tmp_path / "net.json"
    file.write_text(content)
    answer = simulate("--topology", str(file))
    assert answer.exit_code != 0
    assert 'it is a JSON object with a list of "nodes"' in " ".join(answer.stderr.split())


def test_corrupted_tables_are_right_again_within_the_rounds_that_this_may_take() -> None:
    answer = simulate("--corrupt", "20%", "--upkeep", "stabilising", "--json")
    assert answer.exit_code == 0, answer.output
    recovery = json.loads(answer.stdout)
    first, *_, last = recovery["rounds"]
    assert first["missing_entries"] > 0
    assert first["wrong_entries"] > 0
    assert [last[name] for name in ("missing_entries", "wrong_entries", "missed", "unwanted")] == [0, 0, 0, 0]
    assert last["round"] == recovery["bound"]
    assert recovery["healed_after"] <= recovery["bound"]
    assert recovery["idle_messages_per_minute"] > 0


def test_a_recovery_is_a_table_with_a_line_for_each_round() -> None:
    answer = simulate("--corrupt", "0.5", "--tables", "stabilising", "--option", "round_period=5")
    assert answer.exit_code == 0, answer.output
    assert "changes corrupted the tables of all brokers" in answer.stdout
    assert "All tables and deliveries are right after" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--corrupt", "20%"), "add --upkeep stabilising"),
        (("--corrupt", "120%", "--upkeep", "stabilising"), "is no share"),
        (("--corrupt", "many", "--upkeep", "stabilising"), "is no share"),
        (("--propagation", "covering", "--upkeep", "stabilising", "--option", "graph=lazy"), "order in which"),
    ],
)
def test_what_cannot_be_corrupted_or_stabilised_is_refused(arguments: tuple[str, ...], reason: str) -> None:
    answer = simulate(*arguments)
    assert answer.exit_code == 2
    assert reason in " ".join((answer.output + str(answer.exception)).split())
