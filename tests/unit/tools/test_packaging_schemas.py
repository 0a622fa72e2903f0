"""The distribution of the compiled decoder: its version, what it requires, what it is made of."""

from __future__ import annotations

import tomllib
from typing import Any

import parley

from .test_packaging import ROOT, load


def described(*path: str) -> dict[str, Any]:
    return tomllib.loads(ROOT.joinpath(*path).read_text(encoding="utf-8"))


def test_the_decoder_of_schemas_goes_with_the_parley_of_its_version() -> None:
    pyproject, schemas = described("pyproject.toml"), described("schemas", "pyproject.toml")
    extras = load(ROOT / "setup.py").extras(pyproject["tool"]["parley"]["extras"])
    assert extras["schemas"] == [f"kafka-parley-schemas=={parley.__version__}"]
    assert {"version", "dependencies"} <= set(schemas["project"]["dynamic"])
    wheels, own = pyproject["tool"]["cibuildwheel"], schemas["tool"]["cibuildwheel"]
    assert (own["build"], own["linux"]) == (wheels["build"], wheels["linux"])
    for name in ("requires-python", "license", "license-files"):
        assert schemas["project"][name] == pyproject["project"][name]


def test_the_decoder_is_one_module_and_builds_what_the_kernel_builds() -> None:
    assert described("schemas", "pyproject.toml")["tool"]["setuptools"]["packages"] == []
    kernel, decoder = (described(one, "Cargo.toml") for one in ("native", "native-schemas"))
    assert decoder["package"]["rust-version"] == kernel["package"]["rust-version"]
    assert decoder["dependencies"] == {"pyo3": kernel["dependencies"]["pyo3"]}
    locked, ours = (
        {(one["name"], one["version"]) for one in described(folder, "Cargo.lock")["package"]}
        for folder in ("native", "native-schemas")
    )
    assert {name for name, _ in ours - locked} == {"parley-schemas"}, "else pyo3 is built twice"
