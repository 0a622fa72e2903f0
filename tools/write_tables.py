"""Write the tables that documents take from the code. Tests fail while one is not up to date."""

from __future__ import annotations

import importlib
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
TABLES = {
    "guide/cluster.md": "parley.devcluster.control.commands",
    "guide/spark.md": "parley.spark.options.texts",
    "how-to/delta.md": "parley.spark.lakes.options",
    "how-to/iceberg.md": "parley.spark.lakes.iceberg_options",
}
"""Page → the module whose `markdown_table` it shows, between two marks."""

BEGIN = "<!-- table: written by tools/write_tables.py -->\n"
END = "<!-- end of table -->\n"


def page_with_table(page: str) -> str:
    """Return a page of `docs` with its table as the code has it now."""
    front, _, rest = (DOCS / page).read_text(encoding="utf-8").partition(BEGIN)
    _, _, back = rest.partition(END)
    table = importlib.import_module(TABLES[page]).markdown_table()
    return f"{front}{BEGIN}\n{table}\n\n{END}{back}"


if __name__ == "__main__":
    for page in TABLES:
        (DOCS / page).write_text(page_with_table(page), encoding="utf-8")
