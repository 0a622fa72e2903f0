"""What Java's assignors answer to random cases: tests/unit/client/group/java_assignments.txt.gz.

    python tools/golden_assignments.py

draws the cases of one seed, has Java answer them (java/GoldenAssignments.java, which says what the
lines are; Java 17 with a compiler, and kafka-clients by Maven) and writes cases and answers.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from parley.client.group.assignors import StickyAssignor
from parley.testing.realbroker import class_path
from parley.testing.realbroker.java import java_command
from parley.types import TopicPartition

HERE = Path(__file__).parent
FILE = HERE.parent / "tests" / "unit" / "client" / "group" / "java_assignments.txt.gz"
CLIENTS = "org.apache.kafka:kafka-clients:4.3.0"
SEED = 20_260_101
CASES = {"range": 400, "roundrobin": 200, "sticky": 400, "cooperative-sticky": 400}
CASES_WITH_RACKS = {"sticky": 400, "cooperative-sticky": 400}
"""Beside those of "range", most of which have racks."""
RACKS = ("ra", "rb", "rc")
LONGEST_S = 300

Owned = dict[str, tuple[int, list[TopicPartition]]]
"""By member: a generation, and what it held in it."""


def main() -> None:
    rng = Random(SEED)
    asked = "".join(
        f"{line}\n"
        for cases, racks in ((CASES, False), (CASES_WITH_RACKS, True))
        for name, count in cases.items()
        for _ in range(count)
        for line in drawn(rng, name, racks=racks)
    )
    command = java_command(class_path([CLIENTS]), [str(HERE / "java" / "GoldenAssignments.java")])
    done = subprocess.run(
        command, input=asked.encode(), capture_output=True, check=False, timeout=LONGEST_S
    )
    if done.returncode != 0:
        sys.exit(done.stderr.decode())
    FILE.write_bytes(gzip.compress(done.stdout, 9, mtime=0))
    count = sum(CASES.values()) + sum(CASES_WITH_RACKS.values())
    print(f"{FILE.name}: {count} cases, {FILE.stat().st_size} bytes")


def drawn(rng: Random, name: str, *, racks: bool) -> Iterator[str]:
    """Yield the lines of a case; of "range" some have racks anyway."""
    most = rng.choice((3, 6, 6, 20))
    topics = {f"t{number}": rng.randint(1, 2 * most) for number in range(rng.randint(1, 5))}
    if rng.random() < 0.3:
        topics = dict.fromkeys(topics, rng.randint(1, most))
    members = rng.sample([f"m{number}" for number in range(3 * most)], rng.randint(1, most))
    known = [*topics, "missing"] if rng.random() < 0.2 else list(topics)
    equal = rng.random() < 0.5
    everything = rng.sample(known, rng.randint(1, len(known)))
    wanted = {
        one: everything if equal else rng.sample(known, rng.randint(1, len(known)))
        for one in members
    }
    near = racks or (name == "range" and rng.random() < 0.6)
    owned = _owned(rng, topics, wanted) if "sticky" in name else {}
    yield f"case\t{name}"
    for topic, count in topics.items():
        yield "\t".join(["topic", topic, *(_racks(rng) if near else "-" for _ in range(count))])
    for number, member in enumerate(members):
        instance = f"i{rng.randrange(100)}{number}" if rng.random() < 0.2 else "-"
        rack = rng.choice((*RACKS, "rd", "-")) if near else "-"
        generation, held = owned.get(member, (-1, []))
        if name == "sticky":
            shown, data = "-", (StickyAssignor().user_data(held, generation) or b"").hex() or "-"
        else:
            shown, data = ",".join(map(str, held)) or "-", "-"
        topics_of = ",".join(wanted[member])
        yield "\t".join(("member", member, instance, rack, str(generation), topics_of, shown, data))
    yield "end"


def _racks(rng: Random) -> str:
    return ",".join(rng.sample(RACKS, rng.randint(0, 2))) or "-"


def _owned(rng: Random, topics: dict[str, int], wanted: dict[str, Sequence[str]]) -> Owned:
    """Return what members held: of an even division some time ago, with members
    new, gone or behind since.
    """
    then = [member for member in wanted if rng.random() < 0.8] + ["gone"] * rng.randint(0, 1)
    held: Owned = {member: (5, []) for member in then}
    shuffled = rng.random() < 0.3
    for topic, count in topics.items():
        takers = [member for member in then if member == "gone" or topic in wanted[member]]
        for index in range(count - rng.choice((0, 0, 0, 1))):
            if takers:
                taker = (
                    rng.choice(takers)
                    if shuffled
                    else min(takers, key=lambda one: len(held[one][1]))
                )
                held[taker][1].append(TopicPartition(topic, index))
    behind = rng.choice([*held]) if held and rng.random() < 0.2 else None
    if behind is not None:
        others = [part for member, (_, parts) in held.items() if member != behind for part in parts]
        more = [
            part
            for part in rng.sample(others, min(2, len(others)))
            if part.topic in wanted.get(behind, ())
        ]
        held[behind] = (rng.choice((3, 4, 5)), held[behind][1] + more)
    held.pop("gone", None)
    return held


if __name__ == "__main__":
    main()
