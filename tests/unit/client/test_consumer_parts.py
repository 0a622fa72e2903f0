"""The partitions that a consumer's core reads, before it is started."""

from __future__ import annotations

from parley.client import AsyncConsumer, TopicPartition


class OnlyWalked(tuple[TopicPartition, ...]):
    """Partitions that must not be searched: for each of thousands that would be a walk."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        raise AssertionError("all partitions were walked to find one of them")


def test_held_partitions_are_known_from_the_others_without_a_search_for_each() -> None:
    core = AsyncConsumer(bootstrap_servers="localhost:9")._core
    kept, *added = (TopicPartition("a", at) for at in range(3))
    core.read([kept])
    core.read([kept, *added], held=OnlyWalked(added))
    assert [core.part(tp).held for tp in (kept, *added)] == [False, True, True]
