"""Records of parley's producers and consumers against every release, with the other clients at the
other end; the outcomes are rows of docs/compatibility.md.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from parley import AsyncProducer, Client, TopicPartition
from parley.client import NewTopic, ProduceOptions
from parley.errors import UnsupportedVersionError
from parley.testing.realbroker import RealCluster
from parley.testing.realbroker.releases import version_tuple

from .compat.document import EXCHANGES, sends_with
from .compat.exchanges import OTHERS, Exchanged, Place, drafts, receive, send

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.foreign,
    # Their sockets and event loops are theirs to close.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
RECORDS = 40
Note = Callable[[str, str, str], None]


@pytest.fixture
def place(real_broker: RealCluster, real_release: str, topic_name: str) -> Place:
    """A new topic whose first record stands before those that are exchanged."""
    found = Place(real_broker.bootstrap_servers, topic_name, real_release)
    with Client(bootstrap_servers=found.servers) as client:
        if found.has("0.10.1"):
            client.create_topics([NewTopic(topic_name)])
        options = ProduceOptions(allow_auto_create_topics=True)
        client.produce(topic_name, pa.table({"value": [b"first"]}), 0, options=options)
    return found


@pytest.fixture(autouse=True)
def _collect_their_sockets() -> Iterator[None]:
    yield
    gc.collect()


def without_first(records: list[Exchanged]) -> list[Exchanged]:
    assert records[0].value == b"first"
    return records[1:]


@pytest.mark.parametrize("name", OTHERS)
def test_another_client_reads_what_was_sent(place: Place, name: str, compatibility: Note) -> None:
    """Formats 0 and 1 before 0.10 and 0.11; keys, values, times and headers come through."""
    row, other = sends_with(name), OTHERS[name]
    if not place.has(other.since):
        compatibility(row, place.release, "elsewhere")
        return
    records = drafts(place, 1, RECORDS)
    send(place, records)
    assert without_first(other.read(place, RECORDS + 1)) == records
    compatibility(row, place.release, "works")


@pytest.mark.parametrize("name", OTHERS)
def test_what_another_client_sent_is_read(place: Place, name: str, compatibility: Note) -> None:
    row, other = f"{name} sends", OTHERS[name]
    assert row in EXCHANGES
    if not place.has(other.since):
        compatibility(row, place.release, "elsewhere")
        return
    records = drafts(place, 1, RECORDS)
    other.write(place, records)
    assert without_first(receive(place, RECORDS + 1)) == records
    compatibility(row, place.release, "works")


async def test_what_a_broker_cannot_store_is_refused_at_the_call(
    place: Place, compatibility: Note
) -> None:
    """Headers, and idempotence that was asked for, before 0.11; what comes next is written. A
    release that has headers keeps them.
    """
    async with AsyncProducer(bootstrap_servers=place.servers) as producer:
        sending = producer.send(place.topic, b"h", headers=[("a", None)], partition=0)
        if version_tuple(place.release) < (0, 11):
            with pytest.raises(UnsupportedVersionError, match="record-headers"):
                await sending
            with pytest.raises(UnsupportedVersionError, match="idempotent-producer"):
                async with AsyncProducer(
                    bootstrap_servers=place.servers, enable_idempotence=True
                ) as wanted:
                    await wanted.send_and_wait(place.topic, b"i")
            found = await producer.send_and_wait(place.topic, b"without", partition=0)
            outcome = "refused"
        else:
            found = await (await sending)
            outcome = "works"
    assert found.offset == 1
    seen = await asyncio.to_thread(receive, place, 2)
    assert seen[1].headers == ((("a", None),) if outcome == "works" else ())
    assert TopicPartition(place.topic, 0) == found.topic_partition
    compatibility("headers and idempotence", place.release, outcome)
