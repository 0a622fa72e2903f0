"""JSON in options: what is wrong is shown where it is."""

from __future__ import annotations

import pytest

from parley.client import TopicPartition
from parley.errors import ConfigError
from parley.spark.values.user_json import read_partition_values, read_partitions


def values(text: str) -> dict[TopicPartition, int]:
    return read_partition_values("startingOffsets", text, low=-2, what="an offset")


def test_partitions_are_read_in_order() -> None:
    assert read_partitions("assign", '{"b":[1], "a":[2,0]}') == (
        TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1),
    )  # fmt: skip


def test_values_per_partition_are_read() -> None:
    assert values('{"a":{"0":23,"1":-2}}') == {
        TopicPartition("a", 0): 23,
        TopicPartition("a", 1): -2,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a":{"0":23,}}', r'not JSON: .* at character 14, near ".*0":23,\}'),
        ("{'a':1}", "not JSON: .* at character 2"),
        ('["a"]', r'it is \["a"\]'),
        ('{"a":5}', '"a" has 5 instead of a value for each partition'),
        ('{"a":{"x":5}}', '"a" has "x" instead of a partition'),
        ('{"a":{"-1":5}}', '"a" has "-1" instead of a partition'),
        ('{"a":{"0":"5"}}', 'a-0 has "5" instead of an offset'),
        ('{"a":{"0":-3}}', "a-0 has -3 instead of an offset"),
        ('{"a":{"0":true}}', "a-0 has true instead"),
        ('{"a":{"0":1.5}}', "a-0 has 1.5 instead"),
        ('{"a":{"0":9223372036854775808}}', "a-0 has 9223372036854775808 instead"),
        ('{"a":{"0":1},"a":{"1":2}}', 'key "a" twice'),
        ('{"a":{"0":1,"0":2}}', 'key "0" twice'),
    ],
)
def test_wrong_values_are_pointed_at(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^startingOffsets .*{problem}.* is expected"):
        values(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a":{"0":1}}', "instead of a list of partitions"),
        ('{"a":[0,-1]}', "-1 instead of a partition"),
        ('{"a":["0"]}', '"0" instead of a partition'),
        ('{"a":[true]}', "true instead of a partition"),
        ('{"a":[0,0]}', "a partition twice"),
        ('{"a":[]}', "no partition"),
        ("{}", "no partition"),
        ("topicA", "not JSON"),
    ],
)
def test_wrong_assignments_are_pointed_at(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^assign .*{problem}"):
        read_partitions("assign", text)
