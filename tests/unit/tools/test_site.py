"""The documentation's site: every page is in its menu, every link leads somewhere, the
reference leaves nothing out.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import parley
import parley.client
import parley.devcluster
from parley import errors
from parley.cli.commands import COMMANDS
from parley.spark.options.texts import OPTIONS

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
SCHEMAS = ("parley.registry", "parley.serdes")
JOBS = [f"parley.pipelines.{name}" for name in ("replication", "replay", "verify", "declared")]
IN_REPOSITORY = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


@pytest.fixture(scope="module")
def hooks() -> Iterator[ModuleType]:
    """tools/site_hooks.py, imported as mkdocs does, but without mkdocs."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        yield importlib.import_module("site_hooks")
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def reference(hooks: ModuleType) -> dict[str, str]:
    made: dict[str, str] = hooks.pages()
    return made


def menu(entry: Any) -> Iterator[str]:
    """Yield the pages of a part of the menu."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for below in entry.values():
            yield from menu(below)
    else:
        for below in entry:
            yield from menu(below)


def test_the_menu_has_every_page_once(hooks: ModuleType, reference: dict[str, str]) -> None:
    configured = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    written = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    outside = [path for path in hooks.OUTSIDE if path.endswith(".md")]
    assert sorted(menu(configured["nav"])) == sorted([*written, *reference, *outside])


@pytest.mark.parametrize(
    "document", IN_REPOSITORY, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_links_lead_to_files_of_the_repository(document: Path, reference: dict[str, str]) -> None:
    text = re.sub(
        r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    made = {(DOCS / path).resolve() for path in reference}
    for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text):
        found = (document.parent / target).resolve()
        assert found.exists() or found in made, f"{target} leads nowhere"


def test_links_through_the_repository_become_links_of_the_site(hooks: ModuleType) -> None:
    assert (
        hooks.links_of_the_site("[a](docs/guide/spark.md#b)", "changes.md")
        == "[a](guide/spark.md#b)"
    )
    assert (
        hooks.links_of_the_site("[a](../../benchmarks/RESULTS.md)", "proof/faults.md")
        == "[a](measurements.md)"
    )
    assert (
        hooks.links_of_the_site("[a](../proof/faults.md)", "guide/spark.md")
        == "[a](../proof/faults.md)"
    )
    assert (
        hooks.links_of_the_site("[a](https://b.org/c)", "guide/spark.md") == "[a](https://b.org/c)"
    )


def test_long_names_break_at_their_joints_in_tables_only(hooks: ModuleType) -> None:
    page = "<td><code>ssl_cafile</code> a_b</td><code>ssl_cafile</code>"
    assert (
        hooks.with_breaks(page)
        == "<td><code>ssl_<wbr>cafile</code> a_b</td><code>ssl_cafile</code>"
    )


def test_a_page_that_loads_from_another_host_is_found(hooks: ModuleType) -> None:
    assert hooks.from_elsewhere('<script src="https://cdn.example/a.js">')
    assert hooks.from_elsewhere('<link href="//fonts.example/a.css">')
    assert not hooks.from_elsewhere(
        '<a href="https://example.com/">x</a><script src="assets/a.js"></script>'
    )


@pytest.mark.parametrize(
    "package", [parley, parley.client, parley.devcluster], ids=lambda one: one.__name__
)
def test_the_reference_has_every_public_name_with_its_methods(
    package: Any, reference: dict[str, str]
) -> None:
    everything = "".join(reference.values())
    for name in package.__all__:
        assert f"## `{name}` {{#" in everything, name
        thing = getattr(package, name)
        own = vars(thing).items() if inspect.isclass(thing) else ()
        for method in (
            key for key, one in own if inspect.isfunction(one) and not key.startswith("_")
        ):
            assert f"{{#{name}.{method}}}" in everything, f"{name}.{method}"


def test_parts_that_a_class_owns_are_among_its_fields(reference: dict[str, str]) -> None:
    assert "| `transactions` | `Transactions` | " in reference["reference/client.md"]


def test_the_list_of_names_leads_to_each(reference: dict[str, str]) -> None:
    links = re.findall(r"\]\(([a-z]+\.md)#([\w.]+)\)", reference["reference/index.md"])
    schemas = [name for module in SCHEMAS for name in importlib.import_module(module).__all__]
    assert len(links) == (
        len({*parley.__all__, *parley.client.__all__})
        + len(parley.devcluster.__all__)
        + len(set(schemas))
        + sum(len(importlib.import_module(module).__all__) for module in JOBS)
    )
    for page, place in links:
        assert f"{{#{place}}}" in reference[f"reference/{page}"], f"{page}#{place}"


def test_the_reference_has_every_option_with_type_and_meaning(reference: dict[str, str]) -> None:
    page = reference["reference/options.md"]
    groups = (parley.ClientOptions, parley.FetchOptions, parley.ProduceOptions)
    for group in (*groups, parley.ConsumerOptions, parley.ShareConsumerOptions):
        for field in dataclasses.fields(group):
            row = re.search(
                rf"^\| `{field.name}`(?:<br>`[a-z.]+`)? \| `(.+)` \| .+ \| (.+) \|$",
                page,
                re.MULTILINE,
            )
            assert row is not None, field.name
    for option in OPTIONS:
        assert f"| `{option.name}` |" in reference["reference/spark.md"]


def test_the_reference_has_every_command_with_its_options(reference: dict[str, str]) -> None:
    page = reference["reference/commands.md"]
    for command in COMMANDS:
        assert f"`parley {command}`" in page
    for below in ("parley cluster start", "parley cluster ctl"):
        section = page.partition(f"`{below}`")[2].partition("\n#")[0]
        assert "--data-dir" in section


def test_the_reference_has_every_error(reference: dict[str, str]) -> None:
    page = reference["reference/errors.md"]
    public = [getattr(errors, name) for name in errors.__all__]
    for one in public:
        if inspect.isclass(one) and issubclass(one, errors.KafkaError):
            assert f"## `{one.__name__}`" in page
    for code in errors.BrokerError.by_code:
        assert f"\n| {code} | " in page


def test_what_builds_the_site_is_pinned(hooks: ModuleType) -> None:
    pinned = {
        line.partition("==")[0]
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    }
    wanted = importlib.import_module("set_up_docs").requirements()
    assert {re.split(r"[<>=]", one)[0] for one in wanted} <= pinned
