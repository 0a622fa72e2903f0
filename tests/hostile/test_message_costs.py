"""Work and memory for each byte of a message, in the shapes that cost most:
of every API, both ways.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest

from parley.errors import RemoteProtocolError
from parley.messages import (
    ApiVersionsResponse,
    Message,
    MetadataRequest,
    MetadataResponse,
    decode_at,
    encode_body,
    encode_response,
    request_class,
    response_class,
)
from parley.messages.codec import codec_for
from parley.messages.costs import CAREFUL_BYTES, LEAST_ALLOWED_BYTES, allowed_bytes
from parley.messages.fast_decode import generate_decoder
from parley.net import Address, ConnectOptions, open_connection
from parley.schema import ApiKey
from parley_laboratory.growth import grows_linearly, peak_bytes, processor_s
from parley_laboratory.shapes import nested, shapes

MOST_TIMES_THE_TIME = 5
MOST_TIMES_THE_MEMORY = 8
MOST_MET = (
    ApiKey.METADATA, ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_CONFIGS, ApiKey.FIND_COORDINATOR, ApiKey.CREATE_TOPICS,
)  # fmt: skip
"""Of these the memory is counted in each landing, of all others in the long suite:
it takes seconds for each.
"""
LARGE_BYTES = 30_000
"""What counts as large in the tests of memory, for which the least allowance is lowered."""


def metadata(partitions: int, topics: int = 10, replicas: int = 3) -> bytes:
    """Return an honest answer, as a large cluster gives it."""
    topic, partition = (
        MetadataResponse.MetadataResponseTopic,
        MetadataResponse.MetadataResponsePartition,
    )
    each = partitions // topics
    made = [
        partition(
            partition_index=index,
            leader_id=1_000 + index % 50,
            leader_epoch=index % 9,
            replica_nodes=[1_000 + (index + k) % 50 for k in range(replicas)],
            isr_nodes=[1_000 + (index + k) % 50 for k in range(replicas)],
        )
        for index in range(each)
    ]
    answer = MetadataResponse(
        topics=[topic(name=f"topic-{number}", partitions=made) for number in range(topics)]
    )
    return b"".join(bytes(part) for part in encode_body(answer, 12))


def floods(message: type[Message], size_bytes: int) -> dict[str, tuple[int, bytes]]:
    """Return the costly shapes of a message in its oldest and its newest
    version, with the version.
    """
    versions = message.SCHEMA.valid_versions
    return {
        f"v{version} {name}": (version, data)
        for version in sorted({versions.min, versions.max})
        for name, data in (
            shapes(message, version, size_bytes) | nested(message, version, size_bytes)
        ).items()
    }


@pytest.fixture(scope="module")
def ordinary() -> Callable[[], float]:
    """Return a function that measures the processor time of a byte of
    Metadata and ApiVersions, now.
    """
    entry = ApiVersionsResponse.ApiVersion
    versions = ApiVersionsResponse(
        api_keys=[entry(api_key=int(key), max_version=9) for key in ApiKey] * 20
    )
    listed = b"".join(bytes(part) for part in encode_body(versions, 3))
    reported = metadata(2_000)

    def measured() -> float:
        one = processor_s(partial(decode_at, MetadataResponse, 12, reported), 3) / len(reported)
        return (
            one + processor_s(partial(decode_at, ApiVersionsResponse, 3, listed), 3) / len(listed)
        ) / 2

    return measured


@pytest.mark.long  # a ratio of times: it is asked of a quiet machine
@pytest.mark.parametrize("kind", [request_class, response_class], ids=["requests", "responses"])
@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name.lower())
def test_a_byte_takes_at_most_five_times_the_ordinary_time(
    key: ApiKey, kind: Callable[[int], type[Message]], ordinary: Callable[[], float]
) -> None:
    message = kind(key)
    for name, (version, data) in floods(message, 8 * 1024).items():
        work = partial(decode_at, message, version, data)
        work()  # the decoder is made now
        ratio = 0.0
        for rounds in (1, 3, 9):  # a busy machine is given more of them
            ratio = processor_s(work, rounds) / len(data) / ordinary()
            if ratio <= MOST_TIMES_THE_TIME:
                break
        assert ratio <= MOST_TIMES_THE_TIME, name


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [request_class, response_class], ids=["requests", "responses"])
@pytest.mark.parametrize(
    "key",
    [pytest.param(key, marks=[] if key in MOST_MET else [pytest.mark.long]) for key in ApiKey],
    ids=lambda key: key.name.lower(),
)
def test_a_large_message_takes_at_most_eight_times_its_size(
    key: ApiKey, kind: Callable[[int], type[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.messages.codec.CAREFUL_BYTES", 1_000)
    monkeypatch.setattr("parley.messages.costs.LEAST_ALLOWED_BYTES", 4 * LARGE_BYTES)
    message = kind(key)
    for name, (version, data) in floods(message, LARGE_BYTES).items():
        taken = _peak_bytes(message, version, data)
        assert taken <= MOST_TIMES_THE_MEMORY * len(data), name


@pytest.mark.parametrize(
    "name",
    ["topics: empty", "topics.partitions: large", "tags", "topics.partitions.isr_nodes: large"],
)
def test_work_is_linear(name: str) -> None:
    grows_linearly(
        lambda size: shapes(MetadataResponse, 12, size)[name],
        partial(_decoded_or_refused, MetadataResponse, 12),
        8_000,
    )


def _peak_bytes(message: type[Message], version: int, data: bytes) -> int:
    """Return the memory that decoding takes. tracemalloc looks each line number up, for
    minutes in such long code.
    """
    _without_lines(message, version)
    return peak_bytes(partial(_decoded_or_refused, message, version, data))


@cache
def _without_lines(message: type[Message], version: int) -> None:
    codec = codec_for(message, version)
    for name in ("decode", "careful"):
        made: Any = generate_decoder(
            message, version, codec.reading_plan, careful=name == "careful"
        )
        made.__code__ = made.__code__.replace(co_linetable=b"")
        setattr(codec, name, made)


def _decoded_or_refused(message: type[Message], version: int, data: bytes) -> object:
    try:
        return decode_at(message, version, data)
    except RemoteProtocolError as error:
        assert "of memory" in str(error)  # noqa: PT017  # either is right
        return None


@pytest.mark.parametrize(
    ("partitions", "topics"), [(100_000, 10_000), (100_000, 10), (250_000, 100)]
)
def test_honest_answers_of_large_clusters_decode(partitions: int, topics: int) -> None:
    data = metadata(partitions, topics)
    decoded: Any = decode_at(MetadataResponse, 12, data)[0]
    assert sum(len(topic.partitions) for topic in decoded.topics) == partitions
    assert decoded.topics[-1].partitions[-1].replica_nodes[0] >= 1_000


def test_careful_and_quick_decoders_are_equal() -> None:
    """They are made by the same generator; sharing lists may not change what is in them."""
    for key in ApiKey:
        for message in (request_class(key), response_class(key)):
            for name, (version, data) in floods(message, 300).items():
                codec = codec_for(message, version)
                careful = codec.careful(memoryview(data), 0, LEAST_ALLOWED_BYTES)
                assert careful == codec.decode(
                    data if not codec.holds_records else memoryview(data), 0
                ), name


@pytest.mark.matrix
def test_no_small_message_needs_an_account() -> None:
    """The quick decoder asks nothing: the worst that its largest input can hold is
    within the least allowance.
    """
    for name, data in shapes(MetadataResponse, 12, CAREFUL_BYTES - 200).items():
        assert _peak_bytes(MetadataResponse, 12, data) <= LEAST_ALLOWED_BYTES, name
    assert allowed_bytes(CAREFUL_BYTES) == LEAST_ALLOWED_BYTES


async def test_a_large_answer_does_not_hold_the_event_loop() -> None:
    """A broker may send what takes seconds to decode; timers and other
    connections go on meanwhile.
    """
    body = metadata(60_000, 100)
    flood = shapes(MetadataResponse, 12, 3_000_000)["topics.partitions: empty"]
    canary = struct.pack(">ihi", 1, 0, 0)  # a first connection asks for groups too
    answers = [canary, struct.pack(">i", 2) + b"\0" + body, struct.pack(">i", 3) + b"\0" + flood]

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        entry = ApiVersionsResponse.ApiVersion
        versions = ApiVersionsResponse(
            api_keys=[entry(api_key=3, max_version=12), entry(api_key=18, max_version=4)]
        )
        answer = b"".join(bytes(part) for part in encode_response(versions, 4, 0))
        for frame in (answer, *answers):
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            writer.write(struct.pack(">i", len(frame)) + frame)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(broker, "127.0.0.1", 0)
    connection = await open_connection(
        Address(*server.sockets[0].getsockname()[:2]), ConnectOptions(request_timeout_ms=120_000)
    )
    decoders = _threads_that_decode()
    reply = await connection.request(MetadataRequest(topics=[]))
    assert sum(len(topic.partitions) for topic in reply.message.topics) == 60_000
    reply = await connection.request(MetadataRequest(topics=[]))
    assert len(reply.message.topics[0].partitions) > 100_000
    assert len(decoders) == 2
    assert threading.get_ident() not in decoders
    await connection.close()
    server.close()


def _threads_that_decode() -> list[int]:
    """Return the list to which each careful decoding of Metadata v12 adds its thread."""
    codec = codec_for(MetadataResponse, 12)
    threads: list[int] = []
    careful = generate_decoder(MetadataResponse, 12, codec.reading_plan, careful=True)

    def recorded(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return careful(*arguments)

    codec.careful = recorded
    return threads
