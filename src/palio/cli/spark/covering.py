"""`palio spark covering`: which subscriptions could go?"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import click

from palio.cli import terminal
from palio.cli.language import language_option
from palio.cli.report import report_option, write_page
from palio.cli.spark.gathering import gather, refused_as_dicts, refused_facts
from palio.cli.spark.options import session_options
from palio.cli.spark.output import output_folder
from palio.cli.spark.sessions import opened_session
from palio.cli.spark.timing import Times, time_fact

_SHOWN: Final = 10


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
    """Say which subscriptions another one covers, and which are left.

    \b
    Examples:
      palio spark covering wants.jsonl
      palio spark covering db.wants --out covered/ --master spark://hub:7077

    One that is covered matches nothing that the other does not match. What is left tells of everything.
    """
    from palio.cli.spark.running import run
    from palio.spark import covering as covering_on_spark

    times = Times()
    with output_folder(out, subscriptions) as folder, opened_session(master, settings, times) as spark:
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
        from palio.cli.spark.reporting import covering_page

        write_page(covering_page(facts, covered, left, by.most_common(_SHOWN), times.seconds), report)
    if as_json:
        summary: dict[str, Any] = {
            "subscriptions": rows.num_rows, "maximal": left, "covered": covered,
            "widest": dict(by.most_common(_SHOWN)), "refused": refused_as_dicts(wants), "seconds": times.rounded,
        }  # fmt: skip
        terminal.print_json(summary)
        return
    _print(by, facts)


def _print(by: Counter[str], facts: list[tuple[str, str]]) -> None:
    from rich.table import Column
    from rich.text import Text

    console = terminal.results()
    if by:
        room = 24 if console.width >= terminal.WIDE else 12
        table = terminal.table("covers most", terminal.numbers("others"), Column("", width=room))
        most = by.most_common(_SHOWN)
        for id, others in most:
            table.add_row(Text(id, style="name"), f"{others:,}", terminal.bar(others / most[0][1], room))
        console.print(table)
        console.print()
    console.print(terminal.facts(facts))
