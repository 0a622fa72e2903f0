"""What pipelines/pyproject.toml cannot say: version, address, licences and the choice of
modules are kafka-parley's.
"""

from __future__ import annotations

import runpy
from pathlib import Path

FOLDER = Path(__file__).resolve().parent

if __name__ == "__main__":
    parley = runpy.run_path(str(FOLDER.parent / "setup.py"))
    parley["setup_part"](FOLDER, cmdclass={"build_py": parley["BuildPart"]})
