"""The display: what it shows on a terminal and in a log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from parley.pipelines.demo.progress import (
    BrokerRow,
    LiveDisplay,
    PlainDisplay,
    RateMeter,
    Snapshot,
    panel,
    plain_text,
)

SNAPSHOT = Snapshot(
    seconds=23.4,
    rows_total=336_776,
    rows_acknowledged=120_000,
    rows_copied=110_000,
    rows_in_table=97_000,
    rate=9_876.5,
    brokers=(
        BrokerRow("old", 1, "2.4.1", True, "Produce v8", (0, 2)),
        BrokerRow("old", 2, "2.4.1", False),
        BrokerRow("new", 1, "4.3.0", True, "Produce v13", (1,)),
    ),
    leader_moves=12,
)


def test_the_lag_is_what_the_table_does_not_have_yet() -> None:
    assert SNAPSHOT.lag == 23_000
    assert Snapshot(1, 10, rows_acknowledged=4, rows_in_table=5).lag == 0


def test_the_panel_shows_rows_rate_lag_leaders_and_releases() -> None:
    console = Console(width=110, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(panel(SNAPSHOT, ((12.0, "broker 2 is killed"),)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for part in ("120,000 / 336,776", "110,000 / 336,776", "97,000 / 336,776", "9,876 rows/s",
                 "23,000 rows", "leader moves 12", "old 1", "2.4.1", "new 1", "4.3.0",
                 "down", "0 2", "Produce v13", "12.0 s  broker 2 is killed"):  # fmt: skip
        assert part in text, part


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_panel_fits_any_terminal(width: int) -> None:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(panel(SNAPSHOT, ((12.0, "broker 2 is killed"),)))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width


def test_the_line_says_the_same() -> None:
    assert plain_text(SNAPSHOT) == (
        "120,000 of 336,776 rows acknowledged, 110,000 copied, 97,000 in the table, lag 23,000, "
        "9,876 rows/s, 12 leader moves, old 1=2.4.1 2=2.4.1 (down), new 1=4.3.0"
    )


def test_lines_come_every_two_seconds_and_events_at_once() -> None:
    stream, now = io.StringIO(), [50.0]
    with PlainDisplay(stream, lambda: now[0]) as display:
        for tick in range(10):
            now[0] = 50 + tick * 0.5
            display.show(Snapshot(tick * 0.5, 10, rows_acknowledged=tick))
            if tick == 3:
                display.report("something")
    assert [line[:9] for line in stream.getvalue().splitlines()] == [
        "[  0.0 s]", "[  1.5 s]", "[  2.0 s]", "[  4.0 s]",
    ]  # fmt: skip
    assert "[  1.5 s] something" in stream.getvalue()


def test_the_live_display_leaves_its_last_state_on_the_screen() -> None:
    console = Console(width=100, file=io.StringIO(), force_terminal=True, color_system=None)
    with LiveDisplay(console, lambda: 0.0) as display:
        display.report("starting Spark")
        display.show(SNAPSHOT)
    assert "starting Spark" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "97,000 / 336,776" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_rate_is_that_of_the_last_seconds() -> None:
    meter = RateMeter(window_seconds=4)
    assert meter.rate(0, 0) == 0
    assert meter.rate(1, 1000) == 1000
    for second in range(2, 20):
        slow = meter.rate(second, 1000 + second)
    assert slow == pytest.approx(1, rel=0.05)
