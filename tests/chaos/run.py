"""kill -9 of driver, executor JVM, Python worker,
planner and broker at seeded moments; then the account.

    python -m tests.chaos.run --seeds 1-20 --write docs/proof/chaos.md
    python -m tests.chaos.run --seeds 3 --real 3.9.1 --write docs/proof/chaos.md

A seed decides who is killed, in which order, after how many micro-batches and how many milliseconds
into the next one. Rows are written into the source until all kills are done. A job whose driver is
gone, or whose query gave up, is started again with its checkpoint.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from parley.client import EARLIEST, LATEST, Client, FetchOptions, TopicPartition

from . import processes
from .brokers import REPLICAS, Cluster, kind_of, started
from .table import line_of, put_line

ROOT = Path(__file__).parents[2]
SOURCE, SINK = "in", "out"
KINDS = ("driver", "executor", "worker", "planner", "broker")
PATIENCE_SECONDS = 600
CHUNK = 50
AHEAD = 300
MARKER_SECONDS = 60
READ_COMMITTED = "read_committed"


@dataclass
class Account:
    """What became of one run."""

    seed: int
    brokers: str = ""
    kills: list[str] = field(default_factory=list)
    starts: int = 0
    batches: int = 0
    rows: int = 0
    lost: int = 0
    duplicated: int = 0
    held_back: int = 0
    """Offsets that read_committed consumers do not see at the end: open transactions."""
    seconds: float = 0

    @property
    def good(self) -> bool:
        """Whether every row is there once."""
        return self.rows > 0 and self.lost == self.duplicated == self.held_back == 0

    def cells(self) -> list[object]:
        """Return the account as a line of the table."""
        return [
            self.seed,
            self.brokers,
            ", ".join(self.kills),
            self.starts,
            self.batches,
            self.rows,
            self.lost,
            self.duplicated,
            round(self.seconds),
        ]


COLUMNS = (
    "seed", "brokers", "killed, in this order", "starts of the job", "micro-batches", "rows",
    "lost", "duplicated", "seconds",
)  # fmt: skip


class Run:
    """One run with one seed."""

    def __init__(
        self,
        seed: int,
        kinds: tuple[str, ...],
        folder: Path,
        say: Callable[[str], None],
        release: str | None = None,
    ) -> None:
        self.account = Account(seed, kind_of(release))
        self._release = release
        self._rng = random.Random(seed)
        self._kinds = list(kinds)
        self._rng.shuffle(self._kinds)
        self._folder, self._say = folder, say
        self._job: subprocess.Popen[bytes] | None = None
        self._known: dict[int, processes.Process] = {}
        self._written = 0
        self._enough = threading.Event()
        self._feeding_failed: BaseException | None = None
        self._began = time.monotonic()

    def run(self) -> Account:
        """Run, kill, count. Raises TimeoutError when the job does not get on."""
        with started(self._release, (SOURCE, SINK)) as cluster:
            self._began = time.monotonic()
            with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
                feeding = threading.Thread(target=self._feed, args=(client,))
                feeding.start()
                try:
                    for kind in self._kinds:
                        self._kill(kind, cluster)
                    self._enough.set()
                    feeding.join()
                    (self._folder / "enough").touch()
                    self._wait((self._folder / "over").exists, cluster, "the end of the job")
                finally:
                    self._enough.set()
                    feeding.join()
                    self._stop()
                self._count(client)
        self.account.seconds = time.monotonic() - self._began
        return self.account

    # -- the source --------------------------------------------------------------------------------

    def _feed(self, client: Client) -> None:
        """Write numbered rows until all kills are done, never far ahead of the
        job however slow it is.
        """
        try:
            while not self._enough.wait(0.05):
                if self._written < AHEAD + self._batches() * CHUNK:
                    values = [
                        f"{number:08}" for number in range(self._written, self._written + CHUNK)
                    ]
                    client.produce(SOURCE, pa.table({"key": values, "value": values}))
                    self._written += CHUNK
        except BaseException as error:
            self._feeding_failed = error

    # -- the job -----------------------------------------------------------------------------------

    def _alive(self, cluster: Cluster) -> int:
        """Return the job's process id, started (again) where it is gone."""
        if self._job is None or self._job.poll() is not None:
            master = "local-cluster[1,2,900]" if "executor" in self._kinds else "local[2,10]"
            arguments = [cluster.bootstrap_servers, SOURCE, SINK, str(self._folder), master]
            (self._folder / "running").unlink(missing_ok=True)
            with (self._folder / "log").open("ab") as log:
                self._job = subprocess.Popen(
                    [sys.executable, str(Path(__file__).with_name("job.py")), *arguments],
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
                )
            self.account.starts += 1
        return self._job.pid

    def _stop(self) -> None:
        """End what is left of the job: the processes that it started, and no others."""
        if self._job is not None:
            self._known |= {one.pid: one for one in processes.family(self._job.pid)}
            processes.kill_all(self._known)
            self._known = {}
            self._job.wait()

    def _wait(self, ready: Callable[[], bool], cluster: Cluster, what: str) -> None:
        while not ready():
            if not (self._folder / "over").exists():
                self._alive(cluster)
            if self._feeding_failed is not None:
                raise RuntimeError("the source got no more rows") from self._feeding_failed
            if time.monotonic() - self._began > PATIENCE_SECONDS:
                log = (self._folder / "log").read_text(errors="replace")[-6000:]
                raise TimeoutError(f"waited for {what}; the job's log ends with:\n{log}")
            time.sleep(0.02)

    def _batches(self) -> int:
        commits = self._folder / "checkpoint" / "commits"
        return sum(path.name.isdigit() for path in commits.iterdir()) if commits.exists() else 0

    # -- killing -----------------------------------------------------------------------------------

    def _kill(self, kind: str, cluster: Cluster) -> None:
        """Kill one of a kind, some batches from now and somewhere inside the next one."""
        self._wait((self._folder / "running").exists, cluster, "the start of the query")
        wanted = self._batches() + self._rng.randint(1, 4)
        self._wait(
            lambda: self._batches() >= wanted, cluster, f"batch {wanted} before killing the {kind}"
        )
        time.sleep(self._rng.random() * 0.4)
        seconds = time.monotonic() - self._began
        self._say(
            f"seed {self.account.seed}, {seconds:.0f} s: kill -9 {kind} after batch "
            f"{self._batches()}"
        )
        if kind == "broker":
            broker = self._rng.randint(1, REPLICAS)
            cluster.kill_broker(broker)
            time.sleep(self._rng.random())
            cluster.start_broker(broker)
            self.account.kills.append(f"broker {broker}")
            return
        self._wait(lambda: self._strike(kind, cluster), cluster, f"a {kind} to kill")
        self.account.kills.append(kind)

    def _strike(self, kind: str, cluster: Cluster) -> bool:
        kin = processes.family(self._alive(cluster))
        # those of a killed driver have no parent to be found by
        self._known |= {one.pid: one for one in kin}
        if kind == "driver":
            hit = processes.kill([*processes.driver(kin), *processes.driver_jvms(kin)])
            if self._job is not None:
                self._job.wait()
            return hit
        targets = {
            "executor": processes.executors,
            "worker": processes.workers,
            "planner": processes.planners,
        }
        found = targets[kind](kin)
        return processes.kill([self._rng.choice(found)]) if found else False

    # -- counting ----------------------------------------------------------------------------------

    def _count(self, client: Client) -> None:
        places = [
            TopicPartition(SINK, index) for index in client.metadata([SINK]).topics[SINK].partitions
        ]
        ends = self._stable_ends(client, places)
        found: Counter[int] = Counter()
        for place, end in ends.items():
            for batch in client.fetch(
                place, EARLIEST, end, FetchOptions(isolation_level=READ_COMMITTED)
            ):
                found.update(map(int, batch.column("value").to_pylist()))
        self.account.rows, self.account.batches = self._written, self._batches()
        self.account.lost = sum(number not in found for number in range(self._written))
        self.account.duplicated = sum(count - 1 for count in found.values())

    def _stable_ends(
        self, client: Client, places: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return where read_committed consumers get to, once ended
        transactions have their markers.
        """
        deadline = time.monotonic() + MARKER_SECONDS
        while True:
            stable = client.list_offsets(
                dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED
            )
            ends = client.list_offsets(dict.fromkeys(places, LATEST))
            self.account.held_back = sum(
                ends[place].offset - stable[place].offset for place in places
            )
            if not self.account.held_back or time.monotonic() > deadline:
                return {place: stable[place].offset for place in places}
            time.sleep(0.1)


def one(
    seed: int, kinds: tuple[str, ...], say: Callable[[str], None], release: str | None = None
) -> Account:
    """Run one seed in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="parley-chaos-", ignore_cleanup_errors=True) as folder:
        return Run(seed, kinds, Path(folder), say, release).run()


def main() -> int:
    """Run the seeds asked for; 1 where a row was lost or duplicated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1-20", help="first-last, or one")
    parser.add_argument(
        "--kinds", default=",".join(KINDS), help="who is killed, separated by commas"
    )
    parser.add_argument(
        "--real", metavar="RELEASE", help="real brokers of this release (Java 17 and mvn)"
    )
    parser.add_argument(
        "--write",
        type=Path,
        help="page whose table gets the runs, in the place of those with a seed",
    )
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    accounts = []
    for seed in range(int(first), int(last or first) + 1):
        accounts.append(one(seed, tuple(given.kinds.split(",")), _say, given.real))
        print(line_of(accounts[-1].cells()), flush=True)
        if given.write:
            put_line(given.write, "runs", COLUMNS, accounts[-1].cells())
    return 0 if all(account.good for account in accounts) else 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
