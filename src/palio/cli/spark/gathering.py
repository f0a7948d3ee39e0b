"""Subscriptions for a command on Spark; what cannot be used is said, and left out."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from palio.cli import terminal
from palio.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from palio.spark.wants import Wants

_MOST_REFUSED: Final = 5
_MOST_ABSENT: Final = 8


def gather(spark: SparkSession, source: str, language: str, *, strict: bool = False) -> Wants:
    """The subscriptions of a source; `strict` fails where one cannot be used."""
    from palio.spark.wants import Wants

    with _untold():  # what is refused is shown below
        wants = Wants.read(spark, source, on_error="fail" if strict else "quarantine", language=language)
    console = terminal.messages()
    for each in wants.refused[:_MOST_REFUSED]:
        terminal.fault(console, source, "left out", each.id, each.reason)
    if len(wants.refused) > _MOST_REFUSED:
        console.print(f"… and {len(wants.refused) - _MOST_REFUSED:,} more", style="quiet")
    if not len(wants.matcher):
        raise PipelineError(f"{source}: there is no subscription in it that can be used")
    return wants


def refused_as_dicts(wants: Wants) -> list[dict[str, Any]]:
    """Those that were left out, for programs."""
    return [{"id": each.id, "reason": each.reason} for each in wants.refused]


def refused_facts(wants: Wants) -> Iterator[tuple[str, str]]:
    """The same, for the summary."""
    if wants.refused:
        yield "left out", terminal.plural(len(wants.refused), "subscription")


def absent_facts(attributes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What subscriptions look at and the events do not have, for the summary."""
    if attributes:
        more = len(attributes) - _MOST_ABSENT
        named = ", ".join(attributes[:_MOST_ABSENT]) + (f" and {more:,} more" if more > 0 else "")
        yield "no column", f"{named}: NULL for every event"


@contextmanager
def _untold() -> Iterator[None]:
    log = logging.getLogger("palio.spark")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False
