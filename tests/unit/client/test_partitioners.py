"""Partitioners of records: librdkafka's vectors (its test 0048), and KIP-794's weights."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from parley.client.produce.partitioners import KEY_HASHES, AdaptiveSticky
from parley.client.produce.rows import TopicPlan
from parley.records import int32s, partition_keys, var_column

KEYS = [
    b"",
    b"23456",
    b"this is another string with more length to it perhaps",
    b"hejsan",
]
VECTORS = {
    "consistent": [0x0, 0xB1B451D7, 0xB0150DF7, 0xD077037E],
    "murmur2": [0x106E08D9, 0x058D780F, 0x4F7703DA, 0x5EC19395],
    "fnv1a": [0x7EE3623B, 0x27E6F469, 0x155E3E5F, 0x17B1E27A],
}


def found(name: str, keys: list[bytes | None], count: int) -> list[int]:
    of = KEY_HASHES[name]
    if of is None:
        return int32s(partition_keys(var_column(keys), count, count=len(keys))).tolist()
    return int32s(of.partitions(keys, count)).tolist()


@pytest.mark.parametrize("count", [1, 3, 16, 1000])
@pytest.mark.parametrize("name", VECTORS)
def test_keys_go_where_librdkafka_sends_them(name: str, count: int) -> None:
    assert found(name, list(KEYS), count) == [value % count for value in VECTORS[name]]


@pytest.mark.parametrize(
    ("name", "null", "empty"),
    [
        ("murmur2", -1, VECTORS["murmur2"][0] % 7),
        ("murmur2_random", -1, VECTORS["murmur2"][0] % 7),
        ("consistent", 0, 0),
        ("consistent_random", -1, -1),
        ("fnv1a", VECTORS["fnv1a"][0] % 7, VECTORS["fnv1a"][0] % 7),
        ("fnv1a_random", -1, VECTORS["fnv1a"][0] % 7),
    ],
)
def test_records_without_a_key_are_spread_or_are_not(name: str, null: int, empty: int) -> None:
    assert found(name, [None, b""], 7) == [null, empty]


def test_a_partition_is_chosen_the_rarer_the_longer_its_queue_is() -> None:
    loads = [0, 3, 1]
    plan = TopicPlan("t", 3, (0, 1, 2), dict.fromkeys(range(3), 2))
    sticky = AdaptiveSticky(
        random.Random(7).random, loads.__getitem__, lambda _: (0, 1, 2), adaptive=True
    )
    counted = Counter(sticky.choose((0, 1, 2)) for _ in range(8_000))
    assert [round(counted[index] / 1_000) for index in range(3)] == [4, 1, 3]
    loads[:] = [5, 0, 0]
    sticky._current, sticky._left_bytes = 0, 10**6
    sticky.leave_if_behind(plan)
    assert next(sticky.runs(1, 10, plan, 100))[0] in (1, 2)


def test_all_that_are_behind_keep_the_partition() -> None:
    plan = TopicPlan("t", 2, (0, 1), dict.fromkeys(range(2), 2))
    sticky = AdaptiveSticky(random.Random(1).random, lambda _: 2, lambda _: (0, 1), adaptive=True)
    sticky._current, sticky._left_bytes = 1, 10**6
    sticky.leave_if_behind(plan)
    assert next(sticky.runs(1, 10, plan, 100))[0] == 1


def test_spread_records_leave_partitions_without_a_leader_alone() -> None:
    plan = TopicPlan("t", 3, (0, 1, 2), dict.fromkeys(range(3), 2))
    sticky = AdaptiveSticky(random.Random(1).random, lambda _: 0, lambda _: (2,), adaptive=True)
    assert {partition for partition, _ in sticky.runs(1_000, 10, plan, 50)} == {2}
