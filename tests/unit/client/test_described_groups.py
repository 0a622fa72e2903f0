"""The assignment that a classic group's leader wrote for a member, in bytes of Java
4.3.0 and in bytes of nobody.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from parley.client.admin.described_groups import read_assignment
from parley.client.admin.outcomes import for_each
from parley.errors import KafkaError
from parley.types import TopicPartition

JAVA = bytes.fromhex(
    "0003 00000002 0002 7432 00000001 00000001 0002 7431 00000002 00000003 00000000 ffffffff"
)
"""Of t2-1, t1-3 and t1-0, which Java does not sort (G20)."""
ASSIGNED = (TopicPartition("t1", 0), TopicPartition("t1", 3), TopicPartition("t2", 1))


def test_what_java_writes_is_read() -> None:
    assert read_assignment(JAVA) == ASSIGNED
    assert read_assignment(bytes.fromhex("0003 00000000 ffffffff")) == ()
    # a member that the leader left out, or of a group that rebalances
    assert read_assignment(b"") == ()


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 7, 0x7FFF])
def test_g21_a_later_version_is_read_as_the_last_that_is_known(version: int) -> None:
    later = version.to_bytes(2, "big") + JAVA[2:] + (b"what it adds" if version > 3 else b"")
    assert read_assignment(later) == ASSIGNED


def test_g21_a_negative_version_and_bytes_cut_short_are_no_assignment() -> None:
    assert read_assignment(b"\xff\xff" + JAVA[2:]) is None
    assert [read_assignment(JAVA[:size]) for size in range(1, len(JAVA))] == [None] * (
        len(JAVA) - 1
    )


@given(st.binary(max_size=80))
def test_any_bytes_are_an_assignment_or_none(raw: bytes) -> None:
    found = read_assignment(raw)
    assert found is None or all(isinstance(one, TopicPartition) for one in found)


async def test_the_failures_of_some_keys_end_nothing_and_are_all_said() -> None:
    done = []

    async def work(key: str) -> str:
        if key.startswith("bad"):
            raise KafkaError(f"{key} failed")
        done.append(key)
        return key.upper()

    assert await for_each(["a", "b", "a"], work) == {"a": "A", "b": "B"}
    done.clear()
    with pytest.raises(KafkaError, match="bad-1 failed") as error:
        await for_each(["bad-1", "a", "bad-2", "b"], work, changed="done")
    assert error.value.__notes__ == ["also: bad-2 failed", "done all the same: a, b"]
    assert done == ["a", "b"]


async def test_a_bug_is_not_taken_for_a_failure_of_a_key() -> None:
    async def work(key: str) -> None:
        raise ZeroDivisionError(key)

    with pytest.raises(ZeroDivisionError):
        await for_each(["a"], work)
