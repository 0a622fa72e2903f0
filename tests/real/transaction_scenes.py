"""The scenes of transactions that are played at a real broker and at the
embedded one of its release.
"""

from __future__ import annotations

from collections.abc import Callable

from parley.schema import ApiKey

from .transaction_sides import BASE_MS, Side, Who

SHORT_MS = 2_000
"""A time-out that a transaction is to miss: long enough to begin it on a busy machine."""
LAST_TIMEOUT_MS = 15 * 60 * 1000


# -- scenes ----------------------------------------------------------------------------------------


def scene_commit_and_abort(side: Side) -> None:
    who = side.init()
    side.describe(who)
    side.add(who)
    side.produce(who, 0, count=2)
    side.read()
    side.describe(who)
    side.describe_producers()
    side.end(who, commit=True)
    side.settles(3)
    side.describe(who)
    side.describe_producers()
    side.read()
    side.add(who)
    side.produce(who, 2, count=3)
    side.produce(who, 5)
    side.read()
    side.end(who, commit=False)
    side.settles(8)
    side.describe(who)
    side.describe_producers()
    for offset in (0, 2, 3, 6, 7, 8):
        side.fetch(offset, isolation_level=1)
    side.read()


def scene_every_version(side: Side) -> None:
    """A whole transaction in each version of each API, ended one way and the other."""
    end = 0
    counts = {key: side.versions(key, 5) for key in (ApiKey.END_TXN, ApiKey.ADD_OFFSETS_TO_TXN)}
    for number in range(2 * max(len(found) for found in counts.values())):
        who = side.init("versions", min(number // 2, side.newest(ApiKey.INIT_PRODUCER_ID)))
        side.add(who, min(number // 2, 3, side.newest(ApiKey.ADD_PARTITIONS_TO_TXN)))
        side.produce(who, 0, min(3 + number, 11, side.newest(ApiKey.PRODUCE)))
        side.add_group(who, min(number // 2, side.newest(ApiKey.ADD_OFFSETS_TO_TXN)))
        side.commit_offset(
            who, 10 + number, min(number // 2, 4, side.newest(ApiKey.TXN_OFFSET_COMMIT))
        )
        commit = number % 2 == 0
        side.end(who, commit=commit, version=min(number // 2, 4, side.newest(ApiKey.END_TXN)))
        end += 2
        side.settles(end)
        side.offset_of_group_settles(10 + number if commit else 9 + number)
    for version in side.versions(ApiKey.FETCH):
        if version >= 4:
            side.fetch(0, version, isolation_level=1)


def scene_interleaved(side: Side) -> None:
    """Three producers on one partition; the last stable offset is that of the oldest open one."""
    first, second, third = (side.init(name) for name in ("a", "b", "c"))
    for who in (first, second, third):
        side.add(who)
        side.produce(who, 0)
    side.end(second, commit=False)
    side.ends_at(4)
    side.read()
    side.produce(third, 1)
    side.end(first, commit=True)
    side.settles(2)
    side.read()
    side.read(1)
    side.end(third, commit=False)
    side.settles(7)
    for offset in range(8):
        side.fetch(offset, isolation_level=1)
    for timestamp in (0, BASE_MS, BASE_MS + 1):
        side.offset(timestamp, 1)


def scene_times(side: Side) -> None:
    """Offsets by time stop at the last stable offset."""
    who = side.init()
    side.add(who)
    side.produce(who, 0, count=2)
    for timestamp in (-2, 0, BASE_MS, BASE_MS + 1):
        for isolation in (0, 1):
            side.offset(timestamp, isolation)
    side.end(who, commit=True)
    side.settles(3)
    for timestamp in (0, BASE_MS + 1, BASE_MS + 2):
        for isolation in (0, 1):
            side.offset(timestamp, isolation)


def scene_fencing(side: Side) -> None:
    """A second producer of the same id: the first one's transaction is aborted, and
    it is refused everywhere.
    """
    old = side.init()
    side.add(old)
    side.add_group(old)
    side.produce(old, 0)
    side.commit_offset(old, 3)
    new = side.init()
    side.settles(2)
    side.describe(new)
    side.describe_producers()
    side.read()
    for version in range(3, 1 + min(11, side.newest(ApiKey.PRODUCE))):
        side.produce(old, 1, version)
    for version in side.versions(ApiKey.ADD_PARTITIONS_TO_TXN, 4):
        side.add(old, version)
    for version in side.versions(ApiKey.ADD_OFFSETS_TO_TXN):
        side.add_group(old, version)
    for version in side.versions(ApiKey.TXN_OFFSET_COMMIT, 5):
        side.commit_offset(old, 4, version)
    for version in side.versions(ApiKey.END_TXN, 5):
        for commit in (True, False):
            side.end(old, commit=commit, version=version)
    side.add(new)
    side.produce(new, 0)
    side.produce(old, 1)
    side.end(old, commit=True)
    side.end(new, commit=True)
    side.settles(4)
    side.read()
    side.offset_of_group(stable=True)


def scene_repeated_ends(side: Side) -> None:
    who = side.init()
    for commit in (True, False):
        side.end(who, commit=commit)  # nothing was begun
    for end, commit in ((2, True), (4, False)):
        side.add(who)
        side.produce(who, (end - 2) // 2)
        side.end(who, commit=commit)
        side.end(who, commit=commit)
        side.end(who, commit=not commit)
        side.settles(end)
        side.end(who, commit=commit)
        side.end(who, commit=not commit)
    side.read()


def scene_wrong_producers(side: Side) -> None:
    """Ids that nobody has, epochs that are too high or too low."""
    who = side.init()
    wrong = [
        Who(side.name("absent"), who.producer_id, 0),
        Who(who.name, who.producer_id + 100_000, 0),
        Who(who.name, who.producer_id, 5),
        Who("", who.producer_id, 0),
    ]
    for other in wrong:
        side.add(other)
        side.add_group(other)
        side.commit_offset(other, 5)
        side.end(other, commit=True)
    side.add(who)
    if side.release.number >= (2, 6):  # older ones say so too, and never end the transaction then
        side.end(Who(who.name, who.producer_id, 5), commit=False)
    side.describe(who)
    side.add(who, topics=[side.topic, "absent-topic"])
    side.add(who, partitions=[0, 9])
    side.describe(who)
    side.end(who, commit=False)


def scene_not_added(side: Side) -> None:
    """Records without AddPartitionsToTxn: old brokers take them, new ones ask the coordinator."""
    for number, version in enumerate(v for v in side.versions(ApiKey.PRODUCE, 12) if v >= 3):
        who = side.init(f"not-added-{number}")
        side.produce(who, 0, version)
    who = side.init("other")
    side.produce(who, 0, name=side.name("absent"))
    side.produce(who, 0, name=None)
    side.fetch(0)
    side.fetch(0, isolation_level=1)
    side.add(who)
    side.end(who, commit=False)


def scene_mixed_batches(side: Side) -> None:
    """A producer with an open transaction that sends a plain batch, and the other way round."""
    who = side.init()
    side.add(who)
    side.produce(who, 0)
    side.produce(who, 1, transactional=False)
    side.produce(who, 1)
    side.produce(who, 1)
    side.produce(who, 5)
    side.end(who, commit=True)
    side.settles(3)
    side.produce(who, 2, transactional=False)
    side.produce(who, 3)
    side.read()


def scene_offsets(side: Side) -> None:
    who = side.init()
    side.offset_of_group(stable=True)
    side.add_group(who)
    side.describe(who)
    side.commit_offset(who, 5)
    for stable in (False, True):
        side.offset_of_group(stable=stable)
    side.end(who, commit=True)
    side.offset_of_group_settles(5)
    side.offset_of_group(stable=True)
    side.add_group(who)
    side.commit_offset(who, 8)
    side.end(who, commit=False)
    side.offset_of_group_settles(5)
    side.offset_of_group(stable=True)
    side.add_group(who)
    side.commit_offset(who, 9)
    side.plain_commit(20)
    side.offset_of_group(stable=False)
    side.end(who, commit=True)
    side.offset_of_group_settles(20)
    side.offset_of_group(stable=True)


def scene_offset_errors(side: Side) -> None:
    who = side.init()
    side.commit_offset(who, 5)  # the group is not part of a transaction
    side.offset_of_group(stable=True)
    side.add_group(who)
    side.commit_offset(who, 5, index=9)
    side.commit_offset(who, 5, topic="absent-topic")
    side.commit_offset(who, 5, metadata="x" * 5_000)
    side.commit_offset(who, 5, group_id="")
    side.add_group(who, group="")
    for version in side.versions(ApiKey.TXN_OFFSET_COMMIT, 5):
        if version >= 3:
            side.commit_offset(who, 5, version, generation_id=4, member_id="m")
            side.commit_offset(who, 5, version, member_id="m")
            side.commit_offset(who, 5, version, generation_id=4)
    side.commit_offset(who, 6)
    side.end(who, commit=True)
    side.offset_of_group_settles(6)
    if side.newest(ApiKey.TXN_OFFSET_COMMIT) >= 3:
        side.add_group(who)
        side.commit_offset(who, 5, generation_id=4, member_id="m")
        side.end(who, commit=False)


def scene_claims(side: Side) -> None:
    """Producers that name the identity they hold (KIP-360)."""
    for version in side.versions(ApiKey.INIT_PRODUCER_ID):
        if version < 3:
            continue
        who = side.init(f"claims-{version}", version)

        def claim(epoch: int, producer_id: int = who.producer_id, version: int = version) -> Who:
            return side.init(
                f"claims-{version}", version, producer_id=producer_id, producer_epoch=epoch
            )

        claim(who.epoch)
        claim(who.epoch)  # its answer was lost: the same one again
        claim(who.epoch + 1)
        claim(who.epoch)
        claim(who.epoch + 9)
        claim(0, who.producer_id + 100_000)
        claim(-1)
        claim(3, -1)
        side.init(f"claims-{version}", version)
        side.init(f"never-{version}", version, producer_id=100_000, producer_epoch=7)
        side.describe(who)


def scene_timeouts(side: Side) -> None:
    for version in side.versions(ApiKey.INIT_PRODUCER_ID):
        for timeout_ms in (0, -1, LAST_TIMEOUT_MS, LAST_TIMEOUT_MS + 1):
            side.init("timeouts", version, transaction_timeout_ms=timeout_ms)
        side.init("", version, transactional_id="")
        side.init("", version, transactional_id="", transaction_timeout_ms=0)


def scene_expiry(side: Side) -> None:
    """A transaction that lasts too long is aborted, its producer fenced; the next one goes on."""
    who = side.init(transaction_timeout_ms=SHORT_MS)
    side.add(who)
    side.add_group(who)
    side.produce(who, 0)
    side.commit_offset(who, 5)
    side.settles(2)
    side.describe(who)
    side.describe_producers()
    side.read()
    side.produce(who, 1)
    side.add(who)
    side.commit_offset(who, 6)
    side.end(who, commit=True)
    side.end(who, commit=False)
    side.init()
    side.offset_of_group(stable=True)


def second_generation(side: Side) -> bool:
    return side.newest(ApiKey.END_TXN) >= 5


def scene_second_generation(side: Side) -> None:
    """Produce v12+ and TxnOffsetCommit v5 join by themselves, EndTxn v5
    raises the epoch (KIP-890).
    """
    if not second_generation(side):
        return
    who, end = side.init(), 0
    newest = side.newest(ApiKey.PRODUCE)
    for commit in (True, False):
        side.produce(who, 0, newest)
        side.produce(who, 1, 12)
        side.commit_offset(who, 7, 5)
        side.describe(who)
        side.read()
        found = side.end(who, commit=commit, version=5)
        end += 3
        side.settles(end)
        side.end(who, commit=commit, version=5)
        side.end(who, commit=not commit, version=5)
        side.describe(who)
        side.produce(who, 2, newest)
        side.end(who, commit=commit, version=4)
        who = Who(who.name, found.producer_id, found.producer_epoch)
    side.offset_of_group_settles(7)
    side.describe_producers()
    side.read()
    side.end(who, commit=True, version=5)  # nothing to commit
    found = side.end(who, commit=False, version=5)  # nothing to abort is a success
    side.describe(who)
    side.end(who, commit=False, version=5)
    who = Who(who.name, found.producer_id, found.producer_epoch)
    side.end(who, commit=False, version=5)
    side.describe(who)


def scene_second_fencing(side: Side) -> None:
    if not second_generation(side):
        return
    old = side.init()
    side.produce(old, 0, 12)
    new = side.init()
    side.settles(2)
    side.describe(new)
    side.describe_producers()
    side.produce(old, 1, 12)
    side.produce(old, 1, 11)
    side.commit_offset(old, 4, 5)
    for commit in (True, False):
        side.end(old, commit=commit, version=5)
    side.produce(Who(side.name("absent"), 999_999, 0), 0, 12)
    side.commit_offset(Who(side.name("absent"), 999_999, 0), 4, 5)
    side.produce(new, 0, 12)
    side.end(new, commit=True, version=5)
    side.settles(4)
    side.read()
    expiring = side.init("expiring", transaction_timeout_ms=SHORT_MS)
    side.produce(expiring, 0, 12)
    side.settles(6)
    side.describe(expiring)
    side.describe_producers()
    side.produce(expiring, 1, 12)
    side.end(expiring, commit=True, version=5)
    side.init("expiring")


def scene_batched_partitions(side: Side) -> None:
    """AddPartitionsToTxn as brokers ask each other: several transactions, and
    whether a partition is in one.
    """
    for version in side.versions(ApiKey.ADD_PARTITIONS_TO_TXN):
        if version < 4:
            continue
        first, second = side.init(f"one-{version}"), side.init(f"two-{version}")
        absent = Who(side.name("absent"), 5, 0)
        side.add_batched(first, absent, version=version, verify=True)
        side.add_batched(first, second, absent, version=version)
        side.add_batched(first, second, version=version, verify=True)
        side.add_batched(first, version=version, verify=True, partition=9)
        side.add_batched(first, version=version, partition=9)
        side.add_batched(Who(first.name, first.producer_id, 7), version=version, verify=True)
        side.describe(first)
        side.end(first, commit=True)
        side.end(second, commit=False)


SCENES: dict[str, Callable[[Side], None]] = {
    name.removeprefix("scene_"): scene
    for name, scene in list(globals().items())
    if name.startswith("scene_")
}
