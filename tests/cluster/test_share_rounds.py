"""Rounds of a share consumer in virtual time: what is acquired while the application works, and
batches, with how they are acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley.client import (
    AcknowledgeType,
    AcquiredBatch,
    AsyncClient,
    AsyncShareConsumer,
    TopicPartition,
)
from parley.client.share.exchange import ShareExchange
from parley.devcluster import AsyncLocalCluster, ClusterSettings
from parley.errors import ConfigError, KafkaError, LocalProtocolError
from parley.messages import IncrementalAlterConfigsRequest
from parley_laboratory.virtual import VirtualTime

GROUP, TOPIC, TP = "workers", "jobs", TopicPartition("jobs", 0)
GROUP_RESOURCE, SET = 32, 0
LOCK_MS = 10_000
SETTINGS = ClusterSettings(
    start_time_ms=1_700_000_000_000,
    group_share_heartbeat_interval_ms=1_000,
    group_share_assignment_interval_ms=100,
    group_share_record_lock_duration_ms=LOCK_MS,
)
EXPLICIT = {"share_acknowledgement_mode": "explicit"}
RELEASE, REJECT, RENEW = AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW


class Rounds:
    """A cluster with a topic of one partition, and a group that reads it from the start."""

    def __init__(self) -> None:
        self.time = VirtualTime(1)
        self.cluster = AsyncLocalCluster(
            1, "4.3", clock=self.time.clock, seed=1, backend=self.time.network, settings=SETTINGS
        )
        self.time.run(self.cluster.start())
        self.cluster.create_topic(TOPIC, 1)
        self.client = self._client()
        made = IncrementalAlterConfigsRequest
        config = made.AlterableConfig(
            name="share.auto.offset.reset", config_operation=SET, value="earliest"
        )
        resource = made.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=[config]
        )
        self.time.run(self.client.request(1, made(resources=[resource])))

    def _client(self) -> AsyncClient:
        time = self.time
        return AsyncClient(
            bootstrap_servers=self.cluster.bootstrap_servers,
            backend=time.network,
            clock=time.clock,
            rng=time.rng,
        )

    def write(self, count: int) -> None:
        """Write one record batch."""
        values = pa.table({"value": [b"%d" % at for at in range(count)]})
        self.time.run(self.client.produce(TOPIC, values))

    def join(self, **options: object) -> AsyncShareConsumer:
        """Start a member; it has its partition when this returns."""
        consumer = AsyncShareConsumer(self._client(), group_id=GROUP, **options)  # type: ignore[arg-type]
        self.time.run(consumer.start())

        async def subscribing() -> None:
            consumer.subscribe([TOPIC])

        self.time.run(subscribing())
        self.time.until(lambda: consumer.health().assigned == (TP,))
        return consumer

    def rows(self, consumer: AsyncShareConsumer, timeout_ms: int = 0) -> list[tuple[int, int]]:
        """Poll; return offsets and delivery counts."""
        found = self.time.run(consumer.getmany(timeout_ms=timeout_ms))
        return [(row.offset, row.delivery_count or 0) for rows in found.values() for row in rows]

    def batch(self, consumer: AsyncShareConsumer) -> AcquiredBatch:
        """Return the next batch."""

        async def first() -> AcquiredBatch:
            async for found in consumer.batches():
                return found
            raise AssertionError

        return self.time.run(first())

    def fetches(self) -> int:
        """Return how many ShareFetch requests there were."""
        return len(self.cluster.requests("ShareFetch"))

    def close(self) -> None:
        """End everything."""
        self.time.run(self.cluster.close())
        self.time.close()


@pytest.fixture
def rounds() -> Iterator[Rounds]:
    made = Rounds()
    yield made
    made.close()


def offsets(first: int, end: int, deliveries: int = 1) -> list[tuple[int, int]]:
    return [(at, deliveries) for at in range(first, end)]


def shown(found: AcquiredBatch) -> list[tuple[int, int]]:
    columns = (found.batch.column(name).to_pylist() for name in ("offset", "delivery_count"))
    return list(zip(*columns, strict=True))


# -- what is acquired while the application works --------------------------------------------------


def test_nothing_is_acquired_while_the_application_works(rounds: Rounds) -> None:
    consumer = rounds.join()
    rounds.write(5)
    assert rounds.rows(consumer, 1_000) == offsets(0, 5)
    before = rounds.fetches()
    rounds.write(5)
    rounds.time.advance(3_000)
    assert (rounds.fetches(), consumer.health().waiting) == (before, 0)
    assert rounds.rows(consumer, 1_000) == offsets(5, 10)


def test_a_poll_that_found_nothing_goes_on_asking_until_something_is_acquired(
    rounds: Rounds,
) -> None:
    consumer = rounds.join()
    assert rounds.rows(consumer) == []
    rounds.time.advance(3_000)
    assert rounds.fetches() >= 5  # a broker waits for 500 ms
    rounds.write(5)
    rounds.time.advance(100)
    rounds.write(5)
    rounds.time.advance(3_000)
    assert consumer.health().waiting == 5
    assert rounds.rows(consumer) == offsets(0, 5)


def test_with_share_prefetch_the_next_records_are_acquired_meanwhile(rounds: Rounds) -> None:
    consumer = rounds.join(share_prefetch=True, max_poll_records=3)
    rounds.write(5)
    assert rounds.rows(consumer, 1_000) == offsets(0, 3)
    rounds.write(5)
    rounds.time.advance(1_000)
    assert consumer.health().waiting == 2  # a broker is asked when these are handed out too
    assert rounds.rows(consumer) == offsets(3, 5)
    rounds.time.advance(1_000)
    assert consumer.health().waiting == 5
    before = rounds.fetches()
    assert rounds.rows(consumer) == offsets(5, 8)
    assert rounds.rows(consumer) == offsets(8, 10)
    rounds.time.run(consumer.commit())
    rounds.time.run(consumer.close())
    assert rounds.fetches() > before
    assert rounds.rows(rounds.join(), 1_000) == []  # all were accepted


@pytest.mark.parametrize("timeout_ms", [0, 1_500])
def test_the_callback_hears_of_acknowledgements_that_the_end_leaves_unanswered(
    rounds: Rounds, timeout_ms: int
) -> None:
    heard: list[tuple[dict[TopicPartition, tuple[int, ...]], str]] = []
    consumer = rounds.join(**EXPLICIT)
    consumer.set_acknowledgement_commit_callback(
        lambda offsets, error: heard.append((offsets, str(error)))
    )
    rounds.write(3)
    (records,) = rounds.time.run(consumer.getmany(timeout_ms=1_000)).values()
    for record in records:
        consumer.acknowledge(record)
    rounds.cluster.faults.drop("ShareAcknowledge", times=-1)
    rounds.time.run(consumer.close(timeout_ms=timeout_ms))
    assert heard == [({TP: (0, 1, 2)}, "the consumer was closed before a broker had answered")]


def test_what_was_acquired_meanwhile_is_released_at_the_end(rounds: Rounds) -> None:
    consumer = rounds.join(share_prefetch=True)
    rounds.write(5)
    assert rounds.rows(consumer, 1_000) == offsets(0, 5)
    rounds.write(5)
    rounds.time.advance(1_000)
    assert consumer.health().waiting == 5
    rounds.time.run(consumer.commit())
    rounds.time.run(consumer.close())
    assert rounds.rows(rounds.join(), 1_000) == offsets(5, 10, 2)


def test_nothing_is_acquired_ahead_that_the_work_would_take_beyond_its_lock(
    rounds: Rounds,
) -> None:
    consumer = rounds.join(share_prefetch=True)
    rounds.write(5)
    assert rounds.rows(consumer, 1_000) == offsets(0, 5)
    rounds.write(5)
    rounds.time.advance(LOCK_MS * 6 // 10)  # what waits has less than that left
    assert rounds.rows(consumer) == offsets(5, 10)
    before = rounds.fetches()
    rounds.write(5)
    rounds.time.advance(LOCK_MS // 10)
    assert (rounds.fetches(), consumer.health().waiting) == (before, 0)
    assert rounds.rows(consumer, 1_000) == offsets(10, 15)  # and that round was short again
    rounds.write(5)
    rounds.time.advance(LOCK_MS // 10)
    assert consumer.health().waiting == 5


def test_records_that_waited_beyond_their_lock_are_dropped(rounds: Rounds) -> None:
    consumer = rounds.join(share_prefetch=True)
    rounds.write(5)
    assert rounds.rows(consumer, 1_000) == offsets(0, 5)
    rounds.write(5)
    rounds.time.advance(LOCK_MS - 500)
    rounds.time.run(consumer.commit())
    rounds.time.advance(LOCK_MS)
    assert rounds.rows(consumer, 1_000) == offsets(5, 10, 2)


def test_a_limit_of_records_leaves_no_room_for_more() -> None:
    with pytest.raises(ConfigError, match="share_prefetch=True contradicts"):
        AsyncShareConsumer(group_id=GROUP, share_prefetch=True, share_acquire_mode="record_limit")


# -- batches ---------------------------------------------------------------------------------------


def test_the_next_batch_accepts_the_one_before(rounds: Rounds) -> None:
    consumer = rounds.join()
    rounds.write(5)
    rounds.write(3)
    found = rounds.batch(consumer)
    assert found.partition == TP
    assert found.batch.column("value").to_pylist()[:5] == [b"0", b"1", b"2", b"3", b"4"]
    assert shown(found) == offsets(0, found.batch.num_rows)
    if found.batch.num_rows == 5:
        assert shown(rounds.batch(consumer)) == offsets(5, 8)
    rounds.write(2)
    assert shown(rounds.batch(consumer)) == offsets(8, 10)
    rounds.time.run(consumer.close())  # which releases the last one
    assert shown(rounds.batch(rounds.join())) == offsets(8, 10, 2)


def test_rows_become_what_was_said_of_them_and_the_rest_what_was_said_of_the_batch(
    rounds: Rounds,
) -> None:
    consumer = rounds.join(**EXPLICIT)
    rounds.write(6)
    found = rounds.batch(consumer)
    with pytest.raises(LocalProtocolError, match="6 records of the poll before"):
        rounds.batch(consumer)
    for offset, kind in ((1, REJECT), (2, RELEASE), (4, RENEW)):
        consumer.acknowledge(TP, kind, offset=offset)
    consumer.acknowledge(found)
    with pytest.raises(LocalProtocolError, match="none of them that nothing was said of"):
        consumer.acknowledge(found, RELEASE)
    rounds.time.run(consumer.commit())
    again = sorted(shown(rounds.batch(consumer)))
    assert again in ([(4, 1)], [(2, 2)])
    consumer.acknowledge(TP, offset=again[0][0])
    again += shown(rounds.batch(consumer))
    assert sorted(again) == [(2, 2), (4, 1)]
    consumer.acknowledge(TP, offset=again[1][0])
    rounds.time.run(consumer.commit())
    rounds.time.run(consumer.close())
    assert rounds.rows(rounds.join(), 1_000) == []


def test_records_and_batches_of_one_consumer_may_alternate(rounds: Rounds) -> None:
    consumer = rounds.join(max_poll_records=2)
    rounds.write(6)
    assert rounds.rows(consumer, 1_000) == offsets(0, 2)
    assert shown(rounds.batch(consumer)) == offsets(2, 6)
    rounds.write(2)
    assert rounds.rows(consumer, 1_000) == offsets(6, 8)
    rounds.time.run(consumer.commit())
    rounds.time.run(consumer.close())
    assert rounds.rows(rounds.join(), 1_000) == []


def test_a_whole_batch_is_said_of_in_explicit_mode_only(rounds: Rounds) -> None:
    consumer = rounds.join()
    rounds.write(2)
    found = rounds.batch(consumer)
    with pytest.raises(LocalProtocolError, match="acknowledged by polls"):
        consumer.acknowledge(found)
    with pytest.raises(ConfigError, match="a record has its own"):
        consumer.acknowledge(found, offset=1)


def test_a_defect_is_raised_by_a_poll_and_the_records_come_all_the_same(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    rounds.write(3)

    async def work() -> None:
        async with AsyncShareConsumer(rounds.client, group_id=GROUP) as consumer:
            consumer.subscribe([TOPIC])
            with monkeypatch.context() as patch:
                patch.setattr(ShareExchange, "_take", broken)
                with pytest.raises(KafkaError, match="a defect"):
                    await consumer.getmany(timeout_ms=5_000)
            found = await consumer.getmany(timeout_ms=3 * LOCK_MS)
            assert [record.offset for record in found[TP]] == [0, 1, 2]

    rounds.time.run(work())
