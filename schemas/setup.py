"""What schemas/pyproject.toml cannot say: version, address and licences are kafka-parley's, and the
module is compiled from native-schemas.
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent

if __name__ == "__main__":
    parley = runpy.run_path(str(ROOT / "setup.py"))
    # What both crates are made of is built once.
    os.environ.setdefault("CARGO_TARGET_DIR", str(ROOT / "native" / "target"))
    crate = ROOT / "native-schemas" / "Cargo.toml"
    parley["setup_part"](FOLDER, **parley["native_arguments"]("parley.serdes._native", crate))
