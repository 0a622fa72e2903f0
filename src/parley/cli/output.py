"""How commands print: data on stdout in one of a few formats, messages on stderr.

Text columns are UPPER-HYPHEN, JSON keys lower_snake; a table on a terminal, tab-separated lines in
a pipe. Colour follows NO_COLOR and whether stdout is a terminal.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from parley.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_UNFOLDED = 100_000
_QUOTED = re.compile(r'[",\r\n]|^\s|\s$')
"""What a cell of csv is quoted for, besides that it is empty."""
JSON_VERSION = 1
"""The version of the JSON envelope: raised when a key changes its meaning or goes away."""


class OutputFormat(StrEnum):
    """The values of `--format`."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


FormatOption = Annotated[
    OutputFormat | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="table, json, jsonl or csv. [default: table; in a pipe tab-separated lines]",
    ),
]
"""The type of every command's `--format` option."""


def has_output() -> bool:
    """Return whether there is a stdout, and say so if there is none. What its encoding lacks is
    escaped from now on; without a stderr messages go nowhere.
    """
    if sys.stderr is None:
        # the first connection would get its descriptor, and messages would be data on stdout
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        say("parley: stdout is closed; where its output is not wanted, send it to /dev/null")
        return False
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    return True


def flush_output() -> None:
    """Let stdout take what was printed, while it can still be said that it does not. Raises
    OSError, and SystemExit where nobody reads on.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        # the interpreter tries once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(1) from None
        raise


def print_rows(
    command: str,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    output_format: OutputFormat | None = None,
    stream: TextIO | None = None,
    *,
    heading: bool = True,
) -> None:
    """Print rows in the chosen format. `columns` are keys of the rows, in order.

    `heading` False leaves the names of the columns out of csv and of tab-separated lines.
    """
    stream = stream if stream is not None else sys.stdout
    if output_format is OutputFormat.JSON:
        print_document(
            command, {"rows": [{name: row.get(name) for name in columns} for row in rows]}, stream
        )
    elif output_format is OutputFormat.JSONL:
        for row in rows:
            print(json.dumps({name: row.get(name) for name in columns}, default=str), file=stream)
    elif output_format is OutputFormat.CSV:
        if heading:
            _print_csv(columns, stream)
        for row in rows:
            _print_csv([row.get(name) for name in columns], stream)
    elif output_format is OutputFormat.TABLE or stream.isatty():
        _print_table(columns, rows, stream)
    else:
        print_lines(columns, rows, stream, heading=heading)


def _print_csv(cells: Sequence[object], stream: TextIO) -> None:
    """Print a line in which nothing stands for null, and "" for an empty text: the csv module of
    Python before 3.12 writes both alike.
    """
    print(",".join("" if one is None else _quoted(str(one)) for one in cells), file=stream)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text


def print_lines(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    stream: TextIO | None = None,
    *,
    heading: bool = True,
) -> None:
    """Print rows as tab-separated lines, on a terminal too: for what comes one after the other."""
    stream = stream if stream is not None else sys.stdout
    if heading:
        print("\t".join(_heading(name) for name in columns), file=stream)
    for row in rows:
        print("\t".join(_cell(row.get(name)) for name in columns), file=stream)


def print_document(
    command: str, document: Mapping[str, object], stream: TextIO | None = None
) -> None:
    """Print one JSON object inside the envelope that says what it is."""
    envelope = {"_command": command, "_version": JSON_VERSION, **document}
    print(
        json.dumps(envelope, indent=2, default=str),
        file=stream if stream is not None else sys.stdout,
    )


def say(text: str) -> None:
    """Print a message for the person at the terminal."""
    print(text, file=sys.stderr, flush=True)


def _print_table(
    columns: Sequence[str], rows: Sequence[Mapping[str, object]], stream: TextIO
) -> None:
    wide_console(stream).print(table(columns, rows))


def table(
    columns: Sequence[str], rows: Sequence[Mapping[str, object]], caption: str | None = None
) -> Table:
    """Return rows as a table, with a line of text below it; numbers stand to the right."""
    from rich.table import Table

    made = Table(
        box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left"
    )
    for name in columns:
        numbers = any(_is_number(row.get(name)) for row in rows)
        made.add_column(_heading(name), overflow="fold", justify="right" if numbers else "left")
    for row in rows:
        made.add_row(*(_cell(row.get(name)) for name in columns))
    return made


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def wide_console(stream: TextIO) -> Console:
    """Return a console for tables: as wide as the terminal; in a pipe as wide as the table."""
    from rich.console import Console

    return Console(
        file=stream, highlight=False, markup=False, width=None if stream.isatty() else _UNFOLDED
    )


def _heading(name: str) -> str:
    return name.upper().replace("_", "-")


def _cell(value: object) -> str:
    """Return a value as text without tabs and line breaks, which would break the
    columns, or what a terminal obeys.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = " ".join(str(value).split("\n")).replace("\t", " ")
    return printable(text, len(text))  # names come from clients and brokers
