"""Finding and running the examples of docstrings and documents, beside an embedded
cluster that they can talk to.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import parley
from parley.client import Client
from parley.devcluster import LocalCluster
from parley_laboratory.shares import set_group

ROOT = Path(__file__).parent.parent
ADDRESS = "localhost:9092"
"""What stands in examples for a broker's address."""
REGISTRY = "http://localhost:8081"
"""What stands in examples for a schema registry's URL."""
_registries: list[str] = []
"""The registry of the cluster that runs for examples, if one does."""
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"^(?:<!-- fragment: (?P<reason>[^\n]+) -->\n)?```python\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    """Return every module of parley that has an example in a docstring."""
    found = pkgutil.walk_packages(parley.__path__, "parley.")
    names = [
        "parley",
        *(one.name for one in found if not one.name.endswith(("__main__", "._native"))),
    ]
    return [name for name in names if ">>> " in source_of(name)]


def source_of(module: str) -> str:
    """Return the text of a module, without importing it."""
    base = ROOT / "src" / Path(*module.split("."))
    return next(p for p in (base / "__init__.py", base.with_suffix(".py")) if p.exists()).read_text(
        encoding="utf-8"
    )


def failures(module: str, bootstrap_servers: str, **names: object) -> list[str]:
    """Run the examples of a module's docstrings; return what each failed one says."""
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=_FLAGS, verbose=False)
    imported = importlib.import_module(module)
    for one in doctest.DocTestFinder(recurse=True, exclude_empty=True).find(
        imported, module, extraglobs=names
    ):
        for example in one.examples:
            if doctest.SKIP in example.options:
                said.append(f"{one.name}: an example is skipped; let it run")
            example.source = _placed(example.source, bootstrap_servers)
        runner.run(one, out=said.append)
    return said


def blocks(document: Path) -> Iterator[tuple[int, str, str | None]]:
    """Yield each Python block of a document: its line, its text, and why it is a
    fragment, None for a whole program.
    """
    text = document.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        yield text.count("\n", 0, found.start("text")) + 1, found["text"], found["reason"]


def programs() -> list[tuple[Path, int, str]]:
    """Return every whole program of the documents: document, line and text."""
    return [
        (document.relative_to(ROOT), line, text)
        for document in DOCUMENTS
        for line, text, reason in blocks(document)
        if reason is None
    ]


def run(document: Path, line: int, text: str, bootstrap_servers: str) -> None:
    """Run a program in this process."""
    exec(
        compile(_placed(text, bootstrap_servers), f"{document}, line {line}", "exec"),
        {"__name__": "example"},
    )


def _placed(text: str, bootstrap_servers: str) -> str:
    registry = _registries[-1] if _registries else REGISTRY
    return text.replace(ADDRESS, bootstrap_servers).replace(REGISTRY, registry)


@contextmanager
def cluster_of_examples() -> Iterator[str]:
    """Yield the address of a cluster that has what examples read and write."""
    with (
        LocalCluster(brokers=1, schema_registry=True) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        for topic in ("flights", "copies", "in", "out"):
            cluster.create_topic(topic, partitions=1)
        for group in ("jobs", "tasks", "workers", "checkers", "columns", "filters"):
            set_group(cluster.broker(1).address, group, {"share.auto.offset.reset": "earliest"})
        client.produce("flights", pa.table({"key": ["osl", "kef"], "value": ["SK4035", "FI318"]}))
        _registries.append(cluster.schema_registry.url)
        try:
            yield cluster.bootstrap_servers
        finally:
            _registries.pop()
