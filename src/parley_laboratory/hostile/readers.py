"""Hostile bytes at what a client reads: answers of every API and version,
connections, and record sets.
"""

from __future__ import annotations

import struct
from functools import cache
from random import Random

from parley.errors import CorruptRecordError, KafkaError, RemoteProtocolError
from parley.messages import decode_response, encode_response, response_class
from parley.protocol import (
    NEED_DATA,
    PAUSED,
    ClientProtocol,
    ClientSettings,
    Closed,
    ResponseReceived,
)
from parley.records import (
    ReadOptions,
    Record,
    WriteOptions,
    columns_from_records,
    decode_columns,
    encode_batches,
)
from parley.schema import ApiKey, load
from parley_laboratory.hostile.account import HostileAccount
from parley_laboratory.hostile.mutations import Mutator
from parley_laboratory.samples import SampleMaker

CODECS = {0: (0, 1, 2), 1: (0, 1, 2, 3), 2: (0, 1, 2, 3, 4)}
"""Magic → the codecs (none, gzip, snappy, lz4, zstd) that its batches may have."""

RELEASES = ("0.10.0.1", "0.11.0.3", "2.4.1", "3.9.1", "4.3.0")


def attack_readers(inputs: int, seed: int) -> HostileAccount:
    """Give hostile bytes to everything of a client that reads, and return what became of each.

    Six of ten inputs are answers of all APIs and versions, two of ten whole connections (frames,
    correlation ids, negotiation), two of ten record sets of every format and codec. Only
    RemoteProtocolError and CorruptRecordError may come out.
    """
    rng = Random(seed)
    account = HostileAccount(seed)
    attacks = (_answer,) * 6 + (_connection,) * 2 + (_record_set,) * 2
    mutator, maker = Mutator(rng), SampleMaker(rng, most=2, plain=True)
    for number in range(inputs):
        attack = attacks[number % len(attacks)]
        try:
            outcome = attack(rng, mutator, maker)
        except (RemoteProtocolError, CorruptRecordError) as error:
            outcome = f"refused: {type(error).__name__}"
        except Exception as error:
            outcome = "breach"
            account.breach(
                number, f"{attack.__name__.strip('_')} raised {type(error).__name__}: {error}"
            )
        account.outcomes[outcome] += 1
    return account.close()


def _answer(rng: Random, mutator: Mutator, maker: SampleMaker) -> str:
    key = rng.choice(list(ApiKey))
    versions = load(key).response.valid_versions
    version = rng.randint(versions.min, versions.max)
    frame = b"".join(
        bytes(part)
        for part in encode_response(maker.message(response_class(key), version), version, 1)
    )
    decode_response(key, version, mutator.mutated(frame))
    return "decoded"


def _connection(rng: Random, mutator: Mutator, maker: SampleMaker) -> str:
    """Answer a connection's first requests with bent frames, in pieces."""
    client = ClientProtocol(ClientSettings(pinned_release=rng.choice((None, *RELEASES))))
    client.start(0)
    client.data_to_send()
    frames = []
    for correlation_id in range(3):
        version = rng.choice((0, 1, 2, 3, 4))
        message = maker.message(response_class(ApiKey.API_VERSIONS), version)
        parts = encode_response(message, version, correlation_id)
        body = b"".join(bytes(part) for part in parts)
        frames.append(struct.pack(">i", len(body)) + body)
    stream = mutator.mutated(b"".join(frames))
    cut = rng.randrange(len(stream) + 1)
    outcome = "waits for more"
    for piece in (stream[:cut], stream[cut:]):
        client.receive_data(piece)
        while (event := client.next_event()) not in (NEED_DATA, PAUSED):
            if isinstance(event, Closed):
                if not isinstance(event.error, KafkaError):
                    raise TypeError(f"the connection ended with {event.error!r}")
                return f"closed: {type(event.error).__name__}"
            outcome = "answered" if isinstance(event, ResponseReceived) else "negotiated"
    return outcome


@cache
def _record_sets() -> tuple[bytes, ...]:
    """Return valid record sets: every magic with each of its codecs, small and repetitive ones."""
    rows = [
        Record(i, 1_000 + i, 0, b"k%d" % i, b"v" * (i * 7 % 50), (("h", b"x"),) * (i % 3))
        for i in range(12)
    ]
    plain = [Record(row.offset, row.timestamp_ms, 0, row.key, row.value) for row in rows]
    made = []
    for magic, codecs in CODECS.items():
        columns = columns_from_records(rows if magic == 2 else plain, with_offsets=False)
        for codec in codecs:
            batches = encode_batches(
                columns, None, WriteOptions(magic=magic, codec=codec, max_records=5)
            )
            made.append(b"".join(bytes(batch.data) for batch in batches))
    return tuple(made)


def _record_set(rng: Random, mutator: Mutator, maker: SampleMaker) -> str:
    """Bend a record set. Half of them are read without looking at the CRC: what lies
    behind it must hold as well.
    """
    data = rng.choice(_record_sets())
    options = ReadOptions(check_crc=rng.random() < 0.5, max_batch_bytes=2**20)
    rows = 0
    for chunk in decode_columns(
        mutator.mutated(data), first_offset=rng.choice((0, 0, 3)), options=options
    ):
        rows += chunk.columns.rows
    return "records read" if rows else "no records read"
