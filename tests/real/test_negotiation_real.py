"""The first whole path: a negotiated connection to a real broker of each release,
and one exchange over it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.errors import UnsupportedVersionError
from parley.messages import CreateTopicsRequest, MetadataRequest
from parley.net import ConnectOptions, open_connection
from parley.schema import ApiKey
from parley.testing.realbroker import RealCluster
from parley.versions import release

from ..support import GENEROUS_MS


async def test_metadata_over_a_negotiated_connection(
    real_broker: RealCluster, real_release: str
) -> None:
    address = real_broker.broker(1).address
    connection = await open_connection(address, ConnectOptions(bootstrap_servers=address))
    try:
        reply = await connection.request(MetadataRequest(topics=[]), timeout_ms=GENEROUS_MS)
        brokers = [(b.node_id, f"{b.host}:{b.port}") for b in reply.message.brokers]
        assert brokers == [(1, address)]
        assert reply.version == connection.versions.choose(ApiKey.METADATA)
        reply.release()
    finally:
        await connection.close()


async def test_ranges_are_those_of_the_release(real_broker: RealCluster, real_release: str) -> None:
    """What was negotiated is what our table says of the release; for 0.9, which says
    nothing, by the table alone.
    """
    address = real_broker.broker(1).address
    connection = await open_connection(address, ConnectOptions(bootstrap_servers=address))
    try:
        expected = release(real_release)
        assert expected.name == real_release
        assert dict(connection.versions.ranges) == dict(expected.ranges)
    finally:
        await connection.close()


@pytest.mark.parametrize("old_release", ["0.9.0.1", "0.10.0.1"])
async def test_what_the_broker_lacks_is_refused_before_a_byte_is_sent(
    old_release: str, real_cluster: Callable[[str], RealCluster]
) -> None:
    address = real_cluster(old_release).broker(1).address
    connection = await open_connection(address, ConnectOptions(bootstrap_servers=address))
    try:
        with pytest.raises(UnsupportedVersionError) as refused:
            await connection.request(CreateTopicsRequest(topics=[]), timeout_ms=GENEROUS_MS)
        assert refused.value.local
        assert refused.value.first_release is not None
        assert connection.in_flight == 0
        reply = await connection.request(
            MetadataRequest(topics=[]), timeout_ms=GENEROUS_MS
        )  # the connection is as good
        reply.release()
    finally:
        await connection.close()
