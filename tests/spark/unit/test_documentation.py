"""The page for users says what the code does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from parley.spark.options.kafka import REFUSED_FOR_READ
from parley.spark.values.schema import read_schema_ddl

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "guide" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["guide/spark.md", "how-to/delta.md", "how-to/iceberg.md"])
def test_the_tables_of_options_are_up_to_date(page: str) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "write_tables.py"))
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert tool["page_with_table"](page) == text, "run tools/write_tables.py"


def test_columns_are_those_of_the_code() -> None:
    assert f"`{read_schema_ddl(False)}`" in PAGE


def test_options_that_the_page_calls_refused_are() -> None:
    sentence = re.search(r"Refused.*?\n\n", PAGE, re.DOTALL)
    assert sentence is not None
    named = set(re.findall(r"`kafka\.([a-z.]+)`", sentence.group()))
    assert named
    assert named <= REFUSED_FOR_READ.keys()
