"""Every example in a docstring or in a document runs, or says why it is only a fragment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .examples import DOCUMENTS, blocks, cluster_of_examples, failures, modules, programs, run

ELSEWHERE = {
    "README.md": "tests/test_docs.py",
    "docs/how-to/testing.md": "tests/unit/devcluster/test_pytest_plugin.py",
    "docs/how-to/services.md": "tests/test_services.py",
    "docs/how-to/moving-aiokafka.md": "tests/test_moving.py",
    "docs/how-to/moving-confluent-kafka.md": "tests/test_moving.py",
    "docs/how-to/moving-kafka-python.md": "tests/test_moving.py",
}
"""Documents whose programs other tests run."""
MODULES = [name for name in modules() if name not in ("parley.spark", "parley.testing.realbroker")]
"""The two are run by tests/spark and by tests/real."""
PROGRAMS = [one for one in programs() if str(one[0]) not in ELSEWHERE and "pyspark" not in one[2]]


@pytest.fixture
def bootstrap_servers() -> Iterator[str]:
    """Each example has a cluster of its own (20 ms): two may name the same topic."""
    with cluster_of_examples() as servers:
        yield servers


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_docstrings_run(module: str, bootstrap_servers: str) -> None:
    assert failures(module, bootstrap_servers) == []


@pytest.mark.parametrize(
    ("document", "line", "text"), PROGRAMS, ids=[f"{name}:{line}" for name, line, _ in PROGRAMS]
)
def test_the_programs_of_documents_run(
    document: Path, line: int, text: str, bootstrap_servers: str
) -> None:
    run(document, line, text, bootstrap_servers)


def test_each_fragment_says_why_it_is_one() -> None:
    reasons = [
        reason for document in DOCUMENTS for _, _, reason in blocks(document) if reason is not None
    ]
    assert all(len(reason.split()) >= 3 for reason in reasons), reasons
