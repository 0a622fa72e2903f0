"""Write the table of Spark options into docs/spark.md. A test fails while it is not up to date."""

from __future__ import annotations

from pathlib import Path

from parley.spark.options import markdown_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "spark.md"
BEGIN = "<!-- options: written by tools/write_spark_options.py -->\n"
END = "<!-- end of options -->\n"


def page_with_table(page: str) -> str:
    """Return the page with the table as the code has it now."""
    front, _, rest = page.partition(BEGIN)
    _, _, back = rest.partition(END)
    return f"{front}{BEGIN}\n{markdown_table()}\n\n{END}{back}"


def main() -> None:
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
