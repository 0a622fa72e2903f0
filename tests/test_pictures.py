"""The pictures in docs are what the commands print now."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_making_the_pictures_again_gives_the_same_bytes() -> None:
    spec = importlib.util.spec_from_file_location(
        "make_pictures", ROOT / "tools" / "make_pictures.py"
    )
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    made = tool.pictures()
    assert {path.name for path in (ROOT / "docs" / "proof" / "pictures").iterdir()} == set(made)
    for name, text in made.items():
        kept = (ROOT / "docs" / "proof" / "pictures" / name).read_text(encoding="utf-8")
        assert text == kept, (
            f"docs/proof/pictures/{name} is out of date: run `python tools/make_pictures.py`"
        )
        assert "@font-face" not in text, "a picture must load nothing"


def test_every_picture_is_shown_somewhere() -> None:
    shown = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    for path in (ROOT / "docs" / "proof" / "pictures").iterdir():
        assert f"pictures/{path.name})" in shown
