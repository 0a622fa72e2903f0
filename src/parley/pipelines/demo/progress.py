"""The progress display: a live panel on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LINES_SHOWN = 8
_PLAIN_EVERY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker as the display shows it. `release` is None where it is not ours to know."""

    cluster: str
    broker: int
    release: str | None
    running: bool
    versions: str = ""
    leads: tuple[int, ...] = ()
    """Partitions of the topic."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the job at one moment."""

    seconds: float
    rows_total: int
    rows_acknowledged: int = 0
    rows_copied: int = 0
    rows_in_table: int = 0
    rate: float = 0.0
    brokers: tuple[BrokerRow, ...] = ()
    leader_moves: int = 0

    @property
    def lag(self) -> int:
        """Rows acknowledged that the table does not have yet."""
        return max(0, self.rows_acknowledged - self.rows_in_table)


class RateMeter:
    """Rows per second over the last few seconds."""

    def __init__(self, window_seconds: float = 4.0) -> None:
        self._window_seconds = window_seconds
        self._points: deque[tuple[float, int]] = deque()

    def rate(self, seconds: float, rows: int) -> float:
        """Enter a count at a time and return the rate."""
        self._points.append((seconds, rows))
        while len(self._points) > 2 and seconds - self._points[1][0] >= self._window_seconds:
            self._points.popleft()
        then, rows_then = self._points[0]
        return (rows - rows_then) / (seconds - then) if seconds > then else 0.0


class Display(Protocol):
    """Where the job shows itself."""

    def __enter__(self) -> Display: ...
    def __exit__(self, *exc: object) -> None: ...
    def show(self, snapshot: Snapshot) -> None: ...
    def report(self, text: str) -> None: ...


class PlainDisplay:
    """Lines for a log: each event at once, the state every two seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._start = clock()
        self._next_line = 0.0

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.flush()

    def show(self, snapshot: Snapshot) -> None:
        """Print the state, unless it was printed a moment ago."""
        if snapshot.seconds >= self._next_line:
            self._next_line = snapshot.seconds + _PLAIN_EVERY_SECONDS
            self._print(plain_text(snapshot))

    def report(self, text: str) -> None:
        """Print an event."""
        self._print(text)

    def _print(self, text: str) -> None:
        print(f"[{self._clock() - self._start:5.1f} s] {text}", file=self._stream, flush=True)


class LiveDisplay:
    """A panel that is redrawn in place, with the last events below it."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        from rich.live import Live

        self._clock = clock
        self._start = clock()
        self._events: deque[tuple[float, str]] = deque(maxlen=_LINES_SHOWN)
        self._snapshot = Snapshot(0.0, 0)
        self._live = Live(self._view(), console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> LiveDisplay:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is KeyboardInterrupt:
            # The terminal has echoed ^C into the panel: begin it again below.
            self._live.console.print()
        self._live.update(self._view(), refresh=True)
        self._live.__exit__(None, None, None)

    def show(self, snapshot: Snapshot) -> None:
        """Draw the state."""
        self._snapshot = snapshot
        self._live.update(self._view())

    def report(self, text: str) -> None:
        """Add an event to the list below the panel."""
        self._events.append((self._clock() - self._start, text))
        self._live.update(self._view())

    def _view(self) -> RenderableType:
        return panel(self._snapshot, tuple(self._events))


def plain_text(snapshot: Snapshot) -> str:
    """Return the state as one line."""
    text = (
        f"{snapshot.rows_acknowledged:,} of {snapshot.rows_total:,} rows "
        f"acknowledged, {snapshot.rows_copied:,} copied, {snapshot.rows_in_table:,} in the table, "
        f"lag {snapshot.lag:,}, {snapshot.rate:,.0f} rows/s, {snapshot.leader_moves} leader moves"
    )
    for cluster in dict.fromkeys(row.cluster for row in snapshot.brokers):
        text += f", {cluster} " + " ".join(
            f"{row.broker}={row.release or '?'}{'' if row.running else ' (down)'}"
            for row in snapshot.brokers
            if row.cluster == cluster
        )
    return text


def panel(snapshot: Snapshot, events: tuple[tuple[float, str], ...]) -> RenderableType:
    """Return the live view: three bars, the numbers, a line per broker, the last events."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    numbers = Text.assemble(
        ("rate ", "dim"), (f"{snapshot.rate:>8,.0f} rows/s", "bold"),
        ("    lag ", "dim"),
        (f"{snapshot.lag:>8,} rows", "bold yellow" if snapshot.lag > 50_000 else "bold"),
        ("    leader moves ", "dim"), (f"{snapshot.leader_moves}", "bold"),
        ("    elapsed ", "dim"), (f"{snapshot.seconds:.0f} s", "bold"),
    )  # fmt: skip
    happened = Text("\n").join(
        Text.assemble((f"{seconds:6.1f} s  ", "dim"), (text, _event_style(text)))
        for seconds, text in events
    )
    parts: list[RenderableType] = [_bars(snapshot), Text(), numbers]
    if snapshot.brokers:
        parts += [Text(), _broker_table(snapshot)]
    if events:
        parts += [Text(), happened]
    return Panel(
        Group(*parts), title="parley demo", title_align="left", padding=(0, 1), border_style="cyan"
    )


def _bars(snapshot: Snapshot) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_column(width=12)
    table.add_column(ratio=1)
    table.add_column(justify="right", min_width=19)
    table.expand = True
    total = max(1, snapshot.rows_total)
    for name, rows in (
        ("acknowledged", snapshot.rows_acknowledged),
        ("copied", snapshot.rows_copied),
        ("in the table", snapshot.rows_in_table),
    ):
        table.add_row(
            name, ProgressBar(total, min(rows, total)), f"{rows:,} / {snapshot.rows_total:,}"
        )
    return table


def _broker_table(snapshot: Snapshot) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for heading in ("broker", "release", "state", "leads partitions", "versions used"):
        table.add_column(heading)
    for row in snapshot.brokers:
        table.add_row(
            f"{row.cluster} {row.broker}",
            Text(row.release or "-", style="bold"),
            Text("up", style="green") if row.running else Text("down", style="bold red"),
            " ".join(map(str, row.leads)) or "-",
            Text(row.versions, style="dim"),
        )
    return table


def _event_style(text: str) -> str:
    if "killed" in text or "stops" in text:
        return "red"
    return "green" if "starts" in text else ""
