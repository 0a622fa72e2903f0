"""A declared replay of a table, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parley.cli import main
from parley.devcluster import LocalCluster

from ..replay.lakes import orders, write_delta
from ..replication.sides import read

FILE = """
[pipeline]
name = "shop"

[cluster.new]
"bootstrap.servers" = "{servers}"

[flow.day]
kind = "replay"
from = {{ delta = "orders", where = "day = '2026-11-02'" }}
order = ["event_time", "id"]

[flow.day.to]
cluster = "new"
topic = "day"
key = "city"
timestamp = "event_time"
value = {{ format = "json" }}
"""


def test_it_is_planned_run_and_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_delta(tmp_path / "orders", orders(range(300)))
    with LocalCluster(1, "4.3") as cluster:
        path = tmp_path / "shop.toml"
        path.write_text(FILE.format(servers=cluster.bootstrap_servers))
        monkeypatch.chdir("/")  # a folder is one beside the file
        assert main(["plan", str(path), "day"]) == 0
        out = capsys.readouterr().out
        assert "100 rows from row 0 on" in out
        assert "create" in out
        assert main(["run", str(path), "day"]) == 0
        assert main(["run", str(path), "day"]) == 0
        capsys.readouterr()
        assert main(["status", str(path)]) == 0
        assert capsys.readouterr().out.splitlines()[1].split("\t")[2:4] == ["done", "0"]
        (rows,) = read(cluster, 1, topic="day")
    assert [json.loads(row["value"])["id"] for row in rows] == list(range(1, 300, 3))
