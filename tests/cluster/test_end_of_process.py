"""Programs that end without closing their producers: what is lost is said, by whoever lost it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from parley.devcluster import LocalCluster
from parley.devcluster.faults.faults import EVERY_TIME

from ..support import GENEROUS_S

PRODUCER = """
import os, sys, parley
producer = parley.Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000).start()
for number in range(10):
    producer.produce(sys.argv[2], b"x")
"""
ASYNC_PRODUCER = """
import asyncio, gc, sys, parley
async def main():
    producer = await parley.AsyncProducer(bootstrap_servers=sys.argv[1]).start()
    for number in range(10):
        await producer.send(sys.argv[2], b"x")
asyncio.run(main())
gc.collect()
"""
CLIENT = """
import sys, threading, time, parley, pyarrow
client = parley.Client(bootstrap_servers=sys.argv[1]).start()
rows = pyarrow.table({"value": ["x"] * 10})
threading.Thread(target=client.produce, args=(sys.argv[2], rows), daemon=True).start()
time.sleep(1)
"""
FORKED = """
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
producer.close()
"""


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    name = f"e{abs(hash(request.node.nodeid)) % 10**9}"
    cluster.create_topic(name)
    return name


def stderr(program: str, cluster: LocalCluster, topic: str) -> str:
    """Return what a program that ends well writes beside its output."""
    command = [sys.executable, "-c", program, cluster.bootstrap_servers, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GENEROUS_S, check=True)
    return done.stderr


@pytest.mark.parametrize("program", [PRODUCER, ASYNC_PRODUCER], ids=["blocking", "async"])
def test_records_of_a_producer_that_is_never_closed(
    cluster: LocalCluster, topic: str, program: str
) -> None:
    said = stderr(program, cluster, topic)
    assert said.startswith(f"10 records for {topic} were not acknowledged when this process ended")
    for remedy in ("with Producer(", "flush()", "close()"):
        assert remedy in said


def test_rows_that_a_thread_was_writing(cluster: LocalCluster, topic: str) -> None:
    cluster.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=EVERY_TIME)
    assert stderr(CLIENT, cluster, topic).startswith(
        f"10 records for {topic} were not acknowledged"
    )


@pytest.mark.parametrize("ending", ["producer.close()", "producer.flush()", FORKED])
def test_nothing_is_said_of_what_was_waited_for(
    cluster: LocalCluster, topic: str, ending: str
) -> None:
    assert stderr(PRODUCER + ending, cluster, topic) == ""
