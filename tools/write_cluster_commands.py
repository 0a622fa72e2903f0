"""Write the table of control calls into docs/cluster.md. A test fails while it is not up to date."""

from __future__ import annotations

from pathlib import Path

from parley.devcluster.commands import markdown_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cluster.md"
BEGIN = "<!-- commands: written by tools/write_cluster_commands.py -->\n"
END = "<!-- end of commands -->\n"


def page_with_table(page: str) -> str:
    """Return the page with the table as the code has it now."""
    front, _, rest = page.partition(BEGIN)
    _, _, back = rest.partition(END)
    return f"{front}{BEGIN}\n{markdown_table()}\n\n{END}{back}"


def main() -> None:
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
