"""Agreement of all matchers on data and subscriptions from public sources.

PADRES's own subscriptions meet its quotes; logs of Wikipedia, Zeek, CloudTrail and Windows meet conditions
written after looking at them. CI looks at a sample of each; the deep run at much more.
"""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.classical.counting import CountingMatcher
from palio.matching.classical.kdtree import KdTreeMatcher
from palio.matching.matcher import Matcher
from palio.workloads.padres import quotes_batch, read_quotes, read_subscriptions, to_sql
from tests.matching.suite import as_table, ids_by_row


def lines(path: Path) -> Iterator[str]:
    with (lzma.open if path.suffix == ".xz" else gzip.open)(path, "rt") as file:
        yield from file


def every(step: int, items: Iterator[Any], count: int) -> list[Any]:
    """So many items, spread over the beginning of a long file."""
    return list(islice(items, 0, step * count, step))


def compare(wheres: Sequence[str], events: Sequence[Event]) -> list[set[str]]:
    """All matchers against brute force, which asks every distinct condition once per event."""
    ids = [str(number) for number in range(len(wheres))]
    filters = {where: Filter.parse(where) for where in dict.fromkeys(wheres)}
    expected: list[set[str]] = []
    for event in events:
        matched = {where for where, each in filters.items() if each.matches(event)}
        expected.append({id for id, where in zip(ids, wheres, strict=True) if where in matched})
    for make in (CountingMatcher, KdTreeMatcher):
        matcher = make()
        for id, where in zip(ids, wheres, strict=True):
            matcher.add(id, filters[where])
        assert [matcher.match(event) for event in events] == expected
    ours = Matcher()
    ours.add_many(ids, wheres)
    assert [ours.match(event) for event in events] == expected
    assert ids_by_row(ours.match_batch(events), len(events)) == expected
    return expected


class TestPadres:
    def test_a_sample_of_quotes_and_subscriptions(self, data_folder: Path) -> None:
        self._compare(data_folder, subscriptions=7, quotes=60)

    @pytest.mark.deep
    def test_all_subscriptions(self, data_folder: Path) -> None:
        self._compare(data_folder, subscriptions=1, quotes=1_000)

    @pytest.mark.deep
    def test_all_quotes_in_columns_one_by_one_and_after_saving(self, data_folder: Path, tmp_path: Path) -> None:
        """Brute force would take hours: batches must agree with each other and a sample of single events."""
        wheres = self._subscriptions(data_folder)
        matcher = Matcher()
        matcher.add_many([str(number) for number in range(len(wheres))], wheres)
        matcher.save(tmp_path / "padres.palio")
        opened = Matcher.open(tmp_path / "padres.palio")
        quotes = list(read_quotes(data_folder / "events" / "padres_stockquotes_245k.txt.xz"))
        assert len(quotes) > 240_000
        for start in range(0, len(quotes), 8192):
            piece = quotes[start : start + 8192]
            batch = quotes_batch(piece)
            found = matcher.match_batch(batch)
            assert found.equals(opened.match_batch(batch))
            by_row = ids_by_row(found.filter(pa.array(found["row"].to_numpy() % 97 == 0)), len(piece))
            for row in range(0, len(piece), 97):
                assert by_row[row] == matcher.match(piece[row])

    def _compare(self, data_folder: Path, subscriptions: int, quotes: int) -> None:
        wheres = self._subscriptions(data_folder)[::subscriptions]
        source = read_quotes(data_folder / "events" / "padres_stockquotes_245k.txt.xz")
        events = every(37, source, quotes)
        expected = compare(wheres, [Event.from_dict(event) for event in events])
        assert sum(map(len, expected)) > quotes
        matcher = Matcher()
        matcher.add_many([str(number) for number in range(len(wheres))], wheres)
        assert ids_by_row(matcher.match_batch(quotes_batch(events)), len(events)) == expected

    def _subscriptions(self, data_folder: Path) -> list[str]:
        texts = read_subscriptions(data_folder / "subscriptions" / "padres_subscriptions_11.9k.tar.xz")
        assert len(texts) == 10_000
        return [to_sql(text) for text in texts]


