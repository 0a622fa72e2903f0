"""The pages about moving from another client: each program of theirs and parley's beside it leave
the same records and print the same, and the tables of options have the defaults that there are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from parley import EARLIEST, LATEST, Client, FetchOptions, Producer, TopicPartition
from parley.devcluster import LocalCluster

from .examples import ROOT, run

FOLDER = ROOT / "docs" / "how-to"
PAGES = ("moving-aiokafka.md", "moving-kafka-python.md", "moving-confluent-kafka.md")
TOPICS = ("orders", "payments", "refunds")
PARTITIONS = 3
TIME_MS = 1_600_000_000_000
LONG_AGO_MS = 1_700_000_000_000
"""A later time is that of the run."""
_PAIR = re.compile(
    r"^## (?P<title>[^\n]+)\n\nWith (?P<peer>[\w-]+):\n\n```python\n(?P<theirs>.*?)^```\n\n"
    r"With parley:\n\n```python\n(?P<ours>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_TABLE = re.compile(r"<!-- options: (\S+), (\S+) -->\n\n((?:\|.+\n)+)")

pytestmark = [
    pytest.mark.foreign,
    # Their sockets and event loops are theirs to close.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Pair(NamedTuple):
    """Two programs that do the same."""

    page: Path
    title: str
    theirs: str
    ours: str


def pairs() -> list[Pair]:
    return [
        Pair(Path("docs", "how-to", name), found["title"], found["theirs"], found["ours"])
        for name in PAGES
        for found in _PAIR.finditer((FOLDER / name).read_text("utf-8"))
    ]


class Left(NamedTuple):
    """What a program printed, and the records that it left: partition, offset, key, value, headers,
    and the time where it is one that the program gave.
    """

    printed: str
    records: dict[str, list[tuple[object, ...]]]


def prepare(cluster: LocalCluster) -> None:
    """Make the topics that programs read, and what a group has committed."""
    for topic in ("orders", "payments"):
        cluster.create_topic(topic, partitions=PARTITIONS)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(6):
            producer.produce(
                "payments",
                b"%d euros" % number,
                b"customer %d" % number,
                partition=number % PARTITIONS,
                timestamp_ms=TIME_MS + number // PARTITIONS,
            )
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.commit_offsets("readers", {TopicPartition("payments", 1): 2})


def records(client: Client, topic: str) -> list[tuple[object, ...]]:
    options = FetchOptions(isolation_level="read_committed")
    return [
        (
            index,
            row["key"],
            row["value"],
            str(row["headers"]),
            row["timestamp"] if row["timestamp"].timestamp() * 1000 < LONG_AGO_MS else None,
        )
        for index in range(PARTITIONS)
        for batch in client.fetch(TopicPartition(topic, index), EARLIEST, LATEST, options)
        for row in batch.to_pylist()
    ]


def left(page: Path, title: str, program: str) -> Left:
    """Run a program beside a cluster of its own."""
    printed = io.StringIO()
    with LocalCluster(brokers=1, release="3.9") as cluster:
        prepare(cluster)
        with contextlib.redirect_stdout(printed):
            run(page, 0, program, cluster.bootstrap_servers)
        with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            topics = sorted(name for name in client.metadata().topics if name in TOPICS)
            found = {topic: records(client, topic) for topic in topics}
            committed = client.list_group_offsets("billing")
    found["committed"] = sorted((tp.partition, at.offset) for tp, at in committed.items() if at)
    return Left(printed.getvalue(), found)


@pytest.fixture(autouse=True)
def _collect_their_sockets() -> Iterator[None]:
    yield
    gc.collect()


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(
            pair,
            id=f"{pair.page.stem}-{pair.title}",
            marks=() if pair.title == "Send" else pytest.mark.matrix,
        )
        for pair in pairs()
    ],
)
def test_both_programs_do_the_same(pair: Pair) -> None:
    theirs = left(pair.page, pair.title, pair.theirs)
    ours = left(pair.page, pair.title, pair.ours)
    assert ours == theirs
    if pair.title == "Send":
        assert len(ours.records["orders"]) == 21
        assert {one[0] for one in ours.records["orders"]} == {0, 1, 2}
    elif pair.title == "In transactions":
        assert len(ours.records["orders"]) == 2
    elif pair.title == "Read in a group":
        assert ours.records["committed"] == [(0, 2), (1, 2), (2, 2)]
    elif pair.title.startswith("Create topics"):
        assert "refunds" in ours.records
    else:
        assert len(ours.printed.splitlines()) == 3


def test_each_page_has_the_same_programs_and_no_other() -> None:
    titles = [pair.title for pair in pairs()]
    assert titles == titles[:5] * len(PAGES)
    for name in PAGES:
        assert (FOLDER / name).read_text("utf-8").count("```python") == 10


def their_defaults(path: str) -> dict[str, object] | None:
    """Return a class's options with their defaults; None for librdkafka, which shows none."""
    if path == "librdkafka":
        return None
    module, _, name = path.rpartition(".")
    cls = getattr(importlib.import_module(module), name)
    if hasattr(cls, "DEFAULT_CONFIG"):
        return dict(cls.DEFAULT_CONFIG)
    parameters = inspect.signature(cls.__init__).parameters
    return {name: one.default for name, one in parameters.items()}


def test_the_tables_of_options_have_the_names_and_defaults_that_there_are() -> None:
    tables = [
        found for name in PAGES for found in _TABLE.findall((FOLDER / name).read_text("utf-8"))
    ]
    assert len(tables) == 8
    for theirs, ours, rows in tables:
        module, _, name = ours.rpartition(".")
        fields = {
            one.name: one.default
            for one in dataclasses.fields(getattr(importlib.import_module(module), name))
        }
        defaults = their_defaults(theirs)
        for line in rows.splitlines()[2:]:
            option, default, own, own_default, _ = (
                cell.strip().strip("`") for cell in line.split("|")[1:-1]
            )
            if own != "–":
                assert repr(fields[own]) == own_default, own
            if defaults is None or option == "–":
                continue
            assert option in defaults, option
            known = getattr(defaults[option], "value", defaults[option])
            if default != "–" and option != "acks":
                assert repr(known) == default, option
