"""The map of a package, in its docstring, names its modules: all of them, and none that is gone."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "check_maps.py"


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_maps", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_map_is_what_is_there(tool: ModuleType) -> None:
    assert list(tool.complaints()) == []


def test_what_a_map_lacks_or_has_too_much_is_named(tool: ModuleType, tmp_path: Path) -> None:
    rooms = {
        "good": '"""Good.\n\nMap: `one`, and `two`.\n"""\n',
        "lacks": '"""Lacks.\n\nMap: `one`.\n"""\n',
        "more": '"""More.\n\nMap: `one`, `two` and `three`.\n"""\n',
        "none": '"""None."""\n',
        "long": '"""Long.\n\nMap: `one`\n' + "and so on\n" * 8 + '`two`\n"""\n',
        "rule": '"""Handlers: one module per API."""\n',
    }
    for name, text in rooms.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
        for module in ("one", "two"):
            (tmp_path / name / f"{module}.py").write_text(f'"""Module {module}."""\n')
    (tmp_path / "good" / "two.py").write_text("x = 1\n")
    found = sorted(text.replace(str(tmp_path), "") for text in tool.complaints(tmp_path))
    assert found == [
        "/good/two.py has no docstring to say what it is for",
        "/lacks: its map does not name two",
        "/long: its map has 10 lines; 8 are the limit: make rooms",
        "/more: its map names three, which is not there",
        "/none: its docstring has no map of one, two",
    ]
