"""PADRES's syntax, and its published files where they are at hand."""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path

import pytest

from palio.errors import InputError, ParseError
from palio.workloads.padres import (
    parse_publication,
    quotes_batch,
    read_quotes,
    read_subscriptions,
    to_sql,
)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("[class,eq,'STOCK']", "class = 'STOCK'"),
        ("[class,eq,STOCK],[open,<,50.75]", "class = 'STOCK' AND open < 50.75"),
        ("s [volume,>,100], [price,<=,5]", "volume > 100 AND price <= 5"),
        ("[low,=,50],[high,<>,.5]", "low = 50 AND high <> 0.5"),
        ("[symbol,neq,'IBM']", "symbol <> 'IBM'"),
        ("[amount,isPresent,10]", "amount IS NOT NULL"),
        ("[name,str-prefix,'a_b%']", r"name LIKE 'a\\_b\\%%'"),
        ("[name,str-postfix,'es']", "name LIKE '%es'"),
        ("[name,str-contains,pad]", "name LIKE '%pad%'"),
        ("[spec,eq,'[a,b],[c']", "spec = '[a,b],[c'"),
        (r"[path,eq,'c:\x']", r"path = 'c:\\x'"),
        ("[code,eq,007]", "code = '007'"),
    ],
)
def test_a_subscription_becomes_sql(text: str, sql: str) -> None:
    assert to_sql(text) == sql


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("[class,eq,'STOCK'] and more", 19),
        ("[price,>,high]", 0),
        ("[class,like,'S%']", 7),
        ("[class,'STOCK']", 0),
        ("class = 'STOCK'", 0),
        ("[class,eq,'STOCK'", 0),
    ],
)
def test_what_is_no_subscription_is_refused_where_it_goes_wrong(text: str, position: int) -> None:
    with pytest.raises(ParseError) as caught:
        to_sql(text)
    assert caught.value.position == position


def test_a_publication_becomes_an_event() -> None:
    text = "p [class,'STOCK'],[symbol,IBM],[price,10.5],[volume,-3],[code,'7']"
    event = parse_publication(text)
    assert event == {"class": "STOCK", "symbol": "IBM", "price": 10.5, "volume": -3, "code": "7"}
    assert isinstance(event["volume"], int)


def test_quotes_that_were_pasted_into_one_line_are_two(tmp_path: Path) -> None:
    file = tmp_path / "quotes.txt.xz"
    with lzma.open(file, "wt") as out:
        out.write("[class,'STOCK'],[open,3]\n\n[class,'STOCK'],[open,2.5][class,'STOCK'],[open,1.5]")
    assert [quote["open"] for quote in read_quotes(file)] == [3.0, 2.5, 1.5]


@pytest.mark.parametrize("line", ["[class,'STOCK'],[open,high]", "[class,'STOCK'],open"])
def test_a_bad_quote_is_named_by_file_and_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "quotes.txt"
    file.write_text(f"[class,'STOCK'],[open,2.5]\n{line}\n")
    with pytest.raises(InputError) as caught:
        list(read_quotes(file))
    assert caught.value.line == 2


def test_an_archive_without_the_file_says_so(tmp_path: Path) -> None:
    archive = tmp_path / "subscriptions.tar.xz"
    (tmp_path / "some.txt").write_text("[class,eq,'STOCK']\n\n[low,<,3]\n")
    with tarfile.open(archive, "w:xz") as out:
        out.add(tmp_path / "some.txt", "folder/some.txt")
    assert read_subscriptions(archive, "some.txt") == ["[class,eq,'STOCK']", "[low,<,3]"]
    assert read_subscriptions(tmp_path / "some.txt") == ["[class,eq,'STOCK']", "[low,<,3]"]
    with pytest.raises(InputError, match="other"):
        read_subscriptions(archive, "other.txt")


def test_the_published_files_are_read_whole(data_folder: Path) -> None:
    archive = data_folder / "subscriptions" / "padres_subscriptions_11.9k.tar.xz"
    wheres = [to_sql(line) for line in read_subscriptions(archive)]
    assert (len(wheres), len(set(wheres))) == (10_000, 5_173)
    quotes = list(read_quotes(data_folder / "events" / "padres_stockquotes_245k.txt.xz"))
    assert len(quotes) == 245_190
    assert len({quote["symbol"] for quote in quotes}) == 100
    batch = quotes_batch(quotes)
    assert batch.num_columns == 8
    assert sum(column.null_count for column in batch.columns) == 0
