"""The hash that coordinators keep of a group's topics, against what real brokers wrote and against
the library of XXH3.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import xxhash
from hypothesis import given, strategies as st

from parley.devcluster.state.groups.record_parts import Racks, topics_hash
from parley.devcluster.state.groups.records import decode
from parley.devcluster.state.groups.xxh3 import xxh3_64
from parley.messages import ConsumerGroupMetadataValue, ShareGroupMetadataValue

GOLDEN = Path(__file__).parents[2] / "golden" / "groups"
IDS = {
    "4.1.1": ("5226a848ce784b10a42463d2ffc2fc4c", "3f555f8ae35d485e8cb623845b717f53"),
    "4.2.0": ("ae9874c770bc4a7f8459261e98ccd6f6", "ccbf8adf0f5d4dfca06b852690d2975b"),
    "4.3.0": ("a8a94968cbf947f2a83b2d8ea1e8fab2", "0585d04517c84828a33e70edfdea8c52"),
}
"""The ids of the topics t1 and t2, of three partitions each, where the golden records come from."""
RACKED = {
    "4.3.0": ("922c9635d3be4185acc24163a8dc19f6", "4858cf5e33354087bebf5646454ba3fa",
              0x7CA0F3F20EB7FB28),
    "4.1.1": ("4601d30cfa8d420ebb242241c12baf50", "9d8f67e3598a40239c19e8f4cf346a12",
              0x474FD4AADB349FD5),
}  # fmt: skip
"""The ids of the topics t1 (3 partitions) and wide (130), and the hash that a real broker wrote
whose broker.rack was r1.
"""
BORDERS = (0, 1, 3, 4, 8, 9, 16, 17, 32, 33, 128, 129, 144, 240, 241, 1_024, 1_025, 1_088, 5_000)


def written(release: str) -> Iterator[int]:
    """Yield the hashes that a real broker wrote."""
    for line in (GOLDEN / f"{release}.jsonl").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        if found["value"] is not None:
            record = decode(bytes.fromhex(found["key"]), bytes.fromhex(found["value"]))
            kinds = ConsumerGroupMetadataValue | ShareGroupMetadataValue
            if record is not None and isinstance(record.value, kinds):
                yield record.value.metadata_hash


@pytest.mark.parametrize("release", IDS)
def test_the_hash_is_that_of_real_brokers(release: str) -> None:
    first, second = (bytes.fromhex(one) for one in IDS[release])
    known = {"t2": (second, 3), "t1": (first, 3)}
    assert set(written(release)) - {0} == {topics_hash(known)}


@pytest.mark.parametrize("release", RACKED)
def test_the_hash_has_the_racks_as_those_of_real_brokers_have(release: str) -> None:
    first, second, hashed = RACKED[release]
    known = {"t1": (bytes.fromhex(first), 3), "wide": (bytes.fromhex(second), 130)}
    assert topics_hash(known, {name: (("r1",),) * count for name, (_, count) in known.items()}) == (
        hashed
    )


@pytest.mark.parametrize("size", BORDERS)
def test_every_length_is_hashed_as_by_the_library(size: int) -> None:
    data = bytes((at * 7 + at // 251) % 256 for at in range(size))
    assert xxh3_64(data) == xxhash.xxh3_64_intdigest(data)


@given(st.binary(max_size=3_000))
def test_any_bytes_are_hashed_as_by_the_library(data: bytes) -> None:
    assert xxh3_64(data) == xxhash.xxh3_64_intdigest(data)


ONE = {"t": (bytes(16), 2)}
OTHERS: list[tuple[dict[str, tuple[bytes, int]], dict[str, Racks]]] = [
    ({"t": (bytes(16), 3)}, {}),
    ({"t": (b"\1" * 16, 2)}, {}),
    ({"u": (bytes(16), 2)}, {}),
    (ONE, {"t": (("a",), ("b",))}),
    (ONE, {"t": (("b",), ("a",))}),
    (ONE, {"t": (("a", "b"), ())}),
    (ONE, {"t": (("ab",), ())}),
]


def test_another_number_id_name_or_rack_makes_another_hash() -> None:
    hashes = [topics_hash(ONE), *(topics_hash(*other) for other in OTHERS)]
    assert len(set(hashes)) == len(hashes)
    assert topics_hash(ONE, {"t": (("b", "a"), ())}) == topics_hash(ONE, {"t": (("a", "b"), ())})
