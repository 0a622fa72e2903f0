"""Lag out of a query's progress."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from parley.client import TopicPartition
from parley.spark.progress import LagListener, lag

LATEST = {
    "@parley": 1,
    "@lag": {"records": 9, "bytes": 900, "ms": 50},
    "t": {"0": 10, "1": 20, "2": 5},
}
SOURCE = {
    "description": "x",
    "endOffset": json.dumps({"t": {"0": 7, "1": 20}}),
    "latestOffset": json.dumps(LATEST),
}


def progress(*sources: dict[str, Any]) -> dict[str, Any]:
    return {"name": None, "id": "query-id", "sources": list(sources)}


def test_records_behind_by_partition_and_the_rest_as_reported() -> None:
    (found,) = lag(progress(SOURCE))
    assert found.partitions == {TopicPartition("t", 0): 3, TopicPartition("t", 1): 0}
    assert (found.records, found.bytes, found.ms, found.topic_names) == (3, 900, 50, ["t"])
    assert (found.min_offsets_behind_latest, found.max_offsets_behind_latest) == (0, 3)
    assert found.avg_offsets_behind_latest == 1.5


def test_progress_as_objects_and_without_details() -> None:
    plain = {**SOURCE, "latestOffset": json.dumps({"@parley": 1, "t": {"0": 10}})}
    (found,) = lag(SimpleNamespace(sources=[SimpleNamespace(**plain)]))
    assert (found.records, found.bytes, found.ms) == (3, None, None)


@pytest.mark.parametrize("latest", [None, "null", "not json", '{"t": {"0": 5}}', "17"])
def test_other_sources_are_passed_over(latest: str | None) -> None:
    assert lag(progress({**SOURCE, "latestOffset": latest})) == []
    assert lag(None) == []


def test_the_listener_reports_and_survives_whoever_it_reports(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reported: list[tuple[str, int]] = []
    LagListener(lambda name, sources: reported.append((name, sources[0].records))).onQueryProgress(
        SimpleNamespace(progress=progress(SOURCE))
    )
    assert reported == [("query-id", 3)]
    with caplog.at_level(logging.ERROR):
        LagListener(lambda name, sources: reported[9]).onQueryProgress(
            SimpleNamespace(progress=progress(SOURCE))
        )  # type: ignore[arg-type,return-value]
    assert "LagListener failed" in caplog.text
