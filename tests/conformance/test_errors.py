"""parley's table of error codes is the one in Apache Kafka's newest classes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.errors.broker import error_codes


@pytest.mark.jars
def test_error_codes_equal_kafkas(
    clients_class_paths: dict[str, str], run_java: Callable[..., bytes]
) -> None:
    printed = run_java(clients_class_paths["4.3.0"], "ErrorTable.java").decode()
    theirs = sorted(printed.splitlines(), key=lambda line: int(line.split()[0]))
    ours = [
        f"{code} {entry.name} {'retriable' if entry.retriable else '-'} "
        f"{'refresh' if entry.refresh_metadata else '-'}"
        for code, entry in sorted(error_codes().items())
    ]
    assert ours == theirs


@pytest.mark.jars
def test_no_code_changed_its_name_since_3_9(
    clients_class_paths: dict[str, str], run_java: Callable[..., bytes]
) -> None:
    printed = run_java(clients_class_paths["3.9.1"], "ErrorTable.java").decode()
    names = {int(code): name for code, name, *_ in map(str.split, printed.splitlines())}
    assert {code: error_codes()[code].name for code in names} == names
