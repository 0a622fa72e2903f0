"""Output formats: the same rows as table, tab-separated lines, JSON, JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json

import pytest

from parley.cli.output import OutputFormat, print_rows

ROWS = [
    {"topic_name": "a\tb", "count": 3, "ok": True},
    {"topic_name": None, "count": 0, "ok": False, "extra": 1},
]
COLUMNS = ("topic_name", "count", "ok")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(output_format: OutputFormat | None, stream: io.StringIO | None = None) -> str:
    stream = stream if stream is not None else io.StringIO()
    print_rows("topics", COLUMNS, ROWS, output_format, stream)
    return stream.getvalue()


def test_in_a_pipe_lines_are_separated_by_tabs_and_stay_one_per_row() -> None:
    assert printed(None) == "TOPIC-NAME\tCOUNT\tOK\na b\t3\tyes\n-\t0\tno\n"


def test_on_a_terminal_there_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(None, Terminal())
    assert "TOPIC-NAME" in text
    assert "\t" not in text


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1m" in printed(OutputFormat.TABLE, Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in printed(OutputFormat.TABLE, Terminal())


def test_json_is_in_the_envelope_with_the_columns_only() -> None:
    assert json.loads(printed(OutputFormat.JSON)) == {
        "_command": "topics",
        "_version": 1,
        "rows": [
            {"topic_name": "a\tb", "count": 3, "ok": True},
            {"topic_name": None, "count": 0, "ok": False},
        ],
    }


def test_json_lines_are_one_object_each() -> None:
    assert [json.loads(line)["count"] for line in printed(OutputFormat.JSONL).splitlines()] == [
        3,
        0,
    ]


def test_csv_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(printed(OutputFormat.CSV))))
    assert rows == [
        {"topic_name": "a\tb", "count": "3", "ok": "True"},
        {"topic_name": "", "count": "0", "ok": "False"},
    ]


def test_null_and_an_empty_text_differ_in_csv() -> None:
    stream = io.StringIO()
    texts = [None, "", "a", 'a "b"', "a,b", "a\r\nb", " a", "\t", "a\x0bb", "\u2028"]
    rows: list[dict[str, object]] = [{"a": text, "b": None} for text in texts]
    print_rows("topics", ["a", "b"], rows, OutputFormat.CSV, stream)
    lines = stream.getvalue().split("\n")
    assert lines[:4] == ["a,b", ",", '"",', "a,"]
    found = list(csv.reader(io.StringIO(stream.getvalue(), newline="")))
    assert [one for one, _ in found[1:]] == [text or "" for text in texts]
