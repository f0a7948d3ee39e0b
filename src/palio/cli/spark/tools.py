"""Commands `palio spark estimate`, `covering` and `generate`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.common_options import language_option
from palio.cli.html_report import report_option, write_page
from palio.cli.spark.event_source import FORMATS, read_events
from palio.cli.spark.job import Stopwatch, command_session, time_fact
from palio.cli.spark.options import session_options, split_pair
from palio.cli.spark.output_folder import OutputFolder, output_folder
from palio.cli.spark.subscription_checks import absent_facts, gather, refused_as_dicts, refused_facts
from palio.errors import InputError, InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from rich.console import Console

    from palio.spark.experiment_jobs import Kind
    from palio.spark.subscription_analysis import Estimate
    from palio.spark.subscriptions import Wants
    from palio.xml.synopsis import DocumentSynopsis

_MAX_SHOWN: Final = 10


@click.command()
@click.argument("condition")
@click.option(
    "--over", "archive", required=True, metavar="PATHS", help="The archive: 'events/*.parquet', a folder, a table."
)
@language_option(help="The language of the condition, and of subscriptions that do not name one.")
@click.option("--format", type=click.Choice(FORMATS), help="The format of the archive, if its name does not say.")
@click.option("--sample", type=click.IntRange(1), default=100_000, show_default=True, metavar="N",
              help="Approximate number of sampled events.")  # fmt: skip
@click.option("--xml", metavar="NAME", help="The column of XML texts that XPath asks about; by default xml.")
@click.option("--synopsis", "synopsis_file", metavar="FILE",
              help="A synopsis of documents, for a second estimate of an XPath; made if not there.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95,
              show_default=True, metavar="P", help="Confidence level of the interval.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the sample.")
@click.option(
    "--subscriptions", metavar="PATH", help="Existing subscriptions, to find those that match the same events."
)
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="How many of these to show.")  # fmt: skip
@session_options
@report_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def estimate(
    condition: str,
    archive: str,
    language: str,
    format: str | None,
    sample: int,
    xml: str | None,
    synopsis_file: str | None,
    confidence: float,
    seed: int,
    subscriptions: str | None,
    top: int,
    master: str | None,
    settings: dict[str, str],
    report: str | None,
    as_json: bool,
) -> None:
    """Estimate how often a condition matches, from a sample of an archive.

    \b
    Examples:
      palio spark estimate "price > 100" --over 'archive/*.parquet'
      palio spark estimate "status = 'failed'" --over db.orders --sample 1000000 --confidence 0.99
      palio spark estimate "price > 100" --over archive/ --subscriptions wants.jsonl
      palio spark estimate "//sec[2]/title" --language xpath --over articles/ --format xml

    An archive with no more events than the sample is counted exactly.
    """
    from palio.cli.spark.job import run
    from palio.filters.filter import Filter
    from palio.spark import estimate as estimate_on_spark
    from palio.spark.match_job import with_document
    from palio.spark.projection import project_attributes

    wanted = Filter.parse(condition, language)  # before Spark starts, which takes seconds
    times = Stopwatch()
    wants = None
    with command_session(master, settings, times) as spark:
        if subscriptions is not None:
            with times.measure("indexing"):
                wants = gather(spark, subscriptions, language)
        events = read_events(spark, archive, format)
        documents = events if xml is None else with_document(events, xml)
        known = None
        if synopsis_file is not None:
            with times.measure("synopsis"):
                known = _kept_synopsis(Path(synopsis_file), documents)
        absent = project_attributes(documents, wanted.attributes).absent
        with times.measure("estimating"):
            found = run(
                spark,
                "Estimating",
                lambda: estimate_on_spark(
                    events, condition, language=language, sample=sample, confidence=confidence, seed=seed,
                    subscriptions=wants, top=top, xml=xml,
                    synopsis=known,
                ),
            )  # fmt: skip
    facts = [*_estimate_facts(found, archive, confidence, times, wants), *absent_facts(absent)]
    if report is not None:
        from palio.cli.spark.match_report import estimate_page

        write_page(estimate_page(condition, facts, found, times.seconds), report)
    if as_json:
        refused = {} if wants is None else {"refused": refused_as_dicts(wants)}
        more = {"expected": found.expected, "absent": absent, **refused, "seconds": times.rounded}
        terminal.print_json({**asdict(found), **more})
    else:
        _print_estimate(terminal.results(), found, facts)


def _kept_synopsis(file: Path, documents: DataFrame) -> DocumentSynopsis:
    """The synopsis of a file, or that of the documents, which is then written there."""
    from palio.spark import synopsis
    from palio.xml.synopsis import DocumentSynopsis

    try:
        if file.exists():
            return DocumentSynopsis.from_json(file.read_text(encoding="utf-8"))
        made = synopsis(documents)
        file.write_text(made.to_json(), encoding="utf-8")
    except (OSError, UnicodeDecodeError, InvalidArgument) as error:
        raise InputError(str(file), str(error)) from None
    return made


def _print_estimate(console: Console, found: Estimate, facts: list[tuple[str, str]]) -> None:
    from rich.table import Column
    from rich.text import Text

    if found.overlaps:
        room = 24 if console.width >= terminal.WIDE_COLUMNS else 12
        table = terminal.table(
            "fires with", terminal.numbers("matches"), terminal.numbers("both"), terminal.numbers("alike"),
            Column("", width=room),
        )  # fmt: skip
        for each in found.overlaps:
            table.add_row(
                Text(each.id, style="name"), f"{each.matches:,}", f"{each.both:,}", terminal.percent(each.similarity),
                terminal.bar(each.similarity, room),
            )  # fmt: skip
        console.print(table)
        console.print()
    console.print(terminal.facts(facts))


def _estimate_facts(
    found: Estimate, archive: str, confidence: float, times: Stopwatch, wants: Wants | None
) -> Iterator[tuple[str, str]]:
    counted = f"{found.matches:,} of {terminal.plural(found.sampled, 'event')}"
    if found.sampled == found.events:
        yield "rate", f"{terminal.percent(found.rate)}, counted: {counted}"
    else:
        between = f"between {terminal.percent(found.low)} and {terminal.percent(found.high)}"
        yield "rate", f"{terminal.percent(found.rate)}, with {confidence:.4g} {between}"
        yield "sample", counted
        low, high = round(found.low * found.events), round(found.high * found.events)
        yield "expected", f"{found.expected:,} of the {found.events:,} in {archive}, between {low:,} and {high:,}"
    if found.by_synopsis is not None:
        yield "by synopsis", terminal.percent(found.by_synopsis)
    yield time_fact(times.seconds)
    if wants is not None:
        yield from refused_facts(wants)


@click.command()
@click.argument("subscriptions")
@click.option("--out", metavar="FOLDER", help="Write id and covered_by of every subscription there, as Parquet.")
@language_option()
@session_options
@report_option
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def covering(
    subscriptions: str,
    out: str | None,
    language: str,
    master: str | None,
    settings: dict[str, str],
    report: str | None,
    as_json: bool,
) -> None:
    """Find the subscriptions that another one covers.

    \b
    Examples:
      palio spark covering wants.jsonl
      palio spark covering db.wants --out covered/ --master spark://hub:7077

    A covered subscription matches nothing that the other does not match. Those that are left, the maximal ones,
    match every event that any subscription matches.
    """
    from palio.cli.spark.job import run
    from palio.spark import covering as covering_on_spark

    times = Stopwatch()
    with output_folder(out, subscriptions) as folder, command_session(master, settings, times) as spark:
        with times.measure("indexing"):
            wants = gather(spark, subscriptions, language)
        with times.measure("comparing"):
            found = run(spark, "Comparing", lambda: covering_on_spark(spark, wants))
            rows = found.toArrow()
        if folder is not None:
            with times.measure("writing"):
                folder.write(found)
    by = Counter(id for id in rows["covered_by"].to_pylist() if id is not None)
    covered, left = by.total(), rows.num_rows - by.total()
    facts = [
        ("subscriptions", f"{rows.num_rows:,}" + (f", in {out}" if out else "")),
        ("covered", f"{covered:,}"),
        ("left", f"{left:,}"),
        time_fact(times.seconds),
        *refused_facts(wants),
    ]
    if report is not None:
        from palio.cli.spark.match_report import covering_page

        write_page(covering_page(facts, covered, left, by.most_common(_MAX_SHOWN), times.seconds), report)
    if as_json:
        summary: dict[str, Any] = {
            "subscriptions": rows.num_rows, "maximal": left, "covered": covered,
            "widest": dict(by.most_common(_MAX_SHOWN)), "refused": refused_as_dicts(wants), "seconds": times.rounded,
        }  # fmt: skip
        terminal.print_json(summary)
        return
    _print_covering(by, facts)


def _print_covering(by: Counter[str], facts: list[tuple[str, str]]) -> None:
    from rich.table import Column
    from rich.text import Text

    console = terminal.results()
    if by:
        room = 24 if console.width >= terminal.WIDE_COLUMNS else 12
        table = terminal.table("covers most", terminal.numbers("others"), Column("", width=room))
        most = by.most_common(_MAX_SHOWN)
        for id, others in most:
            table.add_row(Text(id, style="name"), f"{others:,}", terminal.bar(others / most[0][1], room))
        console.print(table)
        console.print()
    console.print(terminal.facts(facts))


@click.command()
@click.argument("workload")
@click.option("--out", required=True, metavar="FOLDER", help="Folder for events and subscriptions, as Parquet.")
@click.option("--events", type=click.IntRange(0), default=0, metavar="N", help="How many events.")
@click.option("--subscriptions", type=click.IntRange(0), default=0, metavar="N", help="How many subscriptions.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the workload.")
@click.option("--set", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of the workload, as JSON.")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="How many files; the rows are the same.")
@session_options
@report_option
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def generate(
    workload: str,
    out: str,
    events: int,
    subscriptions: int,
    seed: int,
    parameters: tuple[str, ...],
    partitions: int | None,
    master: str | None,
    settings: dict[str, str],
    report: str | None,
    as_json: bool,
) -> None:
    """Generate events and subscriptions for tests and benchmarks.

    \b
    Examples:
      palio spark generate mix --events 1000000 --subscriptions 10000 --out work/
      palio spark generate xsiena --subscriptions 100000 --seed 7 --out work/
      palio spark generate eq --events 100000000 --set vocabulary=5000 --out work/

    WORKLOAD is eq, mix, xsiena, shen, shen-letters or baldoni. The same seed and parameters give the same rows.
    """
    from palio.cli.spark.job import JobProgress, run
    from palio.spark import generate as generate_on_spark
    from palio.spark.storage import join_address
    from palio.workloads.generated import workload as workload_by_name

    if not events and not subscriptions:
        raise click.UsageError("say how many: --events N, --subscriptions N, or both")
    made = workload_by_name(workload, seed=seed, **_parameters(parameters))  # before Spark starts
    counts: dict[Kind, int] = {"events": events, "subscriptions": subscriptions}
    times, progress = Stopwatch(), {kind: JobProgress() for kind, count in counts.items() if count}
    with ExitStack() as stack:
        folders = {kind: stack.enter_context(OutputFolder(join_address(out, kind))) for kind in progress}
        spark = stack.enter_context(command_session(master, settings, times))
        for kind, folder in folders.items():
            frame = generate_on_spark(spark, made, kind, counts[kind], partitions=partitions)
            with times.measure(kind):
                run(spark, f"Making {kind}", partial(folder.write, frame), progress[kind])
    speeds = {kind: terminal.rate(counts[kind], times.seconds[kind]) for kind in folders}
    facts = [
        *((kind, f"{counts[kind]:,} in {each.address}, {speeds[kind]} a second") for kind, each in folders.items()),
        time_fact(times.seconds),
    ]
    if report is not None:
        from palio.cli.spark.match_report import generate_page

        write_page(generate_page(workload, facts, progress, times.seconds), report)
    if as_json:
        rows = {kind: counts[kind] for kind in folders}
        terminal.print_json({"workload": workload, "seed": seed, "out": out, **rows, "seconds": times.rounded})
        return
    terminal.results().print(terminal.facts(facts))


def _parameters(given: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in given:
        name, text = split_pair(each, "--set")
        try:
            value = json.loads(text)
        except ValueError:
            value = text  # a string needs no quotes on a command line
        found[name] = tuple(value) if isinstance(value, list) else value
    return found
