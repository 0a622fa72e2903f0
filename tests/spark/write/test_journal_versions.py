"""S11: a journal outlives the library that wrote it. `journal-v1.jsonl` has the bytes
of version 1; never edit it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from parley.client import Client
from parley.devcluster import LocalCluster
from parley.devcluster.state.transactions.transaction import State
from parley.errors import RemoteProtocolError
from parley.spark.write.intent import (
    BatchOfQuery,
    Done,
    Intent,
    Mark,
    Newest,
    OpenTransaction,
    decode,
    encode,
    newest,
)
from parley.spark.write.turns import Identity, Slot, Turn

from .sinks import Sink

LINES = (Path(__file__).with_name("journal-v1.jsonl")).read_text().splitlines()
QUERY = "5f0e3c86-8a40-4b7c-9f2a-1d7a5a2a9c11"
LAST = Intent(
    BatchOfQuery(QUERY, 7),
    Identity(1000, 4),
    (OpenTransaction(0, Turn(1001, 5), Turn(1001, 4), Identity(2001, 8), 500),),
    {1: Slot(Turn(1002, 4), Turn(1002, 3)), 2: Slot(Turn(1003, 9), None)},
)


def test_s11_a_journal_of_version_1_stays_readable() -> None:
    entries = [decode(line) for line in LINES]
    assert [type(entry) for entry in entries] == [Mark, Intent, Done, Mark, Intent]
    assert newest(entries) == Newest(LAST, False)
    assert newest(entries[:4]).done
    assert entries[1].rows == 3  # type: ignore[union-attr]


def test_what_this_version_writes_are_the_bytes_of_version_1() -> None:
    """Otherwise a query could not go back to the release before."""
    assert [encode(decode(line)) for line in LINES] == LINES


def test_s11_a_journal_of_a_later_version_is_refused_and_nothing_is_aborted(
    cluster: LocalCluster, client: Client, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    sink = Sink(client, name, prefix=name)
    driver = sink.driver()
    sink.run(driver, 0, [["a"], ["b"]])
    # open, as a later release may have left it
    messages = sink.write(driver.plan(), 1, [["c"], ["d"]])
    later = f'{{"parley":2,"kind":"decision","query":"{QUERY}","batch":1}}'
    client.produce(f"{name}-journal", pa.table({"key": ["intent"], "value": [later]}), partition=0)
    for _ in range(2):
        with pytest.raises(
            RemoteProtocolError,
            match=r"entry of version 2; this parley knows version 1\. Resume the q",
        ):
            sink.driver().plan()
    held = [one for name_, one in cluster.transactions().items() if name_.startswith(name)]
    assert sum(one.state is State.ONGOING for one in held) == len(messages)
    assert sink.stable() == ["a", "b"]
