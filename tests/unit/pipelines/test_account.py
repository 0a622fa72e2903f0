"""Counting and the balance: whatever is lost, repeated, changed or invented is stated."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from parley.pipelines.demo.account import (
    Account,
    AggregateCount,
    BrokerFacts,
    ProofFacts,
    TableCount,
    count_aggregates,
    count_table,
    version_span,
)

GOOD = Account(
    source="flights.csv",
    rows_in=10,
    rows_acknowledged=10,
    idempotent=True,
    rows_copied=10,
    proof=ProofFacts(records=10, partitions=4, seconds=0.25),
    table=TableCount(10, 0, 0, 0, 0),
    aggregates=AggregateCount(4, 2, 10),
    leader_moves={"old": 3, "new": 5},
    brokers=(
        BrokerFacts(
            cluster="new", broker=1, releases=("2.4", "3.9"), api_versions={"Produce": "v7-v9"}
        ),
    ),
    seconds=2.0,
    output={"table": "out/flights"},
)


@given(
    st.integers(0, 6).flatmap(
        lambda size: st.tuples(
            st.just(size), st.lists(st.tuples(st.integers(-1, size + 1), st.integers(0, 3)))
        )
    )
)
def test_counting_agrees_with_a_counter(case: tuple[int, list[tuple[int, int]]]) -> None:
    size, rows = case
    right = array("L", [number % 3 for number in range(size)])
    known = Counter(row_id for row_id, _ in rows if 0 <= row_id < size)
    counted = count_table([([row[0] for row in rows], [row[1] for row in rows])], right)
    assert counted.rows == len(rows)
    assert counted.lost == size - len(known)
    assert counted.duplicated == sum(count - 1 for count in known.values())
    assert counted.foreign == len(rows) - known.total()
    assert counted.altered == sum(
        1 for row_id, crc in rows if 0 <= row_id < size and crc != row_id % 3
    )
    assert counted.rows == size - counted.lost + counted.duplicated + counted.foreign


def test_a_row_without_a_number_is_foreign() -> None:
    """A value that does not parse gives nulls in Spark."""
    assert count_table([([None], [0])], array("L", [0])).foreign == 1  # type: ignore[list-item]


def test_of_the_aggregates_the_newest_of_each_key_counts() -> None:
    records = [(b"a", 1), (b"b", 5), (b"a", 3), (None, 2), (b"a", 4)]
    counted = count_aggregates((key, json.dumps({"rows": rows}).encode()) for key, rows in records)
    assert counted == AggregateCount(records=5, keys=3, rows=11)


def test_a_good_account_balances_and_says_so() -> None:
    assert GOOD.balanced
    text = "\n".join(GOOD.lines())
    for part in ("rows in", "lost                     0", "exactly once", "2.4 -> 3.9",
                 "Produce v7-v9", "3  survived in the old cluster", "5  survived in the new",
                 "10  records on both sides in 0.2 s, 4 partitions: they are equal",
                 "new broker 1",
                 "out/flights", "The account balances."):  # fmt: skip
        assert part in text
    assert GOOD.rows_per_second == 5


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rows_in": 11}, "1 rows were not acknowledged"),
        ({"proof": ProofFacts(10, 4, 0.2, "offset 7 differs")}, "differ: offset 7 differs"),
        (
            {"table": TableCount(9, 1, 0, 0, 0), "aggregates": AggregateCount(1, 1, 9)},
            "1 acknowledged rows are not",
        ),
        (
            {"table": TableCount(11, 0, 1, 0, 0), "aggregates": AggregateCount(1, 1, 11)},
            "again, against the guarantee",
        ),
        ({"table": TableCount(10, 0, 0, 2, 0)}, "2 rows have another value"),
        (
            {"table": TableCount(11, 0, 0, 0, 1), "aggregates": AggregateCount(1, 1, 11)},
            "never acknowledged",
        ),
        ({"aggregates": AggregateCount(4, 2, 9)}, "the aggregates count 9 rows, the table has 10"),
    ],
)
def test_an_account_that_does_not_balance_says_why(change: dict[str, object], problem: str) -> None:
    account = replace(GOOD, **change)  # type: ignore[arg-type]
    assert not account.balanced
    assert problem in "\n".join(account.lines())
    assert "does NOT balance" in "\n".join(account.lines())


def test_repeated_rows_are_allowed_where_only_at_least_once_is_promised() -> None:
    account = replace(
        GOOD,
        idempotent=False,
        table=TableCount(12, 0, 2, 0, 0),
        aggregates=AggregateCount(4, 2, 12),
    )
    assert account.balanced
    assert "at least once" in account.guarantee


def test_the_account_is_json() -> None:
    document = json.loads(json.dumps(GOOD.to_dict()))
    assert document["balanced"] is True
    assert document["table"] == {"rows": 10, "lost": 0, "duplicated": 0, "altered": 0, "foreign": 0}
    assert document["brokers"][0]["releases"] == ["2.4", "3.9"]
    assert document["proof"]["difference"] is None


def test_versions_are_written_as_a_span() -> None:
    assert (version_span([3]), version_span([9, 3, 7])) == ("v3", "v3-v9")
