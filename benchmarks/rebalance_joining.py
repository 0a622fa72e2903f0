"""A thousand members join one group of an embedded cluster.

The coordinator is in a process of its own (`serve`); the members are in this one, each with a
connection that is open before the first joins. Printed is the time from the first JoinGroup to the
last SyncGroup that is answered, and the requests of each member.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time

from parley.devcluster import AsyncLocalCluster, ClusterSettings
from parley.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest
from parley.net import BrokerConnection, ConnectOptions, open_connection
from parley.net.address import parse_address

GROUP, TOPIC, MEMBERS = "thousand", "joining", 1_000
DELAY_MS = 200
"""`group.initial.rebalance.delay.ms`: so long after the last newcomer the group is complete."""
TIMEOUT_MS = 60_000
SUBSCRIPTION = (
    bytes.fromhex("0003 00000001 0007")
    + b"joining"
    + bytes.fromhex("ffffffff 00000000 ffffffff ffff")
)


async def serve() -> None:
    settings = ClusterSettings(group_initial_rebalance_delay_ms=DELAY_MS)
    async with AsyncLocalCluster(1, settings=settings) as cluster:
        cluster.create_topic(TOPIC, MEMBERS)
        print(cluster.bootstrap_servers, flush=True)
        await asyncio.Event().wait()


class Member:
    """One member on a connection of its own."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self.requests = 0

    async def join(self) -> None:
        """Join, lead if asked to, and return with an assignment."""
        joined = await self._join("")
        if joined.error_code == 79:  # MEMBER_ID_REQUIRED
            joined = await self._join(joined.member_id)
        assert joined.error_code == 0, joined
        give = SyncGroupRequest.SyncGroupRequestAssignment
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                give(member_id=one.member_id, assignment=b"its share") for one in joined.members
            ],
        )
        self.requests += 1
        synced = (await self._connection.request(request, timeout_ms=TIMEOUT_MS)).message
        assert (synced.error_code, bytes(synced.assignment)) == (0, b"its share"), synced

    async def _join(self, member_id: str) -> JoinGroupResponse:
        protocols = [
            JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION)
            for name in ("range", "cooperative-sticky")
        ]
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=TIMEOUT_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        self.requests += 1
        return (await self._connection.request(request, timeout_ms=TIMEOUT_MS)).message


async def join(bootstrap: str) -> dict[str, float]:
    """Let all members join at once."""
    options = ConnectOptions(bootstrap_servers=bootstrap)
    address = parse_address(bootstrap)
    members = [Member(await open_connection(address, options)) for _ in range(MEMBERS)]
    began = time.monotonic()
    await asyncio.gather(*(member.join() for member in members))
    seconds = time.monotonic() - began - DELAY_MS / 1000
    return {"seconds": seconds, "requests": sum(one.requests for one in members) / MEMBERS}


def main() -> None:
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
        return
    command = [sys.executable, "-m", "benchmarks.rebalance_joining", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            print(json.dumps(asyncio.run(join(server.stdout.readline().strip()))))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
