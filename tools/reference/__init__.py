"""The reference pages of the documentation, made from the code: nothing in them is written by hand.

`pages()` returns every page as Markdown. It needs parley with the extra `cli`, and no mkdocs.
"""

from __future__ import annotations

from reference.commands import commands_page
from reference.errors import errors_page
from reference.names import module_pages
from reference.options import options_page, spark_page

__all__ = ["pages"]

FOLDER = "reference"


def pages() -> dict[str, str]:
    """Return the text of each page by its path below `docs`."""
    made = {
        **module_pages(),
        "options.md": options_page(),
        "spark.md": spark_page(),
        "commands.md": commands_page(),
        "errors.md": errors_page(),
    }
    return {f"{FOLDER}/{name}": text for name, text in made.items()}