# The file, of how many lines CI looks at one, and conditions as readers of these logs would write them.
LOGS: dict[str, tuple[str, int, list[str]]] = {
    "wikipedia": (
        "wikiticker-2015-09-12-sampled.json.gz",
        150,
        [
            "channel = '#en.wikipedia' AND added > 1000",
            "isRobot AND NOT isMinor",
            "isAnonymous AND countryIsoCode IN ('DE', 'FR', 'IT')",
            "page LIKE 'User:%' OR page LIKE 'Talk:%'",
            "comment LIKE '%/*%' AND added > 0",
            "comment ILIKE '%VANDAL%'",
            "user RLIKE '^[0-9]+\\\\.[0-9]+'",
            "delta < -10 OR (delta > 1000 AND isNew)",
            "cityName IS NOT NULL AND regionName IS NULL",
            "metroCode BETWEEN 500 AND 800",
            "added > deleted AND delta > 0",
            "added - deleted = delta",
            "namespace <> 'Main' AND channel NOT LIKE '#en%'",
            "length(page) > 60",
            "CAST(time AS TIMESTAMP) < TIMESTAMP'2015-09-12 06:00:00'",
            "hour(time) = 3",
            "channel LIKE ANY ('#de%', '#fr%') AND isRobot IS FALSE",
            "NOT (added > 10 OR deleted > 10)",
            "isUnpatrolled <=> TRUE",
            "user = 'nobody at all'",
        ],
    ),
    "zeek": (
        "zeek_wrccdc2018_mixed.jsonl.xz",
        600,
        [
            "_path = 'dns' AND query LIKE '%.org'",
            "_path = 'dns' AND rcode_name <> 'NOERROR' AND rtt > 0.001",
            "answers LIKE '%.com' AND NOT (answers LIKE 'www%')",
            "answers RLIKE '^[0-9]' AND TTLs < 1000",
            "TTLs > 100 AND TTLs < 10000",
            "TTLs > 1000 AND size(TTLs) > 1",
            "array_contains(TTLs, 60.0) AND TTLs > 60",
            "NOT array_contains(answers, '134.71.3.16')",
            "size(answers) > 2 OR size(cert_chain_fps) > 0",
            "`id.orig_h` LIKE '10.%' AND `id.resp_p` IN (53, 80, 443)",
            "`id.resp_p` BETWEEN 1 AND 1023",
            "`id.resp_p` < `id.orig_p`",
            "_path = 'ssl' AND version IN ('TLSv10', 'SSLv3') AND NOT established",
            "cipher ILIKE '%aes_128%' OR cipher ILIKE '%rc4%'",
            "validation_status RLIKE '(self.signed|local issuer)'",
            "service = 'HTTP' OR name = 'dns_unmatched_reply'",
            "path LIKE '10.47%' AND path <> helo",
            "AA IS NULL AND notice IS FALSE",
            "RD AND NOT RA AND qtype_name IN ('A', 'AAAA')",
            "ts >= '2018-03-24T17:16' AND _write_ts > ts",
            "length(query) > 30",
            "client_channels IS NOT NULL OR cause = 'violation'",
        ],
    ),
    "cloudtrail": (
        "aws_cloudtrail_stratus.jsonl.xz",
        11,
        [
            "eventSource = 'iam.amazonaws.com' AND eventName LIKE 'Create%'",
            "errorCode IS NOT NULL",
            "errorCode = 'AccessDenied' AND userIdentity.type = 'IAMUser'",
            "userIdentity.sessionContext.attributes.mfaAuthenticated = 'false'",
            "readOnly AND awsRegion = 'us-east-1'",
            "requestParameters.roleName LIKE '%stratus%'",
            "resources.ARN LIKE 'arn:aws:s3%' AND resources.accountId IS NOT NULL",
            "eventTime >= '2022-01-01T00:00:00Z' AND managementEvent",
            "userAgent ILIKE '%terraform%' OR userAgent ILIKE '%stratus%'",
            "NOT (eventCategory = 'Data')",
            "sourceIPAddress RLIKE '^[0-9]{1,3}\\\\.'",
            "eventSource IN ('ec2.amazonaws.com', 's3.amazonaws.com') AND NOT readOnly",
            "upper(eventSource) LIKE 'IAM%'",
            "recipientAccountId = userIdentity.accountId",
            "tlsDetails.tlsVersion = 'TLSv1.2' AND tlsDetails.cipherSuite LIKE '%GCM%'",
        ],
    ),
    "windows": (
        "otrf_windows_956701.jsonl.xz",
        70,
        [
            "EventID = 4688",
            "EventID IN (1, 3, 7, 10, 11)",
            "Channel = 'Security' AND EventID BETWEEN 4624 AND 4634",
            "Image LIKE '%\\\\\\\\%.exe'",
            "CommandLine ILIKE '%-enc%' OR TargetObject ILIKE '%\\\\\\\\software\\\\\\\\%'",
            "Image LIKE '%svchost.exe' AND NOT (Image LIKE 'D:%')",
            "TargetUserName = SubjectUserName",
            "TargetUserName <> SubjectUserName AND LogonType = '3'",
            "LogonType IN ('2', '3', '10')",
            "Task = 13 OR OpcodeValue <> 0",
            "Hostname RLIKE '^WORK' AND Severity = 'INFO'",
            "ProcessId IS NULL AND ThreadID > 0",
            "CAST(ProcessId AS INT) > 4000",
            "GrantedAccess = '0x1000' OR GrantedAccess = '0x1410'",
            "DestinationPort IN ('80', '389', '443', '445') OR DestPort IS NOT NULL",
            "Keywords < 0",
            "length(CommandLine) > 100 OR length(CallTrace) > 200",
            "SeverityValue >= 2 AND (Channel LIKE 'Microsoft-Windows-Sysmon%' OR Channel = 'System')",
        ],
    ),
}


@pytest.mark.parametrize("log", LOGS)
def test_a_log_meets_conditions_written_for_it(data_folder: Path, log: str) -> None:
    _compare_log(data_folder, log, step=LOGS[log][1], count=250)


@pytest.mark.deep
@pytest.mark.parametrize("log", LOGS)
def test_much_of_a_log_meets_conditions_written_for_it(data_folder: Path, log: str) -> None:
    _compare_log(data_folder, log, step=5, count=20_000)


def _compare_log(data_folder: Path, log: str, step: int, count: int) -> None:
    name, _, wheres = LOGS[log]
    texts = every(step, lines(data_folder / "events" / name), count)
    events = [Event.from_json(text) for text in texts]
    both = [
        *wheres,
        *(f"NOT ({where})" for where in wheres),
        *(f"({a}) AND NOT ({b})" for a, b in _pairs(wheres)),
    ]
    expected = compare(both, events)
    assert any(expected)
    table = as_table(events) if log == "wikipedia" else None
    if table is not None:
        matcher = Matcher()
        matcher.add_many([str(number) for number in range(len(both))], both)
        assert ids_by_row(matcher.match_batch(table), len(texts)) == expected


def _pairs(wheres: list[str]) -> list[tuple[str, str]]:
    return list(pairwise(wheres))
