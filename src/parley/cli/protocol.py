"""`parley protocol`: what each release of Kafka speaks, and what changed from one to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.completion import complete_protocol_words
from parley.cli.output import FormatOption, print_rows, say
from parley.errors import ConfigError
from parley.versions import documentation, release, releases

app = typer.Typer(add_completion=False)

ENTRY_COLUMNS = ("api_key", "api", "versions", "deprecated", "must_not_use", "change")
DIFFERENCE_COLUMNS = ("api_key", "api", "before", "after", "change")


@app.command()
def protocol(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RELEASE | diff OLDER NEWER | pages DIRECTORY]",
            hidden=True,  # the text below says it; the parser's own line would show Python's type
            autocompletion=complete_protocol_words,
        ),
    ] = None,
    output_format: FormatOption = None,
) -> None:
    """Show every API of a release, compare two releases, or write all of it as Markdown pages.

    Without an argument the releases are listed.
    """
    match words or []:
        case []:
            columns = ("release", "apis", "record_format")
            rows = [
                {"release": r.name, "apis": len(r.ranges), "record_format": r.record_magic}
                for r in releases().values()
            ]
            print_rows("protocol", columns, rows, output_format)
        case ["diff", older, newer]:
            _show_differences(older, newer, output_format)
        case ["pages", directory]:
            _write_pages(Path(directory))
        case [name] if name not in ("diff", "pages"):
            entries = [entry._asdict() for entry in documentation.entries(release(name))]
            print_rows("protocol", ENTRY_COLUMNS, entries, output_format)
        case _:
            raise ConfigError(
                "parley protocol takes a release, `diff OLDER NEWER` or `pages DIRECTORY`"
            )


def _show_differences(older: str, newer: str, output_format: FormatOption) -> None:
    before, after = release(older), release(newer)
    rows = [difference._asdict() for difference in documentation.differences(before, after)]
    print_rows("protocol diff", DIFFERENCE_COLUMNS, rows, output_format)
    gained, lost = documentation.feature_differences(before, after)
    say(
        f"features gained from {before.name} to {after.name}: "
        f"{', '.join(f.value for f in gained) or 'none'}"
    )
    say(f"features lost: {', '.join(f.value for f in lost) or 'none'}")


def _write_pages(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    pages = documentation.pages()
    for name, text in pages.items():
        (directory / name).write_text(text, encoding="utf-8")
    say(f"{len(pages)} pages written to {directory}")
