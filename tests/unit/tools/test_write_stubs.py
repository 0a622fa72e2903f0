"""The types of messages are what the definitions say: the file is written by one
command, and has what classes have.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import parley.messages
from parley.messages import (
    Message,
    MetadataRequest,
    MetadataResponse,
    Request,
    Response,
    class_names,
)
from parley.schema import data_names, record_names

ROOT = Path(__file__).parents[3]
STUBS = ROOT / "src" / "parley" / "messages" / "types.pyi"


def written() -> dict[Path, str]:
    specification = importlib.util.spec_from_file_location(
        "write_stubs", ROOT / "tools" / "write_stubs.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return {path: text() for path, text in module.STUBS.items()}


def fields(body: list[ast.stmt]) -> list[str]:
    return [
        part.target.id
        for part in body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    ]


def classes(body: list[ast.stmt]) -> dict[str, ast.ClassDef]:
    return {part.name: part for part in body if isinstance(part, ast.ClassDef)}


def test_the_files_are_what_the_command_writes() -> None:
    texts = written()
    assert {path.name for path in texts} == {"types.pyi", "codes.pyi", "__init__.py"}
    for path, text in texts.items():
        assert path.read_text("utf-8") == text, "run: python tools/write_stubs.py"


def test_each_message_and_its_structs_are_there_with_all_fields() -> None:
    known = classes(ast.parse(STUBS.read_text("utf-8")).body)
    names = {*class_names(), *data_names(), *record_names()}
    assert known.keys() - {"Records"} == names
    for name in sorted(names):
        made: type[Message] = getattr(parley.messages, name)
        inner = classes(known[name].body)
        assert fields(known[name].body) == [field.name for field in made.FIELDS]
        assert inner.keys() == made.STRUCTS.keys()
        for struct, found in made.STRUCTS.items():
            assert fields(inner[struct].body) == [field.name for field in found.FIELDS], (
                f"{name}.{struct}"
            )


def test_nothing_of_it_is_there_at_run_time() -> None:
    module = ast.parse(STUBS.with_suffix(".py").read_text("utf-8"))
    assert len(module.body) == 1  # its docstring


def test_a_request_is_known_as_one_and_so_is_a_response() -> None:
    assert issubclass(MetadataRequest, Request)
    assert issubclass(MetadataResponse, Response)
    assert not issubclass(MetadataResponse, Request)


def test_what_type_checkers_read_is_not_imported() -> None:
    program = "import sys, parley; print('typing' in sys.modules, 'parley.client' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert ran.stdout.split() == ["False", "False"]
