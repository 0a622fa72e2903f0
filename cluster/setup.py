"""What cluster/pyproject.toml cannot say: version, address, licences and the choice of
modules are kafka-parley's.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType

from setuptools import setup

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("parley_setup", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    if "sdist" in sys.argv:
        raise SystemExit(
            "parley: kafka-parley-cluster has no sdist of its own; that of kafka-parley has "
            "its sources"
        )
    parley = load(ROOT / "setup.py")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licences = [Path(shutil.copy(ROOT / name, HERE)) for name in project["license-files"]]
    try:
        setup(
            version=parley.version(),
            install_requires=[f"kafka-parley=={parley.version()}"],
            project_urls=project["urls"],
            cmdclass={"build_py": parley.BuildPart},
            options={"egg_info": {"egg_base": "."}},
        )
    finally:
        for copied in licences:
            copied.unlink()


if __name__ == "__main__":
    main()
