"""The programs of docs/how-to/services.md as processes that SIGTERM ends while records are under
way: nothing is lost or written twice, offsets are committed, the group is left.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from parley import EARLIEST, LATEST, Client, Producer, TopicPartition
from parley.devcluster import LocalCluster

from .examples import ADDRESS, ROOT, blocks
from .support import GENEROUS_S, eventually

PAGE = ROOT / "docs" / "how-to" / "services.md"
PARTITIONS = 2
ASYNCHRONOUS, BLOCKING = "asyncio.run(main())", "threading.Event()"
"""What only this worker of the page's has."""


def program(having: str, cluster: LocalCluster, folder: Path) -> Path:
    """Write the page's program that has a text into a file, with the cluster's address."""
    (text,) = (text for _, text, reason in blocks(PAGE) if reason is None and having in text)
    path = folder / "service.py"
    path.write_text(text.replace(ADDRESS, cluster.bootstrap_servers))
    return path


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2) as running:
        for topic in ("orders", "invoices"):
            running.create_topic(topic, partitions=PARTITIONS)
        yield running


@contextlib.contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process, whose output is in `output` then; it never outlives the test."""
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def ended(process: subprocess.Popen[bytes], folder: Path) -> int:
    """Send SIGTERM; return the exit code."""
    assert process.poll() is None, (folder / "output").read_text()
    process.send_signal(signal.SIGTERM)
    return process.wait(GENEROUS_S)


def values(client: Client, topic: str) -> list[bytes]:
    return [
        value
        for index in range(PARTITIONS)
        for batch in client.fetch(TopicPartition(topic, index), EARLIEST, LATEST)
        for value in batch.column("value").to_pylist()
    ]


class Orders:
    """A thread that writes numbered orders all the time."""

    def __init__(self, servers: str) -> None:
        self.written: list[bytes] = []
        self._servers, self._over = servers, threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with Producer(bootstrap_servers=self._servers) as producer:
            while not self._over.wait(0.005):
                for _ in range(5):
                    value = b"%d" % len(self.written)
                    producer.produce("orders", value, value)
                    self.written.append(value)

    def __enter__(self) -> Orders:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.parametrize("worker", [ASYNCHRONOUS, pytest.param(BLOCKING, marks=pytest.mark.matrix)])
def test_a_worker_that_is_ended_in_the_middle_has_billed_and_committed_what_it_read(
    cluster: LocalCluster, tmp_path: Path, worker: str
) -> None:
    """Another worker goes on where it stopped: at the end each order is billed once."""
    path = program(worker, cluster, tmp_path)
    command = [sys.executable, str(path)]
    places = [TopicPartition("orders", index) for index in range(PARTITIONS)]
    with (
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
        Orders(cluster.bootstrap_servers) as orders,
    ):

        def billed() -> int:
            return sum(found.offset for found in client.list_offsets(invoices).values())

        invoices = dict.fromkeys([TopicPartition("invoices", i) for i in range(PARTITIONS)], LATEST)
        with running(command, tmp_path) as process:
            eventually(lambda: billed() > 200 or process.poll() is not None)
            assert ended(process, tmp_path) == 0, (tmp_path / "output").read_text()
        before = billed()
        committed = client.committed_offsets("billing", places)
        assert sum(found.offset for found in committed.values() if found) == before
        assert client.describe_groups(["billing"])["billing"].state == "Empty"
        assert len(orders.written) > before
        orders.end()
        with running(command, tmp_path) as process:
            eventually(lambda: billed() >= len(orders.written))
            assert ended(process, tmp_path) == 0
        assert sorted(values(client, "invoices")) == sorted(orders.written)
    assert (tmp_path / "output").read_text() == ""


@pytest.mark.matrix
def test_a_worker_that_waits_for_records_ends_as_well(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    path = program(ASYNCHRONOUS, cluster, tmp_path)
    with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        with running([sys.executable, str(path)], tmp_path) as process:
            eventually(client.list_groups, "the group")
            eventually(
                lambda: client.describe_groups(["billing"])["billing"].state == "Stable", "a member"
            )
            assert ended(process, tmp_path) == 0
        assert client.describe_groups(["billing"])["billing"].state == "Empty"
    assert (tmp_path / "output").read_text() == ""


def test_a_web_service_that_is_ended_has_every_order_that_it_answered(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    program("FastAPI(", cluster, tmp_path)
    command = [sys.executable, "-m", "uvicorn", "service:app", "--loop", "uvloop", "--port", "0"]
    answered: list[bytes] = []
    over = threading.Event()

    def order(address: str, sender: int) -> None:
        for number in range(10_000):
            value = b"%d/%d" % (sender, number)
            request = urllib.request.Request(f"{address}/orders/Oslo", value, method="POST")
            try:
                with urllib.request.urlopen(request, timeout=GENEROUS_S) as answer:
                    assert "offset" in json.load(answer)
            except OSError:
                assert over.is_set()  # it is being ended
                return
            answered.append(value)

    with (
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
        running(command, tmp_path) as process,
        ThreadPoolExecutor(4) as pool,
    ):
        output = tmp_path / "output"
        found = eventually(
            lambda: (
                re.search(r"running on (http://\S+)", output.read_text())
                or process.poll() is not None
            )
        )
        assert isinstance(found, re.Match), output.read_text()
        address = found[1]
        sending = [pool.submit(order, address, sender) for sender in range(4)]
        try:
            eventually(lambda: len(answered) > 100 or any(one.done() for one in sending))
            eventually(lambda: read(address, "totals").get("Oslo", 0) > 50, "records read")
            assert read(address, "health") == "reading"
        finally:
            over.set()
            code = ended(process, tmp_path)
        for one in sending:
            one.result()
        assert code == -signal.SIGTERM, output.read_text()
        assert "Application shutdown complete" in output.read_text()
        assert "Traceback" not in output.read_text()
        written = values(client, "orders")
        assert len(set(written)) == len(written)
        assert set(answered) <= set(written)
        assert client.describe_groups(["totals"])["totals"].state == "Empty"


def read(address: str, name: str) -> object:
    with urllib.request.urlopen(f"{address}/{name}", timeout=GENEROUS_S) as answer:
        return json.load(answer)
