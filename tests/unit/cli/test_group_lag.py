"""`parley groups lag --watch`, look by look."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pytest

from parley.cli.group_lag import summary, watch_lag
from parley.cli.output import OutputFormat
from parley.client import MemberDescription, PartitionLag
from parley.types import OffsetAndMetadata, TopicPartition

OWNER = MemberDescription("m-1", "app", "/10.0.0.7")


def looks(*ends: int) -> Callable[[], dict[TopicPartition, PartitionLag]]:
    """Return looks at a group that committed 0 and nothing, at these ends; then Ctrl-C."""
    left = list(ends)

    def look() -> dict[TopicPartition, PartitionLag]:
        if not left:
            raise KeyboardInterrupt
        end = left.pop(0)
        at = OffsetAndMetadata(0)
        return {
            TopicPartition("flights", 0): PartitionLag(at, end, OWNER),
            TopicPartition("flights", 1): PartitionLag(None, end),
        }

    return look


def watched(output_format: OutputFormat | None, capsys: pytest.CaptureFixture[str]) -> str:
    pauses: list[None] = []
    with pytest.raises(KeyboardInterrupt):
        watch_lag(looks(5, 9, 2), output_format, lambda: pauses.append(None))
    assert len(pauses) == 3
    return capsys.readouterr().out


def test_each_look_says_how_the_lag_has_changed(capsys: pytest.CaptureFixture[str]) -> None:
    found = [json.loads(line) for line in watched(OutputFormat.JSONL, capsys).splitlines()]
    assert [(one["partition"], one["lag"], one["change"]) for one in found] == [
        (0, 5, None), (1, None, None), (0, 9, 4), (1, None, None), (0, 2, -7), (1, None, None),
    ]  # fmt: skip
    assert {one["time"].count(":") for one in found} == {2}


def test_in_a_pipe_the_columns_are_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = watched(None, capsys).splitlines()
    assert [line.startswith("TIME\tTOPIC") for line in lines] == [True, *[False] * 6]
    assert lines[1].split("\t")[1:] == [
        "flights",
        "0",
        "0",
        "5",
        "5",
        "-",
        "m-1",
        "app",
        "/10.0.0.7",
    ]
    assert [row["lag"] for row in csv.DictReader(io.StringIO(watched(OutputFormat.CSV,
        capsys)))] == [
        "5", "", "9", "", "2", "",
    ]  # fmt: skip


def test_the_summary_counts_what_is_known() -> None:
    assert (
        summary(looks(7)())
        == "lag 7 in 1 partition, unknown in 1 partition without a committed offset or a leader"
    )
    assert (
        summary({TopicPartition("t", index): PartitionLag(None, 3) for index in range(2)})
        == "lag unknown in 2 partitions without a committed offset or a leader"
    )
    assert (
        summary({TopicPartition("t", 0): PartitionLag(OffsetAndMetadata(1), 3)})
        == "lag 2 in 1 partition"
    )
