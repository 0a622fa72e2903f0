"""What mkdocs does beside building docs/: the reference is made from the code, and files outside
docs/ become pages.

mkdocs loads this file (`hooks` in mkdocs.yml). Nothing that it makes is written into the
repository.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reference import pages

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {
    "changes.md": "CHANGELOG.md",
    "proof/measurements.md": "benchmarks/RESULTS.md",
    "proof/pictures/leader-moves.svg": "benchmarks/pictures/leader-moves.svg",
    "proof/pictures/rebalance.svg": "benchmarks/pictures/rebalance.svg",
}
"""Path in the site → path in the repository, for what lies outside docs/."""
_IN_SITE = {repository: site for site, repository in OUTSIDE.items()}
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
_CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
_CODE = re.compile(r"(?<=<code>)[^<]*(?=</code>)")
_JOINT = re.compile(r"([_./:]+)(?=\w)")
_FOREIGN = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    for path, repository in OUTSIDE.items():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / repository)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Make links that lead through the repository lead through the site."""
    return links_of_the_site(markdown, page.file.src_uri)


def links_of_the_site(markdown: str, path: str) -> str:
    """Return a page's text with each link to a file of the repository as a link of the site."""
    folder = posixpath.dirname(OUTSIDE.get(path, f"docs/{path}"))

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[1]))
        site = _IN_SITE.get(target) or target.removeprefix("docs/")
        if site == target:
            return found[0]  # outside of the site: the strict build complains
        return f"]({posixpath.relpath(site, posixpath.dirname(path) or '.')}"

    return _LINK.sub(link, markdown)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Let long names in tables break at their joints. Refuse a page that loads
    something from another host.
    """
    foreign = from_elsewhere(output)
    if foreign:
        from mkdocs.exceptions import PluginError

        raise PluginError(f"{page.file.src_uri} loads something from elsewhere: {foreign}")
    return with_breaks(output)


def from_elsewhere(html: str) -> str:
    """Return the first tag that would load something from another host, or an empty text."""
    found = _FOREIGN.search(html)
    return found[0] if found else ""


def with_breaks(html: str) -> str:
    """Return a page in which code in tables may break behind a dot, a colon, a
    slash or an underscore.
    """
    return _CELL.sub(
        lambda cell: _CODE.sub(lambda code: _JOINT.sub(r"\1<wbr>", code[0]), cell[0]), html
    )
