"""kill -9 of members and brokers of a group, and pauses longer than its session, at seeded moments;
then the account.

    python -m tests.chaos.groups --seeds 1-14 --write docs/proof/group-chaos.md
    python -m tests.chaos.groups --seeds 3 --work copy --real 4.3.0 --members consumer

A seed decides what the group does, at which brokers and with which kind of members, who is killed
or paused in which order, and how far the group gets in between. Numbered records are written all
the time.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from parley.client import EARLIEST, LATEST, Client, FetchOptions, NewTopic, TopicPartition
from parley.devcluster import ClusterSettings
from parley.errors import KafkaError

from .brokers import REPLICAS, Cluster, kind_of, started
from .group_account import (
    COPY_COLUMNS,
    READ_COLUMNS,
    Account,
    settle_copies,
    settle_owners,
    settle_reads,
)
from .group_crew import Crew
from .group_member import Names
from .offsets_topic import history
from .table import line_of, put_line

PARTITIONS = 6
SESSION_MS, HEARTBEAT_MS = 6_000, 1_000
PATIENCE_SECONDS = 1_800
CHUNK, WRITERS, AHEAD = 12, 2, 1_500
KINDS = ("member", "pause", "coordinator", "leader", "member", "pause", "close")
_CLASSIC = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
MEMBERS: dict[str, dict[str, object]] = {
    "range": {"partition_assignment_strategy": "range", **_CLASSIC},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky", **_CLASSIC},
    "static": {"partition_assignment_strategy": "cooperative-sticky", **_CLASSIC},
    "consumer": {"group_protocol": "consumer"},
}
_PROPERTIES = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
}
_SETTINGS = ClusterSettings(
    group_consumer_session_timeout_ms=SESSION_MS, group_consumer_heartbeat_interval_ms=HEARTBEAT_MS
)


class Plan(NamedTuple):
    """What a run is about. No `release`: an embedded cluster of several releases."""

    work: str
    release: str | None
    members: str


PLANS = (
    Plan("copy", None, "cooperative"),
    Plan("copy", None, "consumer"),
    Plan("copy", None, "range"),
    Plan("copy", None, "static"),
    Plan("read", "4.3.0", "consumer"),
    Plan("read", "4.3.0", "cooperative"),
    Plan("copy", "4.3.0", "consumer"),
    Plan("copy", "4.3.0", "cooperative"),
    Plan("read", "3.9.1", "cooperative"),
    Plan("read", "3.9.1", "static"),
    Plan("copy", "3.9.1", "range"),
    Plan("read", "2.4.1", "range"),
    Plan("read", "2.4.1", "cooperative"),
    Plan("read", "4.3.0", "consumer"),
)
"""Those of the seeds 1, 2 and so on, over and over."""


TABLES = {
    "read": ("group that reads", READ_COLUMNS),
    "copy": ("group that copies", COPY_COLUMNS),
}
"""Which table of the page has which runs."""


class Run:
    """One run with one seed."""

    def __init__(
        self,
        seed: int,
        plan: Plan,
        kinds: tuple[str, ...],
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self.names = Names.of(seed)
        self.account = Account(seed, kind_of(plan.release), plan.members, plan.work)
        self._plan, self._folder, self._say = plan, folder, say
        self._rng = random.Random(seed)
        self._kinds = list(kinds)
        self._rng.shuffle(self._kinds)
        self._numbers = 0
        self._acked: list[int] = []
        self._lock, self._enough = threading.Lock(), threading.Event()
        self._failures: list[BaseException] = []
        self._restart: threading.Thread | None = None
        self._began = time.monotonic()

    def run(self, cluster: Cluster) -> Account:
        """Run, kill, count. Raises TimeoutError when the group does not get on."""
        self._began = time.monotonic()
        names, servers = self.names, cluster.bootstrap_servers
        options = {
            **MEMBERS[self._plan.members],
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        crew = Crew(
            (str(self.account.seed), servers),
            self._folder,
            self._plan.work,
            options,
            static=self._plan.members == "static",
        )
        made = [
            NewTopic(name, num_partitions=PARTITIONS, replication_factor=REPLICAS)
            for name in (names.source, names.sink)
        ]
        with Client(bootstrap_servers=servers) as client:
            client.create_topics(made)
            self._live(client, cluster, crew)
            self._count(client, crew)
        self.account.seconds = time.monotonic() - self._began
        return self.account

    def _live(self, client: Client, cluster: Cluster, crew: Crew) -> None:
        writers = [
            threading.Thread(target=self._write, args=(client, crew)) for _ in range(WRITERS)
        ]
        try:
            crew.start()
            for writer in writers:
                writer.start()
            for kind in self._kinds:
                self._get_on(crew)
                self._do(kind, client, cluster, crew)
            self._get_on(crew, settled=True)
            self._enough.set()
            for writer in writers:
                writer.join()
            self._join_restart()
            self._wait(lambda: self._is_done(client), crew, "everything to be committed")
            crew.close()
        finally:
            self._enough.set()
            for writer in writers:
                if writer.ident is not None:
                    writer.join()
            self._join_restart()
            crew.kill()

    # -- the source --------------------------------------------------------------------------------

    def _write(self, client: Client, crew: Crew) -> None:
        """Write numbered records, never far ahead of the group."""
        try:
            while not self._enough.wait(0.05):
                with self._lock:
                    begin = self._numbers
                    if begin > crew.delivered + AHEAD:
                        continue
                    self._numbers += CHUNK
                numbers = range(begin, begin + CHUNK)
                rows = pa.table(
                    {
                        "value": [f"{number:08}" for number in numbers],
                        "partition": pa.array([at % PARTITIONS for at in numbers], pa.int32()),
                    }
                )
                try:
                    client.produce(self.names.source, rows)
                except KafkaError as error:  # none of these counts as acknowledged
                    self._say(f"not acknowledged: {error}")
                else:
                    with self._lock:
                        self._acked += numbers
        except BaseException as error:
            self._failures.append(error)

    # -- waiting -----------------------------------------------------------------------------------

    def _wait(self, ready: Callable[[], bool], crew: Crew, what: str) -> None:
        while not ready():
            if self._failures:
                raise RuntimeError("a thread of the run failed") from self._failures[0]
            crew.check()
            if time.monotonic() - self._began > PATIENCE_SECONDS:
                raise TimeoutError(f"waited for {what}; the members:\n{crew.shown()}")
            time.sleep(0.02)

    def _get_on(self, crew: Crew, *, settled: bool = False) -> None:
        """Let the group read on: in every partition, or only somewhere, as the seed has it."""
        settled = self._rng.random() < 0.6 or settled
        crew.look()
        before, wanted = dict(crew.reached), crew.delivered + self._rng.randint(50, 400)

        def got_on() -> bool:
            crew.look()
            moved = sum(crew.reached.get(at, 0) > before.get(at, 0) for at in range(PARTITIONS))
            return crew.delivered >= wanted and (moved == PARTITIONS or not settled)

        self._wait(got_on, crew, "the group to read on")
        time.sleep(self._rng.random() * 0.5)

    def _is_done(self, client: Client) -> bool:
        places = [TopicPartition(self.names.source, index) for index in range(PARTITIONS)]
        ends = client.list_offsets(dict.fromkeys(places, LATEST))
        found = client.committed_offsets(self.names.group, places)
        return all((at := found[tp]) is not None and at.offset == ends[tp].offset for tp in places)

    # -- what happens ------------------------------------------------------------------------------

    def _do(self, kind: str, client: Client, cluster: Cluster, crew: Crew) -> None:
        self._say(
            f"seed {self.account.seed}, {time.monotonic() - self._began:.0f} s: {kind} after "
            f"{crew.delivered} deliveries"
        )
        if kind in ("coordinator", "leader"):
            self._join_restart()
            group = self.names.group
            broker = (
                client.describe_groups([group])[group].coordinator.id
                if kind == "coordinator"
                else self._leader(client)
            )
            cluster.kill_broker(broker)
            self._restart = threading.Thread(
                target=self._start_broker, args=(cluster, broker, self._rng.uniform(0, 3))
            )
            self._restart.start()
            self.account.happened.append(f"{kind} (broker {broker})")
            return
        slots = list(range(len(crew.slots)))
        self._rng.shuffle(slots)
        self._wait(lambda: crew.choose(slots, kind), crew, f"a member for: {kind}")
        if kind == "pause":
            crew.pause()
            self._wait(crew.others_went_on, crew, "the others to take over from who is paused")
            time.sleep(self._rng.random() * 2)
            crew.resume()
        else:
            crew.end(orderly=kind == "close")
            time.sleep(self._rng.random() * 2)
            crew.replace()
        self.account.happened.append(kind)

    def _leader(self, client: Client) -> int:
        source = self.names.source
        view = client.metadata([source]).topics[source].partitions
        led = [part.leader for part in view.values() if part.leader is not None]
        return int(self._rng.choice(sorted(set(led)) or [self._rng.randint(1, REPLICAS)]))

    def _start_broker(self, cluster: Cluster, broker: int, after_seconds: float) -> None:
        try:
            time.sleep(after_seconds)
            cluster.start_broker(broker)
        except BaseException as error:
            self._failures.append(error)

    def _join_restart(self) -> None:
        restart, self._restart = self._restart, None
        if restart is not None:
            restart.join()

    # -- counting ----------------------------------------------------------------------------------

    def _count(self, client: Client, crew: Crew) -> None:
        account, diaries = self.account, crew.diaries()
        account.records = len(self._acked)
        if account.work == "read":
            settle_reads(
                account, diaries, self._acked, history(client, self.names.group, "read_uncommitted")
            )
            return
        settle_copies(account, diaries, self._acked, self._copies(client))
        if self._plan.release is not None:
            settle_owners(account, history(client, self.names.group, "read_committed"))

    def _copies(self, client: Client) -> Counter[int]:
        """Return how often each number was copied, as read_committed readers see it."""
        places = [TopicPartition(self.names.sink, index) for index in range(PARTITIONS)]
        committed = FetchOptions(isolation_level="read_committed")
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            wanted = dict.fromkeys(places, LATEST)
            stable = client.list_offsets(wanted, isolation_level="read_committed")
            ends = client.list_offsets(wanted)
            self.account.left_open = sum(ends[tp].offset - stable[tp].offset for tp in places)
            if not self.account.left_open or time.monotonic() > until:
                break
            time.sleep(0.1)
        found: Counter[int] = Counter()
        for tp in places:
            for batch in client.fetch(tp, EARLIEST, stable[tp].offset, committed):
                found.update(map(int, batch.column("value").to_pylist()))
        return found


def plan_of(seed: int, work: str | None, release: str | None, members: str | None) -> Plan:
    """Return the plan of a seed, with what was asked for in its place."""
    plan = PLANS[(seed - 1) % len(PLANS)]
    release = plan.release if release is None else None if release == "embedded" else release
    return Plan(work or plan.work, release, members or plan.members)


@contextmanager
def brokers_of(plan: Plan) -> Iterator[Cluster]:
    """Yield three brokers for a plan; embedded ones all ask who commits in a transaction."""
    modern = plan.members == "consumer"
    embedded = {1: "4.0", 2: "4.1", 3: "4.3"} if modern else {1: "2.6", 2: "3.9", 3: "4.3"}
    with started(
        plan.release,
        (),
        embedded_releases=embedded,
        settings=_SETTINGS,
        properties=_PROPERTIES,
    ) as cluster:
        yield cluster


def runs(
    plans: Mapping[int, Plan], kinds: tuple[str, ...], say: Callable[[str], None]
) -> Iterator[Account]:
    """Run each seed's plan in a folder of its own; those of one release share its brokers."""
    for release in dict.fromkeys(plan.release for plan in plans.values()):
        here = {seed: plan for seed, plan in plans.items() if plan.release == release}
        with brokers_of(next(iter(here.values()))) if release else nullcontext() as shared:
            for seed, plan in here.items():
                with (
                    nullcontext(shared) if shared else brokers_of(plan) as cluster,
                    tempfile.TemporaryDirectory(prefix="parley-groups-") as folder,
                ):
                    yield Run(seed, plan, kinds, Path(folder), say).run(cluster)


def main() -> int:
    """Run the seeds asked for; 1 where something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default=f"1-{len(PLANS)}", help="first-last, or one")
    parser.add_argument("--work", choices=("read", "copy"), help="instead of the seed's")
    parser.add_argument("--real", metavar="RELEASE", help="instead of the seed's; or: embedded")
    parser.add_argument("--members", choices=tuple(MEMBERS), help="instead of the seed's")
    parser.add_argument("--kinds", default=",".join(KINDS), help="what happens, with commas")
    parser.add_argument("--write", type=Path, help="page whose tables get the runs")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    good = True
    plans = {
        seed: plan_of(seed, given.work, given.real, given.members)
        for seed in range(int(first), int(last or first) + 1)
    }
    for account in runs(plans, tuple(given.kinds.split(",")), _say):
        good = good and account.good
        print(line_of(account.cells()), flush=True)
        if not account.good:
            print(json.dumps(vars(account)), flush=True)
        if given.write:
            put_line(given.write, *TABLES[account.work], account.cells())
    return 0 if good else 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
