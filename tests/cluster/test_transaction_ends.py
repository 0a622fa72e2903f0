"""How a transaction ends while something of it is still under way, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest

from parley import AsyncProducer, TopicPartition
from parley.client import EARLIEST, LATEST, AsyncClient, FetchOptions
from parley.client.transactions.state import State
from parley.devcluster import AsyncLocalCluster
from parley.devcluster.faults.faults import EVERY_TIME
from parley.errors import KafkaError, LocalProtocolError, RequestTimedOut
from parley_laboratory.virtual import VirtualTime

NAME, TOPIC = "tx", "t"
ROWS = pa.table({"value": ["x"]})
COMMITTED = FetchOptions(isolation_level="read_committed")


class Ends:
    """A cluster of one broker of a release, with a topic of one partition, and a client of it."""

    def __init__(self, release: str) -> None:
        self.time = VirtualTime(1)
        self.cluster = AsyncLocalCluster(
            1, release, clock=self.time.clock, seed=1, backend=self.time.network
        )
        self.time.run(self.cluster.start())
        self.cluster.create_topic(TOPIC, 1)
        self.client = AsyncClient(
            bootstrap_servers=self.cluster.bootstrap_servers,
            backend=self.time.network,
            clock=self.time.clock,
            rng=self.time.rng,
        )

    def state(self) -> str:
        """Return what the coordinator says of the transaction."""
        return str(self.cluster.transactions()[NAME].state.value)

    def now_ms(self) -> int:
        """Return the time."""
        return self.time.clock.now_ms()

    async def producer(self) -> AsyncProducer:
        """Return a producer that has committed a record."""
        made = await AsyncProducer(self.client, transactional_id=NAME).start()
        async with made.transaction():
            await made.send_and_wait(TOPIC, b"first")
        await self.time.clock.sleep_ms(1_000)  # the markers are written
        return made

    def close(self) -> None:
        """End everything."""
        self.time.run(self.client.close())
        self.time.run(self.cluster.close())
        self.time.close()


@pytest.fixture
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    made = Ends(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("ends", ["3.9"], indirect=True)
@pytest.mark.parametrize("rest_ms", [0, 5_000])
def test_an_abort_ends_the_attempts_to_add_partitions(ends: Ends, rest_ms: int) -> None:
    def asked() -> int:
        return len(ends.cluster.requests("AddPartitionsToTxn"))

    async def work() -> None:
        producer = await ends.producer()
        ends.cluster.create_topic("other", 1)
        await producer.partitions_for("other")
        ends.cluster.faults.fail("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS")
        await producer.begin_transaction()
        await producer.send("other", b"discarded")
        before = asked()
        while asked() == before:
            await ends.time.clock.sleep_ms(1)
        await producer.abort_transaction()
        await ends.time.clock.sleep_ms(rest_ms)
        assert ends.state() == "CompleteCommit", "the coordinator has not heard of this one"
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, b"next")
        assert asked() == before + 2, "one failed, and one is of the next transaction"
        await producer.close()

    ends.time.run(work())


@pytest.mark.parametrize("ends", ["3.9", "4.1"], indirect=True)
@pytest.mark.parametrize("waits", [True, False], ids=["waits", "has not begun"])
def test_what_an_abort_keeps_from_its_turn_takes_no_sequences_of_the_next_transaction(
    ends: Ends, waits: bool
) -> None:
    async def work() -> None:
        producer = await ends.producer()
        transactions = producer._core.transactions
        assert transactions is not None
        await producer.begin_transaction()
        late = await producer.send(TOPIC, b"discarded")
        if waits:
            async with transactions._writer.sender.lock:
                producer._core.writer.hand_over_all()
                await asyncio.sleep(0)
                aborting = asyncio.ensure_future(producer.abort_transaction())
                await ends.time.clock.sleep_ms(100)
            await aborting
        else:
            producer._core.writer.hand_over_all()
            await producer.abort_transaction()
        assert isinstance(late.exception(), KafkaError)
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, b"next")
        await producer.close()

    ends.time.run(work())


@pytest.mark.parametrize(
    ("ends", "left", "timeout_ms", "most_ms"),
    [
        ("4.1", "CompleteAbort", 1_000, 100),  # the marker's epoch fences what comes late
        ("4.1", "CompleteAbort", 0, 100),
        ("4.1", "CompleteAbort", None, 100),
        ("3.9", "Ongoing", 2_000, 2_100),
        ("3.9", "Ongoing", 0, 1_100),
        ("3.9", "Ongoing", None, 10_100),
    ],
    indirect=["ends"],
)
def test_closing_waits_no_longer_than_it_may_for_a_silent_leader(
    ends: Ends, left: str, timeout_ms: int | None, most_ms: int
) -> None:
    async def work() -> None:
        producer = await ends.producer()
        await producer.begin_transaction()
        await producer.send_and_wait(TOPIC, b"written")
        ends.cluster.faults.drop("Produce", times=EVERY_TIME)
        lost = await producer.send(TOPIC, b"unanswered")
        await ends.time.clock.sleep_ms(300)
        began_ms = ends.now_ms()
        await producer.close(timeout_ms)
        assert ends.now_ms() - began_ms <= most_ms
        assert lost.in_doubt
        await ends.time.clock.sleep_ms(1_000)
        assert ends.state() == left

    ends.time.run(work())


@pytest.mark.parametrize(
    ("ends", "left", "most_ms"),
    [("4.1", "CompleteAbort", 100), ("3.9", "Ongoing", 10_100)],
    indirect=["ends"],
)
def test_a_producer_of_rows_closes_in_time_too(ends: Ends, left: str, most_ms: int) -> None:
    async def work() -> None:
        await ends.client.start()
        producer = await ends.client.transactions.producer(NAME).start()
        await producer.begin_transaction()
        await producer.produce(TOPIC, ROWS)
        ends.cluster.faults.drop("Produce", times=EVERY_TIME)
        writing = asyncio.ensure_future(producer.produce(TOPIC, ROWS))
        await ends.time.clock.sleep_ms(300)
        began_ms = ends.now_ms()
        await producer.close()
        assert ends.now_ms() - began_ms <= most_ms
        assert isinstance((await asyncio.gather(writing, return_exceptions=True))[0], KafkaError)
        await ends.time.clock.sleep_ms(1_000)
        assert ends.state() == left

    ends.time.run(work())


@pytest.mark.parametrize("ends", ["4.1"], indirect=True)
def test_an_abort_that_is_not_over_in_time_may_be_asked_again(ends: Ends) -> None:
    async def work() -> None:
        client = AsyncClient(
            bootstrap_servers=ends.cluster.bootstrap_servers,
            backend=ends.time.network,
            clock=ends.time.clock,
            default_api_timeout_ms=5_000,
        )
        async with client, client.transactions.producer(NAME) as producer:
            await producer.begin_transaction()
            await producer.produce(TOPIC, ROWS)
            ends.cluster.faults.drop("Produce")
            writing = asyncio.ensure_future(producer.produce(TOPIC, ROWS))
            await ends.time.clock.sleep_ms(300)
            began_ms = ends.now_ms()
            with pytest.raises(RequestTimedOut, match="abort_transaction may be called again"):
                await producer.abort_transaction()
            assert ends.now_ms() - began_ms <= 5_100
            await asyncio.gather(writing, return_exceptions=True)
            assert producer.state is State.ABORTING
            await ends.time.clock.sleep_ms(30_000)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.produce(TOPIC, ROWS)

    ends.time.run(work())


class Interrupted(BaseException):
    """As KeyboardInterrupt and a cancellation are: not an error of the block."""


@pytest.mark.parametrize("ends", ["3.9", "4.1"], indirect=True)
@pytest.mark.parametrize("silent", ["EndTxn", "Produce"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "cancelled again"])
def test_a_cancelled_block_waits_no_longer_than_close_and_the_next_begin_ends_its_abort(
    ends: Ends, silent: str, again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def block(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, b"discarded")
            ends.cluster.faults.drop(silent, times=EVERY_TIME)
            await producer.send_and_wait(TOPIC, b"unanswered")
            await asyncio.Event().wait()

    async def work() -> None:
        producer = await ends.producer()
        task = asyncio.ensure_future(block(producer))
        await ends.time.clock.sleep_ms(300)
        began_ms = ends.now_ms()
        task.cancel()
        if again:
            await ends.time.clock.sleep_ms(1_000)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends.now_ms() - began_ms <= (1_100 if again else 10_100)
        assert ends.state() == "Ongoing"
        assert again or "begin_transaction aborts it first" in caplog.text
        ends.cluster.faults.clear()
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, b"next")
        await producer.close()
        tp = TopicPartition(TOPIC, 0)
        seen = [
            value
            async for batch in ends.client.fetch(tp, EARLIEST, LATEST, COMMITTED)
            for value in batch.column("value").to_pylist()
        ]
        assert seen == [b"first", b"next"]

    ends.time.run(work())


@pytest.mark.parametrize("ends", ["4.1"], indirect=True)
def test_a_block_of_rows_that_is_interrupted_waits_no_longer_than_close(ends: Ends) -> None:
    async def work() -> None:
        await ends.client.start()
        async with ends.client.transactions.producer(NAME) as producer:
            ends.cluster.faults.drop("EndTxn", times=EVERY_TIME)
            began_ms = ends.now_ms()
            try:
                async with producer.transaction():
                    await producer.produce(TOPIC, ROWS)
                    raise Interrupted
            except Interrupted:
                pass
            assert ends.now_ms() - began_ms <= 10_100
            assert producer.state is State.ABORTING
            ends.cluster.faults.clear()
            beginning = [asyncio.ensure_future(producer.begin_transaction()) for _ in range(2)]
            first, second = await asyncio.gather(*beginning, return_exceptions=True)
            assert first is None
            assert "open already" in str(second)
            await producer.abort_transaction()

    ends.time.run(work())


@pytest.mark.parametrize("ends", ["4.1"], indirect=True)
def test_a_transaction_is_not_lost_where_handing_it_over_is_cancelled(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        await ends.client.start()
        producer = await ends.client.transactions.producer(NAME).start()
        await producer.begin_transaction()
        await producer.produce(TOPIC, ROWS)
        close, closing = producer._writer.close, asyncio.Event()

        async def slowly() -> None:
            await closing.wait()
            await close()

        monkeypatch.setattr(producer._writer, "close", slowly)
        preparing = asyncio.ensure_future(producer.prepare_transaction())
        await ends.time.clock.sleep_ms(100)
        preparing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await preparing
        closing.set()
        await producer.close()
        await ends.time.clock.sleep_ms(1_000)
        assert ends.state() == "CompleteAbort"

    ends.time.run(work())


@pytest.mark.parametrize("ends", ["4.1"], indirect=True)
def test_a_producer_that_has_not_begun_says_what_comes_first(ends: Ends) -> None:
    async def work() -> None:
        await ends.client.start()
        producer = ends.client.transactions.producer(NAME)
        for call in (
            producer.commit_transaction,
            producer.abort_transaction,
            producer.prepare_transaction,
            lambda: producer.produce(TOPIC, ROWS),
        ):
            with pytest.raises(LocalProtocolError, match="call start"):
                await call()

    ends.time.run(work())
