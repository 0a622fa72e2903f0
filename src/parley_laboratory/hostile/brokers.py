"""Hostile bytes at what an embedded broker reads: bent requests of every API and
version, to every release.
"""

from __future__ import annotations

import logging
import struct
from random import Random

from parley.devcluster import AsyncLocalCluster
from parley.messages import MetadataRequest, ProduceRequest, encode_request, request_class
from parley.net.address import Address, parse_address
from parley.net.clock import settle
from parley.records import Record, WriteOptions, columns_from_records, encode_batches
from parley.schema import ApiKey, load
from parley_laboratory.hostile.account import HostileAccount
from parley_laboratory.hostile.mutations import Mutator
from parley_laboratory.samples import SampleMaker
from parley_laboratory.virtual import VirtualTime

RELEASES = ("0.9.0.1", "0.10.0.1", "0.11.0.3", "1.1.1", "2.4.1", "3.9.1", "4.3.0")
INPUTS_PER_CLUSTER = 500
"""After so many inputs a fresh cluster of the next release: what they created does not add up."""

TOPIC = "events"
ROUNDS = 25
"""Steps of the loop in which a broker reads a request and answers."""


class _Ear:
    """The client's end of a stream: keeps the first bytes that came, and
    whether the stream is over.
    """

    def __init__(self) -> None:
        self.received = 0
        self.head = b""
        self.over = False
        self._buffer = bytearray(64 * 1024)

    def get_buffer(self, size_hint_bytes: int = -1) -> memoryview:
        """Return memory for received bytes."""
        return memoryview(self._buffer)

    def buffer_updated(self, received_bytes: int) -> None:
        """Count them."""
        if len(self.head) < 16:
            self.head += bytes(self._buffer[: min(16, received_bytes)])
        self.received += received_bytes

    def connection_lost(self, cause: Exception | None) -> None:
        """Take note of the end."""
        self.over = True


class _Errors(logging.Handler):
    """Collects what the cluster logs as an error: a handler that raises drops its
    client, and looks like a refusal.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text, with the exception's."""
        error = record.exc_info[1] if record.exc_info else None
        self.texts.append(
            f"{record.getMessage()} {error!r}" if error is not None else record.getMessage()
        )


def attack_brokers(inputs: int, seed: int, releases: tuple[str, ...] = RELEASES) -> HostileAccount:
    """Send hostile requests to embedded brokers of
    several releases, and return what became of each.

    After every fifty inputs an honest client asks for the broker's versions and must be answered.
    """
    rng = Random(seed)
    account = HostileAccount(seed)
    errors = _Errors()
    log = logging.getLogger("parley")
    log.addHandler(errors)
    try:
        for begun in range(0, inputs, INPUTS_PER_CLUSTER):
            release = releases[begun // INPUTS_PER_CLUSTER % len(releases)]
            _one_cluster(
                release, range(begun, min(begun + INPUTS_PER_CLUSTER, inputs)), rng, account, errors
            )
    finally:
        log.removeHandler(errors)
    return account.close()


def _one_cluster(
    release: str, numbers: range, rng: Random, account: HostileAccount, errors: _Errors
) -> None:
    time = VirtualTime(account.seed)
    cluster = AsyncLocalCluster(
        1, release, clock=time.clock, seed=account.seed, backend=time.network
    )
    try:
        time.run(cluster.start())
        cluster.create_topic(TOPIC)
        time.loop.run_until_complete(_attack(time, cluster, numbers, rng, account, errors))
    finally:
        time.run(cluster.close())
        time.close()


async def _attack(
    time: VirtualTime,
    cluster: AsyncLocalCluster,
    numbers: range,
    rng: Random,
    account: HostileAccount,
    errors: _Errors,
) -> None:
    address = parse_address(cluster.bootstrap_servers)
    maker, mutator = _RequestMaker(rng, cluster), Mutator(rng)
    for number in numbers:
        frame = maker.frame()
        # unbent ones have hostile values
        bent = mutator.mutated(frame) if rng.random() < 0.8 else frame
        size = struct.pack(
            ">i", len(bent) if rng.random() < 0.9 else rng.choice((-1, 0, 2**31 - 1, len(bent) + 1))
        )
        account.outcomes[await _send(time, address, size + bent)] += 1
        for text in errors.texts:
            account.breach(number, f"{cluster.broker(1).release}: {text}")
        errors.texts.clear()
        if number % 50 == 49 and not await _serves(time, address):
            account.breach(number, f"{cluster.broker(1).release}: no longer answers ApiVersions")


async def _send(time: VirtualTime, address: Address, data: bytes) -> str:
    """Send bytes on a connection of their own and return what the broker did."""
    ear = _Ear()
    stream = await time.network.connect(address, address, ear, None, lambda stage: None)
    stream.write([data])
    await settle(ROUNDS)
    time.network.streams.clear()
    outcome = "answered" if ear.received else "closed" if ear.over else "waits"
    stream.abort()
    await settle(3)
    return outcome


async def _serves(time: VirtualTime, address: Address) -> bool:
    """Whether an honest request is answered. (0.9 knows no ApiVersions: Metadata,
    which every release has.)
    """
    honest = encode_request(MetadataRequest(topics=[]), 0, 7, "honest")
    frame = b"".join(bytes(part) for part in honest)
    return await _send(time, address, struct.pack(">i", len(frame)) + frame) != "closed"


class _RequestMaker:
    """Valid requests: any API and version that the broker advertises, now and then
    others; real topics and records.
    """

    def __init__(self, rng: Random, cluster: AsyncLocalCluster) -> None:
        self._rng = rng
        self._maker = SampleMaker(rng, most=2, plain=True)
        self._ranges = cluster.broker(1).profile.ranges
        rows = [Record(i, 1_000 + i, 0, b"k", b"v" * 20) for i in range(3)]
        columns = columns_from_records(rows, with_offsets=False)
        self._records = {
            magic: b"".join(
                bytes(b.data) for b in encode_batches(columns, None, WriteOptions(magic=magic))
            )
            for magic in (0, 1, 2)
        }

    def frame(self) -> bytes:
        """Return a request's bytes, without its size."""
        rng = self._rng
        known = sorted(set(self._ranges) & set(ApiKey))
        key = ApiKey(rng.choice(known) if rng.random() < 0.95 else rng.choice(list(ApiKey)))
        written = load(key).request.valid_versions
        allowed = self._ranges.get(key, written)
        version = rng.randint(max(allowed.min, written.min), min(allowed.max, written.max))
        message = self._maker.message(request_class(key), version)
        if isinstance(message, ProduceRequest):
            self._fill_in(message, version)
        return b"".join(
            bytes(part)
            for part in encode_request(message, version, rng.randrange(2**31), "hostile")
        )

    def _fill_in(self, produce: ProduceRequest, version: int) -> None:
        produce.acks = self._rng.choice((-1, 0, 1, 7))
        for topic in produce.topic_data:
            topic.name = topic.name and TOPIC
            for partition in topic.partition_data:
                partition.index = 0
                partition.records = self._records[min(2, max(0, version - 1))]
