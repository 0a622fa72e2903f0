"""The part leader-moves of the benchmark: its report, its picture, and the one
figure without time in it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from benchmarks.leader_moves import Loaded, Measured, compare_policies
from benchmarks.leader_moves_plot import draw
from benchmarks.leader_moves_report import leader_moves_goals, leader_moves_text
from benchmarks.ten_thousand import VERSION, make_answer

from parley.messages import MetadataResponse, decode_body

TIMES = {
    (client, role, release): [float(ms) for ms in range(1, 101)]
    for release in ("4.3", "3.6")
    for client in ("parley", "confluent-kafka")
    for role in ("producer", "consumer")
}
METADATA = {
    "decode": [[99.0, 20.0, 30.0], [80.0, 10.0, 20.0]],
    "apply": [[60.0, 30.0]],
    "refresh": [[30.0, 30.0]],
}
REFRESHES = {(client, release): 0.5 for client, _, release in TIMES}


def measured(**fields: object) -> Measured:
    found = Measured(TIMES, REFRESHES, METADATA, Loaded(300, 1000, 0, 0, 0), {"a": 3, "b": 1})
    return found._replace(**fields)


def test_what_was_reached_and_what_was_missed_is_said() -> None:
    assert {row[3] for row in leader_moves_goals(measured())} == {"reached"}
    late = leader_moves_goals(measured(delivered_ms={key: [500.0] * 9 for key in TIMES}))
    assert [row[3] for row in late[:2]] == ["**missed**", "**missed**"]
    lost = leader_moves_goals(measured(loaded=Loaded(300, 1000, 1, 0, 0)))
    assert (lost[-1][2], lost[-1][3]) == ("1 / 0 / 0 of 1,000", "**missed**")


def test_every_line_and_the_picture_are_in_the_section() -> None:
    text = leader_moves_text(measured())
    assert text.count("| parley |") == text.count("| confluent-kafka |") == 4
    assert (
        "| parley | 4.3, with hints | producer | 50.5 ms | 90.1 ms | 99.0 ms | 100.0 ms | 0.50 |"
        in text
    )
    assert "(pictures/leader-moves.svg)" in text
    assert "| a | 3 |" in text


def test_the_first_call_of_each_process_stands_apart() -> None:
    """It compiles the decoder, once in a process's life; the others are what an answer costs."""
    assert "| bytes → message | 90 ms | 20 ms | 30 ms |" in leader_moves_text(measured())
    goals = {row[0]: row[2:] for row in leader_moves_goals(measured())}
    assert goals["decode Metadata, 10,000 partitions"] == ["20 ms", "reached"]
    slow = {
        row[0]: row[2:]
        for row in leader_moves_goals(measured(metadata_ms=METADATA | {"apply": [[1.0, 51.0]]}))
    }
    assert slow["apply it"] == ["51 ms", "**missed**"]


def test_ten_thousand_partitions_are_in_the_answer_that_is_timed() -> None:
    answer = decode_body(MetadataResponse, VERSION, make_answer())
    assert sum(len(topic.partitions) for topic in answer.topics) == 10_000
    assert {len(found.replica_nodes) for topic in answer.topics for found in topic.partitions} == {
        3
    }


def test_the_picture_has_a_line_for_each(tmp_path: Path) -> None:
    draw(TIMES, tmp_path / "moves.svg")
    root = ET.parse(tmp_path / "moves.svg").getroot()
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == len(TIMES)


def test_the_order_of_answers_decides_how_many_refreshes_are_forced() -> None:
    """The figures that docs/proof/leadership/metadata.md gives."""
    draft, everything, interest = compare_policies().values()
    assert (draft, everything, interest) == (185, 68, 5)
    document = (
        Path(__file__).parents[3] / "docs" / "proof" / "leadership" / "metadata.md"
    ).read_text(encoding="utf-8")
    for figure in (draft, everything, interest):
        assert f" | {figure} |" in document
